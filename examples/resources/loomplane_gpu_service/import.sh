terraform import loomplane_gpu_service.llm prod/inference/llm
