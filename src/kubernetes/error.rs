//! What can go wrong with a cluster, one variant per failed operation, in the practitioner's words: what was asked, what
//! was found, what to do. Causes are in `source()` and never repeated in the text. Secrets never get here.

use std::fmt;
use std::sync::Arc;

use super::conflict::FieldConflict;
use super::rollout::RolloutFailure;

/// A cause that several callers may share: one node list serves a whole run, and so does its failure.
pub type Cause = Arc<dyn std::error::Error + Send + Sync>;

/// A Kubernetes object in a message: `Deployment inference/llm`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObjectName {
    /// Kind, such as `Deployment`.
    pub kind: &'static str,
    /// Namespace.
    pub namespace: String,
    /// Name.
    pub name: String,
}

impl fmt::Display for ObjectName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // What belongs to the whole cluster has no namespace.
        if self.namespace.is_empty() {
            return write!(f, "{} {}", self.kind, self.name);
        }
        write!(f, "{} {}/{}", self.kind, self.namespace, self.name)
    }
}

/// A failed operation on a cluster. `cluster` is always the connection's name in the provider configuration; `doing` says
/// what was tried, as in "list nodes".
#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    /// The connection's arguments contradict each other or miss something.
    #[error("The connection of cluster {cluster} can't be used: {problem}")]
    Configuration {
        /// Connection name.
        cluster: String,
        /// What is wrong and what to do.
        problem: String,
    },
    /// The kubeconfig could not be read, parsed, or lacks what was asked for.
    #[error(
        "The connection of cluster {cluster} ({location}) can't be used. {}", help_for(.location)
    )]
    Kubeconfig {
        /// Connection name.
        cluster: String,
        /// Files, or "inline".
        location: String,
        /// Cause.
        #[source]
        source: Cause,
    },
    /// The credential plugin (`exec`) gave no credential.
    #[error("The credential plugin `{command}` of cluster {cluster} gave no credential: {problem}")]
    CredentialPlugin {
        /// Connection name.
        cluster: String,
        /// The command, without its arguments.
        command: String,
        /// What happened, with the end of its stderr.
        problem: String,
    },
    /// Certificates, keys or the proxy of the connection are malformed.
    #[error(
        "No client can be made for cluster {cluster}: its certificate, key, CA or proxy_url is malformed. Give certificates and keys as PEM text."
    )]
    Client {
        /// Connection name.
        cluster: String,
        /// Cause.
        #[source]
        source: Cause,
    },
    /// No connection to the API server.
    #[error(
        "Can't {doing}: the API server of cluster {cluster} at {server} can't be reached. Check the address, the network (VPN, firewall, proxy_url) and that the server is up."
    )]
    Unreachable {
        /// Connection name.
        cluster: String,
        /// Address.
        server: String,
        /// What was tried.
        doing: String,
        /// Cause.
        #[source]
        source: Cause,
    },
    /// The server's certificate is not trusted.
    #[error(
        "Can't {doing}: the certificate of the API server of cluster {cluster} at {server} is not trusted. Set cluster_ca_certificate to the cluster's CA, or tls_server_name when the address is not in the certificate."
    )]
    UntrustedCertificate {
        /// Connection name.
        cluster: String,
        /// Address.
        server: String,
        /// What was tried.
        doing: String,
        /// Cause.
        #[source]
        source: Cause,
    },
    /// The connection dropped again and again.
    #[error(
        "Can't {doing}: the API server of cluster {cluster} at {server} dropped the connection {tries} times. Try again; if it stays, look at the API server and the load balancer or proxy before it."
    )]
    Dropped {
        /// Connection name.
        cluster: String,
        /// Address.
        server: String,
        /// What was tried.
        doing: String,
        /// How often.
        tries: u32,
        /// Cause of the last one.
        #[source]
        source: Cause,
    },
    /// The server did not answer in time.
    #[error(
        "Can't {doing}: the API server of cluster {cluster} at {server} did not answer within {seconds} s. Try again when it is less busy."
    )]
    NoAnswer {
        /// Connection name.
        cluster: String,
        /// Address.
        server: String,
        /// What was tried.
        doing: String,
        /// The limit.
        seconds: u64,
    },
    /// 401.
    #[error(
        "Can't {doing}: cluster {cluster} does not accept the credential (401 Unauthorized). It may have expired, or belong to another cluster: check token, client certificate, exec, and the context in use."
    )]
    Unauthorized {
        /// Connection name.
        cluster: String,
        /// What was tried.
        doing: String,
    },
    /// 403 on something else than listing nodes.
    #[error("Can't {doing}: cluster {cluster} forbids it{}. The API server says: {message}", .identity.as_deref().map(|who| format!(" to {who}")).unwrap_or_default())]
    Forbidden {
        /// Connection name.
        cluster: String,
        /// What was tried.
        doing: String,
        /// The user in use, when the message names it.
        identity: Option<String>,
        /// The API server's own message.
        message: String,
    },
    /// 403 on listing nodes (K1).
    #[error(
        "Loomplane can't list this cluster's nodes, so it can't see GPUs\nCluster {cluster} says: {message}\n{fix}"
    )]
    NodesForbidden {
        /// Connection name.
        cluster: String,
        /// The API server's own message.
        message: String,
        /// What to do: text with the ClusterRole and its binding.
        fix: String,
    },
    /// 429, 5xx that did not pass.
    #[error(
        "Can't {doing}: the API server of cluster {cluster} is overloaded or failing (it answered {code} {tries} times, last: {message}). Try again later."
    )]
    Overloaded {
        /// Connection name.
        cluster: String,
        /// What was tried.
        doing: String,
        /// HTTP status.
        code: u16,
        /// How often.
        tries: u32,
        /// The server's message.
        message: String,
    },
    /// 404.
    #[error(
        "Can't {doing}: cluster {cluster} does not have it (404). The API server says: {message}"
    )]
    NotFound {
        /// Connection name.
        cluster: String,
        /// What was tried.
        doing: String,
        /// The server's message.
        message: String,
    },
    /// 400, 422, an admission webhook's or a policy's refusal.
    #[error("Can't {doing}: cluster {cluster} refuses it ({code}). The API server says: {message}")]
    Refused {
        /// Connection name.
        cluster: String,
        /// What was tried.
        doing: String,
        /// HTTP status.
        code: u16,
        /// The server's message.
        message: String,
    },
    /// A name can't be part of an address.
    #[error(
        "Can't {doing}: the namespace or a name in it has a character that no name on cluster {cluster} can have. Nothing was sent. Look for blanks and quotes in it."
    )]
    Unsendable {
        /// Connection name.
        cluster: String,
        /// What was tried.
        doing: String,
    },
    /// The answer could not be understood.
    #[error(
        "Can't {doing}: cluster {cluster} answered something that is not the Kubernetes API. Check that host is the API server itself, not a login page or a proxy."
    )]
    Malformed {
        /// Connection name.
        cluster: String,
        /// What was tried.
        doing: String,
        /// Cause.
        #[source]
        source: Cause,
    },
    /// Stopped by the user.
    #[error(
        "Stopped while trying to {doing} on cluster {cluster}: you asked Terraform to stop, or the limit in `timeouts` was reached.{} The state holds what is there; plan again to see what is left to do.", .last.as_deref().map(|why| format!(" The last try failed: {why}.")).unwrap_or_default()
    )]
    Canceled {
        /// Connection name.
        cluster: String,
        /// What was going on.
        doing: String,
        /// Why it was still going on: how the last try failed.
        last: Option<String>,
    },
    /// G10: what is to be created is there already.
    #[error(
        "{object} exists already on cluster {cluster}, and Loomplane takes nothing over silently. {}", way_out(.object, .import_id)
    )]
    AlreadyExists {
        /// Connection name.
        cluster: String,
        /// The object in the way.
        object: ObjectName,
        /// What `terraform import` takes for the service.
        import_id: String,
    },
    /// G10: another apply is at it.
    #[error(
        "{object} on cluster {cluster} is being created by another apply right now: its mark kept changing while this one watched. Nothing was taken over. Wait until that one has ended; if both are meant to manage it, keep it in one configuration only."
    )]
    BeingCreated {
        /// Connection name.
        cluster: String,
        /// The Deployment.
        object: ObjectName,
    },
    /// G10: this creation was silent for so long that another apply took it over.
    #[error(
        "Another apply has taken over the creation of {object} on cluster {cluster}: this one could not be heard of for too long. It is the other one's now, and this state does not hold it. If both are meant to manage it, keep it in one configuration only."
    )]
    TakenOver {
        /// Connection name.
        cluster: String,
        /// The Deployment.
        object: ObjectName,
    },
    /// A claim of the service that is there, and can't become what the volume asks for.
    #[error(
        "{object} on cluster {cluster} is this service's, with the data that is on it, and can't be used as configured: {problem}, give the volume another name, or delete the claim and its data."
    )]
    KeptClaim {
        /// Connection name.
        cluster: String,
        /// The claim.
        object: ObjectName,
        /// What does not fit, and the first way out.
        problem: String,
    },
    /// Fields that another manager owns, without `force_conflicts`.
    #[error("{object} on cluster {cluster} has fields that others manage:\n{}\nTake them out of the configuration, or set force_conflicts = true to take them over.", super::conflict::render(.conflicts))]
    Conflict {
        /// Connection name.
        cluster: String,
        /// The object.
        object: ObjectName,
        /// Managers and fields.
        conflicts: Vec<FieldConflict>,
    },
    /// The object behind a name is not the one that state knows.
    #[error(
        "{object} on cluster {cluster} is not the one in the state (uid {expected}): it was deleted and made again by someone else (uid {found}). Loomplane leaves it alone; import it, or remove it from the state."
    )]
    OtherObject {
        /// Connection name.
        cluster: String,
        /// The object.
        object: Box<ObjectName>,
        /// uid in state.
        expected: String,
        /// uid found.
        found: String,
    },
    /// A value that can't be written as a Kubernetes object.
    #[error("{object} can't be written for cluster {cluster}: {problem}")]
    Workload {
        /// Connection name.
        cluster: String,
        /// The object.
        object: ObjectName,
        /// What is wrong.
        problem: String,
    },
    /// The rollout can't succeed, or did not in time.
    #[error("The rollout of {object} on cluster {cluster} failed: {failure}")]
    Rollout {
        /// Connection name.
        cluster: String,
        /// The Deployment.
        object: ObjectName,
        /// Why, with events and log lines.
        failure: Box<RolloutFailure>,
    },
    /// A deletion did not finish in time.
    #[error("{object} on cluster {cluster} is still there after {seconds} s: its deletion was accepted and is waiting{}. Look at its finalizers and pods, then try again.", .waiting_for.as_deref().map(|what| format!(" for {what}")).unwrap_or_default())]
    StillThere {
        /// Connection name.
        cluster: String,
        /// The object.
        object: ObjectName,
        /// How long was waited.
        seconds: u64,
        /// Finalizers.
        waiting_for: Option<String>,
    },
}

