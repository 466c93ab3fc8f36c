# The check of the connection `prod`: what a person would look at before asking for GPUs there.
data "loomplane_cluster" "prod" {
  name = "prod"
}

output "prod" {
  value = data.loomplane_cluster.prod.reason == null ? join(", ", data.loomplane_cluster.prod.kinds) : data.loomplane_cluster.prod.reason
}

# Node groups that give no whole GPUs, with the reason of each: shared, MIG, arm64, no device plugin.
output "unusable" {
  value = [for group in coalesce(data.loomplane_cluster.prod.gpus, []) : group.reason if !group.usable]
}

# Warns in every plan while the cluster can take no GPU work, with the reason.
check "gpus" {
  assert {
    condition     = coalesce(data.loomplane_cluster.prod.can_take_gpu_work, true) # null: the connection is not known yet
    error_message = coalesce(data.loomplane_cluster.prod.reason, "unknown")
  }
}
