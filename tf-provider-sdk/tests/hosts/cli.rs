//! Real Terraform and OpenTofu: found, configured and driven.

use std::{
    fs,
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
    time::{Duration, Instant},
};

use serde_json::Value as Json;

/// One of the command-line programs.
#[derive(Clone, Debug)]
pub(crate) struct Host {
    program: PathBuf,
    /// `terraform` or `tofu`.
    pub(crate) name: &'static str,
    minor: u32,
}

impl Host {
    fn at(program: PathBuf, name: &'static str) -> Option<Self> {
        let output = Command::new(&program)
            .args(["version", "-json"])
            .env("TF_CLI_CONFIG_FILE", "/dev/null")
            .env("CHECKPOINT_DISABLE", "1")
            .output()
            .ok()?;
        let version: Json = serde_json::from_slice(&output.stdout).ok()?;
        let minor = version["terraform_version"].as_str()?.split('.').nth(1)?;
        Some(Self {
            program,
            name,
            minor: minor.parse().ok()?,
        })
    }

    /// Whether it knows resource identity.
    pub(crate) fn has_identity(&self) -> bool {
        self.minor >= 12
    }
}

/// One program for what is the same in all: Terraform, else OpenTofu. With `CI=true`, all of them.
pub(crate) fn hosts() -> Vec<Host> {
    let mut hosts = all_hosts();
    if std::env::var("CI").as_deref() != Ok("true") {
        hosts.truncate(1);
    }
    hosts
}

/// Terraform on PATH, unless `WITHOUT_TERRAFORM` says that its absence is known, and OpenTofu where there is one.
pub(crate) fn all_hosts() -> Vec<Host> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let cache =
        std::env::var_os("HOME").map(|home| Path::new(&home).join(".cache/loomplane-bench/bin"));
    let folders: Vec<PathBuf> = std::env::split_paths(&path).chain(cache).collect();
    let find = |name| {
        let mut files = folders.iter().map(|folder| folder.join(name));
        files.find_map(|file| Host::at(file, name))
    };
    let terraform = find("terraform");
    assert!(
        terraform.is_some() || std::env::var_os("WITHOUT_TERRAFORM").is_some(),
        "no terraform on PATH: install it, or set WITHOUT_TERRAFORM=1 to leave its tests out"
    );
    terraform.into_iter().chain(find("tofu")).collect()
}

/// A folder with a configuration and its state.
pub(crate) struct Work {
    host: Host,
    folder: tempfile::TempDir,
}

/// The provider under test, and its binary.
const PROVIDERS: [(&str, &str); 2] = [
    ("probe", env!("CARGO_BIN_EXE_probe-provider")),
    ("shelf", env!("CARGO_BIN_EXE_shelf-provider")),
];

