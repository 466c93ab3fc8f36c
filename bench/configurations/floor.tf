# The floor: 1,000 resources that need no plugin.
resource "terraform_data" "bench" {
  count = 1000
  input = "service-${count.index}"
}
