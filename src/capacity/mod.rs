//! The domain: what a GPU request means, whether a target can meet it, and at what price.
//!
//! Pure: no I/O, no async, no clock, no randomness, no environment, no logging. Imports no other room.

pub mod arbiter;
pub mod fabric;
pub mod node;
