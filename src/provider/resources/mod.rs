//! The resources, one folder each.

mod gpu_service;

pub use gpu_service::GpuService;
