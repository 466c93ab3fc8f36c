//! From a [`ConnectionConfig`] to kube's own configuration: reads kubeconfig files, lays the explicit arguments over them,
//! finds the proxy. The credential plugin is left to `credential.rs`.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use base64::Engine as _;
use kube::config::{
    AuthInfo, Cluster, Context, KubeConfigOptions, Kubeconfig, NamedAuthInfo, NamedCluster,
    NamedContext,
};
use secrecy::{ExposeSecret, SecretString};

use super::config::ConnectionConfig;
use super::credential::Plugin;
use super::error::Error;
use super::proxy;

/// Where a pod's service account token is.
const SERVICE_ACCOUNT_TOKEN: &str = "/var/run/secrets/kubernetes.io/serviceaccount/token";

/// What a connection comes to, before any network traffic.
#[derive(Debug)]
pub(super) struct Resolved {
    /// kube's configuration, without `exec`.
    pub(super) kube: kube::Config,
    /// The credential plugin to run first.
    pub(super) plugin: Option<Plugin>,
}

/// Resolves a connection. Reads a few small files.
pub(super) async fn resolve(cluster: &str, config: &ConnectionConfig) -> Result<Resolved, Error> {
    check(cluster, config)?;
    let files = files(config);
    let mut kube = if let Some(text) = &config.kubeconfig {
        let parsed = Kubeconfig::from_yaml(text.expose_secret())
            .map_err(|error| kubeconfig_error(cluster, "inline", error))?;
        load(cluster, "inline", parsed, config).await?
    } else if !files.is_empty() {
        let location = files
            .iter()
            .map(|path| path.display().to_string())
            .collect::<Vec<_>>()
            .join(", ");
        let mut merged = Kubeconfig::default();
        for path in &files {
            merged = Kubeconfig::read_from(path)
                .and_then(|next| merged.merge(next))
                .map_err(|error| kubeconfig_error(cluster, &location, error))?;
        }
        load(cluster, &location, merged, config).await?
    } else if config.host.is_some() {
        load(cluster, "host", Kubeconfig::default(), config).await?
    } else if config.in_cluster
        || (std::env::var_os("KUBERNETES_SERVICE_HOST").is_some()
            && Path::new(SERVICE_ACCOUNT_TOKEN).exists())
    {
        kube::Config::incluster()
            .map_err(|error| kubeconfig_error(cluster, "the pod's service account", error))?
    } else {
        return Err(problem(
            cluster,
            "it names no cluster. Set config_path (or KUBE_CONFIG_PATH), kubeconfig, or host with token, client_certificate or exec",
        ));
    };
    if kube.auth_info.auth_provider.is_some() {
        return Err(problem(
            cluster,
            "its kubeconfig user has an auth-provider, which kubectl dropped in 1.26. Use a credential plugin (exec) instead, such as gke-gcloud-auth-plugin or kubelogin",
        ));
    }
    // Ours decides on retries and time limits: see request.rs.
    kube.default_retry = false;
    kube.connect_timeout = Some(std::time::Duration::from_secs(20));
    let exec = kube.auth_info.exec.take();
    let has_static = kube.auth_info.token.is_some()
        || kube.auth_info.token_file.is_some()
        || kube.auth_info.client_certificate_data.is_some()
        || kube.auth_info.client_certificate.is_some();
    let plugin = match exec {
        Some(exec) if !has_static => Some(Plugin::new(cluster, exec)?),
        _ => None,
    };
    Ok(Resolved { kube, plugin })
}

fn problem(cluster: &str, text: impl Into<String>) -> Error {
    Error::Configuration {
        cluster: cluster.to_owned(),
        problem: text.into(),
    }
}

fn kubeconfig_error(
    cluster: &str,
    location: &str,
    error: impl std::error::Error + Send + Sync + 'static,
) -> Error {
    Error::Kubeconfig {
        cluster: cluster.to_owned(),
        location: location.to_owned(),
        source: Arc::new(error),
    }
}

