//! The data sources, one file each.

pub mod capacity_preview;
pub mod cluster;
pub mod gpu_kinds;
pub mod gpu_targets;
pub mod server;

pub use capacity_preview::CapacityPreview;
pub use cluster::Cluster;
pub use gpu_kinds::GpuKinds;
pub use gpu_targets::GpuTargets;
pub use server::Server;
