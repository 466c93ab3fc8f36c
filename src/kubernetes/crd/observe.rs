//! What a set's preview looks at: all nodes, the workloads that name the set, and others that have GPUs on its nodes. `seen.rs` lists them.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use serde::Deserialize;

use super::super::cancel::Cancel;
use super::super::connect::Cluster;
use super::super::error::Error;
use super::seen::Member;
use crate::capacity::set::membership::is_whole_card;
use crate::capacity::set::{Definition, Observed, Phase, Workload, WorkloadKind, marks, members};

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Meta {
    name: String,
    namespace: String,
    labels: Option<BTreeMap<String, String>>,
    annotations: Option<BTreeMap<String, String>>,
    creation_timestamp: Option<Timestamp>,
    deletion_timestamp: Option<Timestamp>,
}

impl Meta {
    fn label(&self, key: &str) -> Option<&str> {
        self.labels.as_ref()?.get(key).map(String::as_str)
    }

    fn marks(&self) -> BTreeMap<String, String> {
        let annotations = self.annotations.iter().flatten();
        annotations
            .filter(|(key, _)| key.starts_with(marks::PREFIX))
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect()
    }
}

#[derive(Deserialize)]
#[serde(default)]
#[derive(Default)]
pub(super) struct Pod {
    metadata: Meta,
    spec: PodSpec,
    status: PodStatus,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct PodSpec {
    node_name: Option<String>,
    containers: Vec<Container>,
    init_containers: Option<Vec<Container>>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Container {
    resources: Resources,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Resources {
    limits: Option<BTreeMap<String, String>>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct PodStatus {
    phase: String,
    start_time: Option<Timestamp>,
}

impl Container {
    fn gpus(&self) -> u32 {
        let limits = self.resources.limits.iter().flatten();
        limits
            .filter(|(name, _)| is_whole_card(name))
            .filter_map(|(_, amount)| amount.parse::<u32>().ok())
            .sum()
    }
}

impl Pod {
    pub(super) fn gpus(&self) -> u32 {
        let all: u32 = self.spec.containers.iter().map(Container::gpus).sum();
        // One init container runs at a time, before the others.
        let first = self
            .spec
            .init_containers
            .iter()
            .flatten()
            .map(Container::gpus)
            .max();
        all.max(first.unwrap_or_default())
    }

    /// The set that it names.
    pub(super) fn set(&self) -> Option<&str> {
        self.metadata.label(marks::SET)
    }

    pub(super) fn has_ended(&self) -> bool {
        matches!(self.status.phase.as_str(), "Succeeded" | "Failed")
    }

    /// The VM that this pod is the shell of, and whose GPUs it has.
    pub(super) fn vm(&self) -> Option<&str> {
        if self.metadata.label("kubevirt.io") != Some("virt-launcher") {
            return None;
        }
        let keys = ["vm.kubevirt.io/name", "kubevirt.io/domain"];
        keys.iter()
            .find_map(|key| self.metadata.label(key))
            .or(Some(""))
    }

    pub(super) fn workload(&self) -> Workload {
        let phase = match (&self.spec.node_name, self.metadata.deletion_timestamp) {
            (None, _) => Phase::Waiting,
            (Some(_), Some(_)) => Phase::Stopping,
            (Some(_), None) => Phase::Running,
        };
        Workload {
            kind: WorkloadKind::Pod,
            namespace: self.metadata.namespace.clone(),
            name: self.metadata.name.clone(),
            pool: self
                .metadata
                .label(marks::POOL)
                .unwrap_or_default()
                .to_owned(),
            annotations: self.metadata.marks(),
            gpus: self.gpus(),
            phase,
            node: self.spec.node_name.clone(),
            created_at: self.metadata.creation_timestamp,
            started_at: self.status.start_time,
        }
    }
}

#[derive(Deserialize, Default)]
#[serde(default)]
pub(super) struct Vm {
    metadata: Meta,
    spec: VmSpec,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct VmSpec {
    run_strategy: Option<String>,
    running: Option<bool>,
    template: Template,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Template {
    spec: TemplateSpec,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct TemplateSpec {
    domain: Domain,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Domain {
    devices: Devices,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Devices {
    gpus: Option<Vec<serde::de::IgnoredAny>>,
    host_devices: Option<Vec<HostDevice>>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct HostDevice {
    device_name: String,
}

#[derive(Deserialize, Default)]
#[serde(default)]
pub(super) struct Vmi {
    metadata: Meta,
    status: VmiStatus,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct VmiStatus {
    phase: String,
    node_name: Option<String>,
    phase_transition_timestamps: Option<Vec<Transition>>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Transition {
    phase: String,
    phase_transition_timestamp: Option<Timestamp>,
}

impl Vm {
    /// The set that it names.
    pub(super) fn set(&self) -> Option<&str> {
        self.metadata.label(marks::SET)
    }

    /// Namespace and name.
    pub(super) fn key(&self) -> (&str, &str) {
        (&self.metadata.namespace, &self.metadata.name)
    }

    fn gpus(&self) -> u32 {
        let devices = &self.spec.template.spec.domain.devices;
        let gpus = devices.gpus.as_ref().map_or(0, Vec::len);
        let passed = devices.host_devices.iter().flatten();
        let passed = passed
            .filter(|device| is_whole_card(&device.device_name))
            .count();
        u32::try_from(gpus + passed).unwrap_or(u32::MAX)
    }

    /// Whether KubeVirt is to run it.
    fn is_on(&self) -> bool {
        match self.spec.run_strategy.as_deref() {
            Some(strategy) => !matches!(strategy, "Halted" | "Manual"),
            None => self.spec.running == Some(true),
        }
    }

    /// As a workload, with its instance where there is one. `None`: it does not run, and is not to.
    pub(super) fn workload(&self, instance: Option<&Vmi>) -> Option<Workload> {
        let marks = self.metadata.marks();
        let instance =
            instance.filter(|it| !matches!(it.status.phase.as_str(), "Succeeded" | "Failed"));
        let node = instance
            .and_then(|it| it.status.node_name.clone())
            .filter(|node| !node.is_empty());
        let manual = self.spec.run_strategy.as_deref() == Some("Manual");
        let placed = marks.contains_key(marks::NODE) && marks.contains_key(marks::CARDS);
        let phase = match (&node, instance) {
            (Some(_), Some(it)) => {
                let stopping = self.metadata.deletion_timestamp.is_some()
                    || it.metadata.deletion_timestamp.is_some()
                    || (!self.is_on() && !manual);
                if stopping {
                    Phase::Stopping
                } else {
                    Phase::Running
                }
            }
            _ if self.metadata.deletion_timestamp.is_some() => return None,
            // Told to start on cards that are named: it has them, though KubeVirt has not put it there yet.
            _ if self.is_on() && placed => Phase::Running,
            _ if marks
                .get(marks::WANTED)
                .is_some_and(|wanted| wanted == "false") =>
            {
                return None;
            }
            _ => Phase::Waiting,
        };
        let started_at = instance.and_then(|it| {
            let changes = it.status.phase_transition_timestamps.iter().flatten();
            let running = changes.filter(|change| change.phase == "Running");
            running
                .filter_map(|change| change.phase_transition_timestamp)
                .max()
        });
        Some(Workload {
            kind: WorkloadKind::Vm,
            namespace: self.metadata.namespace.clone(),
            name: self.metadata.name.clone(),
            pool: self
                .metadata
                .label(marks::POOL)
                .unwrap_or_default()
                .to_owned(),
            annotations: marks,
            gpus: self.gpus(),
            phase,
            node,
            created_at: self.metadata.creation_timestamp,
            started_at,
        })
    }
}

impl Vmi {
    /// Namespace and name, which are its VM's.
    pub(super) fn key(&self) -> (&str, &str) {
        (&self.metadata.namespace, &self.metadata.name)
    }
}

impl Cluster {
    /// What there is to plan on for this set.
    ///
    /// # Errors
    /// [`Error::NodesForbidden`] (K1), [`Error::Forbidden`] on pods, VMs or sets, and what any request can end in.
    pub async fn observe_set(
        &self,
        definition: &Definition,
        cancel: &Cancel,
    ) -> Result<Observed, Error> {
        let set = definition.set.name.as_str();
        let nodes = self.set_nodes(cancel).await?;
        let others = self.seen_sets(cancel).await?;
        let (own, _) = members(definition, &nodes, &others);
        let own: BTreeSet<String> = own.into_iter().map(|node| node.name).collect();
        let mut observed = Observed {
            nodes,
            others,
            ..Observed::default()
        };
        let of_set = |members: &[Member]| -> Vec<Workload> {
            let own = members.iter().filter(|member| member.set == set);
            own.map(|member| member.workload.clone()).collect()
        };
        observed.members = of_set(&self.seen_vms(cancel).await?);
        let vms: BTreeSet<(String, String)> = observed
            .members
            .iter()
            .map(|vm| (vm.namespace.clone(), vm.name.clone()))
            .collect();
        let pods = of_set(&self.seen_pods(cancel).await?);
        observed.members.extend(pods);
        let on_nodes = self.seen_pods_on(&own, cancel).await?;
        let strangers = on_nodes.iter().flat_map(|pods| pods.iter()).filter(|pod| {
            let in_set = match &pod.vm {
                Some(vm) => vms.contains(&(pod.workload.namespace.clone(), vm.clone())),
                None => pod.set.as_deref() == Some(set),
            };
            let here = |node: &String| own.contains(node);
            !in_set && pod.workload.node.as_ref().is_some_and(here)
        });
        observed.strangers = strangers.map(|pod| pod.workload.clone()).collect();
        observed.strangers.sort_by_key(Workload::claim_name);
        Ok(observed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn vm(spec: serde_json::Value, annotations: serde_json::Value) -> Vm {
        serde_json::from_value(json!({
            "metadata": {"name": "a", "namespace": "ml", "labels": {marks::POOL: "batch"}, "annotations": annotations}, "spec": spec,
        }))
        .unwrap()
    }

    fn phase(vm: &Vm, vmi: Option<&Vmi>) -> Option<Phase> {
        vm.workload(vmi).map(|workload| workload.phase)
    }

    #[test]
    fn a_vm_waits_until_it_is_told_where_to_run_and_stops_when_it_is_switched_off() {
        let placed = json!({marks::NODE: "n1", marks::CARDS: "0"});
        let running: Vmi = serde_json::from_value(json!({"status": {"phase": "Running", "nodeName": "n1",
            "phaseTransitionTimestamps": [{"phase": "Running", "phaseTransitionTimestamp": "2026-11-30T12:00:00Z"}]}})).unwrap();
        let on = |annotations| vm(json!({"runStrategy": "Always"}), annotations);
        let off = |annotations| vm(json!({"runStrategy": "Halted"}), annotations);
        assert_eq!(phase(&off(json!(null)), None), Some(Phase::Waiting));
        assert_eq!(
            phase(&off(placed.clone()), None),
            Some(Phase::Waiting),
            "a hold"
        );
        assert_eq!(phase(&on(placed.clone()), None), Some(Phase::Running));
        assert_eq!(phase(&on(json!(null)), None), Some(Phase::Waiting));
        assert_eq!(
            phase(&on(json!(null)), Some(&running)),
            Some(Phase::Running)
        );
        assert_eq!(phase(&off(placed), Some(&running)), Some(Phase::Stopping));
        assert_eq!(phase(&off(json!({marks::WANTED: "false"})), None), None);
        assert_eq!(
            phase(&vm(json!({"running": true}), json!(null)), Some(&running)),
            Some(Phase::Running)
        );
        let started = on(json!(null)).workload(Some(&running)).unwrap().started_at;
        assert_eq!(started.unwrap().to_string(), "2026-11-30T12:00:00Z");
    }

    #[test]
    fn gpus_of_vms_and_pods_are_whole_cards() {
        let devices = json!({"gpus": [{"name": "a", "deviceName": "nvidia.com/GH100_H100_SXM5_80GB"}, {}],
            "hostDevices": [{"deviceName": "nvidia.com/GA100_A100_SXM4_80GB"}, {"deviceName": "intel.com/qat"}]});
        let vm = vm(
            json!({"template": {"spec": {"domain": {"devices": devices}}}}),
            json!(null),
        );
        assert_eq!(vm.gpus(), 3);
        let pod: Pod = serde_json::from_value(json!({"spec": {
            "containers": [{"resources": {"limits": {"nvidia.com/gpu": "2", "cpu": "500m"}}}, {"resources": {"limits": {"nvidia.com/mig-1g.5gb": "1"}}}],
            "initContainers": [{"resources": {"limits": {"nvidia.com/gpu": "1"}}}]}}))
        .unwrap();
        assert_eq!(pod.gpus(), 2);
    }
}
