# 1,000 services of the Go peer, whose schema is like loomplane_gpu_service's.
terraform {
  required_providers {
    peer = { source = "example/peer" }
  }
}

resource "peer_gpu_service" "bench" {
  count  = 1000
  name   = "service-${count.index}"
  image  = "registry.example/inference:1"
  target = "bench"
  gpu    = { kind = "nvidia-l4", count = 1 }
  env    = { MODEL = "small", INDEX = tostring(count.index) }
  ports  = [{ port = 8000, name = "http" }]
}
