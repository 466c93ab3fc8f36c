//! How a request can fail, what to try again and for how long.

use std::error::Error as _;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use backon::BackoffBuilder as _;
use kube::core::Status;

use super::conflict;
use super::connect::{Cluster, Connection};
use super::error::{Error, ObjectName};
use super::request::{ANSWER_LIMIT, About};

/// Tries when the server answers 429, 500, 502, 503 or 504, or drops the connection: about two minutes in all.
const TRIES: u32 = 12;
/// Tries when no connection comes about and none ever did: seconds only, since that is mostly a wrong address. An API server that
/// answered before is being restarted.
const CONNECT_TRIES: u32 = 4;
/// Tries when the server stays silent.
const SILENT_TRIES: u32 = 2;
/// The longest that a server's `Retry-After` is followed.
const RETRY_AFTER_MOST: Duration = Duration::from_secs(60);

/// How a try failed.
pub(super) enum Failure {
    /// The server said no for good, or the answer can't be used.
    Final(Error),
    /// The credential was not taken.
    Unauthorized,
    /// 410: a list's `continue` or a watch's version is too old.
    Expired,
    /// 429 and 5xx.
    Busy {
        code: u16,
        message: String,
        after: Option<Duration>,
    },
    /// No connection.
    Unreachable(Arc<kube::Error>),
    /// The connection broke.
    Dropped(Arc<kube::Error>),
    /// No answer in time.
    Silent,
}

impl Cluster {
    pub(super) fn status_failure(
        &self,
        doing: &str,
        about: About<'_>,
        code: u16,
        status: Option<Status>,
        body: &[u8],
        after: Option<u64>,
    ) -> Failure {
        let cluster = self.inner.name.clone();
        let doing = doing.to_owned();
        let message = status
            .as_ref()
            .map(|status| status.message.clone())
            .filter(|message| !message.is_empty())
            .unwrap_or_else(|| {
                // A load balancer's page: its beginning tells most.
                String::from_utf8_lossy(body).chars().take(300).collect()
            });
        let details = status.as_ref().and_then(|status| status.details.as_ref());
        let after = after
            .or_else(|| {
                details
                    .map(|details| u64::from(details.retry_after_seconds))
                    .filter(|seconds| *seconds > 0)
            })
            .map(Duration::from_secs);
        match code {
            401 => Failure::Unauthorized,
            403 => Failure::Final(Error::Forbidden {
                cluster,
                doing,
                identity: identity(&message),
                message,
            }),
            404 => Failure::Final(Error::NotFound {
                cluster,
                doing,
                message,
            }),
            409 if details.is_some_and(|details| {
                details
                    .causes
                    .iter()
                    .any(|cause| cause.reason == "FieldManagerConflict")
            }) =>
            {
                let conflicts = details
                    .map(|details| {
                        details
                            .causes
                            .iter()
                            .filter(|cause| cause.reason == "FieldManagerConflict")
                            .map(|cause| conflict::parse(&cause.message, &cause.field))
                            .collect()
                    })
                    .unwrap_or_default();
                let object = about.cloned().unwrap_or(ObjectName {
                    kind: "object",
                    namespace: String::new(),
                    name: message,
                });
                Failure::Final(Error::Conflict {
                    cluster,
                    object,
                    conflicts,
                })
            }
            410 => Failure::Expired,
            429 | 500 | 502 | 503 | 504 => Failure::Busy {
                code,
                message,
                after,
            },
            _ => Failure::Final(Error::Refused {
                cluster,
                doing,
                code,
                message,
            }),
        }
    }

    pub(super) fn transport_failure(
        &self,
        doing: &str,
        connection: &Connection,
        error: kube::Error,
    ) -> Failure {
        let text = chain(&error);
        let connecting = text.contains("client error (Connect)")
            || text.contains("tcp connect error")
            || text.contains("dns error")
            || text.contains("tunnel error")
            || text.contains("socks");
        if text.contains("invalid peer certificate") || text.contains("InvalidCertificate") {
            return Failure::Final(Error::UntrustedCertificate {
                cluster: self.inner.name.clone(),
                server: connection.server.clone(),
                doing: doing.to_owned(),
                source: Arc::new(error),
            });
        }
        if connecting {
            Failure::Unreachable(Arc::new(error))
        } else {
            Failure::Dropped(Arc::new(error))
        }
    }

