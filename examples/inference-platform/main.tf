# A team's inference services on one cluster: a map of services, one price for all, and a spending limit for each.
#
#   terraform plan -var kubeconfig=~/.kube/config -var context=prod

terraform {
  required_version = ">= 1.8"

  required_providers {
    loomplane = {
      source = "loomplane/loomplane"
    }
  }
}

provider "loomplane" {
  clusters = {
    main = {
      config_path     = var.kubeconfig
      config_context  = var.context
      namespace       = var.namespace
      storage_class   = var.storage_class
      gpu_node_groups = var.gpu_node_groups
    }
  }

  prices = var.prices
}

# What the cluster has, for one GPU: look here when a plan is refused.
data "loomplane_gpu_targets" "all" {}

resource "loomplane_gpu_service" "all" {
  for_each = var.services

  name     = each.key
  target   = "main"
  image    = each.value.image
  args     = each.value.args
  env      = each.value.env
  replicas = each.value.replicas

  size = {
    cpu    = each.value.cpu
    memory = each.value.memory
    shm    = each.value.shm
    gpu    = each.value.gpu
  }

  ports = [
    { name = "http", port = each.value.port },
  ]

  health_check = {
    http_path       = each.value.health_path
    port            = each.value.port
    startup_seconds = each.value.startup_seconds
  }

  volumes = each.value.volumes

  labels = {
    "app.kubernetes.io/part-of" = "inference"
  }

  max_hourly_usd = each.value.max_hourly_usd
}
