//! The judgment on a rollout, from what was seen: done, wait, or it can't succeed. Pure.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use super::wire::{Deployment, Pod};

/// Why a rollout ended without success.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RolloutFailure {
    /// What is wrong and what to do.
    pub reason: String,
    /// The last events of the pod concerned, oldest first.
    pub events: Vec<String>,
    /// The last log lines of the container concerned.
    pub log: Vec<String>,
}

impl fmt::Display for RolloutFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.reason)?;
        if !self.events.is_empty() {
            write!(f, "\nEvents:\n  {}", self.events.join("\n  "))?;
        }
        if !self.log.is_empty() {
            write!(f, "\nLast log lines:\n  {}", self.log.join("\n  "))?;
        }
        Ok(())
    }
}

/// A pod's state that may be fatal. The order is that in which they are told when pods differ.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Trouble {
    /// The image's name can't be parsed, or the node may not pull.
    BadImage(String),
    /// The container can't be made: a missing Secret or key.
    BadConfig(String),
    /// It ends again and again.
    Crashing {
        restarts: u32,
        exit_code: Option<i32>,
        text: String,
    },
    /// The node refused the pod.
    NotAdmitted(String),
    /// The image does not come.
    NoImage(String),
    /// No node admits it; the scheduler's words.
    Unschedulable(String),
}

/// The verdict.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Verdict {
    /// All pods are new and available.
    Done,
    /// Not yet; a word on why, for the message of a timeout.
    Wait(String),
    /// A pod (by name and container) is in trouble since it was first seen so.
    Trouble {
        pod: String,
        container: Option<String>,
        trouble: Trouble,
    },
    /// The pods can't even be made: quota, admission.
    NoPods(String),
    /// Someone deleted the Deployment.
    Gone,
}

/// Judges what was seen. `hash` is the `pod-template-hash` of the ReplicaSet that is rolled out; pods of older ones are not
/// this rollout's concern.
pub(super) fn judge(
    deployment: &Deployment,
    hash: Option<&str>,
    pods: &BTreeMap<String, Pod>,
    crash_restarts: u32,
) -> Verdict {
    let status = &deployment.status;
    let wanted = deployment.spec.replicas.unwrap_or(1);
    if deployment.metadata.deletion_timestamp.is_some() {
        return Verdict::Gone;
    }
    if status.observed_generation < deployment.metadata.generation {
        return Verdict::Wait("the Deployment controller has not seen the change yet".to_owned());
    }
    if deployment.spec.paused {
        return Verdict::Wait(
            "the Deployment is paused (kubectl rollout resume ends that)".to_owned(),
        );
    }
    if status.updated_replicas >= wanted
        && status.replicas <= status.updated_replicas
        && status.available_replicas >= wanted
    {
        return Verdict::Done;
    }
    if let Some(condition) = status
        .conditions
        .iter()
        .find(|condition| condition.kind == "ReplicaFailure" && condition.status == "True")
    {
        return Verdict::NoPods(condition.message.clone());
    }
    let mut troubles: Vec<(Trouble, &str, Option<String>)> = pods
        .values()
        .filter(|pod| pod.metadata.deletion_timestamp.is_none())
        .filter(|pod| {
            hash.is_some()
                && pod
                    .metadata
                    .labels
                    .get("pod-template-hash")
                    .map(String::as_str)
                    == hash
        })
        .filter_map(|pod| {
            trouble(pod, crash_restarts)
                .map(|(trouble, container)| (trouble, pod.metadata.name.as_str(), container))
        })
        .collect();
    troubles.sort();
    if let Some((trouble, pod, container)) = troubles.into_iter().next() {
        return Verdict::Trouble {
            pod: pod.to_owned(),
            container,
            trouble,
        };
    }
    Verdict::Wait(format!(
        "{} of {wanted} pods are new, {} are available",
        status.updated_replicas, status.available_replicas
    ))
}

