//! What `loomplane_gpu_service` is made of: the model, the schema and the documentation at once.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tf_provider_sdk::{
    field::{Computed, Maybe, Opt, OptionalComputed, Replace, Stable, WriteOnly},
    number::Number,
    timeouts::Timeouts,
};

/// A long-running container workload, with GPUs or without: on a cluster a Deployment, with a Service when it has ports; on an own
/// server a container of its Docker Engine.
///
/// A plan says whether the target can meet the request, where the work would run and at what estimated price; a request that it can't
/// meet fails the plan, with what was found. GPU work is never stopped, moved or scaled down but by what you apply.
///
/// A GPU service rolls out with one pod down instead of one more (`rollout`), since a full node has no room for both: a single replica
/// is down meanwhile.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct GpuService {
    /// Identifier: `NAMESPACE/NAME` on a cluster, `NAME` on a server.
    pub id: Stable<String>,
    /// Name of the Deployment and the Service, or of the container. A new name makes a new service.
    #[schemars(
        length(min = 1, max = 63),
        regex(pattern = "^[a-z]([-a-z0-9]*[a-z0-9])?$")
    )]
    pub name: Replace<Maybe<String>>,
    /// Name of the connection to run on. A connection that is renamed keeps the service; another cluster or server makes a new one.
    pub target: Maybe<String>,
    /// UID of the target: of the cluster's namespace `kube-system`, or the server's machine-id. Empty where it can't be read.
    pub target_uid: Stable<String>,
    /// Clusters: namespace. Without it the connection's.
    #[schemars(length(min = 1, max = 63))]
    pub namespace: Replace<OptionalComputed<String>>,
    /// Container image.
    #[schemars(length(min = 1))]
    pub image: Maybe<String>,
    /// Overrides the image's entrypoint.
    pub command: Opt<Vec<Maybe<String>>>,
    /// Arguments.
    pub args: Opt<Vec<Maybe<String>>>,
    /// Working directory.
    pub working_dir: Opt<String>,
    /// User that the container runs as: `UID` or `UID:GID`, on a cluster as numbers; on a server names too.
    pub user: Opt<String>,
    /// Environment. Stored in the state: use `secret_env` for secrets.
    pub env: Opt<BTreeMap<String, Maybe<String>>>,
    /// Clusters: environment from Secrets that exist already.
    pub env_from: Opt<Vec<EnvFrom>>,
    /// Secret environment: in no state, plan or log. On a cluster it is in the service's own Secret and nowhere else; on a server in the
    /// container's environment, which who may use its Docker can read. Raise `secret_env_version` when it changes.
    pub secret_env: WriteOnly<Opt<BTreeMap<String, Maybe<String>>>>,
    /// Version of `secret_env`: a new one writes the Secret again and restarts the pods.
    pub secret_env_version: Opt<i64>,
    /// Ports. On a cluster there is a Service of the same name when there is one; on a server those with `host_port` are published.
    pub ports: Opt<Vec<Port>>,
    /// Clusters: number of pods. Without it: 1, or what an autoscaler says.
    #[schemars(range(min = 0, max = 10000))]
    pub replicas: Opt<i64>,
    /// What each pod asks for.
    pub size: Opt<Size>,
    /// Persistent volumes by name: claims of the connection's `storage_class` on a cluster, Docker's named volumes on a server. They outlive the service unless `delete_on_destroy`.
    pub volumes: Opt<BTreeMap<String, Volume>>,
    /// HTTP health check.
    pub health_check: Opt<HealthCheck>,
    /// Clusters: name of the Secret that holds the credentials of the image's registry.
    pub image_pull_secret: Opt<String>,
    /// Labels of all objects and the pods.
    pub labels: Opt<BTreeMap<String, Maybe<String>>>,
    /// Clusters: annotations of the Deployment, its pods and the Service. A change restarts the pods.
    pub annotations: Opt<BTreeMap<String, Maybe<String>>>,
    /// Fail the plan when the estimate is above this many US dollars an hour, or unknown.
    #[schemars(range(min = 0))]
    pub max_hourly_usd: Opt<Number>,
    /// Seconds between the stop signal and the kill.
    #[schemars(range(min = 0, max = 86400))]
    pub stop_grace_seconds: Opt<i64>,
    /// Clusters: name of the RuntimeClass.
    pub runtime_class: Opt<String>,
    /// Clusters: name of the ServiceAccount.
    pub service_account: Opt<String>,
    /// Clusters: node labels to ask for, beside those that name the GPU kind.
    pub node_selector: Opt<BTreeMap<String, Maybe<String>>>,
    /// Clusters: tolerations beyond those that Loomplane derives from the GPU nodes.
    pub tolerations: Opt<Vec<Toleration>>,
    /// Clusters: type of the Service: `ClusterIP` (the default), `NodePort` or `LoadBalancer`.
    pub service_type: Opt<ServiceType>,
    /// Clusters: name of the PriorityClass.
    pub priority_class: Opt<String>,
    /// Clusters: how pods are replaced. Without it a GPU service rolls with `max_surge` 0 and `max_unavailable` 1.
    pub rollout: Opt<Rollout>,
    /// Servers: directories and files of the server to mount.
    pub host_mounts: Opt<Vec<HostMount>>,
    /// Servers: resource limits by name, such as `memlock`.
    pub ulimits: Opt<BTreeMap<String, Ulimit>>,
    /// Servers: when Docker starts the container again: `unless-stopped` (the default), `always`, `on-failure` or `no`.
    pub restart: Opt<Restart>,
    /// Servers: a network of the engine, `host` or `none`. Without it the engine's bridge.
    pub network: Opt<String>,
    /// Servers: how many seconds an apply waits for GPUs that others hold. Default: 120.
    #[schemars(range(min = 0, max = 86400))]
    pub device_wait_seconds: Opt<i64>,
    /// Clusters: take over fields that others manage, instead of refusing.
    #[serde(default)]
    pub force_conflicts: bool,
    /// Wait until the rollout is complete.
    #[serde(default = "yes")]
    pub wait: bool,
    /// Where the service may run.
    pub placement: Computed<Placement>,
    /// What matched at the last refresh: groups of nodes with their GPUs per node, which is not what is free.
    pub nodes: Computed<Vec<String>>,
    /// Estimated share of the machines' price, in US dollars an hour. Null when it is unknown or there is no GPU.
    pub hourly_usd: Computed<Number>,
    /// Estimated share of the machines' price, in US dollars a month. Null when it is unknown or there is no GPU.
    pub monthly_usd: Computed<Number>,
    /// The estimate in words, with its source. It is attribution, not a cost on top of the machines'.
    pub price: Computed<String>,
    /// Servers: UUIDs of the GPUs that the container has. Each GPU is one service's only.
    pub devices: Computed<Vec<String>>,
    /// On a cluster `available`, `progressing` or `unavailable`, and how many pods are ready, or `gone` and what is left; on a server what the container does.
    pub status: Computed<String>,
    /// `HOST:PORT` of the first port: of the Service inside the cluster, or where the server publishes it. Null without one.
    pub endpoint: Computed<String>,
    /// Time limits. Each defaults to 20 minutes.
    pub timeouts: Option<Timeouts>,
}

