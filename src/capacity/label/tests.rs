use super::*;
use crate::capacity::catalog::tests::{INSTANCE_TYPES, LABELS, rows};

fn node(labels: &[(&str, &str)]) -> Node {
    Node {
        labels: labels
            .iter()
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
            .collect(),
        ..Node::default()
    }
}

const PRODUCT: &str = "nvidia.com/gpu.product";

#[test]
fn k2_every_label_row() {
    let mut read = 0;
    for row in rows(LABELS).iter().filter(|row| row["precedence"] != "aux") {
        let mut labels = vec![(row["label_key"].as_str(), row["label_value"].as_str())];
        labels.extend(row["only_with_label"].split_once('='));
        let node = node(&labels);
        let kind = kind_of_node(&node);
        match row["kind"].as_str() {
            "unknown" => assert!(
                matches!(kind, NodeKind::UnknownValue { .. }),
                "{row:?} {kind:?}"
            ),
            two if two.starts_with("ambiguous:") => {
                assert!(
                    matches!(&kind, NodeKind::Ambiguous { kinds, .. } if kinds.len() == 2),
                    "{row:?} {kind:?}"
                );
            }
            id => assert_eq!(kind.known().map(Kind::id), Some(id), "{row:?}"),
        }
        assert_eq!(
            sharing(&node) == Sharing::Whole,
            row["whole_device"] == "yes",
            "{row:?} {:?}",
            sharing(&node)
        );
        read += 1;
    }
    assert_eq!(read, 141);
}

#[test]
fn k2_every_instance_type_row() {
    for row in rows(INSTANCE_TYPES) {
        let name = row["instance_type"].as_str();
        let kind = kind_of_node(&node(&[(keys::INSTANCE_TYPE, name)]));
        match row["kind"].as_str() {
            "unknown" => assert_eq!(
                kind,
                NodeKind::OtherInstanceType {
                    name: name.to_owned()
                }
            ),
            "(needs accelerator label)" => assert_eq!(kind, NodeKind::Unnamed),
            id => assert_eq!(kind.known().map(Kind::id), Some(id), "{name}"),
        }
        let whole = sharing(&node(&[(keys::INSTANCE_TYPE, name)])) == Sharing::Whole;
        assert_eq!(
            whole,
            matches!(row["whole_devices"].as_str(), "yes" | ""),
            "{name}"
        );
    }
}

#[test]
fn k2_the_order_of_the_keys_is_that_of_the_source_document() {
    let order = [
        "cloud.google.com/gke-accelerator",
        PRODUCT,
        "k8s.amazonaws.com/accelerator",
        "doks.digitalocean.com/gpu-model",
    ];
    assert_eq!(KindKey::ALL.map(KindKey::label), order);
    // Each key with a value of its own kind: the first that is there decides, whatever follows.
    let values = [
        ("nvidia-l4", Kind::L4),
        ("Tesla-T4", Kind::T4),
        ("nvidia-a10g", Kind::A10g),
        ("h100", Kind::H100_80gb),
    ];
    for first in 0..4 {
        let mut labels: Vec<(&str, &str)> = (first..4)
            .map(|index| (order[index], values[index].0))
            .collect();
        labels.push((keys::INSTANCE_TYPE, "g6e.xlarge"));
        assert_eq!(kind_of_node(&node(&labels)).known(), Some(values[first].1));
    }
    assert_eq!(
        kind_of_node(&node(&[(keys::INSTANCE_TYPE, "g6e.xlarge")])).known(),
        Some(Kind::L40s)
    );
}

#[test]
fn k2_first_means_first_also_when_unknown_or_empty() {
    let hidden = node(&[(PRODUCT, "NVIDIA-B200"), (keys::INSTANCE_TYPE, "g5.xlarge")]);
    assert_eq!(
        kind_of_node(&hidden),
        NodeKind::UnknownValue {
            key: KindKey::GpuProduct,
            value: "NVIDIA-B200".to_owned()
        }
    );
    let empty = node(&[
        ("cloud.google.com/gke-accelerator", ""),
        (PRODUCT, "NVIDIA-L4"),
    ]);
    assert_eq!(
        kind_of_node(&empty),
        NodeKind::UnknownValue {
            key: KindKey::GkeAccelerator,
            value: String::new()
        }
    );
}

