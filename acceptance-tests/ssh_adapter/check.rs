//! S1, S2: what a check finds, and each reason why a server can't take GPU work.

use std::sync::Arc;
use std::time::{Duration, Instant};

use loomplane::ssh::{Report, Route, Server as Target};

use super::{config, run, scope};
use crate::servers::{Engine, Options, Server, row};

fn check(server: &Server) -> Arc<Report> {
    check_as(server, "root")
}

fn check_as(server: &Server, user: &str) -> Arc<Report> {
    run(async {
        let target = Target::new(config(server, user));
        let report = target.report(&scope()).await.unwrap();
        target.close().await;
        report
    })
}

fn reason(server: &Server) -> String {
    check(server).reason().unwrap_or_default()
}

fn server(options: Options) -> Option<Server> {
    Server::start(Options {
        engine: Some(Engine::shared()?),
        ..options
    })
}

#[test]
fn s1_a_sound_server_shows_its_cards() {
    let Some(server) = server(Options {
        cards: 4,
        ..Options::default()
    }) else {
        return;
    };
    let report = check(&server);
    assert_eq!(report.reason(), None);
    assert_eq!(report.check.cards.len(), 4);
    assert_eq!(
        report.target_uid.as_deref(),
        Some(server.machine_id().as_str())
    );
    assert_eq!(report.route, Some(Route::Forwarded));
    assert_eq!(report.check.driver_version.as_deref(), Some("550.54.15"));
    assert!(report.docker_version.is_some());
    assert_eq!(server.connections(), 1, "one connection for all of it");
}

#[test]
fn s2_each_failure_gives_its_own_reason_through_a_real_shell() {
    let Some(server) = server(Options::default()) else {
        return;
    };
    for (says, code, want) in [
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
            "Unable to determine the device handle for GPU0000:1B:00.0: Unknown Error",
            3,
            "a GPU is lost",
        ),
        ("something never seen", 77, "something never seen"),
    ] {
        server.smi.fails(says, code);
        let text = reason(&server);
        assert!(
            text.starts_with("Can't take GPU work: ") && text.contains(want),
            "{says:?} gave {text:?}"
        );
    }
}

#[test]
fn s2_cards_that_differ_carry_their_own_reasons() {
    let Some(server) = server(Options {
        cards: 4,
        ..Options::default()
    }) else {
        return;
    };
    let rows = vec![
        row(0),
        row(1).replace("NVIDIA L4, 23034, [N/A]", "NVIDIA A100-SXM4-80GB, 81920, Enabled"),
        "!Unable to determine the device handle for GPU 0000:1d:00.0: GPU is lost. Reboot the system to recover this GPU".to_owned(),
        row(3).replace("Default", "Prohibited"),
    ];
    server.smi.rows(&rows, 15);
    let report = check(&server);
    assert_eq!(report.reason(), None, "one whole card is usable");
    let reasons: Vec<String> = report
        .check
        .cards
        .iter()
        .map(|card| card.render_reason().unwrap_or_default())
        .collect();
    assert_eq!(reasons.len(), 4, "{reasons:#?}");
    assert!(
        reasons[0].is_empty()
            && reasons[1].contains("MIG")
            && reasons[2].contains("Prohibited")
            && reasons[3].contains("does not list it"),
        "{reasons:#?}"
    );
}

#[test]
fn s2_no_card_no_driver_and_the_wrong_driver_are_told_apart() {
    let Some(server) = server(Options {
        cards: 1,
        ..Options::default()
    }) else {
        return;
    };
    server.smi.fails(
        "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.",
        9,
    );
    server.smi.unplug();
    assert_eq!(reason(&server), "No NVIDIA GPU on this server");
    std::fs::remove_file(server.path("bin/nvidia-smi")).unwrap();
    assert_eq!(reason(&server), "No NVIDIA GPU on this server");
    server.smi.plug(0, None);
    let text = reason(&server);
    assert!(text.contains("driver is missing"), "{text}");
}

#[test]
fn s2_nvidia_smi_is_found_off_the_path_and_an_old_one_is_asked_for_less() {
    let Some(server) = server(Options {
        smi_off_path: true,
        ..Options::default()
    }) else {
        return;
    };
    assert_eq!(reason(&server), "");
    server.smi.lacks("mig.mode.current");
    let report = check(&server);
    assert_eq!((report.reason(), report.check.cards.len()), (None, 2));
}

#[test]
fn s2_a_hung_nvidia_smi_ends_at_its_limit_and_leaves_nothing_behind() {
    let (Some(server), Some(other)) = (server(Options::default()), server(Options::default()))
    else {
        return;
    };
    server.smi.sleeps(4711);
    run(async {
        let mut config = config(&server, "root");
        config.limits.nvidia_smi = Duration::from_secs(2);
        let hung = Target::new(config);
        let well = Target::new(super::config(&other, "root"));
        let started = Instant::now();
        let scope = scope();
        let (hung_report, well_took) = tokio::join!(hung.report(&scope), async {
            well.report(&scope).await.unwrap();
            started.elapsed()
        });
        let text = hung_report.unwrap().reason().unwrap();
        assert!(text.contains("did not answer within 2 s"), "{text}");
        assert!(
            started.elapsed() < Duration::from_secs(12),
            "{:?}",
            started.elapsed()
        );
        eprintln!("the other server took {well_took:?}");
        // Its session is over while our connection is still there.
        server.assert_no_process_left("4711");
        hung.close().await;
        well.close().await;
    });
    server.assert_no_process_left("sshd:");
}

