//! What a service's container shall be: plain data, checked before anything is asked of a server.

use std::collections::BTreeMap;

use secrecy::{ExposeSecret, SecretString};
use serde::{Deserialize, Serialize};

use crate::capacity::gpu::GpuRequest;
use crate::ssh::error::{Result, SshError};

/// Prefix of the labels that are ours.
pub const LABEL_PREFIX: &str = "io.loomplane.";
/// What the NVIDIA runtime reads; never the user's to set (S3).
pub(crate) const VISIBLE_DEVICES: &str = "NVIDIA_VISIBLE_DEVICES";

/// A service as one container.
#[derive(Debug, Clone, Default)]
pub struct ContainerSpec {
    /// Container name, which is the service's name.
    pub name: String,
    /// Image reference; pulled only when absent.
    pub image: String,
    /// Replaces the image's entrypoint.
    pub command: Option<Vec<String>>,
    /// Replaces the image's command.
    pub args: Option<Vec<String>>,
    /// Working directory; the image's unless set.
    pub working_dir: Option<String>,
    /// User (and group); the image's unless set.
    pub user: Option<String>,
    /// Environment.
    pub env: BTreeMap<String, String>,
    /// Environment that is never read back.
    pub secret_env: BTreeMap<String, SecretString>,
    /// Says when `secret_env` changed; kept on the container as a label.
    pub secret_env_version: Option<String>,
    /// Ports.
    pub ports: Vec<PortSpec>,
    /// Named volumes, by the name that the configuration gives them.
    pub volumes: BTreeMap<String, VolumeSpec>,
    /// Directories and files of the server.
    pub host_mounts: Vec<HostMount>,
    /// CPU limit, in billionths of a CPU.
    pub nano_cpus: Option<i64>,
    /// Memory limit, in MiB; swap is not added to it.
    pub memory_mib: Option<u64>,
    /// Size of /dev/shm, in MiB (G3); Docker's 64 unless set.
    pub shm_mib: Option<u64>,
    /// GPUs, or none for CPU work.
    pub gpu: Option<GpuRequest>,
    /// The pool that the service is placed by, and its budget on this server.
    pub pool: Option<PoolBudget>,
    /// When Docker starts it again.
    pub restart: Restart,
    /// A network of the engine, `host` or `none`; its default bridge unless set.
    pub network: Option<String>,
    /// Resource limits by name (`memlock`).
    pub ulimits: BTreeMap<String, Ulimit>,
    /// The user's labels.
    pub labels: BTreeMap<String, String>,
    /// How Docker tells that it works.
    pub health: Option<HealthCheck>,
    /// Seconds between the stop signal and the kill; Docker's 10 unless set.
    pub stop_grace_seconds: Option<u32>,
}

/// One port.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct PortSpec {
    /// Name in the configuration.
    pub name: String,
    /// Port in the container.
    pub port: u16,
    /// Port of the server; not published unless set.
    pub host_port: Option<u16>,
    /// Address of the server; all unless set.
    pub host_ip: Option<String>,
    /// TCP or UDP.
    pub protocol: Protocol,
}

/// Transport of a port.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Protocol {
    /// TCP.
    #[default]
    Tcp,
    /// UDP.
    Udp,
}

impl Protocol {
    /// Docker's spelling.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Tcp => "tcp",
            Self::Udp => "udp",
        }
    }
}

/// A named volume.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct VolumeSpec {
    /// Docker's name for it; [`volume_name`] unless imported.
    pub docker_name: String,
    /// Where it is mounted.
    pub mount_path: String,
    /// Mounted read-only.
    pub read_only: bool,
    /// Removed with the service.
    pub delete_on_destroy: bool,
}

/// Docker's name of a service's volume.
pub fn volume_name(service: &str, volume: &str) -> String {
    format!("{service}-{volume}")
}

/// A directory or file of the server.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HostMount {
    /// Path on the server; must exist.
    pub host_path: String,
    /// Path in the container.
    pub mount_path: String,
    /// Mounted read-only.
    pub read_only: bool,
}

/// A pool's budget on one server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PoolBudget {
    /// Pool name.
    pub pool: String,
    /// Cards that the pool may hand out on this server.
    pub gpus: u32,
}

