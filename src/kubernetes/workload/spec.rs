//! What a service on a cluster is: plain data, in the units of the Terraform surface.

use std::collections::{BTreeMap, BTreeSet};

/// A service on a cluster. Optional fields that are `None` are left to the cluster: they are not applied and never differ.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ServiceSpec {
    /// Name of the Deployment and the Service.
    pub name: String,
    /// Namespace.
    pub namespace: String,
    /// Image.
    pub image: String,
    /// Overrides the image's entrypoint.
    pub command: Option<Vec<String>>,
    /// Arguments.
    pub args: Option<Vec<String>>,
    /// Working directory.
    pub working_dir: Option<String>,
    /// User that the container runs as.
    pub user: Option<RunAs>,
    /// Environment.
    pub env: BTreeMap<String, String>,
    /// Environment from Secrets that exist already.
    pub env_from: Vec<EnvFrom>,
    /// Names of the variables in the service's own Secret. Their values never are here: see `apply::ApplyOptions`.
    pub secret_env: BTreeSet<String>,
    /// A new value restarts the pods, so that they read the Secret again.
    pub secret_env_version: Option<i64>,
    /// Ports; with at least one there is a Service.
    pub ports: Vec<Port>,
    /// Pods. `None`: the cluster's default of 1, or whatever an autoscaler says.
    pub replicas: Option<u32>,
    /// CPU request and limit, in thousandths of a core.
    pub cpu_millis: Option<u64>,
    /// Memory request and limit, in MiB.
    pub memory_mib: Option<u64>,
    /// /dev/shm, in MiB; part of the memory.
    pub shm_mib: Option<u64>,
    /// GPUs.
    pub gpu: Option<Gpu>,
    /// Where GPU pods may run.
    pub placement: Placement,
    /// Volumes by name.
    pub volumes: BTreeMap<String, Volume>,
    /// Health check.
    pub health_check: Option<HealthCheck>,
    /// Secret with the credentials of the image's registry.
    pub image_pull_secret: Option<String>,
    /// Labels of all objects and the pods, beside Loomplane's own.
    pub labels: BTreeMap<String, String>,
    /// Annotations of the Deployment, its pods and the Service. A change restarts the pods.
    pub annotations: BTreeMap<String, String>,
    /// Seconds between the stop signal and the kill.
    pub stop_grace_seconds: Option<u32>,
    /// RuntimeClass.
    pub runtime_class: Option<String>,
    /// ServiceAccount.
    pub service_account: Option<String>,
    /// Node labels that are asked for, beside the placement.
    pub node_selector: BTreeMap<String, String>,
    /// Tolerations beyond the placement's.
    pub tolerations: Vec<Toleration>,
    /// Type of the Service, such as `ClusterIP`.
    pub service_type: Option<String>,
    /// PriorityClass.
    pub priority_class: Option<String>,
    /// How pods are replaced. `None`: K10's for a GPU service, else the cluster's default.
    pub rollout: Option<Rollout>,
}

impl ServiceSpec {
    /// Name of the Secret that holds `secret_env`.
    #[must_use]
    pub fn secret_name(&self) -> String {
        format!("{}-env", self.name)
    }

    /// Name of a volume's claim, for claims that Loomplane makes.
    #[must_use]
    pub fn claim_name(&self, volume: &str) -> String {
        format!("{}-{volume}", self.name)
    }

    /// The rollout that holds: the stated one, else K10's for a GPU service.
    #[must_use]
    pub fn effective_rollout(&self) -> Option<Rollout> {
        self.rollout
            .clone()
            .or_else(|| self.gpu.is_some().then(Rollout::for_full_nodes))
    }
}

/// Numeric user and group of a container: Kubernetes takes no names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RunAs {
    /// User id.
    pub user: i64,
    /// Group id.
    pub group: Option<i64>,
}

impl RunAs {
    /// Reads `1000` or `1000:1000`.
    ///
    /// # Errors
    /// What is wrong, for a message.
    pub fn parse(text: &str) -> Result<Self, String> {
        let id = |part: &str| {
            part.parse::<i64>().ok().filter(|id| (0..=i64::from(u32::MAX)).contains(id)).ok_or_else(|| {
                format!("user {text:?} can't be used on a cluster: Kubernetes takes numeric ids, such as \"1000\" or \"1000:1000\"")
            })
        };
        match text.split_once(':') {
            Some((user, group)) => Ok(Self {
                user: id(user)?,
                group: Some(id(group)?),
            }),
            None => Ok(Self {
                user: id(text)?,
                group: None,
            }),
        }
    }
}

impl std::fmt::Display for RunAs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.group {
            Some(group) => write!(f, "{}:{group}", self.user),
            None => write!(f, "{}", self.user),
        }
    }
}

/// A variable from a Secret that exists already.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct EnvFrom {
    /// Variable.
    pub name: String,
    /// Secret.
    pub secret: String,
    /// Key of the Secret.
    pub key: String,
}

/// A port of the container and the Service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Port {
    /// Name, at most 15 characters.
    pub name: String,
    /// Number.
    pub port: u16,
    /// Protocol.
    pub protocol: Protocol,
}

/// Protocol of a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Protocol {
    /// TCP.
    #[default]
    Tcp,
    /// UDP.
    Udp,
    /// SCTP.
    Sctp,
}

impl Protocol {
    /// As Kubernetes writes it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Tcp => "TCP",
            Self::Udp => "UDP",
            Self::Sctp => "SCTP",
        }
    }

    /// Reads any case; a missing one is TCP.
    #[must_use]
    pub fn parse(text: Option<&str>) -> Option<Self> {
        match text.map(str::to_ascii_uppercase).as_deref() {
            None | Some("TCP") => Some(Self::Tcp),
            Some("UDP") => Some(Self::Udp),
            Some("SCTP") => Some(Self::Sctp),
            Some(_) => None,
        }
    }
}

