//! What a plan says of a set: whether the cluster can have it, which nodes do not fit, and what the change would do (G5, G8, A1 to A3, A9).

use jiff::Timestamp;
use tf_provider_sdk::{
    context::Context,
    diagnostic::{Diagnostic, Diagnostics},
    resource::Change,
};

use super::{
    announce::announce,
    apply::uid_of,
    definition::{definition, refusal},
    model::CapacitySet,
    no_cluster,
    preview::{Looked, rights},
};
use crate::{
    capacity::{
        arbiter::{
            NoPlan,
            snapshot::{Item, Mode},
        },
        set::{Definition, Nodes, Observed, Refused, marks, membership::Why},
    },
    kubernetes::{
        Cancel, Error,
        crd::{CRD_NAME, CrdState, Holder},
    },
    provider::{
        client::{Client, ClusterTarget, Target},
        report,
    },
};

pub(super) async fn plan(
    change: &mut Change<CapacitySet>,
    cx: &Context<'_, Client>,
) -> Result<(), Diagnostics> {
    let Some(name) = change.planned.cluster.known().cloned() else {
        return Ok(());
    };
    let target = match cx.client.target(&name) {
        Target::Cluster(target) => target,
        Target::Server(_) => return Err(no_cluster(&name).into()),
        Target::Missing if change.is_change() => {
            return Err(cx.client.missing("cluster", &name).into());
        }
        Target::Missing => return Ok(()),
        Target::Unknown(_) => {
            if change.is_change() {
                let renamed = |prior: &CapacitySet| prior.cluster.known() != Some(&name);
                if change.prior.as_ref().is_some_and(renamed) {
                    return Err(undecided(&name, "and the new connection is not known yet. Apply what it comes from first (-target).").into());
                }
                cx.warn(Diagnostic::warning(
                    "A connection is not known yet, so its capacity sets were not checked",
                    "Part of the connection comes from something that is not applied yet. Which nodes fit, and who would lose capacity, is checked at apply, before anything is changed.",
                ));
            }
            return Ok(());
        }
    };
    identity(change, target, cx).await?;
    if !change.is_change() {
        return Ok(());
    }
    if let Some(name) = change.planned.name.known() {
        change.planned.id = name.clone().into();
    }
    let Some(wanted) = definition(&change.planned) else {
        return Ok(());
    };
    let prior = change.prior.as_ref().and_then(definition);
    if prior.as_ref() == Some(&wanted) {
        return only_how_it_is_written(change, target, cx).await;
    }
    let cancel = Cancel::never();
    let looks = async {
        definition_of_kind(target, &change.planned, &cancel).await?;
        if change.is_create() {
            absent(target, &wanted, &cancel).await?;
        }
        let looked = judge(target, &wanted, prior.as_ref(), When::Plan, cx, &cancel).await?;
        enforceable(target, &wanted, prior.as_ref(), cx, &cancel).await?;
        Ok::<_, Diagnostics>(looked)
    };
    let Some((before, after)) = cx
        .run(looks)
        .await
        .map_err(|why| report::interrupted("look at the cluster", why))??
    else {
        return Ok(());
    };
    if let Some(warning) = announce(before.as_ref(), &after) {
        cx.warn(warning);
    }
    Ok(())
}

/// `install_crd` and `force_conflicts` say how a set is written, not what it is, and no object holds them: where nothing else differs there is nothing to write,
/// and an import is followed by an empty plan. But a definition that `install_crd` can install now is something to write.
async fn only_how_it_is_written(
    change: &mut Change<CapacitySet>,
    target: &ClusterTarget,
    cx: &Context<'_, Client>,
) -> Result<(), Diagnostics> {
    let Some(prior) = &change.prior else {
        return Ok(());
    };
    let planned = &change.planned;
    if prior.cluster != planned.cluster || prior.timeouts != planned.timeouts {
        return Ok(());
    }
    if planned.install_crd && !prior.install_crd {
        let state = cx
            .run(target.cluster.crd_state(&Cancel::never()))
            .await
            .map_err(|why| report::interrupted("look at the cluster", why))??;
        if matches!(state, CrdState::Missing | CrdState::Older(_)) {
            return Ok(());
        }
    }
    change.planned = prior.clone();
    Ok(())
}

