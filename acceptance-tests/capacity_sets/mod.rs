//! `loomplane_capacity_set` and `data.loomplane_capacity_preview` against a real API server, through the real CLI.
//!
//! A control plane for each test, since the kind `CapacitySet` belongs to a whole cluster. KubeVirt's kinds are minimal definitions: what they hold is
//! written by the tests, as KubeVirt would.

mod connection;
mod definition;
mod enforce;
mod lifecycle;
mod live;
mod nodes;
mod preview;
mod requests;
mod rights;

use serde_json::{Value, json};

use crate::cluster::{Cluster, NodeGroup, Parts};
use crate::terraform::{Cli, Workspace};

const SETS: &str = "/apis/capacity.loomplane.dev/v1alpha1/capacitysets";
const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const CRD: &str =
    "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/capacitysets.capacity.loomplane.dev";
const MARK: &str = "capacity.loomplane.dev";

/// Two boards of 8 A100s and a machine of L4s.
fn fleet() -> Option<Cluster> {
    Cluster::own(
        Parts::Api,
        &[
            a100("a100", 2, 8),
            NodeGroup::new("l4", 1, 4).label("nvidia.com/gpu.product", "NVIDIA-L4"),
        ],
    )
}

fn a100(name: &str, nodes: u32, gpus: u32) -> NodeGroup {
    NodeGroup::new(name, nodes, gpus).label("nvidia.com/gpu.product", "NVIDIA-A100-SXM4-80GB")
}

/// The kinds of KubeVirt, as far as the API server needs them, and the namespace `ml`.
fn with_kubevirt(cluster: &Cluster) {
    for (plural, kind) in [
        ("virtualmachines", "VirtualMachine"),
        ("virtualmachineinstances", "VirtualMachineInstance"),
    ] {
        let singular = kind.to_lowercase();
        cluster.create(
            CRDS,
            &json!({
                "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
                "metadata": {"name": format!("{plural}.kubevirt.io")},
                "spec": {
                    "group": "kubevirt.io", "scope": "Namespaced",
                    "names": {"plural": plural, "singular": singular, "kind": kind},
                    "versions": [{"name": "v1", "served": true, "storage": true,
                        "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}],
                },
            }),
        );
        let path = format!("{CRDS}/{plural}.kubevirt.io");
        cluster.await_true(&path, std::time::Duration::from_secs(30), |crd| {
            let conditions = crd["status"]["conditions"].as_array();
            conditions.is_some_and(|all| {
                all.iter()
                    .any(|it| it["type"] == "Established" && it["status"] == "True")
            })
        });
    }
    cluster.create("/api/v1/namespaces", &json!({"metadata": {"name": "ml"}}));
}

const VMS: &str = "/apis/kubevirt.io/v1/namespaces/ml/virtualmachines";

/// A VM of the set `fleet`: one that runs, on these cards of this node, or one that waits.
fn vm(cluster: &Cluster, name: &str, pool: &str, gpus: usize, place: Option<(&str, &str)>) {
    let mut annotations = json!({
        format!("{MARK}/requested-at"): "2026-11-01T12:00:00Z",
        format!("{MARK}/started-at"): "2026-11-01T13:00:00Z",
    });
    if let Some((node, cards)) = place {
        annotations[format!("{MARK}/node")] = node.into();
        annotations[format!("{MARK}/cards")] = cards.into();
    }
    let devices: Vec<Value> = (0..gpus)
        .map(|number| json!({"name": format!("gpu{number}"), "deviceName": "nvidia.com/GA100_A100_SXM4_80GB"}))
        .collect();
    let body = json!({
        "apiVersion": "kubevirt.io/v1", "kind": "VirtualMachine",
        "metadata": {"name": name, "annotations": annotations, "labels": {format!("{MARK}/set"): "fleet", format!("{MARK}/pool"): pool}},
        "spec": {
            "runStrategy": if place.is_some() { "Always" } else { "Halted" },
            "template": {"spec": {"domain": {"devices": {"gpus": devices}}}},
        },
    });
    // A definition that was made a moment ago may not be served at once.
    let until = std::time::Instant::now() + std::time::Duration::from_secs(20);
    while let Err(error) = cluster.request("POST", VMS, "application/json", Some(&body)) {
        assert!(std::time::Instant::now() < until, "{name}: {error}");
        std::thread::sleep(std::time::Duration::from_millis(200));
    }
}

/// A pod that runs on a node, or waits for one.
fn pod(
    cluster: &Cluster,
    name: &str,
    gpus: u32,
    node: Option<&str>,
    labels: &Value,
    annotations: &Value,
) {
    let body = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "labels": labels, "annotations": annotations},
        "spec": {"nodeName": node, "automountServiceAccountToken": false, "containers": [{
            "name": "main", "image": "example.net/none",
            "resources": {"limits": {"nvidia.com/gpu": gpus.to_string()}},
        }]},
    });
    // Without controllers nobody makes the namespace's default service account.
    let path = "/api/v1/namespaces/ml/serviceaccounts";
    if !cluster.exists(&format!("{path}/default")) {
        cluster.create(path, &json!({"metadata": {"name": "default"}}));
    }
    cluster.create("/api/v1/namespaces/ml/pods", &body);
}

