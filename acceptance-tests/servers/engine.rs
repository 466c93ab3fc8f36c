//! A Docker Engine of its own folder, started by hand, with a stand-in for the toolkit's hook on its PATH unless told otherwise.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use super::write_script;
use crate::parts::cannot_start;

/// Image with busybox; sleeps for long by default.
pub const IMAGE: &str = "loomplane-test:1";
/// The same under another name and id.
pub const OTHER_IMAGE: &str = "loomplane-test:2";

/// A running engine. Dropping it stops it and its containers.
pub struct Engine {
    dir: tempfile::TempDir,
    shell: Child,
}

impl Engine {
    /// Starts one that can hand out GPUs, with the test images.
    pub fn start() -> Option<Arc<Self>> {
        Self::start_with(true, &[])
    }

    /// One for all tests that don't mind other containers; stays until this process ends.
    pub fn shared() -> Option<Arc<Self>> {
        static SHARED: OnceLock<Option<Arc<Engine>>> = OnceLock::new();
        SHARED.get_or_init(Self::start).clone()
    }

    /// Starts one, with or without the hook, with further arguments for dockerd.
    pub fn start_with(hook: bool, arguments: &[&str]) -> Option<Arc<Self>> {
        if !super::possible() {
            return None;
        }
        for tool in ["/usr/sbin/dockerd", "/usr/bin/busybox"] {
            if !Path::new(tool).exists() {
                cannot_start(
                    "a Docker Engine",
                    &format!(
                        "{tool} is missing (apt-get install --no-install-recommends docker.io iptables busybox-static)"
                    ),
                );
                return None;
            }
        }
        let dir = tempfile::Builder::new()
            .prefix("loomplane-engine-")
            .tempdir()
            .unwrap();
        fs::set_permissions(
            dir.path(),
            std::os::unix::fs::PermissionsExt::from_mode(0o711),
        )
        .unwrap();
        if hook {
            write_script(
                &dir.path().join("bin/nvidia-container-runtime-hook"),
                "cat >/dev/null; exit 0",
            );
        }
        let shown = dir.path().display();
        // Ends with the pipe. A mount namespace keeps its mounts from outliving it; a network namespace gives it a bridge of its own.
        let script = format!(
            "PATH={shown}/bin:/usr/sbin:/usr/bin:/sbin:/bin; export PATH; busybox ip link set lo up; \
             dockerd --data-root {shown}/data --exec-root {shown}/exec --pidfile {shown}/pid -H unix://{shown}/docker.sock \
             --iptables=false --ip6tables=false --group root {} & p=$!; cat >/dev/null; kill -TERM $p; wait $p; rm -rf {shown}/data {shown}/exec {shown}/image",
            arguments.join(" ")
        );
        let log = fs::File::create(dir.path().join("log")).unwrap();
        let shell = Command::new("/usr/bin/unshare")
            .args([
                "--mount",
                "--net",
                "--propagation",
                "private",
                "/bin/sh",
                "-c",
                &script,
            ])
            .stdin(Stdio::piped())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .unwrap();
        let mut engine = Self { dir, shell };
        if let Err(why) = engine.wait_until_up() {
            cannot_start("a Docker Engine", &why);
            return None;
        }
        engine.import(IMAGE);
        engine.import(OTHER_IMAGE);
        Some(Arc::new(engine))
    }

    fn wait_until_up(&mut self) -> Result<(), String> {
        let started = Instant::now();
        loop {
            if self.try_docker(&["version"]).is_some() {
                return Ok(());
            }
            if started.elapsed() > Duration::from_secs(60)
                || !matches!(self.shell.try_wait(), Ok(None))
            {
                let log = fs::read_to_string(self.dir.path().join("log")).unwrap_or_default();
                let last: Vec<&str> = log.lines().rev().take(3).collect();
                return Err(format!("dockerd did not come up: {}", last.join(" / ")));
            }
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    /// Its socket.
    pub fn socket(&self) -> PathBuf {
        self.dir.path().join("docker.sock")
    }

    fn try_docker(&self, arguments: &[&str]) -> Option<String> {
        let socket = format!("unix://{}", self.socket().display());
        let output = Command::new("docker")
            .args(["-H", &socket])
            .args(arguments)
            .stdin(Stdio::null())
            .output()
            .unwrap();
        output
            .status
            .success()
            .then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
    }

    /// What a person would do by hand on the server. Panics when it fails.
    pub fn docker(&self, arguments: &[&str]) -> String {
        self.try_docker(arguments)
            .unwrap_or_else(|| panic!("docker {arguments:?} failed"))
    }

    /// Names of all containers.
    pub fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = self
            .docker(&["ps", "-a", "--format", "{{.Names}}"])
            .lines()
            .map(str::to_owned)
            .collect();
        names.sort();
        names
    }

    /// A field of `docker inspect`.
    pub fn inspect(&self, name: &str, format: &str) -> String {
        self.docker(&["inspect", "--format", format, name])
    }

    /// Imports the test image under `name`.
    pub fn import(&self, name: &str) {
        let root = self.dir.path().join("image");
        if !root.exists() {
            fs::create_dir_all(root.join("bin")).unwrap();
            fs::create_dir_all(root.join("tmp")).unwrap();
            fs::copy("/usr/bin/busybox", root.join("bin/busybox")).unwrap();
            for applet in [
                "sh", "sleep", "cat", "echo", "wget", "httpd", "env", "ls", "true", "false",
                "touch", "test",
            ] {
                std::os::unix::fs::symlink("busybox", root.join("bin").join(applet)).unwrap();
            }
        }
        let socket = format!("unix://{}", self.socket().display());
        let line = format!(
            "tar -C {} -c . | docker -H {socket} import -c 'CMD [\"/bin/sleep\",\"1000000\"]' -c 'ENV FROM_IMAGE=yes PATH=/bin' -m {name} - {name}",
            root.display()
        );
        let done = Command::new("/bin/sh")
            .args(["-c", &line])
            .stdin(Stdio::null())
            .output()
            .unwrap();
        assert!(
            done.status.success(),
            "{}",
            String::from_utf8_lossy(&done.stderr)
        );
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        // Containers first, so that no shim outlives the engine.
        if let Some(ids) = self.try_docker(&["ps", "-aq"])
            && !ids.is_empty()
        {
            let mut arguments = vec!["rm", "-f"];
            arguments.extend(ids.lines());
            let _ = self.try_docker(&arguments);
        }
        drop(self.shell.stdin.take());
        let started = Instant::now();
        while matches!(self.shell.try_wait(), Ok(None))
            && started.elapsed() < Duration::from_secs(20)
        {
            std::thread::sleep(Duration::from_millis(50));
        }
        let _ = self.shell.kill();
        let _ = self.shell.wait();
    }
}
