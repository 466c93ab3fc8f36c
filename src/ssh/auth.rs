//! Proving the user: private keys as text or file, encrypted or not, and ssh-agent. A key's text never leaves this file.

use std::path::Path;
use std::sync::Arc;

use russh::client::{AuthResult, Handle, Handler};
use russh::keys::agent::AgentIdentity;
use russh::keys::agent::client::AgentClient;
use russh::keys::{HashAlg, PrivateKey, PrivateKeyWithHashAlg};
use secrecy::{ExposeSecret, SecretString};

use super::config::{Auth, Login, expand_home};
use super::error::{Result, SshError};
use super::host_key::fingerprint;

/// Keys that an agent may offer before the server's MaxAuthTries (6 by default) ends the connection.
const MOST_AGENT_KEYS: usize = 6;

/// Logs `login.user` in on an established, verified connection.
pub(crate) async fn authenticate<H: Handler>(handle: &mut Handle<H>, login: &Login) -> Result<()> {
    match &login.auth {
        Auth::Key { text, passphrase } => {
            let key = parse_key(text, passphrase.as_ref())
                .map_err(|reason| key_error(login, "private_key", reason))?;
            with_key(handle, login, key).await
        }
        Auth::KeyFile { path, passphrase } => {
            let key = read_key(path, passphrase.as_ref())
                .map_err(|reason| key_error(login, path, reason))?;
            with_key(handle, login, key).await
        }
        Auth::Agent { socket } => with_agent(handle, login, socket.as_deref()).await,
    }
}

/// Checks that the key can be used, before any packet is sent: a typo in a path costs no connection.
pub(crate) fn preflight(login: &Login) -> Result<()> {
    match &login.auth {
        Auth::Key { text, passphrase } => parse_key(text, passphrase.as_ref())
            .map(drop)
            .map_err(|reason| key_error(login, "private_key", reason)),
        Auth::KeyFile { path, passphrase } => read_key(path, passphrase.as_ref())
            .map(drop)
            .map_err(|reason| key_error(login, path, reason)),
        Auth::Agent { .. } => Ok(()),
    }
}

fn key_error(login: &Login, origin: &str, reason: String) -> SshError {
    SshError::PrivateKey {
        address: login.address(),
        origin: origin.to_owned(),
        reason,
    }
}

fn read_key(path: &str, passphrase: Option<&SecretString>) -> Result<PrivateKey, String> {
    let path = expand_home(path, std::env::home_dir().as_deref());
    let text = std::fs::read_to_string(&path).map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => "there is no such file where Terraform runs".to_owned(),
        std::io::ErrorKind::InvalidData => {
            "the file is not text, so it is no private key".to_owned()
        }
        _ => error.to_string(),
    })?;
    parse_key(&SecretString::from(text), passphrase)
}

/// Parses OpenSSH, PKCS#1, PKCS#8 and PuTTY keys.
pub(crate) fn parse_key(
    text: &SecretString,
    passphrase: Option<&SecretString>,
) -> Result<PrivateKey, String> {
    let text = text.expose_secret();
    if text.trim().is_empty() {
        return Err("it is empty".to_owned());
    }
    if PUBLIC_KEY_STARTS
        .iter()
        .any(|start| text.trim_start().starts_with(start))
    {
        return Err("it is a public key; the private one is in the file without .pub".to_owned());
    }
    let encrypted = is_encrypted(text);
    if encrypted && passphrase.is_none() {
        return Err(
            "it is encrypted: set passphrase, or load it into an ssh-agent and set agent = true"
                .to_owned(),
        );
    }
    russh::keys::decode_secret_key(text, passphrase.map(|phrase| phrase.expose_secret())).map_err(|error| match error {
        russh::keys::Error::KeyIsEncrypted => {
            "it is encrypted: set passphrase, or load it into an ssh-agent and set agent = true".to_owned()
        }
        russh::keys::Error::UnsupportedKeyType { key_type_string, .. } => {
            format!("its type {key_type_string} is not supported; use ed25519, ECDSA or RSA")
        }
        _ if encrypted => "the passphrase does not decrypt it".to_owned(),
        _ => "it can't be read as a private key (OpenSSH, PKCS#1 or PKCS#8 PEM, with its BEGIN and END lines and its line breaks)".to_owned(),
    })
}

const PUBLIC_KEY_STARTS: [&str; 3] = ["ssh-ed25519 ", "ssh-rsa ", "ecdsa-sha2-"];

fn is_encrypted(text: &str) -> bool {
    use base64::Engine;
    if text.contains("BEGIN ENCRYPTED PRIVATE KEY") || text.contains("Proc-Type: 4,ENCRYPTED") {
        return true;
    }
    if text.contains("Encryption: aes256-cbc") {
        return true;
    }
    let body: String = text
        .lines()
        .map(str::trim)
        .skip_while(|line| *line != "-----BEGIN OPENSSH PRIVATE KEY-----")
        .skip(1)
        .take_while(|line| !line.starts_with("-----END"))
        .collect();
    // "openssh-key-v1\0", then the cipher's name with its length: `none` unless encrypted.
    let Ok(bytes) = base64::engine::general_purpose::STANDARD.decode(body) else {
        return false;
    };
    bytes
        .strip_prefix(b"openssh-key-v1\0\0\0\0")
        .is_some_and(|rest| !rest.is_empty() && !rest.starts_with(b"\x04none"))
}

