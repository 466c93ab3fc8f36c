//! Deletes a service, and waits until it is gone.

use std::time::Duration;

use kube::core::Request;
use kube::core::params::{DeleteParams, Preconditions, PropagationPolicy};
use tokio::time::Instant;

use super::cancel::Cancel;
use super::connect::Cluster;
use super::error::Error;
use super::objects::Kind;

/// How often a deletion is looked at, at most and at least.
const LOOK_FIRST: Duration = Duration::from_millis(200);
const LOOK_MOST: Duration = Duration::from_secs(3);

/// What is to be deleted.
#[derive(Debug, Clone)]
pub struct Deletion {
    /// Namespace.
    pub namespace: String,
    /// Name of the service.
    pub name: String,
    /// uid of the Deployment that the state knows; `None` when the state has none (a creation that failed early).
    pub uid: Option<String>,
    /// Token of a creation that failed before it knew its Deployment: by its mark one is known as that creation's.
    pub token: Option<String>,
    /// Names of the claims to delete: those of volumes with `delete_on_destroy`. All others are kept.
    pub claims: Vec<String>,
    /// How long to wait until everything is gone.
    pub timeout: Duration,
}

impl Cluster {
    /// Deletes a service: the Deployment with its pods first, then what only it used. What is gone already is done. A
    /// Deployment of another uid is left alone (it is not the one that the state knows), and so is what Loomplane did not make.
    ///
    /// # Errors
    /// [`Error::StillThere`] after the timeout, with the finalizers that hold it; what any request can end in.
    pub async fn delete_service(&self, deletion: &Deletion, cancel: &Cancel) -> Result<(), Error> {
        let outcome = self.delete_all(deletion, cancel).await;
        self.forget_workloads().await;
        outcome
    }

    async fn delete_all(&self, deletion: &Deletion, cancel: &Cancel) -> Result<(), Error> {
        let until = Instant::now() + deletion.timeout;
        let namespace = deletion.namespace.as_str();
        if let Some(metadata) = self
            .find_metadata(Kind::Deployment, namespace, &deletion.name, cancel)
            .await?
        {
            let is_ours = match (&deletion.uid, &deletion.token) {
                (Some(uid), _) => *uid == metadata.uid,
                // Another apply may have made it since.
                (None, Some(token)) => {
                    metadata.unfinished_token(&deletion.name) == Some(token.as_str())
                }
                (None, None) => metadata.is_of(&deletion.name),
            };
            if is_ours {
                self.delete_one(
                    Kind::Deployment,
                    namespace,
                    &deletion.name,
                    &metadata.uid,
                    cancel,
                )
                .await?;
                self.wait_gone(
                    Kind::Deployment,
                    namespace,
                    &deletion.name,
                    &metadata.uid,
                    until,
                    deletion.timeout,
                    cancel,
                )
                .await?;
            } else {
                // Its Service and Secret may be the other one's by now.
                return Ok(());
            }
        }
        let secret = format!("{}-env", deletion.name);
        let mut rest = vec![
            (Kind::Service, deletion.name.as_str()),
            (Kind::Secret, secret.as_str()),
        ];
        rest.extend(
            deletion
                .claims
                .iter()
                .map(|claim| (Kind::Claim, claim.as_str())),
        );
        let mut waiting = Vec::new();
        for (kind, name) in rest {
            let there = match self.find_metadata(kind, namespace, name, cancel).await {
                Err(error) if error.is_forbidden() && kind == Kind::Secret => None,
                other => other?,
            };
            if let Some(metadata) = there.filter(|metadata| metadata.is_of(&deletion.name)) {
                self.delete_one(kind, namespace, name, &metadata.uid, cancel)
                    .await?;
                waiting.push((kind, name, metadata.uid));
            }
        }
        for (kind, name, uid) in waiting {
            self.wait_gone(kind, namespace, name, &uid, until, deletion.timeout, cancel)
                .await?;
        }
        Ok(())
    }

    /// Asks for the deletion of one object of this uid. Gone, or another one by now, is done.
    pub(super) async fn delete_one(
        &self,
        kind: Kind,
        namespace: &str,
        name: &str,
        uid: &str,
        cancel: &Cancel,
    ) -> Result<(), Error> {
        let object = kind.object(namespace, name);
        let params = DeleteParams {
            propagation_policy: Some(if kind == Kind::Deployment {
                PropagationPolicy::Foreground
            } else {
                PropagationPolicy::Background
            }),
            preconditions: Some(Preconditions {
                uid: Some(uid.to_owned()),
                resource_version: None,
            }),
            ..DeleteParams::default()
        };
        let request: super::request::Request =
            Request::delete(&kind.request(namespace), name, &params);
        match self
            .send(&format!("delete {object}"), Some(&object), request, cancel)
            .await
        {
            Ok(_) => Ok(()),
            Err(error) if error.is_not_found() => Ok(()),
            // The uid did not match: someone deleted it and made another, which is not ours.
            Err(Error::Refused {
                code: 409, message, ..
            }) if message.to_ascii_lowercase().contains("uid") => Ok(()),
            Err(error) => Err(error),
        }
    }

    #[allow(
        clippy::too_many_arguments,
        reason = "one private call; a struct would only rename the arguments"
    )]
    pub(super) async fn wait_gone(
        &self,
        kind: Kind,
        namespace: &str,
        name: &str,
        uid: &str,
        until: Instant,
        timeout: Duration,
        cancel: &Cancel,
    ) -> Result<(), Error> {
        let mut pause = LOOK_FIRST;
        loop {
            let Some(metadata) = self
                .find_metadata(kind, namespace, name, cancel)
                .await?
                .filter(|metadata| metadata.uid == uid)
            else {
                return Ok(());
            };
            if Instant::now() >= until {
                return Err(Error::StillThere {
                    cluster: self.inner.name.clone(),
                    object: kind.object(namespace, name),
                    seconds: timeout.as_secs(),
                    waiting_for: metadata
                        .finalizers
                        .filter(|finalizers| !finalizers.is_empty())
                        .map(|finalizers| finalizers.join(", ")),
                });
            }
            tokio::select! {
                biased;
                () = cancel.canceled() => return Err(self.canceled(&format!("wait until {} is gone", kind.object(namespace, name)))),
                () = tokio::time::sleep(pause.min(until.saturating_duration_since(Instant::now()))) => {}
            }
            pause = (pause * 2).min(LOOK_MOST);
        }
    }
}
