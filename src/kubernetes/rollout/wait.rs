//! The wait itself: follows the Deployment and its pods, asks the judge after every change, gathers evidence at the end.

use std::collections::BTreeMap;
use std::time::Duration;

use kube::core::Request;
use kube::core::params::ListParams;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::super::cancel::Cancel;
use super::super::connect::Cluster;
use super::super::error::Error;
use super::super::objects::Kind;
use super::evidence;
use super::judge::{RolloutFailure, Trouble, Verdict, judge};
use super::watch::{Seen, Selection, follow};
use super::wire::{Deployment, List, Pod, ReplicaSet};

/// Changes that wait to be judged; more make the watches wait.
const CHANNEL: usize = 64;
/// How long pods that can't even be made (quota, admission) are waited for: another workload may just be leaving.
const NO_PODS_GRACE: Duration = Duration::from_secs(20);
/// How long events and logs are asked for when time is up.
const EVIDENCE: Duration = Duration::from_secs(10);
/// The longest nap between two looks when nothing changes.
const NAP: Duration = Duration::from_secs(5);

/// Limits of a wait.
#[derive(Debug, Clone)]
pub struct RolloutLimits {
    /// For the whole rollout.
    pub timeout: Duration,
    /// How long a pod may be unschedulable before that counts as hopeless, counted from when no old pod is stopping any more.
    pub unschedulable_grace: Duration,
    /// Restarts of a crashing container before it counts as hopeless.
    pub crash_restarts: u32,
    /// K11: nodes may come, so an unschedulable pod is no reason to stop before the timeout.
    pub scale_from_zero: bool,
}

impl Default for RolloutLimits {
    fn default() -> Self {
        Self {
            timeout: Duration::from_secs(1200),
            unschedulable_grace: Duration::from_secs(60),
            crash_restarts: 3,
            scale_from_zero: false,
        }
    }
}

