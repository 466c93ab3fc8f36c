//! Drives the real CLIs, as a user would: a folder, a configuration, commands. Never a mock of core.
//!
//! ```ignore
//! let Some(work) = Workspace::with_provider(Cli::Terraform) else { return };
//! work.file("main.tf", "...");
//! work.plan().expect(HAS_CHANGES).says("1 to add");
//! work.apply().expect(OK);
//! work.plan().expect(OK).says("No changes");   // exit code 0: nothing to do
//! work.destroy().expect(OK);
//! ```

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::parts;

/// Exit code of a command that did what it was asked, and of a plan without changes.
pub const OK: i32 = 0;
/// Exit code of a command that failed.
pub const FAILED: i32 = 1;
/// Exit code of a plan that has changes.
pub const HAS_CHANGES: i32 = 2;

/// A command that takes longer is killed, and the test fails.
const LIMIT: Duration = Duration::from_secs(180);

/// Which CLI.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cli {
    Terraform,
    Tofu,
}

impl Cli {
    /// Both: for tests of what the two might do differently.
    pub const BOTH: [Self; 2] = [Self::Terraform, Self::Tofu];

    /// The one that is there: for tests that any CLI serves.
    pub fn any() -> Self {
        if which("terraform") || std::env::var_os("LOOMPLANE_TEST_TERRAFORM").is_some() {
            Self::Terraform
        } else {
            Self::Tofu
        }
    }

    /// `LOOMPLANE_TEST_TERRAFORM` and `LOOMPLANE_TEST_TOFU` name another version (`make test-hosts`).
    fn path(self) -> Option<PathBuf> {
        let variable = match self {
            Self::Terraform => "LOOMPLANE_TEST_TERRAFORM",
            Self::Tofu => "LOOMPLANE_TEST_TOFU",
        };
        if let Some(path) = std::env::var_os(variable) {
            return Some(PathBuf::from(path));
        }
        parts::tool(match self {
            Self::Terraform => "terraform",
            Self::Tofu => "tofu",
        })
    }
}

fn which(name: &str) -> bool {
    std::env::var_os("PATH")
        .is_some_and(|path| std::env::split_paths(&path).any(|folder| folder.join(name).is_file()))
}

/// A folder with a configuration, its state, and an environment that holds nothing of the machine's own.
pub struct Workspace {
    folder: tempfile::TempDir,
    cli: PathBuf,
    environment: BTreeMap<OsString, OsString>,
}

impl Workspace {
    /// An empty one, where `loomplane/loomplane` is the provider that cargo built for this run.
    pub fn with_provider(cli: Cli) -> Option<Self> {
        Self::with_overrides(cli, &[("loomplane/loomplane", &parts::provider())])
    }

    /// An empty one, with these provider binaries by source address.
    pub fn with_overrides(cli: Cli, providers: &[(&str, &Path)]) -> Option<Self> {
        let cli = cli.path()?;
        let folder = tempfile::Builder::new()
            .prefix("loomplane-tf-")
            .tempdir()
            .unwrap();
        let mut overrides = String::new();
        for (address, binary) in providers {
            // A folder with the binary alone: beside cargo's other files, core might pick another one.
            let alone = folder.path().join(".plugins").join(address);
            std::fs::create_dir_all(&alone).unwrap();
            std::os::unix::fs::symlink(binary, alone.join(binary.file_name().unwrap())).unwrap();
            overrides += &format!("    \"{address}\" = \"{}\"\n", alone.display());
        }
        let rc = folder.path().join(".cli.tfrc");
        std::fs::write(
            &rc,
            format!(
                "provider_installation {{\n  dev_overrides {{\n{overrides}  }}\n  direct {{}}\n}}\n"
            ),
        )
        .unwrap();
        let home = folder.path().join(".home");
        std::fs::create_dir(&home).unwrap();
        let data = folder.path().join(".data");
        let mut work = Self {
            cli,
            environment: BTreeMap::new(),
            folder,
        };
        work.env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", home)
            .env("TF_CLI_CONFIG_FILE", rc)
            .env("TF_DATA_DIR", data)
            .env("TF_IN_AUTOMATION", "1")
            .env("TF_INPUT", "0")
            .env("CHECKPOINT_DISABLE", "1")
            .env("NO_COLOR", "1")
            .env("TF_CLI_ARGS", "-no-color"); // Terraform 1.11 does not honor NO_COLOR
        Some(work)
    }

    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Writes (or replaces) a file of the configuration.
    pub fn file(&self, name: &str, text: &str) -> &Self {
        let path = self.folder.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
        self
    }