/// What KubeVirt makes of a VM that runs: its instance, and the pod that it is the shell of, with the VM's GPUs.
fn instance(cluster: &Cluster, name: &str, gpus: u32, node: &str, since: &str) {
    let body = json!({
        "apiVersion": "kubevirt.io/v1", "kind": "VirtualMachineInstance", "metadata": {"name": name},
        "status": {"phase": "Running", "nodeName": node,
            "phaseTransitionTimestamps": [{"phase": "Running", "phaseTransitionTimestamp": since}]},
    });
    cluster.create(
        "/apis/kubevirt.io/v1/namespaces/ml/virtualmachineinstances",
        &body,
    );
    let labels = json!({"kubevirt.io": "virt-launcher", "vm.kubevirt.io/name": name});
    pod(
        cluster,
        &format!("virt-launcher-{name}"),
        gpus,
        Some(node),
        &labels,
        &json!({}),
    );
}

/// A what-if of the set `fleet`, and an output of its name.
fn what_if(name: &str, what: &str) -> String {
    format!(
        "data \"loomplane_capacity_preview\" \"{name}\" {{\n  cluster = \"lab\"\n  set = \"fleet\"\n  {what}\n}}\noutput \"{name}\" {{ value = data.loomplane_capacity_preview.{name} }}\n"
    )
}

/// A configuration of the set `fleet`; `rest` is the body of the resource beside name, cluster, kind and fabric.
fn configuration(kubeconfig: &std::path::Path, rest: &str) -> String {
    format!(
        r#"
        terraform {{
          required_providers {{
            loomplane = {{ source = "loomplane/loomplane" }}
          }}
        }}
        provider "loomplane" {{
          clusters = {{ lab = {{ config_path = "{}" }} }}
        }}
        resource "loomplane_capacity_set" "fleet" {{
          name     = "fleet"
          cluster  = "lab"
          gpu_kind = "nvidia-a100-80gb"
          fabric   = "nvswitch"
          {rest}
        }}
        "#,
        kubeconfig.display()
    )
}

const NODES: &str = r#"nodes = ["a100-0", "a100-1"]"#;
const POOLS: &str = r#"pools = {
    rentals = { type = "on_demand", rank = 1 }
    batch   = { type = "spot", rank = 2 }
    scratch = { type = "spot", rank = 3 }
}"#;

fn workspace() -> Option<Workspace> {
    Workspace::with_provider(Cli::any())
}

/// `crds`, as an administrator installs it.
fn printed_definition() -> String {
    let done = std::process::Command::new(crate::parts::provider())
        .arg("crds")
        .output()
        .unwrap();
    assert!(done.status.success());
    String::from_utf8(done.stdout).unwrap()
}
