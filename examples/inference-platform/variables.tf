variable "kubeconfig" {
  description = "Kubeconfig of the cluster."
  type        = string
  default     = "~/.kube/config"
}

variable "context" {
  description = "Context of the kubeconfig; null for its current one."
  type        = string
  default     = null
}

variable "namespace" {
  description = "Namespace of the services. It must exist."
  type        = string
  default     = "inference"
}

variable "storage_class" {
  description = "Storage class with reclaim policy Retain; needed as soon as a service has a volume."
  type        = string
  default     = null
}

variable "gpu_node_groups" {
  description = "Node groups that scale from zero, or that the credential can't list."
  type = map(object({
    kind          = string
    gpus_per_node = number
    instance_type = optional(string)
    label         = optional(object({ key = string, value = string }))
    taints        = optional(list(string))
  }))
  default = null
}

variable "prices" {
  description = "Your own prices in US dollars an hour, such as { \"aws:g6.xlarge\" = 0.61 }."
  type        = map(number)
  default     = {}
}

variable "services" {
  description = "The services, by name. Memory and shared memory are in MiB."
  type = map(object({
    image           = string
    args            = optional(list(string))
    env             = optional(map(string))
    replicas        = optional(number, 1)
    cpu             = optional(number, 4)
    memory          = optional(number, 16384)
    shm             = optional(number)
    gpu             = object({ kind = string, count = number })
    port            = optional(number, 8000)
    health_path     = optional(string, "/health")
    startup_seconds = optional(number, 600)
    max_hourly_usd  = optional(number)
    volumes         = optional(map(object({ mount_path = string, size_gib = number })))
  }))

  default = {
    llm = {
      image          = "registry.example.net/llm-server:1.4.2"
      cpu            = 4
      memory         = 24576
      shm            = 8192
      gpu            = { kind = "nvidia-l4", count = 1 }
      max_hourly_usd = 2
    }
    embeddings = {
      image    = "registry.example.net/embeddings:2.0.0"
      replicas = 2
      gpu      = { kind = "nvidia-l4", count = 1 }
    }
  }
}
