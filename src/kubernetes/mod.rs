//! Adapter: Kubernetes clusters. Connects, lists nodes and storage classes, applies and reads services, waits for rollouts.
//!
//! What is not here: any decision on GPUs, kinds, prices or placement; `crate::capacity` makes those. Arrows: this room
//! imports `crate::capacity` and nothing else of ours. `kube` and `k8s-openapi` are imported nowhere else.

mod access;
mod apply;
mod cancel;
mod config;
mod conflict;
mod connect;
mod credential;
mod delete;
mod error;
mod nodes;
mod objects;
mod once;
mod proxy;
mod request;
mod resolve;
pub mod rollout;
mod storage;
mod target;
pub mod workload;

pub use access::fix_for_nodes;
pub use apply::{Applied, ApplyFailure, ApplyOptions};
pub use cancel::Cancel;
pub use config::{ConnectionConfig, ExecConfig};
pub use conflict::FieldConflict;
pub use connect::Cluster;
pub use delete::Deletion;
pub use error::{Cause, Error, ObjectName};
pub use objects::{Found, Kind};
pub use storage::StorageClass;
pub use target::TargetUid;
