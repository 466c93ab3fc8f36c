//! The connection to one cluster, as the provider block states it.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use secrecy::SecretString;
use serde::{Deserialize, Serialize};
use tf_provider_sdk::{
    diagnostic::Diagnostics,
    field::{Maybe, Opt, Sensitive},
    path::{Path, Step},
};

use crate::{
    capacity::fit::{DeclaredError, DeclaredGroup, DeclaredInput},
    kubernetes,
};

/// How to reach a cluster, and what to know of it. Without any argument: the environment variables of the `kubernetes` provider
/// (`KUBE_CONFIG_PATH`, `KUBE_HOST`, ...), then `KUBECONFIG`, then the service account of the pod that Terraform runs in.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ClusterConfig {
    /// Path of a kubeconfig file. `~` is your home directory. Environment: `KUBE_CONFIG_PATH`.
    pub config_path: Opt<String>,
    /// Paths of several kubeconfig files, merged as kubectl does. Environment: `KUBE_CONFIG_PATHS`.
    pub config_paths: Opt<Vec<Maybe<String>>>,
    /// A kubeconfig as text, for one that another resource made.
    pub kubeconfig: Sensitive<Opt<String>>,
    /// Context of the kubeconfig; without it its current context. Environment: `KUBE_CTX`.
    pub config_context: Opt<String>,
    /// Cluster entry to use instead of the context's. Environment: `KUBE_CTX_CLUSTER`.
    pub config_context_cluster: Opt<String>,
    /// User entry to use instead of the context's. Environment: `KUBE_CTX_AUTH_INFO`.
    pub config_context_auth_info: Opt<String>,
    /// URL of the API server, in place of a kubeconfig. Environment: `KUBE_HOST`.
    pub host: Opt<String>,
    /// Bearer token. Environment: `KUBE_TOKEN`.
    pub token: Sensitive<Opt<String>>,
    /// Client certificate, PEM. Environment: `KUBE_CLIENT_CERT_DATA`.
    pub client_certificate: Opt<String>,
    /// Key of the client certificate, PEM. Environment: `KUBE_CLIENT_KEY_DATA`.
    pub client_key: Sensitive<Opt<String>>,
    /// Certificate authority of the API server, PEM. Environment: `KUBE_CLUSTER_CA_CERT_DATA`.
    pub cluster_ca_certificate: Opt<String>,
    /// Accept any server certificate. For a test cluster only. Environment: `KUBE_INSECURE`.
    pub insecure: Opt<bool>,
    /// Name to check the server's certificate against, when it is not the host's. Environment: `KUBE_TLS_SERVER_NAME`.
    pub tls_server_name: Opt<String>,
    /// Proxy to the API server (`http://`, `https://` or `socks5://`). Environment: `KUBE_PROXY_URL`.
    pub proxy_url: Opt<String>,
    /// Credential plugin, such as `aws eks get-token`. It is run without a terminal, for 30 seconds at most.
    pub exec: Opt<ExecConfig>,
    /// Use the service account of the pod that Terraform runs in.
    pub in_cluster: Opt<bool>,
    /// Namespace of services that name none; without it the context's, else `default`.
    pub namespace: Opt<String>,
    /// Storage class for volumes. It must have the reclaim policy `Retain` and a declared volume binding mode.
    pub storage_class: Opt<String>,
    /// Node groups that may not have a node yet (they scale from zero), or that the credential can't list. Where nodes can be
    /// listed and disagree, the nodes win.
    pub gpu_node_groups: Opt<BTreeMap<String, Maybe<NodeGroupConfig>>>,
}

/// A credential plugin: a command that prints an `ExecCredential`.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ExecConfig {
    /// `client.authentication.k8s.io/v1` or `client.authentication.k8s.io/v1beta1`.
    pub api_version: Maybe<String>,
    /// The command.
    pub command: Maybe<String>,
    /// Its arguments.
    pub args: Opt<Vec<Maybe<String>>>,
    /// Environment variables on top of Terraform's own.
    pub env: Sensitive<Opt<BTreeMap<String, Maybe<String>>>>,
}

