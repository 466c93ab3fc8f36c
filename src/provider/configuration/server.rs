//! The connection to one own server, as the provider block states it.

use std::path::PathBuf;

use schemars::JsonSchema;
use secrecy::SecretString;
use serde::{Deserialize, Serialize};
use tf_provider_sdk::{
    diagnostic::{Diagnostic, Diagnostics},
    field::{Maybe, Opt, Sensitive},
    log::redact::redact,
    number::Number,
    path::{Path, Step},
};

use crate::{
    capacity::price::Price,
    provider::report,
    ssh::{self, Auth, HostKeyPolicy, Login, Registries, RegistryLogin},
};

/// How to reach a server, and what to know of it. It needs the NVIDIA driver, Docker and the NVIDIA Container Toolkit, all yours to
/// install.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ServerConfig {
    /// DNS name or address.
    #[schemars(length(min = 1))]
    pub host: Maybe<String>,
    /// TCP port of its SSH server; 22 unless set.
    #[schemars(range(min = 1, max = 65535))]
    pub port: Opt<i64>,
    /// Account to log in as.
    #[schemars(length(min = 1))]
    pub user: Maybe<String>,
    /// Private key, as text.
    pub private_key: Sensitive<Opt<String>>,
    /// Path of the private key. `~` is your home directory.
    pub private_key_path: Opt<String>,
    /// What decrypts the private key.
    pub passphrase: Sensitive<Opt<String>>,
    /// Use the keys of the running ssh-agent (`SSH_AUTH_SOCK`).
    pub agent: Opt<bool>,
    /// Host key that the server must show, as in `authorized_keys`: `ssh-ed25519 AAAA...`.
    pub host_key: Opt<String>,
    /// File of known host keys, in place of `host_key`. Without either, no connection is made.
    pub known_hosts_path: Opt<String>,
    /// Host to go through.
    pub proxy_jump: Opt<JumpConfig>,
    /// Run Docker's commands with `sudo -n` there. For an account that is not in the group `docker`.
    pub docker_sudo: Opt<bool>,
    /// Path of the Docker Engine's socket on the server; `/var/run/docker.sock` unless set.
    pub docker_socket: Opt<String>,
    /// What the whole server costs in US dollars an hour: your own figure. Without it its price is unknown.
    pub hourly_usd: Opt<Number>,
}

/// A host to go through.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct JumpConfig {
    /// DNS name or address.
    #[schemars(length(min = 1))]
    pub host: Maybe<String>,
    /// TCP port of its SSH server; 22 unless set.
    #[schemars(range(min = 1, max = 65535))]
    pub port: Opt<i64>,
    /// Account; the server's unless set.
    pub user: Opt<String>,
    /// Host key that it must show. Without it `known_hosts_path` must have it.
    pub host_key: Opt<String>,
}

/// How to log in to servers that do not say it themselves.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct SshConfig {
    /// Private key, as text.
    pub private_key: Sensitive<Opt<String>>,
    /// Path of the private key. `~` is your home directory.
    pub private_key_path: Opt<String>,
    /// What decrypts the private key.
    pub passphrase: Sensitive<Opt<String>>,
    /// Use the keys of the running ssh-agent (`SSH_AUTH_SOCK`).
    pub agent: Opt<bool>,
    /// File of known host keys, for servers without `host_key`.
    pub known_hosts_path: Opt<String>,
}

/// A login of an image registry.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct RegistryConfig {
    /// Account.
    pub username: Maybe<String>,
    /// Password or token.
    pub password: Sensitive<Maybe<String>>,
}

fn text(value: &Opt<String>) -> Option<String> {
    value.known().filter(|text| !text.is_empty()).cloned()
}

fn secret(value: &Opt<String>) -> Option<SecretString> {
    text(value).map(|secret| {
        redact(&secret);
        SecretString::from(secret)
    })
}

impl ServerConfig {
    /// What is wrong, as far as it is known.
    pub(super) fn validate(&self, at: &Path, report: &mut Diagnostics) {
        let ways = [
            !self.private_key.is_null(),
            !self.private_key_path.is_null(),
        ];
        let agent = self.agent.known().copied().unwrap_or(false);
        if ways.iter().filter(|set| **set).count() + usize::from(agent) > 1 {
            report.error(
                at.clone(),
                "Two ways to log in",
                "Give one of private_key, private_key_path and agent = true.",
            );
        }
        if let Some(Err(why)) = self
            .hourly_usd
            .known()
            .and_then(report::decimal)
            .map(|usd| Price::stated(Some(usd)))
        {
            report.error(
                at.then(Step::Attribute("hourly_usd".into())),
                "Invalid price",
                why.to_string(),
            );
        }
    }