/// Restart policy.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Restart {
    /// Always, unless stopped by hand.
    #[default]
    UnlessStopped,
    /// Always, even after Docker itself was restarted.
    Always,
    /// After a failure, at most so many times; 0 is no bound.
    OnFailure(u32),
    /// Never.
    No,
}

/// A resource limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ulimit {
    /// Soft limit; -1 is unlimited.
    pub soft: i64,
    /// Hard limit; -1 is unlimited.
    pub hard: i64,
}

/// How Docker tells that the container works.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HealthCheck {
    /// What is tried.
    pub probe: Probe,
    /// Seconds between tries.
    pub interval_seconds: u32,
    /// Seconds a try may take.
    pub timeout_seconds: u32,
    /// Failures in a row that make it unhealthy.
    pub retries: u32,
    /// Seconds from the start in which failures do not count.
    pub startup_seconds: u32,
}

/// What a health check tries, inside the container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Probe {
    /// GET of a path on a port: below 400 is healthy. The image needs curl, wget or python3.
    Http {
        /// Port in the container.
        port: u16,
        /// Path, with its slash.
        path: String,
    },
    /// A program with arguments, never a shell's text.
    Command(Vec<String>),
}

impl ContainerSpec {
    /// Refuses what Docker would misread or what would break exclusive devices.
    ///
    /// # Errors
    /// [`SshError::Refused`], naming the attribute.
    pub fn validate(&self) -> Result<()> {
        let refuse = |what: String, reason: &str| {
            Err(SshError::Refused {
                what,
                reason: reason.to_owned(),
            })
        };
        if !is_name(&self.name, 2) {
            return refuse(
                format!("name {:?}", self.name),
                "a container's name has two or more of A-Z a-z 0-9 _ . - and starts with a letter or digit",
            );
        }
        if self.name.len() > 200 {
            return refuse("name".to_owned(), "it is longer than 200 characters");
        }
        if self.image.trim().is_empty()
            || self
                .image
                .chars()
                .any(|c| c.is_whitespace() || c.is_control())
        {
            return refuse(
                format!("image {:?}", self.image),
                "an image reference has no blanks (example: ghcr.io/owner/app:1.2)",
            );
        }
        let secret = self
            .secret_env
            .iter()
            .map(|(key, value)| ("secret_env", key, value.expose_secret()));
        for (attribute, key, value) in self
            .env
            .iter()
            .map(|(key, value)| ("env", key, value.as_str()))
            .chain(secret)
        {
            if key.is_empty() || key.contains('=') || key.contains('\0') {
                return refuse(
                    format!("{attribute}[{key:?}]"),
                    "a variable's name is not empty and has neither = nor NUL",
                );
            }
            if value.contains('\0') {
                return refuse(
                    format!("the value of {attribute}[{key:?}]"),
                    "it holds a NUL character",
                );
            }
            if key == VISIBLE_DEVICES {
                return refuse(
                    format!("{attribute}[{key:?}]"),
                    "it would hand out GPUs behind Loomplane's back, and two workloads could share one; ask with size.gpu, which picks devices",
                );
            }
        }
        if let Some(key) = self
            .secret_env
            .keys()
            .find(|key| self.env.contains_key(*key))
        {
            return refuse(format!("env[{key:?}]"), "secret_env has the same name");
        }
        if let Some(key) = self
            .labels
            .keys()
            .find(|key| key.starts_with(LABEL_PREFIX) || key.is_empty())
        {
            return refuse(
                format!("labels[{key:?}]"),
                "labels that begin with io.loomplane. are Loomplane's own, and a label has a name",
            );
        }
        for (name, volume) in &self.volumes {
            if !is_name(&volume.docker_name, 2) {
                return refuse(
                    format!("volumes[{name:?}]"),
                    "a volume's name has A-Z a-z 0-9 _ . - and starts with a letter or digit",
                );
            }
            if !volume.mount_path.starts_with('/') {
                return refuse(
                    format!("volumes[{name:?}].mount_path"),
                    "it must be an absolute path",
                );
            }
        }
        for mount in &self.host_mounts {
            if !mount.host_path.starts_with('/') || !mount.mount_path.starts_with('/') {
                return refuse(
                    format!("host_mounts of {:?}", mount.host_path),
                    "both paths must be absolute",
                );
            }
        }
        let mut published = std::collections::BTreeSet::new();
        for port in &self.ports {
            if port.port == 0 || port.host_port == Some(0) {
                return refuse(format!("ports[{:?}]", port.name), "a port is 1 to 65535");
            }
            if let Some(host_port) = port.host_port
                && !published.insert((port.host_ip.clone(), host_port, port.protocol))
            {
                return refuse(
                    format!("ports[{:?}]", port.name),
                    "another port of the service is published there",
                );
            }
        }
        if let (Some(memory), Some(shm)) = (self.memory_mib, self.shm_mib)
            && shm >= memory
        {
            return refuse(
                "size.shm".to_owned(),
                "it counts toward size.memory, so it must be smaller",
            );
        }
        if self.memory_mib.is_some_and(|memory| memory < 6) {
            return refuse("size.memory".to_owned(), "Docker needs at least 6 MiB");
        }
        if let Some(HealthCheck {
            probe: Probe::Http { path, .. },
            ..
        }) = &self.health
            && (!path.starts_with('/') || path.chars().any(|c| c.is_whitespace() || c.is_control()))
        {
            return refuse(
                format!("health_check.http_path {path:?}"),
                "it starts with / and has no blanks",
            );
        }
        Ok(())
    }

