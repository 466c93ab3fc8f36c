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
             --iptables=false --ip6tables=false --group root {} & p=$!; cat >/dev/null; kill -TERM $p; wait $p; rm -rf {shown}",
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

    /// UUIDs that all containers were given, one by one. A container that is removed meanwhile has none.
    pub fn devices(&self) -> Vec<String> {
        let format = "{{range .HostConfig.DeviceRequests}}{{range .DeviceIDs}}{{.}} {{end}}{{end}}";
        let names = self.names();
        let found = names
            .iter()
            .filter_map(|name| self.try_docker(&["inspect", "--format", format, name]));
        found
            .flat_map(|ids| {
                ids.split_whitespace()
                    .map(str::to_owned)
                    .collect::<Vec<_>>()
            })
            .collect()
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

/// An image registry on 127.0.0.1 of an engine's network, with the test image in it. Dropping it stops it.
pub struct Registry {
    child: Child,
    /// Its `host:port`, as the engine sees it.
    pub host: String,
}

impl Engine {
    /// Starts a registry beside the engine; `login` makes it ask for that name and password.
    pub fn registry(&self, login: Option<(&str, &str)>) -> Option<Registry> {
        if !Path::new("/usr/bin/docker-registry").exists() {
            cannot_start(
                "an image registry",
                "docker-registry is missing (apt-get install --no-install-recommends docker-registry)",
            );
            return None;
        }
        let host = format!("127.0.0.1:{}", super::free_port());
        let dir = self.dir.path().join(format!(
            "registry-{}",
            host.len() + usize::from(login.is_some())
        ));
        fs::create_dir_all(&dir).unwrap();
        let mut config = format!(
            "version: 0.1\nlog: {{level: error}}\nstorage: {{filesystem: {{rootdirectory: {}}}}}\nhttp: {{addr: '{host}'}}\n",
            dir.display()
        );
        if let Some((user, password)) = login {
            // bcrypt of libcrypt, through Perl, which every Debian has.
            let script = format!("print crypt('{password}', '$2b$05$abcdefghijklmnopqrstuu')");
            let hash = Command::new("perl")
                .args(["-e", &script])
                .output()
                .unwrap()
                .stdout;
            let line = format!("{user}:{}\n", String::from_utf8(hash).unwrap());
            fs::write(dir.join("htpasswd"), line.replace("$2b$", "$2y$")).unwrap();
            config.push_str(&format!(
                "auth: {{htpasswd: {{realm: test, path: {}/htpasswd}}}}\n",
                dir.display()
            ));
        }
        fs::write(dir.join("config.yml"), config).unwrap();
        let child = self
            .nsenter()
            .args(["/usr/bin/docker-registry", "serve"])
            .arg(dir.join("config.yml"))
            .stdout(Stdio::null())
            .stderr(fs::File::create(dir.join("log")).unwrap())
            .spawn()
            .unwrap();
        let registry = Registry { child, host };
        let image = format!("{}/team/app:1", registry.host);
        self.docker(&["tag", IMAGE, &image]);
        if let Some((user, password)) = login {
            fs::create_dir_all(dir.join("client")).unwrap();
            let auth = {
                let done = Command::new("perl")
                    .args([
                        "-MMIME::Base64",
                        "-e",
                        &format!("print encode_base64('{user}:{password}', '')"),
                    ])
                    .output()
                    .unwrap();
                String::from_utf8(done.stdout).unwrap()
            };
            let text = format!(
                "{{\"auths\": {{\"{}\": {{\"auth\": \"{auth}\"}}}}}}",
                registry.host
            );
            fs::write(dir.join("client/config.json"), text).unwrap();
        }
        let client = dir.join("client").display().to_string();
        let started = Instant::now();
        while self
            .try_docker(&["--config", &client, "push", &image])
            .is_none()
        {
            assert!(
                started.elapsed() < Duration::from_secs(20),
                "the registry takes no image"
            );
            std::thread::sleep(Duration::from_millis(200));
        }
        self.docker(&["rmi", &image]);
        Some(registry)
    }

    /// A command in the engine's network.
    fn nsenter(&self) -> Command {
        let mut command = Command::new("/usr/bin/nsenter");
        command
            .args([
                "--net",
                "-t",
                &self.shell.id().to_string(),
                "/usr/bin/setpriv",
                "--pdeathsig",
                "KILL",
            ])
            .stdin(Stdio::null());
        command
    }
}

impl Drop for Registry {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
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
