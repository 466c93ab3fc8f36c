//! Keys and an agent, made by OpenSSH's own tools.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A key pair in files.
#[derive(Clone)]
pub struct Key {
    /// The private key; its public half is beside it.
    pub path: PathBuf,
}

impl Key {
    /// Makes one of a type that ssh-keygen knows, encrypted when there is a passphrase.
    pub fn make(dir: &Path, name: &str, kind: &str, passphrase: Option<&str>) -> Self {
        let path = dir.join(name);
        let done = Command::new("/usr/bin/ssh-keygen")
            .args([
                "-q",
                "-t",
                kind,
                "-N",
                passphrase.unwrap_or_default(),
                "-C",
                "test",
                "-f",
            ])
            .arg(&path)
            .stdin(Stdio::null())
            .output()
            .unwrap();
        assert!(
            done.status.success(),
            "{}",
            String::from_utf8_lossy(&done.stderr)
        );
        Self { path }
    }

    /// The line for authorized_keys.
    pub fn public(&self) -> String {
        fs::read_to_string(self.path.with_extension("pub")).unwrap()
    }

    /// The private key's text.
    pub fn text(&self) -> String {
        fs::read_to_string(&self.path).unwrap()
    }
}

/// A running ssh-agent.
pub struct Agent {
    /// Its socket.
    pub socket: PathBuf,
    child: Child,
}

impl Agent {
    /// Starts one that holds `keys`.
    pub fn start(dir: &Path, keys: &[&Key]) -> Self {
        let socket = dir.join("agent.sock");
        let child = Command::new("/usr/bin/ssh-agent")
            .arg("-D")
            .arg("-a")
            .arg(&socket)
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let started = Instant::now();
        while !socket.exists() {
            assert!(
                started.elapsed() < Duration::from_secs(5),
                "ssh-agent did not start"
            );
            std::thread::sleep(Duration::from_millis(10));
        }
        for key in keys {
            let done = Command::new("/usr/bin/ssh-add")
                .arg(&key.path)
                .env("SSH_AUTH_SOCK", &socket)
                .stderr(Stdio::null())
                .status()
                .unwrap();
            assert!(done.success());
        }
        Self { socket, child }
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