    /// Sets an environment variable of every later command.
    pub fn env(&mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> &mut Self {
        self.environment.insert(name.into(), value.into());
        self
    }

    /// `validate -json`; exit code 1 when the configuration is refused.
    pub fn validate(&self) -> Run {
        self.run(&["validate", "-json"])
    }

    /// Plans into `plan.bin`. Exit code [`OK`]: no changes; [`HAS_CHANGES`]; [`FAILED`].
    pub fn plan(&self) -> Run {
        self.plan_with(&[])
    }

    pub fn plan_with(&self, options: &[&str]) -> Run {
        let mut arguments = vec!["plan", "-detailed-exitcode", "-out=plan.bin"];
        arguments.extend(options);
        self.run(&arguments)
    }

    /// Applies what `plan` wrote.
    pub fn apply_plan(&self) -> Run {
        self.run(&["apply", "plan.bin"])
    }

    /// Plans and applies in one command.
    pub fn apply(&self) -> Run {
        self.apply_with(&[])
    }

    pub fn apply_with(&self, options: &[&str]) -> Run {
        let mut arguments = vec!["apply", "-auto-approve"];
        arguments.extend(options);
        self.run(&arguments)
    }

    pub fn destroy(&self) -> Run {
        self.run(&["destroy", "-auto-approve"])
    }

    pub fn import(&self, address: &str, id: &str) -> Run {
        self.run(&["import", address, id])
    }

    /// The plan in `plan.bin`, by `show -json`. (That prints numbers through a 64 bit float.)
    pub fn plan_json(&self) -> Value {
        self.run(&["show", "-json", "plan.bin"]).expect(OK).json()
    }

    /// The change of one resource in `plan.bin`: `actions`, `before`, `after`, `after_unknown`, `replace_paths`, ...
    pub fn change(&self, address: &str) -> Value {
        let plan = self.plan_json();
        let found = plan["resource_changes"]
            .as_array()
            .into_iter()
            .flatten()
            .find(|change| change["address"] == address);
        found.unwrap_or_else(|| panic!("no change of {address} in {plan:#}"))["change"].clone()
    }

    /// The state by `show -json`.
    pub fn state_json(&self) -> Value {
        self.run(&["show", "-json"]).expect(OK).json()
    }

    /// The values of one resource of the root module in the state; `None` when it is not there.
    pub fn state_of(&self, address: &str) -> Option<Value> {
        let state = self.state_json();
        let resources = state["values"]["root_module"]["resources"].as_array()?;
        let found = resources
            .iter()
            .find(|resource| resource["address"] == address)?;
        Some(found["values"].clone())
    }

    /// The state file itself, private data and all: for looking whether a secret is in it.
    pub fn state_text(&self) -> String {
        std::fs::read_to_string(self.path().join("terraform.tfstate")).unwrap_or_default()
    }

    pub fn output(&self, name: &str) -> Value {
        self.run(&["output", "-json", name]).expect(OK).json()
    }

    /// What every passing step ends with: a plan with refresh and one without must both be empty.
    pub fn expect_no_changes(&self) {
        self.plan_with(&["-refresh=false"]).expect(OK);
        self.plan().expect(OK);
    }

    /// Any command, to its end.
    pub fn run(&self, arguments: &[&str]) -> Run {
        self.start(arguments).wait(LIMIT)
    }

    /// Any command, left running: to interrupt or kill it.
    pub fn start(&self, arguments: &[&str]) -> Running {
        // Into files: nothing blocks on a full pipe, and what is there can be read while the command runs.
        let out = tempfile::NamedTempFile::new().unwrap();
        let err = tempfile::NamedTempFile::new().unwrap();
        let child = Command::new(&self.cli)
            .args(arguments)
            .current_dir(self.path())
            .env_clear()
            .envs(&self.environment)
            .stdin(Stdio::null())
            .stdout(out.reopen().unwrap())
            .stderr(err.reopen().unwrap())
            .process_group(0) // as a shell does: Ctrl-C reaches the CLI and its providers alike
            .spawn()
            .expect("the CLI starts");
        Running {
            command: format!("{} {}", self.cli.display(), arguments.join(" ")),
            child,
            out,
            err,
        }
    }
}

/// A command that runs. Killed, with its providers, when dropped.
pub struct Running {
    command: String,
    child: Child,
    out: tempfile::NamedTempFile,
    err: tempfile::NamedTempFile,
}

impl Running {
    /// What it has printed so far, standard output first.
    pub fn text(&self) -> String {
        read(&self.out) + &read(&self.err)
    }

