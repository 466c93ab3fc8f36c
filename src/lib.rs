//! Loomplane: GPU work from `terraform plan`, on clusters, own servers and DigitalOcean GPU Droplets.
//!
//! The rooms, and which way their arrows point (`acceptance-tests/layering.rs` holds the source to it):
//!
//! | room | what is in it | imports |
//! |---|---|---|
//! | [`capacity`] | the domain: kinds, labels, taints, prices, fit, the ledger of cards; pure | nothing |
//! | [`kubernetes`] | adapter: clusters | `capacity` |
//! | [`ssh`] | adapter: own servers, their Docker Engines and cards | `capacity` |
//! | [`provider`] | the Terraform face: configuration, resources, data sources, functions | the SDK, `capacity`, the adapters |
//! | [`docs`] | renders `docs/` from the schemas and `examples/` | the SDK, `provider` |

pub mod capacity;
pub mod docs;
pub mod kubernetes;
pub mod provider;
pub mod ssh;

/// The example in CONTRIBUTING.md compiles.
#[cfg(doctest)]
#[doc = include_str!("../CONTRIBUTING.md")]
struct Contributing;
