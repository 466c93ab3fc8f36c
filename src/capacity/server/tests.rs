use super::failure::classify;
use super::*;
use crate::capacity::catalog::tests::{CARD_NAMES, FAILURES, rows};

pub(crate) fn card(index: u32, name: &str, memory_mib: u64) -> Card {
    Card {
        uuid: CardUuid(format!("GPU-{index:08x}-0000-0000-0000-00000000000{index}")),
        index,
        name: name.to_owned(),
        memory_mib: Some(memory_mib),
        mig: MigMode::NotSupported,
        compute_mode: ComputeMode::Default,
        bus_id: format!("00000000:{index:02X}:00.0"),
        fault: None,
        outside_processes: 0,
    }
}

pub(crate) fn server(cards: Vec<Card>) -> ServerFacts {
    ServerFacts {
        arch: "x86_64".to_owned(),
        pci: cards
            .iter()
            .map(|card| PciCard {
                address: format!("0000:{:02x}:00.0", card.index),
                driver: Some("nvidia".to_owned()),
            })
            .collect(),
        nvidia_smi: NvidiaSmi::Answered {
            driver_version: "580.95.05".to_owned(),
            cards,
        },
        docker: DockerGpus::Reachable,
    }
}

fn failed(output: &str, exit_code: i32, cards: usize) -> ServerFacts {
    let pci = (0..cards)
        .map(|bus| PciCard {
            address: format!("0000:{bus:02x}:00.0"),
            driver: None,
        })
        .collect();
    ServerFacts {
        pci,
        nvidia_smi: NvidiaSmi::Failed {
            output: output.to_owned(),
            exit_code,
        },
        ..server(vec![])
    }
}

#[test]
fn s1_every_card_name_row() {
    for row in rows(CARD_NAMES) {
        let memories: Vec<Option<u64>> = match row["memory_total_mib_seen"].as_str() {
            "" => vec![None],
            seen => seen.split(';').map(|mib| mib.parse().ok()).collect(),
        };
        for memory in memories {
            let kind = kind_of_card(&row["name"], memory);
            match (row["kind"].as_str(), row["whole_device"].as_str()) {
                (_, "no") => assert_eq!(kind, Err(CardWhy::Vgpu), "{row:?}"),
                ("unknown", _) => assert_eq!(kind, Err(CardWhy::UnknownKind), "{row:?}"),
                (id, _) => assert_eq!(kind.map(Kind::id), Ok(id), "{row:?} {memory:?}"),
            }
        }
    }
}

#[test]
fn s1_a_name_with_another_memory_is_another_card() {
    assert_eq!(
        kind_of_card("NVIDIA H100 PCIe", Some(95_830)),
        Err(CardWhy::OtherMemory {
            kind: Kind::H100_80gb,
            found_mib: 95_830
        })
    );
    assert_eq!(
        kind_of_card("NVIDIA A100-SXM4-80GB", Some(40_960)),
        Err(CardWhy::OtherMemory {
            kind: Kind::A100_80gb,
            found_mib: 40_960
        })
    );
    assert_eq!(
        kind_of_card("NVIDIA L40S", Some(49_140)),
        Ok(Kind::L40s),
        "ECC off"
    );
    assert_eq!(
        kind_of_card("NVIDIA H100 80GB HBM3-24Q", None),
        Err(CardWhy::Vgpu)
    );
    for trap in [
        "NVIDIA H100",
        "NVIDIA L4 ",
        "NVIDIA L40",
        "NVIDIA RTX 4000 Ada Generation Laptop GPU",
    ] {
        assert_eq!(
            kind_of_card(trap, None).is_ok(),
            trap == "NVIDIA L4 ",
            "{trap}"
        );
    }
}

#[test]
fn s2_every_failure_row() {
    let table = super::super::catalog::tests::table(FAILURES);
    let mut sorted = 0;
    for (text, exit_code, what) in table {
        // Text and code together; text alone; where the code is known, code alone.
        let code = exit_code.parse().unwrap_or(255);
        let with_both = classify(&text, code);
        let right = |failure: &SmiFailure| match what.as_str() {
            "driver" => matches!(
                failure,
                SmiFailure::Missing | SmiFailure::NotLoaded | SmiFailure::NoDevices
            ),
            "driver (reboot)" => *failure == SmiFailure::Mismatch,
            "toolkit" => *failure == SmiFailure::Nvml,
            "permissions" => *failure == SmiFailure::Permissions,
            "broken GPU" => matches!(failure, SmiFailure::CardLost(line) if text.starts_with(line)),
            "parse" => *failure == SmiFailure::UnknownField("xxx".to_owned()),
            _ => false,
        };
        if matches!(what.as_str(), "degraded" | "normal") {
            let field = text.split(" in ").next().unwrap_or_default();
            assert!(has_no_value(field), "{field}");
            continue;
        }
        assert!(right(&with_both), "{text}: {with_both:?}");
        assert!(
            right(&classify(&format!("\n{text}\nand more\n"), 1)),
            "{text}"
        );
        if let Ok(code) = exit_code.parse::<i32>()
            && code != 2
        {
            let alone = classify("", code);
            assert_eq!(
                std::mem::discriminant(&alone),
                std::mem::discriminant(&with_both),
                "{code}"
            );
        }
        sorted += 1;
    }
    assert_eq!(sorted, 9);
}

