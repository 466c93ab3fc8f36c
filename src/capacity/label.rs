//! What a node's labels and resources say of its GPUs: the kind (K2), and whole devices or not (K7).

use super::catalog;
use super::gpu::Kind;
use super::node::Node;

pub mod keys;
#[cfg(test)]
mod tests;

pub use keys::{KindKey, fingerprint, relevant_label, selector_label};

/// What a node's kind is, and where that was read.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum NodeKind {
    /// A kind, read from a label, or from the instance type when no label names one.
    Known(Kind),
    /// The first label that the node carries has a value that stands for none of the kinds, or is empty. First means first
    /// (K2): later labels and the instance type are not asked.
    UnknownValue {
        /// Which label.
        key: KindKey,
        /// Its value.
        value: String,
    },
    /// The first label's value can mean several kinds, and the instance type does not settle which.
    Ambiguous {
        /// Which label.
        key: KindKey,
        /// Its value.
        value: String,
        /// The kinds.
        kinds: Vec<Kind>,
    },
    /// No label, and an instance type whose GPU is none of the kinds.
    OtherInstanceType {
        /// The instance type.
        name: String,
    },
    /// No label, and no known instance type: nothing names the kind (K3).
    Unnamed,
}

impl NodeKind {
    /// The kind, when it is known.
    #[must_use]
    pub fn known(&self) -> Option<Kind> {
        match self {
            Self::Known(kind) => Some(*kind),
            _ => None,
        }
    }
}

/// Whether a node hands out whole devices, and if not, what it hands out (K7).
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Sharing {
    /// Whole devices.
    Whole,
    /// Time slices or MPS clients; with the label or resource that says so.
    Shared(String),
    /// MIG slices; with the label or resource that says so.
    Mig(String),
    /// A virtual GPU; with the label that says so.
    Vgpu(String),
    /// An instance type that has a part of a card.
    Fraction(String),
}

/// The kind of a node (K2).
#[must_use]
pub fn kind_of_node(node: &Node) -> NodeKind {
    let catalog = catalog::get();
    let instance_type = node.labels.get(keys::INSTANCE_TYPE);
    let by_instance_type = instance_type.and_then(|name| catalog.instance_type(name));
    let first = KindKey::ALL
        .into_iter()
        .find_map(|key| Some((key, node.labels.get(key.label())?)));
    let Some((key, value)) = first else {
        return match by_instance_type {
            Some(machine) => match machine.kind {
                Some(kind) => NodeKind::Known(kind),
                None => NodeKind::OtherInstanceType {
                    name: machine.name.clone(),
                },
            },
            None => NodeKind::Unnamed,
        };
    };
    let (whole_card, _) = strip_suffixes(key, value);
    let stripped = || {
        catalog
            .label(key, whole_card)
            .filter(|meaning| meaning.whole)
    };
    let meaning = catalog.label(key, value).or_else(stripped);
    match meaning.map(|meaning| meaning.kinds.as_slice()) {
        Some([kind]) => NodeKind::Known(*kind),
        None | Some([]) => NodeKind::UnknownValue {
            key,
            value: value.clone(),
        },
        Some(several) => match by_instance_type.and_then(|machine| machine.kind) {
            Some(kind) if several.contains(&kind) => NodeKind::Known(kind),
            _ => NodeKind::Ambiguous {
                key,
                value: value.clone(),
                kinds: several.to_vec(),
            },
        },
    }
}

/// What the end of a product value says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Suffix {
    None,
    Shared,
    Mig,
}

/// Feature discovery appends `-MIG-<profile>`, then `-SHARED`, to the name of the card. Only to this label.
fn strip_suffixes(key: KindKey, value: &str) -> (&str, Suffix) {
    if key != KindKey::GpuProduct {
        return (value, Suffix::None);
    }
    let (rest, shared) = match strip_end(value, "-SHARED") {
        Some(rest) => (rest, true),
        None => (value, false),
    };
    let lower = rest.to_ascii_lowercase();
    match lower.rfind("-mig-") {
        // A profile follows: `1g.5gb`, `1g.10gbme`, or the word INVALID.
        Some(at) if is_mig_profile(&lower[at + "-mig-".len()..]) => (&rest[..at], Suffix::Mig),
        _ if shared => (rest, Suffix::Shared),
        _ => (value, Suffix::None),
    }
}

fn strip_end<'a>(value: &'a str, end: &str) -> Option<&'a str> {
    let at = value.len().checked_sub(end.len())?;
    value
        .is_char_boundary(at)
        .then(|| value.split_at(at))
        .and_then(|(rest, tail)| {
            (tail.eq_ignore_ascii_case(end) && !rest.is_empty()).then_some(rest)
        })
}

