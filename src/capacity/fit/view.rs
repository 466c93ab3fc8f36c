//! A cluster's nodes, summed up once: what a request is held against is a handful of groups, not 5,000 nodes.

use std::collections::{BTreeMap, BTreeSet};

use super::why::GroupWhy;
use crate::capacity::admission::{Admission, admits};
use crate::capacity::gpu::{GpuRequest, Kind};
use crate::capacity::label::{self, NodeKind, Sharing, keys};
use crate::capacity::node::{Effect, Node, Taint};
use crate::capacity::price::Machine;
use crate::capacity::server::arch_runs_gpus;
use crate::capacity::taint;

/// The GPU nodes of a cluster, in groups of nodes that are the same in all that placement looks at.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ClusterView {
    /// The groups, in a fixed order.
    pub groups: Vec<NodeGroup>,
    /// Nodes of the cluster in all, with and without GPUs.
    pub nodes: u64,
}

/// Nodes that are the same in all that placement looks at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeGroup {
    /// The kind of their GPUs.
    pub kind: NodeKind,
    /// Whether they hand out whole devices.
    pub sharing: Sharing,
    /// GPUs that one node hands out now (`allocatable`): what a count of GPUs per node shows (K4).
    pub gpus: u64,
    /// GPUs that one node has registered (`capacity`): more than `gpus` when some are unhealthy just now.
    pub registered: u64,
    /// Whether the node advertises GPUs at all, 0 included.
    pub advertised: bool,
    /// The machine, for its price.
    pub machine: Machine,
    /// One of the nodes: without its name, without labels that only a node selector asks.
    pub sample: Node,
    /// How many nodes; 0 for a declared group.
    pub nodes: u64,
    /// What stands for the labels that are not kept, of any of the nodes.
    pub others: BTreeSet<u32>,
    /// The most CPU that one node gives to pods, in thousandths of a core; none where a node does not say.
    pub cpu_millis: Option<u64>,
    /// The most memory that one node gives to pods, in MiB; none where a node does not say.
    pub memory_mib: Option<u64>,
    /// Where they are, for node selectors: each set of labels once, with its nodes.
    pub places: Vec<Place>,
}

/// Nodes of a group that carry the same labels which only a node selector asks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// Those labels, without the host name.
    pub labels: BTreeMap<String, String>,
    /// The host names.
    pub hostnames: Vec<String>,
}

/// The only selector label that differs on every node.
const HOSTNAME: &str = "kubernetes.io/hostname";

/// What the nodes of a group do not have in common.
#[derive(Default)]
struct Gathered {
    /// Host names by the labels that only a node selector asks.
    places: BTreeMap<BTreeMap<String, String>, Vec<String>>,
    others: BTreeSet<u32>,
    cpu_millis: Vec<Option<u64>>,
    memory_mib: Vec<Option<u64>>,
}

type Signature = (
    BTreeMap<String, String>,
    Vec<Taint>,
    BTreeMap<String, u64>,
    BTreeMap<String, u64>,
    String,
    bool,
    bool,
);

impl ClusterView {
    /// Sums a list of nodes up: one pass.
    #[must_use]
    pub fn new(nodes: &[Node]) -> Self {
        let mut groups: BTreeMap<Signature, Gathered> = BTreeMap::new();
        for node in nodes.iter().filter(|node| label::has_gpu(node)) {
            let mut same = node.clone();
            let mut selector_labels = BTreeMap::new();
            same.labels.retain(|key, value| {
                let selects = label::selector_label(key);
                if selects {
                    selector_labels.insert(key.clone(), value.clone());
                }
                !selects && label::relevant_label(key)
            });
            for taint in &mut same.taints {
                // The value is a time or an event id, different on each node, and says nothing here.
                if taint::is_node_state(&taint.key) {
                    taint.value.clear();
                }
            }
            same.taints.sort();
            same.allocatable.retain(|name, _| is_gpu_resource(name));
            same.capacity.retain(|name, _| is_gpu_resource(name));
            let Node {
                labels,
                taints,
                allocatable,
                capacity,
                arch,
                cordoned,
                ready,
                others,
                cpu_millis,
                memory_mib,
                name: _,
            } = same;
            let hostname = selector_labels
                .remove(HOSTNAME)
                .unwrap_or_else(|| node.name.clone());
            let gathered = groups
                .entry((labels, taints, allocatable, capacity, arch, cordoned, ready))
                .or_default();
            let place = gathered.places.entry(selector_labels).or_default();
            place.push(hostname);
            gathered.others.extend(others);
            gathered.cpu_millis.push(cpu_millis);
            gathered.memory_mib.push(memory_mib);
        }
        let groups = groups
            .into_iter()
            .map(|(signature, gathered)| NodeGroup::of(signature, gathered))
            .collect();
        Self {
            groups,
            nodes: number(nodes.len()),
        }
    }