    /// Waits until it has printed `text`.
    pub fn await_text(&mut self, text: &str, limit: Duration) {
        let until = Instant::now() + limit;
        while !self.text().contains(text) {
            let ended = self.child.try_wait().unwrap();
            assert!(
                ended.is_none() && Instant::now() < until,
                "{} did not print {text:?} in {limit:?}:\n{}",
                self.command,
                self.text()
            );
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Ctrl-C: SIGINT to the whole process group, providers included.
    pub fn interrupt(&self) {
        self.signal("INT");
    }

    /// kill -9 of the providers that this command started, and of nothing else: they are its children that run our binary.
    pub fn kill_providers(&self) -> usize {
        let children = self.children();
        for pid in &children {
            Command::new("kill")
                .args(["-KILL", &pid.to_string()])
                .stderr(Stdio::null())
                .status()
                .ok();
        }
        children.len()
    }

    /// kill -9 of the CLI alone: its providers are left without it.
    pub fn kill_cli(&mut self) {
        self.child.kill().ok();
    }

    /// Process ids of the providers that run for this command.
    fn children(&self) -> Vec<u32> {
        let shown = Command::new("ps")
            .args(["-e", "-o", "pid=", "-o", "ppid=", "-o", "args="])
            .output()
            .map(|done| String::from_utf8_lossy(&done.stdout).into_owned())
            .unwrap_or_default();
        let line = |line: &str| {
            let mut words = line.split_whitespace();
            let pid: u32 = words.next()?.parse().ok()?;
            let parent: u32 = words.next()?.parse().ok()?;
            let ours = words.next()?.contains("terraform-provider-loomplane");
            (ours && self.child.id() == parent).then_some(pid)
        };
        shown.lines().filter_map(line).collect()
    }

    /// Process ids of the CLI and of the providers that run for it.
    pub fn processes(&self) -> Vec<u32> {
        let mut all = vec![self.child.id()];
        all.extend(self.children());
        all
    }

    fn signal(&self, name: &str) {
        // No crate and no unsafe code for one call: the shell's own kill.
        Command::new("kill")
            .args([
                format!("-{name}"),
                "--".into(),
                format!("-{}", self.child.id()),
            ])
            .stderr(Stdio::null())
            .status()
            .ok();
    }

    /// Whether it has ended.
    pub fn has_ended(&mut self) -> bool {
        self.child.try_wait().unwrap().is_some()
    }

    /// Waits for the end. One that takes longer than `limit` is killed, and the test fails with what it printed.
    pub fn wait(mut self, limit: Duration) -> Run {
        let started = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return Run {
                    command: self.command.clone(),
                    code: status.code(),
                    stdout: read(&self.out),
                    stderr: read(&self.err),
                    took: started.elapsed(),
                };
            }
            if started.elapsed() > limit {
                self.signal("KILL");
                self.child.wait().ok();
                panic!(
                    "{} took longer than {limit:?}, killed:\n{}",
                    self.command,
                    self.text()
                );
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            self.signal("KILL");
            self.child.wait().ok();
        }
    }
}

fn read(file: &tempfile::NamedTempFile) -> String {
    String::from_utf8_lossy(&std::fs::read(file.path()).unwrap_or_default()).into_owned()
}

/// A command that has ended.
#[derive(Debug)]
pub struct Run {
    pub command: String,
    /// `None`: ended by a signal.
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
    pub took: Duration,
}

impl Run {
    /// Panics with all that was printed unless this was the exit code.
    pub fn expect(self, code: i32) -> Self {
        assert_eq!(
            self.code,
            Some(code),
            "{}\n{}{}",
            self.command,
            self.stdout,
            self.stderr
        );
        self
    }