fn trouble(pod: &Pod, crash_restarts: u32) -> Option<(Trouble, Option<String>)> {
    for container in pod
        .status
        .init_container_statuses
        .iter()
        .chain(&pod.status.container_statuses)
    {
        let name = Some(container.name.clone());
        if let Some(waiting) = &container.state.waiting {
            let text = if waiting.message.is_empty() {
                waiting.reason.clone()
            } else {
                format!("{}: {}", waiting.reason, waiting.message)
            };
            match waiting.reason.as_str() {
                "InvalidImageName" | "ErrImageNeverPull" => {
                    return Some((Trouble::BadImage(text), name));
                }
                "ErrImagePull"
                | "ImagePullBackOff"
                | "RegistryUnavailable"
                | "ImageInspectError" => return Some((Trouble::NoImage(text), name)),
                "CreateContainerConfigError" | "CreateContainerError" | "RunContainerError" => {
                    return Some((Trouble::BadConfig(text), name));
                }
                "CrashLoopBackOff" if container.restart_count >= crash_restarts => {
                    let last = container.last_state.terminated.as_ref();
                    let exit_code = last.map(|last| last.exit_code);
                    let why = last.map(|last| last.reason.clone()).unwrap_or_default();
                    return Some((
                        Trouble::Crashing {
                            restarts: container.restart_count,
                            exit_code,
                            text: why,
                        },
                        name,
                    ));
                }
                _ => {}
            }
        }
    }
    if pod.status.phase == "Failed" {
        return Some((
            Trouble::NotAdmitted(format!("{}: {}", pod.status.reason, pod.status.message)),
            None,
        ));
    }
    pod.status
        .conditions
        .iter()
        .find(|condition| {
            condition.kind == "PodScheduled"
                && condition.status == "False"
                && condition.reason == "Unschedulable"
        })
        .map(|condition| (Trouble::Unschedulable(condition.message.clone()), None))
}

impl Trouble {
    /// How long this must last before it counts as hopeless.
    pub(super) fn grace(&self, unschedulable: Duration) -> Duration {
        match self {
            Self::BadImage(_) | Self::Crashing { .. } => Duration::ZERO,
            // A Secret that is made in the same apply may come a little later.
            Self::BadConfig(_) => Duration::from_secs(45),
            // The kubelet refused this pod; the ReplicaSet makes another one.
            Self::NotAdmitted(_) => Duration::from_secs(30),
            Self::NoImage(text) => {
                if is_final_pull_error(text) {
                    Duration::from_secs(5)
                } else {
                    Duration::from_secs(90)
                }
            }
            Self::Unschedulable(_) => unschedulable,
        }
    }

    /// A name that stays while the words change: a scheduler's message counts nodes.
    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::BadImage(_) => "BadImage",
            Self::BadConfig(_) => "BadConfig",
            Self::Crashing { .. } => "Crashing",
            Self::NotAdmitted(_) => "NotAdmitted",
            Self::NoImage(_) => "NoImage",
            Self::Unschedulable(_) => "Unschedulable",
        }
    }

    /// For the user.
    pub(super) fn render(&self, pod: &str) -> String {
        match self {
            Self::BadImage(text) => format!("pod {pod} can't use its image ({text}). Check image."),
            Self::BadConfig(text) => format!(
                "the container of pod {pod} can't be made ({text}). Check that the Secrets and keys of env_from exist in this namespace."
            ),
            Self::Crashing {
                restarts,
                exit_code,
                text,
            } => {
                let ending = exit_code
                    .map(|code| format!(", last with exit code {code}"))
                    .unwrap_or_default();
                let why = if text == "OOMKilled" {
                    " It ran out of memory: raise size.memory."
                } else {
                    ""
                };
                format!(
                    "the container of pod {pod} ended {restarts} times after its start{ending} ({text}).{why}"
                )
            }
            Self::NotAdmitted(text) => format!("the node refused pod {pod} ({text})."),
            Self::NoImage(text) => format!(
                "the image of pod {pod} can't be pulled ({text}). Check image, and image_pull_secret for a private registry."
            ),
            Self::Unschedulable(text) => format!(
                "no node takes pod {pod}. The scheduler says: {}. Loomplane counts GPUs per node, not free ones: free what is insufficient, add nodes, or ask for less; the pod waits meanwhile.",
                text.trim_end_matches('.')
            ),
        }
    }
}

