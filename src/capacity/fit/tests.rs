use std::collections::BTreeMap;

use super::*;
use crate::capacity::label::keys;
use crate::capacity::node::{Node, Taint};
use crate::capacity::price::Usd;
use crate::capacity::taint::TolerationOperator;

mod check;
mod placement;

/// A ready amd64 node with GPUs of the product that a label names.
fn gpu_node(name: &str, key: &str, value: &str, gpus: u64) -> Node {
    let mut node = Node {
        name: name.to_owned(),
        arch: "amd64".to_owned(),
        ready: true,
        ..Node::default()
    };
    node.labels
        .insert(keys::ARCH.to_owned(), "amd64".to_owned());
    node.labels.insert(key.to_owned(), value.to_owned());
    node.labels
        .insert("kubernetes.io/hostname".to_owned(), name.to_owned());
    node.allocatable.insert(keys::GPU_RESOURCE.to_owned(), gpus);
    node.capacity.insert(keys::GPU_RESOURCE.to_owned(), gpus);
    node
}

fn product(name: &str, value: &str, gpus: u64) -> Node {
    gpu_node(name, "nvidia.com/gpu.product", value, gpus)
}

fn l4(name: &str) -> Node {
    product(name, "NVIDIA-L4", 1)
}

fn tainted(mut node: Node, taints: &[&str]) -> Node {
    node.taints = taints
        .iter()
        .map(|text| Taint::parse(text).unwrap())
        .collect();
    node
}

fn labeled(mut node: Node, key: &str, value: &str) -> Node {
    node.labels.insert(key.to_owned(), value.to_owned());
    node
}

/// A request for one replica, with everything else left out.
struct Case {
    request: GpuRequest,
    replicas: u32,
    cpu_millis: Option<u64>,
    memory_mib: Option<u64>,
    selector: BTreeMap<String, String>,
    tolerations: Vec<Toleration>,
    previous: Option<Placement>,
    declared: Vec<DeclaredGroup>,
    prices: PriceBook,
}

fn case(kind: &str, count: i64) -> Case {
    Case {
        request: GpuRequest::parse(kind, count).unwrap(),
        replicas: 1,
        cpu_millis: None,
        memory_mib: None,
        selector: BTreeMap::new(),
        tolerations: Vec::new(),
        previous: None,
        declared: Vec::new(),
        prices: PriceBook::default(),
    }
}

impl Case {
    fn seen(&self, seen: Seen<'_>) -> Result<ClusterFit, Box<ClusterRefusal>> {
        let ask = ClusterAsk {
            target: "conn_cluster",
            request: self.request,
            replicas: self.replicas,
            cpu_millis: self.cpu_millis,
            memory_mib: self.memory_mib,
            node_selector: &self.selector,
            tolerations: &self.tolerations,
            previous: self.previous.as_ref(),
            prices: &self.prices,
        };
        fit_cluster(seen, &self.declared, &ask)
    }

    fn on(&self, nodes: &[Node]) -> Result<ClusterFit, Box<ClusterRefusal>> {
        self.seen(Seen::Nodes(&ClusterView::new(nodes)))
    }

    fn fits(&self, nodes: &[Node]) -> ClusterFit {
        match self.on(nodes) {
            Ok(fit) => fit,
            Err(refusal) => panic!("{}", refusal.render().detail),
        }
    }

    fn refused(&self, nodes: &[Node]) -> String {
        self.on(nodes).unwrap_err().render().detail
    }
}

fn tolerated(fit: &ClusterFit) -> Vec<String> {
    fit.placement
        .tolerations
        .iter()
        .map(|t| format!("{}={}:{}", t.key, t.value, t.effect))
        .collect()
}

#[test]
fn g5_the_refusal_of_the_documentation_word_for_word() {
    let nodes: Vec<Node> = (0..4)
        .map(|index| l4(&format!("l4-{index}")))
        .chain((0..2).map(|index| product(&format!("h100-{index}"), "NVIDIA-H100-PCIe", 1)))
        .chain([Node {
            name: "cpu".to_owned(),
            ..Node::default()
        }])
        .collect();
    let refusal = case("nvidia-h100-80gb", 2).on(&nodes).unwrap_err().render();
    assert_eq!(refusal.summary, "conn_cluster can't meet this GPU request");
    assert_eq!(
        refusal.detail,
        "Asked for 2 x nvidia-h100-80gb on one node. conn_cluster has 6 GPU nodes:\n\
         \x20 4 nodes have nvidia-l4 (1 GPU per node)\n\
         \x20 2 nodes have nvidia-h100-80gb, but 1 GPU per node\n\
         Ask for count = 1, or use a target with 2 GPUs per node: data.loomplane_gpu_targets lists them."
    );
}

