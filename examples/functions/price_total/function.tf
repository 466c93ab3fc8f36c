variable "services" {
  description = "GPU kind by service."
  type        = map(string)
  default     = { llm = "nvidia-h100-80gb", embeddings = "nvidia-l4" }
}

resource "loomplane_gpu_service" "all" {
  for_each = var.services

  name   = each.key
  target = "prod"
  image  = "registry.example.net/${each.key}:1.0.0"
  size   = { cpu = 4, memory = 16384, gpu = { kind = each.value, count = 1 } }
}

# One service whose price is unknown makes the whole total unknown: `hourly_usd` is null then, `unknown` names it, and
# `at_least_usd` is the sum of the others.
output "total" {
  value = provider::loomplane::price_total({
    for name, service in loomplane_gpu_service.all : name => service.hourly_usd
  })
}