    /// Replaces this service's secrets in `text` by `***`: what a container printed may hold them.
    pub(crate) fn redact(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for secret in self.secret_env.values() {
            // Shorter ones would blank out ordinary words.
            if secret.expose_secret().len() >= 4 {
                text = text.replace(secret.expose_secret(), "***");
            }
        }
        text
    }
}

fn is_name(name: &str, least: usize) -> bool {
    name.len() >= least
        && name.starts_with(|c: char| c.is_ascii_alphanumeric())
        && name
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec() -> ContainerSpec {
        ContainerSpec {
            name: "chat".to_owned(),
            image: "busybox".to_owned(),
            ..ContainerSpec::default()
        }
    }

    #[test]
    fn a_plain_spec_passes_and_each_fault_names_its_attribute() {
        spec().validate().unwrap();
        let with = |change: &dyn Fn(&mut ContainerSpec)| {
            let mut spec = spec();
            change(&mut spec);
            spec.validate().unwrap_err().to_string()
        };
        assert!(with(&|s| s.name = "a b".to_owned()).contains("name"));
        assert!(with(&|s| s.name = "x".to_owned()).contains("name"));
        assert!(with(&|s| s.image = "a b".to_owned()).contains("image"));
        assert!(with(&|s| drop(s.env.insert("A=B".to_owned(), String::new()))).contains("env"));
        assert!(with(&|s| drop(s.env.insert("A".to_owned(), "\0".to_owned()))).contains("NUL"));
        assert!(
            with(&|s| drop(
                s.labels
                    .insert("io.loomplane.service".to_owned(), "x".to_owned())
            ))
            .contains("labels")
        );
        assert!(with(&|s| (s.memory_mib, s.shm_mib) = (Some(64), Some(64))).contains("size.shm"));
        let port = PortSpec {
            name: "http".to_owned(),
            port: 80,
            host_port: Some(8080),
            host_ip: None,
            protocol: Protocol::Tcp,
        };
        assert!(
            with(&|s| s.ports = vec![
                port.clone(),
                PortSpec {
                    name: "other".to_owned(),
                    ..port.clone()
                }
            ])
            .contains("other")
        );
    }

    #[test]
    fn s3_visible_devices_is_not_the_users_to_set() {
        let mut spec = spec();
        spec.env
            .insert(VISIBLE_DEVICES.to_owned(), "all".to_owned());
        assert!(
            spec.validate()
                .unwrap_err()
                .to_string()
                .contains("size.gpu")
        );
    }

    #[test]
    fn s5_secrets_are_cut_out_of_logs_and_debug_output() {
        let mut spec = spec();
        spec.secret_env
            .insert("TOKEN".to_owned(), SecretString::from("hunter22"));
        assert_eq!(spec.redact("got hunter22!"), "got ***!");
        assert!(!format!("{spec:?}").contains("hunter22"));
    }
}
