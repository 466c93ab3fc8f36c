# The check of the connection `prod`: what a person would look at before asking for GPUs there.
data "loomplane_cluster" "prod" {
  name = "prod"
}

output "prod" {
  value = data.loomplane_cluster.prod.can_take_gpu_work ? join(", ", data.loomplane_cluster.prod.kinds) : data.loomplane_cluster.prod.reason
}

# Warns in every plan while the cluster can take no GPU work, with the reason.
check "gpus" {
  assert {
    condition     = data.loomplane_cluster.prod.can_take_gpu_work
    error_message = coalesce(data.loomplane_cluster.prod.reason, "unknown")
  }
}
