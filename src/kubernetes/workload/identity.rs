//! What an existing Deployment can't change, or would lose by another name: its selector, its container's name, its claims.
//! A service that was imported, or moved here from `kubernetes_deployment_v1`, keeps its own.

use std::collections::BTreeMap;

use k8s_openapi::api::apps::v1::Deployment;

use super::SERVICE_LABEL;

/// Names that stay as they are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// `spec.selector.matchLabels`, immutable.
    pub selector: BTreeMap<String, String>,
    /// The container; another name would add a second one.
    pub container: String,
    /// Volume name to claim name.
    pub claims: BTreeMap<String, String>,
    /// Whether an autoscaler sets `spec.replicas`, so that it is not applied.
    pub autoscaled: bool,
}

impl Identity {
    /// That of a Deployment which does not exist yet.
    #[must_use]
    pub fn new(name: &str) -> Self {
        Self {
            selector: [(SERVICE_LABEL.to_owned(), name.to_owned())].into(),
            container: name.to_owned(),
            claims: BTreeMap::new(),
            autoscaled: false,
        }
    }

    /// That of a live Deployment.
    #[must_use]
    pub fn of(live: &Deployment) -> Self {
        let name = live.metadata.name.clone().unwrap_or_default();
        let fresh = Self::new(&name);
        let Some(spec) = &live.spec else { return fresh };
        let pod = spec.template.spec.as_ref();
        let claims = pod
            .and_then(|pod| pod.volumes.as_ref())
            .into_iter()
            .flatten()
            .filter_map(|volume| {
                Some((
                    volume.name.clone(),
                    volume.persistent_volume_claim.as_ref()?.claim_name.clone(),
                ))
            })
            .collect();
        Self {
            selector: spec
                .selector
                .match_labels
                .clone()
                .filter(|labels| !labels.is_empty())
                .unwrap_or(fresh.selector),
            container: pod
                .and_then(|pod| main_container(pod, &name))
                .map_or(fresh.container, |container| container.name.clone()),
            claims,
            autoscaled: replicas_are_autoscaled(live),
        }
    }

    /// The claim of a volume.
    #[must_use]
    pub fn claim(&self, service: &str, volume: &str) -> String {
        self.claims
            .get(volume)
            .cloned()
            .unwrap_or_else(|| format!("{service}-{volume}"))
    }
}

/// The container that is the service: the one of the Deployment's name, else the first (others are sidecars).
pub(super) fn main_container<'a>(
    pod: &'a k8s_openapi::api::core::v1::PodSpec,
    name: &str,
) -> Option<&'a k8s_openapi::api::core::v1::Container> {
    pod.containers
        .iter()
        .find(|container| container.name == name)
        .or_else(|| pod.containers.first())
}

/// Whether `spec.replicas` was last set through the scale subresource by something else than a person with kubectl: the
/// HorizontalPodAutoscaler (and KEDA through it).
fn replicas_are_autoscaled(live: &Deployment) -> bool {
    live.metadata.managed_fields.iter().flatten().any(|entry| {
        entry.subresource.as_deref() == Some("scale")
            && !entry
                .manager
                .as_deref()
                .unwrap_or_default()
                .starts_with("kubectl")
            && entry
                .fields_v1
                .as_ref()
                .is_some_and(|fields| fields.0.pointer("/f:spec/f:replicas").is_some())
    })
}
