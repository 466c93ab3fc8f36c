//! Values in msgpack, as Terraform and its plugins send them to each other.
//!
//! Both ways go through the value and its type at once, in one pass. What is read may come from anybody: memory is bounded by the
//! length of the input, recursion by a constant, and no input panics.

mod decode;
mod encode;
mod reader;
mod refinement;
mod writer;

pub use crate::value::{DecodeError, EncodeError};
pub use decode::decode;
pub use encode::encode;
pub(crate) use refinement::{bytes as refinement_bytes, from_bytes as refinement_from_bytes};

/// The extension type of an unknown value of which something is known.
const REFINED: u8 = 12;

#[cfg(test)]
mod tests;
