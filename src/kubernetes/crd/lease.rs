//! Who holds a set's lease: the arbiter that acts for it.

use jiff::{SignedDuration, Timestamp};
use kube::core::Request;
use kube::core::params::GetParams;
use serde::Deserialize;

use super::super::cancel::Cancel;
use super::super::connect::Cluster;
use super::super::error::Error;
use crate::capacity::set::marks::{LEASE_NAMESPACE, lease_name};

/// How far this machine's clock and the arbiter's may be apart.
const CLOCKS_APART: SignedDuration = SignedDuration::from_secs(30);

/// Whether an arbiter acts for a set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Holder {
    /// This one does.
    Held(String),
    /// No one has ever held the lease, or it was given up.
    Nobody,
    /// The last holder has not renewed it.
    Expired {
        /// Who it was.
        holder: String,
        /// When the lease was last renewed.
        renewed_at: Timestamp,
    },
}

#[derive(Deserialize, Default)]
struct Lease {
    #[serde(default)]
    spec: Spec,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Spec {
    holder_identity: Option<String>,
    renew_time: Option<Timestamp>,
    lease_duration_seconds: Option<i64>,
}

impl Cluster {
    /// Who holds the lease of the set at this time.
    ///
    /// # Errors
    /// What any request can end in.
    pub async fn lease_holder(
        &self,
        set: &str,
        now: Timestamp,
        cancel: &Cancel,
    ) -> Result<Holder, Error> {
        let name = lease_name(set);
        let doing = format!("read Lease {LEASE_NAMESPACE}/{name}");
        let request = Request::new(format!(
            "/apis/coordination.k8s.io/v1/namespaces/{LEASE_NAMESPACE}/leases"
        ))
        .get(&name, &GetParams::default());
        match self.call::<Lease>(&doing, None, request, cancel).await {
            Ok(lease) => Ok(judge(lease.spec, now)),
            Err(error) if error.is_not_found() => Ok(Holder::Nobody),
            Err(error) => Err(error),
        }
    }
}

fn judge(spec: Spec, now: Timestamp) -> Holder {
    let Some(holder) = spec.holder_identity.filter(|holder| !holder.is_empty()) else {
        return Holder::Nobody;
    };
    let Some(renewed_at) = spec.renew_time else {
        return Holder::Nobody;
    };
    let lasts = SignedDuration::from_secs(spec.lease_duration_seconds.unwrap_or(15));
    if now.duration_since(renewed_at) > lasts + CLOCKS_APART {
        return Holder::Expired { holder, renewed_at };
    }
    Holder::Held(holder)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_that_is_not_renewed_is_held_by_no_one() {
        let now: Timestamp = "2026-11-30T12:00:00Z".parse().unwrap();
        let spec = |holder: Option<&str>, ago: i64| Spec {
            holder_identity: holder.map(str::to_owned),
            renew_time: Some(now - SignedDuration::from_secs(ago)),
            lease_duration_seconds: Some(15),
        };
        assert_eq!(judge(spec(Some("a"), 10), now), Holder::Held("a".into()));
        assert_eq!(judge(spec(Some("a"), -20), now), Holder::Held("a".into()));
        assert!(matches!(
            judge(spec(Some("a"), 46), now),
            Holder::Expired { .. }
        ));
        assert_eq!(judge(spec(Some(""), 1), now), Holder::Nobody);
        assert_eq!(judge(Spec::default(), now), Holder::Nobody);
    }
}
