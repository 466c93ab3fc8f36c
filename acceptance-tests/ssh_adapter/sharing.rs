//! S3, S3a, S3b, G10: no card is ever shared, whoever started what, and a killed run leaves nothing that the next one can't put right.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use loomplane::ssh::{Server as Target, SshError};

use super::{config, deployment, run, scope, server_with};
use crate::servers::{Server, uuid};

#[test]
fn s3_containers_started_by_hand_hold_their_cards() {
    let Some((server, target)) = server_with(3) else {
        return;
    };
    let engine = server.engine.clone().unwrap();
    let by_hand = |name: &str, gpus: &str, rest: &[&str]| {
        let mut arguments = vec!["run", "-d", "--name", name, "--gpus", gpus];
        arguments.extend(rest);
        arguments.push(crate::servers::IMAGE);
        engine.docker(&arguments);
    };
    run(async {
        by_hand("trainer", "\"device=1\"", &[]);
        let one = target
            .create_service(&deployment("one", 1), &scope())
            .await
            .unwrap()
            .observed;
        assert_eq!(one.devices[0].0, uuid(0));
        let two = target
            .create_service(&deployment("two", 1), &scope())
            .await
            .unwrap()
            .observed;
        assert_eq!(two.devices[0].0, uuid(2), "card 1 is the trainer's");
        let failure = target
            .create_service(&deployment("three", 1), &scope())
            .await
            .unwrap_err();
        let text = failure.error.to_string();
        assert!(
            text.contains("trainer")
                && text.contains("service one")
                && text.contains("service two"),
            "{text}"
        );
        // Stopped, without restart policy: it lets go. With one, or all of them: it holds.
        engine.docker(&["stop", "-t", "0", "trainer"]);
        let three = target
            .create_service(&deployment("three", 1), &scope())
            .await
            .unwrap()
            .observed;
        assert_eq!(three.devices[0].0, uuid(1));
        for (name, container) in [("one", &one), ("two", &two), ("three", &three)] {
            target
                .delete_service(name, Some(&container.id), &[], &scope())
                .await
                .unwrap();
        }
        engine.docker(&["rm", "-f", "trainer"]);
        by_hand("all", "all", &["--restart", "always"]);
        engine.docker(&["stop", "-t", "0", "all"]);
        let failure = target
            .create_service(&deployment("four", 1), &scope())
            .await
            .unwrap_err();
        assert!(
            failure.error.to_string().contains("container all"),
            "{}",
            failure.error
        );
        target.close().await;
    });
}

#[test]
fn s3a_cards_that_processes_use_go_last_with_a_warning() {
    let Some((server, target)) = server_with(2) else {
        return;
    };
    server.smi.processes(&format!("{}, 1\n", uuid(0)));
    run(async {
        let one = target
            .create_service(&deployment("one", 1), &scope())
            .await
            .unwrap();
        assert_eq!(
            (one.observed.devices[0].0.as_str(), one.used_outside.len()),
            (uuid(1).as_str(), 0)
        );
        let two = target
            .create_service(&deployment("two", 1), &scope())
            .await
            .unwrap();
        assert_eq!(
            (two.observed.devices[0].0.as_str(), two.used_outside.len()),
            (uuid(0).as_str(), 1)
        );
        target.close().await;
    });
}

/// Many runs at once, each its own connection, run id and lock, as so many `terraform apply` on so many machines.
fn race(server: &Server, runs: usize, services_each: usize) -> (usize, Vec<String>) {
    run(async {
        let mut tasks = Vec::new();
        for number in 0..runs {
            let target = Target::new(config(server, "root"));
            tasks.push(tokio::spawn(async move {
                let mut outcomes = Vec::new();
                let mut services = Vec::new();
                for service in 0..services_each {
                    let target = target.clone();
                    services.push(tokio::spawn(async move {
                        target
                            .create_service(
                                &deployment(&format!("svc-{number}-{service}"), 1),
                                &scope(),
                            )
                            .await
                    }));
                }
                for service in services {
                    outcomes.push(service.await.unwrap());
                }
                target.close().await;
                outcomes
            }));
        }
        let (mut made, mut refused) = (0, Vec::new());
        for task in tasks {
            for outcome in task.await.unwrap() {
                match outcome {
                    Ok(_) => made += 1,
                    Err(failure) => refused.push(failure.error.to_string()),
                }
            }
        }
        (made, refused)
    })
}