/// What to do about an object in the way. What a resource is (a Deployment, a CapacitySet) can be imported; the rest of a service comes
/// with its Deployment.
fn way_out(object: &ObjectName, import_id: &str) -> String {
    match object.kind {
        "PersistentVolumeClaim" => "It does not carry Loomplane's label for this service, so it may hold other data. Give the volume (or the service) another name, or delete the claim. To have this service use it as it is, label it loomplane.dev/service=NAME with the service's name, and apply again.".to_owned(),
        "Service" | "Secret" => "It does not carry Loomplane's label for this service. Choose another name, or delete it.".to_owned(),
        _ => format!(
            "To manage it here, import it:\n  terraform import ADDRESS '{import_id}'\nor choose another name, or delete it."
        ),
    }
}

/// What to look at, for each kind of connection.
fn help_for(location: &str) -> &'static str {
    match location {
        "host" => {
            "Check `host`, and the certificates, key or token beside it: certificates are PEM, as text."
        }
        "the pod's service account" => {
            "`in_cluster` works inside a pod only, with the token of its service account mounted."
        }
        _ => {
            "Check the path, and that the context, its cluster and its user are there: `kubectl config get-contexts` lists them."
        }
    }
}

impl Error {
    /// Whether the credential may not do this, so that a narrower way (K9, K11) is worth a try.
    #[must_use]
    pub fn is_forbidden(&self) -> bool {
        matches!(self, Self::Forbidden { .. } | Self::NodesForbidden { .. })
    }