fn check(cluster: &str, config: &ConnectionConfig) -> Result<(), Error> {
    let sources = [
        config.config_path.is_some(),
        !config.config_paths.is_empty(),
        config.kubeconfig.is_some(),
        config.in_cluster,
    ];
    if sources.iter().filter(|given| **given).count() > 1 {
        return Err(problem(
            cluster,
            "config_path, config_paths, kubeconfig and in_cluster exclude each other: keep one",
        ));
    }
    if config.client_certificate.is_some() != config.client_key.is_some() {
        return Err(problem(
            cluster,
            "client_certificate and client_key belong together: set both",
        ));
    }
    if config.insecure == Some(true) && config.cluster_ca_certificate.is_some() {
        return Err(problem(
            cluster,
            "insecure = true and cluster_ca_certificate contradict each other: keep one",
        ));
    }
    if let Some(exec) = &config.exec
        && exec.command.is_empty()
    {
        return Err(problem(cluster, "exec has no command"));
    }
    Ok(())
}

/// The kubeconfig files to merge, with `~` resolved.
fn files(config: &ConnectionConfig) -> Vec<PathBuf> {
    config
        .config_path
        .iter()
        .chain(&config.config_paths)
        .map(|path| home(path))
        .collect()
}

/// `~` and `~/x`; another user's `~name` is left as it is.
fn home(path: &str) -> PathBuf {
    let rest = if path == "~" {
        Some("")
    } else {
        path.strip_prefix("~/")
    };
    match (rest, std::env::home_dir()) {
        (Some(rest), Some(home)) => home.join(rest),
        _ => PathBuf::from(path),
    }
}

/// The name of the entry that holds explicit arguments when there is no kubeconfig.
const EXPLICIT: &str = "loomplane";

async fn load(
    cluster: &str,
    location: &str,
    mut file: Kubeconfig,
    config: &ConnectionConfig,
) -> Result<kube::Config, Error> {
    let options = if file.clusters.is_empty() && file.contexts.is_empty() && config.host.is_some() {
        file.clusters.push(NamedCluster {
            name: EXPLICIT.into(),
            cluster: Some(Cluster::default()),
            ..Default::default()
        });
        file.auth_infos.push(NamedAuthInfo {
            name: EXPLICIT.into(),
            auth_info: Some(AuthInfo::default()),
            ..Default::default()
        });
        file.contexts.push(NamedContext {
            name: EXPLICIT.into(),
            context: Some(Context {
                cluster: EXPLICIT.into(),
                user: Some(EXPLICIT.into()),
                ..Default::default()
            }),
            ..Default::default()
        });
        KubeConfigOptions {
            context: Some(EXPLICIT.into()),
            ..Default::default()
        }
    } else {
        KubeConfigOptions {
            context: config.config_context.clone(),
            cluster: config.config_context_cluster.clone(),
            user: config.config_context_auth_info.clone(),
        }
    };
    let context = options
        .context
        .clone()
        .or_else(|| file.current_context.clone())
        .unwrap_or_default();
    if let Some(named) = file.contexts.iter().find(|named| named.name == context) {
        let of_context = named.context.clone().unwrap_or_default();
        let cluster_name = options.cluster.clone().unwrap_or(of_context.cluster);
        let user_name = options.user.clone().or(of_context.user);
        for entry in file
            .clusters
            .iter_mut()
            .filter(|entry| entry.name == cluster_name)
        {
            overlay_cluster(entry.cluster.get_or_insert_default(), config);
        }
        // kube, like client-go, takes a missing user for an anonymous one. A name that leads nowhere is a typing error.
        if let Some(user) = &user_name
            && !user.is_empty()
            && !file.auth_infos.iter().any(|entry| &entry.name == user)
            && !has_credential(config)
        {
            return Err(problem(
                cluster,
                format!(
                    "the kubeconfig ({location}) has no user {user:?}, which context {context:?} asks for"
                ),
            ));
        }
        if let Some(user) = &user_name {
            if !file.auth_infos.iter().any(|entry| &entry.name == user) {
                file.auth_infos.push(NamedAuthInfo {
                    name: user.clone(),
                    ..Default::default()
                });
            }
            for entry in file
                .auth_infos
                .iter_mut()
                .filter(|entry| &entry.name == user)
            {
                overlay_user(entry.auth_info.get_or_insert_default(), config);
            }
        }
    }
    let explicit_proxy = config.proxy_url.clone().or_else(|| {
        file.contexts
            .iter()
            .find(|named| named.name == context)
            .and_then(|named| named.context.as_ref())
            .map(|of_context| {
                options
                    .cluster
                    .clone()
                    .unwrap_or_else(|| of_context.cluster.clone())
            })
            .and_then(|name| {
                file.clusters
                    .iter()
                    .find(|entry| entry.name == name)
                    .cloned()
            })
            .and_then(|entry| entry.cluster)
            .and_then(|entry| entry.proxy_url)
            .filter(|url| !url.is_empty())
    });
    let mut kube = kube::Config::from_custom_kubeconfig(file, &options)
        .await
        .map_err(|error| kubeconfig_error(cluster, location, error))?;
    kube.proxy_url = proxy::choose(explicit_proxy.as_deref(), &kube.cluster_url, &|name| {
        std::env::var(name).ok()
    })
    .map_err(|url| {
        problem(
            cluster,
            format!(
                "proxy_url {url:?} is not a URL; write it as http://host:port or socks5://host:port"
            ),
        )
    })?;
    Ok(kube)
}

