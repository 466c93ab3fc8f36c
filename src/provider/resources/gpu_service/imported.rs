//! What an import read and the configuration does not set. Server-side apply removes only what its own manager set, so that it stays on
//! the cluster as it is, where the plan shows it as going away.

use tf_provider_sdk::{context::Context, diagnostic::Diagnostic, resource::Change};

use super::{cluster::IMPORTED, known, model::GpuService};
use crate::provider::client::Client;

/// Says so, in the plan of the first apply after an import.
pub(super) fn warn_of_what_stays(change: &Change<GpuService>, cx: &Context<'_, Client>) {
    let Some(prior) = &change.prior else { return };
    if cx.private::<bool>(IMPORTED) != Some(true) {
        return;
    }
    let stays = left_out(prior, &change.planned);
    if stays.is_empty() {
        return;
    }
    cx.warn(Diagnostic::warning(
        format!("Parts of the imported {} stay as they are", known(&change.planned.name)),
        format!(
            "The configuration leaves these out, and the plan shows them as removed: {}. They were set by someone else, so they stay on the cluster as they are, and the state forgets them. To change one, set it; to remove it, use kubectl edit.",
            stays.join(", ")
        ),
    ));
}

/// Attributes that are set in `prior` and not in `planned`.
fn left_out(prior: &GpuService, planned: &GpuService) -> Vec<&'static str> {
    let mut names = Vec::new();
    macro_rules! look_at {
        ($($field:ident),*) => { $(
            if prior.$field.known().is_some() && planned.$field.is_null() {
                names.push(stringify!($field));
            }
        )* };
    }
    look_at!(
        command,
        args,
        working_dir,
        user,
        env,
        env_from,
        ports,
        replicas,
        volumes,
        health_check,
        image_pull_secret,
        labels,
        annotations,
        stop_grace_seconds,
        runtime_class,
        service_account,
        node_selector,
        tolerations,
        service_type,
        priority_class,
        rollout
    );
    names
}
