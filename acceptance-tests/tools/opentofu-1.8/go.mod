module loomplane-bench/opentofu-1.8

go 1.22

require github.com/opentofu/opentofu v1.8.8
