//! How to reach a cluster: plain data, as the provider block states it, and the environment variables behind it.

use std::collections::BTreeMap;
use std::fmt;

use secrecy::SecretString;

/// The connection of one cluster. Everything is optional; [`ConnectionConfig::with_environment`] fills what the
/// environment says, and connecting refuses what then names no cluster.
#[derive(Debug, Clone, Default)]
pub struct ConnectionConfig {
    /// Path of a kubeconfig file; `~` is the home directory.
    pub config_path: Option<String>,
    /// Several kubeconfig files, merged as kubectl does. Not together with `config_path`.
    pub config_paths: Vec<String>,
    /// A kubeconfig as text, for one that another resource made.
    pub kubeconfig: Option<SecretString>,
    /// Context of the kubeconfig; without it: its current context.
    pub config_context: Option<String>,
    /// Cluster entry to use instead of the context's.
    pub config_context_cluster: Option<String>,
    /// User entry to use instead of the context's.
    pub config_context_auth_info: Option<String>,
    /// URL of the API server.
    pub host: Option<String>,
    /// Bearer token.
    pub token: Option<SecretString>,
    /// Client certificate, PEM.
    pub client_certificate: Option<String>,
    /// Key of the client certificate, PEM.
    pub client_key: Option<SecretString>,
    /// CA of the API server, PEM.
    pub cluster_ca_certificate: Option<String>,
    /// Accept any server certificate. For a test cluster only.
    pub insecure: Option<bool>,
    /// Name to check the server's certificate against, when it is not the host's.
    pub tls_server_name: Option<String>,
    /// Proxy to the API server: `http://`, `https://` or `socks5://`.
    pub proxy_url: Option<String>,
    /// Credential plugin.
    pub exec: Option<ExecConfig>,
    /// Use the service account of the pod that this runs in. Without it that is still tried when nothing else is said.
    pub in_cluster: bool,
    /// Namespace for what names none; without it: the context's, else `default`.
    pub namespace: Option<String>,
}

/// A credential plugin: a command that prints an `ExecCredential`.
#[derive(Clone, Default)]
pub struct ExecConfig {
    /// `client.authentication.k8s.io/v1` or `.../v1beta1`.
    pub api_version: String,
    /// Command.
    pub command: String,
    /// Its arguments.
    pub args: Vec<String>,
    /// Environment variables on top of the process's own. May hold secrets: never shown.
    pub env: BTreeMap<String, String>,
}

impl fmt::Debug for ExecConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Arguments and values can carry secrets.
        f.debug_struct("ExecConfig")
            .field("command", &self.command)
            .field("env", &self.env.keys())
            .finish_non_exhaustive()
    }
}

impl ConnectionConfig {
    fn names_kubeconfig(&self) -> bool {
        self.config_path.is_some() || !self.config_paths.is_empty() || self.kubeconfig.is_some()
    }

    /// Fills what is not said from the environment, with the variables of the `kubernetes` provider, then kubectl's
    /// `KUBECONFIG`. `lookup` is `std::env::var` outside tests.
    ///
    /// An argument beats its variable. What *chooses* the cluster is taken as a whole: a connection that names a host takes
    /// no kubeconfig from the environment, and the reverse, so that no credential goes to a cluster it is not for.
    #[must_use]
    pub fn with_environment(mut self, lookup: &dyn Fn(&str) -> Option<String>) -> Self {
        let get = |name: &str| lookup(name).filter(|value| !value.is_empty());
        if !self.names_kubeconfig() && self.host.is_none() && !self.in_cluster {
            self.host = get("KUBE_HOST");
            if let Some(path) = get("KUBE_CONFIG_PATH") {
                self.config_path = Some(path);
            } else if let Some(paths) = get("KUBE_CONFIG_PATHS") {
                self.config_paths = split_paths(&paths);
            } else if self.host.is_none()
                && let Some(paths) = get("KUBECONFIG")
            {
                self.config_paths = split_paths(&paths);
            }
            self.insecure = self.insecure.or_else(|| {
                get("KUBE_INSECURE")
                    .map(|value| matches!(value.as_str(), "1" | "true" | "TRUE" | "True"))
            });
            self.cluster_ca_certificate = self
                .cluster_ca_certificate
                .or_else(|| get("KUBE_CLUSTER_CA_CERT_DATA"));
            self.tls_server_name = self.tls_server_name.or_else(|| get("KUBE_TLS_SERVER_NAME"));
            if self.token.is_none() && self.client_certificate.is_none() && self.exec.is_none() {
                self.token = get("KUBE_TOKEN").map(SecretString::from);
                self.client_certificate = get("KUBE_CLIENT_CERT_DATA");
                self.client_key = self
                    .client_key
                    .or_else(|| get("KUBE_CLIENT_KEY_DATA").map(SecretString::from));
            }
        }
        if self.names_kubeconfig() {
            self.config_context = self.config_context.or_else(|| get("KUBE_CTX"));
            self.config_context_cluster = self
                .config_context_cluster
                .or_else(|| get("KUBE_CTX_CLUSTER"));
            self.config_context_auth_info = self
                .config_context_auth_info
                .or_else(|| get("KUBE_CTX_AUTH_INFO"));
        }
        self.proxy_url = self.proxy_url.or_else(|| get("KUBE_PROXY_URL"));
        self
    }
}

