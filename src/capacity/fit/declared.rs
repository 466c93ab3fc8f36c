//! Declared node groups (K11): nodes that may not exist yet, or that can't be listed.

use std::collections::{BTreeMap, BTreeSet};

use super::view::{ClusterView, NodeGroup};
use super::why::GroupWhy;
use crate::capacity::admission::{admission, admits};
use crate::capacity::catalog;
use crate::capacity::gpu::{Kind, UnknownKind};
use crate::capacity::label::{self, NodeKind, Sharing, keys};
use crate::capacity::node::{Node, Taint};
use crate::capacity::price::Machine;
use crate::capacity::taint::TaintTextError;

/// A declared node group, as a connection writes it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DeclaredInput {
    /// Its name in `gpu_node_groups`.
    pub name: String,
    /// `kind`.
    pub kind: String,
    /// `gpus_per_node`.
    pub gpus_per_node: i64,
    /// `instance_type`.
    pub instance_type: Option<String>,
    /// `label`: key and value that the group's nodes will carry.
    pub label: Option<(String, String)>,
    /// `taints`, as `kubectl taint` writes them.
    pub taints: Vec<String>,
}

/// A declared node group that is sound.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeclaredGroup {
    /// Its name in `gpu_node_groups`.
    pub name: String,
    /// The kind of its GPUs.
    pub kind: Kind,
    /// GPUs per node.
    pub gpus_per_node: u64,
    /// A node as it will be, as far as that is declared.
    pub node: Node,
    /// Whether the declaration says which label names the kind: else nodes are trusted to carry one that does.
    pub names_kind: bool,
}

/// What is wrong with a declared group.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DeclaredError {
    /// Unknown kind.
    #[error("{source}")]
    Kind {
        /// The group.
        name: String,
        /// Why.
        source: UnknownKind,
    },
    /// A taint that is none.
    #[error("{source}")]
    Taint {
        /// The group.
        name: String,
        /// Why.
        source: TaintTextError,
    },
    /// No GPUs per node.
    #[error("gpus_per_node = {gpus_per_node}: it has to be 1 or more")]
    Gpus {
        /// The group.
        name: String,
        /// What is declared.
        gpus_per_node: i64,
    },
    /// A label without a key.
    #[error("its label has no key: leave `label` out if its nodes carry none")]
    Label {
        /// The group.
        name: String,
    },
    /// Label or instance type say another kind.
    #[error("it declares {kind}, but {says}. Correct one of them.")]
    Disagrees {
        /// The group.
        name: String,
        /// The declared kind.
        kind: Kind,
        /// What says otherwise, and what.
        says: String,
    },
}

impl DeclaredGroup {
    /// Checks a declared group: what it says of itself has to agree with the catalogue.
    ///
    /// # Errors
    /// An unknown kind, a taint or label that is none, no GPUs, or a label or instance type of another kind or of slices.
    pub fn parse(input: &DeclaredInput) -> Result<Self, DeclaredError> {
        let name = || input.name.clone();
        let kind: Kind = input.kind.parse().map_err(|source| DeclaredError::Kind {
            name: name(),
            source,
        })?;
        let gpus_per_node = u64::try_from(input.gpus_per_node)
            .ok()
            .filter(|gpus| *gpus > 0)
            .ok_or_else(|| DeclaredError::Gpus {
                name: name(),
                gpus_per_node: input.gpus_per_node,
            })?;
        if input.label.as_ref().is_some_and(|(key, _)| key.is_empty()) {
            return Err(DeclaredError::Label { name: name() });
        }
        let taints = input
            .taints
            .iter()
            .map(|text| Taint::parse(text))
            .collect::<Result<Vec<_>, _>>()
            .map_err(|source| DeclaredError::Taint {
                name: name(),
                source,
            })?;

        let mut labels = BTreeMap::from([(keys::ARCH.to_owned(), "amd64".to_owned())]);
        labels.extend(
            input
                .instance_type
                .clone()
                .map(|machine| (keys::INSTANCE_TYPE.to_owned(), machine)),
        );
        labels.extend(input.label.clone());
        let resource = if kind.schedulable() {
            keys::GPU_RESOURCE
        } else {
            keys::AMD_RESOURCE
        };
        let resources = BTreeMap::from([(resource.to_owned(), gpus_per_node)]);
        let node = Node {
            name: name(),
            labels,
            taints,
            allocatable: resources.clone(),
            capacity: resources,
            arch: "amd64".to_owned(),
            cordoned: false,
            ready: true,
            ..Node::default()
        };
        let disagrees = |says: String| DeclaredError::Disagrees {
            name: name(),
            kind,
            says,
        };
        let names_kind = match label::kind_of_node(&node) {
            NodeKind::Known(found) if found == kind => true,
            NodeKind::Known(found) => {
                return Err(disagrees(format!(
                    "its label or instance type says {found}"
                )));
            }
            NodeKind::UnknownValue { key, value } | NodeKind::Ambiguous { key, value, .. } => {
                return Err(disagrees(format!(
                    "its label {} = {value:?} does not say so",
                    key.label()
                )));
            }
            NodeKind::OtherInstanceType { name } => {
                return Err(disagrees(format!(
                    "its instance type {name} has another GPU"
                )));
            }
            NodeKind::Unnamed => false,
        };
        match label::sharing(&node) {
            Sharing::Whole => {}
            Sharing::Shared(sign)
            | Sharing::Mig(sign)
            | Sharing::Vgpu(sign)
            | Sharing::Fraction(sign) => {
                return Err(disagrees(format!(
                    "{sign} says that its nodes hand out no whole GPUs"
                )));
            }
        }
        let machine = input
            .instance_type
            .as_deref()
            .and_then(|machine| catalog::get().instance_type(machine));
        if let Some(machine) = machine {
            if machine.arch != "amd64" {
                return Err(disagrees(format!(
                    "its instance type {} is {}",
                    machine.name, machine.arch
                )));
            }
            if let Some(gpus) = machine
                .gpus
                .map(u64::from)
                .filter(|gpus| *gpus != gpus_per_node)
            {
                let says = format!(
                    "gpus_per_node = {gpus_per_node} where its instance type {} has {gpus}",
                    machine.name
                );
                return Err(disagrees(says));
            }
        }
        Ok(Self {
            name: input.name.clone(),
            kind,
            gpus_per_node,
            node,
            names_kind,
        })
    }

