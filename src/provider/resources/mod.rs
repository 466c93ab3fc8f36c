//! The resources, one folder each.

pub mod gpu_service;

pub use gpu_service::GpuService;
