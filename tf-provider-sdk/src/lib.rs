//! The Terraform plugin protocol (version 6) in Rust: write a provider's resources as plain structs.
//!
//! | to write | read |
//! |---|---|
//! | a provider | [`provider`], [`serve::provider`]; [`prelude`] has all of it in one line |
//! | a resource, data source, ephemeral resource, function | [`resource`], [`data_source`], [`ephemeral`], [`mod@function`] |
//! | its attributes | [`field`], [`timeouts`]; [`schema`] is what is made of them |
//! | what an operation does beside its values | [`context`], [`diagnostic`], [`log`] |
//!
//! Below that lie [`rpc`] (protocol messages to values and back), [`plan`] (the engine), [`value`], [`types`] and [`number`] with their
//! codecs [`msgpack`] and [`json`], and [`serve`] (handshake, TLS, the life of the process). `README.md` is the guide.

pub mod context;
pub mod data_source;
pub mod de;
pub mod describe;
pub mod diagnostic;
pub mod ephemeral;
mod erased;
pub mod field;
pub mod function;
pub mod generated;
mod handshake;
pub mod json;
pub mod log;
pub mod msgpack;
mod mtls;
pub mod number;
pub mod panic;
pub mod path;
pub mod plan;
pub mod prelude;
pub mod provider;
pub mod resource;
pub mod rpc;
pub mod schema;
pub mod ser;
pub mod serve;
pub mod stop;
pub mod timeouts;
pub mod types;
pub mod value;