#[test]
fn s2_values_are_no_missing_values() {
    for value in ["0", "81559", "Disabled", "NVIDIA L4", "Default"] {
        assert!(!has_no_value(value), "{value}");
    }
    assert_eq!(MigMode::parse(" Enabled "), MigMode::On);
    assert_eq!(MigMode::parse("[N/A]"), MigMode::NotSupported);
    assert_eq!(ComputeMode::parse("Prohibited"), ComputeMode::Prohibited);
}

fn reason(facts: &ServerFacts) -> String {
    check(facts).render_reason().unwrap()
}

#[test]
fn s2_no_card_at_all() {
    for facts in [
        failed("bash: nvidia-smi: command not found", 127, 0),
        failed("No devices were found", 6, 0),
        server(vec![]),
    ] {
        assert_eq!(reason(&facts), "No NVIDIA GPU on this server");
    }
}

#[test]
fn s2_a_card_and_no_answer_says_whether_the_driver_is_missing_or_broken() {
    let missing = reason(&failed("bash: nvidia-smi: command not found", 127, 1));
    assert!(
        missing.starts_with("Can't take GPU work: the NVIDIA driver is missing"),
        "{missing}"
    );
    for (output, code) in [
        (
            "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.",
            9,
        ),
        (
            "Failed to initialize NVML: Driver/library version mismatch",
            18,
        ),
        ("No devices were found", 6),
    ] {
        let broken = reason(&failed(output, code, 1));
        assert!(
            broken.starts_with("Can't take GPU work: the NVIDIA driver is broken"),
            "{broken}"
        );
    }
    // Cards on the bus, an nvidia-smi that lists none.
    let mut none_listed = server(vec![card(0, "NVIDIA L4", 23_034)]);
    none_listed.nvidia_smi = NvidiaSmi::Answered {
        driver_version: "580".to_owned(),
        cards: vec![],
    };
    assert!(reason(&none_listed).contains("the NVIDIA driver is broken"));
}

#[test]
fn s2_docker_without_gpus_gives_the_toolkit_commands() {
    let mut facts = server(vec![card(0, "NVIDIA L4", 23_034)]);
    facts.docker = DockerGpus::NotReachable {
        message: "could not select device driver".to_owned(),
    };
    let text = reason(&facts);
    assert!(
        text.starts_with(
            "Can't take GPU work: nvidia-smi answers, but Docker can't reach the GPUs"
        ),
        "{text}"
    );
    assert!(
        text.contains(
            "sudo nvidia-ctk runtime configure --runtime=docker\nsudo systemctl restart docker"
        ),
        "{text}"
    );
    facts.docker = DockerGpus::Denied {
        message: "permission denied".to_owned(),
    };
    assert!(reason(&facts).contains("docker_sudo"));
    facts.docker = DockerGpus::NoEngine {
        message: "no such file".to_owned(),
    };
    assert!(reason(&facts).contains("does not answer"));
}

#[test]
fn s2_one_whole_card_is_enough_and_each_other_has_its_own_reason() {
    let mut mig = card(1, "NVIDIA A100-SXM4-40GB", 40_960);
    mig.mig = MigMode::On;
    let mut lost = card(2, "NVIDIA L4", 23_034);
    lost.fault = Some("GPU is lost".to_owned());
    let mut facts = server(vec![
        card(0, "NVIDIA L4", 23_034),
        mig,
        lost,
        card(3, "NVIDIA GeForce RTX 3090", 24_576),
    ]);
    facts.pci.push(PciCard {
        address: "0000:ff:00.0".to_owned(),
        driver: Some("vfio-pci".to_owned()),
    });
    let checked = check(&facts);
    assert_eq!(checked.can_take_gpu_work, Ok(()));
    assert_eq!(checked.physical_cards(), 5);
    let reasons: Vec<Option<CardWhy>> = checked
        .cards
        .iter()
        .map(|card| card.usable.clone().err())
        .collect();
    assert_eq!(
        reasons,
        [
            None,
            Some(CardWhy::Mig),
            Some(CardWhy::Fault("GPU is lost".to_owned())),
            Some(CardWhy::UnknownKind),
            Some(CardWhy::NotListed {
                driver: Some("vfio-pci".to_owned())
            }),
        ]
    );
    assert_eq!(checked.usable(Kind::L4).count(), 1);
    assert!(
        checked
            .cards
            .iter()
            .skip(1)
            .all(|card| card.render_reason().is_some_and(|text| text.ends_with('.')))
    );
    // Without the one whole card, no work at all.
    let NvidiaSmi::Answered { cards, .. } = &mut facts.nvidia_smi else {
        unreachable!()
    };
    cards.remove(0);
    assert!(reason(&facts).starts_with("Can't take GPU work: no card can be used:\n"));
    assert_eq!(
        check(&facts).physical_cards(),
        5,
        "a card that is no longer listed still counts"
    );
}

#[test]
fn g4_an_arm64_server_takes_no_gpu_work() {
    let mut facts = server(vec![card(0, "NVIDIA L4", 23_034)]);
    facts.arch = "aarch64".to_owned();
    assert_eq!(
        reason(&facts),
        "Can't take GPU work: its architecture is aarch64, and GPU work runs on amd64 only. Use an amd64 server."
    );
    assert_eq!(check(&facts).usable(Kind::L4).count(), 0);
}

#[test]
fn bus_addresses_are_compared_over_their_spellings() {
    assert!(same_address("00000000:3B:00.0", "0000:3b:00.0"));
    assert!(same_address("3b:00.0", "0000:3b:00.0"));
    assert!(!same_address("00000001:3B:00.0", "0000:3b:00.0"));
    assert!(!same_address("00000000:3B:00.0", "0000:3c:00.0"));
}
