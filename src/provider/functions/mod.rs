//! The functions, one file each.

pub mod gpu_kind;
pub mod price_total;

pub use gpu_kind::GpuKind;
pub use price_total::PriceTotal;