    /// Whether the API server, or the way to it, has a bad time: the same may succeed a while later.
    #[must_use]
    pub fn is_passing(&self) -> bool {
        matches!(
            self,
            Self::Unreachable { .. }
                | Self::Dropped { .. }
                | Self::NoAnswer { .. }
                | Self::Overloaded { .. }
        )
    }

    /// Whether this is a proven 404: the only thing that means "gone".
    #[must_use]
    pub fn is_not_found(&self) -> bool {
        matches!(self, Self::NotFound { .. })
    }

    /// Whether the user stopped it.
    #[must_use]
    pub fn is_canceled(&self) -> bool {
        matches!(self, Self::Canceled { .. })
    }

    /// The text with its causes, outermost first, each once: for a diagnostic's detail.
    #[must_use]
    pub fn render(&self) -> String {
        let mut text = self.to_string();
        let mut cause = std::error::Error::source(self);
        while let Some(error) = cause {
            // A quoted path, as libraries print it for programmers.
            let line = error.to_string().replace("'\"", "\"").replace("\"'", "\"");
            cause = error.source();
            // What a layer of an HTTP client calls itself; what went wrong comes behind it.
            let is_layer = cause.is_some() && line.contains("client error (");
            if !is_layer && !text.contains(&line) {
                text.push_str("\nCaused by: ");
                text.push_str(&line);
            }
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn causes_are_rendered_once_and_outermost_first() {
        let error = Error::Unreachable {
            cluster: "prod".into(),
            server: "https://10.0.0.1:6443".into(),
            doing: "list nodes".into(),
            source: Arc::new(std::io::Error::other("connection refused")),
        };
        let text = error.render();
        assert!(
            text.starts_with("Can't list nodes: the API server of cluster prod"),
            "{text}"
        );
        assert!(text.ends_with("Caused by: connection refused"), "{text}");
    }

    #[test]
    fn g10_an_existing_object_is_refused_with_what_to_do() {
        for (kind, says) in [
            ("Deployment", "terraform import ADDRESS 'prod/ml/llm'"),
            ("CapacitySet", "terraform import ADDRESS 'prod/ml/llm'"),
            (
                "Service",
                "does not carry Loomplane's label for this service",
            ),
            (
                "PersistentVolumeClaim",
                "label it loomplane.dev/service=NAME",
            ),
        ] {
            let error = Error::AlreadyExists {
                cluster: "prod".into(),
                object: ObjectName {
                    kind,
                    namespace: "ml".into(),
                    name: "llm".into(),
                },
                import_id: "prod/ml/llm".into(),
            };
            assert!(error.to_string().contains(says), "{error}");
        }
    }
}
