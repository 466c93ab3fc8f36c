//! The custom resource `CapacitySet`: its definition, installing it, reading and writing sets, and what a set's preview looks at.
//!
//! Cluster-scoped: a set names nodes, which have no namespace, and its claims may be in any; a node can be in one set only, which one list of all
//! sets can tell; and who may change it decides over everyone's GPUs, which is a cluster administrator's matter.
//!
//! - `types.rs` the object; `definition.rs` its definition as an object of the cluster (schema version, rules, YAML)
//! - `install.rs` whether the cluster has it, and installing it; `sets.rs` reading, making, changing, deleting sets
//! - `observe.rs` nodes and workloads of a set, from what `seen.rs` lists once for all sets; `lease.rs` who holds a set's lease; `list.rs` lists, page by page
//! - `convert.rs` between the object and the domain's own types

mod convert;
mod definition;
mod install;
mod lease;
mod list;
mod observe;
mod seen;
mod sets;
pub mod types;
mod yaml;

pub use convert::{definition_of, spec_of};
pub use definition::{CRD_NAME, SCHEMA_VERSION, definition, definition_yaml};
pub use install::{CrdState, fix_for_sets};
pub use lease::Holder;
pub(super) use seen::Seen;
pub use sets::FoundSet;
