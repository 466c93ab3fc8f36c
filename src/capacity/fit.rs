//! Can this cluster meet this request, where, and at what price; and if not, why (G5, K1 to K7, K11).
//!
//! [`ClusterView`] sums the nodes up once; [`fit_cluster`] holds one request against it. The answer is data; `text` renders it.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::admission::{Admission, admission, admits};
use super::gpu::{GpuRequest, Kind};
use super::node::Taint;
use super::price::{PriceBook, SharePrice, share};
use super::taint::{self, Toleration};

pub mod check;
pub mod declared;
#[cfg(test)]
mod tests;
pub mod text;
pub mod view;
pub mod why;

pub use check::{CheckedGroup, ClusterCheck, GroupState, check_cluster, check_view};
pub use declared::{DeclaredError, DeclaredGroup, DeclaredInput, Disagreement};
pub use view::{ClusterView, NodeGroup, NotNow};
pub use why::{ClusterRefusal, ClusterWhy, GroupLine, GroupWhy, ServiceAccount};

/// What could be seen of a cluster.
#[derive(Debug, Clone, Copy)]
pub enum Seen<'a> {
    /// Its nodes.
    Nodes(&'a ClusterView),
    /// Nothing: RBAC refuses the list (K1).
    NotListed(Option<&'a ServiceAccount>),
}

/// A service that wants GPUs of a cluster.
#[derive(Debug, Clone, Copy)]
pub struct ClusterAsk<'a> {
    /// The cluster's name.
    pub target: &'a str,
    /// What each replica asks for.
    pub request: GpuRequest,
    /// How many replicas.
    pub replicas: u32,
    /// CPU of each replica, in thousandths of a core.
    pub cpu_millis: Option<u64>,
    /// Memory of each replica, in MiB.
    pub memory_mib: Option<u64>,
    /// The service's own node selector.
    pub node_selector: &'a BTreeMap<String, String>,
    /// The service's own tolerations, beyond those of K6.
    pub tolerations: &'a [Toleration],
    /// The placement that was applied, while the kind stays (K5: it is sticky).
    pub previous: Option<&'a Placement>,
    /// What machines cost.
    pub prices: &'a PriceBook,
}

/// What confines a GPU pod: stored with the service, and kept as long as it admits a matching node (K5).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Placement {
    /// Which nodes the pod may land on: from the kind alone.
    pub admission: Admission,
    /// What it tolerates (K6), without the service's own tolerations.
    pub tolerations: Vec<Toleration>,
}

/// A request that a cluster can meet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClusterFit {
    /// Where the pod may land.
    pub placement: Placement,
    /// The node groups that match and admit the pod.
    pub groups: Vec<FitGroup>,
    /// The service's share of their price.
    pub price: SharePrice,
    /// What to tell without refusing.
    pub warnings: Vec<FitWarning>,
}

/// A node group that matches and admits the pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FitGroup {
    /// How many nodes; 0 for a declared group.
    pub nodes: u64,
    /// GPUs per node.
    pub gpus_per_node: u64,
    /// Instance type; empty when the nodes have none.
    pub instance_type: String,
    /// The name of the declared group.
    pub declared: Option<String>,
    /// What keeps pods away just now.
    pub not_now: Option<NotNow>,
}

/// What a plan says without refusing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FitWarning {
    /// Every matching node is in a state that passes (G5).
    NotNow {
        /// What was asked.
        request: GpuRequest,
        /// How many nodes are in which state.
        states: BTreeMap<NotNow, u64>,
    },
    /// The placement that was applied admits no matching node any more: the plan proposes a new one (K5).
    PlacementRenewed {
        /// The kind.
        kind: Kind,
    },
    /// Existing nodes disagree with a declared group (K11).
    Declared(Box<Disagreement>),
}

/// A candidate: a group of nodes that fits in all but taints.
struct Candidate<'a> {
    group: &'a NodeGroup,
    nodes: u64,
    declared: Option<&'a str>,
}

impl Candidate<'_> {
    /// Whether terms admit the nodes. A declared group that names no label is trusted to carry one that they admit.
    fn admitted(&self, admission: &Admission) -> bool {
        let node = &self.group.sample;
        let unnamed = self.declared.is_some() && super::label::kind_of_node(node).known().is_none();
        unnamed || admits(admission, node)
    }
}

