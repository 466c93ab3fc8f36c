//! Which nodes are in a set (A1): of its kind, of its fabric, with whole NVIDIA cards, and in no other set. A node that does not fit is refused by name.

use std::fmt;

use super::{Definition, Nodes, SeenNode, marks};
use crate::capacity::arbiter::snapshot;
use crate::capacity::fabric::{self, Fabric, MAX_CARDS};
use crate::capacity::gpu::Kind;
use crate::capacity::label::{KindKey, NodeKind, Sharing, keys, kind_of_node, sharing};
use crate::capacity::{catalog, node::Node};

/// A node that does not fit.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Refused {
    /// Its name.
    pub node: String,
    /// Why, and what to do.
    pub why: Why,
}

/// Why a node does not fit.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Why {
    /// The cluster has none of this name.
    Missing,
    /// Its GPUs are of another kind.
    OtherKind {
        /// Its kind.
        found: &'static str,
        /// The set's.
        wanted: String,
    },
    /// Nothing tells its kind.
    UnknownKind(String),
    /// Its cards are wired otherwise.
    OtherFabric {
        /// Its fabric.
        found: Fabric,
        /// What says so.
        by: String,
        /// The set's.
        wanted: Fabric,
    },
    /// It does not hand out whole cards.
    NotWhole(String),
    /// No resource advertises its cards.
    NoGpus,
    /// It has more cards than can be counted.
    TooMany(u64),
    /// Not an amd64 machine (G4).
    OtherArchitecture(String),
    /// Its blocks can't be used.
    BadBlocks(String),
    /// It is in another set.
    InSet(String),
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing => f.write_str("the cluster has no node of this name"),
            Self::OtherKind { found, wanted } => {
                write!(f, "its GPUs are {found}, and the set's are {wanted}")
            }
            Self::UnknownKind(found) => write!(
                f,
                "its GPU kind can't be told ({found}); label it with {}",
                KindKey::GpuProduct.label()
            ),
            Self::OtherFabric { found, by, wanted } => write!(
                f,
                "its fabric is {found} ({by}), and the set's is {wanted}; where that is wrong, label the node {}={wanted}",
                marks::FABRIC
            ),
            Self::NotWhole(sign) => write!(f, "it does not hand out whole GPUs ({sign})"),
            Self::NoGpus => f.write_str(
                "it advertises no GPU; it needs NVIDIA's device plugin, or KubeVirt's for passthrough",
            ),
            Self::TooMany(gpus) => {
                write!(f, "it has {gpus} GPUs; at most {MAX_CARDS} on one node are supported")
            }
            Self::OtherArchitecture(arch) => {
                write!(f, "it is an {arch} machine, and GPU work needs amd64")
            }
            Self::BadBlocks(why) => write!(f, "its annotation {} can't be used: {why}", marks::BLOCKS),
            Self::InSet(set) => write!(f, "it is in capacity set {set:?} already"),
        }
    }
}

/// The nodes of a set, by name, and those that it names or selects and that do not fit.
#[must_use]
pub fn members(
    definition: &Definition,
    nodes: &[SeenNode],
    others: &[Definition],
) -> (Vec<snapshot::Node>, Vec<Refused>) {
    let mut members = Vec::new();
    let mut refused = Vec::new();
    for seen in nodes
        .iter()
        .filter(|seen| definition.nodes.admits(&seen.node))
    {
        match fits(definition, seen, others) {
            Ok(node) => members.push(node),
            Err(why) => refused.push(Refused {
                node: seen.node.name.clone(),
                why,
            }),
        }
    }
    if let Nodes::Named(names) = &definition.nodes {
        let there = |name: &String| nodes.iter().any(|seen| seen.node.name == *name);
        refused.extend(
            names
                .iter()
                .filter(|name| !there(name))
                .map(|name| Refused {
                    node: name.clone(),
                    why: Why::Missing,
                }),
        );
    }
    members.sort_by(|a, b| a.name.cmp(&b.name));
    refused.sort();
    (members, refused)
}