#[test]
fn g5_a_kind_that_is_not_there_names_those_that_are() {
    assert_eq!(
        case("nvidia-t4", 1).refused(&[
            l4("a"),
            product("b", "NVIDIA-B200", 8),
            product("c", "NVIDIA-A10G", 4)
        ]),
        "Asked for 1 x nvidia-t4 on one node. conn_cluster has 3 GPU nodes:\n\
         \x20 1 node has nvidia-l4 (1 GPU per node)\n\
         \x20 1 node has nvidia-a10g (4 GPUs per node)\n\
         \x20 1 node has GPUs of no kind that Loomplane knows (nvidia.com/gpu.product = NVIDIA-B200)\n\
         Ask for nvidia-l4 or nvidia-a10g, or use a target with nvidia-t4: data.loomplane_gpu_targets lists them."
    );
}

#[test]
fn k3_no_gpu_nodes() {
    let cpu = Node {
        name: "cpu".to_owned(),
        ..Node::default()
    };
    let text = case("nvidia-l4", 1).refused(&[cpu]);
    assert!(
        text.contains("No GPU nodes among its 1 node. Add GPU nodes"),
        "{text}"
    );
    assert!(matches!(
        check_view(&ClusterView::new(&[])),
        Err(ClusterWhy::NoGpuNodes { nodes: 0 })
    ));
}

#[test]
fn k3_gpus_that_nothing_advertises_ask_for_the_device_plugin() {
    let mut node = l4("a");
    node.allocatable.clear();
    node.capacity.clear();
    let text = case("nvidia-l4", 1).refused(&[node.clone()]);
    assert_eq!(
        text,
        "Asked for 1 x nvidia-l4 on one node. conn_cluster: 1 node has GPUs, but nothing advertises nvidia.com/gpu. \
         Install the NVIDIA device plugin or the NVIDIA GPU Operator on the cluster."
    );
    // Where others advertise, it is a line of its own.
    let text = case("nvidia-l4", 1).refused(&[node, product("b", "NVIDIA-A10G", 1)]);
    assert!(
        text.contains("1 node has nvidia-l4, but nothing there advertises nvidia.com/gpu"),
        "{text}"
    );
}

#[test]
fn k3_gpus_without_a_label_ask_for_the_product_label() {
    let mut node = l4("a");
    node.labels.remove("nvidia.com/gpu.product");
    let text = case("nvidia-l4", 1).refused(&[node]);
    assert!(text.contains("1 node has GPUs, but no label that names their kind. Add the label nvidia.com/gpu.product"), "{text}");
}

#[test]
fn k1_nodes_that_cannot_be_listed_give_the_role_and_binding() {
    let account = ServiceAccount {
        namespace: "ml".to_owned(),
        name: "deployer".to_owned(),
    };
    let text = case("nvidia-l4", 1)
        .seen(Seen::NotListed(Some(&account)))
        .unwrap_err()
        .render()
        .detail;
    assert!(
        text.contains("Loomplane can't list this cluster's nodes, so it can't see GPUs."),
        "{text}"
    );
    assert!(
        text.contains("kind: ClusterRoleBinding")
            && text.contains("name: deployer\n    namespace: ml"),
        "{text}"
    );
    let text = case("nvidia-l4", 1)
        .seen(Seen::NotListed(None))
        .unwrap_err()
        .render()
        .detail;
    assert!(
        text.contains("put the service account of your credential"),
        "{text}"
    );
}

#[test]
fn k7_slices_are_named_as_what_they_are() {
    let shared = labeled(l4("a"), "nvidia.com/gpu.sharing-strategy", "time-slicing");
    let mig = labeled(
        gpu_node("b", "cloud.google.com/gke-accelerator", "nvidia-l4", 7),
        "cloud.google.com/gke-gpu-partition-size",
        "1g.5gb",
    );
    assert_eq!(
        case("nvidia-l4", 1).refused(&[shared, mig]),
        "Asked for 1 x nvidia-l4 on one node. conn_cluster has 2 GPU nodes:\n\
         \x20 1 node has nvidia-l4, but shared, not whole GPUs (nvidia.com/gpu.sharing-strategy = time-slicing)\n\
         \x20 1 node has nvidia-l4, but as MIG slices, not whole GPUs (cloud.google.com/gke-gpu-partition-size = 1g.5gb)\n\
         Turn sharing or MIG off on a node that is to give whole GPUs, or use a target with nvidia-l4: data.loomplane_gpu_targets lists them."
    );
}

