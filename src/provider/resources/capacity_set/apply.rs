//! What is done to a set: checked against what is there now, written, read back, its preview kept.

use std::{
    collections::BTreeMap,
    hash::{BuildHasher, Hasher, RandomState},
    time::Duration,
};

use jiff::Timestamp;
use tf_provider_sdk::{
    context::Context,
    diagnostic::{Diagnostic, Diagnostics},
    field::{Computed, Maybe, Opt, Replace, Stable},
    resource::{Change, Failed, ImportId},
};

use super::{
    definition::{absorb, definition},
    model::{CapacitySet, Fabric, Mode},
    plan::{When, absent, definition_of_kind, enforceable, judge},
    preview::{self, look},
};
use crate::{
    capacity::{
        arbiter::snapshot,
        set::{Definition, outcome},
    },
    kubernetes::{
        Cancel, TargetUid,
        crd::{CrdState, FoundSet, Holder},
    },
    provider::{
        cancel::watched,
        client::{Client, ClusterTarget, Target},
    },
};

/// Where the object's UID is kept: another one under the name is not ours.
const UID: &str = "uid";

pub(super) async fn create(
    target: &ClusterTarget,
    change: Change<CapacitySet>,
    cx: &Context<'_, Client>,
) -> Result<CapacitySet, Failed<CapacitySet>> {
    let watched = watched(cx);
    let cancel = &watched.cancel;
    let mut planned = change.planned;
    let wanted = wanted(&planned)?;
    planned.target_uid = uid_of(target, cancel).await?;
    planned.id = wanted.set.name.clone().into();
    let kind = definition_of_kind(target, &planned, cancel).await?;
    judge(target, &wanted, None, When::Apply, cx, cancel).await?;
    enforceable(target, &wanted, None, cx, cancel).await?;
    install(target, kind, cancel).await?;
    absent(target, &wanted, cancel).await?;
    let token = format!("{:016x}", RandomState::new().build_hasher().finish());
    let made = target
        .cluster
        .create_capacity_set(&wanted, &token, cancel)
        .await
        .map_err(Diagnostics::from);
    let found = match made {
        Ok(found) => found,
        Err(why) => {
            // A creation that was cut off after its first request left the object: the state must know.
            let never = Cancel::never();
            let there = target.cluster.capacity_set(&wanted.set.name, &never);
            let there = tokio::time::timeout(Duration::from_secs(10), there).await;
            return Err(match there {
                Ok(Ok(Some(found))) if found.creation.as_deref() == Some(token.as_str()) => {
                    cx.set_private(UID, Some(&found.uid));
                    unknown_to_null(&mut planned);
                    Failed::leaving(why, planned)
                }
                _ => why.into(),
            });
        }
    };
    cx.set_private(UID, Some(&found.uid));
    show(&mut planned, target, &wanted, cx, cancel).await;
    Ok(planned)
}

async fn install(
    target: &ClusterTarget,
    kind: CrdState,
    cancel: &Cancel,
) -> Result<(), Diagnostics> {
    match kind {
        CrdState::Missing | CrdState::Older(_) => Ok(target.cluster.install_crd(cancel).await?),
        CrdState::Current | CrdState::Unreadable => Ok(()),
    }
}

pub(super) async fn update(
    target: &ClusterTarget,
    change: Change<CapacitySet>,
    cx: &Context<'_, Client>,
) -> Result<CapacitySet, Failed<CapacitySet>> {
    let watched = watched(cx);
    let cancel = &watched.cancel;
    let mut planned = change.planned;
    let wanted = wanted(&planned)?;
    let prior = change.prior.as_ref().and_then(definition);
    let kind = definition_of_kind(target, &planned, cancel).await?;
    if prior.as_ref() != Some(&wanted) {
        judge(target, &wanted, prior.as_ref(), When::Apply, cx, cancel).await?;
        enforceable(target, &wanted, prior.as_ref(), cx, cancel).await?;
    }
    install(target, kind, cancel).await?;
    let name = &wanted.set.name;
    let there = target
        .cluster
        .capacity_set(name, cancel)
        .await
        .map_err(Diagnostics::from)?
        .ok_or_else(|| {
            Diagnostic::error(
                "The capacity set is gone",
                format!("Cluster {} has no CapacitySet {name} any more: something else deleted it meanwhile. Run a plan again: it proposes to make it anew.", target.name),
            )
        })?;
    let uid = cx.private::<String>(UID).unwrap_or(there.uid);
    let found = target
        .cluster
        .update_capacity_set(&uid, &wanted, planned.force_conflicts, cancel)
        .await
        .map_err(Diagnostics::from)?;
    cx.set_private(UID, Some(&found.uid));
    show(&mut planned, target, &wanted, cx, cancel).await;
    Ok(planned)
}