/// A node group that may not have a node yet.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct NodeGroupConfig {
    /// Kind of its GPUs, such as `nvidia-l4`.
    pub kind: Maybe<String>,
    /// GPUs of one node.
    #[schemars(range(min = 1, max = 16))]
    pub gpus_per_node: Maybe<i64>,
    /// Instance type, for the price.
    pub instance_type: Opt<String>,
    /// The label of its nodes that names the kind.
    pub label: Opt<NodeGroupLabel>,
    /// Taints of its nodes, as `KEY=VALUE:EFFECT`.
    pub taints: Opt<Vec<Maybe<String>>>,
}

/// A node label.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct NodeGroupLabel {
    /// Key, such as `k8s.amazonaws.com/accelerator`.
    pub key: Maybe<String>,
    /// Value, such as `nvidia-l4`.
    pub value: Maybe<String>,
}

impl ClusterConfig {
    /// What is wrong, as far as it is known.
    pub(super) fn validate(&self, at: &Path, report: &mut Diagnostics) {
        for (name, group) in self.gpu_node_groups.known().into_iter().flatten() {
            let Some(Err(why)) = group.known().and_then(|group| group.parse(name)) else {
                continue;
            };
            let at = at
                .then(Step::Attribute("gpu_node_groups".into()))
                .then(Step::Key(name.into()));
            report.error(at, "Invalid node group", why.to_string());
        }
    }

    /// The declared node groups; call it when all is known. One that is wrong was refused by `validate`.
    pub(in crate::provider) fn declared(
        &self,
    ) -> Result<Vec<DeclaredGroup>, (String, DeclaredError)> {
        let mut groups = Vec::new();
        for (name, group) in self.gpu_node_groups.known().into_iter().flatten() {
            if let Some(parsed) = group.known().and_then(|group| group.parse(name)) {
                groups.push(parsed.map_err(|why| (name.clone(), why))?);
            }
        }
        Ok(groups)
    }

    /// The connection for the adapter; call it when all is known.
    pub(in crate::provider) fn connection(&self) -> kubernetes::ConnectionConfig {
        let text = |value: &Opt<String>| value.known().filter(|text| !text.is_empty()).cloned();
        let secret = |value: &Opt<String>| {
            text(value).map(|secret| {
                tf_provider_sdk::log::redact::redact(&secret);
                SecretString::from(secret)
            })
        };
        kubernetes::ConnectionConfig {
            config_path: text(&self.config_path),
            config_paths: known_items(&self.config_paths),
            kubeconfig: secret(&self.kubeconfig),
            config_context: text(&self.config_context),
            config_context_cluster: text(&self.config_context_cluster),
            config_context_auth_info: text(&self.config_context_auth_info),
            host: text(&self.host),
            token: secret(&self.token),
            client_certificate: text(&self.client_certificate),
            client_key: secret(&self.client_key),
            cluster_ca_certificate: text(&self.cluster_ca_certificate),
            insecure: self.insecure.known().copied(),
            tls_server_name: text(&self.tls_server_name),
            proxy_url: text(&self.proxy_url),
            exec: self.exec.known().map(ExecConfig::connection),
            in_cluster: self.in_cluster.known().copied().unwrap_or(false),
            namespace: text(&self.namespace),
        }
    }
}

impl ExecConfig {
    fn connection(&self) -> kubernetes::ExecConfig {
        let text = |value: &Maybe<String>| value.known().cloned().unwrap_or_default();
        let env = self.env.known().into_iter().flatten();
        kubernetes::ExecConfig {
            api_version: text(&self.api_version),
            command: text(&self.command),
            args: known_items(&self.args),
            env: env
                .filter_map(|(name, value)| Some((name.clone(), value.known()?.clone())))
                .collect(),
        }
    }
}

impl NodeGroupConfig {
    /// `None` while part of it is not known.
    fn parse(&self, name: &str) -> Option<Result<DeclaredGroup, DeclaredError>> {
        if !super::unknown_in(self).is_empty() {
            return None;
        }
        let label = match self.label.known() {
            Some(label) => Some((label.key.known()?.clone(), label.value.known()?.clone())),
            None => None,
        };
        Some(DeclaredGroup::parse(&DeclaredInput {
            name: name.to_owned(),
            kind: self.kind.known()?.clone(),
            gpus_per_node: *self.gpus_per_node.known()?,
            instance_type: self.instance_type.known().cloned(),
            label,
            taints: known_items(&self.taints),
        }))
    }
}

fn known_items(items: &Opt<Vec<Maybe<String>>>) -> Vec<String> {
    items
        .known()
        .into_iter()
        .flatten()
        .filter_map(|item| item.known().cloned())
        .collect()
}
