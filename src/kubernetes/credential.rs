//! Credential plugins (`exec`), run by us and not by kube: kube runs them twice, without a time limit, with Terraform's own
//! stdin, and puts their stdout (the token) into its error.

use std::collections::BTreeMap;
use std::process::Stdio;
use std::time::Duration;

use base64::Engine as _;
use jiff::Timestamp;
use kube::config::AuthInfo;
use secrecy::SecretString;
use serde::Deserialize;
use tokio::process::Command;

use super::error::Error;

/// How long a plugin may take, with every process that it starts.
pub(super) const PLUGIN_LIMIT: Duration = Duration::from_secs(30);
/// How much of a plugin's stderr goes into an error, in characters from its end.
const STDERR_SHOWN: usize = 1500;

/// A plugin that is ready to run.
pub(super) struct Plugin {
    cluster: String,
    api_version: String,
    command: String,
    args: Vec<String>,
    env: BTreeMap<String, String>,
    install_hint: Option<String>,
    /// `spec.cluster` of the request, when the kubeconfig asks to hand it over.
    cluster_info: Option<serde_json::Value>,
}

impl std::fmt::Debug for Plugin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Plugin")
            .field("command", &self.command)
            .finish_non_exhaustive()
    }
}

/// What a plugin gave.
pub(super) struct Credential {
    token: Option<SecretString>,
    certificate: Option<(String, SecretString)>,
    /// When it ends to be valid; `None`: it does not say.
    pub(super) expires_at: Option<Timestamp>,
}

impl Credential {
    /// Puts the credential where kube takes it from.
    pub(super) fn write_to(self, user: &mut AuthInfo) {
        let encode = |pem: &str| base64::engine::general_purpose::STANDARD.encode(pem);
        if let Some(token) = self.token {
            user.token = Some(token);
        }
        if let Some((certificate, key)) = self.certificate {
            use secrecy::ExposeSecret as _;
            user.client_certificate_data = Some(encode(&certificate));
            user.client_key_data = Some(SecretString::from(encode(key.expose_secret())));
        }
    }
}

#[derive(Deserialize)]
struct ExecCredential {
    status: Option<Status>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Status {
    token: Option<String>,
    client_certificate_data: Option<String>,
    client_key_data: Option<String>,
    expiration_timestamp: Option<String>,
}

impl Plugin {
    /// Checks what a kubeconfig or the provider block says.
    pub(super) fn new(cluster: &str, exec: kube::config::ExecConfig) -> Result<Self, Error> {
        let command = exec.command.unwrap_or_default();
        let api_version = exec
            .api_version
            .unwrap_or_else(|| "client.authentication.k8s.io/v1".to_owned());
        if command.is_empty() {
            return Err(Error::Configuration {
                cluster: cluster.to_owned(),
                problem: "its kubeconfig's exec has no command".to_owned(),
            });
        }
        if !matches!(
            api_version.as_str(),
            "client.authentication.k8s.io/v1" | "client.authentication.k8s.io/v1beta1"
        ) {
            return Err(Error::Configuration {
                cluster: cluster.to_owned(),
                problem: format!(
                    "exec.api_version {api_version:?} is not served any more: use client.authentication.k8s.io/v1 or .../v1beta1, and a plugin that speaks it"
                ),
            });
        }
        let env = exec
            .env
            .unwrap_or_default()
            .into_iter()
            .filter_map(|mut pair| {
                Some((
                    pair.remove("name")?,
                    pair.remove("value").unwrap_or_default(),
                ))
            })
            .collect();
        Ok(Self {
            cluster: cluster.to_owned(),
            api_version,
            command,
            args: exec.args.unwrap_or_default(),
            env,
            install_hint: exec.install_hint,
            cluster_info: exec
                .cluster
                .and_then(|info| serde_json::to_value(info).ok()),
        })
    }

