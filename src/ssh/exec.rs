//! Commands on a server: every word quoted, output capped, time limited on both sides.

use std::sync::Arc;
use std::time::Duration;

use russh::client::Msg;
use russh::{ChannelMsg, ChannelWriteHalf};

use super::connect::{Connection, Stream};
use super::error::{Result, SshError};
use super::scope::Scope;

/// What the server needs beyond its own limit to report the end.
const REPORT: Duration = Duration::from_secs(5);
/// Most bytes kept of each of stdout and stderr; the rest is read and dropped.
const OUTPUT_CAP: usize = 1 << 20;

/// Sets up what a non-login shell may lack, then runs its arguments until they end, their time is up, or its own input ends: that is how our
/// side says stop, since sshd passes no signals on for root and none beyond a process group. The server's own PATH comes first.
/// One line without `!`, for the sake of login shells that are not POSIX; the arguments are never parsed again.
const LIMITED: &str = concat!(
    r#"PATH="$PATH:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/usr/lib/wsl/lib:/opt/bin:/snap/bin:/run/current-system/sw/bin"; "#,
    r#"LC_ALL=C; export PATH LC_ALL; n=$1; shift; c=; "#,
    r#"if command -v timeout >/dev/null 2>&1; then set -- timeout -k 2 "$n" "$@"; else c=1; fi; "#,
    r#"exec 3<&0; "$@" </dev/null 3<&- & p=$!; "#,
    r#"(read -r stop <&3; kill -TERM -$p || kill $p) >/dev/null 2>&1 & w=$!; exec 3<&-; "#,
    r#"k=; if [ -n "$c" ]; then (sleep "$n"; kill -9 $p) </dev/null >/dev/null 2>&1 & k=$!; fi; "#,
    r#"wait $p; s=$?; kill $w $k 2>/dev/null; exit $s"#
);

/// The same without a limit, for what ends when its input does.
const UNLIMITED: &str = concat!(
    r#"PATH="$PATH:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/opt/bin:/snap/bin:/run/current-system/sw/bin"; "#,
    r#"export PATH; exec "$@""#
);

/// A command: words, not text.
#[derive(Debug, Clone)]
pub(crate) struct Command {
    what: String,
    words: Vec<String>,
    limit: Duration,
}

/// How a command ended.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Output {
    /// Exit status; none when a signal ended it.
    pub(crate) status: Option<u32>,
    /// The signal, if one ended it.
    pub(crate) signal: Option<String>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    /// Ended by its time limit.
    pub(crate) timed_out: bool,
    /// More was printed than kept.
    pub(crate) truncated: bool,
}

impl Output {
    /// Exit status 0.
    pub(crate) fn ok(&self) -> bool {
        self.status == Some(0)
    }

    /// Status and last words, for a message.
    pub(crate) fn outcome(&self) -> String {
        let end = match (self.timed_out, self.status, &self.signal) {
            (true, ..) => "it ran into its time limit".to_owned(),
            (_, Some(status), _) => format!("exit status {status}"),
            (_, None, Some(signal)) => format!("ended by signal {signal}"),
            _ => "it ended without a status".to_owned(),
        };
        let said = if self.stderr.trim().is_empty() {
            &self.stdout
        } else {
            &self.stderr
        };
        let last: Vec<&str> = said.trim().lines().rev().take(3).collect();
        let last: Vec<&str> = last.into_iter().rev().collect();
        if last.is_empty() {
            end
        } else {
            format!("{end}: {}", last.join(" / "))
        }
    }
}

impl Command {
    /// `words` as they shall arrive in the program's arguments, the first being the program.
    pub(crate) fn new(
        what: impl Into<String>,
        limit: Duration,
        words: impl IntoIterator<Item = impl Into<String>>,
    ) -> Self {
        Self {
            what: what.into(),
            words: words.into_iter().map(Into::into).collect(),
            limit,
        }
    }

    /// A script of ours, run by `/bin/sh`; `arguments` are its `$1`, `$2`, ... and never part of its text.
    pub(crate) fn script(
        what: impl Into<String>,
        limit: Duration,
        script: &'static str,
        arguments: &[&str],
    ) -> Self {
        let mut words = vec!["/bin/sh", "-c", script, "loomplane"];
        words.extend(arguments);
        Self::new(what, limit, words)
    }

