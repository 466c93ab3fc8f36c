# On a cluster TARGET/NAMESPACE/NAME, on an own server SERVER/NAME.
# One replica, which is what Kubernetes assumes, reads as `replicas` not set.
terraform import loomplane_gpu_service.llm prod/inference/llm
terraform import loomplane_gpu_service.notebook rack1/notebook
