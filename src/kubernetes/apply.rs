//! Creates and updates a service: server-side apply, one field manager, nothing taken over silently (G10).
//!
//! A creation is a POST, the only request by which the API server promises that nothing was there; server-side apply alone
//! would merge into whatever came in between. Each object carries a token ([`super::workload::UNFINISHED`]) until all are there: by it a
//! creation that was cut off is known as this service's own, and a POST whose answer was lost as this creation's own.

use std::collections::BTreeMap;

use secrecy::SecretString;
use serde_json::Value;

use super::cancel::Cancel;
use super::connect::Cluster;
use super::error::{Error, ObjectName};
use super::objects::{Found, Kind};
use super::workload::{self, Identity, ServiceSpec};
use one::Mark;
pub(super) use one::{json_patch, strict};

mod one;

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

/// What an apply left on the cluster: on failure, what is there nevertheless, so that the state is right.
#[derive(Debug)]
pub struct ApplyFailure {
    /// What was applied before the failure.
    pub applied: Vec<Applied>,
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
    /// Creates a service. Refuses before the first request that changes something when any of its objects is there already,
    /// except one of this very service whose creation did not finish.
    ///
    /// # Errors
    /// [`Error::AlreadyExists`], [`Error::Refused`], [`Error::Forbidden`], and what any request can end in; with what was
    /// made before.
    pub async fn create_service(
        &self,
        spec: &ServiceSpec,
        options: &ApplyOptions,
        cancel: &Cancel,
    ) -> Result<Vec<Applied>, ApplyFailure> {
        let steps = steps(spec, &Identity::new(&spec.name), options);
        let mut applied = Vec::new();
        let outcome = self
            .create_all(spec, &steps, options, &mut applied, cancel)
            .await;
        self.forget_workloads().await;
        outcome.map_err(|error| ApplyFailure {
            applied: applied.clone(),
            error,
        })?;
        Ok(applied)
    }

    async fn create_all(
        &self,
        spec: &ServiceSpec,
        steps: &[Step],
        options: &ApplyOptions,
        applied: &mut Vec<Applied>,
        cancel: &Cancel,
    ) -> Result<(), Error> {
        let mut unfinished = Vec::with_capacity(steps.len());
        for step in steps {
            let found = self
                .find_metadata(step.kind, &spec.namespace, step.name(), cancel)
                .await?;
            match &found {
                Some(metadata) if metadata.unfinished_token(&spec.name).is_none() => {
                    return Err(self.exists(step, spec, options));
                }
                _ => unfinished.push(found),
            }
        }
        for (step, found) in steps.iter().zip(unfinished) {
            let done = match found {
                Some(metadata) => {
                    // What the cut-off POST set must be ours by apply first: else this apply could not remove it.
                    self.finish(spec, step, &metadata.uid, Mark::Keep, cancel)
                        .await?;
                    self.apply_step(
                        spec,
                        step,
                        Some(&metadata.uid),
                        Some(&options.token),
                        options,
                        cancel,
                    )
                    .await?
                }
                None => self.post(spec, step, options, cancel).await?,
            };
            if !options.dry_run {
                applied.push(Applied {
                    kind: step.kind,
                    name: step.name().to_owned(),
                    uid: done.uid,
                });
            }
        }
        if !options.dry_run {
            for (step, done) in steps.iter().zip(&*applied) {
                self.finish(spec, step, &done.uid, Mark::Remove, cancel)
                    .await?;
            }
        }
        Ok(())
    }

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
        let steps = steps(spec, &found.identity, options);
        let mut plan = Vec::with_capacity(steps.len());
        for step in &steps {
            let there = self
                .find_metadata(step.kind, &spec.namespace, step.name(), cancel)
                .await?;
            if let Some(metadata) = &there {
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
            plan.push(there);
        }
        for (step, there) in steps.iter().zip(&plan) {
            let uid = match there {
                Some(metadata) => {
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
                None => {
                    let uid = self.post(spec, step, options, cancel).await?.uid;
                    if !options.dry_run {
                        self.finish(spec, step, &uid, Mark::Remove, cancel).await?;
                    }
                    uid
                }
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

    fn exists(&self, step: &Step, spec: &ServiceSpec, options: &ApplyOptions) -> Error {
        Error::AlreadyExists {
            cluster: self.inner.name.clone(),
            object: step.object(&spec.namespace),
            import_id: options.import_id.clone(),
        }
    }
}