/// What is known of a rollout.
#[derive(Default)]
struct Picture {
    deployment: Option<Deployment>,
    seen_deployment: bool,
    pods: BTreeMap<String, Pod>,
    /// Revision whose ReplicaSet was looked up, and its hash.
    revision: Option<(String, String)>,
    /// Since when a pod is in a trouble.
    since: BTreeMap<(String, &'static str), Instant>,
    /// Pods for which an autoscaler brings a node.
    scaling: BTreeMap<String, Instant>,
}

enum Change {
    Deployment(Seen<Deployment>),
    Pod(Seen<Pod>),
}

impl Cluster {
    /// Waits until a rollout is done: every pod new and available. Ends early when that can't come: an image that is not
    /// there, a crash loop, a quota, no node that takes the pod; with the cluster's events and the last log lines.
    ///
    /// # Errors
    /// [`Error::Rollout`], also after the timeout; [`Error::NotFound`] when the Deployment is deleted meanwhile;
    /// [`Error::Canceled`]; what any request can end in. The objects stay as they are.
    pub async fn wait_rollout(
        &self,
        namespace: &str,
        name: &str,
        limits: &RolloutLimits,
        cancel: &Cancel,
    ) -> Result<(), Error> {
        let object = Kind::Deployment.object(namespace, name);
        let doing = format!("wait for the rollout of {object}");
        let gone = || Error::NotFound {
            cluster: self.inner.name.clone(),
            doing: doing.clone(),
            message: "the Deployment was deleted meanwhile".to_owned(),
        };
        let mut watches = JoinSet::new();
        let (deployments, mut deployment_changes) = mpsc::channel(CHANNEL);
        watches.spawn(follow::<Deployment>(
            self.clone(),
            Selection {
                path: format!("/apis/apps/v1/namespaces/{namespace}/deployments"),
                labels: None,
                fields: Some(format!("metadata.name={name}")),
                doing: doing.clone(),
            },
            deployments,
            cancel.clone(),
        ));
        let (pods, mut pod_changes) = mpsc::channel::<Result<Seen<Pod>, Error>>(CHANNEL);
        // The Deployment says which pods are its own.
        let mut pods = Some(pods);
        let mut labels: Option<String> = None;

        let until = Instant::now() + limits.timeout;
        let mut picture = Picture::default();
        let mut last = "nothing was seen yet".to_owned();
        let mut wake = Instant::now();
        let mut pods_readable = true;
        loop {
            let change = tokio::select! {
                biased;
                () = cancel.canceled() => return Err(self.canceled(&doing)),
                Some(change) = deployment_changes.recv() => match change {
                    Ok(change) => Some(Change::Deployment(change)),
                    // The API server is away: what is known stays known, and the time limit ends the wait.
                    Err(error) if error.is_passing() => None,
                    Err(error) => return Err(error),
                },
                Some(change) = pod_changes.recv(), if pods_readable => match change {
                    Ok(change) => Some(Change::Pod(change)),
                    Err(error) if error.is_passing() => None,
                    // Applying Deployments needs no right to read pods: then only the Deployment's own words count.
                    Err(error) if error.is_forbidden() => { pods_readable = false; None }
                    Err(error) => return Err(error),
                },
                () = tokio::time::sleep_until(wake.min(until)) => None,
            };
            if let Some(change) = change {
                picture.take(change);
                // Take what came at the same time in one go, up to an error, which this turn must see too.
                loop {
                    match pod_changes.try_recv() {
                        Ok(Ok(change)) => picture.take(Change::Pod(change)),
                        Ok(Err(error)) if error.is_passing() => {}
                        Ok(Err(error)) if error.is_forbidden() => pods_readable = false,
                        Ok(Err(error)) => return Err(error),
                        Err(_) => break,
                    }
                }
            }
            if let Some(deployment) = &picture.deployment
                && let Some(sender) = pods.take()
            {
                let of = |(key, value): (&String, &String)| format!("{key}={value}");
                let pairs: Vec<_> = deployment
                    .spec
                    .selector
                    .match_labels
                    .iter()
                    .map(of)
                    .collect();
                labels = Some(pairs.join(","));
                watches.spawn(follow::<Pod>(
                    self.clone(),
                    Selection {
                        path: format!("/api/v1/namespaces/{namespace}/pods"),
                        labels: labels.clone(),
                        fields: None,
                        doing: doing.clone(),
                    },
                    sender,
                    cancel.clone(),
                ));
            }
            if !picture.seen_deployment {
                wake = Instant::now() + NAP;
            } else {
                let looking = self.look_up_revision(
                    namespace,
                    labels.as_deref(),
                    &mut picture,
                    &doing,
                    cancel,
                );
                match tokio::time::timeout_at(until, looking).await {
                    Ok(Err(error)) if error.is_passing() => {}
                    Ok(looked) => looked?,
                    // Time is up: said below.
                    Err(_) => {}
                }
                let Some(deployment) = &picture.deployment else {
                    return Err(gone());
                };
                let hash = picture.revision.as_ref().map(|(_, hash)| hash.as_str());
                let verdict = judge(deployment, hash, &picture.pods, limits.crash_restarts);
                match verdict {
                    Verdict::Done => return Ok(()),
                    Verdict::Gone => return Err(gone()),
                    Verdict::Wait(why) => {
                        picture.since.clear();
                        last = why;
                        wake = Instant::now() + NAP;
                    }
                    Verdict::NoPods(message) => {
                        let since = picture.since_of("", "NoPods");
                        last = format!("its pods can't be made: {message}");
                        if since.elapsed() >= NO_PODS_GRACE {
                            return Err(self.rollout_error(
                                namespace,
                                name,
                                RolloutFailure {
                                    reason: last,
                                    events: Vec::new(),
                                    log: Vec::new(),
                                },
                            ));
                        }
                        wake = since + NO_PODS_GRACE;
                    }
                    Verdict::Trouble {
                        pod,
                        container,
                        trouble,
                    } => {
                        last = trouble.render(&pod);
                        match self
                            .trouble_ends(namespace, &mut picture, &pod, &trouble, limits, cancel)
                            .await?
                        {
                            Some(next) => wake = next,
                            None => {
                                let failure = self
                                    .evidence(
                                        namespace,
                                        &picture,
                                        &pod,
                                        container.as_deref(),
                                        &trouble,
                                        last,
                                        cancel,
                                    )
                                    .await;
                                return Err(self.rollout_error(namespace, name, failure));
                            }
                        }
                    }
                }
            }
            if Instant::now() >= until {
                let trouble = self
                    .trouble()
                    .map(|why| format!(" (the last try to look again failed: {why})"));
                let reason = format!(
                    "it was not done within {} s: {last}{}",
                    limits.timeout.as_secs_f64().round(),
                    trouble.unwrap_or_default()
                );
                let bare = RolloutFailure {
                    reason: reason.clone(),
                    events: Vec::new(),
                    log: Vec::new(),
                };
                let evidence = self.evidence_at_timeout(namespace, &picture, reason, cancel);
                let failure = tokio::time::timeout(EVIDENCE, evidence)
                    .await
                    .unwrap_or(bare);
                return Err(self.rollout_error(namespace, name, failure));
            }
        }
    }

