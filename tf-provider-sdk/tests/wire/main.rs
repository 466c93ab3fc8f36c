//! The wire, from both ends: `proto/` against the table of the protocol, generated code against a fresh run, and a real plugin process
//! against a host of our own that does what Terraform does, and against Terraform itself.

// Failing is what tests are for.
#![allow(clippy::expect_used, clippy::unwrap_used)]

mod authentication;
mod calls;
mod generated;
mod handshake;
mod host;
mod lifetime;
mod probe;
mod proto;
mod terraform;