fn fits(
    definition: &Definition,
    seen: &SeenNode,
    others: &[Definition],
) -> Result<snapshot::Node, Why> {
    let (set, node) = (&definition.set, &seen.node);
    let kind = match kind_of_node(node) {
        NodeKind::Known(kind) => kind,
        NodeKind::UnknownValue { key, value } => {
            return Err(Why::UnknownKind(format!("{} = {value:?}", key.label())));
        }
        NodeKind::Ambiguous { key, value, .. } => {
            return Err(Why::UnknownKind(format!(
                "{} = {value:?} can mean several",
                key.label()
            )));
        }
        NodeKind::OtherInstanceType { name } => {
            return Err(Why::UnknownKind(format!("instance type {name}")));
        }
        NodeKind::Unnamed => return Err(Why::UnknownKind("no label names it".to_owned())),
    };
    if kind.id() != set.gpu_kind {
        return Err(Why::OtherKind {
            found: kind.id(),
            wanted: set.gpu_kind.clone(),
        });
    }
    match sharing(node) {
        Sharing::Whole => {}
        Sharing::Shared(sign)
        | Sharing::Mig(sign)
        | Sharing::Vgpu(sign)
        | Sharing::Fraction(sign) => {
            return Err(Why::NotWhole(sign));
        }
    }
    if !node.arch.is_empty() && node.arch != "amd64" {
        return Err(Why::OtherArchitecture(node.arch.clone()));
    }
    let gpus = cards(&node.capacity);
    if gpus == 0 {
        return Err(Why::NoGpus);
    }
    let gpus = match u32::try_from(gpus) {
        Ok(gpus) if gpus <= MAX_CARDS => gpus,
        _ => return Err(Why::TooMany(gpus)),
    };
    if let Some((found, by)) = fabric_of(node, kind, gpus)
        && found != set.fabric
    {
        return Err(Why::OtherFabric {
            found,
            by,
            wanted: set.fabric,
        });
    }
    if let Some(other) = others
        .iter()
        .find(|other| other.set.name != set.name && other.nodes.admits(node))
    {
        return Err(Why::InSet(other.set.name.clone()));
    }
    Ok(snapshot::Node {
        name: node.name.clone(),
        gpus,
        // Cards that the device plugin took back are there, but which they are can't be told: nothing is planned on such a node.
        ready: node.ready && cards(&node.allocatable) == u64::from(gpus),
        cordoned: node.cordoned,
        draining: node
            .labels
            .get(marks::DRAIN)
            .is_some_and(|value| value == "true"),
        blocks: blocks_of(seen, set.fabric, gpus)?,
    })
}

/// Whole cards: what `nvidia.com/gpu` counts and what KubeVirt passes through under names of models. A card is under one of them.
#[must_use]
pub fn cards(resources: &std::collections::BTreeMap<String, u64>) -> u64 {
    resources
        .iter()
        .filter(|(name, _)| is_whole_card(name))
        .map(|(_, count)| *count)
        .sum()
}

/// Whether a resource counts whole NVIDIA cards.
#[must_use]
pub fn is_whole_card(resource: &str) -> bool {
    let Some(model) = resource.strip_prefix("nvidia.com/") else {
        return false;
    };
    if resource == keys::GPU_RESOURCE {
        return true;
    }
    // KubeVirt's plugin names them in capitals: nvidia.com/GH100_H100_SXM5_80GB. Older versions keep the case of the model's last part.
    model.starts_with(|first: char| first.is_ascii_uppercase())
}

fn blocks_of(seen: &SeenNode, fabric: Fabric, gpus: u32) -> Result<Option<Vec<Vec<u32>>>, Why> {
    let Some(text) = seen.annotations.get(marks::BLOCKS) else {
        return Ok(None);
    };
    let blocks: Vec<Vec<u32>> = serde_json::from_str(text).map_err(|error| {
        Why::BadBlocks(format!("it is no list of lists of card numbers: {error}"))
    })?;
    fabric::own_blocks(fabric, gpus, &blocks).map_err(|bad| Why::BadBlocks(bad.to_string()))?;
    Ok(Some(blocks))
}

/// How a node's cards are wired, and what says so; `None` where nothing does, and the set's word counts.
fn fabric_of(node: &Node, kind: Kind, gpus: u32) -> Option<(Fabric, String)> {
    let label = |key: &str| node.labels.get(key).map(String::as_str);
    match label(marks::FABRIC) {
        Some("pcie") => return Some((Fabric::Pcie, format!("label {}", marks::FABRIC))),
        Some("nvswitch") => return Some((Fabric::Nvswitch, format!("label {}", marks::FABRIC))),
        _ => {}
    }
    let on_board = match kind {
        Kind::A100_40gb | Kind::A100_80gb | Kind::H100_80gb | Kind::H200_141gb => true,
        Kind::V100_16gb | Kind::V100_32gb | Kind::Mi300x => false,
        _ => {
            return Some((
                Fabric::Pcie,
                format!("{} is a PCIe card", kind.display_name()),
            ));
        }
    };
    let product = KindKey::GpuProduct.label();
    let value = label(product).unwrap_or_default().to_ascii_uppercase();
    let sign = || format!("{product} = {}", label(product).unwrap_or_default());
    if value.contains("PCIE") || value.contains("-NVL") {
        return Some((Fabric::Pcie, sign()));
    }
    // Boards of 8 have NVSwitches; those of 4 link their cards directly, and their value is the same.
    let whole_board = gpus >= 8;
    if on_board && whole_board && (value.contains("SXM") || value.contains("HBM3")) {
        return Some((Fabric::Nvswitch, sign()));
    }
    let machine = label(keys::INSTANCE_TYPE).and_then(|name| catalog::get().instance_type(name))?;
    (on_board && whole_board && machine.gpus.is_some_and(|gpus| gpus >= 8))
        .then(|| (Fabric::Nvswitch, format!("instance type {}", machine.name)))
}
