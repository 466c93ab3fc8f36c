//! What is in progress: calls of the provider service, and connections.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::sync::watch;
use tonic::Status;
use tonic::body::Body;
use tonic::codegen::Service;
use tonic::codegen::http::{Request, Response};
use tonic::server::NamedService;

/// A count that can be waited on. Clones share it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Calls(Arc<watch::Sender<usize>>);

impl Calls {
    /// Counts one more until the guard is dropped.
    pub(crate) fn begin(&self) -> InProgress {
        self.0.send_modify(|count| *count += 1);
        InProgress(self.clone())
    }

    /// Waits until nothing is in progress; at once if that is so.
    pub(crate) async fn idle(&self) {
        // The sender lives as long as self, so the wait can't fail.
        let _ = self.0.subscribe().wait_for(|count| *count == 0).await;
    }

    /// Waits until something is in progress; at once if that is so.
    pub(crate) async fn busy(&self) {
        let _ = self.0.subscribe().wait_for(|count| *count > 0).await;
    }
}

/// One thing in progress.
#[derive(Debug)]
pub(crate) struct InProgress(Calls);

impl Drop for InProgress {
    fn drop(&mut self) {
        self.0.0.send_modify(|count| *count -= 1);
    }
}

/// A gRPC service whose calls are counted, and run to their end even if the caller is gone: a handler that is dropped between an API's answer
/// and its own would leave an object that nobody knows.
#[derive(Debug, Clone)]
pub(crate) struct Counted<S> {
    service: S,
    calls: Calls,
}

impl<S> Counted<S> {
    pub(crate) fn new(service: S, calls: Calls) -> Self {
        Self { service, calls }
    }
}

impl<S: NamedService> NamedService for Counted<S> {
    const NAME: &'static str = S::NAME;
}

impl<S> Service<Request<Body>> for Counted<S>
where
    S: Service<Request<Body>, Response = Response<Body>, Error = Infallible>,
    S::Future: Send + 'static,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.service.poll_ready(context)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let in_progress = self.calls.begin();
        let call = self.service.call(request);
        let task = tokio::spawn(async move {
            let _in_progress = in_progress;
            call.await
        });
        Box::pin(async move {
            task.await.unwrap_or_else(|error| {
                // Handlers guard themselves; this keeps the connection of one that forgot to.
                Ok(
                    Status::internal(format!("the provider failed in this call: {error}"))
                        .into_http(),
                )
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn idle_waits_for_the_last_guard() {
        let calls = Calls::default();
        calls.idle().await;
        let (one, two) = (calls.begin(), calls.begin());
        calls.busy().await;
        drop(one);
        let short = std::time::Duration::from_secs(5);
        assert!(tokio::time::timeout(short, calls.idle()).await.is_err());
        drop(two);
        calls.idle().await;
    }

    /// Panics on `/panic`, and takes a second for anything else.
    #[derive(Clone)]
    struct Slow(Calls);

    impl Service<Request<Body>> for Slow {
        type Response = Response<Body>;
        type Error = Infallible;
        type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send>>;

        fn poll_ready(&mut self, _context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
            Poll::Ready(Ok(()))
        }

        fn call(&mut self, request: Request<Body>) -> Self::Future {
            let finished = self.0.clone();
            Box::pin(async move {
                assert!(request.uri().path() != "/panic", "asked to panic");
                tokio::time::sleep(std::time::Duration::from_secs(1)).await;
                std::mem::forget(finished.begin());
                Ok(Response::new(Body::empty()))
            })
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_whose_caller_is_gone_runs_to_its_end() {
        let (calls, finished) = (Calls::default(), Calls::default());
        let mut counted = Counted::new(Slow(finished.clone()), calls.clone());
        drop(counted.call(Request::new(Body::empty())));
        calls.busy().await;
        calls.idle().await;
        tokio::time::timeout(std::time::Duration::from_millis(1), finished.busy())
            .await
            .expect("it ran to its end");
    }

    #[tokio::test]
    async fn a_panic_that_nobody_guards_is_an_internal_error_of_that_call_only() {
        let calls = Calls::default();
        let mut counted = Counted::new(Slow(Calls::default()), calls.clone());
        let request = Request::builder()
            .uri("/panic")
            .body(Body::empty())
            .expect("a request");
        let answer = counted.call(request).await.expect("infallible");
        let status = Status::from_header_map(answer.headers()).expect("a status");
        assert_eq!(status.code(), tonic::Code::Internal);
        calls.idle().await;
    }
}
