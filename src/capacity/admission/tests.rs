use super::*;
use crate::capacity::catalog::tests::{INSTANCE_TYPES, LABELS, rows};
use crate::capacity::label::{NodeKind, Sharing, kind_of_node, sharing};
use proptest::prelude::*;

fn node(labels: &[(&str, &str)]) -> Node {
    let mut node = Node {
        arch: "amd64".to_owned(),
        ..Node::default()
    };
    node.labels
        .insert(keys::ARCH.to_owned(), "amd64".to_owned());
    node.labels.extend(
        labels
            .iter()
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned())),
    );
    node
}

/// What K2, K7 and G4 say.
fn whole_kind(node: &Node) -> Option<Kind> {
    let amd64 = node
        .labels
        .get(keys::ARCH)
        .is_some_and(|arch| arch == "amd64");
    kind_of_node(node)
        .known()
        .filter(|_| amd64 && sharing(node) == Sharing::Whole)
}

/// The kinds whose terms admit the node.
fn admitting(node: &Node) -> Vec<Kind> {
    Kind::ALL
        .into_iter()
        .filter(|kind| admits(&admission(*kind), node))
        .collect()
}

#[test]
fn k5_admits_what_k2_names_for_every_label_row() {
    let mut admitted = 0;
    for row in rows(LABELS).iter().filter(|row| row["precedence"] != "aux") {
        let mut labels = vec![(row["label_key"].as_str(), row["label_value"].as_str())];
        labels.extend(row["only_with_label"].split_once('='));
        let found = admitting(&node(&labels));
        let expected = if row["whole_device"] == "yes" {
            row["kind"].parse::<Kind>().ok()
        } else {
            None
        };
        assert_eq!(found, expected.into_iter().collect::<Vec<_>>(), "{row:?}");
        admitted += found.len();
    }
    assert!(admitted > 50, "{admitted}");
}

#[test]
fn k5_admits_what_k2_names_for_every_instance_type_row() {
    for row in rows(INSTANCE_TYPES) {
        let mut node = node(&[(keys::INSTANCE_TYPE, &row["instance_type"])]);
        node.labels
            .insert(keys::ARCH.to_owned(), row["arch"].clone());
        let whole = row["whole_devices"] == "yes" && row["arch"] == "amd64";
        let expected: Vec<Kind> = row["kind"]
            .parse()
            .ok()
            .filter(|_| whole)
            .into_iter()
            .collect();
        assert_eq!(admitting(&node), expected, "{row:?}");
    }
}

#[test]
fn k5_follows_from_the_kind_alone_and_names_every_value() {
    let named = admission(Kind::H100_80gb).named_values();
    assert_eq!(
        named["nvidia.com/gpu.product"],
        ["NVIDIA-H100-80GB-HBM3", "NVIDIA-H100-PCIe"]
    );
    assert_eq!(
        named["cloud.google.com/gke-accelerator"],
        ["nvidia-h100-80gb", "nvidia-h100-mega-80gb"]
    );
    assert_eq!(named["doks.digitalocean.com/gpu-model"], ["h100"]);
    assert!(named["node.kubernetes.io/instance-type"].contains(&"p5.48xlarge".to_owned()));
    assert_eq!(named.len(), 5);
}

#[test]
fn k5_an_ambiguous_value_is_admitted_only_with_the_instance_type_that_settles_it() {
    let aws = "k8s.amazonaws.com/accelerator";
    assert_eq!(admitting(&node(&[(aws, "nvidia-tesla-a100")])), []);
    assert_eq!(
        admitting(&node(&[
            (aws, "nvidia-tesla-a100"),
            (keys::INSTANCE_TYPE, "p4d.24xlarge")
        ])),
        [Kind::A100_40gb]
    );
    assert_eq!(
        admitting(&node(&[
            (aws, "nvidia-tesla-v100"),
            (keys::INSTANCE_TYPE, "p3dn.24xlarge")
        ])),
        [Kind::V100_32gb]
    );
}

#[test]
fn k5_a_value_in_another_case_is_known_and_not_admitted() {
    let odd = node(&[("nvidia.com/gpu.product", "nvidia-l4")]);
    assert_eq!(whole_kind(&odd), Some(Kind::L4));
    assert_eq!(admitting(&odd), []);
}

#[test]
fn k5_a_mixed_mig_node_with_feature_discovery_is_not_admitted() {
    let mig = node(&[
        ("nvidia.com/gpu.product", "NVIDIA-A100-SXM4-40GB"),
        ("nvidia.com/mig-1g.5gb.count", "7"),
    ]);
    assert_eq!(admitting(&mig), []);
}

#[test]
fn k5_a_gke_node_that_the_gpu_operator_slices_is_not_admitted() {
    for (gke, product) in [
        ("nvidia-tesla-a100", "NVIDIA-A100-SXM4-40GB-MIG-3g.20gb"),
        ("nvidia-l4", "NVIDIA-L4-SHARED"),
        ("nvidia-l4", "NVIDIA-L4-6Q"),
        (
            "nvidia-h100-80gb",
            "NVIDIA-H100-80GB-HBM3-MIG-1g.10gb-SHARED",
        ),
    ] {
        let gke = ("cloud.google.com/gke-accelerator", gke);
        assert_eq!(admitting(&node(&[gke])).len(), 1);
        assert_eq!(
            admitting(&node(&[gke, ("nvidia.com/gpu.product", product)])),
            [],
            "{product}"
        );
    }
    // A product value that nobody knows does not hide what GKE says.
    let odd = node(&[
        ("cloud.google.com/gke-accelerator", "nvidia-l4"),
        ("nvidia.com/gpu.product", "Something-New"),
    ]);
    assert_eq!(admitting(&odd), [Kind::L4]);
}

