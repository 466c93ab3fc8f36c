//! The data sources, one file each.

pub mod gpu_kinds;
pub mod gpu_targets;

pub use gpu_kinds::GpuKinds;
pub use gpu_targets::GpuTargets;
