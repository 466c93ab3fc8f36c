//! A fleet as people have it: labels of several clouds, arm64 beside amd64, shared cards and slices beside whole ones, taints here
//! and there. Where the real scheduler puts the pods is what counts (K2, K5 to K7, G4).
//!
//! One control plane serves these tests. Each has a GPU kind of its own, so that none can take another's nodes. A service asks for
//! one replica more than the nodes that may take it have room for: the pod that is left over shows that no other node was let in.

use std::sync::OnceLock;

use serde_json::{Value, json};

use super::{Bench, SOON, gpu, named, service};
use crate::cluster::{Cluster, NodeGroup, Parts};
use crate::terraform::{Cli, FAILED, HAS_CHANGES, OK};

const GKE: &str = "cloud.google.com/gke-accelerator";
const PRODUCT: &str = "nvidia.com/gpu.product";
const AWS: &str = "k8s.amazonaws.com/accelerator";
const DOKS: &str = "doks.digitalocean.com/gpu-model";
const MACHINE: &str = "node.kubernetes.io/instance-type";

/// One node with these labels.
fn node(name: &str, gpus: u32, labels: &[(&str, &str)]) -> NodeGroup {
    labels
        .iter()
        .fold(NodeGroup::new(name, 1, gpus), |node, (key, value)| {
            node.label(key, value)
        })
}

fn fleet() -> Vec<NodeGroup> {
    let mut all = vec![NodeGroup::new("cpu", 1, 0)];
    all.extend(order());
    all.extend(architectures());
    all.extend(a100());
    all.extend(sliced());
    all.extend(tainted());
    all
}

/// Each names two kinds, by K2's order first the one and later the other.
fn order() -> Vec<NodeGroup> {
    let (l40s, t4) = ("NVIDIA-L40S", "Tesla-T4");
    vec![
        node(
            "gke-first",
            1,
            &[(GKE, "nvidia-tesla-t4"), (PRODUCT, l40s), (DOKS, "l40s")],
        ),
        node("product-second", 1, &[(PRODUCT, t4), (AWS, "nvidia-l40s")]),
        node("aws-third", 1, &[(AWS, "nvidia-tesla-t4"), (DOKS, "l40s")]),
        node("doks-last", 3, &[(DOKS, "l40s"), (MACHINE, "g4dn.xlarge")]),
        node("machine-alone", 1, &[(MACHINE, "g4dn.xlarge")]),
        // First means first: what comes later is not asked.
        node("gke-unknown", 8, &[(GKE, "nvidia-b200"), (PRODUCT, l40s)]),
        node("gke-empty", 8, &[(GKE, ""), (PRODUCT, l40s)]),
        node(
            "product-unknown",
            8,
            &[(PRODUCT, "NVIDIA-L40"), (AWS, "nvidia-l40s")],
        ),
        node(
            "aws-unknown",
            8,
            &[(AWS, "nvidia-gpu"), (MACHINE, "g6e.12xlarge")],
        ),
        node("product-empty", 8, &[(PRODUCT, ""), (DOKS, "l40s")]),
    ]
}

fn architectures() -> Vec<NodeGroup> {
    vec![
        node(
            "arm-alone",
            8,
            &[(PRODUCT, "NVIDIA-RTX-4000-Ada-Generation")],
        )
        .arch("arm64"),
        node("beside-arm", 1, &[(PRODUCT, "NVIDIA-A10")]),
        node("beside-amd", 8, &[(PRODUCT, "NVIDIA-A10")]).arch("arm64"),
    ]
}

/// Names of the nodes of [`a100`] that give whole cards.
const WHOLE: [&str; 6] = [
    "by-aws-0",
    "by-both-0",
    "by-gke-0",
    "by-machine-0",
    "by-pcie-0",
    "by-sxm-0",
];