fn is_mig_profile(text: &str) -> bool {
    if text == "invalid" {
        return true;
    }
    // `1g.5gb`, `1g.10gbme`, `1c.3g.20gb`: parts in compute and graphics slices, then the memory.
    let Some((slices, memory)) = text.rsplit_once('.') else {
        return false;
    };
    let digits = |part: &str, end: &[&str]| {
        end.iter().any(|end| {
            part.strip_suffix(end).is_some_and(|number| {
                !number.is_empty() && number.chars().all(|d| d.is_ascii_digit())
            })
        })
    };
    slices.split('.').all(|part| digits(part, &["g", "c"])) && digits(memory, &["gb", "gbme"])
}

/// Whether a card or product name is that of a vGPU profile: it ends in `-<number>` and Q, C, B or A.
#[must_use]
pub fn is_vgpu_name(name: &str) -> bool {
    let Some((rest, end)) = name.trim().rsplit_once('-') else {
        return false;
    };
    let mut letters = end.chars().rev();
    let last = letters.next();
    let digits: Vec<char> = letters.collect();
    !rest.is_empty()
        && matches!(last, Some('Q' | 'C' | 'B' | 'A'))
        && !digits.is_empty()
        && digits.iter().all(char::is_ascii_digit)
}

/// Whether a node hands out whole devices (K7), by everything that can say otherwise. GKE matters most: on its shared and
/// MIG pools the label that names the kind stays the same, and `nvidia.com/gpu` counts slices.
#[must_use]
pub fn sharing(node: &Node) -> Sharing {
    let label = |key: &str| node.labels.get(key).map(String::as_str);
    let sign = |key: &str, value: &str| format!("{key} = {value}");
    let product = label(KindKey::GpuProduct.label()).unwrap_or_default();
    let suffix = strip_suffixes(KindKey::GpuProduct, product).1;

    if suffix == Suffix::Mig {
        return Sharing::Mig(sign(KindKey::GpuProduct.label(), product));
    }
    if let Some(size) = label(keys::GKE_PARTITION_SIZE) {
        return Sharing::Mig(sign(keys::GKE_PARTITION_SIZE, size));
    }
    if let Some((key, count)) = node.labels.iter().find(|(key, _)| keys::is_mig_count(key)) {
        return Sharing::Mig(sign(key, count));
    }
    let resources = node.allocatable.iter().chain(&node.capacity);
    if let Some((name, count)) = resources
        .clone()
        .find(|(name, count)| name.starts_with(keys::MIG_PREFIX) && **count > 0)
    {
        return Sharing::Mig(format!("{name}: {count}"));
    }
    if suffix == Suffix::Shared {
        return Sharing::Shared(sign(KindKey::GpuProduct.label(), product));
    }
    if let Some(strategy) = label(keys::SHARING_STRATEGY).filter(|strategy| *strategy != "none") {
        return Sharing::Shared(sign(keys::SHARING_STRATEGY, strategy));
    }
    for key in [keys::GKE_SHARING_STRATEGY, keys::GKE_MAX_CLIENTS] {
        if let Some(value) = label(key) {
            return Sharing::Shared(sign(key, value));
        }
    }
    if let Some(replicas) = label(keys::REPLICAS)
        && replicas.parse::<u64>().is_ok_and(|replicas| replicas > 1)
    {
        return Sharing::Shared(sign(keys::REPLICAS, replicas));
    }
    if resources
        .clone()
        .any(|(name, _)| name == keys::SHARED_RESOURCE)
    {
        return Sharing::Shared(keys::SHARED_RESOURCE.to_owned());
    }
    if label(keys::VGPU_PRESENT) == Some("true") {
        return Sharing::Vgpu(sign(keys::VGPU_PRESENT, "true"));
    }
    let not_whole = |key: KindKey, value: &str| {
        catalog::get()
            .label(key, value)
            .is_some_and(|meaning| !meaning.whole)
            || is_vgpu_name(value)
    };
    if not_whole(KindKey::GpuProduct, product) {
        return Sharing::Vgpu(sign(KindKey::GpuProduct.label(), product));
    }
    let machine = label(keys::INSTANCE_TYPE).and_then(|name| catalog::get().instance_type(name));
    match machine {
        Some(machine) if !machine.whole => Sharing::Fraction(machine.name.clone()),
        _ => Sharing::Whole,
    }
}

/// Whether anything says that a node has a GPU, advertised or not.
#[must_use]
pub fn has_gpu(node: &Node) -> bool {
    let resource = |name: &str| {
        name == keys::GPU_RESOURCE
            || name == keys::SHARED_RESOURCE
            || name == keys::AMD_RESOURCE
            || name.starts_with(keys::MIG_PREFIX)
    };
    // A zero of `nvidia.com/gpu` is left behind on nodes whose plugin went away: it takes a plugin to make one.
    node.allocatable
        .keys()
        .chain(node.capacity.keys())
        .any(|name| resource(name))
        || node
            .labels
            .iter()
            .any(|(key, value)| keys::says_gpu(key, value))
        || node
            .labels
            .get(keys::INSTANCE_TYPE)
            .and_then(|name| catalog::get().instance_type(name))
            .is_some_and(|machine| machine.gpus != Some(0) || machine.kind.is_some())
}
