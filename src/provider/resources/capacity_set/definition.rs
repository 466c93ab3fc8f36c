//! Between the model and the domain's set, and what A1 to A3 refuse of a configuration, on the attribute.

use std::collections::BTreeMap;

use tf_provider_sdk::{
    diagnostic::{Diagnostic, Diagnostics},
    field::{Maybe, Opt, SetOf},
    path::{Path, Step},
};

use super::model::{self, CapacitySet};
use crate::capacity::{
    arbiter::snapshot::{self, Item, Problem, Snapshot, validate},
    fabric,
    gpu::GpuRequest,
    set::{Definition, Nodes},
};

/// The set that a configuration describes; `None` while part of it is not known.
pub(super) fn definition(set: &CapacitySet) -> Option<Definition> {
    let pools = set.pools.known()?;
    let nodes = match (&set.nodes, &set.node_selector) {
        (Opt::Known(names), _) => {
            let names: Option<_> = names.iter().map(|name| name.known().cloned()).collect();
            Nodes::Named(names?)
        }
        (Opt::Null, Opt::Known(labels)) => {
            let labels: Option<_> = labels
                .iter()
                .map(|(key, value)| Some((key.clone(), value.known()?.clone())))
                .collect();
            Nodes::Selected(labels?)
        }
        (Opt::Null, Opt::Null) => Nodes::Named(Default::default()),
        _ => return None,
    };
    let pools: Option<Vec<_>> = pools
        .iter()
        .map(|(name, it)| pool(name, it.known()?))
        .collect();
    Some(Definition {
        set: snapshot::Set {
            name: set.name.known()?.clone(),
            gpu_kind: set.gpu_kind.known()?.clone(),
            fabric: match set.fabric.known()? {
                model::Fabric::Pcie => fabric::Fabric::Pcie,
                model::Fabric::Nvswitch => fabric::Fabric::Nvswitch,
            },
            mode: match set.mode.known()? {
                model::Mode::DryRun => snapshot::Mode::DryRun,
                model::Mode::Enforce => snapshot::Mode::Enforce,
            },
            notice_seconds: count(*set.notice_seconds.known()?),
            minimum_runtime_seconds: count(*set.minimum_runtime_seconds.known()?),
        },
        pools: pools?,
        nodes,
    })
}

/// The schema keeps figures within what fits.
fn count(number: i64) -> u32 {
    u32::try_from(number.max(0)).unwrap_or(u32::MAX)
}

/// `None` while part of it is not known.
fn pool(name: &str, pool: &model::Pool) -> Option<snapshot::Pool> {
    let optional = |value: &Opt<i64>| match value {
        Opt::Unknown => None,
        Opt::Null => Some(None),
        Opt::Known(number) => Some(Some(count(*number))),
    };
    Some(snapshot::Pool {
        name: name.to_owned(),
        kind: match pool.kind.known()? {
            model::PoolType::OnDemand => snapshot::PoolType::OnDemand,
            model::PoolType::Spot => snapshot::PoolType::Spot,
            model::PoolType::Inference => snapshot::PoolType::Inference,
        },
        rank: count(*pool.rank.known()?),
        floor: optional(&pool.floor)?.unwrap_or(0),
        ceiling: optional(&pool.ceiling)?,
        replicas: match &pool.replicas {
            Opt::Unknown => return None,
            Opt::Null => None,
            Opt::Known(range) => Some(snapshot::Replicas {
                min: count(*range.min.known()?),
                max: count(*range.max.known()?),
                wanted: None,
            }),
        },
        gpus_per_replica: optional(&pool.gpus_per_replica)?,
        notice_seconds: optional(&pool.notice_seconds)?,
    })
}

/// What is wrong with a configuration, as far as it can be told without a cluster.
pub(super) fn check(set: &CapacitySet, report: &mut Diagnostics) {
    if let Some(Err(why)) = set.gpu_kind.known().map(|kind| GpuRequest::parse(kind, 1)) {
        report.error(
            "gpu_kind",
            "This kind of GPU can't be shared",
            why.to_string(),
        );
    }
    let given = |null: bool, unknown: bool| !null && !unknown;
    let named = given(set.nodes.is_null(), set.nodes.is_unknown());
    let selected = given(set.node_selector.is_null(), set.node_selector.is_unknown());
    if named && selected {
        report.error(
            "node_selector",
            "Nodes are given twice",
            "Give either nodes, by name, or node_selector, by label.",
        );
    }
    if set.nodes.is_null() && set.node_selector.is_null() {
        report.error(
            "nodes",
            "A capacity set needs nodes",
            "Give either nodes, by name, or node_selector, by label.",
        );
    }
    if set.nodes.known().is_some_and(|names| names.is_empty()) {
        report.error(
            "nodes",
            "A capacity set needs nodes",
            "nodes is empty. Name at least one.",
        );
    }
    if set.node_selector.known().is_some_and(BTreeMap::is_empty) {
        report.error(
            "node_selector",
            "A capacity set needs nodes",
            "node_selector is empty, which would select every node. Give at least one label.",
        );
    }
    if let Some(timeouts) = &set.timeouts {
        timeouts.check(report);
    }
    let Some(pools) = set.pools.known() else {
        return;
    };
    if pools.is_empty() {
        report.error(
            "pools",
            "A capacity set needs pools",
            "pools is empty. Give at least one.",
        );
    }
    for name in pools.keys() {
        let valid = (1..=63).contains(&name.len())
            && name
                .chars()
                .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-')
            && !name.starts_with('-')
            && !name.ends_with('-');
        if !valid {
            report.error(
                at(name),
                "Invalid pool name",
                format!("{name:?} can't name a pool: it is the value of a label. Use up to 63 lowercase letters, digits and hyphens."),
            );
        }
    }
    // Pools that are known are judged although others, or other parts of the set, are not.
    let known: Vec<_> = pools
        .iter()
        .filter_map(|(name, it)| pool(name, it.known()?))
        .collect();
    let fabric = match set.fabric.known() {
        Some(model::Fabric::Pcie) => fabric::Fabric::Pcie,
        // The wider one: what it refuses, both refuse.
        _ => fabric::Fabric::Nvswitch,
    };
    let snapshot = Snapshot {
        now: jiff::Timestamp::UNIX_EPOCH,
        set: snapshot::Set {
            name: String::from("set"),
            gpu_kind: String::new(),
            fabric,
            mode: snapshot::Mode::DryRun,
            notice_seconds: 0,
            minimum_runtime_seconds: 0,
        },
        pools: known,
        nodes: Vec::new(),
        claims: Vec::new(),
    };
    let problems = validate(&snapshot).err().map(|invalid| invalid.problems);
    for problem in problems.into_iter().flatten() {
        // Floors against the set's GPUs: the plan knows the nodes.
        if problem.item != Item::Set {
            report.push(refusal(&problem));
        }
    }
}