#[test]
fn g4_arm64_nodes_never_match() {
    let mut arm = labeled(l4("a"), keys::ARCH, "arm64");
    arm.arch = "arm64".to_owned();
    let text = case("nvidia-l4", 1).refused(&[arm]);
    assert!(
        text.contains(
            "1 node has nvidia-l4, but the architecture is arm64\nGPU work runs on amd64 only."
        ),
        "{text}"
    );
}

#[test]
fn k5_a_label_in_another_case_is_refused_with_the_label_to_set() {
    let text = case("nvidia-l4", 1).refused(&[product("a", "nvidia-l4", 1)]);
    assert!(text.contains("but the label nvidia.com/gpu.product = nvidia-l4 in another case than the scheduler would look for"), "{text}");
    assert!(
        text.contains("Label these nodes nvidia.com/gpu.product=NVIDIA-L4"),
        "{text}"
    );
    let mut node = l4("a");
    node.labels.remove(keys::ARCH);
    assert!(
        case("nvidia-l4", 1)
            .refused(&[node])
            .contains("but no label kubernetes.io/arch = amd64")
    );
}

#[test]
fn k5_every_label_value_of_the_kind_is_admitted_together() {
    let nodes = [
        product("sxm", "NVIDIA-H100-80GB-HBM3", 8),
        product("pcie", "NVIDIA-H100-PCIe", 8),
        gpu_node(
            "gke",
            "cloud.google.com/gke-accelerator",
            "nvidia-h100-mega-80gb",
            8,
        ),
    ];
    let fit = case("nvidia-h100-80gb", 8).fits(&nodes);
    assert_eq!(fit.groups.iter().map(|group| group.nodes).sum::<u64>(), 3);
    assert_eq!(fit.placement.admission, admission(Kind::H100_80gb));
    assert!(fit.warnings.is_empty());
}

#[test]
fn k4_counts_read_as_gpus_per_node() {
    let nodes = [l4("a"), l4("b"), product("c", "NVIDIA-L4", 8)];
    assert_eq!(
        case("nvidia-l4", 1).fits(&nodes).render_nodes(),
        ["2 nodes, 1 GPU per node", "1 node, 8 GPUs per node"]
    );
}

#[test]
fn k6_shared_taints_are_tolerated_and_others_keep_the_nodes_out() {
    let gpu = "nvidia.com/gpu=present:NoSchedule";
    let fit = case("nvidia-l4", 1).fits(&[
        tainted(l4("a"), &[gpu]),
        tainted(l4("b"), &[gpu, "dedicated=x:NoSchedule"]),
    ]);
    assert_eq!(tolerated(&fit), ["nvidia.com/gpu=present:NoSchedule"]);
    assert_eq!(
        fit.groups.len(),
        1,
        "the dedicated node is no place to land"
    );
    // Only nodes that could take the request count: the small node's lack of a taint does not matter.
    let fit =
        case("nvidia-l4", 8).fits(&[l4("small"), tainted(product("big", "NVIDIA-L4", 8), &[gpu])]);
    assert_eq!(tolerated(&fit).len(), 1);
}

#[test]
fn k6_a_different_taint_on_each_node_is_refused_naming_them() {
    let nodes = [
        tainted(l4("a"), &["team=a:NoSchedule"]),
        tainted(l4("b"), &["team=b:NoExecute"]),
    ];
    assert_eq!(
        case("nvidia-l4", 1).refused(&nodes),
        "Asked for 1 x nvidia-l4 on one node. conn_cluster has 2 GPU nodes:\n\
         \x20 1 node has nvidia-l4 (1 GPU per node), but the taint team=a:NoSchedule\n\
         \x20 1 node has nvidia-l4 (1 GPU per node), but the taint team=b:NoExecute\n\
         Loomplane tolerates a taint only when every matching node carries it. Give them the same taints, tolerate these with the \
         service's tolerations, or use another target: data.loomplane_gpu_targets lists them."
    );
    // The service's own toleration lets it in.
    let own = Toleration {
        key: "team".to_owned(),
        operator: TolerationOperator::Exists,
        value: String::new(),
        effect: String::new(),
    };
    let fit = Case {
        tolerations: vec![own],
        ..case("nvidia-l4", 1)
    }
    .fits(&nodes);
    assert_eq!((fit.groups.len(), tolerated(&fit).len()), (2, 0));
}

#[test]
fn k6_soft_taints_never_block() {
    let nodes = [
        tainted(l4("a"), &["team=a:PreferNoSchedule"]),
        tainted(l4("b"), &["team=b:PreferNoSchedule"]),
    ];
    assert_eq!(
        case("nvidia-l4", 1)
            .fits(&nodes)
            .groups
            .iter()
            .map(|group| group.nodes)
            .sum::<u64>(),
        2
    );
}