    /// When to look again at a pod in trouble; `None` when it is hopeless.
    async fn trouble_ends(
        &self,
        namespace: &str,
        picture: &mut Picture,
        pod: &str,
        trouble: &Trouble,
        limits: &RolloutLimits,
        cancel: &Cancel,
    ) -> Result<Option<Instant>, Error> {
        let now = Instant::now();
        let unschedulable = matches!(trouble, Trouble::Unschedulable(_));
        if unschedulable {
            if limits.scale_from_zero {
                return Ok(Some(now + NAP));
            }
            // K10: on a full node the new pod waits until the old one has left.
            if picture
                .pods
                .values()
                .any(|pod| pod.metadata.deletion_timestamp.is_some())
            {
                picture.since.clear();
                return Ok(Some(now + NAP));
            }
        }
        let since = picture.since_of(pod, trouble.name());
        let grace = trouble.grace(limits.unschedulable_grace);
        if now < since + grace {
            return Ok(Some(since + grace));
        }
        if unschedulable && let Some(found) = picture.pods.get(pod) {
            let asked_lately = picture
                .scaling
                .get(pod)
                .is_some_and(|asked| asked.elapsed() < NAP);
            if asked_lately
                || evidence::is_scaling_up(
                    &self.events(namespace, &found.metadata.uid, cancel).await,
                )
            {
                if !asked_lately {
                    picture.scaling.insert(pod.to_owned(), now);
                }
                return Ok(Some(now + NAP));
            }
        }
        Ok(None)
    }

    fn rollout_error(&self, namespace: &str, name: &str, failure: RolloutFailure) -> Error {
        Error::Rollout {
            cluster: self.inner.name.clone(),
            object: Kind::Deployment.object(namespace, name),
            failure: Box::new(failure),
        }
    }