/// Pull errors that another try won't mend.
fn is_final_pull_error(text: &str) -> bool {
    let text = text.to_ascii_lowercase();
    [
        "not found",
        "manifest unknown",
        "unauthorized",
        "authentication required",
        "access denied",
        "forbidden",
        "no basic auth",
        "invalid reference",
    ]
    .iter()
    .any(|words| text.contains(words))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn deployment(extra: serde_json::Value) -> Deployment {
        let mut value = json!({"metadata": {"generation": 2}, "spec": {"replicas": 2}, "status": {"observedGeneration": 2}});
        for (key, part) in extra.as_object().unwrap() {
            for (name, field) in part.as_object().unwrap() {
                value[key][name] = field.clone();
            }
        }
        serde_json::from_value(value).unwrap()
    }

    fn pods(status: serde_json::Value, hash: &str) -> BTreeMap<String, Pod> {
        let pod = json!({"metadata": {"name": "p", "labels": {"pod-template-hash": hash}}, "status": status});
        [("p".to_owned(), serde_json::from_value(pod).unwrap())].into()
    }

    fn verdict(deployment: &Deployment, pods: &BTreeMap<String, Pod>) -> Verdict {
        judge(deployment, Some("new"), pods, 3)
    }

    #[test]
    fn done_needs_new_available_pods_and_no_old_one() {
        let none = BTreeMap::new();
        let done = deployment(
            json!({"status": {"replicas": 2, "updatedReplicas": 2, "availableReplicas": 2}}),
        );
        assert_eq!(verdict(&done, &none), Verdict::Done);
        for not_done in [
            json!({"status": {"replicas": 3, "updatedReplicas": 2, "availableReplicas": 2}}),
            json!({"status": {"replicas": 2, "updatedReplicas": 1, "availableReplicas": 2}}),
            json!({"status": {"replicas": 2, "updatedReplicas": 2, "availableReplicas": 1}}),
            json!({"status": {"observedGeneration": 1, "replicas": 2, "updatedReplicas": 2, "availableReplicas": 2}}),
            json!({"spec": {"paused": true}}),
        ] {
            assert!(
                matches!(
                    verdict(&deployment(not_done.clone()), &none),
                    Verdict::Wait(_)
                ),
                "{not_done}"
            );
        }
        let zero = deployment(json!({"spec": {"replicas": 0}}));
        assert_eq!(verdict(&zero, &none), Verdict::Done);
    }

    #[test]
    fn pods_of_the_old_replica_set_are_no_concern() {
        let crashing = json!({"containerStatuses": [{"name": "c", "restartCount": 9, "state": {"waiting": {"reason": "CrashLoopBackOff"}}}]});
        assert!(matches!(
            verdict(&deployment(json!({})), &pods(crashing.clone(), "old")),
            Verdict::Wait(_)
        ));
        assert!(matches!(
            verdict(&deployment(json!({})), &pods(crashing, "new")),
            Verdict::Trouble {
                trouble: Trouble::Crashing { restarts: 9, .. },
                ..
            }
        ));
    }

    #[test]
    fn a_first_crash_is_forgiven() {
        let once = json!({"containerStatuses": [{"name": "c", "restartCount": 1, "state": {"waiting": {"reason": "CrashLoopBackOff"}}}]});
        assert!(matches!(
            verdict(&deployment(json!({})), &pods(once, "new")),
            Verdict::Wait(_)
        ));
    }

    #[test]
    fn quota_and_unschedulable_are_told_in_the_clusters_words() {
        let quota = deployment(
            json!({"status": {"conditions": [{"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate", "message": "exceeded quota: gpus"}]}}),
        );
        assert_eq!(
            verdict(&quota, &BTreeMap::new()),
            Verdict::NoPods("exceeded quota: gpus".to_owned())
        );
        let pending = json!({"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/3 nodes are available: 3 Insufficient nvidia.com/gpu."}]});
        let Verdict::Trouble { trouble, .. } =
            verdict(&deployment(json!({})), &pods(pending, "new"))
        else {
            panic!()
        };
        assert!(
            trouble
                .render("p")
                .contains("3 Insufficient nvidia.com/gpu")
        );
        assert_eq!(
            trouble.grace(Duration::from_secs(60)),
            Duration::from_secs(60)
        );
    }

    #[test]
    fn an_image_that_is_not_there_is_given_up_sooner_than_a_registry_that_is_busy() {
        let absent =
            Trouble::NoImage("ErrImagePull: manifest unknown".into()).grace(Duration::ZERO);
        let busy = Trouble::NoImage("ErrImagePull: i/o timeout".into()).grace(Duration::ZERO);
        assert!(absent < busy);
    }
}
