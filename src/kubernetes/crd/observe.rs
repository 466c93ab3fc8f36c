//! What a set's preview looks at: all nodes, the workloads that name the set, and others that have GPUs on its nodes.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use kube::core::params::ListParams;
use serde::Deserialize;

use super::super::cancel::Cancel;
use super::super::connect::Cluster;
use super::super::error::Error;
use crate::capacity::set::membership::is_whole_card;
use crate::capacity::set::{
    Definition, Observed, Phase, SeenNode, Workload, WorkloadKind, marks, members,
};

/// Up to this many nodes, the pods of each are asked for; beyond, one list of all pods is cheaper.
const NODES_ASKED_ONE_BY_ONE: usize = 32;
/// Pods that have their GPUs.
const ALIVE: &str = "status.phase!=Succeeded,status.phase!=Failed";
const PODS: &str = "/api/v1/pods";
const VMS: &str = "/apis/kubevirt.io/v1/virtualmachines";
const VMIS: &str = "/apis/kubevirt.io/v1/virtualmachineinstances";

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
struct Pod {
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
    fn gpus(&self) -> u32 {
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

    fn has_ended(&self) -> bool {
        matches!(self.status.phase.as_str(), "Succeeded" | "Failed")
    }

    /// The VM that this pod is the shell of, and whose GPUs it has.
    fn vm(&self) -> Option<&str> {
        if self.metadata.label("kubevirt.io") != Some("virt-launcher") {
            return None;
        }
        let keys = ["vm.kubevirt.io/name", "kubevirt.io/domain"];
        keys.iter()
            .find_map(|key| self.metadata.label(key))
            .or(Some(""))
    }

    fn workload(&self) -> Workload {
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
struct Vm {
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
struct Vmi {
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
    fn workload(&self, instance: Option<&Vmi>) -> Option<Workload> {
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
        let nodes = self.set_nodes(cancel).await?;
        let others = self.capacity_sets(cancel).await?;
        let (own, _) = members(definition, &nodes, &others);
        let own: BTreeSet<String> = own.into_iter().map(|node| node.name).collect();
        let selector = format!("{}={}", marks::SET, definition.set.name);
        let mut observed = Observed {
            nodes,
            others,
            ..Observed::default()
        };
        let vms = self.set_vms(&selector, cancel).await?;
        let names: BTreeSet<(String, String)> = vms
            .iter()
            .map(|vm| (vm.namespace.clone(), vm.name.clone()))
            .collect();
        observed.members = vms;
        let params = ListParams::default().labels(&selector).fields(ALIVE);
        let pods: Vec<Pod> = self.list_all("list pods", PODS, &params, cancel).await?;
        let claims = pods
            .iter()
            .filter(|pod| pod.vm().is_none() && !pod.has_ended());
        observed.members.extend(claims.map(Pod::workload));
        for pod in self.pods_on(&own, cancel).await? {
            let in_set = match pod.vm() {
                Some(vm) => names.contains(&(pod.metadata.namespace.clone(), vm.to_owned())),
                None => pod.metadata.label(marks::SET) == Some(definition.set.name.as_str()),
            };
            if !in_set && !pod.has_ended() && pod.gpus() > 0 {
                observed.strangers.push(pod.workload());
            }
        }
        observed.strangers.sort_by_key(Workload::claim_name);
        Ok(observed)
    }

    /// All nodes, with all of their labels and what they say of capacity sets.
    ///
    /// # Errors
    /// [`Error::NodesForbidden`] (K1), and what any request can end in.
    pub async fn set_nodes(&self, cancel: &Cancel) -> Result<Vec<SeenNode>, Error> {
        self.list_seen_nodes(|_| true, cancel).await
    }

    async fn set_vms(&self, selector: &str, cancel: &Cancel) -> Result<Vec<Workload>, Error> {
        let params = ListParams::default().labels(selector);
        let vms: Vec<Vm> = self
            .list_all("list VirtualMachines", VMS, &params, cancel)
            .await?;
        if vms.is_empty() {
            return Ok(Vec::new());
        }
        // An instance has the labels of the VM's template, which need not be the VM's.
        let instances: Vec<Vmi> = self
            .list_all(
                "list VirtualMachineInstances",
                VMIS,
                &ListParams::default(),
                cancel,
            )
            .await?;
        let instances: BTreeMap<(&str, &str), &Vmi> = instances
            .iter()
            .map(|it| {
                (
                    (it.metadata.namespace.as_str(), it.metadata.name.as_str()),
                    it,
                )
            })
            .collect();
        let of = |vm: &Vm| {
            let key = (vm.metadata.namespace.as_str(), vm.metadata.name.as_str());
            vm.workload(instances.get(&key).copied())
        };
        Ok(vms.iter().filter_map(of).collect())
    }

    async fn pods_on(&self, nodes: &BTreeSet<String>, cancel: &Cancel) -> Result<Vec<Pod>, Error> {
        let doing = "list pods";
        if nodes.len() > NODES_ASKED_ONE_BY_ONE {
            let params = ListParams::default().fields(ALIVE);
            let pods: Vec<Pod> = self.list_all(doing, PODS, &params, cancel).await?;
            let on = |pod: &Pod| {
                pod.spec
                    .node_name
                    .as_ref()
                    .is_some_and(|node| nodes.contains(node))
            };
            return Ok(pods.into_iter().filter(on).collect());
        }
        let mut pods = Vec::new();
        for node in nodes {
            let params = ListParams::default().fields(&format!("spec.nodeName={node},{ALIVE}"));
            pods.extend(self.list_all::<Pod>(doing, PODS, &params, cancel).await?);
        }
        Ok(pods)
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