#[test]
fn k5_a_part_of_a_card_is_not_admitted_by_its_label() {
    for (machine, admitted) in [("g6.xlarge", 1), ("g6f.xlarge", 0), ("gr6f.4xlarge", 0)] {
        let node = node(&[
            ("k8s.amazonaws.com/accelerator", "nvidia-l4"),
            (keys::INSTANCE_TYPE, machine),
        ]);
        assert_eq!(admitting(&node).len(), admitted, "{machine}");
        assert_eq!(whole_kind(&node).is_some(), admitted == 1, "{machine}");
    }
}

#[test]
fn k5_every_term_asks_that_the_keys_before_its_own_be_absent() {
    for kind in Kind::ALL {
        for term in admission(kind).terms {
            let first = &term.requirements[0];
            assert_eq!(first.operator, Operator::In);
            let before: Vec<&str> = match KindKey::from_label(&first.key) {
                Some(key) => key.earlier().map(KindKey::label).collect(),
                None => KindKey::ALL.map(KindKey::label).to_vec(),
            };
            let absent = |key: &str| {
                term.requirements
                    .iter()
                    .any(|r| r.key == key && r.operator == Operator::DoesNotExist)
            };
            assert!(before.iter().all(|key| absent(key)), "{kind} {}", first.key);
            let arch = term
                .requirements
                .iter()
                .find(|requirement| requirement.key == keys::ARCH)
                .unwrap();
            assert_eq!(
                (arch.operator, arch.values.as_slice()),
                (Operator::In, &["amd64".to_owned()][..])
            );
        }
    }
}

#[test]
fn g4_arm64_and_unlabeled_nodes_are_not_admitted() {
    let mut arm = node(&[("nvidia.com/gpu.product", "NVIDIA-L4")]);
    arm.labels.insert(keys::ARCH.to_owned(), "arm64".to_owned());
    assert_eq!(admitting(&arm), []);
    arm.labels.remove(keys::ARCH);
    assert_eq!(admitting(&arm), []);
}

/// Labels as clouds, feature discovery and people set them: each key with a known value, an unknown one, or not at all.
fn any_labels() -> impl Strategy<Value = Node> {
    fn some(values: Vec<String>) -> impl Strategy<Value = Option<String>> {
        proptest::option::of(proptest::sample::select(values))
    }
    fn values(key: &str) -> Vec<String> {
        let mut values: Vec<String> = rows(LABELS)
            .iter()
            .filter(|row| row["label_key"] == key)
            .map(|row| row["label_value"].clone())
            .collect();
        values.extend([String::new(), "other".to_owned()]);
        values
    }
    let machines: Vec<String> = rows(INSTANCE_TYPES)
        .iter()
        .map(|row| row["instance_type"].clone())
        .collect();
    let strings = |all: &[&str]| {
        all.iter()
            .map(|text| (*text).to_owned())
            .collect::<Vec<_>>()
    };
    let kinds = KindKey::ALL
        .map(|key| proptest::option::weighted(0.35, proptest::sample::select(values(key.label()))));
    let signs = (
        some(strings(&["none", "none", "none", "time-slicing", "mps"])),
        some(strings(&["false", "false", "true"])),
        proptest::option::weighted(
            0.1,
            proptest::sample::select(strings(&["time-sharing", "mps"])),
        ),
        proptest::option::weighted(0.1, proptest::sample::select(strings(&["1g.5gb"]))),
        proptest::option::weighted(0.1, proptest::sample::select(strings(&["2", "48"]))),
    );
    (
        kinds,
        some(machines),
        signs,
        proptest::sample::select(strings(&["amd64", "amd64", "amd64", "arm64"])),
    )
        .prop_map(
            |(kinds, machine, (strategy, vgpu, gke_sharing, gke_mig, gke_clients), arch)| {
                let mut node = Node {
                    arch: arch.clone(),
                    ..Node::default()
                };
                let mut set = |key: &str, value: Option<String>| {
                    node.labels
                        .extend(value.map(|value| (key.to_owned(), value)));
                };
                for (key, value) in KindKey::ALL.into_iter().zip(kinds) {
                    set(key.label(), value);
                }
                set(keys::INSTANCE_TYPE, machine);
                set(keys::SHARING_STRATEGY, strategy);
                set(keys::VGPU_PRESENT, vgpu);
                set(keys::GKE_SHARING_STRATEGY, gke_sharing);
                set(keys::GKE_PARTITION_SIZE, gke_mig);
                set(keys::GKE_MAX_CLIENTS, gke_clients);
                set(keys::ARCH, Some(arch));
                node
            },
        )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]
    #[test]
    fn k5_admits_exactly_the_whole_cards_of_the_kind_that_k2_names(node in any_labels()) {
        // Left out: nodes whose labels contradict each other, as no cloud labels any. The plan refuses those that are not
        // whole by any sign, and a scheduler can only look for the signs of the kind.
        let other = |kind: NodeKind| kind.known().is_some_and(|kind| kind_of_node(&node).known() != Some(kind));
        let only = |key: &str| {
            let mut one = node.clone();
            one.labels.retain(|label, _| label == key);
            kind_of_node(&one)
        };
        let contradicts = sharing(&node) != Sharing::Whole
            && (other(only(KindKey::GpuProduct.label())) || other(only(keys::INSTANCE_TYPE))
                || matches!(only(KindKey::GpuProduct.label()), NodeKind::UnknownValue { .. })
                || matches!(only(keys::INSTANCE_TYPE), NodeKind::OtherInstanceType { .. }));
        prop_assume!(!contradicts);
        let expected: Vec<Kind> = whole_kind(&node).into_iter().collect();
        prop_assert_eq!(admitting(&node), expected);
    }
}