fn a100() -> Vec<NodeGroup> {
    let (gke, sxm) = (
        (GKE, "nvidia-tesla-a100"),
        (PRODUCT, "NVIDIA-A100-SXM4-40GB"),
    );
    vec![
        node("by-sxm", 1, &[sxm]),
        node("by-pcie", 1, &[(PRODUCT, "A100-PCIE-40GB")]),
        node("by-gke", 1, &[gke]),
        node("by-both", 1, &[gke, sxm]),
        // The value alone could mean the card with 80 GB too; the machine settles it.
        node(
            "by-aws",
            1,
            &[(AWS, "nvidia-tesla-a100"), (MACHINE, "p4d.24xlarge")],
        ),
        node("by-machine", 1, &[(MACHINE, "p4d.24xlarge")]),
        // The same cards, not whole. Every one of them advertises nvidia.com/gpu.
        node(
            "shared-time",
            8,
            &[sxm, ("nvidia.com/gpu.sharing-strategy", "time-slicing")],
        ),
        node(
            "shared-mps",
            8,
            &[sxm, ("nvidia.com/gpu.sharing-strategy", "mps")],
        ),
        node(
            "shared-name",
            8,
            &[(PRODUCT, "NVIDIA-A100-SXM4-40GB-SHARED")],
        ),
        node(
            "shared-gke",
            8,
            &[gke, ("cloud.google.com/gke-gpu-sharing-strategy", "mps")],
        ),
        node(
            "clients-gke",
            8,
            &[
                gke,
                ("cloud.google.com/gke-max-shared-clients-per-gpu", "4"),
            ],
        ),
        node(
            "mig-gke",
            8,
            &[gke, ("cloud.google.com/gke-gpu-partition-size", "1g.5gb")],
        ),
        node(
            "mig-name",
            8,
            &[(PRODUCT, "NVIDIA-A100-SXM4-40GB-MIG-1g.5gb")],
        ),
        node(
            "mig-both",
            8,
            &[gke, (PRODUCT, "NVIDIA-A100-SXM4-40GB-MIG-1g.5gb")],
        ),
        node("mig-mixed", 8, &[sxm, ("nvidia.com/mig-1g.5gb.count", "7")]),
        node("virtual", 8, &[sxm, ("nvidia.com/vgpu.present", "true")]),
    ]
}

/// H100 and L4, none of them whole.
fn sliced() -> Vec<NodeGroup> {
    let (gke, hbm3) = (
        (GKE, "nvidia-h100-80gb"),
        (PRODUCT, "NVIDIA-H100-80GB-HBM3"),
    );
    vec![
        node(
            "h100-mig",
            7,
            &[(PRODUCT, "NVIDIA-H100-80GB-HBM3-MIG-1g.10gb")],
        ),
        node("h100-mixed", 1, &[hbm3]).resource("nvidia.com/mig-3g.40gb", "2"),
        node(
            "h100-partition",
            7,
            &[gke, ("cloud.google.com/gke-gpu-partition-size", "1g.10gb")],
        ),
        node(
            "h100-mps",
            4,
            &[hbm3, ("nvidia.com/gpu.sharing-strategy", "mps")],
        ),
        node(
            "h100-shared",
            4,
            &[(PRODUCT, "NVIDIA-H100-80GB-HBM3-SHARED")],
        ),
        node(
            "h100-time",
            2,
            &[
                gke,
                ("cloud.google.com/gke-gpu-sharing-strategy", "time-sharing"),
            ],
        ),
        node(
            "l4-virtual",
            1,
            &[(PRODUCT, "NVIDIA-L4"), ("nvidia.com/vgpu.present", "true")],
        ),
        node("l4-profile", 1, &[(PRODUCT, "NVIDIA-L4-6Q")]),
        node(
            "l4-part",
            1,
            &[(PRODUCT, "NVIDIA-L4"), (MACHINE, "g6f.xlarge")],
        ),
    ]
}

const COMMON: &str = "nvidia.com/gpu=present:NoSchedule";