/// Holds a request against a cluster.
///
/// # Errors
/// [`ClusterRefusal`], when it can't be met by waiting.
pub fn fit_cluster(
    seen: Seen<'_>,
    declared: &[DeclaredGroup],
    ask: &ClusterAsk<'_>,
) -> Result<ClusterFit, Box<ClusterRefusal>> {
    let admission = admission(ask.request.kind);
    let nothing = ClusterView::default();
    let view = match seen {
        Seen::Nodes(view) => view,
        Seen::NotListed(_) => &nothing,
    };
    let mut warnings = Vec::new();
    let mut disagreements = Vec::new();
    let mut lines = Vec::new();
    let mut candidates = Vec::new();
    for group in &view.groups {
        sort_nodes(group, ask, &admission, &mut lines, &mut candidates);
    }
    let declared_groups: Vec<NodeGroup> = declared.iter().map(DeclaredGroup::as_group).collect();
    for (group, as_group) in declared.iter().zip(&declared_groups) {
        match group.disagreement(view) {
            // Only where it matters to this request: else every service would repeat it.
            Some(disagreement) if group.kind == ask.request.kind => {
                disagreements.push(disagreement);
            }
            Some(_) => {}
            None => sort_declared(group, as_group, ask, &mut lines, &mut candidates),
        }
    }
    let refuse = |why, lines: Vec<GroupLine>, disagreements: Vec<Disagreement>| {
        Err(Box::new(ClusterRefusal {
            target: ask.target.to_owned(),
            request: ask.request,
            why: match seen {
                // Whatever else is wrong: nodes that can't be seen could be the ones that fit.
                Seen::NotListed(account) => ClusterWhy::NotListed {
                    service_account: account.cloned(),
                },
                Seen::Nodes(_) => why,
            },
            lines: merged(lines),
            kinds: known_kinds(view, declared),
            disagreements,
        }))
    };
    if candidates.is_empty() {
        let why = why_nothing_fits(view, declared);
        return refuse(why, lines, disagreements);
    }

    let (placement, renewed) = place(&candidates, admission, ask);
    if renewed {
        warnings.push(FitWarning::PlacementRenewed {
            kind: ask.request.kind,
        });
    }
    let tolerated: Vec<Toleration> = placement
        .tolerations
        .iter()
        .chain(ask.tolerations)
        .cloned()
        .collect();
    let mut groups = Vec::new();
    let mut prices = Vec::new();
    let mut states: BTreeMap<NotNow, u64> = BTreeMap::new();
    let mut free_now = false;
    // A sticky placement of an older catalogue may not know every label that names the kind.
    for candidate in candidates
        .into_iter()
        .filter(|candidate| candidate.admitted(&placement.admission))
    {
        let blocking: Vec<Taint> = taint::blocking(&candidate.group.sample.taints, &tolerated)
            .cloned()
            .collect();
        if !blocking.is_empty() {
            lines.push(line(
                candidate.group,
                GroupWhy::Taints(blocking),
                candidate.nodes,
                candidate.declared,
            ));
            continue;
        }
        let not_now = candidate
            .group
            .not_now(u64::from(ask.request.count.get()), &tolerated);
        match &not_now {
            Some(state) => *states.entry(state.clone()).or_default() += candidate.nodes,
            None => free_now = true,
        }
        prices.push((
            ask.prices.price(&candidate.group.machine),
            candidate.group.machine.gpus,
        ));
        groups.push(FitGroup {
            nodes: candidate.nodes,
            gpus_per_node: candidate.group.most(),
            instance_type: candidate.group.machine.instance_type.clone(),
            declared: candidate.declared.map(ToOwned::to_owned),
            not_now,
        });
    }
    if groups.is_empty() {
        return refuse(ClusterWhy::Taints, lines, disagreements);
    }
    warnings.extend(
        disagreements
            .into_iter()
            .map(|disagreement| FitWarning::Declared(Box::new(disagreement))),
    );
    if !free_now {
        warnings.push(FitWarning::NotNow {
            request: ask.request,
            states,
        });
    }
    let price = share(
        u64::from(ask.request.count.get()),
        u64::from(ask.replicas),
        prices.iter().map(|(price, gpus)| (price, *gpus)),
    );
    Ok(ClusterFit {
        placement,
        groups,
        price,
        warnings,
    })
}

