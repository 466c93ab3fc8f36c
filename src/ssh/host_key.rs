//! Which host key is trusted (rule S4): pinned keys, or OpenSSH's known_hosts. Decided before anything is authenticated or run.

use russh::keys::{Algorithm, EcdsaCurve, HashAlg, PublicKey};

use super::config::{HostKeyPolicy, expand_home};

/// What is on record for one `host:port`.
#[derive(Debug, Default)]
pub(crate) struct Trusted {
    keys: Vec<(PublicKey, String)>,
    revoked: Vec<(PublicKey, String)>,
    searched: Vec<String>,
    only_authorities: bool,
}

/// The answer for the key that a server shows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// On record.
    Trusted,
    /// Nothing on record for the host: where we looked.
    Unknown(String),
    /// Other keys on record: where.
    Changed(String),
    /// Marked `@revoked`: where.
    Revoked(String),
}

impl Trusted {
    /// Reads what the policy names.
    ///
    /// # Errors
    /// A sentence for [`super::SshError::HostKeyConfig`]: a pinned key that is none, or a file that can't be read.
    pub(crate) fn load(
        policy: &HostKeyPolicy,
        host: &str,
        port: u16,
        home: Option<&std::path::Path>,
    ) -> Result<Self, String> {
        match policy {
            HostKeyPolicy::Pinned(lines) => Self::pinned(lines),
            HostKeyPolicy::KnownHosts(files) => {
                let mut trusted = Self::default();
                for file in files {
                    let path = expand_home(file, home);
                    match std::fs::read_to_string(&path) {
                        Ok(text) => {
                            trusted.add_known_hosts(&text, &path.display().to_string(), host, port)
                        }
                        Err(error) => {
                            return Err(format!("known_hosts_path {}: {error}", path.display()));
                        }
                    }
                }
                trusted.settle_ports(host, port);
                Ok(trusted)
            }
            HostKeyPolicy::None => Ok(Self::default()),
        }
    }

    fn pinned(lines: &[String]) -> Result<Self, String> {
        let mut trusted = Self::default();
        for line in lines.iter().flat_map(|text| text.lines()) {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            // A whole line of ssh-keyscan or known_hosts names the host first: take the key out of it.
            let words: Vec<&str> = line.split_whitespace().collect();
            let start = words.iter().position(|word| {
                word.starts_with("ssh-") || word.starts_with("ecdsa-") || word.starts_with("sk-")
            });
            let key = match start {
                Some(start) if start <= 1 && words.len() > start + 1 => {
                    PublicKey::from_openssh(&format!("{} {}", words[start], words[start + 1]))
                }
                _ => {
                    return Err(format!(
                        "host_key {line:?} is not a public key: it looks like `ssh-ed25519 AAAA...`, the line in /etc/ssh/ssh_host_ed25519_key.pub"
                    ));
                }
            };
            let key =
                key.map_err(|error| format!("host_key {line:?} is not a public key: {error}"))?;
            trusted.keys.push((key, "host_key".to_owned()));
        }
        if trusted.keys.is_empty() {
            return Err("host_key is empty".to_owned());
        }
        trusted.searched.push("host_key".to_owned());
        Ok(trusted)
    }

    fn add_known_hosts(&mut self, text: &str, path: &str, host: &str, port: u16) {
        self.searched.push(path.to_owned());
        for (index, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let mut words = line.split_ascii_whitespace();
            let Some(mut first) = words.next() else {
                continue;
            };
            let marker = first.starts_with('@').then_some(first);
            if marker.is_some() {
                let Some(hosts) = words.next() else { continue };
                first = hosts;
            }
            let (with_port, without) = (
                matches_hosts(first, &host_name(host, port)),
                port != 22 && matches_hosts(first, &host_name(host, 22)),
            );
            if !with_port && !without {
                continue;
            }
            let (Some(kind), Some(blob)) = (words.next(), words.next()) else {
                continue;
            };
            // A line that we can't parse (an old protocol 1 key, a type of tomorrow) can't vouch for anybody.
            let Ok(key) = PublicKey::from_openssh(&format!("{kind} {blob}")) else {
                continue;
            };
            let place = format!(
                "{path}:{}{}",
                index + 1,
                if with_port { "" } else { PORTLESS }
            );
            match marker {
                None => self.keys.push((key, place)),
                Some("@revoked") => self.revoked.push((key, place)),
                // Host certificates are not spoken; the line says nothing about plain keys.
                Some(_) => self.only_authorities = true,
            }
        }
    }

    /// As OpenSSH does: an entry without a port counts for another port only when there is none with it.
    fn settle_ports(&mut self, _host: &str, port: u16) {
        if port == 22 {
            return;
        }
        if self
            .keys
            .iter()
            .any(|(_, place)| !place.ends_with(PORTLESS))
        {
            self.keys.retain(|(_, place)| !place.ends_with(PORTLESS));
        }
    }

