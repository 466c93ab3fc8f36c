//! The four kinds of objects that a service is made of: where they live in the API, how one is read.

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Service};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ManagedFieldsEntry;
use kube::core::Request;
use kube::core::params::GetParams;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use std::collections::{BTreeMap, BTreeSet};

use super::cancel::Cancel;
use super::connect::Cluster;
use super::error::{Error, ObjectName};
use super::workload::{Identity, Live, SERVICE_LABEL, UNFINISHED};

/// A kind that Loomplane applies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// PersistentVolumeClaim.
    Claim,
    /// Secret.
    Secret,
    /// Service.
    Service,
    /// Deployment.
    Deployment,
}

impl Kind {
    /// As Kubernetes writes it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Claim => "PersistentVolumeClaim",
            Self::Secret => "Secret",
            Self::Service => "Service",
            Self::Deployment => "Deployment",
        }
    }

    pub(super) fn request(self, namespace: &str) -> Request {
        Request::new(match self {
            Self::Claim => format!("/api/v1/namespaces/{namespace}/persistentvolumeclaims"),
            Self::Secret => format!("/api/v1/namespaces/{namespace}/secrets"),
            Self::Service => format!("/api/v1/namespaces/{namespace}/services"),
            Self::Deployment => format!("/apis/apps/v1/namespaces/{namespace}/deployments"),
        })
    }

    pub(super) fn object(self, namespace: &str, name: &str) -> ObjectName {
        ObjectName {
            kind: self.as_str(),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        }
    }
}

/// The metadata of an object, of any kind.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Metadata {
    pub(super) uid: String,
    pub(super) labels: Option<BTreeMap<String, String>>,
    pub(super) deletion_timestamp: Option<String>,
    pub(super) finalizers: Option<Vec<String>>,
    pub(super) managed_fields: Option<Vec<ManagedFields>>,
}

/// One entry of `metadata.managedFields`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct ManagedFields {
    pub(super) manager: String,
    pub(super) operation: String,
    pub(super) subresource: Option<String>,
    #[serde(rename = "fieldsV1")]
    pub(super) fields: Option<serde_json::Value>,
}

#[derive(Deserialize)]
pub(super) struct OnlyMetadata {
    #[serde(default)]
    pub(super) metadata: Metadata,
}

impl Metadata {
    /// What a Deployment that was read whole says of itself.
    pub(super) fn of(live: &Deployment) -> Self {
        let metadata = &live.metadata;
        Self {
            uid: metadata.uid.clone().unwrap_or_default(),
            labels: metadata.labels.clone(),
            deletion_timestamp: metadata
                .deletion_timestamp
                .as_ref()
                .map(|it| it.0.to_string()),
            finalizers: metadata.finalizers.clone(),
            managed_fields: metadata.managed_fields.as_ref().map(|entries| {
                let entry = |entry: &ManagedFieldsEntry| ManagedFields {
                    manager: entry.manager.clone().unwrap_or_default(),
                    operation: entry.operation.clone().unwrap_or_default(),
                    subresource: entry.subresource.clone(),
                    fields: None,
                };
                entries.iter().map(entry).collect()
            }),
        }
    }

    /// The mark of a creation that is not finished.
    pub(super) fn mark(&self) -> Option<&str> {
        Some(self.labels.as_ref()?.get(UNFINISHED)?.as_str())
    }

    /// Whether the object is of this service and its creation did not finish (G10): the token of that creation.
    pub(super) fn unfinished_token(&self, service: &str) -> Option<&str> {
        self.mark()
            .filter(|_| self.is_of(service))
            .map(|mark| mark.split('.').next().unwrap_or_default())
    }

    /// Whether Loomplane made the object for this service.
    pub(super) fn is_of(&self, service: &str) -> bool {
        self.labels
            .as_ref()
            .is_some_and(|labels| labels.get(SERVICE_LABEL).is_some_and(|of| of == service))
    }
}

/// A service read from a cluster.
#[derive(Debug, Clone)]
pub struct Found {
    /// uid of the Deployment.
    pub uid: String,
    /// What can't change: pass it to [`super::workload::build()`].
    pub identity: Identity,
    /// The objects.
    pub live: Live,
    /// Whether the creation of it did not finish: the token of that creation.
    pub unfinished: Option<String>,
    /// Whether it is being deleted.
    pub going: bool,
}

