output "services" {
  description = "Where each service may run, what it costs, and where it answers."
  value = {
    for name, service in loomplane_gpu_service.all : name => {
      admits   = service.placement.admits
      nodes    = service.nodes
      price    = service.price
      status   = service.status
      endpoint = service.endpoint
    }
  }
}

output "total" {
  description = "What all services cost together, in words."
  value = provider::loomplane::price_total({
    for name, service in loomplane_gpu_service.all : name => service.hourly_usd
  }).text
}

output "targets" {
  description = "The GPU kinds that the cluster has, and why one can't be used."
  value = {
    for row in data.loomplane_gpu_targets.all.targets :
    "${row.target}/${coalesce(row.kind, "none")}" => row.usable ? row.price : row.reason
  }
}
