//! The check of a server (S1, S2): one look at its cards, driver and Docker, at the same time; what it means is `capacity::server`'s to say.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::config::ServerConfig;
use super::connect::Connection;
use super::devices::{Minors, Occupant, occupant};
use super::docker::body::DefaultRuntime;
use super::docker::engine::Engine;
use super::docker::transport::Route;
use super::error::{DockerProblem, Result, SshError};
use super::exec::Command;
use super::nvidia_smi;
use super::scope::Scope;
use crate::capacity::ledger::Ledger;
use crate::capacity::server::{self, DockerGpus, NvidiaSmi, PciCard, ServerCheck, ServerFacts};

/// What can be told without the driver, one `key=value` a line. Cards are vendor 10de of class 0300 or 0302.
const PROBE: &str = concat!(
    r#"echo "arch=$(uname -m)"; "#,
    r#"echo "machine_id=$(cat /etc/machine-id 2>/dev/null || cat /var/lib/dbus/machine-id 2>/dev/null)"; "#,
    r#"for d in /sys/bus/pci/devices/*; do "#,
    r#"v=; c=; read -r v 2>/dev/null <"$d/vendor"; [ "$v" = 0x10de ] || continue; read -r c 2>/dev/null <"$d/class"; "#,
    r#"case "$c" in 0x0300*|0x0302*) k=$(readlink "$d/driver"); echo "pci=${d##*/} ${k##*/}";; esac; done; "#,
    r#"for f in /proc/driver/nvidia/gpus/*/information; do [ -r "$f" ] || continue; u=; m=; "#,
    r#"while IFS=: read -r k w; do case "$k" in "GPU UUID"*) u=$w;; "Device Minor"*) m=$w;; esac; done <"$f"; echo "minor=$m $u"; done; "#,
    r#"command -v nvidia-container-runtime-hook >/dev/null 2>&1 && echo hook=yes; exit 0"#
);

/// Which container each process of `$@` runs in: its cgroup holds the container's id.
const CGROUPS: &str =
    r#"for p; do echo "$p $(tr '\n' ' ' 2>/dev/null <"/proc/$p/cgroup")"; done; exit 0"#;

/// What a check found.
#[derive(Debug, Clone)]
pub struct Report {
    /// The judgment: usable or not and why, card by card.
    pub check: ServerCheck,
    /// What it was judged by.
    pub facts: ServerFacts,
    /// The machine's id (`/etc/machine-id`): the server's `target_uid`.
    pub target_uid: Option<String>,
    /// Docker's version, where it answers.
    pub docker_version: Option<String>,
    /// How Docker is reached, where it answers.
    pub route: Option<Route>,
    /// Every container, with the cards that it was given. Empty where Docker can't be asked.
    pub occupants: Vec<Occupant>,
    /// Who holds which card.
    pub ledger: Ledger,
    pub(crate) default_runtime: DefaultRuntime,
    pub(crate) minors: Minors,
}

impl Report {
    /// Why the server can't take GPU work; none when it can.
    pub fn reason(&self) -> Option<String> {
        self.check.render_reason()
    }
}

/// What [`PROBE`] found.
#[derive(Debug, Default, PartialEq, Eq)]
struct Probe {
    arch: String,
    machine_id: Option<String>,
    pci: Vec<PciCard>,
    minors: Minors,
    hook: bool,
}

fn parse_probe(output: &str) -> Probe {
    let mut probe = Probe::default();
    for line in output.lines() {
        let Some((key, value)) = line.split_once('=') else {
            continue;
        };
        let value = value.trim();
        match key {
            "arch" => probe.arch = value.to_owned(),
            "machine_id" if !value.is_empty() => probe.machine_id = Some(value.to_owned()),
            "pci" => {
                let (address, driver) = value.split_once(' ').unwrap_or((value, ""));
                probe.pci.push(PciCard {
                    address: address.to_owned(),
                    driver: (!driver.is_empty()).then(|| driver.to_owned()),
                });
            }
            "minor" => {
                if let Some((minor, uuid)) = value.split_once(char::is_whitespace)
                    && let Ok(minor) = minor.trim().parse()
                {
                    probe.minors.insert(minor, uuid.trim().to_owned());
                }
            }
            "hook" => probe.hook = true,
            _ => {}
        }
    }
    probe
}

