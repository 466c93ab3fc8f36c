//! Who is at work on a creation, and whether they still live. The mark of an object is `TOKEN.TIME`: the creation's own token, and
//! when its holder last said that it goes on. Whoever waits for the rollout renews the time; whoever meets the mark watches whether it
//! changes, by their own clock alone: the clocks of two machines are never compared.

use std::time::Duration;

use jiff::Timestamp;
use serde_json::json;

use super::super::cancel::Cancel;
use super::super::connect::Cluster;
use super::super::error::{Error, ObjectName};
use super::super::objects::{Found, Kind, Metadata};
use super::super::workload::UNFINISHED;
use super::one::Mark;

/// How often a holder says that it goes on.
const RENEW: Duration = Duration::from_secs(10);
/// How long a mark must stay as it is until its holder counts as gone: two renewals and a busy API server.
pub(super) const STALE: Duration = Duration::from_secs(25);

/// A creation whose Deployment is there and whose rollout is still waited for.
#[derive(Debug, Clone)]
pub struct Hold {
    pub(super) namespace: String,
    pub(super) name: String,
    pub(super) uid: String,
    pub(super) token: String,
}

/// The value of a mark that is set now.
pub(super) fn mark(token: &str) -> String {
    format!("{token}.{}", Timestamp::now().strftime("%Y%m%dT%H%M%SZ"))
}

/// Where the mark is, for a JSON patch.
pub(super) fn path() -> String {
    format!("/metadata/labels/{}", UNFINISHED.replace('/', "~1"))
}

impl Cluster {
    /// Says every few seconds that this creation goes on, so that no other apply takes it over. Runs until it is dropped, or until
    /// another has taken it over: it returns that error.
    pub async fn keep_hold(&self, hold: &Hold, cancel: &Cancel) -> Error {
        let object = Kind::Deployment.object(&hold.namespace, &hold.name);
        let doing = format!("renew the mark of {object}");
        // What this process last knew to be there; the first renewal looks it up.
        let mut value: Option<String> = None;
        loop {
            tokio::time::sleep(RENEW).await;
            if value.is_none() {
                value = match self.held(hold, cancel).await {
                    Ok(Some(metadata)) => {
                        let Some(found) = metadata.mark() else {
                            // Somebody took the mark off by hand: nothing is held any more.
                            return std::future::pending().await;
                        };
                        if metadata.unfinished_token(&hold.name) != Some(hold.token.as_str()) {
                            return self.taken_over(object);
                        }
                        Some(found.to_owned())
                    }
                    // Gone: the wait tells.
                    Ok(None) => return std::future::pending().await,
                    Err(error) => {
                        tracing::debug!(%error, "the mark could not be read");
                        None
                    }
                };
            }
            let Some(known) = &value else { continue };
            let next = mark(&hold.token);
            let patch = [
                json!({"op": "test", "path": "/metadata/uid", "value": hold.uid}),
                json!({"op": "test", "path": path(), "value": known}),
                json!({"op": "replace", "path": path(), "value": next}),
            ];
            let renewed = self
                .patch(
                    Kind::Deployment,
                    &hold.namespace,
                    &hold.name,
                    &doing,
                    &patch,
                    cancel,
                )
                .await;
            value = match renewed {
                Ok(()) => Some(next),
                // Not what was known: an answer was lost, or another took over. Or the API server is having a bad time.
                Err(error) => {
                    tracing::debug!(%error, "the mark could not be renewed");
                    None
                }
            };
        }
    }

    /// Ends a creation: takes the mark off. `found` is the service as it was just read.
    ///
    /// # Errors
    /// [`Error::TakenOver`], and what any request can end in.
    pub async fn release(&self, hold: &Hold, found: &Found, cancel: &Cancel) -> Result<(), Error> {
        let mut metadata = Metadata::of(&found.live.deployment);
        metadata.uid.clone_from(&hold.uid);
        self.finish_object(
            Kind::Deployment,
            &hold.namespace,
            &hold.name,
            &hold.name,
            &metadata,
            Mark::RemoveOf(&hold.token),
            cancel,
        )
        .await
    }

    async fn held(&self, hold: &Hold, cancel: &Cancel) -> Result<Option<Metadata>, Error> {
        let found = self
            .find_metadata(Kind::Deployment, &hold.namespace, &hold.name, cancel)
            .await?;
        Ok(found.filter(|metadata| metadata.uid == hold.uid))
    }

    pub(super) fn taken_over(&self, object: ObjectName) -> Error {
        Error::TakenOver {
            cluster: self.inner.name.clone(),
            object,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn g10_a_mark_is_the_token_and_a_time() {
        let mark = mark("0123");
        let (token, time) = mark.split_once('.').unwrap();
        assert_eq!(token, "0123");
        assert!(time.parse::<Timestamp>().is_ok(), "{time}");
        // What a label's value may be.
        assert!(mark.len() <= 63 && mark.chars().all(|c| c.is_ascii_alphanumeric() || c == '.'));
        assert_eq!(path(), "/metadata/labels/loomplane.dev~1unfinished");
    }
}
