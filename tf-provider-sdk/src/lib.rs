//! The Terraform plugin protocol (version 6) in Rust: write a provider's resources as plain structs.

pub mod field;
pub mod generated;
mod handshake;
pub mod log;
mod mtls;
pub mod panic;
pub mod path;
pub mod serve;
pub mod stop;
