# Two HGX A100 machines, shared by rented VMs, a chat model and interruptible batch VMs. When there is not enough, the rentals come
# first, and batch VMs lose their cards first, with two minutes' notice.
resource "loomplane_capacity_set" "a100" {
  name     = "a100"
  cluster  = "prod"
  gpu_kind = "nvidia-a100-80gb"
  fabric   = "nvswitch"
  nodes    = ["gpu-1", "gpu-2"]

  pools = {
    rentals = { type = "on_demand", rank = 1, ceiling = 8 }
    chat    = { type = "inference", rank = 2, floor = 2, ceiling = 8, replicas = { min = 1, max = 4 }, gpus_per_replica = 2 }
    batch   = { type = "spot", rank = 3, notice_seconds = 120 }
  }

  # Let Loomplane install the definition of the kind CapacitySet when the cluster lacks it.
  install_crd = true

  # A set starts in dry_run: the plan is published, nothing is moved. "enforce" turns it on, and the plan then says who loses what.
  mode = "dry_run"
}

# Every node with a label: nodes that join later are in the set too, and those that do not fit are listed in nodes_refused.
resource "loomplane_capacity_set" "l4" {
  name          = "l4"
  cluster       = "prod"
  gpu_kind      = "nvidia-l4"
  fabric        = "pcie"
  node_selector = { "example.net/fleet" = "l4" }

  pools = {
    rentals = { type = "on_demand", rank = 1 }
    batch   = { type = "spot", rank = 2 }
  }
}

output "a100" {
  value = {
    plan    = loomplane_capacity_set.a100.preview.lines
    waiting = { for claim in loomplane_capacity_set.a100.preview.waiting : claim.claim => claim.code }
    free    = loomplane_capacity_set.a100.free_blocks
  }
}