/// G9: another name for the same cluster changes nothing; another cluster makes a new set.
async fn identity(
    change: &mut Change<CapacitySet>,
    target: &ClusterTarget,
    cx: &Context<'_, Client>,
) -> Result<(), Diagnostics> {
    let Some(prior) = &change.prior else {
        return Ok(());
    };
    if prior.cluster == change.planned.cluster {
        return Ok(());
    }
    let uid = cx
        .run(uid_of(target, &Cancel::never()))
        .await
        .map_err(|why| report::interrupted("tell which cluster this is", why))??;
    let stored = prior.target_uid.known().filter(|uid| !uid.is_empty());
    match (uid.known().filter(|uid| !uid.is_empty()), stored) {
        (Some(found), Some(stored)) => {
            if found != stored {
                change.replace("cluster");
                change.planned.target_uid = uid;
            }
            Ok(())
        }
        _ => Err(undecided(
            &target.name,
            "and the credential may not read the namespace kube-system, whose UID tells clusters apart. Allow `get` on it, or take the set out of the state (`removed` with `destroy = false`) and import it under its new cluster.",
        )
        .into()),
    }
}

fn undecided(name: &str, why: &str) -> Diagnostic {
    Diagnostic::error(
        format!("Can't tell whether {name} is the same cluster as before"),
        format!("`cluster` changes, {why}"),
    )
    .at("cluster")
}

/// Whether the cluster has the kind, or may get it.
pub(super) async fn definition_of_kind(
    target: &ClusterTarget,
    set: &CapacitySet,
    cancel: &Cancel,
) -> Result<CrdState, Diagnostics> {
    let state = target.cluster.crd_state(cancel).await?;
    let (summary, found) = match state {
        CrdState::Current | CrdState::Unreadable => return Ok(state),
        CrdState::Missing => (
            "The cluster does not know capacity sets",
            format!(
                "Cluster {} has no CustomResourceDefinition {CRD_NAME}.",
                target.name
            ),
        ),
        CrdState::Older(version) => (
            "The cluster knows an older kind of capacity sets",
            format!(
                "The CustomResourceDefinition {CRD_NAME} of cluster {} has schema version {version}, and this provider writes version {}.",
                target.name,
                crate::kubernetes::crd::SCHEMA_VERSION
            ),
        ),
    };
    if !set.install_crd {
        return Err(Diagnostic::error(
            summary,
            format!("{found} Set install_crd = true to let Loomplane install it, or have an administrator do it once: terraform-provider-loomplane crds | kubectl apply -f -"),
        )
        .at("install_crd")
        .into());
    }
    match target.cluster.may_install_crd(cancel).await? {
        Ok(()) => Ok(state),
        Err(fix) => Err(Diagnostic::error(
            "The definition of capacity sets can't be installed",
            format!("{found} install_crd = true asks Loomplane to install it, and the credential may not.\n{fix}"),
        )
        .at("install_crd")
        .into()),
    }
}

/// G10: a set of this name is there already.
pub(super) async fn absent(
    target: &ClusterTarget,
    wanted: &Definition,
    cancel: &Cancel,
) -> Result<(), Diagnostics> {
    match target
        .cluster
        .capacity_set(&wanted.set.name, cancel)
        .await?
    {
        None => Ok(()),
        Some(_) => Err(target.cluster.set_exists(&wanted.set.name).into()),
    }
}

/// When a set is held against its cluster.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum When {
    /// What the same run changes besides may come first.
    Plan,
    /// What is there now counts.
    Apply,
}