#[test]
fn g5_states_that_pass_warn_and_do_not_refuse() {
    let cordoned = Node {
        cordoned: true,
        ..tainted(l4("a"), &["node.kubernetes.io/unschedulable:NoSchedule"])
    };
    let not_ready = Node {
        ready: false,
        ..l4("b")
    };
    let mut unhealthy = l4("c");
    unhealthy
        .allocatable
        .insert(keys::GPU_RESOURCE.to_owned(), 0);
    let leaving = tainted(
        l4("d"),
        &["ToBeDeletedByClusterAutoscaler=1764500000:NoSchedule"],
    );
    let fit = case("nvidia-l4", 1).fits(&[cordoned.clone(), not_ready, unhealthy, leaving]);
    assert!(tolerated(&fit).is_empty());
    let [warning] = fit.warnings.as_slice() else {
        panic!("{:?}", fit.warnings)
    };
    let text = warning.render("conn_cluster");
    assert_eq!(
        text.summary,
        "No matching node of conn_cluster takes GPU work just now"
    );
    for line in [
        "1 node is cordoned",
        "1 node is not ready",
        "1 node has too few healthy GPUs",
        "1 node is tainted ToBeDeletedByClusterAutoscaler",
    ] {
        assert!(text.detail.contains(line), "{}", text.detail);
    }
    // What apply does then, truly: it waits as long as an unschedulable pod gets, and fails.
    assert!(
        text.detail.contains("apply waits a minute for a node (up to its timeout on a connection with gpu_node_groups), then fails and says so. With wait = false it does not wait"),
        "{}",
        text.detail
    );
    // One node that takes work is enough.
    assert!(
        case("nvidia-l4", 1)
            .fits(&[cordoned, l4("e")])
            .warnings
            .is_empty()
    );
}

#[test]
fn k2_unknown_labels_say_which_label_goes_first() {
    let text = case("nvidia-l4", 1).refused(&[gpu_node(
        "a",
        "doks.digitalocean.com/gpu-model",
        "l4-new",
        1,
    )]);
    assert!(text.contains("1 node has GPUs of no kind that Loomplane knows (doks.digitalocean.com/gpu-model = l4-new)"), "{text}");
    assert!(
        text.contains("If these nodes have nvidia-l4, let their label say so"),
        "{text}"
    );
    let text = case("nvidia-a100-40gb", 1).refused(&[gpu_node(
        "a",
        "k8s.amazonaws.com/accelerator",
        "nvidia-tesla-a100",
        8,
    )]);
    assert!(
        text.contains(
            "can mean nvidia-a100-40gb or nvidia-a100-80gb, and no known instance type settles it"
        ),
        "{text}"
    );
}

#[test]
fn g5_a_selector_for_a_label_that_no_node_has_is_refused_and_one_that_some_node_has_is_not() {
    use crate::capacity::label::fingerprint;
    let mut node = l4("a");
    node.others = vec![fingerprint("team", "ml")];
    for (value, fits) in [("ml", true), ("web", false)] {
        let mut case = case("nvidia-l4", 1);
        case.selector = BTreeMap::from([("team".to_owned(), value.to_owned())]);
        assert_eq!(case.on(&[node.clone(), l4("b")]).is_ok(), fits, "{value}");
    }
}

#[test]
fn g5_a_pod_that_no_node_could_hold_is_refused_with_the_most_that_one_gives() {
    let sized = |name: &str, cpu: u64, memory: u64| Node {
        cpu_millis: Some(cpu),
        memory_mib: Some(memory),
        ..l4(name)
    };
    let nodes = [sized("a", 3920, 14000), sized("b", 3900, 15000)];
    for (cpu, memory, fits) in [
        (None, None, true),
        (Some(3920), Some(15000), true),
        (Some(3921), None, false),
        (None, Some(15001), false),
    ] {
        let case = Case {
            cpu_millis: cpu,
            memory_mib: memory,
            ..case("nvidia-l4", 1)
        };
        assert_eq!(case.on(&nodes).is_ok(), fits, "{cpu:?} {memory:?}");
        // A node that does not say what it gives may give anything.
        assert!(case.on(&[sized("a", 1, 1), l4("b")]).is_ok());
    }
    let case = Case {
        cpu_millis: Some(8000),
        ..case("nvidia-l4", 1)
    };
    assert_eq!(
        case.refused(&nodes),
        "Asked for 1 x nvidia-l4 on one node. conn_cluster has 2 GPU nodes:\n\
         \x20 2 nodes have nvidia-l4 (1 GPU per node), but at most 3.92 cores and 15000 MiB for a pod\n\
         Ask for less size.cpu or size.memory (pods of the system take some of it on each node too), or use a target with larger nodes: data.loomplane_gpu_targets lists them."
    );
}
