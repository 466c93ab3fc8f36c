//! The functions, one file each.

mod gpu_kind;
mod price_total;

pub use gpu_kind::GpuKind;
pub use price_total::PriceTotal;
