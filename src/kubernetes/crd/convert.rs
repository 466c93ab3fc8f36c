//! Between the object and the domain's own types.

use super::types::{CapacitySetSpec, Fabric, Pool, Replicas};
use crate::capacity::arbiter::snapshot;
use crate::capacity::fabric;
use crate::capacity::set::{Definition, Nodes};

/// The set that an object describes.
#[must_use]
pub fn definition_of(name: &str, spec: &CapacitySetSpec) -> Definition {
    Definition {
        set: snapshot::Set {
            name: name.to_owned(),
            gpu_kind: spec.gpu_kind.clone(),
            fabric: match spec.fabric {
                Fabric::Pcie => fabric::Fabric::Pcie,
                Fabric::Nvswitch => fabric::Fabric::Nvswitch,
            },
            mode: spec.mode.into(),
            notice_seconds: spec.notice_seconds,
            minimum_runtime_seconds: spec.minimum_runtime_seconds,
        },
        pools: {
            let mut pools: Vec<_> = spec.pools.iter().map(pool).collect();
            pools.sort_by(|a, b| a.name.cmp(&b.name));
            pools
        },
        nodes: match (&spec.nodes, &spec.node_selector) {
            (None, Some(labels)) => Nodes::Selected(labels.clone()),
            (names, _) => Nodes::Named(names.iter().flatten().cloned().collect()),
        },
    }
}

fn pool(pool: &Pool) -> snapshot::Pool {
    snapshot::Pool {
        name: pool.name.clone(),
        kind: pool.kind.into(),
        rank: pool.rank,
        floor: pool.floor,
        ceiling: pool.ceiling,
        replicas: pool.replicas.map(|range| snapshot::Replicas {
            min: range.min,
            max: range.max,
            // The router reads the queue; without one, as many as there are.
            wanted: None,
        }),
        gpus_per_replica: pool.gpus_per_replica,
        notice_seconds: pool.notice_seconds,
    }
}

/// The object that describes a set. Everything is said, defaults too, so that a later change of a default changes no set.
#[must_use]
pub fn spec_of(definition: &Definition) -> CapacitySetSpec {
    let (nodes, node_selector) = match &definition.nodes {
        Nodes::Named(names) => (Some(names.iter().cloned().collect()), None),
        Nodes::Selected(labels) => (None, Some(labels.clone())),
    };
    let set = &definition.set;
    CapacitySetSpec {
        gpu_kind: set.gpu_kind.clone(),
        fabric: match set.fabric {
            fabric::Fabric::Pcie => Fabric::Pcie,
            fabric::Fabric::Nvswitch => Fabric::Nvswitch,
        },
        nodes,
        node_selector,
        mode: set.mode.into(),
        notice_seconds: set.notice_seconds,
        minimum_runtime_seconds: set.minimum_runtime_seconds,
        pools: definition
            .pools
            .iter()
            .map(|pool| Pool {
                name: pool.name.clone(),
                kind: pool.kind.into(),
                rank: pool.rank,
                floor: pool.floor,
                ceiling: pool.ceiling,
                notice_seconds: pool.notice_seconds,
                replicas: pool.replicas.map(|range| Replicas {
                    min: range.min,
                    max: range.max,
                }),
                gpus_per_replica: pool.gpus_per_replica,
            })
            .collect(),
    }
}
