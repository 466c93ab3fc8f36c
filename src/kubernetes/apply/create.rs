//! A creation: what is there already, what of it may be taken in again (G10), then one object after the other.
//!
//! Where no Deployment of the name is there, whatever carries our mark for this very service is left of it: by a destroy that keeps
//! claims, by someone who deleted the Deployment, by an apply that was cut off. It is taken in again, and the caller says so. A
//! Deployment is taken over only while it is marked as unfinished and whoever made it is proven to be gone.

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use tokio::time::Instant;

use super::super::cancel::Cancel;
use super::super::connect::Cluster;
use super::super::error::{Error, ObjectName};
use super::super::objects::{Kind, Metadata};
use super::super::workload::{self, Identity, ServiceSpec};
use super::hold::{Hold, STALE};
use super::one::{Mark, Posted};
use super::{Applied, ApplyFailure, ApplyOptions, Created, Step, steps};

/// How long what is being deleted is waited for.
const GOING: Duration = Duration::from_secs(120);
/// How often a mark is looked at.
const LOOK: Duration = Duration::from_secs(2);
/// Changes of a mark that prove its holder to be alive: the first may have been its last.
const LIFE: u32 = 2;
/// How often a creation looks again at what came in between.
const SURVEYS: u32 = 5;
/// How long a failed creation tries to take its marks off.
const RELEASE: Duration = Duration::from_secs(5);

/// A creation on its way.
struct Creation {
    /// What is there of each step.
    found: Vec<Option<Metadata>>,
    /// What was made of each step.
    done: Vec<Option<Metadata>>,
}

impl Cluster {
    /// Creates a service. Refuses before the first request that changes something when any of its objects is there already,
    /// except what is left of this very service.
    ///
    /// # Errors
    /// [`Error::AlreadyExists`], [`Error::BeingCreated`], [`Error::KeptClaim`], [`Error::Refused`], [`Error::Forbidden`], and what any
    /// request can end in; with what was made before.
    pub async fn create_service(
        &self,
        spec: &ServiceSpec,
        options: &ApplyOptions,
        cancel: &Cancel,
    ) -> Result<Created, ApplyFailure> {
        let steps = steps(spec, &Identity::new(&spec.name), options);
        let mut made = Created::default();
        let mut creation = Creation {
            found: vec![None; steps.len()],
            done: vec![None; steps.len()],
        };
        let outcome = self
            .create_all(spec, &steps, options, &mut creation, &mut made, cancel)
            .await;
        self.forget_workloads().await;
        match outcome {
            Ok(()) => Ok(made),
            Err(error) => {
                self.let_go(spec, &steps, options, &mut creation, &mut made)
                    .await;
                Err(ApplyFailure {
                    applied: made.applied,
                    taken_in: made.taken_in,
                    error,
                })
            }
        }
    }

    async fn create_all(
        &self,
        spec: &ServiceSpec,
        steps: &[Step],
        options: &ApplyOptions,
        creation: &mut Creation,
        made: &mut Created,
        cancel: &Cancel,
    ) -> Result<(), Error> {
        // Where there is but one object, its POST tells whether it was there.
        if steps.len() > 1 && !self.were_free(spec, steps, cancel).await {
            self.survey(spec, steps, options, creation, cancel).await?;
        }
        let mut surveys = 0;
        while let Some(there) = self
            .make(spec, steps, options, creation, made, cancel)
            .await?
        {
            if surveys == SURVEYS {
                return Err(self.exists(there, spec, options));
            }
            surveys += 1;
            self.survey(spec, steps, options, creation, cancel).await?;
        }
        if options.dry_run {
            return Ok(());
        }
        let finishing = steps.iter().zip(&creation.done).filter_map(|(step, done)| {
            let waits = options.hold && step.kind == Kind::Deployment;
            let done = done.as_ref().filter(|_| !waits)?;
            Some(self.finish(spec, step, done, Mark::RemoveOf(&options.token), cancel))
        });
        futures_util::future::try_join_all(finishing).await?;
        let deployment = made
            .applied
            .iter()
            .find(|object| object.kind == Kind::Deployment);
        made.hold = deployment.filter(|_| options.hold).map(|it| Hold {
            namespace: spec.namespace.clone(),
            name: spec.name.clone(),
            uid: it.uid.clone(),
            token: options.token.clone(),
        });
        Ok(())
    }

