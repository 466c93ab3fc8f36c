//! Acceptance tests: the provider against real parts. One binary, so that it links once.
//!
//! | module | what it is |
//! |---|---|
//! | `parts` | which tools are there; a part that can't start is skipped with one line, and fails when `CI=true` |
//! | `cluster` | a real control plane with simulated GPU nodes: the shared one, or one of a test's own |
//! | `terraform` | drives the real Terraform and OpenTofu CLIs |
//! | `fault_proxy` | stands before the API server and makes it slow, throttling, broken |
//! | `scenarios` | whole stories of a user with the provider on a cluster |
//! | `servers` | simulated GPU servers: a real sshd and Docker Engine each, a stand-in `nvidia-smi` |
//! | `capacity_cases` | the reference cases of capacity sets, through `capacity plan` |
//! | `capacity_sets` | `loomplane_capacity_set` and its preview, on a real API server through the real CLI |
//! | `protocol` | who may speak to the provider's binary |
//! | `layering` | holds the source to the arrows and crates of ARCHITECTURE.md |
//! | `fresh` | generated files equal a fresh run; what documentation shows is valid |
//!
//! Each further module is one subject of tests.

#![allow(
    missing_docs,
    unreachable_pub,
    dead_code,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stderr,
    clippy::disallowed_methods,
    reason = "a test that can't go on must panic and say why; the harness offers more than each day's tests use"
)]

mod capacity_cases;
mod capacity_sets;
mod cluster;
mod fault_proxy;
mod fresh;
mod kubernetes_adapter;
mod layering;
mod parts;
mod protocol;
mod scenarios;
mod server_scenarios;
mod servers;
mod ssh_adapter;
mod terraform;
