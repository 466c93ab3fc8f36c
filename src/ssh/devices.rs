//! Which cards a container was given, whoever started it (rules S3, S3a). Pure: reads what Docker shows, decides nothing.

use std::collections::{BTreeMap, BTreeSet};

use bollard::models::{ContainerInspectResponse, HostConfig, RestartPolicyNameEnum};

use super::docker::body::{DefaultRuntime, LABEL_POOL};
use super::docker::observed;
use super::docker::spec::VISIBLE_DEVICES;
use crate::capacity::ledger::{Container, Grant};

/// Where the toolkit lets a container ask for devices by mounting them.
const DEVICE_MOUNTS: &str = "/var/run/nvidia-container-devices/";

/// A container with its pool, as the ledger and a pool's budget need it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Occupant {
    /// What the ledger counts.
    pub container: Container,
    /// The pool that its service was placed by.
    pub pool: Option<String>,
}

/// Minor numbers of cards (`/dev/nvidia3`) to UUIDs, from /proc/driver/nvidia.
pub(crate) type Minors = BTreeMap<u32, String>;

/// Reads one container.
pub(crate) fn occupant(
    container: &ContainerInspectResponse,
    default_runtime: DefaultRuntime,
    minors: &Minors,
) -> Occupant {
    let labels = container
        .config
        .as_ref()
        .and_then(|config| config.labels.as_ref());
    let mark = observed::mark(labels);
    let grants = grants(container, default_runtime, minors);
    Occupant {
        pool: labels
            .and_then(|labels| labels.get(LABEL_POOL))
            .filter(|_| mark.is_some())
            .cloned(),
        container: Container {
            id: container.id.clone().unwrap_or_default(),
            name: observed::name(container).to_owned(),
            state: observed::state(container),
            service: mark.map(|mark| mark.service),
            restarts: restarts(container.host_config.as_ref()),
            grants: grants.into_iter().collect(),
        },
    }
}

fn restarts(host: Option<&HostConfig>) -> bool {
    let policy = host
        .and_then(|host| host.restart_policy.as_ref())
        .and_then(|policy| policy.name);
    matches!(
        policy,
        Some(
            RestartPolicyNameEnum::ALWAYS
                | RestartPolicyNameEnum::UNLESS_STOPPED
                | RestartPolicyNameEnum::ON_FAILURE
        )
    )
}

/// Everything by which the container was given cards. A privileged container that asked for none is not counted: it may touch any card,
/// and when it does its processes show on them, which makes those cards the last to be handed out.
fn grants(
    container: &ContainerInspectResponse,
    default_runtime: DefaultRuntime,
    minors: &Minors,
) -> BTreeSet<Grant> {
    let default = HostConfig::default();
    let host = container.host_config.as_ref().unwrap_or(&default);
    let mut grants = BTreeSet::new();
    let mut requested = false;
    for request in host.device_requests.iter().flatten() {
        let driver = request.driver.as_deref().unwrap_or_default();
        let gpu = request
            .capabilities
            .iter()
            .flatten()
            .flatten()
            .any(|capability| capability == "gpu");
        if !(gpu || matches!(driver, "nvidia" | "cdi")) {
            continue;
        }
        requested = true;
        match request.count.unwrap_or_default() {
            0 => grants.extend(
                request
                    .device_ids
                    .iter()
                    .flatten()
                    .filter_map(|id| device_id(id)),
            ),
            -1 => drop(grants.insert(Grant::All)),
            count => drop(grants.insert(Grant::First(u32::try_from(count).unwrap_or(u32::MAX)))),
        }
    }
    let runtime = host.runtime.as_deref().unwrap_or_default();
    // Docker writes the runtime's name into the container when it is made, so an empty or plain one says that it is not NVIDIA's,
    // except in containers made by older engines.
    let nvidia_runtime = runtime.contains("nvidia")
        || (runtime.is_empty() && default_runtime == DefaultRuntime::Nvidia);
    if nvidia_runtime && !requested {
        let env = container
            .config
            .as_ref()
            .and_then(|config| config.env.as_ref());
        let asked = env
            .into_iter()
            .flatten()
            .rev()
            .find_map(|entry| entry.strip_prefix(VISIBLE_DEVICES)?.strip_prefix('='));
        grants.extend(visible_devices(asked.unwrap_or_default()));
    }
    grants.extend(mounted(container, host, minors));
    grants
}

