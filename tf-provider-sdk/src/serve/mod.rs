//! Runs a provider: from the handshake to the last call.
//!
//! Here: the entry ([`run`]) and the order of things. [`accept`] turns a socket into connections, [`calls`] counts what is in progress,
//! [`ending`] says when the process should end, [`services`] holds what go-plugin hosts expect beside the provider. The provider itself is
//! any implementation of the generated trait.

mod accept;
mod calls;
mod ending;
mod services;

use std::io;
use std::process::ExitCode;
use std::time::Duration;

use thiserror::Error;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until, timeout};
use tokio_rustls::TlsAcceptor;
use tonic::transport::Server;

use crate::generated::health::health_server::HealthServer;
use crate::generated::plugin::grpc_broker_server::GrpcBrokerServer;
use crate::generated::plugin::grpc_controller_server::GrpcControllerServer;
use crate::generated::plugin::grpc_stdio_server::GrpcStdioServer;
use crate::generated::tfplugin6::provider_server::{Provider, ProviderServer};
use crate::handshake::listen::{ListenError, Listener};
use crate::handshake::{self, Environment};
use crate::mtls::{ServerTls, TlsError};
use crate::stop::Stop;
use crate::{log, panic};
use calls::{Calls, Counted};
use ending::{Ending, HOST_GRACE, Reason};
use services::{Broker, Controller, Health, Stdio};

/// Largest message, in both directions: what HashiCorp's own SDK uses. (Terraform takes no schema above 64 MiB.)
const LARGEST_MESSAGE: usize = 256 << 20;

/// How long connections may take to close once no call is in progress.
const DRAIN: Duration = Duration::from_millis(500);

/// What the entry needs to know about a provider.
#[derive(Debug, Clone, Copy)]
pub struct ServeOptions<'a> {
    /// Full address: `registry.terraform.io/NAMESPACE/NAME`.
    pub provider_address: &'a str,
    /// Short name, as in `TF_LOG_PROVIDER_<NAME>`. The provider's own log events are those whose target starts with it.
    pub name: &'a str,
    /// Debug mode: wait for a Terraform that is told of this process through `TF_REATTACH_PROVIDERS`, without cookie and TLS, until Ctrl-C.
    pub debug: bool,
}