fn wanted(planned: &CapacitySet) -> Result<Definition, Diagnostic> {
    definition(planned).ok_or_else(|| {
        Diagnostic::error(
            "The capacity set is not known",
            "Part of it was still unknown at apply. This is a bug in the provider: please report it.",
        )
    })
}

/// Everything that the cluster tells: the preview, nodes that do not fit, figures, who acts. What can't be seen is null, with a warning: a set is written all the same.
async fn show(
    set: &mut CapacitySet,
    target: &ClusterTarget,
    definition: &Definition,
    cx: &Context<'_, Client>,
    cancel: &Cancel,
) {
    unknown_to_null(set);
    set.status = status(target, definition, cancel).await.into();
    let looked = match look(&target.cluster, definition, cancel).await {
        Ok(looked) => looked,
        Err(error) => {
            set.preview = Computed::null();
            cx.warn(Diagnostic::warning(
                "There is no preview of a capacity set",
                format!("What is on the cluster can't be seen: {}", error.render()),
            ));
            return;
        }
    };
    let snapshot = &looked.assembled.snapshot;
    set.nodes_refused = looked
        .assembled
        .refused
        .iter()
        .map(|refused| (refused.node.clone(), refused.why.to_string()))
        .collect::<BTreeMap<_, _>>()
        .into();
    set.gpus = i64::try_from(outcome::total(snapshot))
        .unwrap_or(i64::MAX)
        .into();
    set.free_blocks = preview::free_blocks(snapshot).into();
    match &looked.plan {
        Ok(plan) => {
            set.preview = preview::shown(snapshot, plan, &looked.assembled.notes).into();
        }
        Err(why) => {
            set.preview = Computed::null();
            cx.warn(Diagnostic::warning(
                "There is no preview of a capacity set",
                format!("{}: {why}", definition.set.name),
            ));
        }
    }
}

fn unknown_to_null(set: &mut CapacitySet) {
    set.preview = Computed::null();
    set.nodes_refused = Computed::null();
    set.gpus = Computed::null();
    set.free_blocks = Computed::null();
    set.status = Computed::null();
}

async fn status(target: &ClusterTarget, definition: &Definition, cancel: &Cancel) -> String {
    let mode = match definition.set.mode {
        snapshot::Mode::DryRun => "dry_run",
        snapshot::Mode::Enforce => "enforce",
    };
    let holder = target
        .cluster
        .lease_holder(&definition.set.name, Timestamp::now(), cancel)
        .await;
    let arbiter = match holder {
        Ok(Holder::Held(who)) => format!("arbiter {who}"),
        Ok(Holder::Nobody | Holder::Expired { .. }) => "no arbiter".to_owned(),
        Err(_) => "whether an arbiter runs can't be seen".to_owned(),
    };
    format!("{mode}, {arbiter}")
}

pub(super) async fn uid_of(
    target: &ClusterTarget,
    cancel: &Cancel,
) -> Result<Stable<String>, Diagnostics> {
    match target.cluster.target_uid(cancel).await? {
        TargetUid::Known(uid) => Ok(uid.into()),
        TargetUid::Forbidden => Ok(String::new().into()),
    }
}

/// G9: another cluster behind the connection is an error, never "gone".
async fn same_cluster(
    target: &ClusterTarget,
    set: &mut CapacitySet,
    cancel: &Cancel,
) -> Result<(), Diagnostics> {
    let uid = uid_of(target, cancel).await?;
    let found = uid.known().filter(|uid| !uid.is_empty());
    let stored = set.target_uid.known().filter(|uid| !uid.is_empty());
    match (stored, found) {
        (Some(stored), Some(found)) if stored != found => Err(Diagnostic::error(
            format!("{} is another cluster now", target.name),
            format!(
                "The state was written for the cluster whose namespace kube-system has the UID {stored}; behind the connection {} there is one with {found}. Nothing was read or changed. Point the connection back, or, if the old cluster is gone for good, remove the set with a `removed` block with `lifecycle {{ destroy = false }}`.",
                target.name
            ),
        )
        .at("cluster")
        .into()),
        (None, Some(_)) => {
            set.target_uid = uid;
            Ok(())
        }
        _ => Ok(()),
    }
}