async fn with_key<H: Handler>(
    handle: &mut Handle<H>,
    login: &Login,
    key: PrivateKey,
) -> Result<()> {
    let shown = format!("key {} {}", key.algorithm(), fingerprint(key.public_key()));
    let hash = rsa_hash(handle, key.algorithm().is_rsa()).await;
    let result = handle
        .authenticate_publickey(
            login.user.clone(),
            PrivateKeyWithHashAlg::new(Arc::new(key), hash),
        )
        .await
        .map_err(|source| lost(login, source))?;
    finish(login, shown, result)
}

/// SHA-2 for RSA: what the server names, else SHA-512; never SHA-1.
async fn rsa_hash<H: Handler>(handle: &Handle<H>, rsa: bool) -> Option<HashAlg> {
    if !rsa {
        return None;
    }
    match handle.best_supported_rsa_hash().await {
        Ok(Some(Some(hash))) => Some(hash),
        _ => Some(HashAlg::Sha512),
    }
}

async fn with_agent<H: Handler>(
    handle: &mut Handle<H>,
    login: &Login,
    socket: Option<&Path>,
) -> Result<()> {
    let agent_error = |reason: String| SshError::Agent {
        address: login.address(),
        reason,
    };
    let Some(socket) = socket else {
        return Err(agent_error("SSH_AUTH_SOCK is not set where Terraform runs. Start an ssh-agent and load a key (ssh-add), or set private_key_path".to_owned()));
    };
    let mut agent = AgentClient::connect_uds(socket).await.map_err(|error| {
        agent_error(format!(
            "{} does not answer ({error}). Start an ssh-agent, or set private_key_path",
            socket.display()
        ))
    })?;
    let identities = agent
        .request_identities()
        .await
        .map_err(|error| agent_error(format!("it does not list its keys: {error}")))?;
    let keys: Vec<_> = identities
        .into_iter()
        .filter_map(|identity| match identity {
            AgentIdentity::PublicKey { key, .. } => Some(key),
            AgentIdentity::Certificate { .. } => None,
        })
        .collect();
    if keys.is_empty() {
        return Err(agent_error(
            "it holds no key. Load one: ssh-add ~/.ssh/id_ed25519".to_owned(),
        ));
    }
    let mut offered = Vec::new();
    let mut methods = String::new();
    let mut declined = Vec::new();
    for key in keys.iter().take(MOST_AGENT_KEYS) {
        let shown = format!("{} {}", key.algorithm(), fingerprint(key));
        let hash = rsa_hash(handle, key.algorithm().is_rsa()).await;
        match handle
            .authenticate_publickey_with(login.user.clone(), key.clone(), hash, &mut agent)
            .await
        {
            Ok(AuthResult::Success) => return Ok(()),
            Ok(AuthResult::Failure {
                remaining_methods, ..
            }) => {
                methods = method_names(&remaining_methods);
                offered.push(shown);
            }
            Err(_) => declined.push(shown),
        }
        if handle.is_closed() {
            break;
        }
    }
    if offered.is_empty() && !declined.is_empty() {
        return Err(agent_error(format!(
            "it declined to sign with {}",
            declined.join(", ")
        )));
    }
    let extra = keys.len().saturating_sub(MOST_AGENT_KEYS);
    let rest = if extra > 0 {
        format!(" (and {extra} more not tried: name the right one with private_key_path)")
    } else {
        String::new()
    };
    Err(SshError::LoginRefused {
        address: login.address(),
        offered: format!("agent keys {}{rest}", offered.join(", ")),
        methods,
    })
}

fn finish(login: &Login, offered: String, result: AuthResult) -> Result<()> {
    match result {
        AuthResult::Success => Ok(()),
        AuthResult::Failure {
            partial_success: true,
            remaining_methods,
        } => Err(SshError::LoginRefused {
            address: login.address(),
            offered: format!(
                "{offered} alone (a second factor is wanted, which an unattended run can't give)"
            ),
            methods: method_names(&remaining_methods),
        }),
        AuthResult::Failure {
            remaining_methods, ..
        } => Err(SshError::LoginRefused {
            address: login.address(),
            offered,
            methods: method_names(&remaining_methods),
        }),
    }
}

fn method_names(methods: &russh::MethodSet) -> String {
    let names: Vec<String> = methods
        .iter()
        .map(|method| <&str>::from(method).to_owned())
        .collect();
    if names.is_empty() {
        "nothing more from us (it closed the connection)".to_owned()
    } else {
        names.join(", ")
    }
}

fn lost(login: &Login, source: russh::Error) -> SshError {
    SshError::Handshake {
        address: login.address(),
        reason: "the connection ended during login".to_owned(),
        source: Some(Box::new(source)),
    }
}
