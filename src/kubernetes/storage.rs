//! Storage classes, as far as rule K8 looks at them.

use std::sync::Arc;

use kube::core::Request;
use kube::core::params::ListParams;
use serde::Deserialize;

use super::cancel::Cancel;
use super::connect::Cluster;
use super::error::Error;

/// One storage class.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StorageClass {
    /// Name.
    pub name: String,
    /// Provisioner, such as `ebs.csi.aws.com`.
    pub provisioner: String,
    /// `reclaimPolicy`; the API server fills a missing one with `Delete`.
    pub reclaim_policy: String,
    /// `volumeBindingMode`; the API server fills a missing one with `Immediate`.
    pub binding_mode: String,
    /// Whether volumes of it can grow.
    pub expandable: bool,
    /// Whether it is the cluster's default class.
    pub is_default: bool,
}

#[derive(Deserialize)]
struct List {
    items: Vec<Item>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Item {
    metadata: Metadata,
    #[serde(default)]
    provisioner: String,
    reclaim_policy: Option<String>,
    volume_binding_mode: Option<String>,
    #[serde(default)]
    allow_volume_expansion: Option<bool>,
}

#[derive(Deserialize)]
struct Metadata {
    name: String,
    #[serde(default)]
    annotations: Option<std::collections::BTreeMap<String, String>>,
}

impl From<Item> for StorageClass {
    fn from(item: Item) -> Self {
        let is_default = item
            .metadata
            .annotations
            .as_ref()
            .is_some_and(|annotations| {
                annotations
                    .get("storageclass.kubernetes.io/is-default-class")
                    .is_some_and(|value| value == "true")
            });
        Self {
            name: item.metadata.name,
            provisioner: item.provisioner,
            reclaim_policy: item.reclaim_policy.unwrap_or_else(|| "Delete".to_owned()),
            binding_mode: item
                .volume_binding_mode
                .unwrap_or_else(|| "Immediate".to_owned()),
            expandable: item.allow_volume_expansion.unwrap_or(false),
            is_default,
        }
    }
}

impl Cluster {
    /// The storage classes, by name, read once per process.
    ///
    /// # Errors
    /// [`Error::Forbidden`] when the credential may not list them, and what any request can end in.
    pub async fn storage_classes(&self, cancel: &Cancel) -> Result<Arc<Vec<StorageClass>>, Error> {
        let doing = "list storage classes";
        let ask = || async {
            let request =
                Request::new("/apis/storage.k8s.io/v1/storageclasses").list(&ListParams::default());
            let list: List = self.call(doing, None, request, cancel).await?;
            let mut classes: Vec<StorageClass> =
                list.items.into_iter().map(StorageClass::from).collect();
            classes.sort_by(|a, b| a.name.cmp(&b.name));
            Ok(classes)
        };
        tokio::select! {
            biased;
            () = cancel.canceled() => Err(self.canceled(doing)),
            answer = self.inner.storage_classes.get(ask) => answer,
        }
    }
}