/// `NVIDIA_VISIBLE_DEVICES` as the runtime reads it.
fn visible_devices(value: &str) -> Vec<Grant> {
    match value.trim() {
        "" | "void" | "none" => Vec::new(),
        "all" => vec![Grant::All],
        list => list.split(',').filter_map(device_id).collect(),
    }
}

/// An index, a UUID or its beginning, `all`, a CDI name, a MIG slice (`1:0`, `MIG-...`).
fn device_id(id: &str) -> Option<Grant> {
    let id = id.trim();
    let id = id.strip_prefix("nvidia.com/gpu=").unwrap_or(id);
    match id {
        "" | "void" | "none" => None,
        "all" => Some(Grant::All),
        // A slice by card and number; its card is no whole device anyway, but may stop being split.
        id if id.contains(':') && !id.contains('-') => {
            id.split(':').next().map(|card| Grant::Id(card.to_owned()))
        }
        // MIG-GPU-<uuid>/<gi>/<ci>, the older form.
        id if id.starts_with("MIG-GPU-") => {
            let card = id
                .trim_start_matches("MIG-")
                .split('/')
                .next()
                .unwrap_or_default();
            Some(Grant::Id(card.to_owned()))
        }
        // A slice by its own UUID: belongs to a card with MIG on, which is never handed out.
        id if id.starts_with("MIG-") => None,
        id => Some(Grant::Id(id.to_owned())),
    }
}