impl Work {
    /// A folder in which the provider `name` is configured as `provider` says.
    pub(crate) fn with(host: &Host, name: &str, provider: &str) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let mut settings = "provider_installation {\n  dev_overrides {\n".to_owned();
        for (name, program) in PROVIDERS {
            let link = folder.path().join(format!("terraform-provider-{name}"));
            std::os::unix::fs::symlink(program, link).expect("linked");
            for registry in ["registry.terraform.io", "registry.opentofu.org"] {
                settings += &format!(
                    "    \"{registry}/loomplane/{name}\" = {:?}\n",
                    folder.path()
                );
            }
        }
        settings += "  }\n  direct {}\n}\n";
        fs::write(folder.path().join("cli.rc"), settings).expect("written");
        let work = Self {
            host: host.clone(),
            folder,
        };
        work.file(
            "provider.tf",
            &format!(
                "terraform {{\n  required_providers {{\n    {name} = {{ source = \"loomplane/{name}\" }}\n  }}\n}}\nprovider \"{name}\" {{\n{provider}\n}}\n"
            ),
        );
        work
    }

    /// A folder with this configuration, for the probe, which keeps a journal.
    pub(crate) fn probe(host: &Host, configuration: &str) -> Self {
        let work = Self::with(host, "probe", "");
        let journal = work.path("journal");
        work.file(
            "provider.tf",
            &format!(
                "terraform {{\n  required_providers {{\n    probe = {{ source = \"loomplane/probe\" }}\n  }}\n}}\nprovider \"probe\" {{\n  journal = {journal:?}\n}}\n"
            ),
        );
        work.write(configuration);
        work
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn file(&self, name: &str, text: &str) {
        fs::write(self.path(name), text).expect("written");
    }

    /// Writes the configuration anew.
    pub(crate) fn write(&self, configuration: &str) {
        self.file("main.tf", configuration);
    }

    /// The lines that the probe wrote.
    pub(crate) fn journal(&self) -> Vec<String> {
        let text = fs::read_to_string(self.path("journal")).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.host.program);
        for variable in ["TF_LOG", "TF_REATTACH_PROVIDERS", "TF_PLUGIN_CACHE_DIR"] {
            command.env_remove(variable);
        }
        command
            .args(arguments)
            .current_dir(self.folder.path())
            .env("TF_CLI_CONFIG_FILE", self.path("cli.rc"))
            .env("TF_IN_AUTOMATION", "1")
            .env("CHECKPOINT_DISABLE", "1")
            .env("NO_COLOR", "1")
            .stdin(Stdio::null());
        command
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> Ended {
        Ended::of(self.command(arguments).output().expect("it runs"))
    }

    /// Runs a command that succeeds, and returns what it said.
    pub(crate) fn ok(&self, arguments: &[&str]) -> Ended {
        let ended = self.run(arguments);
        assert!(
            ended.code == Some(0),
            "{} {arguments:?}: {}",
            self.host.name,
            ended.said
        );
        ended
    }

    /// Runs a command that fails, and returns what it said.
    pub(crate) fn fails(&self, arguments: &[&str]) -> Ended {
        let ended = self.run(arguments);
        assert!(
            ended.code == Some(1),
            "{} {arguments:?} was to fail: {}",
            self.host.name,
            ended.said
        );
        ended
    }

    pub(crate) fn apply(&self) -> Ended {
        self.ok(&["apply", "-auto-approve", "-input=false"])
    }

    pub(crate) fn apply_fails(&self) -> Ended {
        self.fails(&["apply", "-auto-approve", "-input=false"])
    }

    pub(crate) fn plan(&self) -> Ended {
        self.ok(&["plan", "-input=false"])
    }

    /// Asserts that there is nothing to do, with and without refresh.
    pub(crate) fn plans_nothing(&self) {
        for refresh in ["-refresh=false", "-refresh=true"] {
            let ended = self.run(&["plan", "-input=false", "-detailed-exitcode", refresh]);
            assert!(
                ended.code == Some(0),
                "{} {refresh}: {}",
                self.host.name,
                ended.said
            );
        }
    }

    /// The planned change of a resource.
    pub(crate) fn planned(&self, address: &str) -> Json {
        self.ok(&["plan", "-input=false", "-out=plan"]);
        let plan = self.ok(&["show", "-json", "plan"]).json();
        let changes = plan["resource_changes"].as_array().cloned();
        changes
            .unwrap_or_default()
            .into_iter()
            .find(|change| change["address"] == address)
            .map_or(Json::Null, |change| change["change"].clone())
    }

    /// The stored values of a resource; null where there is none.
    pub(crate) fn stored(&self, address: &str) -> Json {
        self.instance(address)["attributes"].clone()
    }

    /// Whether a resource is stored as tainted.
    pub(crate) fn is_tainted(&self, address: &str) -> bool {
        self.instance(address)["status"] == "tainted"
    }

    /// The first instance of a resource in the state file.
    pub(crate) fn instance(&self, address: &str) -> Json {
        let state: Json = serde_json::from_str(&self.state()).unwrap_or_default();
        let (ty, name) = address.split_once('.').expect("TYPE.NAME");
        let resources = state["resources"].as_array().cloned().unwrap_or_default();
        resources
            .into_iter()
            .find(|it| it["type"] == ty && it["name"] == name && it["mode"] == "managed")
            .map_or(Json::Null, |it| it["instances"][0].clone())
    }

    /// The state file as text.
    pub(crate) fn state(&self) -> String {
        fs::read_to_string(self.path("terraform.tfstate")).unwrap_or_default()
    }

    /// Starts a command in a process group of its own; once `line` is in the journal, presses Ctrl-C and waits for the end.
    pub(crate) fn interrupted(&self, arguments: &[&str], line: &str) -> Ended {
        let mut command = self.command(arguments);
        command
            .process_group(0)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let child = command.spawn().expect("it starts");
        let until = Instant::now() + Duration::from_secs(60);
        while !self.journal().iter().any(|it| it == line) {
            assert!(Instant::now() < until, "{line:?} never came");
            std::thread::sleep(Duration::from_millis(20));
        }
        let group = format!("-{}", child.id());
        let sent = Command::new("kill").args(["-INT", "--", &group]).status();
        assert!(sent.expect("kill").success());
        Ended::of(child.wait_with_output().expect("it ends"))
    }
}

/// How a command ended.
pub(crate) struct Ended {
    pub(crate) code: Option<i32>,
    out: String,
    /// Both outputs, without the frames and line breaks that depend on the width.
    pub(crate) said: String,
}

impl Ended {
    fn of(output: Output) -> Self {
        let out = String::from_utf8_lossy(&output.stdout).into_owned();
        let both = format!("{out}\n{}", String::from_utf8_lossy(&output.stderr));
        let plain = without_colors(&both);
        let words = plain.split(|c: char| c.is_whitespace() || "│╷╵├─".contains(c));
        let words: Vec<&str> = words.filter(|word| !word.is_empty()).collect();
        Self {
            code: output.status.code(),
            out,
            said: words.join(" "),
        }
    }

    pub(crate) fn json(&self) -> Json {
        serde_json::from_str(&self.out).expect("JSON")
    }

    /// Asserts that it said all of these.
    #[track_caller]
    pub(crate) fn says(&self, texts: &[&str]) {
        for text in texts {
            assert!(
                self.said.contains(text),
                "{text:?} is not in: {}",
                self.said
            );
        }
    }
}

/// Without the escape sequences that Terraform writes whatever `NO_COLOR` says.
fn without_colors(text: &str) -> String {
    let mut parts = text.split("\u{1b}[");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |mut plain, part| {
        plain.push_str(part.split_once('m').map_or("", |(_, rest)| rest));
        plain
    })
}