fn yes() -> bool {
    true
}

/// A variable from a Secret that exists already.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct EnvFrom {
    /// Name of the variable.
    pub name: Maybe<String>,
    /// Name of the Secret, in the service's namespace.
    pub secret: Maybe<String>,
    /// Key of the Secret.
    pub key: Maybe<String>,
}

/// A port of the container and the Service.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Port {
    /// Name.
    #[schemars(length(min = 1, max = 15))]
    pub name: Maybe<String>,
    /// Number.
    #[schemars(range(min = 1, max = 65535))]
    pub port: Maybe<i64>,
    /// `TCP` (the default), `UDP` or, on a cluster, `SCTP`.
    pub protocol: Opt<Protocol>,
    /// Servers: port of the server that leads to it. Without it the port is not published.
    #[schemars(range(min = 1, max = 65535))]
    pub host_port: Opt<i64>,
    /// Servers: address of the server to publish it on. Without it, on all of them, past its firewall.
    pub host_ip: Opt<String>,
}

/// Protocol of a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "UPPERCASE")]
pub enum Protocol {
    /// TCP.
    Tcp,
    /// UDP.
    Udp,
    /// SCTP.
    Sctp,
}

/// Type of a Service.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ServiceType {
    /// Inside the cluster.
    ClusterIP,
    /// On a port of every node.
    NodePort,
    /// Behind a load balancer, which costs extra on most clouds.
    LoadBalancer,
}

/// What each pod asks for. CPU and memory are request and limit.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Size {
    /// CPU cores, such as `4` or `0.5`.
    pub cpu: Opt<Number>,
    /// Memory in MiB.
    #[schemars(range(min = 1, max = 1_000_000_000))]
    pub memory: Opt<i64>,
    /// Shared memory (`/dev/shm`) in MiB. It counts toward `memory`, so it must be smaller.
    #[schemars(range(min = 1, max = 1_000_000_000))]
    pub shm: Opt<i64>,
    /// GPUs.
    pub gpu: Opt<Gpu>,
}

/// Whole GPUs of one kind, all on one node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Gpu {
    /// Kind, such as `nvidia-l4`: `data.loomplane_gpu_kinds` lists them.
    pub kind: Maybe<String>,
    /// How many, 1 to 8.
    #[schemars(range(min = 1, max = 8))]
    pub count: Maybe<i64>,
}