fn split_paths(paths: &str) -> Vec<String> {
    std::env::split_paths(paths)
        .filter(|path| !path.as_os_str().is_empty())
        .map(|path| path.to_string_lossy().into_owned())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn env(pairs: &'static [(&'static str, &'static str)]) -> impl Fn(&str) -> Option<String> {
        move |name| {
            pairs
                .iter()
                .find(|(key, _)| *key == name)
                .map(|(_, value)| (*value).to_owned())
        }
    }

    #[test]
    fn an_argument_beats_its_variable() {
        let config = ConnectionConfig {
            config_path: Some("mine".into()),
            config_context: Some("a".into()),
            ..Default::default()
        }
        .with_environment(&env(&[
            ("KUBE_CONFIG_PATH", "theirs"),
            ("KUBE_CTX", "b"),
            ("KUBE_HOST", "https://other"),
            ("KUBE_TOKEN", "t"),
        ]));
        assert_eq!(config.config_path.as_deref(), Some("mine"));
        assert_eq!(config.config_context.as_deref(), Some("a"));
        assert_eq!(
            config.host, None,
            "a host from the environment would send this kubeconfig's credential elsewhere"
        );
        assert!(config.token.is_none());
    }

    #[test]
    fn a_host_takes_no_kubeconfig_from_the_environment() {
        let config = ConnectionConfig {
            host: Some("https://a".into()),
            ..Default::default()
        }
        .with_environment(&env(&[
            ("KUBE_CONFIG_PATH", "x"),
            ("KUBECONFIG", "y"),
            ("KUBE_TOKEN", "t"),
        ]));
        assert_eq!(config.config_path, None);
        assert!(config.config_paths.is_empty());
        assert!(config.token.is_none());
    }

    #[test]
    fn an_empty_connection_is_filled_and_kubectls_variable_comes_last() {
        let config = ConnectionConfig::default()
            .with_environment(&env(&[("KUBECONFIG", "a::b"), ("KUBE_CTX", "c")]));
        assert_eq!(config.config_paths, ["a", "b"]);
        assert_eq!(config.config_context.as_deref(), Some("c"));
        let config = ConnectionConfig::default().with_environment(&env(&[
            ("KUBECONFIG", "a"),
            ("KUBE_HOST", "https://h"),
            ("KUBE_TOKEN", "t"),
        ]));
        assert!(config.config_paths.is_empty());
        assert_eq!(config.host.as_deref(), Some("https://h"));
    }

    #[test]
    fn secrets_are_not_in_debug_output() {
        let config = ConnectionConfig {
            token: Some("s3cret-token".to_owned().into()),
            exec: Some(ExecConfig {
                command: "aws".into(),
                args: vec!["s3cret-arg".into()],
                env: [("K".into(), "s3cret-env".into())].into(),
                ..Default::default()
            }),
            ..Default::default()
        };
        assert!(!format!("{config:?}").contains("s3cret"));
    }
}
