//! What users read about a request and a cluster: refusals and warnings, in one place.

use super::view::NotNow;
use super::why::{ClusterRefusal, ClusterWhy, GroupLine, GroupWhy, ServiceAccount};
use super::{ClusterFit, Disagreement, FitWarning};
use crate::capacity::admission::admission;
use crate::capacity::gpu::Kind;
use crate::capacity::label::{KindKey, NodeKind, Sharing, keys};
use crate::capacity::node::{Node, Taint};
use crate::capacity::text::{Text, counted, gpus};

/// What K1 says, word for word.
pub const NOT_LISTED: &str = "Loomplane can't list this cluster's nodes, so it can't see GPUs";
/// What K3 says of a cluster without GPU nodes, word for word.
pub const NO_GPU_NODES: &str = "No GPU nodes";

/// The label that names a node's kind: the first of K2 that it carries, else its instance type.
pub(super) fn naming_label(node: &Node) -> Option<(String, String)> {
    KindKey::ALL
        .into_iter()
        .map(KindKey::label)
        .chain([keys::INSTANCE_TYPE])
        .find_map(|key| Some((key.to_owned(), node.labels.get(key)?.clone())))
}

/// The manifest that lets a service account list nodes.
#[must_use]
pub fn list_nodes_manifest(account: Option<&ServiceAccount>) -> String {
    let (name, namespace) = account.map_or(("loomplane", "loomplane"), |account| {
        (account.name.as_str(), account.namespace.as_str())
    });
    format!(
        "apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: loomplane-nodes
rules:
  - apiGroups: [\"\"]
    resources: [\"nodes\"]
    verbs: [\"get\", \"list\"]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata:
  name: loomplane-nodes
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: ClusterRole
  name: loomplane-nodes
subjects:
  - kind: ServiceAccount
    name: {name}
    namespace: {namespace}
"
    )
}

impl ClusterWhy {
    /// The reason of a cluster that can take no GPU work, and what to do: what its check shows.
    #[must_use]
    pub fn render(&self) -> String {
        match self {
            Self::NotListed { service_account } => {
                let own = if service_account.is_some() {
                    ""
                } else {
                    " (put the service account of your credential in place of loomplane)"
                };
                format!(
                    "{NOT_LISTED}. Apply this ClusterRole and binding{own}, or declare the cluster's gpu_node_groups on its connection:\n\n{}",
                    list_nodes_manifest(service_account.as_ref())
                )
            }
            Self::NoGpuNodes { nodes } => format!(
                "{NO_GPU_NODES} among its {}. Add GPU nodes, or declare a node group that scales from zero in gpu_node_groups on its connection.",
                counted(*nodes, "node")
            ),
            Self::NoPlugin { gpu_nodes } => format!(
                "{} GPUs, but nothing advertises nvidia.com/gpu. Install the NVIDIA device plugin or the NVIDIA GPU Operator on the cluster.",
                have(*gpu_nodes)
            ),
            Self::NoKindLabel { gpu_nodes } => format!(
                "{} GPUs, but no label that names their kind. Add the label nvidia.com/gpu.product to each GPU node (GPU feature discovery, a part of the NVIDIA GPU Operator, does that).",
                have(*gpu_nodes)
            ),
            Self::NoMatch => {
                "no node hands out whole GPUs of a kind that Loomplane can schedule.".to_owned()
            }
            Self::Taints => "taints keep GPU work from every GPU node.".to_owned(),
        }
    }
}

fn have(nodes: u64) -> String {
    if nodes == 1 {
        "1 node has".to_owned()
    } else {
        format!("{nodes} nodes have")
    }
}

impl ClusterRefusal {
    /// The refusal as a diagnostic.
    #[must_use]
    pub fn render(&self) -> Text {
        let summary = format!("{} can't meet this GPU request", self.target);
        let asked = format!("Asked for {} on one node.", self.request);
        let detail = match &self.why {
            ClusterWhy::NoMatch | ClusterWhy::Taints => {
                let nodes: u64 = self.lines.iter().map(|line| line.nodes).sum();
                let lines: Vec<String> = self
                    .lines
                    .iter()
                    .map(|line| format!("  {}\n", line.render()))
                    .collect();
                let found = match nodes {
                    0 if lines.is_empty() => "no GPU nodes.\n".to_owned(),
                    0 => "no GPU nodes that can be seen:\n".to_owned(),
                    nodes => format!("{}:\n", counted(nodes, "GPU node")),
                };
                format!(
                    "{asked} {} has {found}{}{}",
                    self.target,
                    lines.concat(),
                    self.advice()
                )
            }
            other => format!("{asked} {}: {}", self.target, other.render()),
        };
        Text { summary, detail }
    }

    fn advice(&self) -> String {
        let wanted = u64::from(self.request.count.get());
        let kind = self.request.kind;
        let listed = "data.loomplane_gpu_targets lists them.";
        let because =
            |wanted_why: fn(&GroupWhy) -> bool| self.lines.iter().any(|line| wanted_why(&line.why));
        if self.why == ClusterWhy::Taints {
            return format!(
                "Loomplane tolerates a taint only when every matching node carries it. Give them the same taints, tolerate these with the service's tolerations, or use another target: {listed}"
            );
        }
        if because(|why| *why == GroupWhy::Selector) {
            return format!("Change the service's node_selector, or use another target: {listed}");
        }
        if let Some(most) = self
            .lines
            .iter()
            .filter(|line| line.why == GroupWhy::TooFew)
            .map(|line| line.gpus)
            .max()
        {
            return format!(
                "Ask for count = {most}, or use a target with {} per node: {listed}",
                gpus(wanted)
            );
        }
        if because(|why| *why == GroupWhy::Spelling) {
            return self.spelling_advice();
        }
        if because(|why| *why == GroupWhy::ArchLabel) {
            return "Let the kubelet label these nodes, or add kubernetes.io/arch = amd64."
                .to_owned();
        }
        if because(|why| *why == GroupWhy::NotAdvertised) {
            return "Let the NVIDIA device plugin or the NVIDIA GPU Operator run on these nodes."
                .to_owned();
        }
        if because(|why| *why == GroupWhy::NoneHealthy) {
            return "See why the device plugin reports no healthy GPU there (kubectl describe node), and fix that.".to_owned();
        }
        if because(|why| *why == GroupWhy::NotWhole) {
            return format!(
                "Turn sharing or MIG off on a node that is to give whole GPUs, or use a target with {kind}: {listed}"
            );
        }
        if because(|why| *why == GroupWhy::Arch) {
            return format!(
                "GPU work runs on amd64 only. Use a target with {kind} on amd64: {listed}"
            );
        }
        // Every GPU node is a riddle: perhaps the kind is there, under a name that nobody knows.
        if self.kinds.is_empty() && because(|why| *why == GroupWhy::UnknownKind) {
            let first = KindKey::GpuProduct.label();
            return format!(
                "If these nodes have {kind}, let their label say so: {} goes first, then {first}; a later label is not read. Else use a target with {kind}: {listed}",
                KindKey::GkeAccelerator.label()
            );
        }
        let instead: Vec<&str> = self.kinds.iter().map(|kind| kind.id()).collect();
        if instead.is_empty() {
            format!("Use a target with {kind}: {listed}")
        } else {
            format!(
                "Ask for {}, or use a target with {kind}: {listed}",
                instead.join(" or ")
            )
        }
    }
}

impl ClusterRefusal {
    /// Which values the scheduler looks for, under the label that is spelled in another case.
    fn spelling_advice(&self) -> String {
        let found = self.lines.iter().find_map(|line| line.label.clone());
        let values = found.and_then(|(key, value)| {
            let values = admission(self.request.kind).named_values().remove(&key)?;
            let same = values
                .into_iter()
                .find(|known| known.eq_ignore_ascii_case(&value))?;
            Some(format!("{key}={same}"))
        });
        let label = values.map(|label| format!(" {label}")).unwrap_or_default();
        format!(
            "Kubernetes compares labels exactly. Label these nodes{label} (kubectl label node --overwrite), or let GPU feature discovery do it."
        )
    }
}

impl GroupLine {
    /// `4 nodes have nvidia-l4 (1 GPU per node)`.
    #[must_use]
    pub fn render(&self) -> String {
        let who = match &self.declared {
            Some(name) => format!("node group {name} (declared) has"),
            None => have(self.nodes),
        };
        let kind = self.kind.known().map_or("GPUs", Kind::id);
        let each = format!("{} per node", gpus(self.gpus));
        match &self.why {
            GroupWhy::OtherKind if self.sharing != Sharing::Whole => {
                format!("{who} {kind}, {}", render_sharing(&self.sharing))
            }
            GroupWhy::OtherKind => format!("{who} {kind} ({each})"),
            GroupWhy::UnknownKind => format!("{who} {}", render_unknown(&self.kind)),
            GroupWhy::Arch => format!("{who} {kind}, but the architecture is {}", arch(&self.arch)),
            GroupWhy::NotWhole => format!("{who} {kind}, but {}", render_sharing(&self.sharing)),
            GroupWhy::NotAdvertised => {
                format!("{who} {kind}, but nothing there advertises nvidia.com/gpu")
            }
            GroupWhy::NoneHealthy => format!("{who} {kind}, but advertises 0 healthy GPUs"),
            GroupWhy::TooFew => format!("{who} {kind}, but {each}"),
            GroupWhy::ArchLabel => format!("{who} {kind}, but no label kubernetes.io/arch = amd64"),
            GroupWhy::Spelling => {
                let (key, value) = self.label.clone().unwrap_or_default();
                format!(
                    "{who} {kind}, but the label {key} = {value} in another case than the scheduler would look for"
                )
            }
            GroupWhy::Selector => {
                format!("{who} {kind} ({each}), but not the labels of node_selector")
            }
            GroupWhy::Taints(taints) => {
                let noun = if taints.len() == 1 { "taint" } else { "taints" };
                format!(
                    "{who} {kind} ({each}), but the {noun} {}",
                    render_taints(taints)
                )
            }
        }
    }
}

fn arch(arch: &str) -> &str {
    if arch.is_empty() { "unknown" } else { arch }
}

fn render_taints(taints: &[Taint]) -> String {
    taints
        .iter()
        .map(Taint::render)
        .collect::<Vec<_>>()
        .join(" and ")
}

fn render_unknown(kind: &NodeKind) -> String {
    match kind {
        NodeKind::Known(kind) => kind.id().to_owned(),
        NodeKind::UnknownValue { key, value } if value.is_empty() => {
            format!("an empty label {}, which names no kind", key.label())
        }
        NodeKind::UnknownValue { key, value } => {
            format!(
                "GPUs of no kind that Loomplane knows ({} = {value})",
                key.label()
            )
        }
        NodeKind::Ambiguous { key, value, kinds } => {
            let kinds: Vec<&str> = kinds.iter().map(|kind| kind.id()).collect();
            format!(
                "GPUs whose kind can't be told: {} = {value} can mean {}, and no known instance type settles it",
                key.label(),
                kinds.join(" or ")
            )
        }
        NodeKind::OtherInstanceType { name } => {
            format!("GPUs of no kind that Loomplane knows (instance type {name})")
        }
        NodeKind::Unnamed => {
            "GPUs, but no label that names their kind: add nvidia.com/gpu.product".to_owned()
        }
    }
}

/// What a node hands out that is not whole.
#[must_use]
pub fn render_sharing(sharing: &Sharing) -> String {
    match sharing {
        Sharing::Whole => "whole GPUs".to_owned(),
        Sharing::Shared(sign) => format!("shared, not whole GPUs ({sign})"),
        Sharing::Mig(sign) => format!("as MIG slices, not whole GPUs ({sign})"),
        Sharing::Vgpu(sign) => format!("as virtual GPUs, not whole ones ({sign})"),
        Sharing::Fraction(machine) => format!("only a part of one ({machine})"),
    }
}

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
                        "Asked for {request} on one node. {target} has such nodes, and every one is in a state that passes:\n{}The plan goes on. If it is still so at apply, the pods wait until a node is back.",
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
    fn render(&self, nodes: u64) -> String {
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
    fn render(&self, target: &str) -> Text {
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

impl ClusterFit {
    /// Node groups that match, as `nodes` shows them: `3 nodes, 8 GPUs per node (p5.48xlarge)`. GPUs per node, never free
    /// ones: what other pods use is not counted (K4).
    #[must_use]
    pub fn render_nodes(&self) -> Vec<String> {
        self.groups
            .iter()
            .map(|group| {
                let who = match &group.declared {
                    Some(name) => format!("node group {name} (declared)"),
                    None => counted(group.nodes, "node"),
                };
                let machine = if group.instance_type.is_empty() {
                    String::new()
                } else {
                    format!(" ({})", group.instance_type)
                };
                format!("{who}, {} per node{machine}", gpus(group.gpus_per_node))
            })
            .collect()
    }
}
