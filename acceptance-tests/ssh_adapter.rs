//! `src/ssh` against a real sshd and a real Docker Engine.

mod access;
mod check;
mod containers;
mod sharing;
mod updates;

use std::time::Duration;

use loomplane::capacity::gpu::GpuRequest;
use loomplane::ssh::{
    Auth, ContainerSpec, Deployment, HostKeyPolicy, Limits, Login, Registries, Restart, Scope,
    Server as Target, ServerConfig,
};

use crate::servers::{Engine, Options, Server};

/// Runs a test's future.
fn run<T>(test: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap()
        .block_on(test)
}

/// Time enough for anything here, on a busy machine.
fn scope() -> Scope {
    Scope::within(Duration::from_secs(180))
}

/// How to log in, with the right host key pinned.
fn login(server: &Server, user: &str) -> Login {
    Login {
        host: "127.0.0.1".to_owned(),
        port: server.port,
        user: user.to_owned(),
        auth: Auth::KeyFile {
            path: server.key.path.display().to_string(),
            passphrase: None,
        },
        host_key: HostKeyPolicy::Pinned(vec![server.host_key("ed25519")]),
    }
}

fn config(server: &Server, user: &str) -> ServerConfig {
    let mut config = ServerConfig::new("rack1", login(server, user));
    config.limits = Limits {
        nvidia_smi: Duration::from_secs(10),
        ..Limits::default()
    };
    config
}

/// A server with an engine of its own and so many cards, and a target that logs in as root.
fn server_with(cards: usize) -> Option<(Server, std::sync::Arc<Target>)> {
    let engine = Engine::start()?;
    let server = Server::start(Options {
        engine: Some(engine),
        cards,
        ..Options::default()
    })?;
    let target = Target::new(config(&server, "root"));
    Some((server, target))
}

/// A service that sleeps and asks for so many cards.
fn deployment(name: &str, gpus: i64) -> Deployment {
    Deployment {
        spec: ContainerSpec {
            name: name.to_owned(),
            image: crate::servers::IMAGE.to_owned(),
            gpu: (gpus > 0).then(|| GpuRequest::parse("nvidia-l4", gpus).unwrap()),
            restart: Restart::UnlessStopped,
            stop_grace_seconds: Some(0),
            ..ContainerSpec::default()
        },
        registries: Registries::new(),
        device_wait: Duration::ZERO,
        wait: true,
    }
}
