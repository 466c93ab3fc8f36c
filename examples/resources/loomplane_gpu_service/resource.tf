# A model server on two L4 GPUs, one for each replica. The plan says whether the cluster has them, where the pods may run,
# and what that costs.
resource "loomplane_gpu_service" "llm" {
  name     = "llm"
  target   = "prod"
  image    = "registry.example.net/llm-server:1.4.2"
  args     = ["--port", "8000", "--model", "/models/current"]
  replicas = 2

  size = {
    cpu    = 4
    memory = 24576 # MiB
    shm    = 8192  # MiB of /dev/shm, out of memory
    gpu    = { kind = "nvidia-l4", count = 1 }
  }

  ports = [
    { name = "http", port = 8000 },
  ]

  health_check = {
    http_path       = "/health"
    port            = 8000
    startup_seconds = 900 # the model is loaded in that time
  }

  env_from = [
    { name = "REGISTRY_TOKEN", secret = "model-registry", key = "token" },
  ]

  # Refuse the plan when the estimate is above this, or unknown.
  max_hourly_usd = 2.50
}

# A secret that is in no state and no plan, only where the service runs. Write-only arguments need Terraform 1.11.
variable "api_key" {
  type      = string
  sensitive = true
  ephemeral = true
}

# One replica, with a volume for the weights that outlives the service.
resource "loomplane_gpu_service" "batch" {
  name   = "embeddings"
  target = "prod"
  image  = "registry.example.net/embeddings:2.0.0"

  size = {
    cpu    = 8
    memory = 65536
    gpu    = { kind = "nvidia-a100-80gb", count = 2 }
  }

  volumes = {
    weights = { mount_path = "/models", size_gib = 200 }
  }

  secret_env         = { API_KEY = var.api_key }
  secret_env_version = 1 # raise it with every new key

  timeouts = {
    create = "45m"
  }
}

# A container on an own server, with a whole GPU of its own.
resource "loomplane_gpu_service" "notebook" {
  name    = "notebook"
  target  = "rack1"
  image   = "registry.example.net/notebook:5.1.0"
  restart = "unless-stopped"

  size = {
    memory = 32768
    shm    = 8192
    gpu    = { kind = "nvidia-rtx-6000-ada", count = 1 }
  }

  ports = [
    { name = "http", port = 8888, host_port = 8888, host_ip = "127.0.0.1" },
  ]

  volumes = {
    home = { mount_path = "/home/work" }
  }
}

output "llm" {
  value = {
    where = loomplane_gpu_service.llm.placement.admits
    price = loomplane_gpu_service.llm.price
  }
}