/// Nodes and pools against the cluster: refuses what does not fit. Gives the plan before and after, or `None` where workloads can't be seen.
pub(super) async fn judge(
    target: &ClusterTarget,
    wanted: &Definition,
    prior: Option<&Definition>,
    when: When,
    cx: &Context<'_, Client>,
    cancel: &Cancel,
) -> Result<Option<(Option<Looked>, Looked)>, Diagnostics> {
    let (observed, blind) = match target.cluster.observe_set(wanted, cancel).await {
        Ok(observed) => (observed, None),
        Err(error @ Error::NodesForbidden { .. }) => return Err(error.into()),
        Err(error) if error.is_forbidden() => {
            let nodes = target.cluster.set_nodes(cancel).await?;
            let observed = Observed {
                nodes,
                ..Observed::default()
            };
            (observed, Some(error))
        }
        Err(error) => return Err(error.into()),
    };
    let after = Looked::at(wanted, &observed);
    refuse_nodes(wanted, prior, &after.assembled.refused, when, cx)?;
    if when == When::Plan && after.assembled.snapshot.nodes.is_empty() {
        cx.warn(no_nodes(wanted));
    }
    let turned_on =
        wanted.set.mode == Mode::Enforce && prior.is_none_or(|it| it.set.mode != Mode::Enforce);
    if let Err(NoPlan::Invalid(invalid)) = &after.plan {
        let mut refused = Diagnostics::none();
        // What pools and nodes alone decide is refused; a claim is somebody else's.
        let own = |item: &Item| !matches!(item, Item::Claim(_));
        for problem in invalid.problems.iter().filter(|it| own(&it.item)) {
            refused.push(refusal(problem));
        }
        if refused.has_error() {
            return Err(refused);
        }
    }
    if let Err(why) = &after.plan {
        if turned_on {
            let text = format!("mode = \"enforce\" needs a plan to show first. {why}");
            return Err(Diagnostic::error("There is no plan to turn on", text)
                .at("mode")
                .into());
        }
        cx.warn(Diagnostic::warning(
            "There is no preview of this capacity set",
            why.to_string(),
        ));
    }
    if let Some(error) = blind {
        let detail = rights(&error);
        if turned_on {
            return Err(Diagnostic::error(
                "Can't see who would lose capacity, so the set is not turned on",
                detail,
            )
            .at("mode")
            .into());
        }
        cx.warn(Diagnostic::warning(
            "Can't see who would lose capacity",
            detail,
        ));
        return Ok(None);
    }
    let before = prior.map(|prior| Looked::at(prior, &observed));
    Ok(Some((before, after)))
}

/// A set without nodes is one for nodes to come, or a mistake.
fn no_nodes(wanted: &Definition) -> Diagnostic {
    let (at, found) = match &wanted.nodes {
        Nodes::Named(_) => ("nodes", "None of `nodes` is in it"),
        Nodes::Selected(_) => (
            "node_selector",
            "No node of its kind and fabric carries the labels of `node_selector`",
        ),
    };
    Diagnostic::warning(
        format!("Capacity set {:?} has no nodes", wanted.set.name),
        format!("{found}. Nodes that join later and fit are in it at the next refresh."),
    )
    .at(at)
}