    /// What the remote login shell is given.
    pub(crate) fn line(&self) -> Result<String> {
        let seconds = self.limit.as_secs().max(1).to_string();
        let mut words = vec!["/bin/sh", "-c", LIMITED, "loomplane", &seconds];
        words.extend(self.words.iter().map(String::as_str));
        quote(&self.what, &words)
    }

    /// Runs it to its end. The server ends it at its limit; when that report does not come, or `scope` ends, we end the session.
    pub(crate) async fn run(&self, connection: &Arc<Connection>, scope: &Scope) -> Result<Output> {
        let line = self.line()?;
        scope
            .run(
                &connection.server,
                &self.what,
                self.run_line(connection, line),
            )
            .await
    }

    async fn run_line(&self, connection: &Arc<Connection>, line: String) -> Result<Output> {
        let session = connection.session(&self.what).await?;
        let _place = session.permit;
        let (mut read, write) = session.channel.split();
        let guard = EndOnDrop(Some(write));
        let lost = |source| connection.lost(&self.what, Some(source));
        let Some(write) = guard.0.as_ref() else {
            return Err(connection.lost(&self.what, None));
        };
        write.exec(true, line).await.map_err(lost)?;
        // Its input stays open: the end of it, by the channel's end if need be, is what stops the other side.
        let mut output = Output::default();
        let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
        let limit = self.limit + REPORT;
        let ended = tokio::time::timeout(limit, async {
            while let Some(message) = read.wait().await {
                match message {
                    ChannelMsg::Data { data } => output.truncated |= keep(&mut stdout, &data),
                    ChannelMsg::ExtendedData { data, ext: 1 } => {
                        output.truncated |= keep(&mut stderr, &data)
                    }
                    ChannelMsg::ExitStatus { exit_status } => output.status = Some(exit_status),
                    ChannelMsg::ExitSignal { signal_name, .. } => {
                        output.signal = Some(format!("{signal_name:?}"))
                    }
                    ChannelMsg::Failure => return Err(()),
                    ChannelMsg::Close => break,
                    _ => {}
                }
            }
            Ok(())
        })
        .await;
        output.stdout = String::from_utf8_lossy(&stdout).into_owned();
        output.stderr = String::from_utf8_lossy(&stderr).into_owned();
        match ended {
            Err(_) => output.timed_out = true,
            Ok(Err(())) => {
                return Err(SshError::Command {
                    server: connection.server.clone(),
                    what: self.what.clone(),
                    outcome: "the server refuses to run commands for this user".to_owned(),
                });
            }
            Ok(Ok(())) if output.status.is_none() && output.signal.is_none() => {
                return Err(connection.lost(&self.what, None));
            }
            // 124: ended by the limit; 137 and KILL: it needed the second, harder signal.
            Ok(Ok(())) => {
                output.timed_out = matches!(output.status, Some(124 | 137))
                    || output.signal.as_deref() == Some("KILL")
            }
        }
        Ok(output)
    }
}

/// Starts `words` and connects to its stdin and stdout. It must end when its stdin does.
pub(crate) async fn stream(connection: &Connection, what: &str, words: &[&str]) -> Result<Stream> {
    let mut all = vec!["/bin/sh", "-c", UNLIMITED, "loomplane"];
    all.extend(words);
    let line = quote(what, &all)?;
    // Long-lived, like a lock's holder; pooled by its user, so there are few.
    let channel = connection.session_beyond_limit(what).await?;
    channel
        .exec(true, line)
        .await
        .map_err(|source| connection.lost(what, Some(source)))?;
    Ok(channel.into_stream())
}

/// Joins words so that a POSIX shell, bash, zsh or fish hands them on unchanged.
pub(crate) fn quote(what: &str, words: &[&str]) -> Result<String> {
    shlex::try_join(words.iter().copied()).map_err(|_| SshError::Refused {
        what: what.to_owned(),
        reason: "it holds a NUL character, which no command can be given".to_owned(),
    })
}

/// Appends up to the cap; says whether something was dropped.
fn keep(buffer: &mut Vec<u8>, data: &[u8]) -> bool {
    let room = OUTPUT_CAP.saturating_sub(buffer.len()).min(data.len());
    buffer.extend_from_slice(&data[..room]);
    room < data.len()
}

