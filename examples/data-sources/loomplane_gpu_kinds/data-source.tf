data "loomplane_gpu_kinds" "all" {}

# The kinds with 40 GiB or more that a request can be made for.
output "large_kinds" {
  value = [
    for kind in data.loomplane_gpu_kinds.all.kinds : kind.id
    if kind.schedulable && kind.memory_mib >= 40 * 1024
  ]
}
