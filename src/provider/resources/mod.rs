//! The resources, one folder each.

pub mod capacity_set;
pub mod gpu_service;

pub use capacity_set::CapacitySet;
pub use gpu_service::GpuService;
