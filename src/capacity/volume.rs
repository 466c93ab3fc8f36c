//! Volumes: what a cluster's storage class must say (K8), and replicas that share a volume (K10).

use std::str::FromStr;

use super::text::Text;

#[cfg(test)]
mod tests;

/// A storage class, as far as rule K8 cares.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StorageClass {
    /// Its name.
    pub name: String,
    /// `reclaimPolicy`; none when unset, which Kubernetes reads as `Delete`.
    pub reclaim_policy: Option<String>,
    /// `volumeBindingMode`; none when unset (the API server fills in `Immediate`).
    pub binding_mode: Option<String>,
}

/// Why a service's volumes can't be made.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum StorageWhy {
    /// The connection names no storage class.
    NotPicked {
        /// Classes of the cluster that would do.
        suitable: Vec<String>,
    },
    /// The class that the connection names is not there.
    NotFound {
        /// Its name.
        name: String,
        /// Classes of the cluster that would do.
        suitable: Vec<String>,
    },
    /// The class deletes volumes.
    NotRetained {
        /// Its name.
        name: String,
        /// Its reclaim policy.
        policy: String,
        /// Classes of the cluster that would do.
        suitable: Vec<String>,
    },
    /// The class declares no binding mode, or one that does not exist.
    NoBindingMode {
        /// Its name.
        name: String,
        /// Classes of the cluster that would do.
        suitable: Vec<String>,
    },
}

/// What passes, with a warning.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum StorageWarning {
    /// The class binds at once: the volume may be made where no matching GPU node is.
    Immediate {
        /// Its name.
        name: String,
    },
}

/// Checks the storage class that a connection picks, for a service with a volume (K8).
///
/// # Errors
/// [`StorageWhy`]: the plan is refused until there is such a class.
pub fn check_storage(
    picked: Option<&str>,
    classes: &[StorageClass],
) -> Result<Option<StorageWarning>, StorageWhy> {
    let suitable = || suitable(classes);
    let Some(name) = picked.filter(|name| !name.is_empty()) else {
        return Err(StorageWhy::NotPicked {
            suitable: suitable(),
        });
    };
    let Some(class) = classes.iter().find(|class| class.name == name) else {
        return Err(StorageWhy::NotFound {
            name: name.to_owned(),
            suitable: suitable(),
        });
    };
    let policy = class.reclaim_policy.as_deref().unwrap_or("Delete");
    if policy != "Retain" {
        let (name, policy) = (name.to_owned(), policy.to_owned());
        return Err(StorageWhy::NotRetained {
            name,
            policy,
            suitable: suitable(),
        });
    }
    match class.binding_mode.as_deref() {
        Some("WaitForFirstConsumer") => Ok(None),
        Some("Immediate") => Ok(Some(StorageWarning::Immediate {
            name: name.to_owned(),
        })),
        _ => Err(StorageWhy::NoBindingMode {
            name: name.to_owned(),
            suitable: suitable(),
        }),
    }
}

fn suitable(classes: &[StorageClass]) -> Vec<String> {
    let mut names: Vec<String> = classes
        .iter()
        .filter(|class| {
            class.reclaim_policy.as_deref() == Some("Retain")
                && matches!(
                    class.binding_mode.as_deref(),
                    Some("WaitForFirstConsumer" | "Immediate")
                )
        })
        .map(|class| class.name.clone())
        .collect();
    names.sort_unstable();
    names
}

