//! The Terraform plugin protocol (version 6) in Rust: write a provider's resources as plain structs.

pub mod field;
pub mod generated;
pub mod msgpack;
pub mod number;
pub mod path;
pub mod types;
pub mod value;