    /// Finds the hash of the ReplicaSet that is rolled out, once per revision.
    async fn look_up_revision(
        &self,
        namespace: &str,
        labels: Option<&str>,
        picture: &mut Picture,
        doing: &str,
        cancel: &Cancel,
    ) -> Result<(), Error> {
        let Some(deployment) = &picture.deployment else {
            return Ok(());
        };
        if deployment.status.observed_generation < deployment.metadata.generation {
            return Ok(());
        }
        let Some(revision) = deployment
            .metadata
            .annotations
            .get("deployment.kubernetes.io/revision")
            .cloned()
        else {
            return Ok(());
        };
        if picture
            .revision
            .as_ref()
            .is_some_and(|(known, _)| *known == revision)
        {
            return Ok(());
        }
        let params = ListParams {
            label_selector: labels.map(str::to_owned),
            ..ListParams::default()
        };
        let request =
            Request::new(format!("/apis/apps/v1/namespaces/{namespace}/replicasets")).list(&params);
        let sets: List<ReplicaSet> = match self.call(doing, None, request, cancel).await {
            Ok(sets) => sets,
            Err(error) if error.is_forbidden() => return Ok(()),
            Err(error) => return Err(error),
        };
        picture.revision = sets
            .items
            .into_iter()
            .filter(|set| {
                set.metadata
                    .owner_references
                    .iter()
                    .any(|owner| owner.uid == deployment.metadata.uid)
            })
            .find(|set| {
                set.metadata
                    .annotations
                    .get("deployment.kubernetes.io/revision")
                    == Some(&revision)
            })
            .and_then(|set| set.metadata.labels.get("pod-template-hash").cloned())
            .map(|hash| (revision, hash));
        Ok(())
    }
}

impl Picture {
    fn take(&mut self, change: Change) {
        match change {
            Change::Deployment(Seen::All(all)) => {
                self.deployment = all.into_iter().next();
                self.seen_deployment = true;
            }
            Change::Deployment(Seen::Put(deployment)) => self.deployment = Some(deployment),
            Change::Deployment(Seen::Gone(_)) => self.deployment = None,
            Change::Pod(Seen::All(all)) => {
                self.pods = all
                    .into_iter()
                    .map(|pod| (pod.metadata.name.clone(), pod))
                    .collect()
            }
            Change::Pod(Seen::Put(pod)) => {
                self.pods.insert(pod.metadata.name.clone(), pod);
            }
            Change::Pod(Seen::Gone(pod)) => {
                self.pods.remove(&pod.metadata.name);
                self.since.retain(|(name, _), _| *name != pod.metadata.name);
            }
        }
    }

    /// Since when this trouble lasts; from now, when it is new.
    fn since_of(&mut self, pod: &str, trouble: &'static str) -> Instant {
        *self
            .since
            .entry((pod.to_owned(), trouble))
            .or_insert_with(Instant::now)
    }

    pub(super) fn pod(&self, name: &str) -> Option<&Pod> {
        self.pods.get(name)
    }
}

impl Cluster {
    /// The failure of a pod, with its events and log.
    #[allow(
        clippy::too_many_arguments,
        reason = "one private call; a struct would only rename the arguments"
    )]
    async fn evidence(
        &self,
        namespace: &str,
        picture: &Picture,
        pod: &str,
        container: Option<&str>,
        trouble: &Trouble,
        reason: String,
        cancel: &Cancel,
    ) -> RolloutFailure {
        let events = match picture.pod(pod) {
            Some(found) => {
                evidence::render(&self.events(namespace, &found.metadata.uid, cancel).await)
            }
            None => Vec::new(),
        };
        let log = match (trouble, container) {
            (Trouble::Crashing { .. }, Some(container)) => {
                self.last_log(namespace, pod, container, true, cancel).await
            }
            _ => Vec::new(),
        };
        RolloutFailure {
            reason,
            events,
            log,
        }
    }

    /// At a timeout the first pod that is not ready tells most.
    async fn evidence_at_timeout(
        &self,
        namespace: &str,
        picture: &Picture,
        reason: String,
        cancel: &Cancel,
    ) -> RolloutFailure {
        let hash = picture.revision.as_ref().map(|(_, hash)| hash.as_str());
        let suspect = picture.pods.values().find(|pod| {
            pod.metadata.deletion_timestamp.is_none()
                && (hash.is_none()
                    || pod
                        .metadata
                        .labels
                        .get("pod-template-hash")
                        .map(String::as_str)
                        == hash)
                && !pod
                    .status
                    .conditions
                    .iter()
                    .any(|condition| condition.kind == "Ready" && condition.status == "True")
        });
        let Some(pod) = suspect else {
            return RolloutFailure {
                reason,
                events: Vec::new(),
                log: Vec::new(),
            };
        };
        let events = evidence::render(&self.events(namespace, &pod.metadata.uid, cancel).await);
        let log = match pod.status.container_statuses.first() {
            Some(container) => {
                self.last_log(
                    namespace,
                    &pod.metadata.name,
                    &container.name,
                    false,
                    cancel,
                )
                .await
            }
            None => Vec::new(),
        };
        RolloutFailure {
            reason,
            events,
            log,
        }
    }
}