impl Cluster {
    /// One object, or `None` on a proven 404.
    pub(super) async fn find<T: DeserializeOwned>(
        &self,
        kind: Kind,
        namespace: &str,
        name: &str,
        cancel: &Cancel,
    ) -> Result<Option<T>, Error> {
        let object = kind.object(namespace, name);
        let request = kind.request(namespace).get(name, &GetParams::default());
        match self
            .call(&format!("read {object}"), Some(&object), request, cancel)
            .await
        {
            Ok(found) => Ok(Some(found)),
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Metadata of one object: a Secret's values are not sent.
    pub(super) async fn find_metadata(
        &self,
        kind: Kind,
        namespace: &str,
        name: &str,
        cancel: &Cancel,
    ) -> Result<Option<Metadata>, Error> {
        let object = kind.object(namespace, name);
        let request = kind
            .request(namespace)
            .get_metadata(name, &GetParams::default());
        match self
            .call::<OnlyMetadata>(&format!("read {object}"), Some(&object), request, cancel)
            .await
        {
            Ok(found) => Ok(Some(found.metadata)),
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Reads a service with all that belongs to it. `None`: its Deployment is proven to be gone. Nothing else reads as gone:
    /// not a timeout, not a refusal.
    ///
    /// # Errors
    /// What any request can end in.
    pub async fn read_service(
        &self,
        namespace: &str,
        name: &str,
        cancel: &Cancel,
    ) -> Result<Option<Found>, Error> {
        let Some(deployment) = self
            .find::<Deployment>(Kind::Deployment, namespace, name, cancel)
            .await?
        else {
            return Ok(None);
        };
        let service = self
            .find::<Service>(Kind::Service, namespace, name, cancel)
            .await?;
        self.complete(namespace, name, deployment, service, cancel)
            .await
            .map(Some)
    }

    /// What is left of a service whose Deployment is gone, of what goes with it: Service, Secret and these claims. What is being
    /// deleted already is not left.
    ///
    /// # Errors
    /// What any request can end in.
    pub async fn leftovers(
        &self,
        namespace: &str,
        name: &str,
        claims: &[String],
        cancel: &Cancel,
    ) -> Result<Vec<ObjectName>, Error> {
        let secret = format!("{name}-env");
        let mut left = Vec::new();
        let rest = [(Kind::Service, name), (Kind::Secret, secret.as_str())];
        let claims = claims.iter().map(|claim| (Kind::Claim, claim.as_str()));
        for (kind, object) in rest.into_iter().chain(claims) {
            let found = match self.find_metadata(kind, namespace, object, cancel).await {
                // A credential without rights on Secrets never made one.
                Err(error) if error.is_forbidden() => None,
                found => found?,
            };
            if found.is_some_and(|it| it.is_of(name) && it.deletion_timestamp.is_none()) {
                left.push(kind.object(namespace, object));
            }
        }
        Ok(left)
    }

    /// What belongs to a Deployment that was read, with the Service of its name.
    pub(super) async fn complete(
        &self,
        namespace: &str,
        name: &str,
        deployment: Deployment,
        service: Option<Service>,
        cancel: &Cancel,
    ) -> Result<Found, Error> {
        let identity = Identity::of(&deployment);
        // A Service of this name that leads elsewhere is not this one's.
        let service = service.filter(|service| {
            let selector = service.spec.as_ref().and_then(|it| it.selector.as_ref());
            selector == Some(&identity.selector)
        });
        let mut claims = BTreeMap::new();
        for claim_name in identity.claims.values() {
            if let Some(claim) = self
                .find::<PersistentVolumeClaim>(Kind::Claim, namespace, claim_name, cancel)
                .await?
            {
                claims.insert(claim_name.clone(), claim);
            }
        }
        let secret_name = format!("{name}-env");
        let (secret_keys, secret_unreadable) = if refers_to_secret(&deployment, &secret_name) {
            match self
                .find_metadata(Kind::Secret, namespace, &secret_name, cancel)
                .await
            {
                Ok(metadata) => (metadata.map(|metadata| secret_keys(&metadata)), false),
                // Applying needs no right to read Secrets.
                Err(error) if error.is_forbidden() => (None, true),
                Err(error) => return Err(error),
            }
        } else {
            (None, false)
        };
        let metadata = Metadata::of(&deployment);
        Ok(Found {
            uid: deployment.metadata.uid.clone().unwrap_or_default(),
            identity,
            unfinished: metadata.unfinished_token(name).map(str::to_owned),
            going: metadata.deletion_timestamp.is_some(),
            live: Live {
                deployment,
                service,
                claims,
                secret_keys,
                secret_unreadable,
            },
        })
    }
}

fn refers_to_secret(deployment: &Deployment, secret: &str) -> bool {
    deployment
        .spec
        .as_ref()
        .and_then(|spec| spec.template.spec.as_ref())
        .into_iter()
        .flat_map(|pod| &pod.containers)
        .flat_map(|container| container.env.iter().flatten())
        .filter_map(|variable| variable.value_from.as_ref()?.secret_key_ref.as_ref())
        .any(|reference| reference.name == secret)
}

/// The keys of a Secret, from who manages its fields: the values never leave the cluster.
fn secret_keys(metadata: &Metadata) -> BTreeSet<String> {
    metadata
        .managed_fields
        .iter()
        .flatten()
        .filter_map(|entry| entry.fields.as_ref()?.get("f:data")?.as_object())
        .flat_map(|data| data.keys())
        .filter_map(|key| key.strip_prefix("f:"))
        .map(str::to_owned)
        .collect()
}
