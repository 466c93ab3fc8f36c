//! The check of a server, through its data sources (S1, S2).

use std::time::Duration;

use super::{Rack, connection, gpus, provider};
use crate::servers::{Engine, IMAGE, Options, Server, row};
use crate::terraform::{FAILED, OK};

#[test]
fn s1_a_server_shows_its_cards_and_who_holds_them() {
    let Some(rack) = Rack::shared(2) else { return };
    let Some(work) = rack.work() else { return };
    work.file(
        "provider.tf",
        &provider(
            &(connection("rack1", &rack.server, "hourly_usd = 4")
                + &connection("unreachable", &rack.server, "").replace(
                    &format!("port             = {}", rack.server.port),
                    "port             = 1",
                )),
        ),
    );
    work.file("main.tf", &rack.service("app", &gpus(1)));
    work.apply().expect(OK);
    let data = "data \"loomplane_server\" \"it\" {\n  name = \"rack1\"\n}\noutput \"it\" {\n  value = data.loomplane_server.it\n}\n\
                data \"loomplane_gpu_targets\" \"all\" {}\noutput \"all\" {\n  value = data.loomplane_gpu_targets.all.targets\n}\n\
                data \"loomplane_gpu_targets\" \"three\" {\n  kind = \"nvidia-l4\"\n  gpus = 3\n}\noutput \"three\" {\n  value = data.loomplane_gpu_targets.three.targets\n}\n";
    work.file("data.tf", data);
    work.apply().expect(OK);
    let it = work.output("it");
    assert_eq!(
        (&it["can_take_gpu_work"], &it["reason"]),
        (&true.into(), &serde_json::Value::Null),
        "{it:#}"
    );
    assert_eq!(it["driver_version"], "550.54.15");
    assert_eq!(it["target_uid"], rack.server.machine_id());
    assert_eq!(it["hourly_usd"].as_f64(), Some(4.0));
    assert!(!it["docker_version"].as_str().unwrap().is_empty());
    assert_eq!(it["gpus"].as_array().unwrap().len(), 2);
    assert_eq!(it["gpus"][0]["uuid"], rack.uuid(0));
    assert_eq!(it["gpus"][0]["kind"], "nvidia-l4");
    assert_eq!(it["gpus"][0]["memory_mib"], 23034);
    assert!(
        it["gpus"][0]["held_by"][0]
            .as_str()
            .unwrap()
            .contains(&rack.name("app")),
        "{it:#}"
    );
    assert_eq!(it["gpus"][1]["held_by"], serde_json::json!([]));
    let all = work.output("all");
    assert_eq!(
        (&all[0]["target"], &all[0]["usable"], &all[0]["kind"]),
        (&"rack1".into(), &true.into(), &"nvidia-l4".into()),
        "{all:#}"
    );
    assert_eq!(all[0]["gpus_per_node"], 2);
    assert_eq!(
        all[0]["hourly_usd"].as_f64(),
        Some(2.0),
        "a share of the machine"
    );
    assert_eq!(
        (
            all.as_array().unwrap().len(),
            &all[1]["target"],
            &all[1]["usable"]
        ),
        (2, &"unreachable".into(), &false.into()),
        "{all:#}"
    );
    assert!(
        all[1]["reason"]
            .as_str()
            .unwrap()
            .contains("can't be reached"),
        "it hides none of the others: {all:#}"
    );
    let three = work.output("three");
    assert_eq!(
        (three.as_array().unwrap().len(), &three[0]["usable"]),
        (2, &false.into()),
        "{three:#}"
    );
    assert!(
        three[0]["reason"].as_str().unwrap().contains("3"),
        "{three:#}"
    );
    work.destroy().expect(OK);
}

/// A server, how it is broken, and words of its reason.
struct Bad(&'static str, fn(&Server), &'static str);

