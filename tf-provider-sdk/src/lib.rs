//! The Terraform plugin protocol (version 6) in Rust: write a provider's resources as plain structs.

pub mod context;
pub mod data_source;
pub mod de;
pub mod diagnostic;
pub mod ephemeral;
mod erased;
pub mod field;
pub mod function;
pub mod generated;
pub mod json;
pub mod log;
pub mod msgpack;
pub mod number;
pub mod panic;
pub mod path;
pub mod plan;
pub mod provider;
pub mod resource;
pub mod rpc;
pub mod schema;
pub mod ser;
pub mod stop;
pub mod timeouts;
pub mod types;
pub mod value;
