//! What a user says about a server: where it is, who logs in, which host key it must show.

use std::path::PathBuf;
use std::time::Duration;

use secrecy::SecretString;

/// Where the Docker Engine of a server listens unless the configuration says otherwise.
pub const DOCKER_SOCKET: &str = "/var/run/docker.sock";

/// One server as the provider's configuration names it.
#[derive(Debug, Clone)]
pub struct ServerConfig {
    /// The name that `target` uses, such as `rack1`.
    pub name: String,
    /// Address and account.
    pub login: Login,
    /// A host to go through, or none.
    pub proxy_jump: Option<Login>,
    /// Whether Docker needs `sudo -n` there: stated by the user, never guessed.
    pub docker_sudo: bool,
    /// Path of the engine's socket on the server; [`DOCKER_SOCKET`] by default.
    pub docker_socket: String,
    /// Time limits.
    pub limits: Limits,
}

impl ServerConfig {
    /// A server with the default socket, limits and without sudo or jump host.
    pub fn new(name: impl Into<String>, login: Login) -> Self {
        Self {
            name: name.into(),
            login,
            proxy_jump: None,
            docker_sudo: false,
            docker_socket: DOCKER_SOCKET.to_owned(),
            limits: Limits::default(),
        }
    }
}

/// One SSH endpoint: a server, or the host in front of it.
#[derive(Debug, Clone)]
pub struct Login {
    /// DNS name or address, without brackets.
    pub host: String,
    /// TCP port, 22 unless stated.
    pub port: u16,
    /// Remote account.
    pub user: String,
    /// How that account is proven.
    pub auth: Auth,
    /// Which host key is expected (rule S4).
    pub host_key: HostKeyPolicy,
}

impl Login {
    /// `user@host:port`, for messages.
    pub fn address(&self) -> String {
        if self.host.contains(':') {
            format!("{}@[{}]:{}", self.user, self.host, self.port)
        } else {
            format!("{}@{}:{}", self.user, self.host, self.port)
        }
    }
}

/// How an account is proven. No passwords: keys only.
#[derive(Debug, Clone)]
pub enum Auth {
    /// The private key itself, in OpenSSH, PKCS#1, PKCS#8 or PuTTY form.
    Key {
        /// The key's text.
        text: SecretString,
        /// What decrypts it, when it is encrypted.
        passphrase: Option<SecretString>,
    },
    /// A file with the private key; a leading `~` is the home directory of who runs Terraform.
    KeyFile {
        /// Path as typed.
        path: String,
        /// What decrypts it, when it is encrypted.
        passphrase: Option<SecretString>,
    },
    /// The keys of a running ssh-agent.
    Agent {
        /// Its socket; none means `SSH_AUTH_SOCK`, which the caller resolves.
        socket: Option<PathBuf>,
    },
}

/// Which host key is trusted. Nothing is ever learned on first use.
#[derive(Debug, Clone)]
pub enum HostKeyPolicy {
    /// Keys in `authorized_keys` form (`ssh-ed25519 AAAA...`), any of which will do.
    Pinned(Vec<String>),
    /// Files in OpenSSH's `known_hosts` form, in the order they are searched.
    KnownHosts(Vec<String>),
    /// Neither is configured: every connection is refused.
    None,
}

/// How long things may take. Every limit also ends the remote side.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// From the first TCP packet to an authenticated session, over the jump host if there is one.
    pub connect: Duration,
    /// One `nvidia-smi`. Eight cards without persistence mode need more than ten seconds.
    pub nvidia_smi: Duration,
    /// Any other short command.
    pub command: Duration,
    /// One answer of the Docker Engine (its head; a pull's body is bounded by the operation's deadline).
    pub docker: Duration,
    /// How often an idle connection is probed; three misses end it.
    pub keepalive: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(30),
            nvidia_smi: Duration::from_secs(30),
            command: Duration::from_secs(20),
            docker: Duration::from_secs(60),
            keepalive: Duration::from_secs(15),
        }
    }
}

/// Credentials for image registries: host (`ghcr.io`, `registry:5000`, `docker.io`) to login.
pub type Registries = std::collections::BTreeMap<String, RegistryLogin>;

/// A login of an image registry.
#[derive(Debug, Clone)]
pub struct RegistryLogin {
    /// Account name.
    pub username: String,
    /// Password or token.
    pub password: SecretString,
}

/// `~` and `~/...` as the home directory `home`; other paths unchanged.
pub fn expand_home(path: &str, home: Option<&std::path::Path>) -> PathBuf {
    match (path.strip_prefix('~'), home) {
        (Some(""), Some(home)) => home.to_path_buf(),
        (Some(rest), Some(home)) if rest.starts_with('/') => {
            home.join(rest.trim_start_matches('/'))
        }
        _ => PathBuf::from(path),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn a_tilde_is_the_home_directory_and_only_at_the_start() {
        let home = Some(Path::new("/home/ops"));
        for (typed, want) in [
            ("~/.ssh/id", "/home/ops/.ssh/id"),
            ("~", "/home/ops"),
            ("/etc/~/x", "/etc/~/x"),
            ("~root/x", "~root/x"),
            ("rel/x", "rel/x"),
        ] {
            assert_eq!(expand_home(typed, home), Path::new(want), "{typed}");
        }
        assert_eq!(expand_home("~/x", None), Path::new("~/x"));
    }
}