    /// Panics unless `text` was printed. Line ends and the frame (`│`) of diagnostics don't matter: see [`Run::text`].
    pub fn says(self, text: &str) -> Self {
        let all = self.text();
        assert!(
            all.contains(&squeeze(text)),
            "{}: {text:?} is not in\n{}{}",
            self.command,
            self.stdout,
            self.stderr
        );
        self
    }

    pub fn says_not(self, text: &str) -> Self {
        assert!(
            !self.text().contains(&squeeze(text)),
            "{}: {text:?} is in\n{}{}",
            self.command,
            self.stdout,
            self.stderr
        );
        self
    }

    /// Both streams with the frame of diagnostics taken off and all white space made single, so that a message is found
    /// however core wraps it.
    pub fn text(&self) -> String {
        squeeze(&format!("{}\n{}", self.stdout, self.stderr))
    }

    pub fn json(&self) -> Value {
        serde_json::from_str(&self.stdout)
            .unwrap_or_else(|error| panic!("{}: {error} in\n{}", self.command, self.stdout))
    }
}

fn squeeze(text: &str) -> String {
    text.replace(['│', '╷', '╵'], " ")
        .split_whitespace()
        .collect::<Vec<_>>()
        .join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    const TWO: &str = r#"
        variable "input" { default = "a" }
        resource "terraform_data" "one" { input = var.input }
        output "one" { value = terraform_data.one.output }
    "#;

    fn slow(command: &str) -> String {
        format!(
            "resource \"terraform_data\" \"slow\" {{\n  provisioner \"local-exec\" {{\n    command = \"{command}\"\n  }}\n}}\n"
        )
    }

    #[test]
    fn plan_apply_second_plan_and_destroy_by_both_clis() {
        for cli in Cli::BOTH {
            let Some(work) = Workspace::with_overrides(cli, &[]) else {
                continue;
            };
            work.file("main.tf", TWO);
            work.plan().expect(HAS_CHANGES).says("1 to add");
            assert_eq!(work.change("terraform_data.one")["actions"][0], "create");
            work.apply_plan().expect(OK);
            work.expect_no_changes();
            assert_eq!(work.output("one"), "a");
            assert_eq!(work.state_of("terraform_data.one").unwrap()["input"], "a");
            work.plan_with(&["-var=input=b"]).expect(HAS_CHANGES);
            assert_eq!(work.change("terraform_data.one")["actions"][0], "update");
            work.destroy().expect(OK);
            assert!(work.state_of("terraform_data.one").is_none());
        }
    }

    #[test]
    fn a_refused_configuration_shows_its_message_however_it_is_wrapped() {
        let Some(work) = Workspace::with_overrides(Cli::any(), &[]) else {
            return;
        };
        work.file("main.tf", &TWO.replace("var.input }", "var.imput }"));
        work.plan()
            .expect(FAILED)
            .says("An input variable with the name \"imput\" has not been declared.");
    }

    #[test]
    fn an_interrupt_reaches_the_command_and_its_partial_state_is_written() {
        let Some(work) = Workspace::with_overrides(Cli::any(), &[]) else {
            return;
        };
        work.file("main.tf", &slow("echo begun; exec sleep 60"));
        let mut apply = work.start(&["apply", "-auto-approve"]);
        apply.await_text("(local-exec): begun", Duration::from_secs(60));
        apply.interrupt();
        let ended = apply.wait(Duration::from_secs(60)).expect(FAILED);
        assert!(ended.took < Duration::from_secs(50), "{:?}", ended.took);
        assert!(work.state_text().contains("\"slow\""));
    }

    #[test]
    #[should_panic(expected = "took longer than")]
    fn a_command_that_hangs_is_killed() {
        let Some(work) = Workspace::with_overrides(Cli::any(), &[]) else {
            panic!("took longer than: skipped");
        };
        work.file("main.tf", &slow("exec sleep 60"));
        work.start(&["apply", "-auto-approve"])
            .wait(Duration::from_secs(3));
    }
}
