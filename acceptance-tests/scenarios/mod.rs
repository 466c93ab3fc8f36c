//! Whole stories of a user with the provider on a cluster: real Terraform (and OpenTofu where the two might differ), the real
//! control plane. Each test is named after the rule of `product.md` that it holds.
//!
//! One control plane serves all of them, with more GPU nodes than the shared one: services really roll out, and tests that
//! run at the same time must not wait for each other's GPUs. What changes nodes takes a control plane of its own.

mod asks;
mod attributes;
mod between_plan_and_apply;
mod data_sources;
mod fault_runs;
mod faults;
mod fleet;
mod foreign;
mod functions;
mod lifecycle;
mod mixed_fleet;
mod moved;
mod names;
mod passing;
mod prices;
mod put_back;
mod requests;
mod rollout_failures;
mod secrets;
mod unknowns;
mod volumes;

use std::path::Path;
use std::sync::OnceLock;
use std::time::Duration;

use serde_json::{Value, json};

use crate::cluster::{Cluster, Namespace, NodeGroup, Parts};
use crate::terraform::{Cli, HAS_CHANGES, OK, Workspace};

/// How long a cluster may take for what takes it a second.
const SOON: Duration = Duration::from_secs(30);

/// The control plane of these tests: 16 nodes with one L4, 12 with eight H100, 4 without a GPU. It ends with the process.
fn cluster() -> Option<&'static Cluster> {
    static CLUSTER: OnceLock<Option<Cluster>> = OnceLock::new();
    CLUSTER
        .get_or_init(|| {
            let cluster =
                Cluster::own(Parts::All, &[l4(16), h100(12), NodeGroup::new("cpu", 4, 0)])?;
            for class in [
                json!({"metadata": {"name": "retain"}, "reclaimPolicy": "Retain", "volumeBindingMode": "WaitForFirstConsumer"}),
                json!({"metadata": {"name": "immediate"}, "reclaimPolicy": "Retain", "volumeBindingMode": "Immediate"}),
                json!({"metadata": {"name": "delete"}, "reclaimPolicy": "Delete", "volumeBindingMode": "WaitForFirstConsumer"}),
            ] {
                let mut class = class;
                class["provisioner"] = json!("loomplane.bench/none");
                cluster.create("/apis/storage.k8s.io/v1/storageclasses", &class);
            }
            cluster.create(
                "/apis/node.k8s.io/v1/runtimeclasses",
                &json!({"metadata": {"name": "nvidia"}, "handler": "nvidia"}),
            );
            cluster.create(
                "/apis/scheduling.k8s.io/v1/priorityclasses",
                &json!({"metadata": {"name": "important"}, "value": 1000}),
            );
            Some(cluster)
        })
        .as_ref()
}

/// Nodes as EKS makes them: `g6.xlarge`, one L4 each.
fn l4(nodes: u32) -> NodeGroup {
    NodeGroup::new("l4", nodes, 1)
        .label("node.kubernetes.io/instance-type", "g6.xlarge")
        .label("nvidia.com/gpu.product", "NVIDIA-L4")
        .label("topology.kubernetes.io/region", "us-east-1")
        .taint("nvidia.com/gpu=present:NoSchedule")
}

/// `p5.48xlarge`, eight H100 each.
fn h100(nodes: u32) -> NodeGroup {
    NodeGroup::new("h100", nodes, 8)
        .label("node.kubernetes.io/instance-type", "p5.48xlarge")
        .label("nvidia.com/gpu.product", "NVIDIA-H100-80GB-HBM3")
        .label("topology.kubernetes.io/region", "us-east-1")
        .taint("nvidia.com/gpu=present:NoSchedule")
}

/// A namespace on a cluster, and a folder with a configuration for it.
struct Bench<'a> {
    cluster: &'a Cluster,
    namespace: Namespace<'a>,
    work: Workspace,
}

/// A bench on the control plane of these tests, with the connection `prod`.
fn bench(name: &str) -> Option<Bench<'static>> {
    bench_by(Cli::any(), name)
}

fn bench_by(cli: Cli, name: &str) -> Option<Bench<'static>> {
    Bench::on(cluster()?, cli, name)
}

impl<'a> Bench<'a> {
    fn on(cluster: &'a Cluster, cli: Cli, name: &str) -> Option<Self> {
        let work = Workspace::with_provider(cli)?;
        let bench = Self {
            namespace: cluster.namespace(name),
            cluster,
            work,
        };
        bench.connections(&[("prod", "")], "");
        Some(bench)
    }