    /// The group as nodes of a cluster: one that may not exist yet.
    #[must_use]
    pub fn as_group(&self) -> NodeGroup {
        NodeGroup {
            kind: NodeKind::Known(self.kind),
            sharing: Sharing::Whole,
            gpus: self.gpus_per_node,
            registered: self.gpus_per_node,
            advertised: true,
            machine: Machine {
                gpus: Some(self.gpus_per_node),
                ..Machine::of_node(&self.node)
            },
            sample: self.node.clone(),
            others: BTreeSet::new(),
            cpu_millis: None,
            memory_mib: None,
            nodes: 0,
            places: Vec::new(),
        }
    }

    /// Why its nodes would fit no request for its kind; none when they would.
    #[must_use]
    pub fn never(&self) -> Option<GroupWhy> {
        if !self.kind.schedulable() {
            return Some(GroupWhy::NotSchedulable);
        }
        (self.names_kind && !admits(&admission(self.kind), &self.node))
            .then_some(GroupWhy::Spelling)
    }

    /// Whether a group of existing nodes is of this declared group: it has the label, or else the instance type, that the
    /// declaration names. Without either, nothing tells.
    fn is_there(&self, group: &NodeGroup) -> bool {
        let mut declared = self
            .node
            .labels
            .iter()
            .filter(|(key, _)| key.as_str() != keys::ARCH && label::relevant_label(key))
            .peekable();
        declared.peek().is_some()
            && declared.all(|(key, value)| {
                if label::selector_label(key) {
                    group
                        .places
                        .iter()
                        .any(|place| place.labels.get(key) == Some(value))
                } else {
                    group.sample.labels.get(key) == Some(value)
                }
            })
    }

    /// How existing nodes disagree with the declaration; none when they agree, or none of them exists. The nodes win (K11).
    #[must_use]
    pub fn disagreement(&self, view: &ClusterView) -> Option<Disagreement> {
        view.groups
            .iter()
            .filter(|group| self.is_there(group))
            .find_map(|group| {
                let kind = group.kind.known();
                let taints: Vec<Taint> = group.lasting_taints().cloned().collect();
                let mut declared: Vec<Taint> = self
                    .node
                    .taints
                    .iter()
                    .filter(|taint| taint.blocks())
                    .cloned()
                    .collect();
                declared.sort();
                // A node whose plugin has not come up yet says nothing of its GPUs.
                let other_count =
                    group.advertised && group.most() > 0 && group.most() != self.gpus_per_node;
                let not_whole = group.sharing != Sharing::Whole;
                (kind != Some(self.kind) || other_count || not_whole || taints != declared).then(
                    || Disagreement {
                        name: self.name.clone(),
                        declared_kind: self.kind,
                        declared_gpus: self.gpus_per_node,
                        declared_taints: declared,
                        kind: group.kind.clone(),
                        sharing: group.sharing.clone(),
                        gpus: group.most(),
                        taints,
                    },
                )
            })
    }
}

/// A declared group and the nodes that it names, where they differ.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Disagreement {
    /// The group.
    pub name: String,
    /// The declared kind.
    pub declared_kind: Kind,
    /// The declared GPUs per node.
    pub declared_gpus: u64,
    /// The declared taints that block.
    pub declared_taints: Vec<Taint>,
    /// The kind of the nodes.
    pub kind: NodeKind,
    /// Whether the nodes hand out whole devices.
    pub sharing: Sharing,
    /// GPUs per node of the nodes.
    pub gpus: u64,
    /// The lasting taints of the nodes.
    pub taints: Vec<Taint>,
}