    /// Makes what is not made yet. `Some`: this step's object came in between, so all must be looked at again.
    async fn make<'a>(
        &self,
        spec: &ServiceSpec,
        steps: &'a [Step],
        options: &ApplyOptions,
        creation: &mut Creation,
        made: &mut Created,
        cancel: &Cancel,
    ) -> Result<Option<&'a Step>, Error> {
        for (at, step) in steps.iter().enumerate() {
            if creation.done[at].is_some() {
                continue;
            }
            let done = match &creation.found[at] {
                Some(metadata) => {
                    // What the cut-off POST set must be ours by apply first: else this apply could not remove it.
                    if !options.dry_run {
                        self.finish(spec, step, metadata, Mark::Keep, cancel)
                            .await?;
                    }
                    let uid = Some(metadata.uid.as_str());
                    let token = Some(options.token.as_str());
                    made.taken_in.push(step.object(&spec.namespace));
                    self.apply_step(spec, step, uid, token, options, cancel)
                        .await?
                }
                None => match self.post(spec, step, options, cancel).await? {
                    Posted::Made(metadata) => metadata,
                    Posted::There => return Ok(Some(step)),
                },
            };
            if !options.dry_run {
                made.applied.push(Applied {
                    kind: step.kind,
                    name: step.name().to_owned(),
                    uid: done.uid.clone(),
                });
            }
            creation.done[at] = Some(done);
        }
        Ok(None)
    }

    /// Finds what is there, and returns once all of it may be taken in.
    async fn survey(
        &self,
        spec: &ServiceSpec,
        steps: &[Step],
        options: &ApplyOptions,
        creation: &mut Creation,
        cancel: &Cancel,
    ) -> Result<(), Error> {
        let (mut seen, mut since, mut changes) = (None, Instant::now(), 0);
        loop {
            let mut found = self.find_each(spec, steps, cancel).await?;
            for (at, done) in creation.done.iter().enumerate() {
                if done.is_some() {
                    found[at] = None;
                }
            }
            self.judge(spec, steps, options, &found)?;
            if self.await_going(spec, steps, &found, cancel).await? {
                continue;
            }
            let marks: Vec<_> = found
                .iter()
                .flatten()
                .filter_map(|metadata| Some((metadata.uid.clone(), metadata.mark()?.to_owned())))
                .collect();
            if !marks.is_empty() {
                if seen.is_none() {
                    tracing::info!(
                        service = spec.name,
                        "an unfinished creation is there; watching whether it goes on"
                    );
                } else if seen.as_ref() != Some(&marks) {
                    since = Instant::now();
                    changes += 1;
                }
                if changes >= LIFE {
                    return Err(Error::BeingCreated {
                        cluster: self.inner.name.clone(),
                        object: Kind::Deployment.object(&spec.namespace, &spec.name),
                    });
                }
                seen = Some(marks);
                if since.elapsed() < STALE {
                    self.pause(LOOK, "see whether another apply goes on", cancel)
                        .await?;
                    continue;
                }
            }
            self.check_claims(spec, steps, &found, &BTreeMap::new(), cancel)
                .await?;
            creation.found = found;
            return Ok(());
        }
    }

    /// Refuses what is in the way and is not this service's.
    fn judge(
        &self,
        spec: &ServiceSpec,
        steps: &[Step],
        options: &ApplyOptions,
        found: &[Option<Metadata>],
    ) -> Result<(), Error> {
        let there = || {
            steps
                .iter()
                .zip(found)
                .filter_map(|(step, found)| Some((step, found.as_ref()?)))
        };
        // A whole service is there: the Deployment names it best.
        for (step, metadata) in there().filter(|(step, _)| step.kind == Kind::Deployment) {
            let going = metadata.deletion_timestamp.is_some() && metadata.is_of(&spec.name);
            if metadata.unfinished_token(&spec.name).is_none() && !going {
                return Err(self.exists(step, spec, options));
            }
        }
        match there().find(|(_, metadata)| !metadata.is_of(&spec.name)) {
            Some((step, _)) => Err(self.exists(step, spec, options)),
            None => Ok(()),
        }
    }

    /// Waits until what is being deleted is gone. Whether anything was.
    async fn await_going(
        &self,
        spec: &ServiceSpec,
        steps: &[Step],
        found: &[Option<Metadata>],
        cancel: &Cancel,
    ) -> Result<bool, Error> {
        let mut any = false;
        let until = Instant::now() + GOING;
        for (step, metadata) in steps.iter().zip(found) {
            if let Some(metadata) = metadata
                && metadata.deletion_timestamp.is_some()
            {
                any = true;
                self.wait_gone(
                    step.kind,
                    &spec.namespace,
                    step.name(),
                    &metadata.uid,
                    until,
                    GOING,
                    cancel,
                )
                .await?;
            }
        }
        Ok(any)
    }

    /// Claims of a service's volumes that are there and carry its label: a creation takes them in.
    ///
    /// # Errors
    /// [`Error::KeptClaim`] where one can't become what is asked, and what any request can end in.
    pub async fn kept_claims(
        &self,
        spec: &ServiceSpec,
        cancel: &Cancel,
    ) -> Result<Vec<ObjectName>, Error> {
        let mut steps = steps(spec, &Identity::new(&spec.name), &ApplyOptions::default());
        steps.retain(|step| step.kind == Kind::Claim);
        let mut found = self.find_each(spec, &steps, cancel).await?;
        for claim in &mut found {
            *claim = claim
                .take()
                .filter(|it| it.is_of(&spec.name) && it.deletion_timestamp.is_none());
        }
        self.check_claims(spec, &steps, &found, &BTreeMap::new(), cancel)
            .await?;
        let kept = steps.iter().zip(found).filter(|(_, found)| found.is_some());
        Ok(kept.map(|(step, _)| step.object(&spec.namespace)).collect())
    }

    /// A claim can't shrink, and its class can't change: said before anything is changed. `read` are those that were just read.
    pub(super) async fn check_claims(
        &self,
        spec: &ServiceSpec,
        steps: &[Step],
        found: &[Option<Metadata>],
        read: &BTreeMap<String, PersistentVolumeClaim>,
        cancel: &Cancel,
    ) -> Result<(), Error> {
        for (step, _) in steps
            .iter()
            .zip(found)
            .filter(|(step, found)| step.kind == Kind::Claim && found.is_some())
        {
            let live = match read.get(step.name()) {
                Some(live) => Some(live.clone()),
                None => {
                    self.find(Kind::Claim, &spec.namespace, step.name(), cancel)
                        .await?
                }
            };
            if let Some(live) = live
                && let Some(problem) = workload::claim_problem(&live, &step.body)
            {
                return Err(Error::KeptClaim {
                    cluster: self.inner.name.clone(),
                    object: step.object(&spec.namespace),
                    problem,
                });
            }
        }
        Ok(())
    }

    /// After a failure: what was made is in the state from now on, or a leftover, so nobody holds it any more. As far as it goes:
    /// a mark that stays only makes the next apply wait until it is stale. A Deployment keeps its mark, since whether a state gets to
    /// hold it is not known here.
    async fn let_go(
        &self,
        spec: &ServiceSpec,
        steps: &[Step],
        options: &ApplyOptions,
        creation: &mut Creation,
        made: &mut Created,
    ) {
        if options.dry_run {
            return;
        }
        let letting_go = async {
            let never = Cancel::never();
            // The request that failed may have been carried out all the same.
            let open = creation.done.iter().position(Option::is_none);
            if let Some(at) = open.filter(|at| creation.found[*at].is_none())
                && let Ok(Some(metadata)) = self
                    .find_metadata(steps[at].kind, &spec.namespace, steps[at].name(), &never)
                    .await
                && metadata.unfinished_token(&spec.name) == Some(options.token.as_str())
            {
                made.applied.push(Applied {
                    kind: steps[at].kind,
                    name: steps[at].name().to_owned(),
                    uid: metadata.uid.clone(),
                });
                creation.done[at] = Some(metadata);
            }
            let released = steps.iter().zip(&creation.done).filter_map(|(step, done)| {
                let done = done.as_ref().filter(|_| step.kind != Kind::Deployment)?;
                Some(self.finish(spec, step, done, Mark::RemoveOf(&options.token), &never))
            });
            futures_util::future::join_all(released).await
        };
        if tokio::time::timeout(RELEASE, letting_go).await.is_err() {
            tracing::debug!(service = spec.name, "the marks of a failed creation stay");
        }
    }
}
