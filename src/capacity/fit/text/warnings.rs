//! What a plan says without refusing.

use super::{have, render_sharing, render_taints, render_unknown};
use crate::capacity::fit::{Disagreement, FitWarning, NotNow};
use crate::capacity::label::{NodeKind, Sharing};
use crate::capacity::node::Taint;
use crate::capacity::text::{Text, gpus};

impl FitWarning {
    /// The warning as a diagnostic, for the cluster named `target`.
    #[must_use]
    pub fn render(&self, target: &str) -> Text {
        match self {
            Self::NotNow { request, states } => {
                let lines: Vec<String> = states
                    .iter()
                    .map(|(state, nodes)| format!("  {}\n", state.render(*nodes)))
                    .collect();
                Text {
                    summary: format!("No matching node of {target} takes GPU work just now"),
                    detail: format!(
                        "Asked for {request} on one node. {target} has such nodes, and every one is in a state that passes:\n{}The plan goes on. If it is still so at apply, the pods stay pending: apply waits a minute for a node (up to its timeout on a connection with gpu_node_groups), then fails and says so. With wait = false it does not wait for them.",
                        lines.concat()
                    ),
                }
            }
            Self::PlacementRenewed { kind } => Text {
                summary: format!(
                    "The applied placement admits no {kind} node of {target} any more"
                ),
                detail: format!(
                    "The labels and tolerations of this service were made for nodes that have changed or gone. {target} has other nodes with {kind}: the plan proposes the labels and tolerations that admit them, and applying it rolls the pods."
                ),
            },
            Self::Declared(disagreement) => disagreement.render(target),
        }
    }
}

impl NotNow {
    pub(super) fn render(&self, nodes: u64) -> String {
        let are = if nodes == 1 {
            "1 node is".to_owned()
        } else {
            format!("{nodes} nodes are")
        };
        match self {
            Self::Cordoned => format!("{are} cordoned"),
            Self::NotReady => format!("{are} not ready"),
            Self::Tainted(key) => format!("{are} tainted {key}"),
            Self::Unhealthy => format!("{} too few healthy GPUs", have(nodes)),
        }
    }
}

impl Disagreement {
    pub(super) fn render(&self, target: &str) -> Text {
        let found = match (&self.kind, &self.sharing) {
            (NodeKind::Known(kind), Sharing::Whole) => {
                format!("{kind}, {} per node", gpus(self.gpus))
            }
            (NodeKind::Known(kind), sharing) => format!("{kind}, {}", render_sharing(sharing)),
            (other, _) => render_unknown(other),
        };
        let with = |taints: &[Taint]| {
            if taints.is_empty() {
                "no taints".to_owned()
            } else {
                format!("the taints {}", render_taints(taints))
            }
        };
        Text {
            summary: format!(
                "The nodes of {target} disagree with gpu_node_groups.{}",
                self.name
            ),
            detail: format!(
                "Declared: {}, {} per node, with {}. Its nodes have: {found}, with {}. The nodes win: correct the declaration.",
                self.declared_kind,
                gpus(self.declared_gpus),
                with(&self.declared_taints),
                with(&self.taints)
            ),
        }
    }
}
