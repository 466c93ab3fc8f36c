//! Own servers through real Terraform: the whole provider against real sshd and Docker Engines (issue's rules S, G and P).
//!
//! Every test has a server of its own (its sshd, machine-id, cards). Most share one engine: their services have names, and their cards
//! UUIDs, of their own. `LOOMPLANE_TEST_HEAVY=1` runs the repetitions in full.

mod access;
mod changes;
mod checks;
mod failures;
mod full;
mod identity;
mod lifecycle;
mod secrets;
mod sharing;
mod values;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::servers::{Engine, IMAGE, Options, Server, row, uuid};
use crate::terraform::{Cli, Workspace};

/// Whether repetitions are run in full.
fn heavy() -> bool {
    std::env::var_os("LOOMPLANE_TEST_HEAVY").is_some()
}

/// A server with cards, and its services' names.
struct Rack {
    server: Server,
    engine: Arc<Engine>,
    /// Begins the names of its containers.
    prefix: String,
    /// Index of its first card's UUID.
    first: usize,
}

impl Rack {
    /// On the engine that tests share.
    fn shared(cards: usize) -> Option<Self> {
        Self::on(Engine::shared()?, cards)
    }

    /// On an engine of its own: for containers started by hand, which may hold all cards.
    fn alone(cards: usize) -> Option<Self> {
        Self::on(Engine::start()?, cards)
    }

    fn on(engine: Arc<Engine>, cards: usize) -> Option<Self> {
        static NEXT: AtomicUsize = AtomicUsize::new(1);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let server = Server::start(Options {
            engine: Some(engine.clone()),
            cards,
            ..Options::default()
        })?;
        let rack = Self {
            server,
            engine,
            prefix: format!("r{number}"),
            first: number * 16,
        };
        let rows: Vec<String> = (0..cards).map(|index| rack.row(index)).collect();
        rack.server.smi.rows(&rows, 0);
        Some(rack)
    }

    /// What `nvidia-smi` prints of card `index`.
    fn row(&self, index: usize) -> String {
        row(index).replace(&uuid(index), &self.uuid(index))
    }

    /// UUID of card `index`.
    fn uuid(&self, index: usize) -> String {
        uuid(self.first + index)
    }

    /// Docker's name of a service.
    fn name(&self, label: &str) -> String {
        format!("{}-{label}", self.prefix)
    }

    /// Names of this rack's containers.
    fn names(&self) -> Vec<String> {
        let begin = format!("{}-", self.prefix);
        let mut names = self.engine.names();
        names.retain(|name| name.starts_with(&begin));
        names
    }

    fn inspect(&self, label: &str, format: &str) -> String {
        self.engine.inspect(&self.name(label), format)
    }

    fn container(&self, label: &str) -> String {
        self.inspect(label, "{{.Id}}")
    }

    /// UUIDs that a running service has.
    fn devices(&self, label: &str) -> Vec<String> {
        devices(&self.engine, &self.name(label))
    }

    /// Its entry in `servers`.
    fn connection(&self, name: &str) -> String {
        connection(name, &self.server, "")
    }

    /// A folder whose provider knows this rack as `rack1`.
    fn work(&self) -> Option<Workspace> {
        let work = Workspace::with_provider(Cli::any())?;
        work.file("provider.tf", &provider(&self.connection("rack1")));
        Some(work)
    }

    /// A service on `rack1`; `body` is further arguments.
    fn service(&self, label: &str, body: &str) -> String {
        self.service_with(label, IMAGE, body)
    }

    fn service_with(&self, label: &str, image: &str, body: &str) -> String {
        format!(
            r#"
resource "loomplane_gpu_service" "{label}" {{
  name   = "{}"
  target = "rack1"
  image  = "{image}"
  {body}
}}
"#,
            self.name(label)
        )
    }

    /// Fails the test if this rack's containers share a card; how many are handed out.
    fn assert_no_card_twice(&self) -> usize {
        let listed =
            self.engine
                .docker(&["ps", "-a", "--no-trunc", "--format", "{{.Names}} {{.ID}}"]);
        let begin = format!("{}-", self.prefix);
        let ids: Vec<&str> = listed
            .lines()
            .filter(|line| line.starts_with(&begin))
            .filter_map(|line| line.split_once(' '))
            .map(|(_, id)| id)
            .collect();
        // One that is removed meanwhile is not shown, and no failure: applies may be at work.
        let socket = format!("unix://{}", self.engine.socket().display());
        let shown = std::process::Command::new("docker")
            .args(["-H", &socket, "inspect", "--format", DEVICES])
            .args(&ids)
            .output()
            .unwrap();
        let devices: Vec<String> = String::from_utf8_lossy(&shown.stdout)
            .lines()
            .flat_map(uuids)
            .collect();
        let different: BTreeSet<_> = devices.iter().collect();
        assert_eq!(devices.len(), different.len(), "{devices:?}");
        devices.len()
    }
}

const DEVICES: &str = "{{json .HostConfig.DeviceRequests}}";

/// UUIDs that a container was given.
fn devices(engine: &Engine, name: &str) -> Vec<String> {
    uuids(&engine.inspect(name, DEVICES))
}

fn uuids(requests: &str) -> Vec<String> {
    let requests: serde_json::Value = serde_json::from_str(requests).unwrap_or_default();
    requests
        .as_array()
        .into_iter()
        .flatten()
        .flat_map(|request| request["DeviceIDs"].as_array().cloned().unwrap_or_default())
        .map(|id| id.as_str().unwrap().to_owned())
        .collect()
}

/// An entry of `servers`, logging in as root with the server's key; `more` are further arguments.
fn connection(name: &str, server: &Server, more: &str) -> String {
    format!(
        r#"    {name} = {{
      host             = "127.0.0.1"
      port             = {}
      user             = "root"
      private_key_path = "{}"
      host_key         = "{}"
      {more}
    }}
"#,
        server.port,
        server.key.path.display(),
        server.host_key("ed25519"),
    )
}

/// The provider block with these entries of `servers`.
fn provider(servers: &str) -> String {
    provider_with(servers, "")
}

fn provider_with(servers: &str, more: &str) -> String {
    format!(
        r#"terraform {{
  required_providers {{
    loomplane = {{ source = "loomplane/loomplane" }}
  }}
}}
provider "loomplane" {{
  servers = {{
{servers}  }}
{more}
}}
"#
    )
}

/// Nobody waits: neither for cards nor for a stop.
const AT_ONCE: &str = "device_wait_seconds = 0\n  stop_grace_seconds = 0";

/// So many cards, and no waiting.
fn gpus(count: u32) -> String {
    format!("size = {{ gpu = {{ kind = \"nvidia-l4\", count = {count} }} }}\n  {AT_ONCE}")
}
