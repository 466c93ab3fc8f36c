//! Reading many services of one namespace: the first few one by one, the rest from one paged list, so that a refresh of a
//! thousand services is a handful of requests.
//!
//! The list is of this process's first look, and each object in it is handed out once. A run's refresh comes before anything
//! is changed, and each run has a process or a configuration of its own; what needs the present state reads it
//! ([`Cluster::read_service`]).

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Service;
use kube::core::params::ListParams;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::cancel::Cancel;
use super::connect::Cluster;
use super::error::Error;
use super::objects::{Found, Kind};
use super::once::Once;
use super::request::{Paged, Request};
use super::workload::SERVICE_LABEL;

/// Services of a namespace that are read one by one before it is listed.
const SINGLE_READS: u32 = 4;
/// Objects a page; a Deployment with its managed fields weighs some 5 KB.
const PAGE: u32 = 250;
/// How often a list that expired (410) while it was read starts again.
const RESTARTS: u32 = 5;

/// The reads of one namespace.
#[derive(Debug, Default)]
pub(super) struct Reads {
    begun: AtomicU32,
    listed: Once<Listed>,
}

/// What one list found; `None` where the credential may not list.
#[derive(Debug)]
struct Listed(Option<Mutex<Objects>>);

#[derive(Debug)]
struct Objects {
    deployments: BTreeMap<String, Deployment>,
    services: BTreeMap<String, Service>,
}

#[derive(Deserialize)]
struct Page<T> {
    #[serde(default)]
    metadata: PageMetadata,
    /// Null where a list of metadata is empty.
    items: Option<Vec<T>>,
}

#[derive(Deserialize, Default)]
struct PageMetadata {
    #[serde(default, rename = "continue")]
    next: Option<String>,
}

impl Cluster {
    /// Reads a service for a refresh: like [`Cluster::read_service`], but many of one namespace share a list.
    ///
    /// # Errors
    /// What any request can end in.
    pub async fn refresh_service(
        &self,
        namespace: &str,
        name: &str,
        cancel: &Cancel,
    ) -> Result<Option<Found>, Error> {
        let reads = {
            let mut all = self
                .inner
                .reads
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            Arc::clone(all.entry(namespace.to_owned()).or_default())
        };
        if reads.begun.fetch_add(1, Ordering::Relaxed) >= SINGLE_READS {
            let listed = reads
                .listed
                .get(|| self.list_services(namespace, cancel))
                .await?;
            if let Some(objects) = &listed.0 {
                let (deployment, service) = {
                    let mut objects = objects.lock().unwrap_or_else(PoisonError::into_inner);
                    (
                        objects.deployments.remove(name),
                        objects.services.remove(name),
                    )
                };
                if let Some(deployment) = deployment {
                    let found = self
                        .complete(namespace, name, deployment, service, cancel)
                        .await?;
                    return Ok(Some(found));
                }
            }
        }
        // Not in the list (made by others, or gone), or handed out before: only its own 404 proves that it is gone.
        self.read_service(namespace, name, cancel).await
    }

    async fn list_services(&self, namespace: &str, cancel: &Cancel) -> Result<Listed, Error> {
        let both = async {
            let deployments = self.list_ours(Kind::Deployment, namespace, cancel).await?;
            let services = self.list_ours(Kind::Service, namespace, cancel).await?;
            Ok::<_, Error>((deployments, services))
        };
        match both.await {
            Ok((deployments, services)) => Ok(Listed(Some(Mutex::new(Objects {
                deployments: by_name(deployments, |it: &Deployment| it.metadata.name.clone()),
                services: by_name(services, |it: &Service| it.metadata.name.clone()),
            })))),
            // A narrower credential may still read each by its name (K9).
            Err(error) if error.is_forbidden() => Ok(Listed(None)),
            Err(error) => Err(error),
        }
    }

    async fn list_ours<T: DeserializeOwned>(
        &self,
        kind: Kind,
        namespace: &str,
        cancel: &Cancel,
    ) -> Result<Vec<T>, Error> {
        let doing = format!("list {}s of {namespace}", kind.as_str());
        let ours = ListParams::default().labels(SERVICE_LABEL);
        let request = |page: &ListParams| kind.request(namespace).list(page);
        self.list_pages(&doing, ours, request, cancel).await
    }

    /// All items of a paged list, `request` being that of one page.
    pub(super) async fn list_pages<T: DeserializeOwned>(
        &self,
        doing: &str,
        params: ListParams,
        request: impl Fn(&ListParams) -> Request,
        cancel: &Cancel,
    ) -> Result<Vec<T>, Error> {
        let mut params = params.limit(PAGE);
        let mut items = Vec::new();
        let mut restarts = 0;
        let mut buffer = Vec::new();
        loop {
            match self
                .send_into(doing, request(&params), &mut buffer, cancel)
                .await?
            {
                Paged::Answer(()) => {}
                Paged::Expired if restarts < RESTARTS => {
                    restarts += 1;
                    items.clear();
                    params.continue_token = None;
                    continue;
                }
                Paged::Expired => {
                    return Err(Error::Overloaded {
                        cluster: self.name().to_owned(),
                        doing: doing.to_owned(),
                        code: 410,
                        tries: restarts,
                        message: "the list expired before its last page".to_owned(),
                    });
                }
            }
            let page: Page<T> =
                serde_json::from_slice(&buffer).map_err(|error| self.malformed(doing, error))?;
            items.extend(page.items.into_iter().flatten());
            params.continue_token = page.metadata.next.filter(|next| !next.is_empty());
            if params.continue_token.is_none() {
                return Ok(items);
            }
        }
    }
}

fn by_name<T>(items: Vec<T>, name: impl Fn(&T) -> Option<String>) -> BTreeMap<String, T> {
    items
        .into_iter()
        .filter_map(|item| Some((name(&item)?, item)))
        .collect()
}