#[test]
fn s3_twenty_runs_with_forty_services_over_eight_cards() {
    let Some((server, _)) = server_with(8) else {
        return;
    };
    let engine = server.engine.clone().unwrap();
    for round in 0..2 {
        let started = Instant::now();
        let (made, refused) = race(&server, 20, 2);
        eprintln!("round {round}: {made} made in {:?}", started.elapsed());
        assert_eq!(
            made,
            8,
            "{:#?}",
            refused
                .iter()
                .filter(|text| !text.contains("held by"))
                .collect::<Vec<_>>()
        );
        assert!(
            refused
                .iter()
                .all(|text| text.contains("held by service svc-")),
            "{refused:#?}"
        );
        let devices = engine.devices();
        assert_eq!(
            (devices.len(), devices.iter().collect::<BTreeSet<_>>().len()),
            (8, 8),
            "no card twice"
        );
        assert_eq!(
            engine.names().len(),
            8,
            "nothing unfinished is left: {:?}",
            engine.names()
        );
        server.assert_no_process_left("loomplane");
        let names = engine.names();
        let mut arguments = vec!["rm", "-f"];
        arguments.extend(names.iter().map(String::as_str));
        engine.docker(&arguments);
    }
}

#[test]
fn s3b_a_full_server_waits_for_what_this_run_deletes() {
    let Some((_server, target)) = server_with(1) else {
        return;
    };
    run(async {
        let old = target
            .create_service(&deployment("old", 1), &scope())
            .await
            .unwrap()
            .observed;
        let mut new = deployment("new", 1);
        new.device_wait = Duration::from_secs(60);
        let scope = scope();
        // In no order, as Terraform does it for a renamed key.
        let (made, deleted) = tokio::join!(target.create_service(&new, &scope), async {
            tokio::time::sleep(Duration::from_secs(2)).await;
            target
                .delete_service("old", Some(&old.id), &[], &scope)
                .await
        });
        deleted.unwrap();
        assert_eq!(made.unwrap().observed.devices, old.devices);
        target.close().await;
    });
}

#[test]
fn g10_what_a_killed_run_left_is_taken_over_and_what_a_live_one_does_is_not() {
    let Some((server, target)) = server_with(2) else {
        return;
    };
    let engine = server.engine.clone().unwrap();
    // A run in a runtime of its own, so that it can be killed with all its tasks, as kill -9 does.
    let doomed = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    let killed = Target::new(config(&server, "root"));
    let mut slow = deployment("chat", 1);
    slow.spec.health = Some(loomplane::ssh::HealthCheck {
        probe: loomplane::ssh::Probe::Command(vec!["/bin/false".to_owned()]),
        interval_seconds: 1,
        timeout_seconds: 1,
        retries: 1000,
        startup_seconds: 1000,
    });
    doomed.spawn({
        let (killed, slow) = (killed.clone(), slow.clone());
        async move {
            let _ = killed.create_service(&slow, &scope()).await;
        }
    });
    let started = Instant::now();
    while engine.names() != ["chat.loomplane-unfinished"] {
        assert!(
            started.elapsed() < Duration::from_secs(30),
            "{:?}",
            engine.names()
        );
        std::thread::sleep(Duration::from_millis(100));
    }
    run(async {
        let busy = target
            .create_service(&deployment("chat", 1), &scope())
            .await
            .unwrap_err();
        assert!(
            matches!(busy.error, SshError::Busy { .. }),
            "{}",
            busy.error
        );
        let busy = target
            .delete_service("chat", None, &[], &scope())
            .await
            .unwrap_err();
        assert!(
            matches!(busy.error, SshError::Busy { .. }),
            "{}",
            busy.error
        );
        assert!(
            target
                .read_service("chat", &scope())
                .await
                .unwrap()
                .is_none(),
            "unfinished is not there yet"
        );
    });
    drop(killed);
    doomed.shutdown_timeout(Duration::from_millis(10));
    server.assert_no_process_left("run-");
    run(async {
        let taken_over = target
            .create_service(&deployment("chat", 1), &scope())
            .await;
        let taken_over = taken_over
            .map_err(|failure| failure.error.to_string())
            .unwrap();
        assert!(
            taken_over
                .warnings
                .iter()
                .any(|warning| warning.contains("unfinished")),
            "{:?}",
            taken_over.warnings
        );
        assert_eq!(engine.names(), ["chat"]);
        target.close().await;
    });
}