#[test]
fn s2_a_stop_in_the_middle_ends_the_remote_side() {
    let Some(server) = server(Options::default()) else {
        return;
    };
    server.smi.sleeps(4712);
    run(async {
        let (stop, stopped) = tokio::sync::watch::channel(false);
        // Far beyond the test's own patience, so that only the stop can end it.
        let mut config = config(&server, "root");
        config.limits.nvidia_smi = Duration::from_secs(600);
        let target = Target::new(config);
        let check = tokio::spawn({
            let target = target.clone();
            async move {
                target
                    .report(&loomplane::ssh::Scope::new(
                        Duration::from_secs(60),
                        stopped,
                    ))
                    .await
                    .map(drop)
            }
        });
        tokio::time::sleep(Duration::from_millis(1500)).await;
        stop.send(true).unwrap();
        let error = check.await.unwrap().unwrap_err().to_string();
        assert!(error.contains("interrupted"), "{error}");
        target.close().await;
    });
    server.assert_no_process_left("4712");
}

#[test]
fn s2_dockers_own_reasons() {
    // Absent.
    let Some(absent) = Server::start(Options::default()) else {
        return;
    };
    let text = reason(&absent);
    assert!(text.contains("no Docker Engine"), "{text}");
    // Not permitted.
    let Some(server) = server(Options {
        hook: true,
        ..Options::default()
    }) else {
        return;
    };
    let text = check_as(&server, "ops").reason().unwrap();
    assert!(
        text.contains("usermod -aG docker ops") && text.contains("docker_sudo"),
        "{text}"
    );
    // Without the toolkit.
    let Some(bare) = self::server(Options {
        hook: false,
        ..Options::default()
    }) else {
        return;
    };
    let text = reason(&bare);
    assert!(
        text.contains("nvidia-ctk runtime configure --runtime=docker")
            && text.contains("systemctl restart docker"),
        "{text}"
    );
    // arm64.
    let Some(arm) = self::server(Options {
        arch: Some("aarch64"),
        ..Options::default()
    }) else {
        return;
    };
    let text = reason(&arm);
    assert!(text.contains("aarch64") && text.contains("amd64"), "{text}");
    // Installed and not running.
    run(async {
        let mut config = config(&server, "root");
        config.docker_socket = "/run/other.sock".to_owned();
        let text = Target::new(config)
            .report(&scope())
            .await
            .unwrap()
            .reason()
            .unwrap();
        assert!(text.contains("systemctl start docker"), "{text}");
    });
}

#[test]
fn docker_is_reached_another_way_when_forwarding_is_forbidden_and_says_so() {
    let Some(server) = server(Options {
        forwarding: false,
        ..Options::default()
    }) else {
        return;
    };
    let report = check(&server);
    assert_eq!(
        (report.reason(), report.route),
        (None, Some(Route::DialStdio))
    );
    assert!(report.route.unwrap().render().contains("forbids"));
    server.assert_no_process_left("dial-stdio");
}

#[test]
fn docker_sudo_is_used_when_stated_and_a_refusal_is_explained() {
    if !std::path::Path::new("/usr/bin/sudo").exists() {
        crate::parts::cannot_start(
            "sudo",
            "/usr/bin/sudo is missing (apt-get install --no-install-recommends sudo)",
        );
        return;
    }
    let with = |sudoers: &'static str| {
        server(Options {
            sudoers: Some(sudoers),
            ..Options::default()
        })
    };
    let (Some(allowed), Some(refused)) = (
        with("ops ALL=(root) NOPASSWD: /usr/bin/docker, /usr/local/bin/docker"),
        with(""),
    ) else {
        return;
    };
    run(async {
        let mut config = config(&allowed, "ops");
        config.docker_sudo = true;
        let report = Target::new(config).report(&scope()).await.unwrap();
        assert_eq!(
            (report.reason(), report.route),
            (None, Some(Route::SudoDialStdio))
        );
        let mut config = super::config(&refused, "ops");
        config.docker_sudo = true;
        let text = Target::new(config)
            .report(&scope())
            .await
            .unwrap()
            .reason()
            .unwrap();
        assert!(text.contains("NOPASSWD") && text.contains("ops"), "{text}");
    });
}

#[test]
fn s3a_processes_outside_containers_are_counted() {
    let Some(server) = server(Options {
        cards: 2,
        ..Options::default()
    }) else {
        return;
    };
    server
        .smi
        .processes(&format!("{}, 1\n", crate::servers::uuid(0)));
    let report = check(&server);
    let outside: Vec<u32> = report
        .check
        .cards
        .iter()
        .map(|card| card.outside_processes)
        .collect();
    assert_eq!(outside, [1, 0]);
}

#[test]
fn twenty_servers_take_about_as_long_as_one_and_twenty_connections() {
    let Some(engine) = Engine::shared() else {
        return;
    };
    let servers: Vec<Server> = (0..20)
        .filter_map(|_| {
            Server::start(Options {
                engine: Some(engine.clone()),
                cards: 1,
                ..Options::default()
            })
        })
        .collect();
    if servers.len() < 20 {
        return;
    }
    run(async {
        let targets: Vec<_> = servers
            .iter()
            .map(|server| Target::new(config(server, "root")))
            .collect();
        let started = Instant::now();
        let mut tasks = Vec::new();
        for target in &targets {
            for service in 0..10 {
                let target = target.clone();
                tasks.push(tokio::spawn(async move {
                    let scope = scope();
                    target.report(&scope).await.unwrap();
                    target
                        .read_service(&format!("service-{service}"), &scope)
                        .await
                        .unwrap()
                }));
            }
        }
        for task in tasks {
            assert!(task.await.unwrap().is_none());
        }
        eprintln!(
            "20 servers with 10 services each took {:?}",
            started.elapsed()
        );
    });
    assert_eq!(servers.iter().map(Server::connections).sum::<usize>(), 20);
}