    /// The server's stated price.
    pub(in crate::provider) fn price(&self) -> Price {
        Price::stated(self.hourly_usd.known().and_then(report::decimal)).unwrap_or(Price::Unknown)
    }

    /// The connection for the adapter; call it when all is known.
    pub(in crate::provider) fn connection(
        &self,
        name: &str,
        ssh: &SshConfig,
        env: &dyn Fn(&str) -> Option<String>,
    ) -> Result<ssh::ServerConfig, Diagnostic> {
        let at = || Path::from("servers").then(Step::Key(name.into()));
        let passphrase = || secret(&self.passphrase).or_else(|| secret(&ssh.passphrase));
        let own = secret(&self.private_key).is_some()
            || text(&self.private_key_path).is_some()
            || self.agent.known() == Some(&true);
        let (key, path, agent) = if own {
            (
                secret(&self.private_key),
                text(&self.private_key_path),
                self.agent.known() == Some(&true),
            )
        } else {
            (
                secret(&ssh.private_key),
                text(&ssh.private_key_path),
                ssh.agent.known() == Some(&true),
            )
        };
        let auth = match (key, path) {
            (Some(text), _) => Auth::Key {
                text,
                passphrase: passphrase(),
            },
            (None, Some(path)) => Auth::KeyFile {
                path,
                passphrase: passphrase(),
            },
            (None, None) if agent || env("SSH_AUTH_SOCK").is_some() => Auth::Agent {
                socket: env("SSH_AUTH_SOCK").map(PathBuf::from),
            },
            (None, None) => {
                return Err(Diagnostic::error(
                    format!("There is no key to log in to {name} with"),
                    "Set private_key_path, private_key or agent = true on the server, or in the provider's `ssh`.",
                )
                .at(at()));
            }
        };
        let known_hosts = text(&self.known_hosts_path).or_else(|| text(&ssh.known_hosts_path));
        let policy = |host_key: Option<String>| match (host_key, &known_hosts) {
            (Some(key), _) => HostKeyPolicy::Pinned(
                key.lines()
                    .map(str::to_owned)
                    .filter(|line| !line.trim().is_empty())
                    .collect(),
            ),
            (None, Some(path)) => HostKeyPolicy::KnownHosts(vec![path.clone()]),
            (None, None) => HostKeyPolicy::None,
        };
        let port = |port: &Opt<i64>| {
            port.known()
                .and_then(|port| u16::try_from(*port).ok())
                .unwrap_or(22)
        };
        let user = self.user.known().cloned().unwrap_or_default();
        let login = Login {
            host: self.host.known().cloned().unwrap_or_default(),
            port: port(&self.port),
            user: user.clone(),
            auth: auth.clone(),
            host_key: policy(text(&self.host_key)),
        };
        let mut config = ssh::ServerConfig::new(name, login);
        config.proxy_jump = self.proxy_jump.known().map(|jump| Login {
            host: jump.host.known().cloned().unwrap_or_default(),
            port: port(&jump.port),
            user: text(&jump.user).unwrap_or(user),
            auth,
            host_key: policy(text(&jump.host_key)),
        });
        config.docker_sudo = self.docker_sudo.known().copied().unwrap_or(false);
        if let Some(socket) = text(&self.docker_socket) {
            config.docker_socket = socket;
        }
        Ok(config)
    }
}

/// The registry logins for the adapter; those that are not known yet are left out.
pub(in crate::provider) fn registries(
    config: &Opt<std::collections::BTreeMap<String, Maybe<RegistryConfig>>>,
) -> Registries {
    let login = |it: &RegistryConfig| {
        let password = it.password.known()?.clone();
        redact(&password);
        Some(RegistryLogin {
            username: it.username.known()?.clone(),
            password: SecretString::from(password),
        })
    };
    let entries = config.known().into_iter().flatten();
    entries
        .filter_map(|(host, it)| Some((host.clone(), login(it.known()?)?)))
        .collect()
}