fn at(pool: &str) -> Path {
    Path::attribute("pools").then(Step::Key(pool.into()))
}

/// What keeps a set from being planned on, as an error on the attribute.
pub(in crate::provider) fn refusal(problem: &Problem) -> Diagnostic {
    let path = match &problem.item {
        Item::Pool(name) => at(name),
        Item::Node(_) => Path::attribute("nodes"),
        _ => Path::attribute("pools"),
    };
    Diagnostic::error("This capacity set can't be", format!("{problem}.")).at(path)
}

/// Puts what differs between the model and what is on the cluster into the model; what is the same keeps the form in which it was written.
pub(super) fn absorb(set: &mut CapacitySet, live: &Definition) {
    let written = definition(set);
    if written.as_ref() == Some(live) {
        return;
    }
    let differs = |of: fn(&Definition) -> String| written.as_ref().map(of) != Some(of(live));
    if differs(|it| it.set.gpu_kind.clone()) {
        set.gpu_kind = Maybe::Known(live.set.gpu_kind.clone());
    }
    if differs(|it| it.set.fabric.to_string()) {
        set.fabric = Maybe::Known(match live.set.fabric {
            fabric::Fabric::Pcie => model::Fabric::Pcie,
            fabric::Fabric::Nvswitch => model::Fabric::Nvswitch,
        });
    }
    set.mode = Maybe::Known(match live.set.mode {
        snapshot::Mode::DryRun => model::Mode::DryRun,
        snapshot::Mode::Enforce => model::Mode::Enforce,
    });
    set.notice_seconds = Maybe::Known(i64::from(live.set.notice_seconds));
    set.minimum_runtime_seconds = Maybe::Known(i64::from(live.set.minimum_runtime_seconds));
    if written.as_ref().map(|it| &it.nodes) != Some(&live.nodes) {
        let maybe = |text: &String| Maybe::Known(text.clone());
        (set.nodes, set.node_selector) = match &live.nodes {
            Nodes::Named(names) => (
                Opt::Known(SetOf(names.iter().map(maybe).collect())),
                Opt::Null,
            ),
            Nodes::Selected(labels) => (
                Opt::Null,
                Opt::Known(
                    labels
                        .iter()
                        .map(|(key, value)| (key.clone(), maybe(value)))
                        .collect(),
                ),
            ),
        };
    }
    let before = set.pools.known().cloned().unwrap_or_default();
    let pools = live.pools.iter().map(|it| {
        let same = before.get(&it.name).filter(|before| {
            before
                .known()
                .and_then(|before| pool(&it.name, before))
                .as_ref()
                == Some(it)
        });
        let value = same.cloned().unwrap_or_else(|| Maybe::Known(shown(it)));
        (it.name.clone(), value)
    });
    set.pools = Maybe::Known(pools.collect());
}

fn shown(pool: &snapshot::Pool) -> model::Pool {
    let optional = |value: Option<u32>| Opt::from(value.map(i64::from));
    model::Pool {
        kind: Maybe::Known(match pool.kind {
            snapshot::PoolType::OnDemand => model::PoolType::OnDemand,
            snapshot::PoolType::Spot => model::PoolType::Spot,
            snapshot::PoolType::Inference => model::PoolType::Inference,
        }),
        rank: Maybe::Known(i64::from(pool.rank)),
        floor: optional(Some(pool.floor).filter(|floor| *floor > 0)),
        ceiling: optional(pool.ceiling),
        notice_seconds: optional(pool.notice_seconds),
        replicas: Opt::from(pool.replicas.map(|range| model::Replicas {
            min: Maybe::Known(i64::from(range.min)),
            max: Maybe::Known(i64::from(range.max)),
        })),
        gpus_per_replica: optional(pool.gpus_per_replica),
    }
}
