//! Picks the program. Without arguments it is the plugin that Terraform starts.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use loomplane::capacity::arbiter;
use loomplane::provider::Loomplane;
use tf_provider_sdk::{
    rpc::Service,
    serve::{self, ServeOptions},
};

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
        Some(Command::Capacity(CapacityCommand::Plan { snapshot })) => plan_capacity(&snapshot),
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

fn plugin(debug: bool) -> ExitCode {
    let options = ServeOptions {
        provider_address: "registry.terraform.io/loomplane/loomplane",
        name: "loomplane",
        debug,
    };
    serve::run(options, |stop| Service::new(Loomplane, stop))
}
