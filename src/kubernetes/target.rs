//! Which cluster this is, whatever its connection is called: the UID of the namespace kube-system.

use super::cancel::Cancel;
use super::connect::Cluster;
use super::error::Error;
use kube::core::Request;
use kube::core::params::GetParams;
use serde::Deserialize;

/// Identity of a cluster (G9).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TargetUid {
    /// UID of the namespace kube-system.
    Known(String),
    /// The credential may not read that namespace (K9): nothing can be said about identity.
    Forbidden,
}

#[derive(Deserialize)]
struct Named {
    metadata: Metadata,
}

#[derive(Deserialize)]
struct Metadata {
    uid: String,
}

impl Cluster {
    /// The cluster's identity, read once per process.
    ///
    /// A namespaced credential often may not read kube-system. That is normal (K9) and no error: the answer then is
    /// [`TargetUid::Forbidden`], and a check against a stored uid is skipped.
    ///
    /// # Errors
    /// When the cluster can't be reached or does not take the credential.
    pub async fn target_uid(&self, cancel: &Cancel) -> Result<TargetUid, Error> {
        let doing = "read the namespace kube-system";
        let ask = || async {
            let request =
                Request::new("/api/v1/namespaces").get("kube-system", &GetParams::default());
            match self.call::<Named>(doing, None, request, cancel).await {
                Ok(namespace) => Ok(TargetUid::Known(namespace.metadata.uid)),
                Err(error) if error.is_forbidden() => Ok(TargetUid::Forbidden),
                Err(error) => Err(error),
            }
        };
        tokio::select! {
            biased;
            () = cancel.canceled() => Err(self.canceled(doing)),
            answer = self.inner.uid.get(ask) => answer.map(|uid| (*uid).clone()),
        }
    }
}