    /// GPU nodes in all.
    #[must_use]
    pub fn gpu_nodes(&self) -> u64 {
        self.groups.iter().map(|group| group.nodes).sum()
    }

    /// The kinds of which some node has whole, advertised GPUs that could be asked for.
    #[must_use]
    pub fn usable_kinds(&self) -> Vec<Kind> {
        let mut kinds: Vec<Kind> = self
            .groups
            .iter()
            .filter(|group| {
                group.sharing == Sharing::Whole
                    && group.most() > 0
                    && arch_runs_gpus(&group.sample.arch)
            })
            .filter_map(|group| group.kind.known())
            .filter(|kind| kind.schedulable())
            .collect();
        kinds.sort_unstable();
        kinds.dedup();
        kinds
    }
}

fn number(count: usize) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX)
}

fn is_gpu_resource(name: &str) -> bool {
    name.starts_with("nvidia.com/") || name == keys::AMD_RESOURCE
}

impl NodeGroup {
    fn of(signature: Signature, gathered: Gathered) -> Self {
        let places = gathered.places;
        // One that does not say may have any amount.
        let most = |amounts: Vec<Option<u64>>| {
            let amounts: Option<Vec<u64>> = amounts.into_iter().collect();
            amounts.and_then(|amounts| amounts.into_iter().max())
        };
        let (labels, taints, allocatable, capacity, arch, cordoned, ready) = signature;
        let sample = Node {
            name: String::new(),
            labels,
            taints,
            allocatable,
            capacity,
            arch,
            cordoned,
            ready,
            ..Node::default()
        };
        let kind = label::kind_of_node(&sample);
        let resource = match kind.known() {
            Some(kind) if !kind.schedulable() => keys::AMD_RESOURCE,
            _ => keys::GPU_RESOURCE,
        };
        let count = |resources: &BTreeMap<String, u64>| {
            resources.get(resource).copied().unwrap_or_default()
        };
        Self {
            sharing: label::sharing(&sample),
            gpus: count(&sample.allocatable),
            registered: count(&sample.capacity).max(count(&sample.allocatable)),
            advertised: sample.allocatable.contains_key(resource)
                || sample.capacity.contains_key(resource),
            machine: Machine::of_node(&sample),
            kind,
            sample,
            others: gathered.others,
            cpu_millis: most(gathered.cpu_millis),
            memory_mib: most(gathered.memory_mib),
            nodes: places.values().map(|nodes| number(nodes.len())).sum(),
            places: places
                .into_iter()
                .map(|(labels, hostnames)| Place { labels, hostnames })
                .collect(),
        }
    }

    /// The most GPUs that one node can hand out when all of them are healthy.
    #[must_use]
    pub fn most(&self) -> u64 {
        self.gpus.max(self.registered)
    }

    /// Why the group's nodes do not fit a request, taints and states apart; none when they do.
    #[must_use]
    pub fn why_not(&self, request: GpuRequest, admission: &Admission) -> Option<GroupWhy> {
        match &self.kind {
            NodeKind::Known(kind) if *kind != request.kind => return Some(GroupWhy::OtherKind),
            NodeKind::Known(_) => {}
            _ => return Some(GroupWhy::UnknownKind),
        }
        let few = self.most() < u64::from(request.count.get());
        match self.why_never(admission) {
            // The number is what a user can change in the request.
            Some(GroupWhy::ArchLabel | GroupWhy::Spelling) | None if few => Some(GroupWhy::TooFew),
            why => why,
        }
    }

