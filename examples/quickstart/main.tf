# One GPU service on a cluster: `terraform plan` says whether the request can be met, where, and what it costs.
# `make quickstart` runs this on a local control plane with a small GPU fleet.

terraform {
  required_providers {
    loomplane = {
      source = "loomplane/loomplane"
    }
  }
}

variable "config_path" {
  description = "Kubeconfig of the cluster."
  type        = string
  default     = "~/.kube/config"
}

variable "namespace" {
  description = "Namespace of the service."
  type        = string
  default     = "default"
}

variable "gpu_kind" {
  description = "GPU kind that the service asks for; the data source loomplane_gpu_kinds lists them."
  type        = string
  default     = "nvidia-l4"
}

variable "gpu_count" {
  description = "GPUs that the service asks for, on one node."
  type        = number
  default     = 1
}

provider "loomplane" {
  clusters = {
    quickstart = {
      config_path = var.config_path
      namespace   = var.namespace
    }
  }
}

resource "loomplane_gpu_service" "inference" {
  name     = "quickstart-inference"
  target   = "quickstart"
  image    = "registry.k8s.io/pause:3.10" # stands for your own server: it only waits
  replicas = 1

  size = {
    cpu    = 2
    memory = 4096 # MiB
    gpu = {
      kind  = var.gpu_kind
      count = var.gpu_count
    }
  }
}

output "nodes" {
  description = "The nodes that matched: groups with their GPUs per node."
  value       = loomplane_gpu_service.inference.nodes
}

output "price" {
  description = "The estimate, fit for reading."
  value       = loomplane_gpu_service.inference.price
}

output "hourly_usd" {
  description = "The estimate in US dollars an hour; null when unknown."
  value       = loomplane_gpu_service.inference.hourly_usd
}

output "monthly_usd" {
  description = "The estimate in US dollars a month; null when unknown."
  value       = loomplane_gpu_service.inference.monthly_usd
}
