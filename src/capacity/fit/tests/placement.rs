//! Placements that stick, node selectors, declared groups, prices.

use super::*;

#[test]
fn k5_a_placement_is_sticky_while_it_admits_a_matching_node() {
    let gpu = "nvidia.com/gpu=present:NoSchedule";
    let first = case("nvidia-l4", 1).fits(&[tainted(l4("a"), &[gpu])]);
    // A node without the taint joins: a new placement would tolerate nothing, the applied one stays.
    let nodes = [tainted(l4("a"), &[gpu]), l4("b")];
    let sticky = Case {
        previous: Some(first.placement.clone()),
        ..case("nvidia-l4", 1)
    };
    let kept = sticky.fits(&nodes);
    assert_eq!(
        (
            kept.placement.clone(),
            kept.groups.iter().map(|group| group.nodes).sum::<u64>()
        ),
        (first.placement.clone(), 2)
    );
    assert!(kept.warnings.is_empty());
    // The taint changes on all nodes: the applied one admits none.
    let renewed = sticky.fits(&[tainted(l4("a"), &["nvidia.com/gpu=true:NoSchedule"])]);
    assert_eq!(tolerated(&renewed), ["nvidia.com/gpu=true:NoSchedule"]);
    assert_eq!(
        renewed.warnings,
        [FitWarning::PlacementRenewed { kind: Kind::L4 }]
    );
    // Labels of an older catalogue stay as well.
    let mut older = first.placement;
    older
        .admission
        .terms
        .retain(|term| term.requirements[0].key == "nvidia.com/gpu.product");
    let gke = tainted(
        gpu_node("c", "cloud.google.com/gke-accelerator", "nvidia-l4", 1),
        &[gpu],
    );
    let nodes = [nodes[0].clone(), nodes[1].clone(), gke];
    let kept = Case {
        previous: Some(older.clone()),
        ..case("nvidia-l4", 1)
    }
    .fits(&nodes);
    assert_eq!(
        (
            kept.placement,
            kept.groups.iter().map(|group| group.nodes).sum::<u64>()
        ),
        (older, 2),
        "it does not reach the third"
    );
}

#[test]
fn a_node_selector_confines_the_matching_nodes() {
    let nodes = [
        labeled(l4("a"), "agentpool", "gpu"),
        labeled(l4("b"), "agentpool", "other"),
    ];
    let with = |key: &str, value: &str| Case {
        selector: BTreeMap::from([(key.to_owned(), value.to_owned())]),
        ..case("nvidia-l4", 1)
    };
    assert_eq!(with("agentpool", "gpu").fits(&nodes).groups[0].nodes, 1);
    let text = with("agentpool", "none").refused(&nodes);
    assert!(
        text.contains(
            "2 nodes have nvidia-l4 (1 GPU per node), but not the labels of node_selector"
        ),
        "{text}"
    );
    assert_eq!(
        with("kubernetes.io/hostname", "b").fits(&nodes).groups[0].nodes,
        1
    );
    assert!(with("kubernetes.io/arch", "arm64").on(&nodes).is_err());
    assert!(
        with("my-own-label", "x").on(&nodes).is_err(),
        "a label that no node has"
    );
}

fn declared(
    kind: &str,
    gpus: i64,
    machine: Option<&str>,
    label: Option<(&str, &str)>,
    taints: &[&str],
) -> Result<DeclaredGroup, DeclaredError> {
    DeclaredGroup::parse(&DeclaredInput {
        name: "l4".to_owned(),
        kind: kind.to_owned(),
        gpus_per_node: gpus,
        instance_type: machine.map(ToOwned::to_owned),
        label: label.map(|(key, value)| (key.to_owned(), value.to_owned())),
        taints: taints.iter().map(|text| (*text).to_owned()).collect(),
    })
}

const AWS: &str = "k8s.amazonaws.com/accelerator";

fn surface_group() -> DeclaredGroup {
    declared(
        "nvidia-l4",
        1,
        Some("g6.xlarge"),
        Some((AWS, "nvidia-l4")),
        &["nvidia.com/gpu=present:NoSchedule"],
    )
    .unwrap()
}

