//! The wire, from both ends: `proto/` against the table of the protocol, generated code against a fresh run, and a real plugin process
//! against a host of our own that does what Terraform does.

mod generated;
mod proto;
