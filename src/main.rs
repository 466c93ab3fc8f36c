//! Picks the program. Without arguments it is the plugin that Terraform starts.

use std::{
    error::Error as _,
    io::Write as _,
    path::{Path, PathBuf},
    process::ExitCode,
};

use clap::{Parser, Subcommand};
use loomplane::{capacity::arbiter, docs, kubernetes::crd::definition_yaml, provider::Loomplane};
use tf_provider_sdk::{
    rpc::Service,
    serve::{self, ServeOptions},
};

#[cfg(target_env = "musl")]
#[global_allocator]
static ALLOCATOR: dlmalloc::GlobalDlmalloc = dlmalloc::GlobalDlmalloc;

/// Terraform and OpenTofu provider for GPU work. Terraform starts it without arguments.
#[derive(Debug, Parser)]
#[command(name = "terraform-provider-loomplane", version)]
struct Arguments {
    /// Serve without Terraform starting it, for a debugger: prints what to put into TF_REATTACH_PROVIDERS.
    #[arg(long)]
    debug: bool,
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Write docs/ from the schemas and examples/.
    Docs {
        /// Write nothing: say which pages are not as they would be written, and fail if any.
        #[arg(long)]
        check: bool,
        /// The folder that holds docs/ and examples/.
        #[arg(default_value = ".")]
        folder: PathBuf,
    },
    /// Print the definition of the kind CapacitySet, as YAML for `kubectl apply -f -`.
    Crds,
    /// Capacity sets: who gets which cards when there are not enough.
    #[command(subcommand)]
    Capacity(CapacityCommand),
}

#[derive(Debug, Subcommand)]
enum CapacityCommand {
    /// Print what the arbiter would do with a snapshot, as JSON. Changes nothing.
    Plan {
        /// The snapshot, a JSON file; `-` reads standard input.
        #[arg(long, value_name = "FILE")]
        snapshot: PathBuf,
    },
}

fn main() -> ExitCode {
    // The plugin's start is in the path of every command: no argument parser is made for it.
    if std::env::args_os().len() == 1 {
        return plugin(false);
    }
    let arguments = Arguments::parse();
    match arguments.command {
        None => plugin(arguments.debug),
        Some(Command::Docs { check, folder }) => documentation(check, &folder),
        Some(Command::Crds) => crds(),
        Some(Command::Capacity(CapacityCommand::Plan { snapshot })) => plan_capacity(&snapshot),
    }
}

fn crds() -> ExitCode {
    match std::io::stdout().write_all(definition_yaml().as_bytes()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "can't write the definition: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Exit status 0 with a plan on standard output, 2 with a message when the snapshot is not valid, 1 when it can't be read.
#[allow(clippy::print_stderr, reason = "a command's own error message")]
fn plan_capacity(file: &Path) -> ExitCode {
    let text = if file == Path::new("-") {
        std::io::read_to_string(std::io::stdin())
    } else {
        std::fs::read_to_string(file)
    };
    let text = match text {
        Ok(text) => text,
        Err(error) => {
            eprintln!("can't read the snapshot {}: {error}", file.display());
            return ExitCode::FAILURE;
        }
    };
    match arbiter::run(&text) {
        Ok(plan) => match std::io::stdout().write_all(plan.as_bytes()) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                eprintln!("can't write the plan: {error}");
                ExitCode::FAILURE
            }
        },
        Err(none) => {
            eprintln!("{none}");
            none.exit_status().into()
        }
    }
}

fn documentation(check: bool, folder: &Path) -> ExitCode {
    let (text, code) = match if check {
        docs::check(folder)
    } else {
        docs::write(folder).map(|_| Vec::new())
    } {
        Ok(wrong) if wrong.is_empty() => return ExitCode::SUCCESS,
        Ok(wrong) => (
            format!("{}\nmake docs writes them anew.", wrong.join("\n")),
            1,
        ),
        Err(error) => {
            let cause = error
                .source()
                .map(|cause| format!(": {cause}"))
                .unwrap_or_default();
            (format!("{error}{cause}"), 2)
        }
    };
    // Where even that can't be said, the exit code says it.
    let _ = writeln!(std::io::stderr(), "{text}");
    ExitCode::from(code)
}

fn plugin(debug: bool) -> ExitCode {
    let options = ServeOptions {
        provider_address: "registry.terraform.io/loomplane/loomplane",
        name: "loomplane",
        debug,
    };
    serve::run(options, |stop| Service::new(Loomplane, stop))
}
