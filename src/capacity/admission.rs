//! Which nodes a GPU pod may land on, as the scheduler's own terms (K5).
//!
//! The terms follow from the kind alone: they are the same in every plan (G8), and admit nodes that join later. What they
//! admit is what [`label::kind_of_node`](super::label::kind_of_node) and [`label::sharing`](super::label::sharing) call whole
//! cards of the kind, with one difference that can't be helped: Kubernetes compares values exactly, the catalogue without
//! regard to case. A node whose label is spelled in another case is therefore known, and refused with that reason
//! (`fit` asks [`admits`] too), so that plan and scheduler agree.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use serde::{Deserialize, Serialize};

use super::catalog;
use super::gpu::Kind;
use super::label::keys::{self, KindKey};
use super::node::Node;

mod stored;
#[cfg(test)]
mod tests;

use stored::Stored;

/// A required node affinity: one of the terms has to hold.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(into = "Stored", try_from = "Stored")]
pub struct Admission {
    /// The terms.
    pub terms: Vec<Term>,
}

/// A node selector term: every requirement has to hold.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Term {
    /// The requirements; the first names the kind.
    pub requirements: Vec<Requirement>,
}

/// A requirement on one label.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Requirement {
    /// The label key.
    pub key: String,
    /// The comparison.
    pub operator: Operator,
    /// What to compare with; empty for the operators that take nothing.
    pub values: Vec<String>,
}

/// How a label is compared; the names are those of the Kubernetes API.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Operator {
    /// The label is there, with one of the values.
    In,
    /// The label is absent, or has none of the values.
    NotIn,
    /// The label is there.
    Exists,
    /// The label is absent.
    DoesNotExist,
}

impl Operator {
    /// The name in the Kubernetes API.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::In => "In",
            Self::NotIn => "NotIn",
            Self::Exists => "Exists",
            Self::DoesNotExist => "DoesNotExist",
        }
    }
}

impl Requirement {
    fn is_in(key: &str, values: Vec<String>) -> Self {
        Self {
            key: key.to_owned(),
            operator: Operator::In,
            values,
        }
    }

    fn is_not_in(key: &str, values: Vec<String>) -> Self {
        Self {
            key: key.to_owned(),
            operator: Operator::NotIn,
            values,
        }
    }

    fn is_absent(key: &str) -> Self {
        Self {
            key: key.to_owned(),
            operator: Operator::DoesNotExist,
            values: Vec::new(),
        }
    }

    fn holds(&self, labels: &BTreeMap<String, String>) -> bool {
        let value = labels.get(&self.key);
        match self.operator {
            Operator::In => value.is_some_and(|value| self.values.contains(value)),
            Operator::NotIn => value.is_none_or(|value| !self.values.contains(value)),
            Operator::Exists => value.is_some(),
            Operator::DoesNotExist => value.is_none(),
        }
    }
}

/// The terms for a kind: one for each label that can name it, in the order of K2, then one for its instance types.
///
/// Each also asks that the labels which K2 reads first be absent, the architecture be amd64, and no sign of sharing, MIG
/// or vGPU be there. A label value that can mean two kinds gets a term of its own, with the instance types that settle it.
#[must_use]
pub fn admission(kind: Kind) -> Admission {
    // Of the kind alone, and asked for by every service of a run.
    static MADE: OnceLock<BTreeMap<Kind, Admission>> = OnceLock::new();
    let made = MADE.get_or_init(|| {
        Kind::ALL
            .iter()
            .map(|kind| (*kind, made_of(*kind)))
            .collect()
    });
    made.get(&kind).cloned().unwrap_or_else(|| made_of(kind))
}

fn made_of(kind: Kind) -> Admission {
    let mut terms = Vec::new();
    for key in KindKey::ALL {
        let values = catalog::get().whole_values(key, kind);
        let (clear, unclear): (Vec<_>, Vec<_>) = values.into_iter().partition(|(_, alone)| *alone);
        let owned = |values: Vec<(&str, bool)>| {
            values
                .into_iter()
                .map(|(value, _)| value.to_owned())
                .collect::<Vec<_>>()
        };
        if !clear.is_empty() {
            let mut term = vec![Requirement::is_in(key.label(), owned(clear))];
            term.extend(
                key.earlier()
                    .map(|earlier| Requirement::is_absent(earlier.label())),
            );
            term.extend(not_a_fraction(kind));
            if key == KindKey::GkeAccelerator {
                term.extend(no_sliced_product(kind));
            }
            terms.push(term);
        }
        if !unclear.is_empty() {
            let mut term = vec![Requirement::is_in(key.label(), owned(unclear))];
            term.push(Requirement::is_in(
                keys::INSTANCE_TYPE,
                whole_machines(kind),
            ));
            term.extend(
                key.earlier()
                    .map(|earlier| Requirement::is_absent(earlier.label())),
            );
            terms.push(term);
        }
    }
    let machines = whole_machines(kind);
    if !machines.is_empty() {
        let mut term = vec![Requirement::is_in(keys::INSTANCE_TYPE, machines)];
        term.extend(KindKey::ALL.map(|key| Requirement::is_absent(key.label())));
        terms.push(term);
    }
    let common = common(kind);
    let terms = terms
        .into_iter()
        .map(|mut requirements| {
            requirements.extend(common.iter().cloned());
            Term { requirements }
        })
        .collect();
    Admission { terms }
}

