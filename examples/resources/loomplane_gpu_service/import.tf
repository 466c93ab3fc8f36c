# A Deployment that exists already, by TARGET/NAMESPACE/NAME: the connection's name, the namespace, the Deployment.
import {
  to = loomplane_gpu_service.llm
  id = "prod/inference/llm"
}

# A container on an own server, by SERVER/NAME.
import {
  to = loomplane_gpu_service.notebook
  id = "rack1/notebook"
}