#[test]
fn k11_a_declared_group_counts_where_nodes_are_not_there_yet_or_cannot_be_listed() {
    let with = Case {
        declared: vec![surface_group()],
        ..case("nvidia-l4", 1)
    };
    for seen in [Seen::NotListed(None), Seen::Nodes(&ClusterView::default())] {
        let fit = with.seen(seen).unwrap();
        assert_eq!(tolerated(&fit), ["nvidia.com/gpu=present:NoSchedule"]);
        assert_eq!(
            fit.render_nodes(),
            ["node group l4 (declared), 1 GPU per node (g6.xlarge)"]
        );
        assert_eq!(fit.price.hourly().map(Usd::as_f64), Some(0.8048));
        assert!(fit.warnings.is_empty());
    }
    let more = Case {
        declared: vec![surface_group()],
        ..case("nvidia-l4", 2)
    };
    assert_eq!(
        more.refused(&[]),
        "Asked for 2 x nvidia-l4 on one node. conn_cluster has no GPU nodes that can be seen:\n\
         \x20 node group l4 (declared) has nvidia-l4, but 1 GPU per node\n\
         Ask for count = 1, or use a target with 2 GPUs per node: data.loomplane_gpu_targets lists them."
    );
}

#[test]
fn k1_declared_groups_that_do_not_fit_leave_the_rights_that_would_show_the_nodes() {
    let account = ServiceAccount {
        namespace: "ml".to_owned(),
        name: "deployer".to_owned(),
    };
    let refused = |case: Case| {
        let refusal = case.seen(Seen::NotListed(Some(&account))).unwrap_err();
        refusal.render().detail
    };
    let text = refused(Case {
        declared: vec![surface_group()],
        ..case("nvidia-l4", 2)
    });
    assert!(
        text.starts_with(
            "Asked for 2 x nvidia-l4 on one node. conn_cluster: Loomplane can't list this cluster's nodes, so it can't see GPUs. \
             Its declared node groups do not fit:\n\
             \x20 node group l4 (declared) has nvidia-l4, but 1 GPU per node\n\
             Ask for count = 1, or use a target with 2 GPUs per node: data.loomplane_gpu_targets lists them.\n\
             If it has nodes that fit: Apply this ClusterRole and binding, or declare their group in gpu_node_groups:\n\n\
             apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\n"
        ),
        "{text}"
    );
    assert!(text.contains("name: deployer\n    namespace: ml"), "{text}");
    // So too where the groups fit and taints keep the pod from each.
    let with_taint = |taint: &str| declared("nvidia-l4", 1, None, None, &[taint]).unwrap();
    let text = refused(Case {
        declared: vec![with_taint("a=1:NoSchedule"), with_taint("b=1:NoSchedule")],
        ..case("nvidia-l4", 1)
    });
    for part in [
        "so it can't see GPUs",
        "but the taint a=1:NoSchedule",
        "tolerate these with the service's tolerations",
        "kind: ClusterRoleBinding",
    ] {
        assert!(text.contains(part), "{text}");
    }
}

#[test]
fn k11_a_refusal_says_that_nodes_disagree_with_the_declaration() {
    let node = gpu_node("a", AWS, "nvidia-l4", 1);
    let declaring = |gpus, count| Case {
        declared: vec![declared("nvidia-l4", gpus, None, Some((AWS, "nvidia-l4")), &[]).unwrap()],
        ..case("nvidia-l4", count)
    };
    assert_eq!(
        declaring(4, 2).refused(std::slice::from_ref(&node)),
        "Asked for 2 x nvidia-l4 on one node. conn_cluster has 1 GPU node:\n\
         \x20 1 node has nvidia-l4, but 1 GPU per node\n\
         Ask for count = 1, or use a target with 2 GPUs per node: data.loomplane_gpu_targets lists them.\n\
         The nodes of conn_cluster disagree with gpu_node_groups.l4. Declared: nvidia-l4, 4 GPUs per node, with no taints. \
         Its nodes have: nvidia-l4, 1 GPU per node, with no taints. The nodes win: correct the declaration."
    );
    // Nothing is said where they agree.
    assert!(!declaring(1, 2).refused(&[node]).contains("disagree"));
}

#[test]
fn k11_nodes_win_where_they_disagree_and_a_warning_says_so() {
    let node = |gpus| {
        labeled(
            tainted(
                gpu_node("a", AWS, "nvidia-l4", gpus),
                &["nvidia.com/gpu=present:NoSchedule"],
            ),
            keys::INSTANCE_TYPE,
            "g6.xlarge",
        )
    };
    let with = Case {
        declared: vec![surface_group()],
        ..case("nvidia-l4", 1)
    };
    let agree = with.fits(&[node(1)]);
    assert!(agree.warnings.is_empty());
    let differ = with.fits(&[tainted(node(1), &["nvidia.com/gpu=true:NoSchedule"])]);
    assert_eq!(
        tolerated(&differ),
        ["nvidia.com/gpu=true:NoSchedule"],
        "the nodes win"
    );
    let text = differ.warnings[0].render("conn_cluster");
    assert_eq!(
        text.summary,
        "The nodes of conn_cluster disagree with gpu_node_groups.l4"
    );
    assert!(text.detail.contains("with the taints nvidia.com/gpu=present:NoSchedule. Its nodes have: nvidia-l4, 1 GPU per node, with the taints nvidia.com/gpu=true:NoSchedule"), "{}", text.detail);
    // A node that is coming up says nothing of its GPUs yet.
    let mut fresh = node(1);
    fresh.allocatable.clear();
    fresh.capacity.clear();
    assert!(with.fits(&[fresh]).warnings.is_empty());
}

