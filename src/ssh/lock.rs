//! Locks on a server, the same for every user and every machine that applies there.
//!
//! A lock is a file lock held by a process on the server. That process ends, and the lock with it, when its session ends or no heartbeat
//! arrives for [`SILENCE`]: nothing is left behind by a kill, a crash or a cut cable.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use russh::ChannelMsg;

use super::connect::Connection;
use super::error::{Result, SshError};
use super::exec::{Command, EndOnDrop, quote};
use super::scope::Scope;

/// Without a heartbeat for so long, the holder gives the lock up.
const SILENCE: Duration = Duration::from_secs(30);
/// How long the server waits at a time for a lock that is taken: a process that waits for a client that is gone lasts no longer.
const SLICE: Duration = Duration::from_secs(5);
/// Time between heartbeats.
const BEAT: Duration = Duration::from_secs(8);

/// Finds the lock file `$1`: in /run/lock where everybody may write there, else in /tmp. Made once, world-readable, opened without
/// creating, since the kernel keeps users from creating over each other's files in such directories.
macro_rules! open_lock {
    () => {
        concat!(
            r#"d=/tmp; if [ "$(stat -c %a /run/lock 2>/dev/null)" = 1777 ]; then d=/run/lock; fi; p="$d/loomplane-$1.lock"; "#,
            r#"if command -v flock >/dev/null 2>&1; then :; else echo "flock (util-linux) is not installed"; exit 69; fi; "#
        )
    };
}

/// Takes the lock within `$2` tries of 0.2 s, says `locked`, keeps it while lines arrive within `$3` s. `$4` = `own`: the file goes with the lock.
const HOLD: &str = concat!(
    open_lock!(),
    r#"if command -v timeout >/dev/null 2>&1; then :; else echo "timeout (coreutils) is not installed"; exit 69; fi; i=0; "#,
    r#"while :; do "#,
    r#"if [ -e "$p" ]; then :; else (umask 0; set -C; : > "$p") 2>/dev/null; fi; "#,
    r#"exec 9<"$p"; "#,
    r#"until flock -n 9; do i=$((i+1)); if [ "$i" -ge "$2" ]; then echo busy; exit 75; fi; sleep 0.2 || sleep 1; done; "#,
    // A cleaner may have removed the file in between: then this lock is on a file that nobody else sees.
    r#"if [ "$(stat -L -c %d:%i /proc/self/fd/9)" = "$(stat -c %d:%i "$p" 2>/dev/null)" ]; then break; fi; exec 9<&-; "#,
    r#"i=$((i+1)); if [ "$i" -ge "$2" ]; then echo busy; exit 75; fi; "#,
    r#"done; "#,
    r#"echo locked; "#,
    r#"while timeout "$3" /bin/sh -c 'read -r beat' 9<&-; do :; done; "#,
    r#"if [ "$4" = own ] && [ "$(stat -L -c %d:%i /proc/self/fd/9)" = "$(stat -c %d:%i "$p" 2>/dev/null)" ]; then rm -f "$p"; fi; exit 0"#
);

/// Says `held` or `free`.
const ASK: &str = concat!(
    open_lock!(),
    r#"if [ -e "$p" ]; then :; else echo free; exit 0; fi; exec 9<"$p"; if flock -n 9; then echo free; else echo held; fi"#
);

/// What a lock is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LockName<'a> {
    /// Handing out devices on the server.
    Devices,
    /// The life of one run on the server: whether an unfinished container has somebody at work on it.
    Run(&'a str),
}

impl LockName<'_> {
    fn file(self) -> String {
        match self {
            Self::Devices => "devices".to_owned(),
            Self::Run(run) => format!("run-{run}"),
        }
    }
}

/// A lock that is held until this is dropped.
pub(crate) struct RemoteLock {
    held: Arc<AtomicBool>,
    task: tokio::task::JoinHandle<()>,
}

impl std::fmt::Debug for RemoteLock {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RemoteLock")
            .field("held", &self.is_held())
            .finish_non_exhaustive()
    }
}