/// Whole GPUs per pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gpu {
    /// How many, 1 to 8.
    pub count: u32,
}

/// Where pods may run, as `capacity` decided it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Placement {
    /// Required node affinity: a node must meet one term. Empty: any node.
    pub terms: Vec<NodeTerm>,
    /// Tolerations of rule K6.
    pub tolerations: Vec<Toleration>,
}

/// A node affinity term: a node must meet all its requirements.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NodeTerm {
    /// Requirements.
    pub requirements: Vec<NodeRequirement>,
}

/// One requirement on a node label.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeRequirement {
    /// Label key.
    pub key: String,
    /// How it is compared.
    pub operator: NodeOperator,
    /// Values; empty for `Exists` and `DoesNotExist`.
    pub values: Vec<String>,
}

/// How a node label is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NodeOperator {
    /// One of the values.
    In,
    /// None of the values.
    NotIn,
    /// Present.
    Exists,
    /// Absent.
    DoesNotExist,
    /// Greater than the one value, as integers.
    Gt,
    /// Less than the one value, as integers.
    Lt,
}

impl NodeOperator {
    /// As Kubernetes writes it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::In => "In",
            Self::NotIn => "NotIn",
            Self::Exists => "Exists",
            Self::DoesNotExist => "DoesNotExist",
            Self::Gt => "Gt",
            Self::Lt => "Lt",
        }
    }

    pub(super) fn parse(text: &str) -> Option<Self> {
        [
            Self::In,
            Self::NotIn,
            Self::Exists,
            Self::DoesNotExist,
            Self::Gt,
            Self::Lt,
        ]
        .into_iter()
        .find(|operator| operator.as_str() == text)
    }
}

/// A toleration.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Toleration {
    /// Taint key; empty with `Exists`: every taint.
    pub key: String,
    /// How the value is compared.
    pub operator: TolerationOperator,
    /// Value, for `Equal`.
    pub value: String,
    /// Effect as Kubernetes writes it; `None`: every effect.
    pub effect: Option<String>,
    /// For `NoExecute`: how long a pod stays.
    pub seconds: Option<i64>,
}

/// How a toleration's value is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum TolerationOperator {
    /// The taint has the value.
    Equal,
    /// The taint is there.
    Exists,
}

/// A persistent volume.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Volume {
    /// Where it is mounted.
    pub mount_path: String,
    /// Size in GiB.
    pub size_gib: u64,
    /// Access mode.
    pub access_mode: AccessMode,
    /// Storage class, picked on the connection (K8). `None` reads as: whatever the claim has.
    pub storage_class: Option<String>,
    /// Whether destroying the service deletes the claim. Not on the cluster: kept from the state.
    pub delete_on_destroy: bool,
}

/// Access mode of a volume.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum AccessMode {
    /// One node.
    #[default]
    ReadWriteOnce,
    /// One pod.
    ReadWriteOncePod,
    /// Many nodes.
    ReadWriteMany,
    /// Many nodes, reading.
    ReadOnlyMany,
}

impl AccessMode {
    /// As Kubernetes writes it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ReadWriteOnce => "ReadWriteOnce",
            Self::ReadWriteOncePod => "ReadWriteOncePod",
            Self::ReadWriteMany => "ReadWriteMany",
            Self::ReadOnlyMany => "ReadOnlyMany",
        }
    }

    /// Reads what Kubernetes writes.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        [
            Self::ReadWriteOnce,
            Self::ReadWriteOncePod,
            Self::ReadWriteMany,
            Self::ReadOnlyMany,
        ]
        .into_iter()
        .find(|mode| mode.as_str() == text)
    }
}

/// An HTTP health check: starts, is ready, lives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HealthCheck {
    /// Path that answers 200 to 399.
    pub http_path: String,
    /// Port.
    pub port: u16,
    /// How long the service may take to start, in seconds: a model is loaded in that time.
    pub startup_seconds: u32,
    /// Between two checks, in seconds.
    pub period_seconds: u32,
    /// For one check, in seconds.
    pub timeout_seconds: u32,
    /// Failures in a row until it counts.
    pub failure_threshold: u32,
}

impl Default for HealthCheck {
    fn default() -> Self {
        Self {
            http_path: "/".to_owned(),
            port: 80,
            startup_seconds: 600,
            period_seconds: 10,
            timeout_seconds: 5,
            failure_threshold: 3,
        }
    }
}

/// How pods are replaced: numbers or percentages, as text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rollout {
    /// Pods above `replicas` meanwhile.
    pub max_surge: String,
    /// Pods below `replicas` meanwhile.
    pub max_unavailable: String,
}

impl Rollout {
    /// K10: on full nodes a new GPU pod finds room only where an old one left.
    #[must_use]
    pub fn for_full_nodes() -> Self {
        Self {
            max_surge: "0".to_owned(),
            max_unavailable: "1".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_is_numeric_on_a_cluster() {
        assert_eq!(
            RunAs::parse("1000:2000").unwrap(),
            RunAs {
                user: 1000,
                group: Some(2000)
            }
        );
        assert_eq!(RunAs::parse("0").unwrap().to_string(), "0");
        for bad in ["nobody", "1000:", "-1", "1000:staff", ""] {
            assert!(RunAs::parse(bad).unwrap_err().contains("numeric"), "{bad}");
        }
    }
}
