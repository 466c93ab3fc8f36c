//! Whether the names of a creation are free. Each of a few creations looks for itself; where a run makes many services in one
//! namespace, they share one look at all names there.
//!
//! It is only a look: a POST is what promises that nothing was there, and one that meets something leads to a close look.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, PoisonError};

use kube::core::params::ListParams;
use serde::Deserialize;

use super::super::cancel::Cancel;
use super::super::connect::Cluster;
use super::super::error::Error;
use super::super::objects::Kind;
use super::super::once::Once;
use super::super::workload::ServiceSpec;
use super::Step;

/// Creations of a namespace that look for themselves before it is listed.
const SINGLE_LOOKS: u32 = 4;

/// The look at one namespace.
#[derive(Debug, Default)]
pub(in crate::kubernetes) struct Names {
    begun: AtomicU32,
    taken: Once<BTreeSet<(Kind, String)>>,
}

#[derive(Deserialize)]
struct Named {
    metadata: Name,
}

#[derive(Deserialize)]
struct Name {
    name: String,
}

impl Cluster {
    /// Whether nothing of a creation was there when this process looked at its namespace. `false` where it can't be told so.
    pub(super) async fn were_free(
        &self,
        spec: &ServiceSpec,
        steps: &[Step],
        cancel: &Cancel,
    ) -> bool {
        // Who may read one Secret or claim may not list them all.
        let listed = |kind| matches!(kind, Kind::Service | Kind::Deployment);
        if !steps.iter().all(|step| listed(step.kind)) {
            return false;
        }
        let names = {
            let mut all = self
                .inner
                .names
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            Arc::clone(all.entry(spec.namespace.clone()).or_default())
        };
        if names.begun.fetch_add(1, Ordering::Relaxed) < SINGLE_LOOKS {
            return false;
        }
        // Forbidden, or in trouble: the look for this creation alone tells which.
        let Ok(taken) = names
            .taken
            .get(|| self.list_names(&spec.namespace, cancel))
            .await
        else {
            return false;
        };
        !steps
            .iter()
            .any(|step| taken.contains(&(step.kind, step.name().to_owned())))
    }

    async fn list_names(
        &self,
        namespace: &str,
        cancel: &Cancel,
    ) -> Result<BTreeSet<(Kind, String)>, Error> {
        let mut taken = BTreeSet::new();
        for kind in [Kind::Service, Kind::Deployment] {
            let doing = format!("list the names of {}s of {namespace}", kind.as_str());
            let request = |page: &ListParams| kind.request(namespace).list_metadata(page);
            let found: Vec<Named> = self
                .list_pages(&doing, ListParams::default(), request, cancel)
                .await?;
            taken.extend(found.into_iter().map(|it| (kind, it.metadata.name)));
        }
        Ok(taken)
    }
}