    /// Why the group's nodes fit no request for the kind that an admission is for, whatever its count; taints and states apart.
    #[must_use]
    pub fn why_never(&self, admission: &Admission) -> Option<GroupWhy> {
        if !arch_runs_gpus(&self.sample.arch) {
            return Some(GroupWhy::Arch);
        }
        if self.sharing != Sharing::Whole {
            return Some(GroupWhy::NotWhole);
        }
        if !self.advertised {
            return Some(GroupWhy::NotAdvertised);
        }
        if self.most() == 0 {
            return Some(GroupWhy::NoneHealthy);
        }
        if self.sample.labels.get(keys::ARCH).map(String::as_str) != Some("amd64") {
            return Some(GroupWhy::ArchLabel);
        }
        // The catalogue knows the label, and the scheduler, which compares exactly, would not let the pod there.
        (!admits(admission, &self.sample)).then_some(GroupWhy::Spelling)
    }

    /// What keeps a pod of so many GPUs away just now and passes (G5), given what it tolerates; none when nothing does.
    #[must_use]
    pub fn not_now(&self, gpus: u64, tolerations: &[taint::Toleration]) -> Option<NotNow> {
        if self.sample.cordoned {
            return Some(NotNow::Cordoned);
        }
        if !self.sample.ready {
            return Some(NotNow::NotReady);
        }
        if let Some(taint) = taint::blocking_now(&self.sample.taints, tolerations).next() {
            return Some(NotNow::Tainted(taint.key.clone()));
        }
        (self.gpus < gpus).then_some(NotNow::Unhealthy)
    }

    /// Whether a pod of this size fits on an empty node of the group. What is not said is enough.
    #[must_use]
    pub fn holds(&self, cpu_millis: Option<u64>, memory_mib: Option<u64>) -> bool {
        let fits = |asked: Option<u64>, most: Option<u64>| {
            asked.zip(most).is_none_or(|(asked, most)| asked <= most)
        };
        fits(cpu_millis, self.cpu_millis) && fits(memory_mib, self.memory_mib)
    }

    /// How many nodes carry every label of a node selector. Of a label that adapters do not keep it is told that some node has it.
    #[must_use]
    pub fn selected(&self, selector: &BTreeMap<String, String>) -> u64 {
        let of_group = |(key, value): (&String, &String)| {
            label::selector_label(key)
                || self.sample.labels.get(key) == Some(value)
                || !label::relevant_label(key)
                    && self.others.contains(&label::fingerprint(key, value))
        };
        if !selector.iter().all(of_group) {
            return 0;
        }
        let of_place = |place: &&Place| {
            selector
                .iter()
                .filter(|(key, _)| label::selector_label(key) && key.as_str() != HOSTNAME)
                .all(|(key, value)| place.labels.get(key) == Some(value))
        };
        let hostname = selector.get(HOSTNAME);
        self.places
            .iter()
            .filter(of_place)
            .map(|place| match hostname {
                None => number(place.hostnames.len()),
                Some(name) => number(place.hostnames.iter().filter(|host| *host == name).count()),
            })
            .sum()
    }

    /// Taints that no pod may ever tolerate or that nobody tolerates yet, for reports: the lasting ones.
    pub fn lasting_taints(&self) -> impl Iterator<Item = &Taint> {
        self.sample.taints.iter().filter(|taint| {
            taint.effect != Effect::PreferNoSchedule && !taint::is_node_state(&taint.key)
        })
    }
}

/// A state of a node that passes.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum NotNow {
    /// Cordoned.
    Cordoned,
    /// Its condition Ready is not true.
    NotReady,
    /// It carries a taint of a node's state.
    Tainted(String),
    /// Its GPUs are registered and not healthy.
    Unhealthy,
}