/// What a state's kind is, what taint its node carries (none: its kubelet never came up), and what a plan says of it.
const STATES: [(&str, &str, Option<&str>, &str); 5] = [
    (
        "nvidia-h100-nvl-94gb",
        "NVIDIA-H100-NVL",
        None,
        "1 node is not ready",
    ),
    (
        "nvidia-rtx-6000-ada",
        "NVIDIA-RTX-6000-Ada-Generation",
        Some("node.kubernetes.io/unreachable:NoSchedule"),
        "1 node is tainted node.kubernetes.io/unreachable",
    ),
    (
        "nvidia-h200-141gb",
        "NVIDIA-H200",
        Some("node.kubernetes.io/memory-pressure:NoSchedule"),
        "1 node is tainted node.kubernetes.io/memory-pressure",
    ),
    (
        "nvidia-a100-80gb",
        "NVIDIA-A100-80GB-PCIe",
        Some("ToBeDeletedByClusterAutoscaler=1764460800:NoSchedule"),
        "1 node is tainted ToBeDeletedByClusterAutoscaler",
    ),
    (
        "nvidia-v100-16gb",
        "Tesla-V100-SXM2-16GB",
        Some("node.cloudprovider.kubernetes.io/uninitialized=true:NoSchedule"),
        "1 node is tainted node.cloudprovider.kubernetes.io/uninitialized",
    ),
];

fn tainted() -> Vec<NodeGroup> {
    let v100 = |name: &str, gpus: u32| {
        node(name, gpus, &[(PRODUCT, "Tesla-V100-SXM2-32GB")]).taint(COMMON)
    };
    let mut all = vec![
        v100("plain", 1),
        v100("team", 8).taint("team=ml:NoSchedule"),
        v100("other-effect", 8).taint("nvidia.com/gpu=present:NoExecute"),
    ];
    all.extend(STATES.map(|(kind, product, taint, _)| {
        let node = node(kind, 1, &[(PRODUCT, product)]).taint(COMMON);
        match taint {
            Some(taint) => node.taint(taint),
            None => node.not_ready(),
        }
    }));
    all
}

/// A bench on the mixed fleet, whose control plane ends with the process.
fn mixed(name: &str) -> Option<Bench<'static>> {
    static CLUSTER: OnceLock<Option<Cluster>> = OnceLock::new();
    let cluster = CLUSTER
        .get_or_init(|| Cluster::own(Parts::All, &fleet()))
        .as_ref()?;
    Bench::on(cluster, Cli::any(), name)
}

/// Waits until the scheduler has decided on every pod of the namespace; the nodes that it put them on, sorted.
fn nodes_of(bench: &Bench<'_>, pods: usize) -> Vec<String> {
    let decided = |pod: &Value| {
        let conditions = pod["status"]["conditions"].as_array();
        pod["spec"]["nodeName"].is_string()
            || conditions
                .into_iter()
                .flatten()
                .any(|condition| condition["reason"] == "Unschedulable")
    };
    let path = format!("/api/v1/namespaces/{}/pods", bench.namespace.name());
    bench.cluster.await_true(&path, SOON, |found| {
        let found = found["items"].as_array().unwrap();
        found.len() == pods && found.iter().all(decided)
    });
    bench.namespace.nodes_used()
}

/// Applies `it` with one GPU of the kind for each of so many replicas, and says where the scheduler put them.
fn placed(bench: &Bench<'_>, kind: &str, replicas: usize) -> Vec<String> {
    let many = format!("{}\n  replicas = {replicas}\n  wait = false", gpu(kind, 1));
    bench.main(&service(&many)).applied();
    nodes_of(bench, replicas)
}

