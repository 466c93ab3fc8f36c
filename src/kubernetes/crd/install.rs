//! Whether a cluster has the definition of `CapacitySet`, and installing it.

use std::time::Duration;

use jiff::Timestamp;
use kube::core::Request;
use kube::core::params::{GetParams, Patch, PatchParams, PostParams};
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::BTreeMap;

use super::super::access::who_and_subject;
use super::super::cancel::Cancel;
use super::super::connect::Cluster;
use super::super::error::{Error, ObjectName};
use super::super::retry::identity;
use super::super::workload::FIELD_MANAGER;
use super::definition::{CRD_NAME, SCHEMA_ANNOTATION, SCHEMA_VERSION, definition};

const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
/// How long a definition may take until the API server serves it.
const SERVED_WITHIN: Duration = Duration::from_secs(60);
/// How often that is looked at.
const LOOK: Duration = Duration::from_millis(250);
/// For a definition that is replaced: how long API servers go on with the schema that they know.
const SETTLES_WITHIN: Duration = Duration::from_secs(3);

/// What a cluster knows of `CapacitySet`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CrdState {
    /// Nothing.
    Missing,
    /// A definition with an older schema; with its version, 0 where it says none.
    Older(u32),
    /// This version's definition, or a newer one.
    Current,
    /// It serves the kind, and the credential may not read the definition.
    Unreadable,
}

#[derive(Deserialize)]
struct Crd {
    #[serde(default)]
    metadata: Meta,
    #[serde(default)]
    spec: Spec,
    #[serde(default)]
    status: Status,
}

#[derive(Deserialize, Default)]
struct Meta {
    #[serde(default)]
    annotations: Option<BTreeMap<String, String>>,
    #[serde(default, rename = "deletionTimestamp")]
    deleted_at: Option<Timestamp>,
}

#[derive(Deserialize, Default)]
struct Spec {
    #[serde(default)]
    versions: Vec<Version>,
}

#[derive(Deserialize)]
struct Version {
    name: String,
    #[serde(default)]
    served: bool,
}

#[derive(Deserialize, Default)]
struct Status {
    #[serde(default)]
    conditions: Option<Vec<Condition>>,
}

#[derive(Deserialize)]
struct Condition {
    #[serde(rename = "type")]
    kind: String,
    status: String,
}

impl Crd {
    fn state(&self) -> CrdState {
        let annotations = self.metadata.annotations.as_ref();
        let version = annotations
            .and_then(|annotations| annotations.get(SCHEMA_ANNOTATION)?.parse().ok())
            .unwrap_or(0);
        let served = self
            .spec
            .versions
            .iter()
            .any(|version| version.name == "v1alpha1" && version.served);
        if served && version >= SCHEMA_VERSION {
            CrdState::Current
        } else {
            CrdState::Older(version)
        }
    }

    fn is_established(&self) -> bool {
        let mut conditions = self.status.conditions.iter().flatten();
        conditions.any(|condition| condition.kind == "Established" && condition.status == "True")
    }
}

fn object() -> ObjectName {
    ObjectName {
        kind: "CustomResourceDefinition",
        namespace: String::new(),
        name: CRD_NAME.to_owned(),
    }
}

impl Cluster {
    /// What the cluster knows of `CapacitySet`.
    ///
    /// # Errors
    /// What any request can end in, but missing rights.
    pub async fn crd_state(&self, cancel: &Cancel) -> Result<CrdState, Error> {
        match self.find_crd(cancel).await {
            Ok(None) => Ok(CrdState::Missing),
            Ok(Some(crd)) => Ok(crd.state()),
            // Anyone who may log in may ask which kinds there are.
            Err(error) if error.is_forbidden() => {
                let request = Request::new("/apis/capacity.loomplane.dev")
                    .get("v1alpha1", &GetParams::default());
                match self
                    .send(
                        "ask for the kinds of capacity.loomplane.dev",
                        None,
                        request,
                        cancel,
                    )
                    .await
                {
                    Ok(_) => Ok(CrdState::Unreadable),
                    Err(error) if error.is_not_found() => Ok(CrdState::Missing),
                    Err(error) => Err(error),
                }
            }
            Err(error) => Err(error),
        }
    }

