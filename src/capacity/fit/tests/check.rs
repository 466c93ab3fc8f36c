//! The check of a cluster: what `data.loomplane_cluster` shows.

use super::*;

fn check(nodes: &[Node]) -> ClusterCheck {
    check_cluster(Seen::Nodes(&ClusterView::new(nodes)), &[])
}

fn only(nodes: &[Node]) -> CheckedGroup {
    let check = check(nodes);
    let [group] = check.groups.as_slice() else {
        panic!("{check:?}")
    };
    group.clone()
}

fn group_named(name: &str, kind: &str, gpus: i64, label: Option<(&str, &str)>) -> DeclaredGroup {
    DeclaredGroup::parse(&DeclaredInput {
        name: name.to_owned(),
        kind: kind.to_owned(),
        gpus_per_node: gpus,
        label: label.map(|(key, value)| (key.to_owned(), value.to_owned())),
        ..DeclaredInput::default()
    })
    .unwrap()
}

/// A node of each sort that hands out no whole GPUs of a known kind on amd64, and what its row says.
fn unusable() -> Vec<(Node, Option<u64>, &'static str)> {
    let mut arm = labeled(l4("arm"), keys::ARCH, "arm64");
    arm.arch = "arm64".to_owned();
    let mut mig = product("mig", "NVIDIA-H100-80GB-HBM3", 0);
    mig.allocatable
        .insert("nvidia.com/mig-1g.10gb".to_owned(), 7);
    let mut bare = l4("bare");
    bare.allocatable.clear();
    bare.capacity.clear();
    let mut amd = gpu_node("amd", "doks.digitalocean.com/gpu-model", "mi300x", 0);
    amd.allocatable = BTreeMap::from([(keys::AMD_RESOURCE.to_owned(), 8)]);
    amd.capacity = amd.allocatable.clone();
    // (Its GPUs are another resource.)
    let shared = labeled(
        product("shared", "NVIDIA-L4", 4),
        "nvidia.com/gpu.sharing-strategy",
        "time-slicing",
    );
    vec![
        (
            shared,
            None,
            "1 node has nvidia-l4, but shared, not whole GPUs (nvidia.com/gpu.sharing-strategy = time-slicing). Turn sharing off on nodes that are to give whole GPUs.",
        ),
        (
            mig,
            None,
            "1 node has nvidia-h100-80gb, but as MIG slices, not whole GPUs (nvidia.com/mig-1g.10gb: 7). Turn MIG off on nodes that are to give whole GPUs.",
        ),
        (
            labeled(l4("vgpu"), "nvidia.com/vgpu.present", "true"),
            None,
            "1 node has nvidia-l4, but as virtual GPUs, not whole ones (nvidia.com/vgpu.present = true). Pass whole GPUs through to nodes that are to give them.",
        ),
        (
            arm,
            Some(1),
            "1 node has nvidia-l4, but the architecture is arm64. GPU work runs on amd64 only.",
        ),
        (
            bare,
            None,
            "1 node has nvidia-l4, but nothing there advertises nvidia.com/gpu. Let the NVIDIA device plugin or the NVIDIA GPU Operator run on these nodes.",
        ),
        (
            amd,
            Some(8),
            "1 node has amd-mi300x (8 GPUs per node), which Loomplane can't schedule yet. Only NVIDIA kinds can be asked for.",
        ),
        (
            product("new", "NVIDIA-B200", 8),
            Some(8),
            "1 node has GPUs of no kind that Loomplane knows (nvidia.com/gpu.product = NVIDIA-B200). The first label that a node carries decides, later ones are not read: if these nodes have a kind that data.loomplane_gpu_kinds lists, let nvidia.com/gpu.product say which.",
        ),
        (
            product("case", "nvidia-l4", 1),
            Some(1),
            "1 node has nvidia-l4, but the label nvidia.com/gpu.product = nvidia-l4 in another case than the scheduler would look for. Kubernetes compares labels exactly. Label these nodes nvidia.com/gpu.product=NVIDIA-L4 (kubectl label node --overwrite), or let GPU feature discovery do it.",
        ),
    ]
}

#[test]
fn k7_each_group_is_reported_as_what_it_is() {
    for (node, gpus, reason) in unusable() {
        let found = only(&[node]);
        assert!(!found.usable(), "{reason}");
        assert_eq!(found.gpus_per_node, gpus, "{reason}");
        assert_eq!(found.reason("prod").as_deref(), Some(reason));
    }
    let good = only(&[l4("a"), l4("b")]);
    assert_eq!(
        (
            good.usable(),
            good.gpus_per_node,
            good.nodes,
            good.reason("prod")
        ),
        (true, Some(1), 2, None)
    );
}

