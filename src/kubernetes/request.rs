//! One request to an API server: time limits, bounded retries, and the answer as bytes. Goes below kube's own typed
//! calls, because those put whole answers into logs and errors, and hide `Retry-After`.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use http_body_util::BodyExt as _;
use kube::client::Body;
use kube::core::Status;
use serde::de::DeserializeOwned;

use super::cancel::Cancel;
use super::connect::{Cluster, Connection};
use super::error::{Error, ObjectName};
use super::retry::{Failure, pauses};

/// How long the server may take until it answers, and between two pieces of an answer. The API server's own limit for a
/// request is 60 s.
pub(super) const ANSWER_LIMIT: Duration = Duration::from_secs(70);
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
        serde_json::from_slice(&reply).map_err(|error| self.malformed(doing, error))
    }

    /// [`Cluster::call`] without reading the answer.
    pub(super) async fn send(
        &self,
        doing: &str,
        about: About<'_>,
        request: Request,
        cancel: &Cancel,
    ) -> Result<Vec<u8>, Error> {
        let mut body = Vec::new();
        match self
            .send_paged(doing, about, request, &mut body, cancel)
            .await?
        {
            Paged::Answer(()) => Ok(body),
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
        self.send_paged(doing, None, request, buffer, cancel).await
    }

    async fn send_paged(
        &self,
        doing: &str,
        about: About<'_>,
        request: Request,
        buffer: &mut Vec<u8>,
        cancel: &Cancel,
    ) -> Result<Paged<()>, Error> {
        let request = request.map_err(|_| self.unsendable(doing))?;
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
                let body = self.open_once(doing, about, &connection, &request).await?;
                read_body(body, buffer).await?;
                Ok(())
            };
            let outcome = tokio::select! {
                biased;
                () = cancel.canceled() => return Err(self.canceled(doing)),
                outcome = one => outcome,
            };
            let failure = match outcome {
                Ok(()) => return Ok(Paged::Answer(())),
                Err(failure) => failure,
            };
            self.note(self.told(&failure, &connection));
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
        let request = request.map_err(|_| self.unsendable(doing))?;
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
                Ok(body) => return Ok(Paged::Answer(body)),
                Err(failure) => failure,
            };
            self.note(self.told(&failure, &connection));
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
    ) -> Result<Body, Failure> {
        let sent = connection.client.send(request.clone().map(Body::from));
        let response = match tokio::time::timeout(ANSWER_LIMIT, sent).await {
            Err(_) => return Err(Failure::Silent),
            Ok(Err(error)) => return Err(self.transport_failure(doing, connection, error)),
            Ok(Ok(response)) => response,
        };
        self.inner.answered.store(true, Ordering::Relaxed);
        let code = response.status().as_u16();
        if (200..300).contains(&code) {
            self.note(None);
            return Ok(response.into_body());
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

    fn unsendable(&self, doing: &str) -> Error {
        Error::Unsendable {
            cluster: self.inner.name.clone(),
            doing: doing.to_owned(),
        }
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
