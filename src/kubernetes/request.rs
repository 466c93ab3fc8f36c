//! One request to an API server: time limits, bounded retries, and the answer as bytes. Goes below kube's own typed
//! calls, because those put whole answers into logs and errors, and hide `Retry-After`.

use std::error::Error as _;
use std::sync::Arc;
use std::time::Duration;

use backon::BackoffBuilder as _;
use http_body_util::BodyExt as _;
use kube::client::Body;
use kube::core::Status;
use serde::de::DeserializeOwned;

use super::cancel::Cancel;
use super::conflict;
use super::connect::{Cluster, Connection};
use super::error::{Error, ObjectName};

/// How long the server may take until it answers, and between two pieces of an answer. The API server's own limit for a
/// request is 60 s.
const ANSWER_LIMIT: Duration = Duration::from_secs(70);
/// Tries when the server answers 429, 500, 502, 503 or 504, or drops the connection: about two minutes in all.
const TRIES: u32 = 12;
/// Tries when no connection comes about: seconds only, since that is mostly a wrong address.
const CONNECT_TRIES: u32 = 4;
/// Tries when the server stays silent.
const SILENT_TRIES: u32 = 2;
/// The longest that a server's `Retry-After` is followed.
const RETRY_AFTER_MOST: Duration = Duration::from_secs(60);

/// A success.
#[derive(Debug)]
pub(super) struct Reply {
    /// 200 or 201.
    pub(super) status: u16,
    pub(super) body: Vec<u8>,
}

/// How a try failed.
enum Failure {
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

/// What to do about an object that a request is for; `None` for lists.
pub(super) type About<'a> = Option<&'a ObjectName>;

/// A request that can be sent again: `kube::core::Request` makes them.
pub(super) type Request = Result<http::Request<Vec<u8>>, kube::core::request::Error>;

/// An answer, or that the list or watch must start again.
pub(super) enum Paged<T> {
    /// The answer.
    Answer(T),
    /// 410 Gone.
    Expired,
}

impl Cluster {
    /// Sends a request that does no harm when it arrives twice, and reads the answer as `T`.
    pub(super) async fn call<T: DeserializeOwned>(
        &self,
        doing: &str,
        about: About<'_>,
        request: Request,
        cancel: &Cancel,
    ) -> Result<T, Error> {
        let reply = self.send(doing, about, request, cancel).await?;
        serde_json::from_slice(&reply.body).map_err(|error| self.malformed(doing, error))
    }

    /// [`Cluster::call`] without reading the answer.
    pub(super) async fn send(
        &self,
        doing: &str,
        about: About<'_>,
        request: Request,
        cancel: &Cancel,
    ) -> Result<Reply, Error> {
        let mut body = Vec::new();
        match self
            .send_paged(doing, about, request, &mut body, cancel)
            .await?
        {
            Paged::Answer(status) => Ok(Reply { status, body }),
            Paged::Expired => Err(Error::NotFound {
                cluster: self.inner.name.clone(),
                doing: doing.to_owned(),
                message: "410 Gone".to_owned(),
            }),
        }
    }

    /// [`Cluster::send`] for one page of a list. The answer is gathered in `buffer`: a caller that hands in the same one for
    /// each page has one allocation for all.
    pub(super) async fn send_into(
        &self,
        doing: &str,
        request: Request,
        buffer: &mut Vec<u8>,
        cancel: &Cancel,
    ) -> Result<Paged<()>, Error> {
        Ok(
            match self
                .send_paged(doing, None, request, buffer, cancel)
                .await?
            {
                Paged::Answer(_) => Paged::Answer(()),
                Paged::Expired => Paged::Expired,
            },
        )
    }

    async fn send_paged(
        &self,
        doing: &str,
        about: About<'_>,
        request: Request,
        buffer: &mut Vec<u8>,
        cancel: &Cancel,
    ) -> Result<Paged<u16>, Error> {
        let request = request.map_err(|error| self.malformed(doing, error))?;
        let mut pauses = pauses();
        let mut renewed = false;
        let mut tries = 0u32;
        loop {
            if cancel.is_canceled() {
                return Err(self.canceled(doing));
            }
            let connection = self.connection(doing, cancel).await?;
            tries += 1;
            let one = async {
                buffer.clear();
                let (status, body) = self.open_once(doing, about, &connection, &request).await?;
                read_body(body, buffer).await?;
                Ok(status)
            };
            let outcome = tokio::select! {
                biased;
                () = cancel.canceled() => return Err(self.canceled(doing)),
                outcome = one => outcome,
            };
            let failure = match outcome {
                Ok(status) => return Ok(Paged::Answer(status)),
                Err(failure) => failure,
            };
            let Some(pause) = self
                .pause_after(
                    doing,
                    failure,
                    &connection,
                    tries,
                    &mut renewed,
                    &mut pauses,
                )
                .await?
            else {
                return Ok(Paged::Expired);
            };
            tokio::select! {
                biased;
                () = cancel.canceled() => return Err(self.canceled(doing)),
                () = tokio::time::sleep(pause) => {}
            }
        }
    }