    /// Judges the key that a server shows.
    pub(crate) fn verdict(&self, shown: &PublicKey) -> Verdict {
        let same = |key: &PublicKey| key.key_data() == shown.key_data();
        if let Some((_, place)) = self.revoked.iter().find(|(key, _)| same(key)) {
            return Verdict::Revoked(place.clone());
        }
        if self.keys.iter().any(|(key, _)| same(key)) {
            return Verdict::Trusted;
        }
        // A key without port on record never makes another port's key "changed": many machines can hide behind one address.
        let known: Vec<&(PublicKey, String)> = self
            .keys
            .iter()
            .filter(|(_, place)| !place.ends_with(PORTLESS))
            .collect();
        if known.is_empty() {
            return Verdict::Unknown(self.looked());
        }
        let list: Vec<String> = known
            .iter()
            .map(|(key, place)| format!("{} ({place})", fingerprint(key)))
            .collect();
        Verdict::Changed(list.join(" or "))
    }

    fn looked(&self) -> String {
        let files = if self.searched.is_empty() {
            "nothing".to_owned()
        } else {
            self.searched.join(", ")
        };
        if self.only_authorities {
            format!(
                "searched {files}, which names only a @cert-authority for it, and host certificates are not supported"
            )
        } else {
            format!("searched {files}")
        }
    }

    /// Algorithms to ask for: those of the keys on record, so that a server with several keys shows the one we know. All when none is known.
    pub(crate) fn algorithms(&self) -> Vec<Algorithm> {
        let all = [
            Algorithm::Ed25519,
            Algorithm::Ecdsa {
                curve: EcdsaCurve::NistP256,
            },
            Algorithm::Ecdsa {
                curve: EcdsaCurve::NistP384,
            },
            Algorithm::Ecdsa {
                curve: EcdsaCurve::NistP521,
            },
            Algorithm::Rsa {
                hash: Some(HashAlg::Sha512),
            },
            Algorithm::Rsa {
                hash: Some(HashAlg::Sha256),
            },
        ];
        let on_record: Vec<Algorithm> = all
            .iter()
            .filter(|algorithm| {
                self.keys
                    .iter()
                    .any(|(key, _)| same_type(&key.algorithm(), algorithm))
            })
            .cloned()
            .collect();
        if on_record.is_empty() {
            all.to_vec()
        } else {
            on_record
        }
    }

    /// Names of the key types on record, for messages.
    pub(crate) fn types(&self) -> String {
        let mut types: Vec<String> = self
            .keys
            .iter()
            .map(|(key, _)| key.algorithm().to_string())
            .collect();
        types.sort();
        types.dedup();
        types.join(", ")
    }
}

/// Marks a place whose entry names the host without the port.
const PORTLESS: &str = " (an entry without port)";

fn same_type(key: &Algorithm, asked: &Algorithm) -> bool {
    match (key, asked) {
        (Algorithm::Rsa { .. }, Algorithm::Rsa { .. }) => true,
        (key, asked) => key == asked,
    }
}

/// `SHA256:...`, as ssh-keygen -l prints it.
pub(crate) fn fingerprint(key: &PublicKey) -> String {
    key.fingerprint(HashAlg::Sha256).to_string()
}

/// The name that known_hosts uses: lower case, in brackets with the port unless that is 22.
fn host_name(host: &str, port: u16) -> String {
    let host = host.to_ascii_lowercase();
    if port == 22 {
        host
    } else {
        format!("[{host}]:{port}")
    }
}

/// Whether a known_hosts host field covers `name`: a hash, or a list with `*`, `?` and `!`.
fn matches_hosts(field: &str, name: &str) -> bool {
    let mut matched = false;
    for pattern in field.split(',') {
        if let Some(rest) = pattern.strip_prefix("|1|") {
            matched |= matches_hash(rest, name);
        } else if let Some(negated) = pattern.strip_prefix('!') {
            if glob(&negated.to_ascii_lowercase(), name) {
                return false;
            }
        } else {
            matched |= glob(&pattern.to_ascii_lowercase(), name);
        }
    }
    matched
}

fn matches_hash(salt_and_hash: &str, name: &str) -> bool {
    use base64::Engine;
    let decode = |text: &str| base64::engine::general_purpose::STANDARD.decode(text).ok();
    let Some((salt, hash)) = salt_and_hash.split_once('|') else {
        return false;
    };
    let (Some(salt), Some(hash)) = (decode(salt), decode(hash)) else {
        return false;
    };
    // The file format fixes SHA-1; it hides names and protects nothing.
    let key = aws_lc_rs::hmac::Key::new(aws_lc_rs::hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY, &salt);
    aws_lc_rs::hmac::verify(&key, name.as_bytes(), &hash).is_ok()
}

/// `*` and `?` as OpenSSH reads them.
fn glob(pattern: &str, name: &str) -> bool {
    let (pattern, name): (Vec<char>, Vec<char>) =
        (pattern.chars().collect(), name.chars().collect());
    let (mut at, mut from, mut star) = (0, 0, None);
    while from < name.len() {
        match pattern.get(at) {
            Some('*') => {
                star = Some((at, from));
                at += 1;
            }
            Some(&wanted) if wanted == '?' || wanted == name[from] => {
                at += 1;
                from += 1;
            }
            _ => match star {
                Some((star_at, star_from)) => {
                    at = star_at + 1;
                    from = star_from + 1;
                    star = Some((star_at, star_from + 1));
                }
                None => return false,
            },
        }
    }
    pattern[at..].iter().all(|&c| c == '*')
}

#[cfg(test)]
#[path = "host_key_tests.rs"]
mod tests;
