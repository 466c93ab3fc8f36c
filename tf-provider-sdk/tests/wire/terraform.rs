//! The real Terraform against the plugin: TLS on, and reattached.

use std::path::{Path, PathBuf};
use std::process::Output;

use tokio::process::Command;
use tokio::time::timeout;

use super::host::{PATIENCE, Start, plugin};

const CONFIGURATION: &str = r#"
terraform {
  required_providers {
    echo = {
      source = "loomplane/echo"
    }
  }
}
resource "echo" "one" {
  value = "hello"
}
"#;

/// Terraform on PATH. Its absence fails the tests, unless `WITHOUT_TERRAFORM` says that it is known.
fn terraform() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path)
        .map(|folder| folder.join("terraform"))
        .find(|file| file.is_file());
    let known = std::env::var_os("WITHOUT_TERRAFORM").is_some();
    assert!(
        found.is_some() || known,
        "no terraform on PATH: install it, or set WITHOUT_TERRAFORM=1 to leave its tests out"
    );
    found
}

async fn run(
    terraform: &Path,
    folder: &Path,
    arguments: &[&str],
    variables: &[(&str, &str)],
) -> Output {
    let mut command = Command::new(terraform);
    for variable in [
        "TF_LOG",
        "TF_REATTACH_PROVIDERS",
        "TF_DISABLE_PLUGIN_TLS",
        "TF_PLUGIN_CACHE_DIR",
    ] {
        command.env_remove(variable);
    }
    command
        .args(arguments)
        .current_dir(folder)
        .env("TF_CLI_CONFIG_FILE", folder.join("terraform.rc"))
        .env("CHECKPOINT_DISABLE", "1")
        .env("NO_COLOR", "1")
        .envs(variables.iter().copied())
        .kill_on_drop(true);
    let output = timeout(PATIENCE * 2, command.output())
        .await
        .expect("in time")
        .expect("it runs");
    assert!(
        output.status.success(),
        "{arguments:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    output
}

/// A folder with the configuration above, in which the provider is the plugin under test.
fn workspace() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::copy(plugin(), folder.path().join("terraform-provider-echo")).expect("copied");
    let settings = format!(
        "provider_installation {{\n  dev_overrides {{\n    \"registry.terraform.io/loomplane/echo\" = \"{}\"\n  }}\n  direct {{}}\n}}\n",
        folder.path().display()
    );
    std::fs::write(folder.path().join("terraform.rc"), settings).expect("written");
    std::fs::write(folder.path().join("main.tf"), CONFIGURATION).expect("written");
    folder
}

#[tokio::test]
async fn terraform_reads_the_schema_applies_and_destroys_over_tls() {
    let Some(terraform) = terraform() else { return };
    let folder = workspace();
    let log = folder.path().join("log");
    let variables = [
        ("TF_LOG", "TRACE"),
        ("TF_LOG_PATH", log.to_str().expect("text")),
    ];
    let schema = run(
        &terraform,
        folder.path(),
        &["providers", "schema", "-json"],
        &variables,
    )
    .await;
    let schema: serde_json::Value = serde_json::from_slice(&schema.stdout).expect("JSON");
    let block = &schema["provider_schemas"]["registry.terraform.io/loomplane/echo"]["resource_schemas"]
        ["echo"]["block"];
    assert_eq!(block["attributes"]["value"]["type"], "string");
    let log = std::fs::read_to_string(log).expect("a log");
    assert!(
        log.contains("using plugin: version=6"),
        "the handshake worked"
    );
    for trouble in [
        "plugin failed to exit gracefully",
        "unexpected data",
        "error parsing",
        "plugin process exited with error",
    ] {
        assert!(!log.contains(trouble), "{trouble}");
    }

    run(
        &terraform,
        folder.path(),
        &["apply", "-auto-approve", "-input=false"],
        &[],
    )
    .await;
    let state = run(&terraform, folder.path(), &["show", "-json"], &[]).await;
    let state: serde_json::Value = serde_json::from_slice(&state.stdout).expect("JSON");
    assert_eq!(
        state["values"]["root_module"]["resources"][0]["values"]["value"],
        "hello"
    );
    run(
        &terraform,
        folder.path(),
        &["plan", "-detailed-exitcode", "-input=false"],
        &[],
    )
    .await;
    run(
        &terraform,
        folder.path(),
        &["destroy", "-auto-approve", "-input=false"],
        &[],
    )
    .await;
}

#[tokio::test]
async fn terraform_attaches_to_a_plugin_in_debug_mode_again_and_again() {
    let Some(terraform) = terraform() else { return };
    let folder = workspace();
    let command = Start {
        identity: None,
        variables: &[],
        arguments: &["--debug"],
    }
    .command(&plugin());
    let (mut child, line) = super::lifetime::reattachable(command).await;
    let value = serde_json::json!({ "registry.terraform.io/loomplane/echo": {
        "Protocol": "grpc", "ProtocolVersion": 6, "Pid": child.id(), "Test": true,
        "Addr": { "Network": "unix", "String": line.socket() },
    }});
    let value = value.to_string();
    for _ in 0..2 {
        run(
            &terraform,
            folder.path(),
            &["apply", "-auto-approve", "-input=false"],
            &[("TF_REATTACH_PROVIDERS", &value)],
        )
        .await;
    }
    assert!(
        child.try_wait().expect("a status").is_none(),
        "it outlives the runs"
    );
    super::host::signal(child.id().expect("it runs"), "INT");
    assert!(
        timeout(PATIENCE, child.wait())
            .await
            .expect("it ends")
            .expect("a status")
            .success()
    );
}