#[derive(Debug, Error)]
enum ServeError {
    #[error(transparent)]
    Tls(#[from] TlsError),
    #[error(transparent)]
    Listen(#[from] ListenError),
    #[error("can't start the async runtime")]
    Runtime(#[source] io::Error),
    #[error("can't listen for signals")]
    Signals(#[source] io::Error),
    #[error("can't write the handshake line to stdout: whoever started this plugin is gone")]
    Announce(#[source] io::Error),
    #[error("the gRPC server ended by itself")]
    Server(#[source] Option<tonic::transport::Error>),
}

/// Runs a provider: the whole of its `main`. `address` is its full address, such as `registry.terraform.io/NAMESPACE/NAME`.
///
/// With the argument `--debug` it waits for a Terraform that is told of it: see [`ServeOptions::debug`]. [`run`] says the rest.
pub fn provider<P: crate::provider::Provider>(address: &str, provider: P) -> ExitCode {
    let options = ServeOptions {
        provider_address: address,
        name: address.rsplit('/').next().unwrap_or(address),
        debug: std::env::args().any(|argument| argument == "--debug"),
    };
    run(options, |stop| crate::rpc::Service::new(provider, stop))
}

/// Runs the provider that `provider` makes, until Terraform says that it is done, and returns the exit code of the process.
///
/// Sets up logs and the panic hook, then shakes hands with Terraform. Call it first thing in `main`: Terraform starts several processes
/// for each command, and waits for every one. `provider` gets the switch that its `StopProvider` must turn ([`Stop::stop`]), and from which
/// each call takes its token; it must do no network I/O.
///
/// Handlers run on one thread: work that computes for long belongs into `tokio::task::spawn_blocking`. A call whose connection is lost
/// runs on to its end, so that nothing is left half done. When the process should end, every token is stopped; calls in progress then have one
/// second if Terraform is waiting, and one minute if the process was terminated or Terraform is gone.
///
/// Started by a human, it says on stderr how to use a provider.
pub fn run<P, F>(options: ServeOptions<'_>, provider: F) -> ExitCode
where
    P: Provider,
    F: FnOnce(Stop) -> P,
{
    let environment = Environment::read(&|variable| std::env::var(variable).ok());
    if !environment.has_cookie && !options.debug {
        log::write_line(&handshake::text_for_a_human(
            options.provider_address,
            options.name,
        ));
        return ExitCode::FAILURE;
    }
    panic::install_hook();
    log::install(options.name);
    match start(options, environment, provider) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            log::say_failure(&error);
            ExitCode::FAILURE
        }
    }
}

fn start<P, F>(
    options: ServeOptions<'_>,
    environment: Environment,
    provider: F,
) -> Result<(), ServeError>
where
    P: Provider,
    F: FnOnce(Stop) -> P,
{
    // One thread: a plan of a thousand resources takes less CPU than with several.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(ServeError::Runtime)?;
    let result = runtime.block_on(serve(options, environment, provider));
    // Blocking work that nobody waits for any more must not keep the process alive.
    runtime.shutdown_background();
    result
}

async fn serve<P, F>(
    options: ServeOptions<'_>,
    environment: Environment,
    provider: F,
) -> Result<(), ServeError>
where
    P: Provider,
    F: FnOnce(Stop) -> P,
{
    let (asked, shutdown) = watch::channel(());
    // Before the handshake line: a Ctrl-C right after it must find us deaf to it.
    let mut ending = Ending::watch(options.debug, shutdown).map_err(ServeError::Signals)?;
    let tls = match &environment.client_certificate {
        Some(client) if !options.debug => Some(ServerTls::for_client(client)?),
        _ => None,
    };
    let listener = Listener::bind(&environment.places).await?;
    let address = listener.address();

    let stop = Stop::new();
    let calls = Calls::default();
    let (closing, closed) = watch::channel(false);
    let provider = ProviderServer::new(provider(stop.clone()))
        .max_decoding_message_size(LARGEST_MESSAGE)
        .max_encoding_message_size(LARGEST_MESSAGE);
    let router = Server::builder()
        .add_service(Counted::new(provider, calls.clone()))
        .add_service(GrpcControllerServer::new(Controller::new(asked)))
        .add_service(GrpcStdioServer::new(Stdio::new(closed.clone())))
        .add_service(GrpcBrokerServer::new(Broker::new(closed.clone())))
        .add_service(HealthServer::new(Health::new(closed.clone())));

    let acceptor = tls
        .as_ref()
        .map(|tls| TlsAcceptor::from(tls.config.clone()));
    let (incoming, accepting) = accept::connections(listener, acceptor, ending.connections());
    let mut server =
        tokio::spawn(router.serve_with_incoming_shutdown(incoming, services::until(closed)));

    if options.debug {
        handshake::reattach::announce(options.provider_address, &address)
            .map_err(ServeError::Announce)?;
    } else {
        handshake::announce(&address, tls.as_ref().map_or("", |tls| &tls.certificate))
            .map_err(ServeError::Announce)?;
    }

    let reason = tokio::select! {
        reason = ending.next() => reason,
        result = &mut server => return Err(ServeError::Server(result.ok().and_then(Result::err))),
    };
    tracing::debug!(?reason, "ending");
    match reason {
        // A host asks while calls are in progress only when it leaves without their answers (a second Ctrl-C).
        Reason::HostAsked | Reason::HostGone => stop.abandon(),
        Reason::Terminated => stop.end(),
    }
    finish_calls(reason, &calls, &mut ending).await;
    closing.send_replace(true);
    // Past this time, whoever still holds a connection open has to live with losing it.
    let _ = timeout(DRAIN, server).await;
    accepting.abort();
    // It owns the socket: once it is gone, so are the files.
    let _ = accepting.await;
    Ok(())
}

/// Waits for the calls in progress, as long as the reason for ending allows.
async fn finish_calls(reason: Reason, calls: &Calls, ending: &mut Ending) {
    let mut deadline = Instant::now() + reason.grace();
    loop {
        tokio::select! {
            () = calls.idle() => return,
            () = sleep_until(deadline) => return,
            again = ending.next() => match again {
                Reason::HostAsked => deadline = deadline.min(Instant::now() + HOST_GRACE),
                Reason::Terminated => return,
                Reason::HostGone => {}
            },
        }
    }
}