#[test]
fn s2_each_failure_gives_its_own_reason_and_delays_no_other() {
    let Some(engine) = Engine::shared() else {
        return;
    };
    let cases = [
        Bad(
            "none",
            |server| {
                server.smi.fails(
                    "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.",
                    9,
                );
                server.smi.unplug();
            },
            "No NVIDIA GPU on this server",
        ),
        Bad(
            "driver",
            |server| {
                server.smi.fails(
                    "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.",
                    9,
                )
            },
            "kernel module is not loaded",
        ),
        Bad(
            "mismatch",
            |server| {
                server.smi.fails("Failed to initialize NVML: Driver/library version mismatch\nNVML library version: 550.54", 18)
            },
            "version mismatch",
        ),
        Bad(
            "devices",
            |server| server.smi.fails("No devices were found", 6),
            "sees no usable card",
        ),
        Bad(
            "nvml",
            |server| {
                server
                    .smi
                    .fails("Failed to initialize NVML: Unknown Error", 255)
            },
            "can't initialize NVML",
        ),
        Bad(
            "rights",
            |server| {
                server
                    .smi
                    .fails("Failed to initialize NVML: Insufficient Permissions", 4)
            },
            "Insufficient Permissions",
        ),
        Bad(
            "lost",
            |server| {
                server.smi.fails("Unable to determine the device handle for GPU 0000:1b:00.0: GPU is lost. Reboot the system to recover this GPU", 15)
            },
            "a GPU is lost",
        ),
        Bad(
            "mig",
            |server| {
                server.smi.rows(
                    &[row(0)
                        .replace("NVIDIA L4", "NVIDIA A100-SXM4-80GB")
                        .replace("23034, [N/A]", "81920, Enabled")],
                    0,
                )
            },
            "MIG",
        ),
        Bad(
            "strange",
            |server| {
                server
                    .smi
                    .rows(&[row(0).replace("NVIDIA L4", "NVIDIA Strange 9000")], 0)
            },
            "Strange 9000",
        ),
        Bad(
            "absent",
            |server| {
                std::fs::remove_file(server.path("bin/nvidia-smi")).unwrap();
                server.smi.unplug();
                server.smi.plug(0, None);
            },
            "driver is missing",
        ),
        Bad("hung", |server| server.smi.sleeps(1000), "nvidia-smi"),
        // What is odd and does no harm.
        Bad(
            "unsupported",
            |server| {
                server
                    .smi
                    .rows(&[row(0).replace("[N/A]", "[Not Supported]")], 0)
            },
            "",
        ),
        Bad(
            "deprecated",
            |server| {
                server.smi.rows(
                    &[row(0).replace("[N/A]", "[Requested functionality has been deprecated]")],
                    0,
                )
            },
            "",
        ),
        Bad("old", |server| server.smi.lacks("mig.mode.current"), ""),
    ];
    let start = |options: Options| {
        Server::start(Options {
            cards: 1,
            ..options
        })
    };
    let with_engine = || Options {
        engine: Some(engine.clone()),
        ..Options::default()
    };
    let mut servers = Vec::new();
    for Bad(name, break_it, words) in &cases {
        let Some(server) = start(with_engine()) else {
            return;
        };
        break_it(&server);
        servers.push((*name, server, *words));
    }
    for (name, options, words) in [
        (
            "arm",
            Options {
                arch: Some("aarch64"),
                ..with_engine()
            },
            "aarch64",
        ),
        ("docker", Options::default(), "Docker"),
    ] {
        let Some(server) = start(options) else { return };
        servers.push((name, server, words));
    }
    let Some(work) = crate::terraform::Workspace::with_provider(crate::terraform::Cli::any())
    else {
        return;
    };
    let entries: String = servers
        .iter()
        .map(|(name, server, _)| connection(name, server, ""))
        .collect();
    work.file("provider.tf", &provider(&entries));
    let names: Vec<String> = servers
        .iter()
        .map(|(name, ..)| format!("\"{name}\""))
        .collect();
    work.file(
        "main.tf",
        &format!(
            "data \"loomplane_server\" \"it\" {{\n  for_each = toset([{}])\n  name     = each.key\n}}\noutput \"it\" {{\n  value = data.loomplane_server.it\n}}\n\
             data \"loomplane_gpu_targets\" \"all\" {{\n  depends_on = [data.loomplane_server.it]\n}}\noutput \"all\" {{\n  value = data.loomplane_gpu_targets.all.targets\n}}\n",
            names.join(", ")
        ),
    );
    let run = work.apply_with(&["-parallelism=20"]).expect(OK);
    let text = run.text();
    let took = |name: &str| {
        let begin = format!("data.loomplane_server.it[\"{name}\"]: Read complete after ");
        let (_, rest) = text
            .split_once(&begin)
            .unwrap_or_else(|| panic!("{begin} not in {text}"));
        rest.split('s').next().unwrap().parse::<u64>().unwrap()
    };
    let it = work.output("it");
    for (name, _, words) in &servers {
        let shown = &it[name];
        if words.is_empty() {
            assert_eq!(shown["can_take_gpu_work"], true, "{name}: {shown:#}");
            continue;
        }
        assert_eq!(shown["can_take_gpu_work"], false, "{name}: {shown:#}");
        let reason = shown["reason"].as_str().unwrap_or_default();
        assert!(
            reason.contains(words),
            "{name}: {words:?} is not in {reason:?}"
        );
        if *name != "none" {
            assert!(
                reason.starts_with("Can't take GPU work: "),
                "{name}: {reason:?}"
            );
        }
    }
    let mut reasons: Vec<_> = servers
        .iter()
        .filter_map(|(name, ..)| it[name]["reason"].as_str())
        .collect();
    reasons.sort_unstable();
    reasons.dedup();
    assert_eq!(
        reasons.len(),
        servers
            .iter()
            .filter(|(_, _, words)| !words.is_empty())
            .count(),
        "each has its own: {reasons:#?}"
    );
    assert!(
        took("hung") >= 25 && took("hung") < 60,
        "it ends at its limit: {}",
        took("hung")
    );
    assert!(
        servers
            .iter()
            .filter(|(name, ..)| *name != "hung")
            .all(|(name, ..)| took(name) < 25),
        "{text}"
    );
    for (_, server, _) in &servers {
        server.assert_no_process_left("nvidia-smi");
        server.assert_no_process_left("sleep");
    }
    let all = work.output("all");
    let rows = all.as_array().unwrap();
    assert_eq!(rows.len(), servers.len(), "{all:#}");
    for row in rows {
        let can = &it[row["target"].as_str().unwrap()]["can_take_gpu_work"];
        assert_eq!(
            (&row["usable"], row["reason"].is_null()),
            (can, *can == true),
            "{row:#}"
        );
    }
    // A service there is refused with that reason, on what it asks for.
    work.file("main.tf", &format!("resource \"loomplane_gpu_service\" \"app\" {{\n  name = \"app\"\n  target = \"mismatch\"\n  image = \"{IMAGE}\"\n  {}\n}}\n", gpus(1)));
    work.plan()
        .expect(FAILED)
        .says("version mismatch")
        .says("size.gpu");
    eprintln!("the check of {} servers took {:?}", servers.len(), run.took);
    assert!(run.took < Duration::from_secs(90));
}