#[test]
fn k2_the_first_label_that_a_node_carries_decides_where_pods_land() {
    let Some(bench) = mixed("k2") else { return };
    // Four of one kind on one node: none has them, and each node is called by its first label.
    bench.main(&service(&gpu("nvidia-l40s", 4)));
    bench
        .work
        .plan()
        .expect(FAILED)
        .says("1 node has nvidia-l40s, but 3 GPUs per node")
        .says("4 nodes have nvidia-t4 (1 GPU per node)")
        .says(&format!(
            "1 node has GPUs of no kind that Loomplane knows ({GKE} = nvidia-b200)"
        ))
        .says(&format!(
            "1 node has GPUs of no kind that Loomplane knows ({PRODUCT} = NVIDIA-L40)"
        ))
        .says(&format!(
            "1 node has GPUs of no kind that Loomplane knows ({AWS} = nvidia-gpu)"
        ))
        .says(&format!(
            "1 node has an empty label {GKE}, which names no kind"
        ))
        .says(&format!(
            "1 node has an empty label {PRODUCT}, which names no kind"
        ));
    assert_eq!(placed(&bench, "nvidia-l40s", 4), ["doks-last-0"; 3]);
    assert_eq!(
        bench.state()["nodes"],
        json!(["1 node, 3 GPUs per node (g4dn.xlarge)"])
    );
    bench.work.destroy().expect(OK);
    let Some(bench) = mixed("k2") else { return };
    assert_eq!(
        placed(&bench, "nvidia-t4", 5),
        [
            "aws-third-0",
            "gke-first-0",
            "machine-alone-0",
            "product-second-0"
        ]
    );
    bench.work.destroy().expect(OK);
}

#[test]
fn g4_a_kind_on_arm64_alone_is_refused() {
    let Some(bench) = mixed("g4") else { return };
    bench.main(&service(&gpu("nvidia-rtx-4000-ada", 1)));
    bench
        .work
        .plan()
        .expect(FAILED)
        .says("prod can't meet this GPU request")
        .says("1 node has nvidia-rtx-4000-ada, but the architecture is arm64")
        .says("GPU work runs on amd64 only. Use a target with nvidia-rtx-4000-ada on amd64");
}

#[test]
fn k5_arm64_beside_amd64_of_one_kind_gets_no_pod() {
    let Some(bench) = mixed("k5arm") else { return };
    assert_eq!(placed(&bench, "nvidia-a10", 2), ["beside-arm-0"]);
    assert_eq!(bench.state()["nodes"], json!(["1 node, 1 GPU per node"]));
    bench.work.destroy().expect(OK);
}

#[test]
fn k5_every_value_and_key_that_means_the_kind_is_admitted_and_nothing_that_is_not_whole() {
    let Some(bench) = mixed("k5keys") else {
        return;
    };
    assert_eq!(placed(&bench, "nvidia-a100-40gb", WHOLE.len() + 1), WHOLE);
    let admits = bench.state()["placement"]["admits"].clone();
    for (key, value) in [
        (GKE, "nvidia-tesla-a100"),
        (PRODUCT, "NVIDIA-A100-SXM4-40GB"),
        (PRODUCT, "A100-PCIE-40GB"),
        (AWS, "nvidia-tesla-a100"),
        (MACHINE, "p4d.24xlarge"),
    ] {
        let values = admits[key].as_array().unwrap();
        assert!(values.contains(&json!(value)), "{key} = {value}: {admits}");
    }
    bench.work.destroy().expect(OK);
}

#[test]
fn k6_a_taint_on_some_matching_nodes_is_not_tolerated() {
    let Some(bench) = mixed("k6some") else { return };
    assert_eq!(placed(&bench, "nvidia-v100-32gb", 2), ["plain-0"]);
    assert_eq!(bench.state()["placement"]["tolerations"], json!([COMMON]));
    assert_eq!(bench.state()["nodes"], json!(["1 node, 1 GPU per node"]));
    bench.work.destroy().expect(OK);
}

