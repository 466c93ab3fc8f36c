//! How Terraform finds out where this plugin listens: environment variables in, one line on stdout out.
//!
//! Here: the variables ([`Environment`]), the line. [`listen`] has the socket (`unix` its folder), [`reattach`] the line of debug mode.
//! Nothing else may ever write to stdout.

pub(crate) mod listen;
pub(crate) mod reattach;
#[cfg(unix)]
pub(crate) mod unix;

use std::io::{self, Write};
use std::ops::RangeInclusive;
use std::path::PathBuf;

use listen::Address;

/// Terraform's own value of `TF_PLUGIN_MAGIC_COOKIE`. It is no secret: it tells a plugin that Terraform started it, and not a human.
const COOKIE: &str = "d602bf8f470bc67ca7faa0386276bbdd4330efaf76d1a219cb4d6991ca9872b2";

/// The version of the handshake itself.
const HANDSHAKE_VERSION: u32 = 1;

/// The version of the provider protocol that this crate speaks.
pub(crate) const PROTOCOL_VERSION: u32 = 6;

/// What Terraform says through environment variables.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Environment {
    /// Whether Terraform (or OpenTofu) started this process.
    pub(crate) has_cookie: bool,
    /// PEM of the client certificate; without one, TLS is off.
    pub(crate) client_certificate: Option<String>,
    pub(crate) places: Places,
}

/// Where a plugin may listen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Places {
    /// Folder for the socket, in place of the folder for temporary files.
    pub(crate) socket_folder: Option<PathBuf>,
    /// Group (name or number) that may connect as well.
    pub(crate) socket_group: Option<String>,
    /// TCP ports, where there are no Unix sockets. `0..=0` is any free port.
    pub(crate) ports: RangeInclusive<u16>,
}

impl Environment {
    /// Reads the variables through `variable`, which gives `None` for one that is not set.
    pub(crate) fn read(variable: &dyn Fn(&str) -> Option<String>) -> Self {
        let set = |name: &str| variable(name).filter(|value| !value.is_empty());
        let port = |name: &str| {
            set(name)
                .and_then(|value| value.trim().parse().ok())
                .unwrap_or(0)
        };
        Self {
            has_cookie: variable("TF_PLUGIN_MAGIC_COOKIE").as_deref() == Some(COOKIE),
            client_certificate: set("PLUGIN_CLIENT_CERT"),
            places: Places {
                socket_folder: set("PLUGIN_UNIX_SOCKET_DIR").map(PathBuf::from),
                socket_group: set("PLUGIN_UNIX_SOCKET_GROUP"),
                ports: port("PLUGIN_MIN_PORT")..=port("PLUGIN_MAX_PORT"),
            },
        }
    }

    // PLUGIN_PROTOCOL_VERSIONS is not read: we offer one version, and a host that doesn't list it words the error best.
}

/// The handshake line: where to connect, and the certificate to expect there (empty without TLS).
///
/// Six fields, never more: hosts that don't ask for multiplexing split at the first five bars.
fn line(address: &Address, certificate: &str) -> String {
    format!(
        "{HANDSHAKE_VERSION}|{PROTOCOL_VERSION}|{}|{}|grpc|{certificate}\n",
        address.network(),
        address.text()
    )
}

/// Writes the handshake line.
///
/// # Errors
/// stdout is closed: the host is gone.
pub(crate) fn announce(address: &Address, certificate: &str) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(line(address, certificate).as_bytes())?;
    stdout.flush()
}

/// What a human reads who starts the provider by hand.
pub(crate) fn text_for_a_human(provider_address: &str, name: &str) -> String {
    let source = provider_address.trim_start_matches("registry.terraform.io/");
    format!(
        "This program is the Terraform and OpenTofu provider \"{name}\". Terraform starts it by itself: it does nothing when started by hand.\n\
         \n\
         To use it, name it in a Terraform configuration, then run `terraform init`:\n\
         \n\
         terraform {{\n  required_providers {{\n    {name} = {{\n      source = \"{source}\"\n    }}\n  }}\n}}\n"
    )
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, SocketAddr};

    use super::*;

    fn environment(variables: &[(&str, &str)]) -> Environment {
        Environment::read(&|name| {
            variables
                .iter()
                .find(|(known, _)| *known == name)
                .map(|(_, value)| (*value).to_owned())
        })
    }

    #[test]
    fn only_the_right_cookie_counts() {
        assert!(environment(&[("TF_PLUGIN_MAGIC_COOKIE", COOKIE)]).has_cookie);
        assert!(!environment(&[("TF_PLUGIN_MAGIC_COOKIE", "")]).has_cookie);
        assert!(!environment(&[("TF_PLUGIN_MAGIC_COOKIE", &COOKIE[1..])]).has_cookie);
        assert!(!environment(&[]).has_cookie);
    }

    #[test]
    fn an_empty_certificate_is_none_and_unreadable_ports_mean_any() {
        let found = environment(&[
            ("PLUGIN_CLIENT_CERT", ""),
            ("PLUGIN_MIN_PORT", "x"),
            ("PLUGIN_UNIX_SOCKET_DIR", ""),
        ]);
        assert_eq!(found.client_certificate, None);
        assert_eq!(
            found.places,
            Places {
                socket_folder: None,
                socket_group: None,
                ports: 0..=0
            }
        );
        let found = environment(&[("PLUGIN_MIN_PORT", "10000"), ("PLUGIN_MAX_PORT", "25000")]);
        assert_eq!(found.places.ports, 10_000..=25_000);
    }

    #[test]
    fn the_line_has_six_fields_with_and_without_tls() {
        let unix = Address::Unix("/tmp/p/s".into());
        assert_eq!(line(&unix, "AbC"), "1|6|unix|/tmp/p/s|grpc|AbC\n");
        let tcp = Address::Tcp(SocketAddr::from((Ipv4Addr::LOCALHOST, 10_001)));
        assert_eq!(line(&tcp, ""), "1|6|tcp|127.0.0.1:10001|grpc|\n");
    }

    #[test]
    fn the_text_for_a_human_says_how_to_use_the_provider() {
        let text = text_for_a_human("registry.terraform.io/loomplane/loomplane", "loomplane");
        assert!(
            text.contains("source = \"loomplane/loomplane\"")
                && text.contains("required_providers"),
            "{text}"
        );
    }
}