    fn error(&self, problem: String) -> Error {
        Error::CredentialPlugin {
            cluster: self.cluster.clone(),
            command: self.command.clone(),
            problem,
        }
    }

    /// Runs the plugin: never interactive, without stdin, ended with all its children after `limit`.
    pub(super) async fn run(&self, limit: Duration) -> Result<Credential, Error> {
        let mut request = serde_json::json!({
            "apiVersion": self.api_version, "kind": "ExecCredential", "spec": {"interactive": false}
        });
        if let Some(info) = &self.cluster_info {
            request["spec"]["cluster"] = info.clone();
        }
        let mut command = Command::new(&self.command);
        command
            .args(&self.args)
            .envs(&self.env)
            .env("KUBERNETES_EXEC_INFO", request.to_string())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        #[cfg(unix)]
        command.process_group(0);
        let child = command.spawn().map_err(|error| {
            let hint = self.install_hint.as_deref().map(|hint| format!(" {}", hint.trim())).unwrap_or_default();
            self.error(format!("it can't be started ({error}). Install it, and make sure that it is on the PATH of Terraform itself (in CI and HCP Terraform: of the runner).{hint}"))
        })?;
        let mut group = Group(child.id());
        let Ok(output) = tokio::time::timeout(limit, child.wait_with_output()).await else {
            drop(group);
            return Err(self.error(format!(
                "it did not end within {} s and was stopped. It may be waiting for a login: log in first, outside Terraform",
                limit.as_secs()
            )));
        };
        // It ended by itself: what it left running on purpose (an agent that caches logins) is not ours to end.
        group.0 = None;
        let output = output
            .map_err(|error| self.error(format!("its output could not be read ({error})")))?;
        let stderr = self.quote(&output.stderr);
        if !output.status.success() {
            let ending = output.status.code().map_or_else(
                || "was killed by a signal".to_owned(),
                |code| format!("ended with exit code {code}"),
            );
            return Err(self.error(format!("it {ending}.{stderr}")));
        }
        // Never quote stdout: it is the secret.
        let parsed: ExecCredential = serde_json::from_slice(&output.stdout)
            .ok()
            .or_else(|| serde_saphyr::from_str(std::str::from_utf8(&output.stdout).ok()?).ok())
            .ok_or_else(|| self.error(format!("what it printed is no ExecCredential.{stderr}")))?;
        let status = parsed
            .status
            .ok_or_else(|| self.error(format!("its ExecCredential has no status.{stderr}")))?;
        let expires_at = status
            .expiration_timestamp
            .filter(|text| !text.is_empty())
            .map(|text| text.parse::<Timestamp>())
            .transpose()
            .map_err(|error| {
                self.error(format!("its expirationTimestamp is malformed ({error})"))
            })?;
        let certificate = status
            .client_certificate_data
            .zip(status.client_key_data.map(SecretString::from));
        let token = status
            .token
            .filter(|token| !token.is_empty())
            .map(SecretString::from);
        if token.is_none() && certificate.is_none() {
            return Err(self.error(format!(
                "its ExecCredential holds neither a token nor a client certificate.{stderr}"
            )));
        }
        Ok(Credential {
            token,
            certificate,
            expires_at,
        })
    }