/// Device nodes given one by one (`--device /dev/nvidia0`, a bind of it) and the toolkit's device mounts.
fn mounted(container: &ContainerInspectResponse, host: &HostConfig, minors: &Minors) -> Vec<Grant> {
    let devices = host
        .devices
        .iter()
        .flatten()
        .filter_map(|device| device.path_on_host.clone());
    let mounts = container.mounts.iter().flatten();
    let binds = mounts.clone().filter_map(|mount| mount.source.clone());
    let node = |path: String| {
        let minor: u32 = path.strip_prefix("/dev/nvidia")?.parse().ok()?;
        // Without the table, minors and indices agree on all but odd machines.
        Some(Grant::Id(
            minors
                .get(&minor)
                .cloned()
                .unwrap_or_else(|| minor.to_string()),
        ))
    };
    let asked = mounts
        .filter_map(|mount| {
            mount
                .destination
                .as_deref()?
                .strip_prefix(DEVICE_MOUNTS)
                .map(str::to_owned)
        })
        .filter_map(|id| device_id(&id));
    devices.chain(binds).filter_map(node).chain(asked).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capacity::ledger::ContainerState;

    fn container(json: serde_json::Value) -> ContainerInspectResponse {
        serde_json::from_value(json).unwrap()
    }

    fn of(host: serde_json::Value, env: &[&str]) -> Vec<Grant> {
        let container = container(serde_json::json!({"HostConfig": host, "Config": {"Env": env}}));
        grants(
            &container,
            DefaultRuntime::Plain,
            &Minors::from([(3, "GPU-three".to_owned())]),
        )
        .into_iter()
        .collect()
    }

    #[test]
    fn s3_every_way_to_get_a_card_is_read() {
        let id = |id: &str| Grant::Id(id.to_owned());
        let gpu = serde_json::json!([["gpu"]]);
        for (host, env, want) in [
            (
                serde_json::json!({"DeviceRequests": [{"Count": -1, "Capabilities": gpu}]}),
                vec![],
                vec![Grant::All],
            ),
            (
                serde_json::json!({"DeviceRequests": [{"Count": 2, "Capabilities": gpu}]}),
                vec![],
                vec![Grant::First(2)],
            ),
            (
                serde_json::json!({"DeviceRequests": [{"DeviceIDs": ["0", "GPU-ab"], "Capabilities": gpu}]}),
                vec![],
                vec![id("0"), id("GPU-ab")],
            ),
            (
                serde_json::json!({"DeviceRequests": [{"Driver": "cdi", "DeviceIDs": ["nvidia.com/gpu=all"]}]}),
                vec![],
                vec![Grant::All],
            ),
            (
                serde_json::json!({"DeviceRequests": [{"Driver": "cdi", "DeviceIDs": ["nvidia.com/gpu=1"]}]}),
                vec![],
                vec![id("1")],
            ),
            (
                serde_json::json!({"DeviceRequests": [{"Driver": "nvidia", "Count": -1}]}),
                vec![],
                vec![Grant::All],
            ),
            (
                serde_json::json!({"DeviceRequests": [{"Count": -1, "Capabilities": [["tpu"]]}]}),
                vec![],
                vec![],
            ),
            // The image of CUDA asks for all, which means nothing without NVIDIA's runtime.
            (
                serde_json::json!({"Runtime": "runc"}),
                vec!["NVIDIA_VISIBLE_DEVICES=all"],
                vec![],
            ),
            (
                serde_json::json!({"Runtime": "nvidia"}),
                vec!["NVIDIA_VISIBLE_DEVICES=all"],
                vec![Grant::All],
            ),
            (
                serde_json::json!({"Runtime": "nvidia"}),
                vec!["NVIDIA_VISIBLE_DEVICES=all", "NVIDIA_VISIBLE_DEVICES=1"],
                vec![id("1")],
            ),
            (
                serde_json::json!({"Runtime": "nvidia"}),
                vec!["NVIDIA_VISIBLE_DEVICES=0,GPU-ab"],
                vec![id("0"), id("GPU-ab")],
            ),
            (
                serde_json::json!({"Runtime": "nvidia"}),
                vec!["NVIDIA_VISIBLE_DEVICES=void"],
                vec![],
            ),
            (
                serde_json::json!({"Runtime": "nvidia"}),
                vec!["NVIDIA_VISIBLE_DEVICES=none"],
                vec![],
            ),
            (serde_json::json!({"Runtime": "nvidia"}), vec![], vec![]),
            // A request beats the variable of the image.
            (
                serde_json::json!({"Runtime": "nvidia", "DeviceRequests": [{"DeviceIDs": ["GPU-x"], "Capabilities": gpu}]}),
                vec!["NVIDIA_VISIBLE_DEVICES=all"],
                vec![id("GPU-x")],
            ),
            (
                serde_json::json!({"Runtime": "nvidia"}),
                vec!["NVIDIA_VISIBLE_DEVICES=0:1,MIG-GPU-ab/1/0,MIG-77"],
                vec![id("0"), id("GPU-ab")],
            ),
            (
                serde_json::json!({"Devices": [{"PathOnHost": "/dev/nvidia3"}, {"PathOnHost": "/dev/nvidiactl"}]}),
                vec![],
                vec![id("GPU-three")],
            ),
            (
                serde_json::json!({"Devices": [{"PathOnHost": "/dev/nvidia7"}]}),
                vec![],
                vec![id("7")],
            ),
            (serde_json::json!({"Privileged": true}), vec![], vec![]),
        ] {
            assert_eq!(of(host.clone(), &env), want, "{host} {env:?}");
        }
    }

    #[test]
    fn s3_nvidia_as_default_runtime_and_device_mounts_count() {
        let made = container(
            serde_json::json!({"HostConfig": {}, "Config": {"Env": ["NVIDIA_VISIBLE_DEVICES=all"]}}),
        );
        assert!(grants(&made, DefaultRuntime::Plain, &Minors::new()).is_empty());
        assert!(grants(&made, DefaultRuntime::Nvidia, &Minors::new()).contains(&Grant::All));
        let mounted = container(serde_json::json!({
            "HostConfig": {},
            "Mounts": [{"Source": "/dev/null", "Destination": "/var/run/nvidia-container-devices/GPU-ab"}]
        }));
        assert!(
            grants(&mounted, DefaultRuntime::Plain, &Minors::new())
                .contains(&Grant::Id("GPU-ab".to_owned()))
        );
    }

    #[test]
    fn s3a_state_mark_and_restart_policy_are_read() {
        let made = container(serde_json::json!({
            "Id": "abc", "Name": "/trainer", "State": {"Status": "exited"},
            "HostConfig": {"RestartPolicy": {"Name": "always"}}, "Config": {"Labels": {"io.loomplane.pool": "forged"}}
        }));
        let found = occupant(&made, DefaultRuntime::Plain, &Minors::new());
        assert_eq!(
            (found.container.name.as_str(), found.container.state),
            ("trainer", ContainerState::Exited)
        );
        assert!(
            found.container.restarts && found.container.service.is_none() && found.pool.is_none()
        );
    }
}
