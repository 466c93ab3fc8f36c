terraform import loomplane_capacity_set.a100 prod/a100
