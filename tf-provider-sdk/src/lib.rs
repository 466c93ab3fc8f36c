//! The Terraform plugin protocol (version 6) in Rust: write a provider's resources as plain structs.

pub mod de;
pub mod field;
pub mod json;
pub mod msgpack;
pub mod number;
pub mod path;
pub mod ser;
pub mod types;
pub mod value;
