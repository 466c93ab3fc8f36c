# Where two L4 GPUs of one node can be had, and for how much.
data "loomplane_gpu_targets" "l4" {
  kind = "nvidia-l4"
  gpus = 2
}

output "l4" {
  value = {
    for row in data.loomplane_gpu_targets.l4.targets :
    row.target => row.usable ? row.price : row.reason
  }
}

# Everything that the configured connections have.
data "loomplane_gpu_targets" "all" {}

# The cheapest target that can run the work; a target whose price is unknown is left out.
locals {
  priced = [for row in data.loomplane_gpu_targets.l4.targets : row if row.usable && row.hourly_usd != null]
  least  = length(local.priced) > 0 ? min(local.priced[*].hourly_usd...) : null
}

output "cheapest" {
  value = [for row in local.priced : row.target if row.hourly_usd == local.least]
}