#[test]
fn k2_the_unknown_kinds_of_the_notes_stay_unknown() {
    for value in [
        "NVIDIA-B200",
        "NVIDIA-RTX-PRO-6000-Blackwell-Server-Edition",
        "NVIDIA-GeForce-GTX-1080-Ti",
        "NVIDIA-GH200-480GB",
        "NVIDIA-A40",
        "NVIDIA-L40",
        "Quadro-RTX-6000",
    ] {
        assert_eq!(
            kind_of_node(&node(&[(PRODUCT, value)])).known(),
            None,
            "{value}"
        );
    }
    for machine in [
        "g5g.xlarge",
        "g5g.2xlarge",
        "g5g.4xlarge",
        "g5g.8xlarge",
        "g5g.16xlarge",
        "g5g.metal",
        "gpu-mi325x1-256gb",
    ] {
        assert_eq!(
            kind_of_node(&node(&[(keys::INSTANCE_TYPE, machine)])).known(),
            None,
            "{machine}"
        );
    }
}

#[test]
fn k2_an_instance_type_settles_what_a_label_leaves_open() {
    let aws = "k8s.amazonaws.com/accelerator";
    for (value, machine, kind) in [
        ("nvidia-tesla-v100", "p3.2xlarge", Some(Kind::V100_16gb)),
        ("nvidia-tesla-v100", "p3dn.24xlarge", Some(Kind::V100_32gb)),
        ("nvidia-tesla-a100", "p4d.24xlarge", Some(Kind::A100_40gb)),
        ("nvidia-tesla-a100", "p4de.24xlarge", Some(Kind::A100_80gb)),
        ("nvidia-tesla-a100", "g6.xlarge", None),
        ("nvidia-tesla-a100", "nonesuch", None),
    ] {
        assert_eq!(
            kind_of_node(&node(&[(aws, value), (keys::INSTANCE_TYPE, machine)])).known(),
            kind,
            "{value} {machine}"
        );
    }
}

#[test]
fn k2_values_are_compared_whole_and_without_regard_to_case() {
    assert_eq!(
        kind_of_node(&node(&[(PRODUCT, "nvidia-l40S")])).known(),
        Some(Kind::L40s)
    );
    let known: std::collections::BTreeSet<(String, String)> = rows(LABELS)
        .iter()
        .map(|row| (row["label_key"].clone(), row["label_value"].to_lowercase()))
        .collect();
    for (key, value) in &known {
        if KindKey::from_label(key).is_none() {
            continue;
        }
        for changed in [
            value[..value.len() - 1].to_owned(),
            value[1..].to_owned(),
            format!("{value}0"),
            format!("{value}-x"),
            format!("{value} "),
        ] {
            // A vGPU or MIG name cut by a letter is no other card's name either.
            if !known.contains(&(key.clone(), changed.clone())) {
                let cut = node(&[(key, &changed)]);
                // `...-MIG-1g.5gb` less a letter is no profile any more, so no suffix.
                assert_eq!(kind_of_node(&cut).known(), None, "{key} {changed}");
            }
        }
    }
}

#[test]
fn k7_suffixes_tell_the_kind_and_are_no_whole_devices() {
    for (value, kind, mig) in [
        ("NVIDIA-L40S-SHARED", Kind::L40s, false),
        ("NVIDIA-H200-MIG-1g.18gb", Kind::H200_141gb, true),
        (
            "NVIDIA-H100-80GB-HBM3-MIG-1g.10gbme-SHARED",
            Kind::H100_80gb,
            true,
        ),
        ("nvidia-h100-nvl-mig-invalid", Kind::H100Nvl94gb, true),
        (
            "NVIDIA-A100-SXM4-80GB-MIG-1c.3g.40gb",
            Kind::A100_80gb,
            true,
        ),
    ] {
        let node = node(&[(PRODUCT, value)]);
        assert_eq!(kind_of_node(&node).known(), Some(kind), "{value}");
        assert_eq!(matches!(sharing(&node), Sharing::Mig(_)), mig, "{value}");
        assert_ne!(sharing(&node), Sharing::Whole, "{value}");
    }
    // The suffix belongs to feature discovery's label only.
    assert_eq!(
        kind_of_node(&node(&[(
            "cloud.google.com/gke-accelerator",
            "nvidia-l4-SHARED"
        )]))
        .known(),
        None
    );
    for odd in [
        "-SHARED",
        "SHARED",
        "NVIDIA-L4-MIG-",
        "NVIDIA-L4-MIG-1g",
        "NVIDIA-L4-SHARED-SHARED",
        "é-SHARED",
    ] {
        assert_eq!(
            kind_of_node(&node(&[(PRODUCT, odd)])).known(),
            None,
            "{odd}"
        );
    }
}

