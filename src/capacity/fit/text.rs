//! What users read about a request and a cluster: refusals and warnings, in one place.

use super::ClusterFit;
use super::why::{ClusterRefusal, ClusterWhy, GroupLine, GroupWhy, ServiceAccount};
use crate::capacity::gpu::Kind;
use crate::capacity::label::{KindKey, NodeKind, Sharing, keys};
use crate::capacity::node::{Node, Taint};
use crate::capacity::text::{Text, counted, gpus};

mod check;
mod warnings;

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
            Self::NotListed { service_account } => format!(
                "{NOT_LISTED}. {}",
                rights(
                    service_account.as_ref(),
                    "declare the cluster's gpu_node_groups on its connection"
                )
            ),
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
                "No node hands out whole GPUs of a kind that Loomplane can schedule.".to_owned()
            }
            Self::Taints => "Taints keep GPU work from every GPU node.".to_owned(),
        }
    }
}

/// How to let Loomplane see the nodes (K1), or what else to do.
fn rights(account: Option<&ServiceAccount>, instead: &str) -> String {
    let own = if account.is_some() {
        ""
    } else {
        " (put the service account of your credential in place of loomplane)"
    };
    format!(
        "Apply this ClusterRole and binding{own}, or {instead}:\n\n{}",
        list_nodes_manifest(account)
    )
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
        let lines: String = self
            .lines
            .iter()
            .map(|line| format!("  {}\n", line.render()))
            .collect();
        let target = &self.target;
        let mut detail = match &self.why {
            ClusterWhy::NoMatch | ClusterWhy::Taints => {
                let nodes: u64 = self.lines.iter().map(|line| line.nodes).sum();
                let found = match nodes {
                    0 if lines.is_empty() => "no GPU nodes.\n".to_owned(),
                    0 => "no GPU nodes that can be seen:\n".to_owned(),
                    nodes => format!("{}:\n", counted(nodes, "GPU node")),
                };
                format!("{asked} {target} has {found}{lines}{}", self.advice())
            }
            ClusterWhy::NotListed { service_account } if !lines.is_empty() => format!(
                "{asked} {target}: {NOT_LISTED}. Its declared node groups do not fit:\n{lines}{}\nIf it has nodes that fit: {}",
                self.advice(),
                rights(
                    service_account.as_ref(),
                    "declare their group in gpu_node_groups"
                )
            ),
            other => format!("{asked} {target}: {}", other.render()),
        };
        for disagreement in &self.disagreements {
            let says = disagreement.render(target);
            detail = format!("{detail}\n{}. {}", says.summary, says.detail);
        }
        Text { summary, detail }
    }

    fn advice(&self) -> String {
        let wanted = u64::from(self.request.count.get());
        let kind = self.request.kind;
        let listed = "data.loomplane_gpu_targets lists them.";
        let because =
            |wanted_why: fn(&GroupWhy) -> bool| self.lines.iter().any(|line| wanted_why(&line.why));
        if because(|why| matches!(why, GroupWhy::Taints(_))) {
            return format!(
                "Loomplane tolerates a taint only when every matching node carries it. Give them the same taints, tolerate these with the service's tolerations, or use another target: {listed}"
            );
        }
        if because(|why| matches!(why, GroupWhy::TooSmall { .. })) {
            return format!(
                "Ask for less size.cpu or size.memory (pods of the system take some of it on each node too), or use a target with larger nodes: {listed}"
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
        let nodes_themselves = [
            GroupWhy::Spelling,
            GroupWhy::ArchLabel,
            GroupWhy::NotAdvertised,
            GroupWhy::NoneHealthy,
        ];
        for why in &nodes_themselves {
            if let Some(line) = self.lines.iter().find(|line| line.why == *why) {
                return line.advice();
            }
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
            GroupWhy::NotSchedulable => {
                format!("{who} {kind} ({each}), which Loomplane can't schedule yet")
            }
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
            GroupWhy::TooSmall {
                cpu_millis,
                memory_mib,
            } => {
                let cpu = cpu_millis.map(|millis| format!("{} cores", cores(millis)));
                let memory = memory_mib.map(|mib| format!("{mib} MiB"));
                let most: Vec<String> = cpu.into_iter().chain(memory).collect();
                format!(
                    "{who} {kind} ({each}), but at most {} for a pod",
                    most.join(" and ")
                )
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

/// Cores, such as `3.92`.
fn cores(millis: u64) -> String {
    let text = format!("{}.{:03}", millis / 1000, millis % 1000);
    let text = text.trim_end_matches('0').trim_end_matches('.');
    text.to_owned()
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
