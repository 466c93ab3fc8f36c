locals {
  # From a node label, from nvidia-smi, or an ID as it is: all three are "nvidia-h100-80gb".
  from_label      = provider::loomplane::gpu_kind("NVIDIA-H100-80GB-HBM3")
  from_nvidia_smi = provider::loomplane::gpu_kind("NVIDIA H100 PCIe")
  from_id         = provider::loomplane::gpu_kind("nvidia-h100-80gb")
}

# A text that means no kind is an error; `can` turns that into a question.
output "b200_is_known" {
  value = can(provider::loomplane::gpu_kind("NVIDIA-B200"))
}