#[test]
fn k6_taints_of_a_node_s_state_are_not_tolerated_and_said_to_pass() {
    let Some(bench) = mixed("k6state") else {
        return;
    };
    let all: String = STATES
        .iter()
        .map(|(kind, ..)| named(kind, &format!("{}\n  wait = false", gpu(kind, 1))))
        .collect();
    bench.main(&all);
    // Core folds warnings of one summary into one; its JSON does not.
    let plan = bench.work.run(&["plan", "-json"]).expect(OK);
    for (kind, _, _, says) in STATES {
        let text = plan.text();
        assert!(text.contains(says), "{kind}: {text}");
    }
    bench
        .work
        .plan()
        .expect(HAS_CHANGES)
        .says("No matching node of prod takes GPU work just now");
    bench.work.apply_plan().expect(OK);
    bench.work.expect_no_changes();
    assert_eq!(nodes_of(&bench, STATES.len()), Vec::<String>::new());
    for (kind, ..) in STATES {
        let it = bench
            .work
            .state_of(&format!("loomplane_gpu_service.{kind}"))
            .unwrap();
        assert_eq!(it["placement"]["tolerations"], json!([COMMON]), "{kind}");
    }
    // The state passes, and the pod runs, without another apply.
    bench.cluster.merge(
        "/api/v1/nodes/nvidia-h200-141gb-0",
        &json!({"spec": {"taints": [{"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}]}}),
    );
    bench.cluster.await_true(
        &bench.namespace.deployment("nvidia-h200-141gb"),
        SOON,
        |it| it["status"]["availableReplicas"] == 1,
    );
    bench.work.destroy().expect(OK);
}

#[test]
fn k7_shared_cards_and_slices_are_refused_as_what_they_are() {
    let Some(bench) = mixed("k7") else { return };
    bench.main(&service(&gpu("nvidia-h100-80gb", 1)));
    let refused = bench.work.plan().expect(FAILED);
    let mig = "1 node has nvidia-h100-80gb, but as MIG slices, not whole GPUs";
    let shared = "1 node has nvidia-h100-80gb, but shared, not whole GPUs";
    refused
        .says("prod can't meet this GPU request")
        .says(&format!("{mig} ({PRODUCT} = NVIDIA-H100-80GB-HBM3-MIG-1g.10gb)"))
        .says(&format!("{mig} (nvidia.com/mig-3g.40gb: 2)"))
        .says(&format!("{mig} (cloud.google.com/gke-gpu-partition-size = 1g.10gb)"))
        .says(&format!("{shared} (nvidia.com/gpu.sharing-strategy = mps)"))
        .says(&format!("{shared} ({PRODUCT} = NVIDIA-H100-80GB-HBM3-SHARED)"))
        .says(&format!("{shared} (cloud.google.com/gke-gpu-sharing-strategy = time-sharing)"))
        .says("Turn sharing or MIG off on a node that is to give whole GPUs, or use a target with nvidia-h100-80gb");
    bench.main(&service(&gpu("nvidia-l4", 1)));
    let vgpu = "1 node has nvidia-l4, but as virtual GPUs, not whole ones";
    bench
        .work
        .plan()
        .expect(FAILED)
        .says(&format!("{vgpu} (nvidia.com/vgpu.present = true)"))
        .says(&format!("{vgpu} ({PRODUCT} = NVIDIA-L4-6Q)"))
        .says("1 node has nvidia-l4, but only a part of one (g6f.xlarge)");
}

#[test]
fn k7_targets_that_hand_out_no_whole_cards_are_listed_as_what_they_are() {
    let Some(bench) = mixed("k7targets") else {
        return;
    };
    bench.main(
        "data \"loomplane_gpu_targets\" \"it\" {\n  for_each = toset([\"nvidia-h100-80gb\", \"nvidia-rtx-4000-ada\", \"nvidia-a10\"])\n  kind = each.key\n}\n\
         output \"rows\" {\n  value = { for kind, it in data.loomplane_gpu_targets.it : kind => it.targets[0] }\n}\n",
    );
    bench.work.apply().expect(OK);
    let rows = bench.work.output("rows");
    for (kind, says) in [
        ("nvidia-h100-80gb", "as MIG slices, not whole GPUs"),
        ("nvidia-h100-80gb", "shared, not whole GPUs"),
        ("nvidia-rtx-4000-ada", "the architecture is arm64"),
    ] {
        let row = &rows[kind];
        assert_eq!(row["usable"], false, "{row}");
        assert!(row["reason"].as_str().unwrap().contains(says), "{row}");
    }
    let row = &rows["nvidia-a10"];
    assert_eq!(
        (&row["usable"], &row["nodes"]),
        (&json!(true), &json!(1)),
        "{row}"
    );
    assert_eq!(row["gpus_per_node"], 1, "{row}");
}
