# Services to apply for real, none waited for.
terraform {
  required_providers {
    loomplane = { source = "loomplane/loomplane" }
  }
}

variable "config_path" {
  type = string
}

variable "namespace" {
  type = string
}

variable "services" {
  type = number
}

provider "loomplane" {
  clusters = {
    bench = { config_path = var.config_path, namespace = var.namespace }
  }
}

resource "loomplane_gpu_service" "bench" {
  count  = var.services
  name   = "service-${count.index}"
  image  = "registry.example/inference:1"
  target = "bench"
  size   = { cpu = 1, memory = 1024, gpu = { kind = "nvidia-l4", count = 1 } }
  env    = { MODEL = "small", INDEX = tostring(count.index) }
  ports  = [{ port = 8000, name = "http", protocol = "TCP" }]
  wait   = false
}