#[test]
fn k7_every_other_sign_of_sharing_counts() {
    let gke = ("cloud.google.com/gke-accelerator", "nvidia-l4");
    let whole = node(&[
        gke,
        ("nvidia.com/gpu.sharing-strategy", "none"),
        ("nvidia.com/gpu.replicas", "1"),
        ("nvidia.com/vgpu.present", "false"),
        ("nvidia.com/mig.capable", "true"),
        ("nvidia.com/mig.strategy", "single"),
    ]);
    assert_eq!(sharing(&whole), Sharing::Whole);
    for (key, value) in [
        ("nvidia.com/gpu.sharing-strategy", "time-slicing"),
        ("nvidia.com/gpu.sharing-strategy", "mps"),
        ("nvidia.com/gpu.replicas", "2"),
        ("cloud.google.com/gke-gpu-sharing-strategy", "time-sharing"),
        ("cloud.google.com/gke-max-shared-clients-per-gpu", "4"),
    ] {
        assert_eq!(
            sharing(&node(&[gke, (key, value)])),
            Sharing::Shared(format!("{key} = {value}"))
        );
    }
    for (key, value) in [
        ("cloud.google.com/gke-gpu-partition-size", "1g.5gb"),
        ("nvidia.com/mig-1g.5gb.count", "7"),
    ] {
        assert_eq!(
            sharing(&node(&[gke, (key, value)])),
            Sharing::Mig(format!("{key} = {value}"))
        );
    }
    assert_eq!(
        sharing(&node(&[gke, ("nvidia.com/vgpu.present", "true")])),
        Sharing::Vgpu("nvidia.com/vgpu.present = true".to_owned())
    );
    let with = |name: &str, count| {
        let mut with = node(&[gke]);
        with.allocatable.insert(name.to_owned(), count);
        sharing(&with)
    };
    assert!(matches!(with("nvidia.com/mig-1g.5gb", 1), Sharing::Mig(_)));
    assert_eq!(with("nvidia.com/mig-1g.5gb", 0), Sharing::Whole);
    assert!(matches!(
        with("nvidia.com/gpu.shared", 0),
        Sharing::Shared(_)
    ));
    assert_eq!(with("nvidia.com/gpu", 8), Sharing::Whole);
}

#[test]
fn vgpu_names_end_in_a_number_and_a_letter() {
    for name in [
        "NVIDIA-A10-4Q",
        "NVIDIA L4-24Q",
        "GRID T4-16Q",
        "NVIDIA A100-40C",
        "NVIDIA A16-2B",
    ] {
        assert!(is_vgpu_name(name), "{name}");
    }
    for name in [
        "NVIDIA-A10",
        "NVIDIA-A100-SXM4-40GB",
        "NVIDIA-A10-Q",
        "Q",
        "-4Q",
        "Tesla V100-SXM3-32GB-H",
        "NVIDIA-A10-4q5Q",
    ] {
        assert!(!is_vgpu_name(name), "{name}");
    }
}

#[test]
fn adapters_keep_every_label_that_is_asked() {
    for row in rows(LABELS).iter().filter(|row| row["precedence"] != "aux") {
        assert!(relevant_label(&row["label_key"]));
        assert!(
            row["only_with_label"]
                .split_once('=')
                .is_none_or(|(key, _)| relevant_label(key))
        );
    }
    for key in [
        "nvidia.com/mig-1g.10gb.count",
        "kubernetes.io/arch",
        "node.kubernetes.io/instance-type",
        "agentpool",
    ] {
        assert!(relevant_label(key), "{key}");
    }
    for key in [
        "app",
        "nvidia.com/cuda.driver.major",
        "beta.kubernetes.io/os",
        "nvidia.com/mig-1g.10gb.product",
        "",
    ] {
        assert!(!relevant_label(key), "{key}");
    }
}

#[test]
fn k3_a_node_has_gpus_by_any_sign() {
    assert!(!has_gpu(&node(&[
        ("kubernetes.io/arch", "amd64"),
        (keys::INSTANCE_TYPE, "m5.large")
    ])));
    assert!(
        !has_gpu(&node(&[(keys::INSTANCE_TYPE, "Standard_NP10s")])),
        "an FPGA"
    );
    assert!(!has_gpu(&node(&[("nvidia.com/gpu.present", "false")])));
    for (key, value) in [
        ("nvidia.com/gpu.present", "true"),
        (keys::INSTANCE_TYPE, "g6.xlarge"),
        (keys::INSTANCE_TYPE, "g6f.large"),
        (PRODUCT, "NVIDIA-B200"),
        ("feature.node.kubernetes.io/pci-10de.present", "true"),
        ("accelerator", "nvidia"),
    ] {
        assert!(has_gpu(&node(&[(key, value)])), "{key}");
    }
    let mut advertised = node(&[]);
    advertised.capacity.insert("nvidia.com/gpu".to_owned(), 0);
    assert!(has_gpu(&advertised));
}
