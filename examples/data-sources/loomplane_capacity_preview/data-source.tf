# What would one more on-demand VM of 4 GPUs take, and from whom?
data "loomplane_capacity_preview" "one_more" {
  cluster = "prod"
  set     = "a100"
  claim   = { pool = "rentals", gpus = 4 }
}

output "one_more" {
  value = {
    answer = data.loomplane_capacity_preview.one_more.answer
    loses  = [for loss in data.loomplane_capacity_preview.one_more.loses : "${loss.claim} loses ${loss.gpus} GPUs on ${loss.node}"]
  }
}

# What if batch came before chat, with a floor of its own, and gpu-2 were emptied?
data "loomplane_capacity_preview" "other_ranks" {
  cluster = "prod"
  set     = "a100"
  pools = {
    batch = { rank = 2, floor = 2 }
    chat  = { rank = 3 }
  }
  drain_nodes = ["gpu-2"]
}
