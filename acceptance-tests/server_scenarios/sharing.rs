//! Cards are shared by nobody: not by many runs at once, not by killed ones, not with containers started by hand (S3, S3a).

use std::time::{Duration, Instant};

use super::{Rack, connection, gpus, heavy, provider};
use crate::servers::{Engine, IMAGE, Options, Server};
use crate::terraform::{FAILED, HAS_CHANGES, OK, Workspace};

const LIMIT: Duration = Duration::from_secs(300);

/// 40 single-GPU services in so many states.
fn states(rack: &Rack, count: usize, round: usize) -> Vec<Workspace> {
    (0..count)
        .map(|state| {
            let work = rack.work().unwrap();
            let config: String = (0..40 / count)
                .map(|service| rack.service(&format!("s{round}x{state}x{service}"), &gpus(1)))
                .collect();
            work.file("main.tf", &config);
            work
        })
        .collect()
}

fn parallel() -> usize {
    if heavy() { 20 } else { 8 }
}

#[test]
fn s3_forty_services_of_parallel_applies_share_eight_cards() {
    let Some(rack) = Rack::shared(8) else { return };
    if rack.work().is_none() {
        return;
    }
    for round in 0..if heavy() { 3 } else { 1 } {
        let works = states(&rack, parallel(), round);
        let running: Vec<_> = works
            .iter()
            .map(|work| work.start(&["apply", "-auto-approve"]))
            .collect();
        let runs: Vec<_> = running
            .into_iter()
            .map(|running| running.wait(LIMIT))
            .collect();
        let refused: usize = runs
            .iter()
            .map(|run| run.text().matches("Error:").count())
            .sum();
        for run in &runs {
            assert!(matches!(run.code, Some(OK | FAILED)), "{run:?}");
        }
        assert_eq!(
            (rack.assert_no_card_twice(), rack.names().len()),
            (8, 8),
            "{:?}\n{}",
            rack.names(),
            runs[0].text()
        );
        assert_eq!(
            refused,
            32,
            "each of the others is refused: {}",
            runs[0].text()
        );
        let text: String = runs.iter().map(|run| run.text()).collect();
        assert_eq!(
            text.matches("(device_wait_seconds)").count(),
            32,
            "{}",
            runs[0].text()
        );
        let known: usize = works
            .iter()
            .map(|work| work.state_text().matches("\"target_uid\"").count())
            .sum();
        assert_eq!(known, 8, "each state knows its own");
        rack.server.assert_no_process_left("loomplane");
        let ends: Vec<_> = works
            .iter()
            .map(|work| work.start(&["destroy", "-auto-approve"]))
            .collect();
        for end in ends {
            end.wait(LIMIT).expect(OK);
        }
        assert!(rack.names().is_empty());
    }
}

#[test]
fn s3_applies_killed_at_random_share_no_card_and_leave_no_lock() {
    let Some(rack) = Rack::shared(8) else { return };
    if rack.work().is_none() {
        return;
    }
    let works = states(&rack, parallel(), 0);
    // Not random, so that a failure can be had again: spread over what an apply takes.
    for round in 0..if heavy() { 5 } else { 1 } {
        let mut running: Vec<_> = works
            .iter()
            .map(|work| Some(work.start(&["apply", "-auto-approve", "-lock=false"])))
            .collect();
        let started = Instant::now();
        for (index, one) in running
            .iter_mut()
            .enumerate()
            .filter(|(index, _)| (index + round) % 2 == 0)
        {
            let when = Duration::from_millis(2000 + 1100 * index as u64);
            std::thread::sleep(when.saturating_sub(started.elapsed()));
            drop(one.take());
            rack.assert_no_card_twice();
        }
        for one in running.into_iter().flatten() {
            one.wait(LIMIT);
        }
        assert!(rack.assert_no_card_twice() <= 8);
    }
    // A killed apply's lock ends with its connection: the next apply of each needs no help. What was finished and is in no state is named with
    // the import command; what was not is taken over.
    let running: Vec<_> = works
        .iter()
        .map(|work| work.start(&["apply", "-auto-approve", "-lock=false"]))
        .collect();
    for one in running {
        let text = one.wait(LIMIT).text();
        for error in text.split("Error:").skip(1) {
            assert!(
                error.contains("held by") || error.contains("terraform import ADDRESS rack1/"),
                "{error}"
            );
        }
    }
    assert_eq!(rack.assert_no_card_twice(), 8);
    assert!(
        rack.names().iter().all(|name| !name.contains("loomplane")),
        "{:?}",
        rack.names()
    );
    rack.server.assert_no_process_left("loomplane");
    let mut arguments = vec!["rm".to_owned(), "-f".to_owned()];
    arguments.extend(rack.names());
    rack.engine
        .docker(&arguments.iter().map(String::as_str).collect::<Vec<_>>());
}