impl RemoteLock {
    /// Takes the lock; waits for at most `patience`. `None` when another holder kept it all that time.
    pub(crate) async fn acquire(
        connection: &Arc<Connection>,
        name: LockName<'_>,
        patience: Duration,
        scope: &Scope,
    ) -> Result<Option<Self>> {
        let what = format!("taking the lock {}", name.file());
        let started = tokio::time::Instant::now();
        loop {
            let slice = SLICE.min(patience);
            if let Some(lock) = scope
                .run(
                    &connection.server,
                    &what,
                    Self::take(connection, name, slice, &what),
                )
                .await?
            {
                return Ok(Some(lock));
            }
            if started.elapsed() + slice > patience {
                return Ok(None);
            }
        }
    }

    async fn take(
        connection: &Arc<Connection>,
        name: LockName<'_>,
        patience: Duration,
        what: &str,
    ) -> Result<Option<Self>> {
        let tries = (patience.as_millis() / 200).max(1).to_string();
        let silence = SILENCE.as_secs().to_string();
        let own = if matches!(name, LockName::Run(_)) {
            "own"
        } else {
            "shared"
        };
        let line = quote(
            what,
            &[
                "/bin/sh",
                "-c",
                HOLD,
                "loomplane",
                &name.file(),
                &tries,
                &silence,
                own,
            ],
        )?;
        let channel = connection.session_beyond_limit(what).await?;
        let (mut read, write) = channel.split();
        let guard = EndOnDrop(Some(write));
        let lost = |source| connection.lost(what, Some(source));
        let Some(write) = guard.0.as_ref() else {
            return Err(connection.lost(what, None));
        };
        write.exec(true, line).await.map_err(lost)?;
        let mut said = String::new();
        let mut status = None;
        loop {
            match read.wait().await {
                Some(ChannelMsg::Data { data } | ChannelMsg::ExtendedData { data, .. }) => {
                    said.push_str(&String::from_utf8_lossy(&data));
                    if said.lines().any(|line| line == "locked") {
                        break;
                    }
                }
                Some(ChannelMsg::ExitStatus { exit_status }) => status = Some(exit_status),
                Some(ChannelMsg::Close) | None => {
                    return match status {
                        Some(75) => Ok(None),
                        None => Err(connection.lost(what, None)),
                        Some(status) => Err(SshError::Lock {
                            server: connection.server.clone(),
                            reason: format!("{} (exit status {status})", said.trim()),
                        }),
                    };
                }
                Some(_) => {}
            }
        }
        let held = Arc::new(AtomicBool::new(true));
        let task = tokio::spawn({
            let held = held.clone();
            async move {
                let guard = guard;
                let mut beat = tokio::time::interval(BEAT);
                while let Some(write) = guard.0.as_ref() {
                    tokio::select! {
                        _ = beat.tick() => if write.data_bytes(&b"\n"[..]).await.is_err() { break },
                        message = read.wait() => if matches!(message, None | Some(ChannelMsg::Close | ChannelMsg::ExitStatus { .. })) { break },
                    }
                }
                held.store(false, Ordering::Release);
            }
        });
        Ok(Some(Self { held, task }))
    }

    /// Whether the holder is known to be at its post.
    pub(crate) fn is_held(&self) -> bool {
        self.held.load(Ordering::Acquire)
    }
}

impl Drop for RemoteLock {
    fn drop(&mut self) {
        // Ends the task, which drops the session, which ends the holder.
        self.task.abort();
    }
}

