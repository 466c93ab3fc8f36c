//! Values in JSON, as Terraform keeps them in its state.
//!
//! Numbers have any precision there, a dynamic value is `{"value": ..., "type": ...}` with either first, and unknown values have no form.
//! The reader goes through the text and the type at once and keeps numbers as text until they are numbers: serde_json
//! would do that only if every user of it in the program did.

mod decode;
mod encode;
mod scanner;

pub use crate::value::{DecodeError, EncodeError};
pub use decode::{decode, decode_lenient};
pub use encode::encode;

#[cfg(test)]
mod tests;