impl StorageWhy {
    /// The refusal, for the cluster named `target`.
    #[must_use]
    pub fn render(&self, target: &str) -> Text {
        let asked = "Volumes need a storage class with reclaim policy Retain and a declared volume binding mode.";
        let (found, suitable) = match self {
            Self::NotPicked { suitable } => (
                format!("The connection {target} picks no storage class."),
                suitable,
            ),
            Self::NotFound { name, suitable } => (
                format!("{target} has no storage class {name:?}, which its connection picks."),
                suitable,
            ),
            Self::NotRetained {
                name,
                policy,
                suitable,
            } => (
                format!(
                    "The storage class {name:?} of {target} has reclaim policy {policy}: its volumes go when their claim goes."
                ),
                suitable,
            ),
            Self::NoBindingMode { name, suitable } => (
                format!("The storage class {name:?} of {target} declares no volume binding mode."),
                suitable,
            ),
        };
        let act = if suitable.is_empty() {
            "The cluster has no such class: add one with reclaimPolicy: Retain and volumeBindingMode: WaitForFirstConsumer, and name it as storage_class on the connection.".to_owned()
        } else {
            format!(
                "Set storage_class on the connection to one that does: {}.",
                suitable.join(", ")
            )
        };
        Text {
            summary: format!("{target} can't keep this service's volumes"),
            detail: format!("{asked} {found} {act}"),
        }
    }
}

impl StorageWarning {
    /// The warning, for the cluster named `target`.
    #[must_use]
    pub fn render(&self, target: &str) -> Text {
        let Self::Immediate { name } = self;
        Text {
            summary: format!("Volumes of {target} may be made away from its GPU nodes"),
            detail: format!(
                "The storage class {name:?} has volume binding mode Immediate (set, or filled in by the API server): a volume is made before the pod is placed, maybe in a zone without a matching GPU node. A class with WaitForFirstConsumer avoids that."
            ),
        }
    }
}

/// How a volume may be mounted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum AccessMode {
    /// By the pods of one node: the default.
    #[default]
    ReadWriteOnce,
    /// By one pod.
    ReadWriteOncePod,
    /// By many nodes, for reading.
    ReadOnlyMany,
    /// By many nodes.
    ReadWriteMany,
}

impl AccessMode {
    /// The name in the Kubernetes API.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ReadWriteOnce => "ReadWriteOnce",
            Self::ReadWriteOncePod => "ReadWriteOncePod",
            Self::ReadOnlyMany => "ReadOnlyMany",
            Self::ReadWriteMany => "ReadWriteMany",
        }
    }
}

/// What is wrong with a service's volumes, whatever the target.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum VolumeError {
    /// No such access mode.
    #[error(
        "access_mode: {text:?} is no access mode: write ReadWriteOnce, ReadWriteOncePod, ReadOnlyMany or ReadWriteMany"
    )]
    AccessMode {
        /// The text.
        text: String,
    },
    /// More than one replica on a volume that only one can mount.
    #[error("the service has {replicas} replicas and its volume {volume:?} has access_mode {}: a replica on another node could not mount it. Set replicas = 1, or access_mode = \"ReadWriteMany\" with a storage class that offers it.", .mode.as_str())]
    Shared {
        /// The volume.
        volume: String,
        /// Its access mode.
        mode: AccessMode,
        /// How many replicas.
        replicas: u32,
    },
}

impl FromStr for AccessMode {
    type Err = VolumeError;

    fn from_str(text: &str) -> Result<Self, VolumeError> {
        [
            Self::ReadWriteOnce,
            Self::ReadWriteOncePod,
            Self::ReadOnlyMany,
            Self::ReadWriteMany,
        ]
        .into_iter()
        .find(|mode| mode.as_str() == text)
        .ok_or_else(|| VolumeError::AccessMode {
            text: text.to_owned(),
        })
    }
}

/// Checks that every replica can mount every volume (K10).
///
/// # Errors
/// The first volume that they can't share.
pub fn check_replicas<'a>(
    replicas: u32,
    volumes: impl IntoIterator<Item = (&'a str, AccessMode)>,
) -> Result<(), VolumeError> {
    if replicas <= 1 {
        return Ok(());
    }
    match volumes
        .into_iter()
        .find(|(_, mode)| *mode != AccessMode::ReadWriteMany)
    {
        None => Ok(()),
        Some((volume, mode)) => Err(VolumeError::Shared {
            volume: volume.to_owned(),
            mode,
            replicas,
        }),
    }
}
