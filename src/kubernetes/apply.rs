//! Creates and updates a service: server-side apply, one field manager, nothing taken over silently (G10).
//!
//! A creation is a POST, the only request by which the API server promises that nothing was there; server-side apply alone
//! would merge into whatever came in between. Each object carries a mark ([`super::workload::UNFINISHED`]) until all are there, the
//! Deployment until its rollout was waited for: by it a creation that was cut off is known as this service's own, and a POST whose
//! answer was lost as this creation's own.
//!
//! - `create.rs` what may be taken in again, and the order of a creation; `one.rs` one object at a time
//! - `hold.rs` who is at work on a creation, and whether they still live; `ports.rs` ports that something else has renumbered

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Service;
use secrecy::SecretString;
use serde_json::{Value, json};

use super::cancel::Cancel;
use super::connect::Cluster;
use super::error::{Error, ObjectName};
use super::objects::{Found, Kind, Metadata};
use super::workload::{self, Identity, ServiceSpec};
pub use hold::Hold;
use one::{Mark, Posted};
pub(super) use one::{json_patch, strict};

mod create;
pub(super) mod free;
mod hold;
mod one;
mod ports;

/// How an apply goes about it.
#[derive(Debug, Clone, Default)]
pub struct ApplyOptions {
    /// Take over fields that others manage.
    pub force_conflicts: bool,
    /// Values of `secret_env`. `None` leaves the Secret as it is.
    pub secret_values: Option<BTreeMap<String, SecretString>>,
    /// Let the API server check everything (admission, quotas' shape, conflicts) and store nothing.
    pub dry_run: bool,
    /// Names this creation, so that a lost answer is told from somebody else's object. Any text that is new for each
    /// creation; the caller's, because this room has no source of randomness.
    pub token: String,
    /// Keep the Deployment marked when all objects are there, because a wait for its rollout follows: see [`Created::hold`].
    pub hold: bool,
    /// What `terraform import` takes for this service, for [`Error::AlreadyExists`].
    pub import_id: String,
}

/// An object that is on the cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Applied {
    /// Kind.
    pub kind: Kind,
    /// Name.
    pub name: String,
    /// uid.
    pub uid: String,
}

/// What a creation made.
#[derive(Debug, Default)]
pub struct Created {
    /// All objects of the service.
    pub applied: Vec<Applied>,
    /// Those of them that were there before: leftovers of this service, or of a creation of it that was cut off.
    pub taken_in: Vec<ObjectName>,
    /// The Deployment's mark, where [`ApplyOptions::hold`] asked to keep it: keep it fresh during the wait
    /// ([`Cluster::keep_hold`]), then take it off ([`Cluster::release`]).
    pub hold: Option<Hold>,
}

/// What an apply left on the cluster: on failure, what is there nevertheless, so that the state is right.
#[derive(Debug)]
pub struct ApplyFailure {
    /// What was applied before the failure.
    pub applied: Vec<Applied>,
    /// Those of them that were there before.
    pub taken_in: Vec<ObjectName>,
    /// The failure.
    pub error: Error,
}

/// One object to apply.
struct Step {
    kind: Kind,
    body: Value,
}

impl Step {
    fn name(&self) -> &str {
        self.body["metadata"]["name"].as_str().unwrap_or_default()
    }

    fn object(&self, namespace: &str) -> ObjectName {
        self.kind.object(namespace, self.name())
    }
}

/// Claims, Secret, Service, Deployment: what is needed comes first.
fn steps(spec: &ServiceSpec, identity: &Identity, options: &ApplyOptions) -> Vec<Step> {
    let objects = workload::build(spec, identity);
    let mut steps: Vec<Step> = objects
        .claims
        .into_values()
        .map(|body| Step {
            kind: Kind::Claim,
            body,
        })
        .collect();
    if let Some(values) = &options.secret_values
        && !values.is_empty()
    {
        steps.push(Step {
            kind: Kind::Secret,
            body: workload::build::secret(spec, values),
        });
    }
    steps.extend(objects.service.map(|body| Step {
        kind: Kind::Service,
        body,
    }));
    steps.push(Step {
        kind: Kind::Deployment,
        body: objects.deployment,
    });
    steps
}

impl Cluster {
    /// Updates a service that was read before: what it was found to be can't change under it (uid), and stays what it is
    /// (selector, container name, claims). Objects that are newly wanted are created, those no longer wanted deleted; claims
    /// are kept.
    ///
    /// # Errors
    /// [`Error::Conflict`] with managers and fields, and the same as [`Cluster::create_service`].
    pub async fn update_service(
        &self,
        found: &Found,
        spec: &ServiceSpec,
        options: &ApplyOptions,
        cancel: &Cancel,
    ) -> Result<Vec<Applied>, ApplyFailure> {
        let mut applied = Vec::new();
        let outcome = self
            .update_all(found, spec, options, &mut applied, cancel)
            .await;
        self.forget_workloads().await;
        outcome.map_err(|error| ApplyFailure {
            applied: applied.clone(),
            taken_in: Vec::new(),
            error,
        })?;
        Ok(applied)
    }