/// A persistent volume.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Volume {
    /// Where it is mounted.
    #[schemars(regex(pattern = "^/"))]
    pub mount_path: Maybe<String>,
    /// Clusters: size in GiB; required there.
    #[schemars(range(min = 1, max = 1_000_000_000))]
    pub size_gib: Opt<i64>,
    /// Clusters: `ReadWriteOnce` (the default), `ReadWriteOncePod`, `ReadWriteMany` or `ReadOnlyMany`.
    pub access_mode: Opt<AccessMode>,
    /// Delete the volume's claim with the service. A volume that is taken out of `volumes` keeps its claim, whatever this says.
    #[serde(default)]
    pub delete_on_destroy: bool,
}

/// Access mode of a volume.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[allow(
    clippy::enum_variant_names,
    reason = "the names are those of the Kubernetes API"
)]
pub enum AccessMode {
    /// One node.
    ReadWriteOnce,
    /// One pod.
    ReadWriteOncePod,
    /// Many nodes.
    ReadWriteMany,
    /// Many nodes, reading.
    ReadOnlyMany,
}

/// An HTTP health check: the service has started, is ready, and lives.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HealthCheck {
    /// Path that answers 200 to 399.
    #[schemars(regex(pattern = "^/"))]
    pub http_path: Maybe<String>,
    /// Port.
    #[schemars(range(min = 1, max = 65535))]
    pub port: Maybe<i64>,
    /// How long the service may take to start, in seconds; a model is loaded in that time.
    #[schemars(range(min = 1, max = 10_000_000))]
    #[serde(default = "startup_seconds")]
    pub startup_seconds: i64,
    /// Between two checks, in seconds.
    #[schemars(range(min = 1, max = 1_000_000))]
    #[serde(default = "period_seconds")]
    pub period_seconds: i64,
    /// For one check, in seconds.
    #[schemars(range(min = 1, max = 1_000_000))]
    #[serde(default = "timeout_seconds")]
    pub timeout_seconds: i64,
    /// Failures in a row until it counts.
    #[schemars(range(min = 1, max = 1_000_000))]
    #[serde(default = "failure_threshold")]
    pub failure_threshold: i64,
}

fn startup_seconds() -> i64 {
    600
}
fn period_seconds() -> i64 {
    10
}
fn timeout_seconds() -> i64 {
    5
}
fn failure_threshold() -> i64 {
    3
}

/// A directory or file of the server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HostMount {
    /// Path on the server. It must exist.
    #[schemars(regex(pattern = "^/"))]
    pub host_path: Maybe<String>,
    /// Path in the container.
    #[schemars(regex(pattern = "^/"))]
    pub mount_path: Maybe<String>,
    /// Mount it read-only.
    #[serde(default)]
    pub read_only: bool,
}

/// A resource limit; -1 is unlimited.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Ulimit {
    /// Soft limit.
    pub soft: Maybe<i64>,
    /// Hard limit.
    pub hard: Maybe<i64>,
}

/// When Docker starts a container again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Restart {
    /// Always, unless it was stopped by hand.
    UnlessStopped,
    /// Always.
    Always,
    /// After a failure.
    OnFailure,
    /// Never.
    No,
}

/// A toleration.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Toleration {
    /// Key of the taint. Without it, with `Exists`: every taint.
    pub key: Opt<String>,
    /// `Equal` (the default) or `Exists`.
    pub operator: Opt<TolerationOperator>,
    /// Value of the taint, for `Equal`.
    pub value: Opt<String>,
    /// `NoSchedule`, `PreferNoSchedule` or `NoExecute`. Without it: every effect.
    pub effect: Opt<Effect>,
    /// For `NoExecute`: how many seconds a pod stays.
    pub seconds: Opt<i64>,
}

/// How a toleration's value is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum TolerationOperator {
    /// The taint has the value.
    Equal,
    /// The taint is there.
    Exists,
}

/// Effect of a taint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Effect {
    /// New pods stay away.
    NoSchedule,
    /// New pods stay away where possible.
    PreferNoSchedule,
    /// Running pods are evicted too.
    NoExecute,
}

/// How pods are replaced: numbers, or percentages such as `25%`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Rollout {
    /// Pods above `replicas` meanwhile.
    #[schemars(regex(pattern = "^(0|[1-9][0-9]*)%?$"))]
    pub max_surge: Maybe<String>,
    /// Pods below `replicas` meanwhile.
    #[schemars(regex(pattern = "^(0|[1-9][0-9]*)%?$"))]
    pub max_unavailable: Maybe<String>,
}

/// Where a service may run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Placement {
    /// Node labels that name the kind, with every value that does: a node must carry one of them. Known at plan.
    pub admits: BTreeMap<String, Vec<String>>,
    /// Taints of the matching nodes that the pods tolerate, as `KEY=VALUE:EFFECT`. Known after apply.
    pub tolerations: Opt<Vec<String>>,
}
