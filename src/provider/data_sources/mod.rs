//! The data sources, one file each.

mod gpu_kinds;
mod gpu_targets;

pub use gpu_kinds::GpuKinds;
pub use gpu_targets::GpuTargets;