    /// The provider block: connections (with further arguments) to the cluster, and further arguments of the provider.
    fn connections(&self, names: &[(&str, &str)], more: &str) {
        self.connections_with(self.cluster.kubeconfig(), names, more);
    }

    fn connections_with(&self, kubeconfig: &Path, names: &[(&str, &str)], more: &str) {
        let connections: String = names
            .iter()
            .map(|(name, arguments)| {
                format!(
                    "    {name} = {{\n      config_path = {:?}\n      namespace = {:?}\n      {arguments}\n    }}\n",
                    kubeconfig.display().to_string(),
                    self.namespace.name()
                )
            })
            .collect();
        self.work.file(
            "provider.tf",
            &format!(
                "{REQUIRED}provider \"loomplane\" {{\n  clusters = {{\n{connections}  }}\n  {more}\n}}\n"
            ),
        );
    }

    fn main(&self, text: &str) -> &Self {
        self.work.file("main.tf", text);
        self
    }

    /// Applies, and holds that nothing is left to do.
    fn applied(&self) -> &Self {
        self.work.apply().expect(OK);
        self.work.expect_no_changes();
        self
    }

    /// Plans one change: what `loomplane_gpu_service.it` is to become.
    fn change(&self) -> Value {
        self.work.plan().expect(HAS_CHANGES);
        self.work.change(IT)
    }

    fn state(&self) -> Value {
        self.work.state_of(IT).expect("a service in the state")
    }

    fn deployment(&self, name: &str) -> Value {
        self.cluster.get(&self.namespace.deployment(name))
    }

    fn pod_spec(&self, name: &str) -> Value {
        self.deployment(name)["spec"]["template"]["spec"].clone()
    }

    fn path(&self, kind: &str, name: &str) -> String {
        format!("/api/v1/namespaces/{}/{kind}/{name}", self.namespace.name())
    }

    /// Changes the Deployment behind Terraform's back.
    fn patch(&self, name: &str, patch: &Value) {
        self.cluster.merge(&self.namespace.deployment(name), patch);
    }

    /// Waits until there is a pod on a node whose annotation `outcome` is this one (of `control-plane/stages`): the rollout has begun.
    fn await_pod(&self, outcome: &str) {
        let path = format!("/api/v1/namespaces/{}/pods", self.namespace.name());
        self.cluster.await_true(&path, SOON, |pods| {
            pods["items"].as_array().unwrap().iter().any(|pod| {
                pod["metadata"]["annotations"]["loomplane.bench/outcome"] == outcome
                    && pod["spec"]["nodeName"].is_string()
            })
        });
    }

    /// Names of what is left in the namespace, of every kind that a service is made of.
    fn left(&self) -> Vec<String> {
        let namespace = self.namespace.name();
        let lists = [
            format!("/apis/apps/v1/namespaces/{namespace}/deployments"),
            format!("/apis/apps/v1/namespaces/{namespace}/replicasets"),
            format!("/api/v1/namespaces/{namespace}/pods"),
            format!("/api/v1/namespaces/{namespace}/services"),
            format!("/api/v1/namespaces/{namespace}/secrets"),
            format!("/api/v1/namespaces/{namespace}/persistentvolumeclaims"),
        ];
        let mut names = Vec::new();
        for list in lists {
            for item in self.cluster.get(&list)["items"].as_array().unwrap() {
                // A finished pod's deletion is the kubelet's last word, a moment later.
                if item["metadata"]["deletionTimestamp"].is_null() {
                    names.push(item["metadata"]["name"].as_str().unwrap().to_owned());
                }
            }
        }
        names
    }
}

/// The address of the service that [`service`] writes.
const IT: &str = "loomplane_gpu_service.it";

const REQUIRED: &str = "terraform {\n  required_providers {\n    loomplane = { source = \"loomplane/loomplane\" }\n  }\n}\n";

/// `loomplane_gpu_service.it`, called `it`, on `prod`.
fn service(arguments: &str) -> String {
    named("it", arguments)
}

fn named(name: &str, arguments: &str) -> String {
    format!(
        "resource \"loomplane_gpu_service\" \"{name}\" {{\n  name = \"{name}\"\n  target = \"prod\"\n  image = \"registry.k8s.io/pause:3.10\"\n  {arguments}\n}}\n"
    )
}

/// One GPU of a kind.
fn gpu(kind: &str, count: u32) -> String {
    format!("size = {{ cpu = 0.5, memory = 256, gpu = {{ kind = {kind:?}, count = {count} }} }}")
}

/// The actions of a change, as one word.
fn actions(change: &Value) -> String {
    let actions: Vec<&str> = change["actions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|action| action.as_str().unwrap())
        .collect();
    actions.join("-")
}
