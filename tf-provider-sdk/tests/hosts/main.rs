//! Two providers written with this crate under real Terraform, and OpenTofu where there is one: the example of the README, and the
//! probe, which has every feature and misbehaves on request.

// Failing is what tests are for.
#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "tests drive other processes"
)]

mod attributes;
mod cli;
mod configuration;
mod example;
mod failures;
mod history;
mod scale;
mod small;
mod unknown;
