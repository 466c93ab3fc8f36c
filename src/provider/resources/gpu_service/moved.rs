//! Taking over the state of another provider's resource: the workload itself is not touched.

use serde_json::Value as Json;
use tf_provider_sdk::{diagnostic::Diagnostic, resource::MoveSource};

use super::{GpuService, cluster::empty};

/// State of `kubernetes_deployment_v1` (and its older name), of any release: only what names the object is taken; the next refresh
/// reads the rest from the cluster. The target can't be told from there, so it is left empty and set by the configuration.
pub(super) fn moved_from(source: &MoveSource) -> Option<Result<GpuService, Diagnostic>> {
    let ours = source.provider.ends_with("/kubernetes")
        && matches!(
            source.type_name.as_str(),
            "kubernetes_deployment_v1" | "kubernetes_deployment"
        );
    ours.then(|| {
        let metadata = source.state.pointer("/metadata/0").unwrap_or(&Json::Null);
        let text = |key: &str| metadata.get(key).and_then(Json::as_str).filter(|text| !text.is_empty());
        let name = text("name").ok_or_else(|| {
            Diagnostic::error(
                format!("The state of this {} names no object", source.type_name),
                "Its metadata has no name: it was never applied. Remove it from the state instead of moving it.",
            )
        })?;
        Ok(empty("", text("namespace").unwrap_or("default"), name))
    })
}
