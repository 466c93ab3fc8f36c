//! From what the rooms below say to what Terraform shows, in one place.

use rust_decimal::Decimal;
use tf_provider_sdk::{context::Interrupted, diagnostic::Diagnostic, number::Number, path::Path};

use crate::{
    capacity::{price::Usd, text::Text},
    kubernetes,
    ssh::SshError,
};

/// A refusal of the domain, as an error on an attribute.
pub(super) fn refusal(text: Text, path: impl Into<Path>) -> Diagnostic {
    Diagnostic::error(text.summary, text.detail).at(path)
}

/// A notice of the domain, as a warning on an attribute.
pub(super) fn notice(text: Text, path: impl Into<Path>) -> Diagnostic {
    Diagnostic::warning(text.summary, text.detail).at(path)
}

/// A failed operation on a cluster. Its first line sums it up.
pub(super) fn cluster_error(error: &kubernetes::Error) -> Diagnostic {
    let text = error.render();
    match text.split_once('\n') {
        Some((summary, detail)) if summary.len() <= 120 => Diagnostic::error(summary, detail),
        _ => Diagnostic::error(summary_of(error), text),
    }
}

fn summary_of(error: &kubernetes::Error) -> &'static str {
    use kubernetes::Error;
    match error {
        Error::Configuration { .. }
        | Error::Kubeconfig { .. }
        | Error::CredentialPlugin { .. }
        | Error::Client { .. } => "The cluster connection can't be used",
        Error::Unreachable { .. }
        | Error::Dropped { .. }
        | Error::NoAnswer { .. }
        | Error::UntrustedCertificate { .. } => "The cluster can't be reached",
        Error::Unauthorized { .. } => "The cluster does not accept the credential",
        Error::Forbidden { .. } | Error::NodesForbidden { .. } => "The cluster forbids it",
        Error::Overloaded { .. } => "The cluster is overloaded or failing",
        Error::NotFound { .. } => "Not found on the cluster",
        Error::Refused { .. } | Error::Workload { .. } => "The cluster refuses it",
        Error::Unsendable { .. } => "A name is none",
        Error::Malformed { .. } => "The cluster's answer can't be understood",
        Error::Canceled { .. } => "Interrupted",
        Error::AlreadyExists { .. } => "It exists already",
        Error::BeingCreated { .. } => "Another apply is creating it",
        Error::TakenOver { .. } => "Another apply has taken it over",
        Error::KeptClaim { .. } => "A kept volume does not fit",
        Error::Conflict { .. } => "Others manage some of these fields",
        Error::OtherObject { .. } => "Another object has taken its place",
        Error::Rollout { .. } => "The rollout failed",
        Error::StillThere { .. } => "The deletion did not finish",
    }
}

/// An operation that was ended early.
pub(super) fn interrupted(doing: &str, why: Interrupted) -> Diagnostic {
    Diagnostic::error(
        "Interrupted",
        format!("Could not {doing}: {why}. Run it again to go on."),
    )
}

/// A number as an exact decimal, where it has one.
pub(super) fn decimal(number: &Number) -> Option<Decimal> {
    let text = number.to_string();
    text.parse()
        .ok()
        .or_else(|| Decimal::from_scientific(&text).ok())
}

/// US dollars as a number for state.
pub(super) fn usd(amount: Usd) -> Number {
    dollars(amount.decimal())
}

/// An exact decimal as a number.
pub(super) fn dollars(amount: Decimal) -> Number {
    // The text of a decimal is always a number.
    amount
        .normalize()
        .to_string()
        .parse()
        .unwrap_or_else(|_| Number::from(0_u64))
}

/// A failed operation on a server.
pub(super) fn server_error(server: &str, error: &SshError) -> Diagnostic {
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(error) = cause {
        let line = error.to_string();
        if !text.contains(&line) {
            text.push_str("\nCaused by: ");
            text.push_str(&line);
        }
        cause = error.source();
    }
    let (summary, path) = server_summary(server, error);
    let detail = if text.contains(server) {
        format!("{text}.")
    } else {
        format!("{server}: {text}.")
    };
    let diagnostic = Diagnostic::error(summary, detail);
    match path {
        Some(path) => diagnostic.at(path),
        None => diagnostic,
    }
}

/// What went wrong in a few words, and the attribute that it is about.
fn server_summary(server: &str, error: &SshError) -> (String, Option<&'static str>) {
    match error {
        SshError::Shared(error) => server_summary(server, error),
        SshError::Unreachable { .. }
        | SshError::Handshake { .. }
        | SshError::ConnectionLost { .. } => (format!("{server} can't be reached"), None),
        SshError::UnknownHostKey { .. }
        | SshError::ChangedHostKey { .. }
        | SshError::RevokedHostKey { .. }
        | SshError::HostKeyType { .. }
        | SshError::NoHostKeyPolicy { .. }
        | SshError::HostKeyConfig { .. } => {
            (format!("The host key of {server} can't be trusted"), None)
        }
        SshError::PrivateKey { .. } | SshError::Agent { .. } | SshError::LoginRefused { .. } => {
            (format!("Can't log in to {server}"), None)
        }
        SshError::TimedOut { .. } => (format!("{server} took too long"), None),
        SshError::Cancelled { .. } => ("Interrupted".to_owned(), None),
        SshError::Refused { .. } => ("The server's Docker can't run this".to_owned(), None),
        SshError::Docker { .. } => (format!("Docker can't be used on {server}"), None),
        SshError::NoGpuAccess { .. } => (
            format!("Docker on {server} can't reach the GPUs"),
            Some("size.gpu"),
        ),
        SshError::Pull { .. } => ("The image can't be pulled".to_owned(), Some("image")),
        SshError::Exists { .. } => ("It exists already".to_owned(), Some("name")),
        SshError::Busy { .. } => ("Another apply is at work on it".to_owned(), Some("name")),
        SshError::Gone { .. } => (format!("Not found on {server}"), None),
        SshError::DevicesHeld { .. } => (
            format!("The GPUs of {server} are held by others"),
            Some("size.gpu"),
        ),
        SshError::NotRunning { .. } => ("The container did not come up".to_owned(), None),
        SshError::NotHealthy { .. } => ("The container is not healthy".to_owned(), None),
        SshError::UpdateFailed { .. } => ("The update failed".to_owned(), None),
        SshError::Command { .. } | SshError::Engine { .. } | SshError::Lock { .. } => {
            (format!("The operation on {server} failed"), None)
        }
    }
}