/// Whether run `run` is still at work on the server.
pub(crate) async fn run_is_alive(
    connection: &Arc<Connection>,
    run: &str,
    limit: Duration,
    scope: &Scope,
) -> Result<bool> {
    if run.is_empty() || !run.chars().all(|c| c.is_ascii_alphanumeric() || c == '-') {
        // Not a name of ours: nobody can be holding it.
        return Ok(false);
    }
    let output = Command::script(
        "asking whether a run is alive",
        limit,
        ASK,
        &[&LockName::Run(run).file()],
    )
    .run(connection, scope)
    .await?;
    match output.stdout.trim() {
        "held" => Ok(true),
        "free" => Ok(false),
        _ => Err(SshError::Lock {
            server: connection.server.clone(),
            reason: output.outcome(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufRead, BufReader, Write};
    use std::process::{Child, ChildStdout, Stdio};
    use std::time::Instant;

    struct Holder {
        child: Child,
        output: BufReader<ChildStdout>,
    }

    /// Runs the holder's script here, as a session would; returns its first line too.
    fn holder(lock: &str, tries: u32, silence: u32) -> (Holder, String) {
        let mut child = std::process::Command::new("/bin/sh")
            .args([
                "-c",
                HOLD,
                "loomplane",
                lock,
                &tries.to_string(),
                &silence.to_string(),
                "own",
            ])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        output.read_line(&mut line).unwrap();
        (Holder { child, output }, line.trim().to_owned())
    }

    fn asked(lock: &str) -> String {
        let output = std::process::Command::new("/bin/sh")
            .args(["-c", ASK, "loomplane", lock])
            .output()
            .unwrap();
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    }

    fn name(test: &str) -> String {
        format!("test-{test}-{}", std::process::id())
    }

    #[test]
    fn s3_a_lock_has_one_holder_and_goes_with_its_input() {
        let lock = name("one");
        let (mut first, said) = holder(&lock, 1, 30);
        assert_eq!((said.as_str(), asked(&lock).as_str()), ("locked", "held"));
        let (mut second, said) = holder(&lock, 2, 30);
        assert_eq!(said, "busy");
        assert_eq!(second.child.wait().unwrap().code(), Some(75));
        // Beats keep it, their end frees it.
        for _ in 0..3 {
            first
                .child
                .stdin
                .as_mut()
                .unwrap()
                .write_all(b"\n")
                .unwrap();
        }
        assert_eq!(asked(&lock), "held");
        drop(first.child.stdin.take());
        assert!(first.child.wait().unwrap().success());
        assert_eq!(asked(&lock), "free");
    }

    #[test]
    fn s3_a_holder_that_hears_nothing_gives_up_though_its_session_is_open() {
        let lock = name("silence");
        let started = Instant::now();
        let (mut holder, said) = holder(&lock, 1, 1);
        assert_eq!(said, "locked");
        // Held open: waiting for a child closes its input otherwise.
        let _open = holder.child.stdin.take();
        assert!(holder.child.wait().unwrap().success());
        assert!(
            started.elapsed() >= Duration::from_secs(1)
                && started.elapsed() < Duration::from_secs(10)
        );
        assert_eq!(asked(&lock), "free");
        let mut rest = String::new();
        assert_eq!(holder.output.read_line(&mut rest).unwrap(), 0);
    }

    #[test]
    fn s3_a_killed_holder_frees_the_lock() {
        let lock = name("killed");
        let (mut holder, said) = holder(&lock, 1, 30);
        assert_eq!(said, "locked");
        holder.child.kill().unwrap();
        holder.child.wait().unwrap();
        assert_eq!(asked(&lock), "free");
        for folder in ["/run/lock", "/tmp"] {
            let _ = std::fs::remove_file(format!("{folder}/loomplane-{lock}.lock"));
        }
    }

    #[test]
    fn s3_who_waited_for_a_file_that_a_cleaner_removed_takes_the_new_one() {
        let lock = name("cleaned");
        let (mut first, said) = holder(&lock, 1, 30);
        assert_eq!(said, "locked");
        let (send, waited) = std::sync::mpsc::channel();
        std::thread::spawn({
            let lock = lock.clone();
            move || send.send(holder(&lock, 100, 30))
        });
        // It waits on the first one's file by now.
        assert!(waited.recv_timeout(Duration::from_millis(700)).is_err());
        for folder in ["/run/lock", "/tmp"] {
            let _ = std::fs::remove_file(format!("{folder}/loomplane-{lock}.lock"));
        }
        let (mut third, said) = holder(&lock, 1, 30);
        assert_eq!(said, "locked");
        drop(first.child.stdin.take());
        assert!(
            waited.recv_timeout(Duration::from_secs(1)).is_err(),
            "the removed file's lock counts for nothing"
        );
        drop(third.child.stdin.take());
        let (mut second, said) = waited.recv_timeout(Duration::from_secs(10)).unwrap();
        assert_eq!(said, "locked");
        drop(second.child.stdin.take());
        for holder in [&mut first, &mut second, &mut third] {
            assert!(holder.child.wait().unwrap().success());
        }
    }

    #[test]
    fn a_run_with_a_strange_name_is_not_asked_for() {
        assert_eq!(LockName::Run("0123-1").file(), "run-0123-1");
        assert_eq!(LockName::Devices.file(), "devices");
    }
}
