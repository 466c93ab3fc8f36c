//! Delete: the objects of this service, and no others.

use std::time::Duration;

use tf_provider_sdk::{context::Context, diagnostic::Diagnostics};

use super::{
    super::{known, model::GpuService},
    TOKEN, UID, claims_to_delete, same_cluster,
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
    same_cluster(target, &service, &watched.cancel).await?;
    let deletion = Deletion {
        namespace: service.namespace.known().cloned().unwrap_or_default(),
        claims: claims_to_delete(&service, cx),
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
