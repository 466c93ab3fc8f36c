//! What operations work with: the configured targets, opened when first used, once per process, and shared.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, PoisonError},
};

use tf_provider_sdk::{
    diagnostic::{Diagnostic, Diagnostics},
    field::{Maybe, Opt},
    path::{Path, Step},
};
use tokio::sync::OnceCell;

use super::{
    configuration::{ClusterConfig, Config, ServerConfig, SshConfig, registries, unknown_in},
    report,
};
use crate::{
    capacity::{
        fit::{
            ClusterAsk, ClusterFit, ClusterRefusal, ClusterView, DeclaredGroup, Seen,
            ServiceAccount, fit_cluster,
        },
        gpu::GpuRequest,
        label::keys::relevant_label,
        price::{Price, PriceBook},
        taint::Toleration,
    },
    kubernetes::{Cancel, Cluster, Error},
    ssh::{Registries, Server},
};

/// The configured targets and prices.
pub struct Client {
    clusters: BTreeMap<String, Connection<ClusterTarget>>,
    servers: BTreeMap<String, Connection<ServerTarget>>,
    /// Whether the maps of targets themselves are known, so that a name that is not in them is a mistake.
    complete: bool,
    /// Which server has which machine-id, as far as this process has asked (G9).
    machines: Mutex<BTreeMap<String, String>>,
    /// Logins of image registries, for servers.
    pub registries: Registries,
    /// Prices: the user's own over the reference table.
    pub prices: PriceBook,
    /// Whether the user's own prices are known.
    pub prices_known: bool,
}

/// A configured connection.
enum Connection<T> {
    /// All of it is known.
    Known(T),
    /// These attributes are not known yet.
    Unknown(Vec<String>),
}