/// Ends the remote side when the future that waits for it is dropped: with the channel its input ends, which what runs there takes for a stop.
pub(crate) struct EndOnDrop(pub(crate) Option<ChannelWriteHalf<Msg>>);

impl Drop for EndOnDrop {
    fn drop(&mut self) {
        if let (Some(write), Ok(runtime)) = (self.0.take(), tokio::runtime::Handle::try_current()) {
            runtime.spawn(async move {
                // The session may be over already: then this does nothing.
                let _ = write.close().await;
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn arrives_intact(shell: &str, word: &str) {
        let line = quote("test", &["printf", "%s", word]).unwrap();
        let output = std::process::Command::new(shell)
            .arg("-c")
            .arg(&line)
            .output()
            .unwrap();
        assert_eq!(output.stdout, word.as_bytes(), "{shell}: {line}");
    }

    /// Runs a line with its input held open, as a session does.
    fn shell(line: &str) -> std::process::Output {
        let mut command = std::process::Command::new("/bin/sh");
        command
            .arg("-c")
            .arg(line)
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::piped());
        let mut child = command.spawn().unwrap();
        let _open = child.stdin.take();
        child.wait_with_output().unwrap()
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]
        #[test]
        fn s4_any_word_arrives_intact_in_a_real_shell(word in "[^\0]{0,24}") {
            arrives_intact("/bin/sh", &word);
        }

        #[test]
        fn s4_words_of_shell_signs_arrive_intact(word in "[$`'\"\\\\!;&|<>(){}*?~#^ \n\t-]{1,16}") {
            arrives_intact("/bin/sh", &word);
            arrives_intact("bash", &word);
        }

        #[test]
        fn s4_the_wrapped_line_hands_words_on(words in proptest::collection::vec("[^\0]{0,8}", 1..4)) {
            let mut all = vec!["printf".to_owned(), "%s|".to_owned()];
            all.extend(words.iter().cloned());
            let line = Command::new("test", Duration::from_secs(5), all).line().unwrap();
            let output = shell(&line);
            let want: String = words.iter().map(|word| format!("{word}|")).collect();
            prop_assert_eq!(output.stdout, want.into_bytes());
        }
    }

    #[test]
    fn s4_nothing_is_executed_by_a_hostile_word() {
        for word in [
            "$(touch /tmp/loomplane-owned)",
            "`touch /tmp/loomplane-owned`",
            "';touch /tmp/loomplane-owned;'",
            "\n touch /tmp/loomplane-owned\n",
        ] {
            arrives_intact("/bin/sh", word);
        }
        assert!(!std::path::Path::new("/tmp/loomplane-owned").exists());
    }

    #[test]
    fn s4_nul_is_refused() {
        let error = quote("name", &["a\0b"]).unwrap_err();
        assert!(error.to_string().contains("NUL"), "{error}");
    }

    #[test]
    fn the_limit_ends_the_command_and_its_children() {
        let line = Command::new(
            "test",
            Duration::from_secs(1),
            ["sh", "-c", "sleep 47 & sleep 47"],
        )
        .line()
        .unwrap();
        let started = std::time::Instant::now();
        assert_eq!(shell(&line).status.code(), Some(124));
        assert!(started.elapsed() < Duration::from_secs(4));
    }

    #[test]
    fn the_end_of_its_input_ends_the_command() {
        let line = Command::new("test", Duration::from_secs(60), ["sleep", "48"])
            .line()
            .unwrap();
        let started = std::time::Instant::now();
        // Standard input is empty here, so it ends at once.
        let output = std::process::Command::new("/bin/sh")
            .arg("-c")
            .arg(&line)
            .output()
            .unwrap();
        assert!(!output.status.success());
        assert!(started.elapsed() < Duration::from_secs(10));
    }

    #[test]
    fn the_output_is_capped() {
        let mut buffer = vec![0; OUTPUT_CAP - 2];
        assert!(!keep(&mut buffer, b"ab"));
        assert!(keep(&mut buffer, b"c"));
        assert_eq!(buffer.len(), OUTPUT_CAP);
    }

    #[test]
    fn the_outcome_keeps_stdout_when_stderr_is_empty() {
        let output = Output {
            status: Some(9),
            stdout: "NVIDIA-SMI has failed\n".to_owned(),
            ..Output::default()
        };
        assert_eq!(output.outcome(), "exit status 9: NVIDIA-SMI has failed");
    }
}
