use super::*;
use crate::capacity::server::{DockerGpus, PciCard, ServerFacts, check};

const EIGHT: &str =
    "0, GPU-0a, NVIDIA H100 80GB HBM3, 81559, Disabled, Default, 00000000:1B:00.0, 550.54.15\n";

fn cards(output: &str, exit_code: i32) -> (Vec<Card>, String) {
    match parse(output, exit_code, &FIELDS) {
        NvidiaSmi::Answered {
            cards,
            driver_version,
        } => (cards, driver_version),
        failed => panic!("{failed:?}"),
    }
}

/// What a user reads when `nvidia-smi` prints this on a machine with one card on the bus.
fn reason(output: &str, exit_code: i32) -> String {
    let facts = ServerFacts {
        arch: "x86_64".to_owned(),
        pci: vec![PciCard {
            address: "0000:1b:00.0".to_owned(),
            driver: None,
        }],
        nvidia_smi: parse(output, exit_code, &FIELDS),
        docker: DockerGpus::Reachable,
    };
    check(&facts).render_reason().unwrap_or_default()
}

#[test]
fn s1_a_row_is_read_whole() {
    let (cards, driver) = cards(EIGHT, 0);
    let card = &cards[0];
    assert_eq!(
        (card.uuid.0.as_str(), card.index, card.memory_mib),
        ("GPU-0a", 0, Some(81559))
    );
    assert_eq!(
        (card.mig, card.compute_mode, card.fault.as_deref()),
        (MigMode::Off, ComputeMode::Default, None)
    );
    assert_eq!(driver, "550.54.15");
}

#[test]
fn s1_fields_without_value_are_never_zero() {
    for empty in [
        "[N/A]",
        "N/A",
        "[Not Supported]",
        "[Requested functionality has been deprecated]",
    ] {
        let (cards, _) = cards(
            &format!("0, GPU-0a, NVIDIA GB10, {empty}, {empty}, Default, 00000000:1B:00.0, 580.1"),
            0,
        );
        assert_eq!(
            (cards[0].memory_mib, cards[0].mig),
            (None, MigMode::NotSupported),
            "{empty}"
        );
    }
}

#[test]
fn s1_units_and_noise_of_a_login_script_do_no_harm() {
    let (cards, _) = cards(
        &format!(
            "Welcome, friend, to this machine\n{}",
            EIGHT.replace("81559", "81559 MiB")
        ),
        0,
    );
    assert_eq!((cards.len(), cards[0].memory_mib), (1, Some(81559)));
}

#[test]
fn s2_each_row_of_the_failures_gives_its_own_reason() {
    for (output, exit_code, want) in [
        (
            "bash: nvidia-smi: command not found",
            127,
            "the NVIDIA driver is missing",
        ),
        (
            "timeout: failed to run command 'nvidia-smi': No such file or directory",
            127,
            "the NVIDIA driver is missing",
        ),
        (
            "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure that the latest NVIDIA driver is installed and running.",
            9,
            "kernel module is not loaded",
        ),
        ("No devices were found", 6, "sees no usable card"),
        (
            "Failed to initialize NVML: Driver/library version mismatch\nNVML library version: 550.90",
            18,
            "version mismatch",
        ),
        (
            "Failed to initialize NVML: Unknown Error",
            255,
            "can't initialize NVML",
        ),
        (
            "Failed to initialize NVML: Insufficient Permissions",
            4,
            "Insufficient Permissions",
        ),
        (
            "Unable to determine the device handle for GPU 0000:1b:00.0: GPU is lost. Reboot the system to recover this GPU",
            15,
            "a GPU is lost",
        ),
        (
            "Unable to determine the device handle for GPU0000:1b:00.0: Unknown Error",
            3,
            "a GPU is lost",
        ),
    ] {
        let text = reason(output, exit_code);
        assert!(
            text.starts_with("Can't take GPU work: ") && text.contains(want),
            "{output:?} gave {text:?}"
        );
    }
    assert_eq!(reason(EIGHT, 0), "");
}

#[test]
fn s2_one_of_four_lost_leaves_three() {
    let row = |index: u32, bus: &str| {
        format!(
            "{index}, GPU-{index}, NVIDIA L4, 23034, [N/A], Default, 00000000:{bus}:00.0, 550.1\n"
        )
    };
    let lost = "Unable to determine the device handle for GPU 0000:41:00.0: GPU is lost. Reboot the system to recover this GPU\n";
    let output = format!("{}{}{lost}{}", row(0, "1B"), row(1, "2B"), row(2, "5B"));
    let facts = ServerFacts {
        arch: "x86_64".to_owned(),
        pci: ["1b", "2b", "41", "5b"]
            .map(|bus| PciCard {
                address: format!("0000:{bus}:00.0"),
                driver: Some("nvidia".to_owned()),
            })
            .to_vec(),
        nvidia_smi: parse(&output, 15, &FIELDS),
        docker: DockerGpus::Reachable,
    };
    let found = check(&facts);
    assert!(
        found.can_take_gpu_work.is_ok(),
        "{:?}",
        found.can_take_gpu_work
    );
    assert_eq!(
        found
            .cards
            .iter()
            .filter(|card| card.usable.is_ok())
            .count(),
        3
    );
    assert_eq!(found.physical_cards(), 4);
}

#[test]
fn s2_a_lost_card_with_a_row_of_its_own_carries_its_fault() {
    let output = "0, GPU-0a, NVIDIA L4, 23034, [N/A], Default, 00000000:1B:00.0, 550.1\n1, [GPU is lost], [GPU is lost], [GPU is lost], [GPU is lost], [GPU is lost], 00000000:2B:00.0, 550.1\n";
    let (cards, _) = cards(output, 0);
    assert_eq!(cards[1].fault.as_deref(), Some("GPU is lost"));
    assert_eq!(cards[0].fault, None);
}

#[test]
fn s2_err_in_a_field_keeps_the_card() {
    let (cards, _) = cards(
        "0, GPU-0a, NVIDIA L4, ERR!, [N/A], Default, 00000000:1B:00.0, 550.1",
        0,
    );
    assert_eq!(
        (cards[0].memory_mib, cards[0].fault.as_deref()),
        (None, None)
    );
}

#[test]
fn s1_an_unknown_field_is_left_out_and_the_rest_asked_again() {
    let output = "Field \"mig.mode.current\" is not a valid field to query.\n";
    let left = fewer(output, &FIELDS).unwrap();
    assert!(!left.contains(&"mig.mode.current") && left.len() == FIELDS.len() - 1);
    assert_eq!(
        fewer("Field \"uuid\" is not a valid field to query.", &FIELDS),
        None
    );
    assert_eq!(fewer("No devices were found", &FIELDS), None);
    let NvidiaSmi::Answered { cards, .. } = parse(
        "0, GPU-0a, Tesla T4, 15360, Default, 00000000:1B:00.0, 418.1",
        0,
        &left,
    ) else {
        panic!()
    };
    assert_eq!(
        (cards[0].mig, cards[0].compute_mode),
        (MigMode::NotSupported, ComputeMode::Default)
    );
}

#[test]
fn s3a_processes_are_read_by_card() {
    let found =
        parse_processes("GPU-0a, 4242\nGPU-0a, 7\nGPU-0b, [N/A]\nNo running processes found\n");
    assert_eq!(
        found,
        BTreeMap::from([("GPU-0a".to_owned(), vec![4242, 7])])
    );
}