#[test]
fn s3a_containers_started_by_hand_hold_their_cards() {
    let Some(rack) = Rack::alone(2) else { return };
    let Some(work) = rack.work() else { return };
    work.file("main.tf", &rack.service("app", &gpus(1)));
    let run = |name: &str, gpus: &str| {
        rack.engine
            .docker(&["run", "-d", "--name", name, "--gpus", gpus, IMAGE])
    };
    run("hand-all", "all");
    // Not ours: whether it will leave is nobody's to guess, so the plan is refused.
    work.plan().expect(FAILED).says("hand-all");
    rack.engine.docker(&["rm", "-f", "hand-all"]);
    run("hand-index", "\"device=0\"");
    work.file("main.tf", &rack.service("app", &gpus(2)));
    work.plan().expect(FAILED).says("hand-index");
    work.file("main.tf", &rack.service("app", &gpus(1)));
    work.apply().expect(OK);
    assert_eq!(rack.devices("app"), [rack.uuid(1)]);
    work.expect_no_changes();
    // Stopped, without restart policy, it holds nothing.
    rack.engine.docker(&["stop", "-t", "0", "hand-index"]);
    work.file("main.tf", &rack.service("app", &gpus(2)));
    work.apply().expect(OK);
    assert_eq!(rack.devices("app").len(), 2);
    work.destroy().expect(OK);
}

#[test]
fn s1_twenty_servers_are_planned_over_twenty_connections() {
    let Some(engine) = Engine::shared() else {
        return;
    };
    let racks: Vec<Rack> = (0..20)
        .filter_map(|_| Rack::on(engine.clone(), 2))
        .collect();
    if racks.len() < 20 {
        return;
    }
    let Some(work) = racks[0].work() else { return };
    let per_server = if heavy() { 10 } else { 2 };
    let config = |count: usize| -> String {
        let services = racks.iter().enumerate().flat_map(|(index, rack)| {
            (0..count).map(move |service| {
                let gpu = if service == 0 {
                    gpus(1)
                } else {
                    super::AT_ONCE.to_owned()
                };
                rack.service(&format!("s{index}x{service}"), &gpu)
                    .replace("\"rack1\"", &format!("\"rack{index}\""))
            })
        });
        services.collect()
    };
    let servers: String = racks
        .iter()
        .enumerate()
        .map(|(index, rack)| rack.connection(&format!("rack{index}")))
        .collect();
    work.file("provider.tf", &provider(&servers));
    let connections = || {
        racks
            .iter()
            .map(|rack| rack.server.connections())
            .sum::<usize>()
    };
    // 200 new services.
    work.file("main.tf", &config(10));
    work.plan().expect(HAS_CHANGES).says("200 to add");
    assert_eq!(connections(), 20);
    // And a plan that refreshes what is there.
    work.file("main.tf", &config(per_server));
    work.apply().expect(OK);
    let before = connections();
    let plan = work.plan().expect(OK);
    assert_eq!(connections() - before, 20);
    eprintln!(
        "a plan of {} services on 20 servers took {:?}",
        20 * per_server,
        plan.took
    );
    // One slow server: the plan takes about as long as that one, and one that can't be reached is an error, never "gone".
    racks[7].server.smi.sleeps(5);
    let slow = work.plan().expect(OK);
    assert!(
        slow.took < plan.took + Duration::from_secs(10),
        "{:?} after {:?}",
        slow.took,
        plan.took
    );
    racks[7].server.smi.sleeps(0);
    work.destroy().expect(OK);
}

#[test]
fn g9_two_names_for_one_machine_are_refused() {
    let Some(rack) = Rack::shared(1) else { return };
    let Some(work) = rack.work() else { return };
    work.file(
        "provider.tf",
        &provider(&(rack.connection("rack1") + &rack.connection("rack2"))),
    );
    work.file(
        "main.tf",
        &(rack.service("a", &gpus(1))
            + &rack
                .service("b", &gpus(1))
                .replace("\"rack1\"", "\"rack2\"")),
    );
    work.plan()
        .expect(FAILED)
        .says("One machine under two names");
    // One of the two alone is no matter.
    let other = Server::start(Options {
        engine: Some(rack.engine.clone()),
        ..Options::default()
    })
    .unwrap();
    work.file(
        "provider.tf",
        &provider(&(rack.connection("rack1") + &connection("rack2", &other, ""))),
    );
    work.plan().expect(HAS_CHANGES);
}
