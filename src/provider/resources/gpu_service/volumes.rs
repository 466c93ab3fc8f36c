//! What a plan says of volumes: the storage class (K8), what a claim can't become, and claims that are there already (G10).

use std::collections::BTreeMap;

use tf_provider_sdk::{
    context::Context,
    diagnostic::{Diagnostic, Diagnostics},
    resource::Change,
};

use super::{
    known,
    model::{GpuService, Volume},
    spec,
};
use crate::{
    capacity::volume::{StorageClass, check_storage},
    kubernetes::{Cancel, Error, workload::ServiceSpec},
    provider::{
        client::{Client, ClusterTarget},
        report,
    },
};

pub(super) async fn check(
    change: &Change<GpuService>,
    target: &ClusterTarget,
    cx: &Context<'_, Client>,
) -> Result<(), Diagnostics> {
    let none = BTreeMap::new();
    let planned = change.planned.volumes.known().unwrap_or(&none);
    let prior = change.prior.as_ref().and_then(|it| it.volumes.known());
    let prior = prior.unwrap_or(&none);
    for (name, volume) in planned {
        if let Some(before) = prior.get(name) {
            unchangeable(name, before, volume)?;
        }
    }
    let new: BTreeMap<_, _> = planned
        .iter()
        .filter(|(name, _)| !prior.contains_key(*name))
        .collect();
    for (name, volume) in prior {
        if volume.delete_on_destroy && !planned.contains_key(name) {
            cx.warn(
                Diagnostic::warning(
                    format!("The claim of volume {name} stays"),
                    format!("The volume is taken out of the service, and its claim is kept with what is on it: delete_on_destroy deletes a claim with the service only. Delete it by hand if it is not needed any more: kubectl delete pvc {}-{name}", known(&change.planned.name)),
                )
                .at("volumes"),
            );
        }
    }
    let grows = |(name, volume): (&String, &Volume)| {
        let size = |it: &Volume| it.size_gib.known().copied();
        prior
            .get(name)
            .is_some_and(|before| size(volume) > size(before))
    };
    let growing = planned.iter().any(grows);
    if growing {
        growth(target, cx).await;
    }
    if new.is_empty() {
        return Ok(());
    }
    class(target, cx).await?;
    there(change, &new, target, cx).await
}

/// What the API server would refuse at apply, for a volume that is there.
fn unchangeable(name: &str, before: &Volume, volume: &Volume) -> Result<(), Diagnostic> {
    let refused = |what: String| {
        Err(Diagnostic::error(
            format!("Volume {name} can't become that"),
            format!("{what} To start with a new volume, give it another name: the claim of this one, and its data, is kept."),
        )
        .at("volumes"))
    };
    if let (Some(had), Some(asked)) = (before.size_gib.known(), volume.size_gib.known())
        && asked < had
    {
        return refused(format!(
            "It has {had} GiB and {asked} are asked for: a claim can grow, where its storage class allows it, and can't shrink."
        ));
    }
    if !volume.access_mode.is_unknown() && spec::access_mode(before) != spec::access_mode(volume) {
        return refused(format!(
            "Its access mode is {} and {} is asked for: a claim can't change that.",
            spec::access_mode(before).as_str(),
            spec::access_mode(volume).as_str()
        ));
    }
    Ok(())
}

/// A claim grows only where its class lets it. Whether it is of the class that the connection picks now is not looked up for a warning.
async fn growth(target: &ClusterTarget, cx: &Context<'_, Client>) {
    let cancel = Cancel::never();
    let Ok(Ok(classes)) = cx.run(target.cluster.storage_classes(&cancel)).await else {
        return;
    };
    let picked = target.storage_class.as_deref();
    if let Some(class) = classes
        .iter()
        .find(|class| Some(class.name.as_str()) == picked && !class.expandable)
    {
        cx.warn(
            Diagnostic::warning(
                "A volume may not be able to grow",
                format!(
                    "A larger size_gib is asked for, and the storage class {:?} of {} does not allow volumes to grow. The API server refuses that at apply, if the claim is of this class. Set `allowVolumeExpansion: true` on the class first, if its driver can do it.",
                    class.name, target.name
                ),
            )
            .at("volumes"),
        );
    }
}