fn sort_nodes<'a>(
    group: &'a NodeGroup,
    ask: &ClusterAsk<'_>,
    admission: &Admission,
    lines: &mut Vec<GroupLine>,
    candidates: &mut Vec<Candidate<'a>>,
) {
    let all = group.nodes;
    if let Some(why) = group.why_not(ask.request, admission) {
        lines.push(line(group, why, all, None));
        return;
    }
    if !group.holds(ask.cpu_millis, ask.memory_mib) {
        let why = GroupWhy::TooSmall {
            cpu_millis: group.cpu_millis,
            memory_mib: group.memory_mib,
        };
        lines.push(line(group, why, all, None));
        return;
    }
    let selected = if ask.node_selector.is_empty() {
        all
    } else {
        group.selected(ask.node_selector)
    };
    if selected < all {
        lines.push(line(group, GroupWhy::Selector, all - selected, None));
    }
    if selected > 0 {
        candidates.push(Candidate {
            group,
            nodes: selected,
            declared: None,
        });
    }
}

fn sort_declared<'a>(
    declared: &'a DeclaredGroup,
    group: &'a NodeGroup,
    ask: &ClusterAsk<'_>,
    lines: &mut Vec<GroupLine>,
    candidates: &mut Vec<Candidate<'a>>,
) {
    let name = Some(declared.name.as_str());
    let why = if declared.kind != ask.request.kind {
        Some(GroupWhy::OtherKind)
    } else if declared.gpus_per_node < u64::from(ask.request.count.get()) {
        Some(GroupWhy::TooFew)
    } else {
        declared.never()
    };
    match why {
        Some(why) => lines.push(line(group, why, 0, name)),
        // What else nodes of the group will carry is not declared, so a node selector can't be checked.
        None => candidates.push(Candidate {
            group,
            nodes: 0,
            declared: name,
        }),
    }
}

fn line(group: &NodeGroup, why: GroupWhy, nodes: u64, declared: Option<&str>) -> GroupLine {
    let label = (why == GroupWhy::Spelling)
        .then(|| text::naming_label(&group.sample))
        .flatten();
    GroupLine {
        why,
        kind: group.kind.clone(),
        sharing: group.sharing.clone(),
        gpus: group.most(),
        arch: group.sample.arch.clone(),
        label,
        declared: declared.map(ToOwned::to_owned),
        nodes,
    }
}

/// Lines that are the same but for the number of nodes become one.
fn merged(lines: Vec<GroupLine>) -> Vec<GroupLine> {
    let mut counted: BTreeMap<GroupLine, u64> = BTreeMap::new();
    for line in lines {
        let nodes = line.nodes;
        *counted.entry(GroupLine { nodes: 0, ..line }).or_default() += nodes;
    }
    counted
        .into_iter()
        .map(|(line, nodes)| GroupLine { nodes, ..line })
        .collect()
}

fn known_kinds(view: &ClusterView, declared: &[DeclaredGroup]) -> Vec<Kind> {
    let kinds: BTreeSet<Kind> = view
        .usable_kinds()
        .into_iter()
        .chain(
            declared
                .iter()
                .map(|group| group.kind)
                .filter(|kind| kind.schedulable()),
        )
        .collect();
    kinds.into_iter().collect()
}

/// The placement: as it was applied, while that admits a matching node; else from the kind and the nodes (K5, K6). The
/// flag says that an applied one had to go.
fn place(
    candidates: &[Candidate],
    admission: Admission,
    ask: &ClusterAsk<'_>,
) -> (Placement, bool) {
    let admits_one = |previous: &Placement| {
        candidates.iter().any(|candidate| {
            let tolerated: Vec<Toleration> = previous
                .tolerations
                .iter()
                .chain(ask.tolerations)
                .cloned()
                .collect();
            candidate.admitted(&previous.admission)
                && taint::blocking(&candidate.group.sample.taints, &tolerated)
                    .next()
                    .is_none()
        })
    };
    if let Some(previous) = ask.previous.filter(|previous| admits_one(previous)) {
        return (previous.clone(), false);
    }
    let tolerations = taint::tolerations(
        candidates
            .iter()
            .map(|candidate| candidate.group.sample.taints.as_slice()),
    );
    (
        Placement {
            admission,
            tolerations,
        },
        ask.previous.is_some(),
    )
}

fn why_nothing_fits(view: &ClusterView, declared: &[DeclaredGroup]) -> ClusterWhy {
    if declared.is_empty() {
        check_view(view).err().unwrap_or(ClusterWhy::NoMatch)
    } else {
        ClusterWhy::NoMatch
    }
}
