//! Taints and tolerations (K6).

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::node::{Effect, Taint};

#[cfg(test)]
mod tests;

/// A toleration, as the Kubernetes API has it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Toleration {
    /// The taint's key; empty with [`TolerationOperator::Exists`] tolerates every key.
    pub key: String,
    /// How key and value are compared.
    pub operator: TolerationOperator,
    /// The taint's value, for [`TolerationOperator::Equal`].
    pub value: String,
    /// The effect that is tolerated; empty: every one.
    pub effect: String,
}

impl Toleration {
    /// One that tolerates every taint.
    #[must_use]
    pub fn everything() -> Self {
        Self {
            key: String::new(),
            operator: TolerationOperator::Exists,
            value: String::new(),
            effect: String::new(),
        }
    }
}

/// How a toleration compares.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum TolerationOperator {
    /// Key and value are the same.
    Equal,
    /// The key is the same, whatever the value.
    Exists,
}

impl Effect {
    /// The name in the Kubernetes API.
    #[must_use]
    pub fn as_str(&self) -> &str {
        match self {
            Self::NoSchedule => "NoSchedule",
            Self::PreferNoSchedule => "PreferNoSchedule",
            Self::NoExecute => "NoExecute",
            Self::Other(name) => name,
        }
    }

    /// Reads a name.
    #[must_use]
    pub fn parse(name: &str) -> Self {
        match name {
            "NoSchedule" => Self::NoSchedule,
            "PreferNoSchedule" => Self::PreferNoSchedule,
            "NoExecute" => Self::NoExecute,
            other => Self::Other(other.to_owned()),
        }
    }
}

impl Taint {
    /// Whether the taint keeps out a pod that does not tolerate it: every effect but `PreferNoSchedule` does.
    #[must_use]
    pub fn blocks(&self) -> bool {
        self.effect != Effect::PreferNoSchedule
    }

    /// Reads `key=value:Effect` or `key:Effect`, as `kubectl taint` writes them.
    ///
    /// # Errors
    /// Says what is wrong with the text.
    pub fn parse(text: &str) -> Result<Self, TaintTextError> {
        let wrong = || TaintTextError {
            text: text.to_owned(),
        };
        let (named, effect) = text.trim().rsplit_once(':').ok_or_else(wrong)?;
        let (key, value) = named.split_once('=').unwrap_or((named, ""));
        let effect = Effect::parse(effect);
        if key.is_empty() || matches!(effect, Effect::Other(_)) {
            return Err(wrong());
        }
        Ok(Self {
            key: key.to_owned(),
            value: value.to_owned(),
            effect,
        })
    }

    /// `key=value:Effect`, as `kubectl taint` writes it.
    #[must_use]
    pub fn render(&self) -> String {
        let equals = if self.value.is_empty() { "" } else { "=" };
        format!(
            "{}{equals}{}:{}",
            self.key,
            self.value,
            self.effect.as_str()
        )
    }
}

/// A text that is no taint.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{text:?} is no taint: write KEY=VALUE:EFFECT or KEY:EFFECT, with the effect NoSchedule, PreferNoSchedule or NoExecute"
)]
pub struct TaintTextError {
    /// The text.
    pub text: String,
}

/// Keys that stand for a node's state, whole (K6). Prefixes and endings are below.
const STATE_KEYS: [&str; 5] = [
    "ToBeDeletedByClusterAutoscaler",
    "DeletionCandidateOfClusterAutoscaler",
    "cloud.google.com/impending-node-termination",
    "NodeWithImpairedVolumes",
    "node.digitalocean.com/network-not-tuned",
];

/// Beginnings of keys that stand for a node's state: not ready, cordoned, under pressure, starting up, going away.
const STATE_PREFIXES: [&str; 8] = [
    "node.kubernetes.io/",
    "node.cloudprovider.kubernetes.io/",
    "ignore-taint.cluster-autoscaler.kubernetes.io/",
    "startup-taint.cluster-autoscaler.kubernetes.io/",
    "status-taint.cluster-autoscaler.kubernetes.io/",
    "karpenter.sh/",
    "readiness.k8s.io/",
    "aws-node-termination-handler/",
];

/// The ending of keys by which a storage or network driver says that its agent does not run yet.
const AGENT_NOT_READY: &str = "/agent-not-ready";

/// Whether a taint stands for a node's state, which passes: it is never tolerated, even if every node carries it.
#[must_use]
pub fn is_node_state(key: &str) -> bool {
    STATE_KEYS.contains(&key)
        || STATE_PREFIXES.iter().any(|prefix| key.starts_with(prefix))
        || key.ends_with(AGENT_NOT_READY)
}

/// Whether a taint may become a toleration when every matching node carries it. Arm64 nodes never match (G4).
#[must_use]
pub fn may_tolerate(taint: &Taint) -> bool {
    let arm = taint.key == super::label::keys::ARCH && taint.value != "amd64";
    !is_node_state(&taint.key) && !arm
}

/// The tolerations of a GPU pod: the taints that every matching node carries, but those of a node's state.
///
/// Key, value and effect are copied: `nvidia.com/gpu=present` on one node and `=true` on another are two taints.
#[must_use]
pub fn tolerations<'a>(nodes: impl IntoIterator<Item = &'a [Taint]>) -> Vec<Toleration> {
    let mut nodes = nodes.into_iter();
    let Some(first) = nodes.next() else {
        return Vec::new();
    };
    let mut shared: BTreeSet<&Taint> = first.iter().filter(|taint| may_tolerate(taint)).collect();
    for taints in nodes {
        shared.retain(|taint| taints.contains(taint));
    }
    shared.into_iter().map(Toleration::of).collect()
}

impl Toleration {
    /// The toleration of exactly one taint. Without a value it is `Equal` with an empty one, as the API server reads it.
    #[must_use]
    pub fn of(taint: &Taint) -> Self {
        Self {
            key: taint.key.clone(),
            operator: TolerationOperator::Equal,
            value: taint.value.clone(),
            effect: taint.effect.as_str().to_owned(),
        }
    }

    /// Whether it lets a pod past a taint, by the scheduler's rules.
    #[must_use]
    pub fn tolerates(&self, taint: &Taint) -> bool {
        let effect = self.effect.is_empty() || self.effect == taint.effect.as_str();
        let key = self.key == taint.key
            || (self.key.is_empty() && self.operator == TolerationOperator::Exists);
        let value = self.operator == TolerationOperator::Exists || self.value == taint.value;
        effect && key && value
    }
}

/// The lasting taints of a node that keep a pod out. Those of its state are not among them: they pass.
pub fn blocking<'a>(
    taints: &'a [Taint],
    tolerations: &'a [Toleration],
) -> impl Iterator<Item = &'a Taint> {
    untolerated(taints, tolerations).filter(|taint| !is_node_state(&taint.key))
}

/// The taints of a node's state that keep a pod out just now.
pub fn blocking_now<'a>(
    taints: &'a [Taint],
    tolerations: &'a [Toleration],
) -> impl Iterator<Item = &'a Taint> {
    untolerated(taints, tolerations).filter(|taint| is_node_state(&taint.key))
}

fn untolerated<'a>(
    taints: &'a [Taint],
    tolerations: &'a [Toleration],
) -> impl Iterator<Item = &'a Taint> {
    taints
        .iter()
        .filter(|taint| taint.blocks())
        .filter(|taint| {
            !tolerations
                .iter()
                .any(|toleration| toleration.tolerates(taint))
        })
}