#[test]
fn k11_a_declaration_that_contradicts_itself_is_refused() {
    let wrong = |result: Result<DeclaredGroup, DeclaredError>| result.unwrap_err().to_string();
    assert!(wrong(declared("nvidia-l5", 1, None, None, &[])).contains("not a GPU kind"));
    assert!(wrong(declared("nvidia-l4", 0, None, None, &[])).contains("1 or more"));
    assert!(wrong(declared("nvidia-l4", 1, None, None, &["x"])).contains("is no taint"));
    assert!(
        wrong(declared("nvidia-l4", 1, Some("g5.xlarge"), None, &[])).contains("says nvidia-a10g")
    );
    assert!(wrong(declared("nvidia-l4", 4, Some("g6.xlarge"), None, &[])).contains("has 1"));
    assert!(
        wrong(declared("nvidia-l4", 1, Some("g6f.large"), None, &[])).contains("no whole GPUs")
    );
    assert!(
        wrong(declared("nvidia-l4", 1, None, Some((AWS, "gpu")), &[])).contains("does not say so")
    );
    // Without label or known instance type, nodes are trusted to carry a label that names the kind.
    assert!(
        !declared(
            "nvidia-l4",
            1,
            Some("own.large"),
            Some(("pool", "gpu")),
            &[]
        )
        .unwrap()
        .names_kind
    );
}

#[test]
fn p5_the_price_is_a_share_over_the_nodes_that_match() {
    let node = |name: &str, machine: &str, gpus| {
        labeled(
            product(name, "NVIDIA-L4", gpus),
            keys::INSTANCE_TYPE,
            machine,
        )
    };
    let two = Case {
        replicas: 2,
        ..case("nvidia-l4", 1)
    };
    let fit = two.fits(&[
        node("a", "g6.xlarge", 1),
        node("b", "g6.48xlarge", 8),
        product("c", "NVIDIA-A10G", 1),
    ]);
    assert_eq!(
        fit.price.hourly().map(Usd::as_f64),
        Some(3.3376),
        "2 x 13.3504 / 8 is above 2 x 0.8048"
    );
    assert!(
        fit.price.render().contains("$1.61 to $3.34 an hour"),
        "{}",
        fit.price.render()
    );
    // An unhealthy card is a card of the machine all the same.
    let mut seven = node("b", "g6.48xlarge", 8);
    seven.allocatable.insert(keys::GPU_RESOURCE.to_owned(), 7);
    assert_eq!(
        two.fits(&[seven]).price.hourly().map(Usd::as_f64),
        Some(3.3376)
    );
    assert_eq!(two.fits(&[l4("own")]).price.render(), "price unknown");
}

#[test]
fn k9_five_thousand_nodes_are_a_handful_of_groups() {
    let nodes: Vec<Node> = (0..5000)
        .map(|index| {
            let node = product(
                &format!("node-{index}"),
                if index % 2 == 0 {
                    "NVIDIA-L4"
                } else {
                    "NVIDIA-H100-PCIe"
                },
                8,
            );
            // Each with a time of its own in the value: still one group.
            if index % 5 == 0 {
                tainted(
                    node,
                    &[&format!(
                        "ToBeDeletedByClusterAutoscaler={index}:NoSchedule"
                    )],
                )
            } else {
                node
            }
        })
        .collect();
    let view = ClusterView::new(&nodes);
    assert_eq!(
        (view.groups.len(), view.gpu_nodes(), view.nodes),
        (4, 5000, 5000)
    );
    assert!(
        view.groups.iter().all(|group| group.places.len() == 1),
        "no request looks at a node"
    );
    assert_eq!(view.usable_kinds(), [Kind::L4, Kind::H100_80gb]);
    let fit = case("nvidia-l4", 8).seen(Seen::Nodes(&view)).unwrap();
    assert_eq!(
        fit.groups.iter().map(|group| group.nodes).sum::<u64>(),
        2500
    );
}