/// K8 needs a look at the class. A credential that is limited to some namespaces may not have it (K9).
fn not_listed(target: &str, error: &Error) -> Diagnostic {
    Diagnostic::error(
        format!("Loomplane can't list the storage classes of {target}, so it can't check volumes"),
        format!(
            "Volumes need a storage class with reclaim policy Retain and a declared volume binding mode, and which one has them is not to be seen: {}. Allow `get` and `list` on `storageclasses` (API group storage.k8s.io) with a ClusterRole and a ClusterRoleBinding for this credential: the guide on rights in the cluster has both.",
            error.render().lines().next().unwrap_or_default()
        ),
    )
    .at("volumes")
}

/// K8: a volume needs a class that retains.
async fn class(target: &ClusterTarget, cx: &Context<'_, Client>) -> Result<(), Diagnostics> {
    let cancel = Cancel::never();
    let listed = cx
        .run(target.cluster.storage_classes(&cancel))
        .await
        .map_err(|why| report::interrupted("list storage classes", why))?;
    let listed = match listed {
        Ok(classes) => classes,
        Err(error) if error.is_forbidden() => return Err(not_listed(&target.name, &error).into()),
        Err(error) => return Err(error.into()),
    };
    let classes: Vec<_> = listed
        .iter()
        .map(|class| StorageClass {
            name: class.name.clone(),
            reclaim_policy: Some(class.reclaim_policy.clone()).filter(|it| !it.is_empty()),
            binding_mode: Some(class.binding_mode.clone()).filter(|it| !it.is_empty()),
        })
        .collect();
    match check_storage(target.storage_class.as_deref(), &classes) {
        Ok(None) => {}
        Ok(Some(warning)) => cx.warn(report::notice(warning.render(&target.name), "volumes")),
        Err(why) => return Err(report::refusal(why.render(&target.name), "volumes").into()),
    }
    Ok(())
}

/// Claims of new volumes that are there already: left of this service, they are used again, and must be able to become what is asked.
async fn there(
    change: &Change<GpuService>,
    new: &BTreeMap<&String, &Volume>,
    target: &ClusterTarget,
    cx: &Context<'_, Client>,
) -> Result<(), Diagnostics> {
    let (Some(namespace), Some(name)) = (
        change.planned.namespace.known(),
        change.planned.name.known(),
    ) else {
        return Ok(());
    };
    // One that goes with the service may be on its way out with the one that this replaces.
    let settled = |volume: &Volume| {
        volume.size_gib.known().is_some()
            && !volume.access_mode.is_unknown()
            && !volume.delete_on_destroy
    };
    let asked = ServiceSpec {
        name: name.clone(),
        namespace: namespace.clone(),
        volumes: new
            .iter()
            .filter(|(_, volume)| settled(volume))
            .map(|(name, it)| {
                (
                    (*name).clone(),
                    spec::volume(it, target.storage_class.as_deref()),
                )
            })
            .collect(),
        ..ServiceSpec::default()
    };
    if asked.volumes.is_empty() {
        return Ok(());
    }
    let cancel = Cancel::never();
    let kept = cx
        .run(target.cluster.kept_claims(&asked, &cancel))
        .await
        .map_err(|why| report::interrupted("read claims", why))?;
    let kept = match kept {
        Ok(kept) => kept,
        // Apply says so, if it matters.
        Err(error) if error.is_forbidden() => return Ok(()),
        Err(error @ Error::KeptClaim { .. }) => {
            return Err(report::cluster_error(&error).at("volumes").into());
        }
        Err(error) => return Err(error.into()),
    };
    if !kept.is_empty() {
        cx.warn(
            Diagnostic::warning(
                format!("{} will use a volume that is there", known(&change.planned.name)),
                format!(
                    "{} carries Loomplane's label for this service: it was kept when the service, or this volume of it, was removed. It is used again with the data that is on it. For an empty volume, choose another name.",
                    super::cluster::listed(&kept)
                ),
            )
            .at("volumes"),
        );
    }
    Ok(())
}
