//! Own servers: everything that goes over SSH.
//!
//! Here: connections, host keys and logins; commands and their quoting; the check of a server; containers through the Docker Engine's API;
//! the lock that keeps two applies from sharing a card. Not here: what a finding means and which cards a service gets (`capacity::server`,
//! `capacity::ledger`), and anything of Terraform's. Arrows: imports `capacity` only; russh and bollard stay in this room.
//!
//! # For the provider
//! ```text
//! Server::new(ServerConfig) -> Arc<Server>                          nothing is opened; keep one per configured server and process
//! server.report(&Scope) -> Result<Arc<Report>>                      the check, once per run; .check .ledger .occupants .target_uid .reason()
//! server.target_uid(&Scope) -> Result<String>                       machine-id, for G9
//! server.create_service(&Deployment, &Scope) -> Result<Deployed, Failure>
//! server.read_service(name, &Scope) -> Result<Option<Observed>>     None is gone; unreachable is an error; .is_interrupted(): propose an update
//! server.update_service(&Observed, &Deployment, &Scope) -> Result<Deployed, Failure>
//! server.delete_service(name, id, &[docker volume names], &Scope) -> Result<(), Failure>
//! server.import_service(name, &Scope) -> Result<Observed>
//! server.forget_report() / server.close()
//! change(&Observed, &ContainerSpec) -> Change                       what an update will do, for the plan
//! ContainerSpec::validate(&self) -> Result<()>                      for `validate`, no server needed
//! Scope::new(limit, watch::Receiver<bool>) / Scope::within(limit)   deadline and Terraform's stop
//! ```
//! A `Failure` carries what exists (`existing`): write that to the state, then report `error`. Futures must be awaited to their end after a
//! stop: they clean up and say what is left.

mod auth;
mod check;
mod config;
mod connect;
mod devices;
pub mod docker;
mod error;
mod exec;
mod host_key;
mod lock;
mod nvidia_smi;
mod scope;
mod server;
mod service;

pub use check::Report;
pub use config::{
    Auth, DOCKER_SOCKET, HostKeyPolicy, Limits, Login, Registries, RegistryLogin, ServerConfig,
    expand_home,
};
pub use devices::Occupant;
pub use docker::observed::{Health, Mark, Observed, Published};
pub use docker::spec::{
    ContainerSpec, HealthCheck, HostMount, PoolBudget, PortSpec, Probe, Protocol, Restart, Ulimit,
    VolumeSpec, volume_name,
};
pub use docker::transport::Route;
pub use error::{DockerProblem, Result, SshError};
pub use scope::Scope;
pub use server::Server;
pub use service::{Change, Deployed, Deployment, Failure, change};
