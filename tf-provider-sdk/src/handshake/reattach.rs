//! Debug mode: a provider that a developer started, perhaps in a debugger, and that Terraform then finds through `TF_REATTACH_PROVIDERS`.

use std::io::{self, Write};

use serde_json::{Map, Value, json};

use super::PROTOCOL_VERSION;
use super::listen::Address;

/// Host of OpenTofu's registry: OpenTofu looks for a provider of Terraform's registry under this one.
const OPENTOFU: &str = "registry.opentofu.org";
const TERRAFORM: &str = "registry.terraform.io";

/// Prints, for the human who started it, how to point Terraform or OpenTofu at this process.
///
/// # Errors
/// stdout is closed.
pub(crate) fn announce(provider_address: &str, address: &Address) -> io::Result<()> {
    let value = value(provider_address, address, std::process::id());
    let mut stdout = io::stdout().lock();
    writeln!(
        stdout,
        "Provider started. To attach Terraform or OpenTofu to it, set this variable (end with Ctrl-C):\n\n\
         \tTF_REATTACH_PROVIDERS='{value}'\n"
    )?;
    stdout.flush()
}

fn value(provider_address: &str, address: &Address, process: u32) -> Value {
    let entry = json!({
        "Protocol": "grpc",
        "ProtocolVersion": PROTOCOL_VERSION,
        "Pid": process,
        // The host then leaves the process alone when it is done.
        "Test": true,
        "Addr": { "Network": address.network(), "String": address.text() },
    });
    let mut entries = Map::new();
    if let Some(rest) = provider_address.strip_prefix(TERRAFORM) {
        entries.insert(format!("{OPENTOFU}{rest}"), entry.clone());
    }
    entries.insert(provider_address.to_owned(), entry);
    Value::Object(entries)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_variable_names_the_provider_in_both_registries() {
        let entry = json!({
            "Protocol": "grpc", "ProtocolVersion": 6, "Pid": 123, "Test": true, "Addr": { "Network": "unix", "String": "/tmp/p/s" },
        });
        let found = value(
            "registry.terraform.io/loomplane/loomplane",
            &Address::Unix("/tmp/p/s".into()),
            123,
        );
        let both = json!({ "registry.terraform.io/loomplane/loomplane": entry, "registry.opentofu.org/loomplane/loomplane": entry });
        assert_eq!(found, both);
        let private = value("example.com/a/b", &Address::Unix("/tmp/p/s".into()), 123);
        assert_eq!(private, json!({ "example.com/a/b": entry }));
    }
}