/// What every term asks: amd64, and no sign that devices are not whole.
///
/// `nvidia.com/gpu.replicas` is not among them: "absent, 0 or 1" is no single requirement, and feature discovery never sets
/// it above 1 without either the strategy label, the suffix of the product value, or another resource name, on each of which
/// the pod stays out.
fn common(kind: Kind) -> Vec<Requirement> {
    let strategies = keys::SHARING_STRATEGIES.map(ToOwned::to_owned).to_vec();
    let mut all = vec![
        Requirement::is_in(keys::ARCH, vec!["amd64".to_owned()]),
        Requirement::is_not_in(keys::SHARING_STRATEGY, strategies),
        Requirement::is_not_in(keys::VGPU_PRESENT, vec!["true".to_owned()]),
        Requirement::is_absent(keys::GKE_SHARING_STRATEGY),
        Requirement::is_absent(keys::GKE_MAX_CLIENTS),
        Requirement::is_absent(keys::GKE_PARTITION_SIZE),
    ];
    let profiles = catalog::get().mig_resources(kind);
    all.extend(
        profiles
            .iter()
            .map(|resource| Requirement::is_absent(&keys::mig_count_label(resource))),
    );
    all
}

/// The amd64 machines whose GPUs are whole cards of the kind.
fn whole_machines(kind: Kind) -> Vec<String> {
    catalog::get()
        .instance_types()
        .filter(|machine| machine.kind == Some(kind) && machine.whole && machine.arch == "amd64")
        .map(|machine| machine.name.clone())
        .collect()
}

/// A label can name the kind on a machine that has only a part of such a card.
fn not_a_fraction(kind: Kind) -> Option<Requirement> {
    let parts: Vec<String> = catalog::get()
        .instance_types()
        .filter(|machine| machine.kind == Some(kind) && !machine.whole)
        .map(|machine| machine.name.clone())
        .collect();
    (!parts.is_empty()).then(|| Requirement::is_not_in(keys::INSTANCE_TYPE, parts))
}

/// GKE's label stays the same where the GPU Operator slices or shares the cards itself: the product label then says so. The
/// other keys ask that there be no product label at all.
fn no_sliced_product(kind: Kind) -> Option<Requirement> {
    let catalog = catalog::get();
    let profiles = catalog
        .mig_resources(kind)
        .iter()
        .filter_map(|name| name.strip_prefix(keys::MIG_PREFIX));
    let ends: Vec<String> = std::iter::once("SHARED".to_owned())
        .chain(
            profiles
                .flat_map(|profile| [format!("MIG-{profile}"), format!("MIG-{profile}-SHARED")]),
        )
        .collect();
    let mut values: Vec<String> = catalog
        .whole_values(KindKey::GpuProduct, kind)
        .iter()
        .flat_map(|(value, _)| ends.iter().map(move |end| format!("{value}-{end}")))
        .chain(
            catalog
                .sliced_values(KindKey::GpuProduct, kind)
                .map(ToOwned::to_owned),
        )
        .collect();
    values.sort_unstable();
    values.dedup();
    (!values.is_empty()).then(|| Requirement::is_not_in(KindKey::GpuProduct.label(), values))
}

/// Whether the scheduler would let a pod with these terms onto the node, by its labels.
#[must_use]
pub fn admits(admission: &Admission, node: &Node) -> bool {
    admission.terms.iter().any(|term| {
        term.requirements
            .iter()
            .all(|requirement| requirement.holds(&node.labels))
    })
}

impl Admission {
    /// The labels and values that name the kind, one entry for each key: what `placement.admits` shows.
    #[must_use]
    pub fn named_values(&self) -> BTreeMap<String, Vec<String>> {
        let mut all: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for requirement in self
            .terms
            .iter()
            .filter_map(|term| term.requirements.first())
        {
            let values = all.entry(requirement.key.clone()).or_default();
            values.extend(requirement.values.iter().cloned());
            values.sort_unstable();
            values.dedup();
        }
        all
    }
}