/// Looks at the server. `engine` is opened by the caller, who keeps it.
///
/// # Errors
/// The connection's own failures; whatever the server lacks is a finding, not an error.
pub(crate) async fn run(
    connection: &Arc<Connection>,
    config: &ServerConfig,
    engine: impl Future<Output = Result<Arc<Engine>>>,
    scope: &Scope,
) -> Result<Report> {
    let docker = async {
        match engine.await {
            Ok(engine) => match tokio::try_join!(engine.info(scope), engine.containers(scope)) {
                Ok((info, containers)) => Ok(Ok((engine, info, containers))),
                Err(error) => docker_problem(&error).map(Err).ok_or(error),
            },
            Err(error) => docker_problem(&error).map(Err).ok_or(error),
        }
    };
    let probe = async {
        let output = Command::script("looking at the machine", config.limits.command, PROBE, &[])
            .run(connection, scope)
            .await?;
        if output.stdout.is_empty() {
            return Err(SshError::Command {
                server: config.name.clone(),
                what: "looking at the machine".to_owned(),
                outcome: output.outcome(),
            });
        }
        Ok(parse_probe(&output.stdout))
    };
    let (probe, docker, smi) =
        tokio::join!(probe, docker, ask_nvidia_smi(connection, config, scope));
    let (probe, docker, mut smi) = (probe?, docker?, smi?);

    let mut default_runtime = DefaultRuntime::Plain;
    let (gpus, occupants, version, route) = match &docker {
        Err(problem) => (without_docker(problem), Vec::new(), None, None),
        Ok((engine, info, containers)) => {
            if info
                .default_runtime
                .as_deref()
                .is_some_and(|name| name.contains("nvidia"))
            {
                default_runtime = DefaultRuntime::Nvidia;
            }
            let occupants: Vec<Occupant> = containers
                .iter()
                .map(|container| occupant(container, default_runtime, &probe.minors))
                .collect();
            (
                docker_gpus(info, probe.hook),
                occupants,
                engine.version.version.clone(),
                Some(engine.route),
            )
        }
    };
    if let NvidiaSmi::Answered { cards, .. } = &mut smi {
        let inside: BTreeSet<&str> = occupants
            .iter()
            .filter(|occupant| !occupant.container.grants.is_empty())
            .map(|occupant| occupant.container.id.as_str())
            .collect();
        for (uuid, outside) in outside_processes(connection, config, &inside, scope).await? {
            for card in cards.iter_mut().filter(|card| card.uuid.0 == uuid) {
                card.outside_processes = outside;
            }
        }
    }
    let facts = ServerFacts {
        arch: probe.arch,
        pci: probe.pci,
        nvidia_smi: smi,
        docker: gpus,
    };
    let check = server::check(&facts);
    let containers: Vec<_> = occupants
        .iter()
        .map(|occupant| occupant.container.clone())
        .collect();
    Ok(Report {
        ledger: Ledger::new(&check.cards, &containers),
        check,
        facts,
        target_uid: probe.machine_id,
        docker_version: version,
        route,
        occupants,
        default_runtime,
        minors: probe.minors,
    })
}

/// The machine's id alone, where no check is needed.
pub(crate) async fn machine_id(
    connection: &Arc<Connection>,
    config: &ServerConfig,
    scope: &Scope,
) -> Result<Option<String>> {
    let output = Command::script(
        "reading the machine's id",
        config.limits.command,
        PROBE,
        &[],
    )
    .run(connection, scope)
    .await?;
    Ok(parse_probe(&output.stdout).machine_id)
}

/// Runs `nvidia-smi`; when the driver does not know a field, again without it.
async fn ask_nvidia_smi(
    connection: &Arc<Connection>,
    config: &ServerConfig,
    scope: &Scope,
) -> Result<NvidiaSmi> {
    let mut fields = nvidia_smi::FIELDS.to_vec();
    loop {
        let words = std::iter::once("nvidia-smi".to_owned()).chain(nvidia_smi::query(&fields));
        let output = Command::new("nvidia-smi", config.limits.nvidia_smi, words)
            .run(connection, scope)
            .await?;
        if output.timed_out {
            let seconds = config.limits.nvidia_smi.as_secs_f32();
            return Ok(NvidiaSmi::Failed {
                output: format!("nvidia-smi did not answer within {seconds} s and was ended"),
                exit_code: nvidia_smi::TIMED_OUT,
            });
        }
        let said = format!("{}\n{}", output.stdout, output.stderr);
        if let Some(fewer) = nvidia_smi::fewer(&said, &fields) {
            tracing::debug!(
                server = config.name,
                ?fewer,
                "this nvidia-smi lacks a field"
            );
            fields = fewer;
            continue;
        }
        let code = output
            .status
            .and_then(|status| i32::try_from(status).ok())
            .unwrap_or(-1);
        return Ok(nvidia_smi::parse(&said, code, &fields));
    }
}