#[test]
fn s5_a_run_killed_while_replacing_leaves_a_service_that_the_next_one_puts_right() {
    let Some((server, target)) = server_with(2) else {
        return;
    };
    let engine = server.engine.clone().unwrap();
    run(async {
        let old = target
            .create_service(&deployment("chat", 1), &scope())
            .await
            .unwrap()
            .observed;
        // What a kill between the two names leaves: the old one renamed and stopped, the new one made. Its run is gone.
        engine.docker(&["rename", "chat", "chat.loomplane-previous"]);
        engine.docker(&["stop", "-t", "0", "chat.loomplane-previous"]);
        engine.docker(&[
            "create",
            "--name",
            "chat.loomplane-unfinished",
            "--label",
            "io.loomplane.managed=true",
            "--label",
            "io.loomplane.service=chat",
            "--label",
            "io.loomplane.run=0123456789abcdef-1",
            crate::servers::IMAGE,
        ]);
        let read = target
            .read_service("chat", &scope())
            .await
            .unwrap()
            .expect("never gone");
        assert_eq!(read.id, old.id);
        let mut wanted = deployment("chat", 1);
        wanted.spec.env.insert("NEW".to_owned(), "1".to_owned());
        let updated = target
            .update_service(&read, &wanted, &scope())
            .await
            .unwrap();
        assert_eq!(updated.observed.devices, old.devices);
        assert!(read.is_interrupted() && !updated.observed.is_interrupted());
        assert_eq!(engine.names(), ["chat"]);
        assert!(
            updated
                .warnings
                .iter()
                .any(|warning| warning.contains("name back")),
            "{:?}",
            updated.warnings
        );
        target.close().await;
    });
}

#[test]
fn s3_a_lost_card_is_not_silently_replaced_and_the_next_update_assigns_another() {
    let Some((server, target)) = server_with(2) else {
        return;
    };
    let engine = server.engine.clone().unwrap();
    run(async {
        let wanted = deployment("chat", 1);
        let old = target
            .create_service(&wanted, &scope())
            .await
            .unwrap()
            .observed;
        assert_eq!(old.devices[0].0, uuid(0));
        server
            .smi
            .rows(&[crate::servers::row(1).replacen('1', "0", 1)], 0);
        target.forget_report().await;
        let read = target
            .read_service("chat", &scope())
            .await
            .unwrap()
            .unwrap();
        assert_eq!(
            read.devices, old.devices,
            "the state shows the card that is lost"
        );
        let updated = target
            .update_service(&read, &wanted, &scope())
            .await
            .unwrap()
            .observed;
        assert_eq!(updated.devices[0].0, uuid(1));
        assert_eq!(engine.names(), ["chat"]);
        target.close().await;
    });
}

#[test]
fn s3_runs_killed_at_random_share_no_card_and_leave_no_lock() {
    let Some((server, target)) = server_with(4) else {
        return;
    };
    let engine = server.engine.clone().unwrap();
    // Each run in a runtime of its own: ending that ends it as kill -9 does, at whatever it is.
    let mut runs = Vec::new();
    for number in 0..12_u64 {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let target = Target::new(config(&server, "root"));
        runtime.spawn(async move {
            let mut wanted = deployment(&format!("svc-{number}"), 1);
            wanted.device_wait = Duration::from_secs(60);
            let _ = target.create_service(&wanted, &scope()).await;
        });
        runs.push(runtime);
    }
    for (number, runtime) in runs.into_iter().enumerate() {
        std::thread::sleep(Duration::from_millis(150 + 137 * (number as u64 % 5)));
        let devices = engine.devices();
        assert_eq!(
            devices.len(),
            devices.iter().collect::<BTreeSet<_>>().len(),
            "{devices:?}"
        );
        runtime.shutdown_timeout(Duration::from_millis(1));
    }
    server.assert_no_process_left("loomplane");
    let devices = engine.devices();
    eprintln!("after the kills: {:?}", engine.names());
    assert_eq!(
        devices.len(),
        devices.iter().collect::<BTreeSet<_>>().len(),
        "{devices:?}"
    );
    // Whatever is left, finished or not, the next apply of the same service takes it over or names it.
    run(async {
        let mut kept = 0;
        for number in 0..12 {
            let name = format!("svc-{number}");
            if engine.names().contains(&name) {
                kept += 1;
                continue;
            }
            match target.create_service(&deployment(&name, 1), &scope()).await {
                Ok(_) => kept += 1,
                Err(failure) => assert!(
                    failure.error.to_string().contains("held by"),
                    "{}",
                    failure.error
                ),
            }
        }
        assert_eq!(kept, 4, "{:?}", engine.names());
        target.close().await;
    });
    assert!(
        engine
            .names()
            .iter()
            .all(|name| !name.contains("loomplane")),
        "{:?}",
        engine.names()
    );
}
