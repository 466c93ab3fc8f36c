# A Deployment that exists already, by TARGET/NAMESPACE/NAME: the connection's name, the namespace, the Deployment.
import {
  to = loomplane_gpu_service.llm
  id = "prod/inference/llm"
}
