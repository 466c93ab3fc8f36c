//! What a cluster has, whoever asks: its check (K1 to K7, K11). The words are in `text`.

use std::collections::BTreeSet;

use super::declared::{DeclaredGroup, Disagreement};
use super::view::{ClusterView, NodeGroup, NotNow};
use super::why::{ClusterWhy, GroupLine, GroupWhy};
use super::{Seen, line};
use crate::capacity::admission::admission;
use crate::capacity::gpu::{GpuCount, Kind};
use crate::capacity::label::{NodeKind, Sharing};
use crate::capacity::price::Machine;
use crate::capacity::taint;

/// The check of a cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClusterCheck {
    /// Its groups of GPU nodes, then those that are declared.
    pub groups: Vec<CheckedGroup>,
    /// What is wrong with the cluster as a whole.
    pub why: Option<ClusterWhy>,
}

/// A group of GPU nodes, or a declared one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckedGroup {
    /// The kind of its GPUs, when it is known.
    pub kind: Option<Kind>,
    /// Whole GPUs of one node; none where nodes hand out slices, or advertise nothing.
    pub gpus_per_node: Option<u64>,
    /// How many nodes; 0 for a declared group.
    pub nodes: u64,
    /// The machine, for its price.
    pub machine: Machine,
    /// The name of the declared group (K11).
    pub declared: Option<String>,
    /// Whether a request can be placed there.
    pub state: GroupState,
}

/// Whether a request for a group's kind can be placed there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GroupState {
    /// It can.
    Usable,
    /// It can, and just now nodes are in a state that passes (G5).
    NotNow(NotNow),
    /// It can't.
    Not(Box<GroupLine>),
    /// It is declared, and its nodes are there and say otherwise: they count (K11).
    Overruled(Box<Disagreement>),
}

impl CheckedGroup {
    /// Whether a request for its kind can be placed there.
    #[must_use]
    pub fn usable(&self) -> bool {
        matches!(self.state, GroupState::Usable | GroupState::NotNow(_))
    }
}

impl ClusterCheck {
    /// Whether the cluster can take GPU work of any kind.
    #[must_use]
    pub fn can_take_gpu_work(&self) -> bool {
        self.groups.iter().any(CheckedGroup::usable)
    }

    /// The kinds that a request can ask for.
    #[must_use]
    pub fn kinds(&self) -> BTreeSet<Kind> {
        let usable = self.groups.iter().filter(|group| group.usable());
        usable.filter_map(|group| group.kind).collect()
    }

    /// The kinds that the cluster has, in whatever form.
    #[must_use]
    pub fn named_kinds(&self) -> BTreeSet<Kind> {
        self.groups.iter().filter_map(|group| group.kind).collect()
    }
}

/// A group, and what is known of it before others are looked at.
struct Found<'a> {
    group: NodeGroup,
    declared: Option<&'a str>,
    never: Option<GroupState>,
}

/// Checks a cluster.
#[must_use]
pub fn check_cluster(seen: Seen<'_>, declared: &[DeclaredGroup]) -> ClusterCheck {
    let nothing = ClusterView::default();
    let view = match seen {
        Seen::Nodes(view) => view,
        Seen::NotListed(_) => &nothing,
    };
    let mut found = Vec::new();
    for group in &view.groups {
        let never = never(group).map(|why| line(group, why, group.nodes, None));
        found.push(Found {
            group: group.clone(),
            declared: None,
            never: never.map(|line| GroupState::Not(Box::new(line))),
        });
    }
    for declared in declared {
        let group = declared.as_group();
        let name = Some(declared.name.as_str());
        let not = |why| GroupState::Not(Box::new(line(&group, why, 0, name)));
        let never = match declared.disagreement(view) {
            Some(disagreement) => Some(GroupState::Overruled(Box::new(disagreement))),
            None => declared.never().map(not),
        };
        found.push(Found {
            group,
            declared: name,
            never,
        });
    }
    let why = match seen {
        Seen::NotListed(account) => Some(ClusterWhy::NotListed {
            service_account: account.cloned(),
        }),
        Seen::Nodes(view) if declared.is_empty() => check_view(view).err(),
        Seen::Nodes(_) => None,
    };
    ClusterCheck {
        groups: found.iter().map(|one| checked(one, &found)).collect(),
        why,
    }
}

fn checked(one: &Found<'_>, all: &[Found<'_>]) -> CheckedGroup {
    let group = &one.group;
    let whole = group.sharing == Sharing::Whole && group.advertised;
    CheckedGroup {
        kind: group.kind.known(),
        gpus_per_node: whole.then(|| group.most()),
        nodes: group.nodes,
        machine: group.machine.clone(),
        declared: one.declared.map(ToOwned::to_owned),
        state: one.never.clone().unwrap_or_else(|| beside(one, all)),
    }
}

/// Why no request for a group's own kind can be placed there, whatever else the cluster has; none when one can.
fn never(group: &NodeGroup) -> Option<GroupWhy> {
    match group.kind.known() {
        None => Some(GroupWhy::UnknownKind),
        Some(kind) if !kind.schedulable() => Some(GroupWhy::NotSchedulable),
        Some(kind) => group.why_never(&admission(kind)),
    }
}

/// The state of a group beside the others: a taint is tolerated only when every node that could take the request carries it
/// (K6). The largest request that the group could take is the one that the fewest others could.
fn beside(one: &Found<'_>, all: &[Found<'_>]) -> GroupState {
    let group = &one.group;
    let count = group.most().min(u64::from(GpuCount::MAX));
    let rivals = all.iter().filter(|other| {
        other.never.is_none() && other.group.kind == group.kind && other.group.most() >= count
    });
    let tolerated = taint::tolerations(rivals.map(|other| other.group.sample.taints.as_slice()));
    let blocking: Vec<_> = taint::blocking(&group.sample.taints, &tolerated)
        .cloned()
        .collect();
    if !blocking.is_empty() {
        let why = GroupWhy::Taints(blocking);
        return GroupState::Not(Box::new(line(group, why, group.nodes, one.declared)));
    }
    match group.not_now(u64::from(GpuCount::MIN), &tolerated) {
        Some(state) => GroupState::NotNow(state),
        None => GroupState::Usable,
    }
}

/// Whether nodes can take GPU work of any kind (K3).
///
/// # Errors
/// No GPU nodes, none that advertises GPUs, or none whose kind is named.
pub fn check_view(view: &ClusterView) -> Result<(), ClusterWhy> {
    let gpu_nodes = view.gpu_nodes();
    if gpu_nodes == 0 {
        return Err(ClusterWhy::NoGpuNodes { nodes: view.nodes });
    }
    let advertises = |group: &NodeGroup| {
        // Slices are advertised by a plugin too.
        group.advertised
            || group
                .sample
                .allocatable
                .keys()
                .any(|name| name.starts_with("nvidia.com/"))
    };
    if !view.groups.iter().any(advertises) {
        return Err(ClusterWhy::NoPlugin { gpu_nodes });
    }
    let named = |group: &NodeGroup| group.kind != NodeKind::Unnamed;
    if !view.groups.iter().any(named) {
        return Err(ClusterWhy::NoKindLabel { gpu_nodes });
    }
    Ok(())
}
