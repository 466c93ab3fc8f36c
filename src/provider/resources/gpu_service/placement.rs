//! Placements: between the domain's form, what lives on a cluster, and what the attribute shows.

use std::collections::BTreeMap;

use tf_provider_sdk::field::Opt;

use super::{model::Placement, spec::domain_toleration};
use crate::{
    capacity::{
        admission::{Admission, Operator, Requirement, Term, admission},
        catalog, fit,
        gpu::Kind,
        label::keys::KindKey,
    },
    kubernetes::workload::{NodeOperator, NodeRequirement, NodeTerm, Placement as Live},
};

/// What the attribute shows of an applied placement.
pub(super) fn shown(placement: &fit::Placement) -> Placement {
    let toleration = |it: &crate::capacity::taint::Toleration| {
        let value = if it.value.is_empty() {
            String::new()
        } else {
            format!("={}", it.value)
        };
        let effect = if it.effect.is_empty() {
            String::new()
        } else {
            format!(":{}", it.effect)
        };
        format!("{}{value}{effect}", it.key)
    };
    Placement {
        admits: placement.admission.named_values(),
        tolerations: Opt::Known(placement.tolerations.iter().map(toleration).collect()),
    }
}

/// What a live object's affinity and tolerations say, in the domain's form.
pub(super) fn from_live(live: &Live) -> fit::Placement {
    fit::Placement {
        admission: Admission {
            terms: live.terms.iter().map(term).collect(),
        },
        tolerations: live.tolerations.iter().map(domain_toleration).collect(),
    }
}

fn term(it: &NodeTerm) -> Term {
    Term {
        requirements: it.requirements.iter().filter_map(requirement).collect(),
    }
}

fn requirement(it: &NodeRequirement) -> Option<Requirement> {
    let operator = match it.operator {
        NodeOperator::In => Operator::In,
        NodeOperator::NotIn => Operator::NotIn,
        NodeOperator::Exists => Operator::Exists,
        NodeOperator::DoesNotExist => Operator::DoesNotExist,
        // Loomplane sets none of these; a comparison of numbers names no kind.
        NodeOperator::Gt | NodeOperator::Lt => return None,
    };
    Some(Requirement {
        key: it.key.clone(),
        operator,
        values: it.values.clone(),
    })
}

/// The kind that a placement of ours, or a node selector of someone else's, names.
pub(super) fn kind_of(
    placement: &fit::Placement,
    node_selector: &BTreeMap<String, String>,
) -> Option<Kind> {
    let ours = Kind::ALL.iter().copied().find(|kind| {
        !placement.admission.terms.is_empty() && admission(*kind) == placement.admission
    });
    ours.or_else(|| {
        let named = placement
            .admission
            .named_values()
            .into_iter()
            .flat_map(|(key, values)| values.into_iter().map(move |value| (key.clone(), value)));
        let selected = node_selector
            .iter()
            .map(|(key, value)| (key.clone(), value.clone()));
        let mut kinds: Vec<Kind> = named
            .chain(selected)
            .filter_map(|(key, value)| kind_of_label(&key, &value))
            .collect();
        kinds.sort_unstable();
        kinds.dedup();
        match kinds.as_slice() {
            [kind] => Some(*kind),
            _ => None,
        }
    })
}

fn kind_of_label(key: &str, value: &str) -> Option<Kind> {
    let meaning = catalog::get().label(KindKey::from_label(key)?, value)?;
    match meaning.kinds.as_slice() {
        [kind] if meaning.whole => Some(*kind),
        _ => None,
    }
}