    /// The end of stderr, without the values that were handed to the plugin.
    fn quote(&self, stderr: &[u8]) -> String {
        let mut text = String::from_utf8_lossy(stderr).trim().to_owned();
        for value in self
            .env
            .values()
            .chain(&self.args)
            .filter(|value| value.len() >= 16)
        {
            text = text.replace(value.as_str(), "(hidden)");
        }
        let shown: String = {
            let skipped = text.chars().count().saturating_sub(STDERR_SHOWN);
            text.chars().skip(skipped).collect()
        };
        if shown.is_empty() {
            " It said nothing on stderr.".to_owned()
        } else {
            format!(" On stderr it said:\n{shown}")
        }
    }
}

/// Ends every process of the plugin's group when dropped before the plugin ended: a limit or a cancellation.
struct Group(Option<u32>);

impl Drop for Group {
    fn drop(&mut self) {
        #[cfg(unix)]
        if let Some(id) = self.0 {
            // The shell's built-in `kill` reaches a whole group without unsafe code; it ends at once. A group that is
            // gone already is the normal case.
            let _ = std::process::Command::new("sh")
                .args([
                    "-c",
                    "kill -s KILL -- \"-$1\" 2>/dev/null",
                    "sh",
                    &id.to_string(),
                ])
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .status();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use secrecy::ExposeSecret as _;

    fn plugin(script: &str) -> Plugin {
        let exec = kube::config::ExecConfig {
            command: Some("sh".into()),
            args: Some(vec!["-c".into(), script.into()]),
            env: Some(vec![
                [
                    ("name".to_owned(), "PW".to_owned()),
                    ("value".to_owned(), "correct-horse-battery".to_owned()),
                ]
                .into(),
            ]),
            ..Default::default()
        };
        Plugin::new("prod", exec).unwrap()
    }

    #[tokio::test]
    async fn a_token_is_read_and_the_plugin_is_told_that_nobody_is_there() {
        let script = r#"case "$KUBERNETES_EXEC_INFO" in *'"interactive":false'*) ;; *) exit 3;; esac
            read x && exit 4
            echo '{"kind":"ExecCredential","status":{"token":"abc","expirationTimestamp":"2030-01-01T00:00:00Z"}}'"#;
        let credential = plugin(script).run(PLUGIN_LIMIT).await.unwrap();
        assert!(credential.expires_at.is_some());
        let mut user = AuthInfo::default();
        credential.write_to(&mut user);
        assert_eq!(user.token.unwrap().expose_secret(), "abc");
    }

    #[tokio::test]
    async fn a_failure_quotes_stderr_and_neither_stdout_nor_secrets() {
        let error = plugin("echo TOKEN-ON-STDOUT; echo \"no session for $PW\" >&2; exit 7")
            .run(PLUGIN_LIMIT)
            .await
            .err()
            .unwrap()
            .render();
        assert!(error.contains("exit code 7"), "{error}");
        assert!(error.contains("no session for (hidden)"), "{error}");
        assert!(!error.contains("TOKEN-ON-STDOUT"), "{error}");
        let error = plugin("echo TOKEN-ON-STDOUT")
            .run(PLUGIN_LIMIT)
            .await
            .err()
            .unwrap()
            .render();
        assert!(
            error.contains("no ExecCredential") && !error.contains("TOKEN-ON-STDOUT"),
            "{error}"
        );
    }

    #[tokio::test]
    async fn the_limit_ends_the_whole_process_tree() {
        let folder = tempfile::tempdir().unwrap();
        let mark = folder.path().join("alive");
        // A grandchild that holds stdout open and would leave a mark.
        let script = format!("(sleep 2; touch {}) & wait", mark.display());
        let started = std::time::Instant::now();
        let error = plugin(&script)
            .run(Duration::from_millis(300))
            .await
            .err()
            .unwrap()
            .to_string();
        assert!(error.contains("did not end within"), "{error}");
        assert!(started.elapsed() < Duration::from_secs(2));
        tokio::time::sleep(Duration::from_millis(2500)).await;
        assert!(!mark.exists(), "a child of the plugin lived on");
    }

    #[tokio::test]
    async fn a_missing_command_says_where_to_install_it() {
        let exec = kube::config::ExecConfig {
            command: Some("no-such-plugin".into()),
            install_hint: Some("brew install it".into()),
            ..Default::default()
        };
        let error = Plugin::new("prod", exec)
            .unwrap()
            .run(PLUGIN_LIMIT)
            .await
            .err()
            .unwrap()
            .to_string();
        assert!(
            error.contains("can't be started") && error.contains("brew install it"),
            "{error}"
        );
    }
}