#[test]
fn k3_a_cluster_of_groups_that_can_t_be_used_says_why_of_each_and_what_to_do() {
    let mut nodes: Vec<Node> = unusable().into_iter().map(|(node, ..)| node).collect();
    let found = check(&nodes);
    assert!(!found.can_take_gpu_work());
    assert!(found.kinds().is_empty());
    let reason = found.reason("prod").unwrap();
    assert!(
        reason.starts_with("None of its GPU nodes can take GPU work:\n  1 node has "),
        "{reason}"
    );
    for (.., line) in unusable() {
        assert!(reason.contains(&format!("\n  {line}")), "{line}\n{reason}");
    }
    // One good node beside them is enough, and the others are told as before.
    nodes.push(product("good", "NVIDIA-A10G", 1));
    let found = check(&nodes);
    assert_eq!(found.reason("prod"), None);
    assert_eq!(found.kinds().into_iter().collect::<Vec<_>>(), [Kind::A10g]);
    assert_eq!(
        found.groups.iter().filter(|group| group.usable()).count(),
        1
    );
}

#[test]
fn k6_a_taint_that_only_some_nodes_carry_makes_them_unusable() {
    let gpu = "nvidia.com/gpu=present:NoSchedule";
    let usable = |nodes: &[Node]| -> Vec<bool> {
        let groups = check(nodes).groups;
        groups.iter().map(CheckedGroup::usable).collect()
    };
    assert_eq!(usable(&[tainted(l4("a"), &[gpu])]), [true]);
    let some = check(&[l4("a"), tainted(l4("b"), &["team=b:NoSchedule"])]);
    let reasons: Vec<_> = some
        .groups
        .iter()
        .filter_map(|group| group.reason("prod"))
        .collect();
    assert_eq!(
        reasons,
        [
            "1 node has nvidia-l4 (1 GPU per node), but the taint team=b:NoSchedule. Loomplane tolerates a taint only when every \
          matching node carries it. Give the nodes of this kind the same taints, or tolerate these with the service's tolerations."
        ]
    );
    // A request that only the tainted nodes could take tolerates the taint.
    let large = tainted(product("b", "NVIDIA-L4", 8), &["team=b:NoSchedule"]);
    assert_eq!(usable(&[l4("a"), large]), [true, true]);
}

#[test]
fn g5_a_state_that_passes_is_told_and_keeps_a_group_usable() {
    let cordoned = Node {
        cordoned: true,
        ..l4("a")
    };
    let found = only(&[cordoned]);
    assert!(found.usable());
    assert_eq!(
        found.reason("prod").as_deref(),
        Some("Just now 1 node is cordoned.")
    );
}

#[test]
fn k11_declared_groups_are_rows_and_nodes_that_disagree_overrule_them() {
    let aws = ("k8s.amazonaws.com/accelerator", "nvidia-l4");
    let declared = [
        group_named("l4", "nvidia-l4", 4, Some(aws)),
        group_named("h100", "nvidia-h100-80gb", 8, None),
        group_named("amd", "amd-mi300x", 8, None),
    ];
    let view = ClusterView::new(&[gpu_node("a", aws.0, aws.1, 1)]);
    let found = check_cluster(Seen::Nodes(&view), &declared);
    let rows: Vec<_> = found
        .groups
        .iter()
        .map(|group| (group.declared.as_deref(), group.nodes, group.usable()))
        .collect();
    assert_eq!(
        rows,
        [
            (None, 1, true),
            (Some("l4"), 0, false),
            (Some("h100"), 0, true),
            (Some("amd"), 0, false)
        ]
    );
    let why = found.groups[1].reason("prod").unwrap();
    assert!(
        why.starts_with("The nodes of prod disagree with gpu_node_groups.l4. Declared: nvidia-l4, 4 GPUs per node"),
        "{why}"
    );
    assert_eq!(found.kinds().len(), 2);

    // K1: declared groups are the only source, and where none can be used the rights come with them.
    let found = check_cluster(Seen::NotListed(None), &declared[1..]);
    assert_eq!(
        (found.can_take_gpu_work(), found.reason("prod")),
        (true, None)
    );
    let found = check_cluster(Seen::NotListed(None), &declared[2..]);
    let why = found.reason("prod").unwrap();
    assert!(
        why.starts_with(
            "Loomplane can't list this cluster's nodes, so it can't see GPUs. None of its declared node groups can take GPU work:\n  \
             Node group amd (declared) has amd-mi300x (8 GPUs per node), which Loomplane can't schedule yet. Only NVIDIA kinds can be asked for.\n\
             Apply this ClusterRole and binding"
        ),
        "{why}"
    );
    let nothing = check_cluster(Seen::NotListed(None), &[])
        .reason("prod")
        .unwrap();
    assert!(
        nothing.contains("so it can't see GPUs. Apply this ClusterRole"),
        "{nothing}"
    );
}