    async fn find_crd(&self, cancel: &Cancel) -> Result<Option<Crd>, Error> {
        let request = Request::new(CRDS).get(CRD_NAME, &GetParams::default());
        let doing = format!("read {}", object());
        match self.call(&doing, Some(&object()), request, cancel).await {
            Ok(crd) => Ok(Some(crd)),
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Whether the credential may install the definition: asked before a plan promises it. `Err(reason)` where it may not.
    ///
    /// # Errors
    /// What any request can end in.
    pub async fn may_install_crd(&self, cancel: &Cancel) -> Result<Result<(), String>, Error> {
        for verb in ["create", "patch"] {
            let review = json!({
                "apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview",
                "spec": {"resourceAttributes": {
                    "group": "apiextensions.k8s.io", "resource": "customresourcedefinitions", "verb": verb, "name": CRD_NAME,
                }},
            });
            let doing = "ask whether CustomResourceDefinitions may be installed";
            let data = serde_json::to_vec(&review).map_err(|error| self.malformed(doing, error))?;
            let request = Request::new("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews")
                .create(&PostParams::default(), data);
            let answer: Value = self.call(doing, None, request, cancel).await?;
            if answer["status"]["allowed"] != true {
                let who = self.identity(cancel).await;
                return Ok(Err(fix_for_sets(who.as_deref())));
            }
        }
        Ok(Ok(()))
    }

    /// Who the credential is, where the API server tells (Kubernetes 1.28).
    async fn identity(&self, cancel: &Cancel) -> Option<String> {
        let review = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"});
        let data = serde_json::to_vec(&review).ok()?;
        let request = Request::new("/apis/authentication.k8s.io/v1/selfsubjectreviews")
            .create(&PostParams::default(), data);
        let answer = self.call::<Value>("ask who this is", None, request, cancel);
        let answer = answer.await.ok()?;
        answer["status"]["userInfo"]["username"]
            .as_str()
            .map(str::to_owned)
    }

    /// Installs the definition, or brings an older one up to date, and waits until the API server serves it.
    ///
    /// # Errors
    /// [`Error::Forbidden`], with the ClusterRole that helps in its message, and what any request can end in.
    pub async fn install_crd(&self, cancel: &Cancel) -> Result<(), Error> {
        let doing = format!("install {}", object());
        let before = self.crd_state(cancel).await?;
        if before == CrdState::Current {
            return Ok(());
        }
        let params = PatchParams {
            field_manager: Some(FIELD_MANAGER.to_owned()),
            // `kubectl apply` of `crds` is the other way to install it; its fields are the same.
            force: true,
            ..PatchParams::default()
        };
        let request = Request::new(CRDS).patch(CRD_NAME, &params, &Patch::Apply(definition()));
        match self.send(&doing, Some(&object()), request, cancel).await {
            Ok(_) => {}
            Err(Error::Forbidden {
                cluster,
                doing,
                identity: who,
                message,
            }) => {
                let fix = fix_for_sets(who.clone().or_else(|| identity(&message)).as_deref());
                return Err(Error::Forbidden {
                    cluster,
                    doing,
                    identity: who,
                    message: format!("{message}\n{fix}"),
                });
            }
            Err(error) => return Err(error),
        }
        let until = tokio::time::Instant::now() + SERVED_WITHIN;
        loop {
            if self
                .find_crd(cancel)
                .await?
                .is_some_and(|crd| crd.is_established() && crd.metadata.deleted_at.is_none())
                && self.serves(cancel).await?
            {
                break;
            }
            if tokio::time::Instant::now() >= until {
                return Err(Error::NoAnswer {
                    cluster: self.inner.name.clone(),
                    server: "its API server".to_owned(),
                    doing: format!("use {} that was just installed", object()),
                    seconds: SERVED_WITHIN.as_secs(),
                });
            }
            self.pause(LOOK, &doing, cancel).await?;
        }
        if before != CrdState::Missing {
            self.pause(SETTLES_WITHIN, &doing, cancel).await?;
        }
        Ok(())
    }

    async fn serves(&self, cancel: &Cancel) -> Result<bool, Error> {
        let request = Request::new(super::sets::SETS)
            .list(&kube::core::params::ListParams::default().limit(1));
        match self.send("list capacity sets", None, request, cancel).await {
            Ok(_) => Ok(true),
            // Whoever may not list may still create.
            Err(error) if error.is_forbidden() => Ok(true),
            Err(error) if error.is_not_found() => Ok(false),
            Err(error) => Err(error),
        }
    }
}

/// Text with the objects that let `identity` do everything that a capacity set needs.
#[must_use]
pub fn fix_for_sets(identity: Option<&str>) -> String {
    let (who, subject) = who_and_subject(identity);
    format!(
        "A cluster administrator can install the definition once with `terraform-provider-loomplane crds | kubectl apply -f -`, or let {who} do it with `kubectl apply -f` of:

apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: loomplane-capacity-sets
rules:
  - apiGroups: [apiextensions.k8s.io]
    resources: [customresourcedefinitions]
    verbs: [get, create, patch]
  - apiGroups: [capacity.loomplane.dev]
    resources: [capacitysets]
    verbs: [get, list, create, patch, delete]
  - apiGroups: [\"\"]
    resources: [nodes, pods]
    verbs: [get, list]
  - apiGroups: [kubevirt.io]
    resources: [virtualmachines, virtualmachineinstances]
    verbs: [get, list]
  - apiGroups: [coordination.k8s.io]
    resources: [leases]
    verbs: [get]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata:
  name: loomplane-capacity-sets
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: ClusterRole
  name: loomplane-capacity-sets
subjects:
{subject}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_definition_that_says_no_version_or_does_not_serve_ours_is_older() {
        let state = |json: Value| serde_json::from_value::<Crd>(json).unwrap().state();
        let served = json!([{"name": "v1alpha1", "served": true}]);
        let with = |version: &str| json!({"annotations": {SCHEMA_ANNOTATION: version}});
        assert_eq!(
            state(json!({"spec": {"versions": served}})),
            CrdState::Older(0)
        );
        assert_eq!(
            state(
                json!({"metadata": with(&SCHEMA_VERSION.to_string()), "spec": {"versions": served}})
            ),
            CrdState::Current
        );
        assert_eq!(
            state(json!({"metadata": with("999"), "spec": {"versions": served}})),
            CrdState::Current
        );
        assert_eq!(
            state(
                json!({"metadata": with("999"), "spec": {"versions": [{"name": "v1", "served": true}]}})
            ),
            CrdState::Older(999)
        );
    }
}