    async fn update_all(
        &self,
        found: &Found,
        spec: &ServiceSpec,
        options: &ApplyOptions,
        applied: &mut Vec<Applied>,
        cancel: &Cancel,
    ) -> Result<(), Error> {
        let mut steps = steps(spec, &found.identity, options);
        for step in steps.iter_mut().filter(|step| step.kind == Kind::Claim) {
            // A claim keeps the class that it was made with, whatever the connection picks for new ones.
            if let Some(live) = found.live.claims.get(step.name()) {
                let class = live
                    .spec
                    .as_ref()
                    .and_then(|it| it.storage_class_name.clone());
                if let (None, Some(spec)) = (&class, step.body["spec"].as_object_mut()) {
                    spec.remove("storageClassName");
                } else {
                    step.body["spec"]["storageClassName"] = class.into();
                }
            }
        }
        let plan = self.find_each(spec, &steps, cancel).await?;
        for (step, there) in steps.iter().zip(&plan) {
            if let Some(metadata) = there {
                let is_known = match step.kind {
                    Kind::Deployment => metadata.uid == found.uid,
                    // A claim that the Deployment mounts and a Service that leads to its pods are its own, whoever made them.
                    Kind::Claim => {
                        metadata.is_of(&spec.name) || found.live.claims.contains_key(step.name())
                    }
                    Kind::Service => metadata.is_of(&spec.name) || found.live.service.is_some(),
                    Kind::Secret => metadata.is_of(&spec.name),
                };
                if step.kind == Kind::Deployment && !is_known {
                    return Err(Error::OtherObject {
                        cluster: self.inner.name.clone(),
                        object: Box::new(step.object(&spec.namespace)),
                        expected: found.uid.clone(),
                        found: metadata.uid.clone(),
                    });
                }
                if !is_known {
                    return Err(self.exists(step, spec, options));
                }
            }
        }
        // One that comes back is held against what is asked, before anything is changed.
        self.check_claims(spec, &steps, &plan, &found.live.claims, cancel)
            .await?;
        for (step, there) in steps.iter().zip(&plan) {
            let uid = match there {
                Some(metadata) => {
                    // What a creation that did not finish left must be ours by apply before it can be changed by one.
                    if metadata.unfinished_token(&spec.name).is_some() && !options.dry_run {
                        self.finish(spec, step, metadata, Mark::Remove, cancel)
                            .await?;
                    }
                    if step.kind == Kind::Service
                        && let Some(live) = &found.live.service
                    {
                        self.put_back_ports(spec, step, live, options, cancel)
                            .await?;
                    }
                    self.apply_step(spec, step, Some(&metadata.uid), None, options, cancel)
                        .await?
                        .uid
                }
                None if step.kind == Kind::Deployment => {
                    return Err(Error::NotFound {
                        cluster: self.inner.name.clone(),
                        doing: format!("update {}", step.object(&spec.namespace)),
                        message: "it was deleted meanwhile; plan again to create it".to_owned(),
                    });
                }
                None => match self.post(spec, step, options, cancel).await? {
                    Posted::Made(made) => {
                        if !options.dry_run {
                            self.finish(spec, step, &made, Mark::Remove, cancel).await?;
                        }
                        made.uid
                    }
                    Posted::There => return Err(self.exists(step, spec, options)),
                },
            };
            if !options.dry_run {
                applied.push(Applied {
                    kind: step.kind,
                    name: step.name().to_owned(),
                    uid,
                });
            }
        }
        if options.dry_run {
            return Ok(());
        }
        // Only after the Deployment no longer refers to them.
        if spec.ports.is_empty() {
            self.delete_if_ours(Kind::Service, spec, &spec.name, cancel)
                .await?;
        }
        if spec.secret_env.is_empty() {
            self.delete_if_ours(Kind::Secret, spec, &spec.secret_name(), cancel)
                .await?;
        }
        Ok(())
    }

    /// Makes way for the configured ports: see `ports.rs`. What others have renumbered is a conflict like any other (G10).
    async fn put_back_ports(
        &self,
        spec: &ServiceSpec,
        step: &Step,
        live: &Service,
        options: &ApplyOptions,
        cancel: &Cancel,
    ) -> Result<(), Error> {
        let wanted = step.body["spec"]["ports"].as_array();
        let Some(displaced) = wanted.and_then(|wanted| ports::displaced(live, wanted)) else {
            return Ok(());
        };
        let object = step.object(&spec.namespace);
        if !displaced.others.is_empty() && !options.force_conflicts {
            return Err(Error::Conflict {
                cluster: self.inner.name.clone(),
                object,
                conflicts: displaced.others,
            });
        }
        if options.dry_run {
            return Ok(());
        }
        let operations =
            [json!({"op": "replace", "path": "/spec/ports", "value": displaced.ports})];
        let doing = format!("put back the ports of {object}");
        self.patch(
            step.kind,
            &spec.namespace,
            step.name(),
            &doing,
            &operations,
            cancel,
        )
        .await
    }

    async fn delete_if_ours(
        &self,
        kind: Kind,
        spec: &ServiceSpec,
        name: &str,
        cancel: &Cancel,
    ) -> Result<(), Error> {
        // A credential without rights on Secrets never made one.
        let there = match self
            .find_metadata(kind, &spec.namespace, name, cancel)
            .await
        {
            Err(error) if error.is_forbidden() => None,
            other => other?,
        };
        match there {
            Some(metadata) if metadata.is_of(&spec.name) => {
                self.delete_one(kind, &spec.namespace, name, &metadata.uid, cancel)
                    .await
            }
            _ => Ok(()),
        }
    }

    /// Metadata of what is there of each step, asked for at the same time.
    async fn find_each(
        &self,
        spec: &ServiceSpec,
        steps: &[Step],
        cancel: &Cancel,
    ) -> Result<Vec<Option<Metadata>>, Error> {
        futures_util::future::try_join_all(
            steps
                .iter()
                .map(|step| self.find_metadata(step.kind, &spec.namespace, step.name(), cancel)),
        )
        .await
    }

    fn exists(&self, step: &Step, spec: &ServiceSpec, options: &ApplyOptions) -> Error {
        Error::AlreadyExists {
            cluster: self.inner.name.clone(),
            object: step.object(&spec.namespace),
            import_id: options.import_id.clone(),
        }
    }
}
