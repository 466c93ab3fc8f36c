# A CapacitySet that exists already, by CLUSTER/NAME: the connection's name and the object's.
import {
  to = loomplane_capacity_set.a100
  id = "prod/a100"
}
