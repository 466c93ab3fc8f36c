//! What goes wrong in the middle: a create that does not come up, a connection that is cut, Ctrl-C.

use std::time::Duration;

use super::{AT_ONCE, Rack, gpus};
use crate::terraform::{FAILED, HAS_CHANGES, OK};

#[test]
fn g5_a_create_that_fails_leaves_nothing_but_what_the_state_says() {
    let Some(rack) = Rack::shared(1) else { return };
    let Some(work) = rack.work() else { return };
    // Exits at once: removed again, its last words in the message, nothing in the state.
    work.file(
        "main.tf",
        &rack.service(
            "app",
            &format!(
                "command = [\"/bin/sh\", \"-c\", \"echo no weights found >&2; exit 7\"]\n  {}",
                gpus(1)
            ),
        ),
    );
    work.apply()
        .expect(FAILED)
        .says("no weights found")
        .says("7");
    assert!(rack.names().is_empty() && work.state_of("loomplane_gpu_service.app").is_none());
    // Runs and is not healthy in time: it stays, tainted, and the state knows it.
    work.file(
        "main.tf",
        &rack.service("app", &format!("health_check = {{ http_path = \"/\", port = 80, startup_seconds = 1, period_seconds = 1, failure_threshold = 1 }}\n  {}", gpus(1))),
    );
    work.apply().expect(FAILED).says("not healthy");
    assert_eq!(rack.names(), [rack.name("app")]);
    assert!(work.state_text().contains("tainted"));
    // The next apply replaces it, with the one card that there is.
    work.file("main.tf", &rack.service("app", &gpus(1)));
    work.apply()
        .expect(OK)
        .says("1 added, 0 changed, 1 destroyed");
    work.expect_no_changes();
    work.destroy().expect(OK);
}

#[test]
fn g9_a_cut_connection_is_an_error_and_the_next_apply_finishes() {
    let Some(rack) = Rack::shared(1) else { return };
    let Some(work) = rack.work() else { return };
    let slow = "health_check = { http_path = \"/\", port = 80, startup_seconds = 300, period_seconds = 1 }";
    work.file(
        "main.tf",
        &rack.service("app", &format!("{slow}\n  {}", gpus(1))),
    );
    let mut running = work.start(&["apply", "-auto-approve"]);
    running.await_text("Creating...", Duration::from_secs(60));
    let unfinished = format!("{}.loomplane-unfinished", rack.name("app"));
    while !rack.names().contains(&unfinished) {
        std::thread::sleep(Duration::from_millis(100));
    }
    rack.server.cut();
    running.wait(Duration::from_secs(120)).expect(FAILED);
    work.file("main.tf", &rack.service("app", &gpus(1)));
    work.apply().expect(OK);
    work.expect_no_changes();
    assert_eq!(rack.names(), [rack.name("app")]);
    // Ctrl-C while it waits to become healthy: it runs, and the state knows it.
    work.file(
        "main.tf",
        &(rack.service("app", &gpus(1)) + &rack.service("two", &format!("{slow}\n  {AT_ONCE}"))),
    );
    work.plan().expect(HAS_CHANGES);
    let mut running = work.start(&["apply", "plan.bin"]);
    running.await_text("Creating...", Duration::from_secs(60));
    let unfinished = format!("{}.loomplane-unfinished", rack.name("two"));
    while !rack.names().contains(&unfinished) {
        std::thread::sleep(Duration::from_millis(100));
    }
    running.interrupt();
    running
        .wait(Duration::from_secs(120))
        .expect(FAILED)
        .says("interrupt");
    let there = rack.names().contains(&rack.name("two"));
    assert_eq!(
        work.state_of("loomplane_gpu_service.two").is_some(),
        there,
        "the state says what is there: {:?}",
        rack.names()
    );
    assert!(!rack.names().contains(&unfinished));
    work.destroy().expect(OK);
    assert!(rack.names().is_empty());
    rack.server.assert_no_process_left("loomplane");
}
