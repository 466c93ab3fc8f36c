# 1,000 services of ours, on a real API server with a small GPU fleet: unlike the peer, the provider reads its nodes.
terraform {
  required_providers {
    loomplane = { source = "loomplane/loomplane" }
  }
}

variable "config_path" {
  type = string
}

provider "loomplane" {
  clusters = {
    bench = { config_path = var.config_path }
  }
}

resource "loomplane_gpu_service" "bench" {
  count  = 1000
  name   = "service-${count.index}"
  image  = "registry.example/inference:1"
  target = "bench"
  size   = { cpu = 1, memory = 1024, gpu = { kind = "nvidia-l4", count = 1 } }
  env    = { MODEL = "small", INDEX = tostring(count.index) }
  ports  = [{ port = 8000, name = "http", protocol = "TCP" }]
}
