//! Picks the program. Without arguments it is the plugin that Terraform starts.

use std::process::ExitCode;

use clap::{Parser, Subcommand};
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
enum Command {}

fn main() -> ExitCode {
    // The plugin's start is in the path of every command: no argument parser is made for it.
    if std::env::args_os().len() == 1 {
        return plugin(false);
    }
    let arguments = Arguments::parse();
    match arguments.command {
        None => plugin(arguments.debug),
        Some(command) => match command {},
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
