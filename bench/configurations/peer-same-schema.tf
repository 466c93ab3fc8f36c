# The same 1,000 services, of a peer on the Go framework that declares the very schema of loomplane_gpu_service.
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
  size   = { cpu = 1, memory = 1024, gpu = { kind = "nvidia-l4", count = 1 } }
  env    = { MODEL = "small", INDEX = tostring(count.index) }
  ports  = [{ port = 8000, name = "http", protocol = "TCP" }]
}
