//! Delete: the objects of this service, and no others.

use std::time::Duration;

use tf_provider_sdk::{context::Context, diagnostic::Diagnostics};

use super::{
    super::{known, model::GpuService},
    TOKEN, UID, claims_to_delete, other_cluster, uid_of,
};
use crate::{
    kubernetes::Deletion,
    provider::{
        cancel::watched,
        client::{Client, ClusterTarget},
    },
};

pub(in super::super) async fn delete(
    target: &ClusterTarget,
    service: GpuService,
    cx: &Context<'_, Client>,
) -> Result<(), Diagnostics> {
    let watched = watched(cx);
    let uid = uid_of(target, &watched.cancel).await?;
    if let (Some(stored), Some(found)) = (
        service.target_uid.known().filter(|uid| !uid.is_empty()),
        uid.known().filter(|uid| !uid.is_empty()),
    ) && stored != found
    {
        return Err(other_cluster(target, stored, found).into());
    }
    let deletion = Deletion {
        namespace: service.namespace.known().cloned().unwrap_or_default(),
        claims: claims_to_delete(&service),
        name: known(&service.name),
        uid: cx.private(UID),
        token: cx.private(TOKEN),
        timeout: cx.time_left().unwrap_or(Duration::from_secs(20 * 60)),
    };
    Ok(target
        .cluster
        .delete_service(&deletion, &watched.cancel)
        .await?)
}