/// Cards to the number of processes on them that run in no container that was given cards.
async fn outside_processes(
    connection: &Arc<Connection>,
    config: &ServerConfig,
    inside: &BTreeSet<&str>,
    scope: &Scope,
) -> Result<Vec<(String, u32)>> {
    let words = [
        "nvidia-smi",
        "--query-compute-apps=gpu_uuid,pid",
        "--format=csv,noheader",
    ];
    let output = Command::new("nvidia-smi", config.limits.nvidia_smi, words)
        .run(connection, scope)
        .await?;
    let processes = nvidia_smi::parse_processes(&output.stdout);
    if processes.is_empty() {
        return Ok(Vec::new());
    }
    let pids: Vec<String> = processes.values().flatten().map(u32::to_string).collect();
    let arguments: Vec<&str> = pids.iter().map(String::as_str).collect();
    let output = Command::script(
        "reading what processes run in",
        config.limits.command,
        CGROUPS,
        &arguments,
    )
    .run(connection, scope)
    .await?;
    let contained = |pid: u32| {
        let start = format!("{pid} ");
        output
            .stdout
            .lines()
            .filter_map(|line| line.strip_prefix(&start))
            .any(|cgroup| inside.iter().any(|id| cgroup.contains(id)))
    };
    let outside = |pids: &[u32]| {
        u32::try_from(pids.iter().filter(|pid| !contained(**pid)).count()).unwrap_or(u32::MAX)
    };
    Ok(processes
        .iter()
        .map(|(uuid, pids)| (uuid.clone(), outside(pids)))
        .collect())
}

/// A finding about Docker in an error; none when the server itself could not be asked.
fn docker_problem(error: &SshError) -> Option<DockerProblem> {
    match error {
        SshError::Docker { problem, .. } => Some(problem.clone()),
        SshError::Engine {
            operation, message, ..
        } => Some(DockerProblem::Faulty {
            said: format!("it could not {operation}: {message}"),
        }),
        SshError::Shared(shared) => docker_problem(shared),
        _ => None,
    }
}

fn without_docker(problem: &DockerProblem) -> DockerGpus {
    let message = problem.to_string();
    match problem {
        DockerProblem::NotPermitted { .. } | DockerProblem::SudoRefused { .. } => {
            DockerGpus::Denied { message }
        }
        _ => DockerGpus::NoEngine { message },
    }
}

/// What Docker can be told to have: its runtimes, CDI devices, or the hook that its own driver runs. Whether that works is seen when a container starts.
fn docker_gpus(info: &bollard::models::SystemInfo, hook: bool) -> DockerGpus {
    let runtime = info
        .runtimes
        .iter()
        .flatten()
        .any(|(name, _)| name.contains("nvidia"));
    let cdi = info.discovered_devices.iter().flatten().any(|device| {
        device
            .id
            .as_deref()
            .is_some_and(|id| id.starts_with("nvidia.com/gpu"))
    });
    if runtime || cdi || hook {
        return DockerGpus::Reachable;
    }
    DockerGpus::NotReachable { message: "it has no nvidia runtime and no CDI devices, and nvidia-container-runtime-hook is not installed".to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_probe_is_read() {
        let probe = parse_probe(
            "arch=aarch64\nmachine_id=0123abcd\npci=0000:1b:00.0 nvidia\npci=0000:2b:00.0 \nminor= \t 3  GPU-c\nhook=yes\nnoise\n",
        );
        assert_eq!(
            (probe.arch.as_str(), probe.machine_id.as_deref(), probe.hook),
            ("aarch64", Some("0123abcd"), true)
        );
        assert_eq!(
            probe
                .pci
                .iter()
                .map(|card| card.driver.as_deref())
                .collect::<Vec<_>>(),
            [Some("nvidia"), None]
        );
        assert_eq!(probe.minors.get(&3).map(String::as_str), Some("GPU-c"));
    }

    #[test]
    fn the_probe_runs_in_a_plain_shell() {
        let output = std::process::Command::new("/bin/sh")
            .args(["-c", PROBE, "loomplane"])
            .output()
            .unwrap();
        let probe = parse_probe(&String::from_utf8_lossy(&output.stdout));
        assert!(
            output.status.success() && output.stderr.is_empty(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
        assert!(!probe.arch.is_empty());
    }

    #[test]
    fn s2_docker_without_any_way_to_gpus_lacks_the_toolkit() {
        let info = |json: serde_json::Value| {
            serde_json::from_value::<bollard::models::SystemInfo>(json).unwrap()
        };
        let plain = info(serde_json::json!({"Runtimes": {"runc": {}}}));
        assert!(matches!(
            docker_gpus(&plain, false),
            DockerGpus::NotReachable { .. }
        ));
        assert_eq!(docker_gpus(&plain, true), DockerGpus::Reachable);
        assert_eq!(
            docker_gpus(
                &info(serde_json::json!({"Runtimes": {"nvidia": {}}})),
                false
            ),
            DockerGpus::Reachable
        );
        let cdi = info(
            serde_json::json!({"DiscoveredDevices": [{"Source": "cdi", "ID": "nvidia.com/gpu=0"}]}),
        );
        assert_eq!(docker_gpus(&cdi, false), DockerGpus::Reachable);
    }
}