    /// A failure that is tried again, in words: what a stop in the middle would else hide.
    pub(super) fn told(&self, failure: &Failure, connection: &Connection) -> Option<String> {
        let server = format!(
            "the API server of cluster {} at {}",
            self.inner.name, connection.server
        );
        match failure {
            Failure::Busy { code, message, .. } => {
                Some(format!("{server} answered {code}: {message}"))
            }
            Failure::Unreachable(_) => Some(format!("{server} can't be reached")),
            Failure::Dropped(_) => Some(format!("{server} dropped the connection")),
            Failure::Silent => Some(format!(
                "{server} did not answer within {} s",
                ANSWER_LIMIT.as_secs()
            )),
            Failure::Final(_) | Failure::Unauthorized | Failure::Expired => None,
        }
    }

    /// How long to wait before the next try; the error when there is none; `None` for 410.
    pub(super) async fn pause_after(
        &self,
        doing: &str,
        failure: Failure,
        connection: &Connection,
        tries: u32,
        renewed: &mut bool,
        pauses: &mut impl Iterator<Item = Duration>,
    ) -> Result<Option<Duration>, Error> {
        let cluster = self.inner.name.clone();
        let (server, doing) = (connection.server.clone(), doing.to_owned());
        let pause = pauses.next().unwrap_or(Duration::from_secs(10));
        let error = match failure {
            Failure::Final(error) => return Err(error),
            Failure::Expired => return Ok(None),
            Failure::Unauthorized => {
                if connection.renewable && !*renewed {
                    *renewed = true;
                    self.discard(connection.generation).await;
                    return Ok(Some(Duration::ZERO));
                }
                return Err(Error::Unauthorized { cluster, doing });
            }
            Failure::Busy {
                code,
                message,
                after,
            } => {
                tracing::debug!(cluster, doing, code, tries, "the API server is busy");
                if tries < TRIES {
                    // The jitter on top keeps a thousand resources from coming back at once.
                    return Ok(Some(
                        after.map_or(pause, |after| after.min(RETRY_AFTER_MOST) + pause / 4),
                    ));
                }
                Error::Overloaded {
                    cluster,
                    doing,
                    code,
                    tries,
                    message,
                }
            }
            Failure::Dropped(source) => {
                tracing::debug!(
                    cluster,
                    doing,
                    tries,
                    error = chain(&source),
                    "the connection dropped"
                );
                if tries < TRIES {
                    return Ok(Some(pause));
                }
                Error::Dropped {
                    cluster,
                    server,
                    doing,
                    tries,
                    source,
                }
            }
            Failure::Unreachable(source) => {
                let most = if self.inner.answered.load(Ordering::Relaxed) {
                    TRIES
                } else {
                    CONNECT_TRIES
                };
                if tries < most {
                    return Ok(Some(pause));
                }
                Error::Unreachable {
                    cluster,
                    server,
                    doing,
                    source,
                }
            }
            Failure::Silent => {
                if tries < SILENT_TRIES {
                    return Ok(Some(Duration::ZERO));
                }
                Error::NoAnswer {
                    cluster,
                    server,
                    doing,
                    seconds: ANSWER_LIMIT.as_secs(),
                }
            }
        };
        Err(error)
    }
}

/// Doubling pauses with jitter: 0.3 s, 0.6 s, ... 15 s.
pub(super) fn pauses() -> impl Iterator<Item = Duration> {
    backon::ExponentialBuilder::default()
        .with_min_delay(Duration::from_millis(300))
        .with_max_delay(Duration::from_secs(15))
        .with_jitter()
        .without_max_times()
        .build()
}

/// An error with its causes in one line.
fn chain(error: &kube::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(": ");
        text.push_str(&error.to_string());
        cause = error.source();
    }
    text
}

/// The user of a 403: `nodes is forbidden: User "system:serviceaccount:ml:ci" cannot list ...`.
pub(super) fn identity(message: &str) -> Option<String> {
    let rest = message.split_once("User \"")?.1;
    rest.split_once('"')
        .map(|(user, _)| user.to_owned())
        .filter(|user| !user.is_empty())
}

#[cfg(test)]
mod tests;