/// What a target name leads to.
pub enum Target<'a> {
    /// A cluster.
    Cluster(&'a ClusterTarget),
    /// An own server.
    Server(&'a ServerTarget),
    /// A connection of which these attributes are not known yet.
    Unknown(Vec<String>),
    /// No connection of that name.
    Missing,
}

/// A cluster, and what the connection says about it.
pub struct ClusterTarget {
    /// Name of the connection.
    pub name: String,
    /// The adapter's handle.
    pub cluster: Cluster,
    /// Storage class that the connection picks (K8).
    pub storage_class: Option<String>,
    /// Declared node groups (K11).
    pub declared: Vec<DeclaredGroup>,
    view: OnceCell<Arc<View>>,
    told: Mutex<BTreeMap<Asked, Arc<ClusterFit>>>,
}

/// What tells one new request from another: kind and count, replicas, CPU, memory, node selector, tolerations.
type Asked = (
    GpuRequest,
    u32,
    Option<u64>,
    Option<u64>,
    BTreeMap<String, String>,
    Vec<Toleration>,
);

/// How many requests are remembered: the services of a configuration are mostly alike.
const MOST_TOLD: usize = 64;

/// An own server, and what the connection says about it.
pub struct ServerTarget {
    /// Name of the connection.
    pub name: String,
    /// The adapter's handle.
    pub server: Arc<Server>,
    /// The user's own figure for the whole machine.
    pub price: Price,
    /// Services whose plan in this process leaves them as they are (S3b).
    staying: Mutex<BTreeSet<String>>,
}

impl ServerTarget {
    fn new(
        name: &str,
        config: &ServerConfig,
        ssh: &SshConfig,
        env: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Self, Diagnostic> {
        Ok(Self {
            name: name.to_owned(),
            server: Server::new(config.connection(name, ssh, env)?),
            price: config.price(),
            staying: Mutex::default(),
        })
    }

    /// Notes that a service stays as it is.
    pub fn stays(&self, service: &str) {
        let mut staying = self.staying.lock().unwrap_or_else(PoisonError::into_inner);
        staying.insert(service.to_owned());
    }

    /// The services that stay as they are, as far as this process has planned.
    pub fn staying(&self) -> BTreeSet<String> {
        self.staying
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}

/// What could be seen of a cluster's nodes.
#[derive(Debug)]
pub enum View {
    /// The nodes, summed up.
    Listed(ClusterView),
    /// RBAC refuses the list (K1).
    NotListed(Option<ServiceAccount>),
}

impl View {
    /// For the domain.
    pub fn seen(&self) -> Seen<'_> {
        match self {
            View::Listed(view) => Seen::Nodes(view),
            View::NotListed(account) => Seen::NotListed(account.as_ref()),
        }
    }
}

impl ClusterTarget {
    fn new(
        name: &str,
        config: &ClusterConfig,
        env: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Self, Diagnostic> {
        let declared = config.declared().map_err(|(group, why)| {
            let at = Path::from("clusters").then(Step::Key(name.into()));
            Diagnostic::error(
                "Invalid node group",
                format!("gpu_node_groups[{group:?}]: {why}"),
            )
            .at(at)
        })?;
        Ok(Self {
            name: name.to_owned(),
            cluster: Cluster::new(name, config.connection().with_environment(env)),
            storage_class: config.storage_class.known().cloned(),
            declared,
            view: OnceCell::new(),
            told: Mutex::default(),
        })
    }

    /// What can be seen of the nodes: one list per process, whoever asks.
    ///
    /// # Errors
    /// Where the list fails for another reason than missing rights.
    pub async fn view(&self, cancel: &Cancel) -> Result<Arc<View>, Error> {
        let list = || async {
            let view = match self.cluster.nodes(relevant_label, cancel).await {
                Ok(nodes) => View::Listed(ClusterView::new(&nodes)),
                Err(Error::NodesForbidden { message, .. }) => {
                    View::NotListed(service_account(&message))
                }
                Err(error) => return Err(error),
            };
            // The sum is all that is needed from here on; a large cluster's nodes need not stay in memory.
            self.cluster.forget_nodes().await;
            Ok(Arc::new(view))
        };
        self.view.get_or_try_init(list).await.cloned()
    }

    /// Holds a request against what was seen, which is the same for the whole run: services that ask for the same are told the same.
    ///
    /// # Errors
    /// What keeps the cluster from meeting it.
    pub fn fit(
        &self,
        view: &View,
        ask: &ClusterAsk<'_>,
    ) -> Result<Arc<ClusterFit>, Box<ClusterRefusal>> {
        let fit = || fit_cluster(view.seen(), &self.declared, ask).map(Arc::new);
        if ask.previous.is_some() {
            return fit();
        }
        let asked = (
            ask.request,
            ask.replicas,
            ask.cpu_millis,
            ask.memory_mib,
            ask.node_selector.clone(),
            ask.tolerations.to_vec(),
        );
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(fit) = told.get(&asked) {
            return Ok(Arc::clone(fit));
        }
        let fit = fit()?;
        if told.len() < MOST_TOLD {
            told.insert(asked, Arc::clone(&fit));
        }
        Ok(fit)
    }
}

/// The service account that an API server's refusal names: `User "system:serviceaccount:NAMESPACE:NAME" cannot list ...`.
fn service_account(message: &str) -> Option<ServiceAccount> {
    let (_, rest) = message.split_once("system:serviceaccount:")?;
    let (namespace, rest) = rest.split_once(':')?;
    let (name, _) = rest.split_once('"')?;
    Some(ServiceAccount {
        namespace: namespace.to_owned(),
        name: name.to_owned(),
    })
}

impl Client {
    /// Reads the provider block; no I/O. `env` looks up an environment variable.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn new(config: &Config, env: &dyn Fn(&str) -> Option<String>) -> Result<Self, Diagnostics> {
        let prices = config
            .prices()
            .map_err(|(path, why)| Diagnostic::error("Invalid price", why).at(path))?;
        let mut clusters = BTreeMap::new();
        for (name, cluster) in config.clusters.known().into_iter().flatten() {
            let connection = match cluster {
                Maybe::Unknown => Connection::Unknown(vec!["all of it".to_owned()]),
                Maybe::Known(cluster) => {
                    let unknown = unknown_in(cluster);
                    if unknown.is_empty() {
                        Connection::Known(ClusterTarget::new(name, cluster, env)?)
                    } else {
                        Connection::Unknown(unknown)
                    }
                }
            };
            clusters.insert(name.clone(), connection);
        }
        let none = SshConfig::default();
        let ssh = config.ssh.known().unwrap_or(&none);
        let ssh_unknown = if config.ssh.is_unknown() {
            vec!["ssh".to_owned()]
        } else {
            unknown_in(ssh)
        };
        let mut servers = BTreeMap::new();
        for (name, server) in config.servers.known().into_iter().flatten() {
            let connection = match server {
                Maybe::Unknown => Connection::Unknown(vec!["all of it".to_owned()]),
                Maybe::Known(server) => {
                    let mut unknown = unknown_in(server);
                    unknown.extend(ssh_unknown.iter().cloned());
                    if unknown.is_empty() {
                        Connection::Known(ServerTarget::new(name, server, ssh, env)?)
                    } else {
                        Connection::Unknown(unknown)
                    }
                }
            };
            servers.insert(name.clone(), connection);
        }
        Ok(Self {
            clusters,
            servers,
            complete: !config.clusters.is_unknown() && !config.servers.is_unknown(),
            machines: Mutex::default(),
            registries: registries(&config.registries),
            prices,
            prices_known: unknown_in(&Prices {
                prices: &config.prices,
            })
            .is_empty(),
        })
    }

    /// The target of this name.
    pub fn target(&self, name: &str) -> Target<'_> {
        match (self.clusters.get(name), self.servers.get(name)) {
            (Some(Connection::Known(cluster)), _) => Target::Cluster(cluster),
            (_, Some(Connection::Known(server))) => Target::Server(server),
            (Some(Connection::Unknown(attributes)), _)
            | (_, Some(Connection::Unknown(attributes))) => Target::Unknown(attributes.clone()),
            (None, None) if self.complete => Target::Missing,
            (None, None) => Target::Unknown(vec!["clusters or servers".to_owned()]),
        }
    }

    /// Whether the names of all connections are known.
    pub fn names_known(&self) -> bool {
        self.complete
    }

    /// Notes a server's machine-id; the name of another configured server that has it (G9).
    pub fn claim_machine(&self, name: &str, machine_id: &str) -> Option<String> {
        let mut machines = self.machines.lock().unwrap_or_else(PoisonError::into_inner);
        let owner = machines
            .entry(machine_id.to_owned())
            .or_insert_with(|| name.to_owned());
        (owner != name).then(|| owner.clone())
    }

    /// The servers whose connection is known, and the names of the others.
    pub fn servers(&self) -> (Vec<&ServerTarget>, Vec<&str>) {
        sorted_out(&self.servers)
    }

    /// The clusters whose connection is known, and the names of the others.
    pub fn clusters(&self) -> (Vec<&ClusterTarget>, Vec<&str>) {
        sorted_out(&self.clusters)
    }

    /// An error for a target that is not configured, on the attribute that names it.
    pub fn missing(&self, attribute: &'static str, name: &str) -> Diagnostic {
        let names: Vec<_> = self
            .clusters
            .keys()
            .chain(self.servers.keys())
            .map(String::as_str)
            .collect();
        let known = if names.is_empty() {
            "The provider configures no target.".to_owned()
        } else {
            format!("Configured are: {}.", names.join(", "))
        };
        Diagnostic::error(
            format!("There is no target {name}"),
            format!(
                "{attribute} = {name:?} names no connection of the provider. {known} Add it to `clusters` or `servers` in the provider block, or name another."
            ),
        )
        .at(attribute)
    }
}

fn sorted_out<T>(connections: &BTreeMap<String, Connection<T>>) -> (Vec<&T>, Vec<&str>) {
    let mut known = Vec::new();
    let mut unknown = Vec::new();
    for (name, connection) in connections {
        match connection {
            Connection::Known(target) => known.push(target),
            Connection::Unknown(_) => unknown.push(name.as_str()),
        }
    }
    (known, unknown)
}

#[derive(serde::Serialize)]
struct Prices<'a> {
    prices: &'a Opt<BTreeMap<String, Maybe<tf_provider_sdk::number::Number>>>,
}

/// Turns a failed look at a cluster into a diagnostic.
impl From<Error> for Diagnostics {
    fn from(error: Error) -> Self {
        report::cluster_error(&error).into()
    }
}

#[cfg(test)]
mod tests;