pub(super) async fn read(
    target: &ClusterTarget,
    mut set: CapacitySet,
    cx: &Context<'_, Client>,
) -> Result<Option<CapacitySet>, Diagnostics> {
    let watched = watched(cx);
    same_cluster(target, &mut set, &watched.cancel).await?;
    let name = set.name.known().cloned().unwrap_or_default();
    let Some(found) = target.cluster.capacity_set(&name, &watched.cancel).await? else {
        return Ok(None);
    };
    let stored = cx.private::<String>(UID);
    if stored.as_ref().is_some_and(|stored| *stored != found.uid) {
        // Deleted and made again by someone else: ours is gone, and that one is not ours.
        return Ok(None);
    }
    take_in(target, &mut set, &found, cx, &watched.cancel).await;
    Ok(Some(set))
}

async fn take_in(
    target: &ClusterTarget,
    set: &mut CapacitySet,
    found: &FoundSet,
    cx: &Context<'_, Client>,
    cancel: &Cancel,
) {
    cx.set_private(UID, Some(&found.uid));
    absorb(set, &found.definition);
    show(set, target, &found.definition, cx, cancel).await;
}

pub(super) async fn delete(
    target: &ClusterTarget,
    mut set: CapacitySet,
    cx: &Context<'_, Client>,
) -> Result<(), Diagnostics> {
    let watched = watched(cx);
    same_cluster(target, &mut set, &watched.cancel).await?;
    let name = set.name.known().cloned().unwrap_or_default();
    let uid = cx.private::<String>(UID);
    let timeout = cx.time_left().unwrap_or(Duration::from_secs(20 * 60));
    Ok(target
        .cluster
        .delete_capacity_set(&name, uid.as_deref(), timeout, &watched.cancel)
        .await?)
}

pub(super) async fn import(
    id: ImportId,
    cx: &Context<'_, Client>,
) -> Result<CapacitySet, Diagnostics> {
    let (cluster, name) = parse_id(&id)?;
    let mut set = empty(&cluster, &name);
    let target = match cx.client.target(&cluster) {
        Target::Cluster(target) => target,
        _ => {
            return Err(super::target_of(&set, cx)
                .err()
                .map(Diagnostics::from)
                .unwrap_or_default());
        }
    };
    let watched = watched(cx);
    let found = target
        .cluster
        .capacity_set(&name, &watched.cancel)
        .await?
        .ok_or_else(|| {
            Diagnostic::error(
                "There is nothing to import",
                format!(
                    "Cluster {cluster} has no CapacitySet {name}. The import ID is CLUSTER/NAME."
                ),
            )
        })?;
    set.target_uid = uid_of(target, &watched.cancel).await?;
    set.id = name.into();
    take_in(target, &mut set, &found, cx, &watched.cancel).await;
    Ok(set)
}

fn parse_id(id: &ImportId) -> Result<(String, String), Diagnostic> {
    match id {
        ImportId::Id(text) => match text.split_once('/') {
            Some((cluster, name)) if ![cluster, name].contains(&"") && !name.contains('/') => {
                Ok((cluster.to_owned(), name.to_owned()))
            }
            _ => Err(Diagnostic::error(
                "Invalid import ID",
                format!("{text:?} is not CLUSTER/NAME, such as \"prod/a100\"."),
            )),
        },
        ImportId::Identity(identity) => {
            let text = |name: &str| {
                let text = identity.attribute(name).as_str().map(str::to_owned);
                text.filter(|text| !text.is_empty())
            };
            text("cluster").zip(text("name")).ok_or_else(|| {
                Diagnostic::error(
                    "Invalid identity",
                    "The identity of a capacity set is its cluster and its name.",
                )
            })
        }
    }
}

/// A set of which only the name is known.
fn empty(cluster: &str, name: &str) -> CapacitySet {
    CapacitySet {
        id: Stable::null(),
        name: Replace(Maybe::Known(name.to_owned())),
        cluster: Maybe::Known(cluster.to_owned()),
        target_uid: Stable::null(),
        gpu_kind: Maybe::Known(String::new()),
        fabric: Maybe::Known(Fabric::Pcie),
        nodes: Opt::Null,
        node_selector: Opt::Null,
        mode: Maybe::Known(Mode::DryRun),
        notice_seconds: Maybe::Known(0),
        minimum_runtime_seconds: Maybe::Known(0),
        pools: Maybe::Known(BTreeMap::new()),
        install_crd: false,
        force_conflicts: false,
        preview: Computed::null(),
        nodes_refused: Computed::null(),
        gpus: Computed::null(),
        free_blocks: Computed::null(),
        status: Computed::null(),
        timeouts: None,
    }
}
