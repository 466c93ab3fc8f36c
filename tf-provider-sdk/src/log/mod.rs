//! Logs: `tracing` events as hclog JSON lines on stderr, the form that Terraform parses.
//!
//! Nothing is written unless `TF_LOG` or one of its relatives asks for it ([`level`]): Terraform parses every line that it then drops.
//! A line ([`line`]) keeps to what Terraform's parser takes, since some lines crash it. Values that are registered as secret
//! ([`redact`]) are masked in every line. What is not here: logs of programs in a cluster, which are no plugins.

mod level;
mod line;
pub mod redact;
mod subscriber;

use std::error::Error;
use std::io::Write;

use level::Wanted;
use subscriber::Hclog;

/// Sends `tracing` events to Terraform's log, as far as the environment asks for them; call it once, at the start.
///
/// `name` is the provider's short name: `loomplane` is logged at the level in `TF_LOG_PROVIDER_LOOMPLANE`, and its own events are those
/// whose target starts with `loomplane`. Of other crates only warnings and errors are logged: their more verbose lines may hold secrets.
/// Does nothing if no logs are wanted, or if a subscriber is installed already.
pub fn install(name: &str) {
    let wanted = Wanted::from_environment(name, &|variable| std::env::var(variable).ok());
    if wanted.is_off() {
        return;
    }
    // An error means that the program has a subscriber of its own, which then wins.
    let _ = tracing::subscriber::set_global_default(Hclog::new(wanted, write_line));
}

/// Tells Terraform's log why the process ends: a plain line, as such a failure must show at any level.
pub(crate) fn say_failure(error: &dyn Error) {
    let text = redact::masked(&chain(error)).replace('\n', "; ");
    write_line(&format!("[ERROR] {text}\n"));
}

/// An error and its causes, in one line of text.
pub(crate) fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(": ");
        text.push_str(&error.to_string());
        cause = error.source();
    }
    text
}

/// Writes a whole line at once, so that lines of different threads don't mix. If stderr is closed, nobody is left to tell.
pub(crate) fn write_line(line: &str) {
    let _ = std::io::stderr().lock().write_all(line.as_bytes());
}