/// A1: names that are new, or that a new kind or fabric judges anew, must fit; others are said.
fn refuse_nodes(
    wanted: &Definition,
    prior: Option<&Definition>,
    refused: &[Refused],
    when: When,
    cx: &Context<'_, Client>,
) -> Result<(), Diagnostics> {
    let stays = |name: &String| {
        prior.is_some_and(|prior| {
            let same =
                prior.set.gpu_kind == wanted.set.gpu_kind && prior.set.fabric == wanted.set.fabric;
            same && matches!(&prior.nodes, Nodes::Named(names) if names.contains(name))
        })
    };
    let named = matches!(wanted.nodes, Nodes::Named(_));
    let (wrong, known): (Vec<&Refused>, Vec<&Refused>) = refused
        .iter()
        .partition(|refused| named && !stays(&refused.node));
    // A set that is new may take the place of one that the same run removes (another name, another key of `for_each`): Terraform
    // plans in no order, and apply decides.
    let (leaving, wrong): (Vec<&Refused>, Vec<&Refused>) = wrong.into_iter().partition(|refused| {
        when == When::Plan
            && prior.is_none_or(|prior| prior.set.name != wanted.set.name)
            && matches!(refused.why, Why::InSet(_))
    });
    if !leaving.is_empty() {
        let lines = leaving
            .iter()
            .map(|it| format!("  {}: {}", it.node, it.why));
        cx.warn(
            Diagnostic::warning(
                format!("Nodes of capacity set {:?} are in another set", wanted.set.name),
                format!(
                    "A node is in one set only. Free once that set is removed, or gives them up; if it is not by then, apply refuses this one.\n{}",
                    lines.collect::<Vec<_>>().join("\n")
                ),
            )
            .at("nodes"),
        );
    }
    let lines = |refused: &[&Refused]| {
        let lines = refused
            .iter()
            .map(|it| format!("  {}: {}", it.node, it.why));
        lines.collect::<Vec<_>>().join("\n")
    };
    let at = if named { "nodes" } else { "node_selector" };
    let nodes = |count: usize| if count == 1 { "node does" } else { "nodes do" };
    if !known.is_empty() {
        cx.warn(
            Diagnostic::warning(
                format!(
                    "{} {} not fit capacity set {:?}",
                    known.len(),
                    nodes(known.len()),
                    wanted.set.name
                ),
                format!("They stay out of it:\n{}", lines(&known)),
            )
            .at(at),
        );
    }
    if wrong.is_empty() {
        return Ok(());
    }
    Err(Diagnostic::error(
        format!("{} {} not fit capacity set {:?}", wrong.len(), nodes(wrong.len()), wanted.set.name),
        format!(
            "A set groups nodes of one GPU kind and one fabric: {} and {}.\n{}\nTake them out of nodes, or put them right.",
            wanted.set.gpu_kind,
            wanted.set.fabric,
            lines(&wrong)
        ),
    )
    .at(at)
    .into())
}

/// A9: turning a set on does nothing while no arbiter acts for it.
pub(super) async fn enforceable(
    target: &ClusterTarget,
    wanted: &Definition,
    prior: Option<&Definition>,
    cx: &Context<'_, Client>,
    cancel: &Cancel,
) -> Result<(), Diagnostics> {
    if wanted.set.mode != Mode::Enforce {
        return Ok(());
    }
    let turned_on = prior.is_none_or(|prior| prior.set.mode != Mode::Enforce);
    let name = &wanted.set.name;
    let lease = format!("{}/{}", marks::LEASE_NAMESPACE, marks::lease_name(name));
    let found = match target
        .cluster
        .lease_holder(name, Timestamp::now(), cancel)
        .await
    {
        Ok(Holder::Held(_)) => return Ok(()),
        Ok(Holder::Nobody) => format!("Nobody holds the Lease {lease}"),
        Ok(Holder::Expired { holder, renewed_at }) => {
            format!("The Lease {lease} was last renewed at {renewed_at}, by {holder}")
        }
        Err(error) if error.is_forbidden() => {
            format!("Whether an arbiter holds the Lease {lease} can't be seen: {error}")
        }
        Err(error) => return Err(error.into()),
    };
    if !turned_on {
        cx.warn(
            Diagnostic::warning(
                format!("No arbiter acts for capacity set {name:?}"),
                format!("{found}: the change is written, and nothing is done about it until an arbiter runs."),
            )
            .at("mode"),
        );
        return Ok(());
    }
    let first = if prior.is_none() {
        " A new set starts with mode = \"dry_run\"; turn it on when the arbiter has taken it up."
    } else {
        ""
    };
    Err(Diagnostic::error(
        format!("No arbiter acts for capacity set {name:?}"),
        format!("mode = \"enforce\" would do nothing. {found}. Start the arbiter on cluster {}, and plan again; until then leave mode = \"dry_run\".{first}", target.name),
    )
    .at("mode")
    .into())
}
