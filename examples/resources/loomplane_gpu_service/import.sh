# On a cluster TARGET/NAMESPACE/NAME, on an own server SERVER/NAME.
terraform import loomplane_gpu_service.llm prod/inference/llm
terraform import loomplane_gpu_service.notebook rack1/notebook
