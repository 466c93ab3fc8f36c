data "loomplane_gpu_kinds" "all" {}

# What one GPU of each kind costs at least, by list price, and in which machine.
output "prices" {
  value = { for kind in data.loomplane_gpu_kinds.all.kinds : kind.id => kind.price }
}

# The kinds with 40 GiB or more that a request can be made for.
output "large_kinds" {
  value = [
    for kind in data.loomplane_gpu_kinds.all.kinds : kind.id
    if kind.schedulable && kind.memory_mib >= 40 * 1024
  ]
}
