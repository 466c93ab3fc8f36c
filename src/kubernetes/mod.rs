//! Adapter: Kubernetes clusters. Connects, lists nodes and storage classes, applies and reads services, waits for rollouts.
//!
//! What is not here: any decision on GPUs, kinds, prices or placement; `crate::capacity` makes those. Arrows: this room
//! imports `crate::capacity` and nothing else of ours. `kube` and `k8s-openapi` are imported nowhere else.
//!
//! # A service, from one end to the other
//! ```text
//! let config  = ConnectionConfig { config_path, .. }.with_environment(&|name| std::env::var(name).ok());
//! let cluster = Cluster::new("prod", config);                       // opens nothing yet; cheap to clone
//! let nodes   = cluster.nodes(keep_label, &cancel).await?;          // Arc<Vec<Node>>, one list per process
//! plan:    cluster.create_service(&spec, &ApplyOptions { dry_run: true, .. }, &cancel)   // optional
//! create:  cluster.create_service(&spec, &options, &cancel) -> Created { applied, taken_in, hold } | ApplyFailure { .. }
//!          cluster.wait_rollout(&namespace, &name, &limits, &cancel), beside it cluster.keep_hold(&hold, &cancel)
//!          cluster.release(&hold, &found, &cancel)                  // `found` of a fresh read_service
//! read:    match cluster.read_service(&namespace, &name, &cancel).await? {
//!              None        => gone (a proven 404, nothing else),
//!              Some(found) => workload::observe(&found.live, Lens::Prior(&spec_of_the_state)),
//!          }
//! import:  workload::observe(&found.live, Lens::Import), workload::unexpressed(&found.live) for a warning
//! update:  cluster.update_service(&found, &spec, &options, &cancel)  // `found` of a fresh read_service
//! delete:  cluster.delete_service(&Deletion { .. }, &cancel)
//! ```
//!
//! # The calls
//! ```text
//! Cluster::new(name: &str, config: ConnectionConfig) -> Cluster
//! Cluster::name(&self) -> &str
//! Cluster::default_namespace(&self, &Cancel) -> Result<String, Error>
//! Cluster::target_uid(&self, &Cancel) -> Result<TargetUid, Error>                    // Known(uid) | Forbidden
//! Cluster::nodes(&self, keep: fn(&str) -> bool, &Cancel) -> Result<Arc<Vec<Node>>, Error>
//! Cluster::forget_nodes(&self)
//! Cluster::storage_classes(&self, &Cancel) -> Result<Arc<Vec<StorageClass>>, Error>
//! Cluster::read_service(&self, namespace, name, &Cancel) -> Result<Option<Found>, Error>; refresh_service: the same, many share a list
//! Cluster::leftovers(&self, namespace, name, claims, &Cancel) -> Result<Vec<ObjectName>, Error>
//! Cluster::create_service(&self, &ServiceSpec, &ApplyOptions, &Cancel) -> Result<Created, ApplyFailure>
//! Cluster::kept_claims(&self, &ServiceSpec, &Cancel) -> Result<Vec<ObjectName>, Error>    // for a plan
//! Cluster::keep_hold(&self, &Hold, &Cancel) -> Error; release(&self, &Hold, &Found, &Cancel) -> Result<(), Error>
//! Cluster::update_service(&self, &Found, &ServiceSpec, &ApplyOptions, &Cancel) -> Result<Vec<Applied>, ApplyFailure>
//! Cluster::delete_service(&self, &Deletion, &Cancel) -> Result<(), Error>
//! Cluster::wait_rollout(&self, namespace, name, &RolloutLimits, &Cancel) -> Result<(), Error>
//! ConnectionConfig::with_environment(self, &dyn Fn(&str) -> Option<String>) -> ConnectionConfig
//! Cancel::never(); Cancel::from(tokio::sync::watch::Receiver<bool>)
//! crd: Cluster::{crd_state, may_install_crd, install_crd, capacity_set, capacity_sets, create_capacity_set, update_capacity_set, delete_capacity_set, observe_set, lease_holder}
//! Error::render(&self) -> String; is_forbidden, is_not_found, is_canceled
//! fix_for_nodes(identity: Option<&str>) -> String
//! workload::build(&ServiceSpec, &Identity) -> Objects
//! workload::observe(&Live, Lens<'_>) -> ServiceSpec
//! workload::unexpressed(&Live) -> Vec<String>
//! ```

mod access;
mod apply;
mod cancel;
mod config;
mod conflict;
mod connect;
pub mod crd;
mod credential;
mod delete;
mod error;
mod nodes;
mod objects;
mod once;
mod proxy;
mod refresh;
mod request;
mod resolve;
mod retry;
pub mod rollout;
mod storage;
mod target;
pub mod workload;

pub use access::fix_for_nodes;
pub use apply::{Applied, ApplyFailure, ApplyOptions, Created, Hold};
pub use cancel::Cancel;
pub use config::{ConnectionConfig, ExecConfig};
pub use conflict::FieldConflict;
pub use connect::Cluster;
pub use delete::Deletion;
pub use error::{Cause, Error, ObjectName};
pub use objects::{Found, Kind};
pub use storage::StorageClass;
pub use target::TargetUid;
