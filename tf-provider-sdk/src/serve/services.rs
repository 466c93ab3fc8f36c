//! What go-plugin hosts expect beside the provider: controller, stdio, broker and health.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::sync::watch;
use tokio_stream::Stream;
use tonic::codegen::BoxStream;
use tonic::{Request, Response, Status, Streaming, async_trait};

use crate::generated::health::health_check_response::ServingStatus;
use crate::generated::health::health_server;
use crate::generated::health::{HealthCheckRequest, HealthCheckResponse};
use crate::generated::plugin::{
    ConnInfo, Empty, StdioData, grpc_broker_server, grpc_controller_server, grpc_stdio_server,
};

/// The service name that go-plugin hosts ask the health service about. The empty name stands for the whole server.
const HEALTHY: [&str; 2] = ["", "plugin"];

/// Waits until `closed` holds true; for ever if its sender is gone.
pub(super) async fn until(mut closed: watch::Receiver<bool>) {
    if closed.wait_for(|closed| *closed).await.is_err() {
        std::future::pending::<()>().await;
    }
}

/// A stream of at most one message, which then stays open until the server closes: hosts take an early end for a failure.
struct HeldOpen<T> {
    first: Option<T>,
    closed: Pin<Box<dyn Future<Output = ()> + Send>>,
}

fn held_open<T: Send + Unpin + 'static>(
    first: Option<T>,
    closed: impl Future<Output = ()> + Send + 'static,
) -> BoxStream<T> {
    Box::pin(HeldOpen {
        first,
        closed: Box::pin(closed),
    })
}

impl<T: Unpin> Stream for HeldOpen<T> {
    type Item = Result<T, Status>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        match self.first.take() {
            Some(first) => Poll::Ready(Some(Ok(first))),
            None => self.closed.as_mut().poll(context).map(|()| None),
        }
    }
}

/// Tells the process to end. The answer is sent before it does.
pub(super) struct Controller(watch::Sender<()>);

impl Controller {
    pub(super) fn new(asked: watch::Sender<()>) -> Self {
        Self(asked)
    }
}

#[async_trait]
impl grpc_controller_server::GrpcController for Controller {
    async fn shutdown(&self, _request: Request<Empty>) -> Result<Response<Empty>, Status> {
        self.0.send_replace(());
        Ok(Response::new(Empty {}))
    }
}

/// Sends nothing: hosts log what comes here as unexpected. Logs go to stderr.
pub(super) struct Stdio(watch::Receiver<bool>);

impl Stdio {
    pub(super) fn new(closed: watch::Receiver<bool>) -> Self {
        Self(closed)
    }
}

#[async_trait]
impl grpc_stdio_server::GrpcStdio for Stdio {
    async fn stream_stdio(
        &self,
        _request: Request<()>,
    ) -> Result<Response<BoxStream<StdioData>>, Status> {
        Ok(Response::new(held_open(None, until(self.0.clone()))))
    }
}

/// Offers no side channels, which Terraform never uses.
pub(super) struct Broker(watch::Receiver<bool>);

impl Broker {
    pub(super) fn new(closed: watch::Receiver<bool>) -> Self {
        Self(closed)
    }
}

#[async_trait]
impl grpc_broker_server::GrpcBroker for Broker {
    async fn start_stream(
        &self,
        request: Request<Streaming<ConnInfo>>,
    ) -> Result<Response<BoxStream<ConnInfo>>, Status> {
        // The host's half lives as long as ours: dropping it would reset the stream.
        let (incoming, closed) = (request.into_inner(), until(self.0.clone()));
        let held = async move {
            closed.await;
            drop(incoming);
        };
        Ok(Response::new(held_open(None, held)))
    }
}

/// Healthy as long as it answers.
pub(super) struct Health(watch::Receiver<bool>);

impl Health {
    pub(super) fn new(closed: watch::Receiver<bool>) -> Self {
        Self(closed)
    }
}

#[async_trait]
impl health_server::Health for Health {
    async fn check(
        &self,
        request: Request<HealthCheckRequest>,
    ) -> Result<Response<HealthCheckResponse>, Status> {
        let service = request.into_inner().service;
        if HEALTHY.contains(&service.as_str()) {
            Ok(Response::new(HealthCheckResponse {
                status: ServingStatus::Serving.into(),
            }))
        } else {
            Err(Status::not_found(format!(
                "no service named {service:?}; known is \"plugin\""
            )))
        }
    }

    async fn watch(
        &self,
        request: Request<HealthCheckRequest>,
    ) -> Result<Response<BoxStream<HealthCheckResponse>>, Status> {
        let known = HEALTHY.contains(&request.into_inner().service.as_str());
        let status = if known {
            ServingStatus::Serving
        } else {
            ServingStatus::ServiceUnknown
        };
        let first = HealthCheckResponse {
            status: status.into(),
        };
        Ok(Response::new(held_open(Some(first), until(self.0.clone()))))
    }
}
