terraform {
  required_providers {
    loomplane = {
      source = "loomplane/loomplane"
    }
  }
}

provider "loomplane" {
  clusters = {
    # The name is what `target` uses.
    prod = {
      config_path    = "~/.kube/config"
      config_context = "prod"
      namespace      = "inference"
      storage_class  = "retain-ssd" # for volumes: reclaim policy Retain
    }

    # Without a kubeconfig: address, certificate authority, and a credential plugin.
    eks = {
      host                   = "https://EXAMPLE.gr7.us-east-1.eks.amazonaws.com"
      cluster_ca_certificate = file("${path.module}/eks-ca.pem")
      exec = {
        api_version = "client.authentication.k8s.io/v1beta1"
        command     = "aws"
        args        = ["eks", "get-token", "--cluster-name", "EXAMPLE"]
      }

      # Nodes that do not exist yet: this group scales from zero.
      gpu_node_groups = {
        l4 = {
          kind          = "nvidia-l4"
          gpus_per_node = 1
          instance_type = "g6.xlarge"
          label         = { key = "k8s.amazonaws.com/accelerator", value = "nvidia-l4" }
          taints        = ["nvidia.com/gpu=present:NoSchedule"]
        }
      }
    }
  }

  # Own servers, over SSH: driver, Docker and the NVIDIA Container Toolkit are yours to install.
  servers = {
    rack1 = {
      host       = "gpu-01.example.net"
      user       = "ops"
      host_key   = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIEXAMPLEEXAMPLEEXAMPLEEXAMPLEEXAMPLEEXAM"
      hourly_usd = 1.20 # your own figure; without it the price is unknown
    }
  }

  # How to log in to servers that do not say it themselves.
  ssh = {
    private_key_path = "~/.ssh/id_ed25519"
  }

  # Your own prices go before the reference table.
  prices = {
    "aws:p5.48xlarge" = 55.04
  }
}
