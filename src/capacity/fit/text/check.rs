//! What the check of a cluster says.

use super::{NOT_LISTED, rights};
use crate::capacity::admission::admission;
use crate::capacity::fit::check::{CheckedGroup, ClusterCheck, GroupState};
use crate::capacity::fit::merged;
use crate::capacity::fit::why::{ClusterWhy, GroupLine, GroupWhy};
use crate::capacity::label::{KindKey, NodeKind, Sharing};
use crate::capacity::text::Text;

impl ClusterCheck {
    /// Why the cluster called `target` can take no GPU work, and what to do; none when it can.
    #[must_use]
    pub fn reason(&self, target: &str) -> Option<String> {
        if self.can_take_gpu_work() {
            return None;
        }
        let mut lines = Vec::new();
        let mut overruled = Vec::new();
        for group in &self.groups {
            match &group.state {
                GroupState::Not(line) => lines.push((**line).clone()),
                GroupState::Overruled(disagreement) => {
                    overruled.push(sentence(&disagreement.render(target)));
                }
                GroupState::Usable | GroupState::NotNow(_) => {}
            }
        }
        let groups: String = merged(lines)
            .iter()
            .map(GroupLine::explain)
            .chain(overruled)
            .map(|line| format!("\n  {line}"))
            .collect();
        Some(match &self.why {
            Some(ClusterWhy::NotListed { service_account }) if !groups.is_empty() => format!(
                "{NOT_LISTED}. None of its declared node groups can take GPU work:{groups}\n{}",
                rights(
                    service_account.as_ref(),
                    "declare a group that can in gpu_node_groups"
                )
            ),
            Some(why) => why.render(),
            None => format!("None of its GPU nodes can take GPU work:{groups}"),
        })
    }
}

impl CheckedGroup {
    /// Why the group can take no GPU work, and what to do; or what keeps pods away just now. None when nothing does.
    #[must_use]
    pub fn reason(&self, target: &str) -> Option<String> {
        match &self.state {
            GroupState::Usable => None,
            GroupState::NotNow(state) => Some(format!("Just now {}.", state.render(self.nodes))),
            GroupState::Not(line) => Some(line.explain()),
            GroupState::Overruled(disagreement) => Some(sentence(&disagreement.render(target))),
        }
    }
}

fn sentence(text: &Text) -> String {
    format!("{}. {}", text.summary, text.detail)
}

impl GroupLine {
    /// Why, and what to do.
    fn explain(&self) -> String {
        let why = self.render();
        let why = match why.strip_prefix("node ") {
            Some(rest) => format!("Node {rest}"),
            None => why,
        };
        format!("{why}. {}", self.advice()).trim_end().to_owned()
    }

    /// What to do with the nodes, so that they can take GPU work; empty where that is not for the nodes to change.
    pub(super) fn advice(&self) -> String {
        match &self.why {
            GroupWhy::OtherKind
            | GroupWhy::TooFew
            | GroupWhy::TooSmall { .. }
            | GroupWhy::Selector => String::new(),
            GroupWhy::NotSchedulable => "Only NVIDIA kinds can be asked for.".to_owned(),
            GroupWhy::UnknownKind => unknown_kind(&self.kind),
            GroupWhy::Arch => "GPU work runs on amd64 only.".to_owned(),
            GroupWhy::NotWhole => not_whole(&self.sharing).to_owned(),
            GroupWhy::NotAdvertised => {
                "Let the NVIDIA device plugin or the NVIDIA GPU Operator run on these nodes."
                    .to_owned()
            }
            GroupWhy::NoneHealthy => "See why the device plugin reports no healthy GPU there (kubectl describe node), and fix that.".to_owned(),
            GroupWhy::ArchLabel => {
                "Let the kubelet label these nodes, or add kubernetes.io/arch = amd64.".to_owned()
            }
            GroupWhy::Spelling => self.spelling(),
            GroupWhy::Taints(_) => "Loomplane tolerates a taint only when every matching node carries it. Give the nodes of this kind the same taints, or tolerate these with the service's tolerations.".to_owned(),
        }
    }

    /// Which value the scheduler looks for, under the label that is spelled in another case.
    fn spelling(&self) -> String {
        let same = || {
            let (key, value) = self.label.clone()?;
            let values = admission(self.kind.known()?).named_values().remove(&key)?;
            let same = values
                .into_iter()
                .find(|known| known.eq_ignore_ascii_case(&value))?;
            Some(format!(" {key}={same}"))
        };
        let label = same().unwrap_or_default();
        format!(
            "Kubernetes compares labels exactly. Label these nodes{label} (kubectl label node --overwrite), or let GPU feature discovery do it."
        )
    }
}

fn not_whole(sharing: &Sharing) -> &'static str {
    match sharing {
        Sharing::Whole => "",
        Sharing::Shared(_) => "Turn sharing off on nodes that are to give whole GPUs.",
        Sharing::Mig(_) => "Turn MIG off on nodes that are to give whole GPUs.",
        Sharing::Vgpu(_) => "Pass whole GPUs through to nodes that are to give them.",
        Sharing::Fraction(_) => "Use an instance type with whole GPUs.",
    }
}

fn unknown_kind(kind: &NodeKind) -> String {
    let first = "The first label that a node carries decides, later ones are not read:";
    match kind {
        NodeKind::UnknownValue { key, .. } | NodeKind::Ambiguous { key, .. } => format!(
            "{first} if these nodes have a kind that data.loomplane_gpu_kinds lists, let {} say which.",
            key.label()
        ),
        NodeKind::OtherInstanceType { .. } => format!(
            "If these nodes have a kind that data.loomplane_gpu_kinds lists, let the label {} say which.",
            KindKey::GpuProduct.label()
        ),
        NodeKind::Unnamed => {
            "GPU feature discovery, a part of the NVIDIA GPU Operator, does that.".to_owned()
        }
        NodeKind::Known(_) => String::new(),
    }
}
