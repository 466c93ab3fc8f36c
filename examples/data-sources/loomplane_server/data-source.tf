# The check of the server `rack1`: nvidia-smi and Docker are asked over SSH.
data "loomplane_server" "rack1" {
  name = "rack1"
}

output "rack1" {
  value = coalesce(data.loomplane_server.rack1.reason, "can take GPU work")
}

# Cards that can be given to a service and that nobody holds.
output "free" {
  value = [
    for card in coalesce(data.loomplane_server.rack1.gpus, []) : card.uuid
    if card.usable && length(card.held_by) == 0
  ]
}
