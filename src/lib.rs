//! Loomplane: GPU work from `terraform plan`, on clusters, own servers and DigitalOcean GPU Droplets.

pub mod capacity;
pub mod kubernetes;
pub mod ssh;
