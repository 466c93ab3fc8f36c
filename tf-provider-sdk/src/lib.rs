//! The Terraform plugin protocol (version 6) in Rust: write a provider's resources as plain structs.

pub mod field;
pub mod path;
