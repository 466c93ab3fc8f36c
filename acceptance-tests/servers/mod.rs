//! Simulated GPU servers on loopback: a real sshd and a real Docker Engine each, a stand-in `nvidia-smi` that replays what it is told.
//!
//! Every server has a mount and a process namespace of its own, so it has its own machine-id, PCI bus, accounts, lock files and socket, and
//! nothing of it outlives the test: whatever ends this process also ends them (their shells wait for the end of a pipe that it holds).
//! Needs root, sshd and dockerd; says so in one line where it lacks them.

mod engine;
mod keys;
mod smi;

use std::fs;
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

pub use engine::{Engine, IMAGE, OTHER_IMAGE};
pub use keys::{Agent, Key};
pub use smi::{Smi, row, uuid};

use crate::parts::cannot_start;

/// What a server shall be.
#[derive(Clone)]
pub struct Options {
    /// Its engine; none for a server without Docker.
    pub engine: Option<Arc<Engine>>,
    /// NVIDIA cards, both on the PCI bus and in `nvidia-smi`.
    pub cards: usize,
    /// Whether the toolkit's hook is on the server's PATH (whether the engine has it is the engine's own).
    pub hook: bool,
    /// Whether sshd forwards Unix sockets.
    pub forwarding: bool,
    /// Further lines for sshd_config.
    pub sshd: String,
    /// Where `nvidia-smi` is: first on the PATH, or only in /usr/local/bin with a PATH that lacks it.
    pub smi_off_path: bool,
    /// `uname -m`, where it shall not be the machine's.
    pub arch: Option<&'static str>,
    /// sudoers line for the user `ops`.
    pub sudoers: Option<&'static str>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            engine: None,
            cards: 2,
            hook: true,
            forwarding: true,
            sshd: String::new(),
            smi_off_path: false,
            arch: None,
            sudoers: None,
        }
    }
}

/// A running server. Dropping it stops it.
pub struct Server {
    dir: tempfile::TempDir,
    /// Its sshd on 127.0.0.1.
    pub port: u16,
    /// Logs in as root or ops.
    pub key: Key,
    /// What `nvidia-smi` says.
    pub smi: Smi,
    /// Its engine.
    pub engine: Option<Arc<Engine>>,
    shell: Child,
}

/// Whether servers can be simulated here; says why not otherwise.
pub fn possible() -> bool {
    let root = fs::read_to_string("/proc/self/status")
        .is_ok_and(|status| status.lines().any(|line| line.starts_with("Uid:\t0\t")));
    if !root {
        cannot_start("simulated servers", "not root");
        return false;
    }
    for tool in ["/usr/sbin/sshd", "/usr/bin/unshare", "/usr/bin/ssh-keygen"] {
        if !Path::new(tool).exists() {
            cannot_start(
                "simulated servers",
                &format!(
                    "{tool} is missing (apt-get install --no-install-recommends openssh-server)"
                ),
            );
            return false;
        }
    }
    true
}

impl Server {
    /// Starts one. `None` after a line that says why it can't.
    pub fn start(options: Options) -> Option<Self> {
        if !possible() {
            return None;
        }
        let dir = tempfile::Builder::new()
            .prefix("loomplane-server-")
            .tempdir()
            .unwrap();
        // Other accounts pass through.
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let at = |name: &str| dir.path().join(name);
        let port = free_port();
        let key = Key::make(dir.path(), "client", "ed25519", None);
        for kind in ["ed25519", "ecdsa", "rsa"] {
            Key::make(dir.path(), &format!("host_{kind}"), kind, None);
        }
        fs::write(at("authorized_keys"), key.public()).unwrap();
        fs::write(
            at("machine-id"),
            format!(
                "{:032x}\n",
                u128::from(port) << 64 | u128::from(std::process::id())
            ),
        )
        .unwrap();
        let smi = Smi::make(dir.path(), options.cards);
        write_accounts(dir.path(), &options);
        write_bin(dir.path(), &options);
        fs::write(at("sshd_config"), sshd_config(dir.path(), port, &options)).unwrap();
        let log = fs::File::create(at("log")).unwrap();
        let shell = Command::new("/usr/bin/unshare")
            .args([
                "--mount",
                "--pid",
                "--fork",
                "--kill-child=KILL",
                "--mount-proc",
                "--propagation",
                "private",
                "/bin/sh",
                "-c",
                &inside(dir.path(), &options),
            ])
            .stdin(Stdio::piped())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .unwrap();
        let server = Self {
            dir,
            port,
            key,
            smi,
            engine: options.engine,
            shell,
        };
        server.wait_until_up();
        Some(server)
    }

