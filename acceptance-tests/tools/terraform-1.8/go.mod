module loomplane-bench/terraform-1.8

go 1.22

require github.com/hashicorp/terraform v1.8.5
