//! A GPU service as Kubernetes objects, both ways, without I/O: [`ServiceSpec`] says what is wanted, [`build`] writes the
//! objects, [`observe`] reads them back so that only real drift is a difference.

pub mod build;
mod claim;
pub mod identity;
mod narrow;
pub mod observe;
mod probes;
pub(super) mod quantity;
pub mod spec;
mod status;
#[cfg(test)]
mod tests;

pub use build::{Objects, SHM_VOLUME, build};
pub use claim::claim_problem;
pub use identity::Identity;
pub use observe::{Lens, Live, observe, unexpressed};
pub use spec::{
    AccessMode, EnvFrom, Gpu, HealthCheck, NodeOperator, NodeRequirement, NodeTerm, Placement,
    Port, Protocol, Rollout, RunAs, ServiceSpec, Toleration, TolerationOperator, Volume,
};
pub use status::Readiness;

/// Field manager of everything that Loomplane applies.
pub const FIELD_MANAGER: &str = "loomplane";
/// Label that marks what belongs to a service; also the selector of what Loomplane creates.
pub const SERVICE_LABEL: &str = "loomplane.dev/service";
/// Label of an object whose creation has begun and is not finished: the creation's own token, and when its holder last said that it
/// goes on. No annotation: controllers copy a Deployment's to its ReplicaSets, where they stay, and a rollback brings them back.
pub const UNFINISHED: &str = "loomplane.dev/unfinished";
/// Annotation of the pod template that makes a new `secret_env_version` restart the pods.
pub const SECRET_VERSION: &str = "loomplane.dev/secret-env-version";
/// Extended resource of an NVIDIA GPU.
pub const GPU_RESOURCE: &str = "nvidia.com/gpu";