fn has_credential(config: &ConnectionConfig) -> bool {
    config.token.is_some() || config.client_certificate.is_some() || config.exec.is_some()
}

/// PEM text as kubeconfig's base64; what is not PEM is taken as base64 already.
fn base64_of(pem: &str) -> String {
    if pem.contains("-----BEGIN") {
        base64::engine::general_purpose::STANDARD.encode(pem)
    } else {
        pem.split_whitespace().collect()
    }
}

fn overlay_cluster(cluster: &mut Cluster, config: &ConnectionConfig) {
    if let Some(host) = &config.host {
        let with_scheme = if host.contains("://") {
            host.clone()
        } else {
            format!("https://{host}")
        };
        cluster.server = Some(with_scheme);
    }
    if let Some(ca) = &config.cluster_ca_certificate {
        cluster.certificate_authority = None;
        cluster.certificate_authority_data = Some(base64_of(ca));
    }
    if let Some(insecure) = config.insecure {
        cluster.insecure_skip_tls_verify = Some(insecure);
    }
    if let Some(name) = &config.tls_server_name {
        cluster.tls_server_name = Some(name.clone());
    }
}

/// An explicit credential replaces the kubeconfig's whole: two credentials of different people must not mix.
fn overlay_user(user: &mut AuthInfo, config: &ConnectionConfig) {
    if !has_credential(config) {
        return;
    }
    *user = AuthInfo::default();
    user.token = config.token.clone();
    user.client_certificate_data = config.client_certificate.as_deref().map(base64_of);
    user.client_key_data = config
        .client_key
        .as_ref()
        .map(|key| SecretString::from(base64_of(key.expose_secret())));
    if let Some(exec) = &config.exec {
        user.exec = Some(kube::config::ExecConfig {
            api_version: Some(exec.api_version.clone()).filter(|version| !version.is_empty()),
            command: Some(exec.command.clone()),
            args: Some(exec.args.clone()),
            env: Some(
                exec.env
                    .iter()
                    .map(|(name, value)| {
                        [
                            ("name".to_owned(), name.clone()),
                            ("value".to_owned(), value.clone()),
                        ]
                        .into()
                    })
                    .collect(),
            ),
            ..Default::default()
        });
    }
}

#[cfg(test)]
mod tests;