    /// Opens a stream (a watch, a log): one answer whose body the caller reads. Retries as [`Cluster::send`] until the
    /// answer begins.
    pub(super) async fn open_stream(
        &self,
        doing: &str,
        request: Request,
        cancel: &Cancel,
    ) -> Result<Paged<Body>, Error> {
        let request = request.map_err(|error| self.malformed(doing, error))?;
        let mut pauses = pauses();
        let mut renewed = false;
        let mut tries = 0u32;
        loop {
            let connection = self.connection(doing, cancel).await?;
            tries += 1;
            let outcome = tokio::select! {
                biased;
                () = cancel.canceled() => return Err(self.canceled(doing)),
                outcome = self.open_once(doing, None, &connection, &request) => outcome,
            };
            let failure = match outcome {
                Ok((_, body)) => return Ok(Paged::Answer(body)),
                Err(failure) => failure,
            };
            let Some(pause) = self
                .pause_after(
                    doing,
                    failure,
                    &connection,
                    tries,
                    &mut renewed,
                    &mut pauses,
                )
                .await?
            else {
                return Ok(Paged::Expired);
            };
            tokio::select! {
                biased;
                () = cancel.canceled() => return Err(self.canceled(doing)),
                () = tokio::time::sleep(pause) => {}
            }
        }
    }

    /// Sends once and returns when the answer begins; reads it whole only when it is an error.
    async fn open_once(
        &self,
        doing: &str,
        about: About<'_>,
        connection: &Connection,
        request: &http::Request<Vec<u8>>,
    ) -> Result<(u16, Body), Failure> {
        let sent = connection.client.send(request.clone().map(Body::from));
        let response = match tokio::time::timeout(ANSWER_LIMIT, sent).await {
            Err(_) => return Err(Failure::Silent),
            Ok(Err(error)) => return Err(self.transport_failure(doing, connection, error)),
            Ok(Ok(response)) => response,
        };
        let code = response.status().as_u16();
        if (200..300).contains(&code) {
            return Ok((code, response.into_body()));
        }
        let header_after = response
            .headers()
            .get(http::header::RETRY_AFTER)
            .and_then(|value| value.to_str().ok())
            .and_then(|text| text.trim().parse().ok());
        let mut body = Vec::new();
        // An error whose text does not arrive is still that error.
        let _ = read_body(response.into_body(), &mut body).await;
        let status = serde_json::from_slice::<Status>(&body).ok();
        Err(self.status_failure(doing, about, code, status, &body, header_after))
    }

    fn status_failure(
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

    fn transport_failure(
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

    /// How long to wait before the next try; the error when there is none; `None` for 410.
    async fn pause_after(
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
                    error = chain(&*source),
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
                if tries < CONNECT_TRIES {
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

    pub(super) fn malformed(
        &self,
        doing: &str,
        error: impl std::error::Error + Send + Sync + 'static,
    ) -> Error {
        Error::Malformed {
            cluster: self.inner.name.clone(),
            doing: doing.to_owned(),
            source: Arc::new(error),
        }
    }
}

/// Doubling pauses with jitter: 0.3 s, 0.6 s, ... 15 s.
fn pauses() -> impl Iterator<Item = Duration> {
    backon::ExponentialBuilder::default()
        .with_min_delay(Duration::from_millis(300))
        .with_max_delay(Duration::from_secs(15))
        .with_jitter()
        .without_max_times()
        .build()
}

async fn read_body(mut body: Body, into: &mut Vec<u8>) -> Result<(), Failure> {
    loop {
        match tokio::time::timeout(ANSWER_LIMIT, body.frame()).await {
            Err(_) => return Err(Failure::Silent),
            Ok(None) => return Ok(()),
            Ok(Some(Err(error))) => return Err(Failure::Dropped(Arc::new(error))),
            Ok(Some(Ok(frame))) => {
                if let Some(data) = frame.data_ref() {
                    into.extend_from_slice(data);
                }
            }
        }
    }
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
mod tests {
    use super::*;

    #[test]
    fn k1_the_user_is_read_from_a_refusal() {
        let message = "nodes is forbidden: User \"system:serviceaccount:ml:ci\" cannot list resource \"nodes\" in API group \"\" at the cluster scope";
        assert_eq!(
            identity(message).as_deref(),
            Some("system:serviceaccount:ml:ci")
        );
        assert_eq!(identity("forbidden"), None);
    }

    #[test]
    fn k9_pauses_grow_and_stay_bounded() {
        let total: Duration = pauses().take(TRIES as usize).sum();
        assert!(
            total > Duration::from_secs(40) && total < Duration::from_secs(240),
            "{total:?}"
        );
    }
}