    fn wait_until_up(&self) {
        let started = Instant::now();
        while TcpStream::connect(("127.0.0.1", self.port)).is_err() {
            assert!(
                started.elapsed() < Duration::from_secs(20),
                "sshd did not come up:\n{}",
                self.log()
            );
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// A file of this server's folder.
    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// sshd's log.
    pub fn log(&self) -> String {
        fs::read_to_string(self.path("log")).unwrap_or_default()
    }

    /// The public host key of a type (`ed25519`, `ecdsa`, `rsa`).
    pub fn host_key(&self, kind: &str) -> String {
        let line = fs::read_to_string(self.path(&format!("host_{kind}.pub"))).unwrap();
        line.split_whitespace()
            .take(2)
            .collect::<Vec<_>>()
            .join(" ")
    }

    /// Its machine-id.
    pub fn machine_id(&self) -> String {
        fs::read_to_string(self.path("machine-id"))
            .unwrap()
            .trim()
            .to_owned()
    }

    /// Lets another key log in too.
    pub fn authorize(&self, key: &Key) {
        let mut keys = fs::read_to_string(self.path("authorized_keys")).unwrap();
        keys.push_str(&key.public());
        fs::write(self.path("authorized_keys"), keys).unwrap();
    }

    /// Command lines of the processes that run in this server, but for its own shell and sshd's listener.
    pub fn processes(&self) -> Vec<String> {
        let namespace = |pid: &str| fs::read_link(format!("/proc/{pid}/ns/pid")).ok();
        // unshare stays outside; its child is the first inside.
        let shell = self.shell.id().to_string();
        let inside =
            fs::read_to_string(format!("/proc/{shell}/task/{shell}/children")).unwrap_or_default();
        let Some(wanted) = inside.split_whitespace().next().and_then(namespace) else {
            return Vec::new();
        };
        let mut found: Vec<String> = fs::read_dir("/proc")
            .unwrap()
            .flatten()
            .map(|entry| entry.file_name().to_string_lossy().into_owned())
            .filter(|pid| {
                pid.bytes().all(|c| c.is_ascii_digit()) && namespace(pid).as_ref() == Some(&wanted)
            })
            .filter_map(|pid| fs::read(format!("/proc/{pid}/cmdline")).ok())
            .map(|line| {
                String::from_utf8_lossy(&line)
                    .replace('\0', " ")
                    .trim()
                    .to_owned()
            })
            .filter(|line| {
                !line.is_empty()
                    && !line.contains("[listener]")
                    && line != "cat"
                    && !line.starts_with("/bin/sh -c mount")
            })
            .collect();
        found.sort();
        found
    }

    /// Sessions and processes are gone some time after the connection is: waits for that.
    pub fn assert_no_process_left(&self, wanted: &str) {
        let started = Instant::now();
        loop {
            let left: Vec<String> = self
                .processes()
                .into_iter()
                .filter(|line| line.contains(wanted))
                .collect();
            if left.is_empty() {
                return;
            }
            assert!(
                started.elapsed() < Duration::from_secs(10),
                "still there: {left:#?}"
            );
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    /// Connections that sshd accepted so far.
    pub fn connections(&self) -> usize {
        self.log()
            .lines()
            .filter(|line| line.starts_with("Accepted publickey"))
            .count()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // The shell inside waits for the end of this pipe; its end is the end of the whole namespace.
        drop(self.shell.stdin.take());
        let started = Instant::now();
        while matches!(self.shell.try_wait(), Ok(None)) {
            if started.elapsed() > Duration::from_secs(5) {
                let _ = self.shell.kill();
                let _ = self.shell.wait();
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

/// A port that nothing listens on.
pub fn free_port() -> u16 {
    TcpListener::bind(("127.0.0.1", 0))
        .unwrap()
        .local_addr()
        .unwrap()
        .port()
}

/// What the first process of the namespace does: mounts, then sshd until the pipe ends.
fn inside(dir: &Path, options: &Options) -> String {
    let dir = dir.display();
    let mut script = format!(
        "mount -t tmpfs none /run && mkdir -p /run/lock /run/sshd && chmod 1777 /run/lock && \
         mount --bind {dir}/machine-id /etc/machine-id && \
         mount --bind {dir}/pci /sys/bus/pci/devices && \
         mount --bind {dir}/passwd /etc/passwd && mount --bind {dir}/group /etc/group && mount --bind {dir}/shadow /etc/shadow && \
         mount --bind {dir}/usr-local-bin /usr/local/bin"
    );
    match &options.engine {
        Some(engine) => script.push_str(&format!(" && ln -s {} /run/docker.sock", engine.socket().display())),
        // Not executable, so not there for `command -v`.
        None => script.push_str(&format!(
            " && for f in /usr/sbin/dockerd /usr/bin/dockerd /usr/bin/docker; do [ ! -e $f ] || mount --bind {dir}/nothing $f; done"
        )),
    }
    if options.sudoers.is_some() {
        script.push_str(&format!(" && mount --bind {dir}/sudoers /etc/sudoers"));
    }
    script.push_str(&format!(
        " && {{ /usr/sbin/sshd -D -e -f {dir}/sshd_config & cat >/dev/null; }}"
    ));
    script
}

fn sshd_config(dir: &Path, port: u16, options: &Options) -> String {
    let shown = dir.display();
    let path = if options.smi_off_path {
        "/usr/bin:/bin".to_owned()
    } else {
        format!("{shown}/bin:/usr/sbin:/usr/bin:/sbin:/bin")
    };
    let forwarding = if options.forwarding { "yes" } else { "no" };
    // The first value of a keyword counts, so a test's own lines go first.
    format!(
        "{}\nPort {port}\nListenAddress 127.0.0.1\nHostKey {shown}/host_ed25519\nHostKey {shown}/host_ecdsa\nHostKey {shown}/host_rsa\n\
         AuthorizedKeysFile {shown}/authorized_keys\nStrictModes no\nUsePAM no\nPidFile none\nPasswordAuthentication no\n\
         KbdInteractiveAuthentication no\nPermitRootLogin yes\nAllowStreamLocalForwarding {forwarding}\nSetEnv PATH={path}\nPrintMotd no\n",
        options.sshd
    )
}

/// Accounts: root and ops (4242), who is in nobody's group.
fn write_accounts(dir: &Path, options: &Options) {
    fs::create_dir_all(dir.join("home")).unwrap();
    let home = dir.join("home").display().to_string();
    fs::write(dir.join("passwd"), format!("root:x:0:0:root:/root:/bin/sh\nsshd:x:105:65534::/run/sshd:/usr/sbin/nologin\nops:x:4242:4242::{home}:/bin/sh\n")).unwrap();
    fs::write(
        dir.join("group"),
        "root:x:0:\nops:x:4242:\ndocker:x:4343:\n",
    )
    .unwrap();
    fs::write(
        dir.join("shadow"),
        "root:*:19000:0:99999:7:::\nops:*:19000:0:99999:7:::\n",
    )
    .unwrap();
    fs::write(dir.join("nothing"), "").unwrap();
    fs::write(
        dir.join("sudoers"),
        format!(
            "root ALL=(ALL) ALL\n{}\n",
            options.sudoers.unwrap_or_default()
        ),
    )
    .unwrap();
    fs::set_permissions(dir.join("sudoers"), fs::Permissions::from_mode(0o440)).unwrap();
    fs::set_permissions(dir.join("shadow"), fs::Permissions::from_mode(0o640)).unwrap();
}

fn write_bin(dir: &Path, options: &Options) {
    if options.hook {
        write_script(&dir.join("bin/nvidia-container-runtime-hook"), "exit 0");
    }
    if let Some(arch) = options.arch {
        write_script(
            &dir.join("bin/uname"),
            &format!("[ \"$1\" = -m ] && echo {arch} && exit 0; exec /usr/bin/uname \"$@\""),
        );
    }
    let local = dir.join("usr-local-bin");
    if options.smi_off_path {
        fs::rename(dir.join("bin"), &local).unwrap();
    }
    fs::create_dir_all(local).unwrap();
}

/// An executable shell script.
pub fn write_script(path: &Path, body: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, format!("#!/bin/sh\n{body}\n")).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}
