//! A provider for tests only: it has everything that the crate offers, and misbehaves on request. `tests/hosts` drives it with real
//! Terraform and OpenTofu, `tests/wire` with a host of our own.
//!
//! - `thing.rs`: a resource with faults in every operation, private data, a time limit
//! - `shape.rs`: a resource with every kind of attribute
//! - `gate.rs`: unknown values in plans
//! - `history.rs`: state upgrade, moves, import, identity
//! - `small.rs`: a data source, an ephemeral resource, functions

// Misbehaving is what this provider is for.
#![allow(clippy::panic, clippy::disallowed_methods)]

mod gate;
mod history;
mod shape;
mod small;
mod thing;

use std::{fs::OpenOptions, io::Write, path::PathBuf, process::ExitCode};

use tf_provider_sdk::prelude::*;

fn main() -> ExitCode {
    serve::provider("registry.terraform.io/loomplane/probe", Probe)
}

struct Probe;
type Cx<'a> = Context<'a, Client>;

/// For tests.
#[derive(Serialize, Deserialize, JsonSchema)]
struct Config {
    /// A file that gets a line for each call.
    journal: Option<PathBuf>,
    /// May be unknown: the provider is configured all the same.
    label: Opt<String>,
    /// May not be unknown: operations go on without a client.
    endpoint: Option<String>,
    /// A secret.
    token: Sensitive<Option<String>>,
}

struct Client {
    journal: Option<PathBuf>,
    label: Opt<String>,
}

impl Client {
    fn note(&self, line: &str) {
        if let Some(path) = &self.journal
            && let Ok(mut file) = OpenOptions::new().append(true).create(true).open(path)
        {
            let _ = writeln!(file, "{line}");
        }
    }
}

impl Provider for Probe {
    type Config = Config;
    type Client = Client;

    fn validate(&self, config: &Config, report: &mut Diagnostics) {
        if config.label.known().is_some_and(|label| label == "bad") {
            report.error("label", "Bad label", "label is \"bad\". Use another.");
        }
    }

    async fn configure(&self, config: Config) -> Result<Configured<Client>, Diagnostics> {
        if config.label.known().is_some_and(|label| label == "refused") {
            return Err(Diagnostic::error("Refused", "label is \"refused\".")
                .at("label")
                .into());
        }
        Ok(Client {
            journal: config.journal,
            label: config.label,
        }
        .into())
    }

    fn offers(&self) -> Offers<Client> {
        Offers::new()
            .resource::<thing::Thing>()
            .resource::<shape::Shape>()
            .resource::<gate::Gate>()
            .resource::<history::Record>()
            .data_source::<small::Echo>()
            .ephemeral::<small::Lease>()
            .function::<small::Divide>()
            .function::<small::Join>()
            .function::<small::OrElse>()
    }
}
