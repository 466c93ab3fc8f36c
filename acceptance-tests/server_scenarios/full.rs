//! A full server: what Terraform does in no order is planned and applied in one run (S3b), and what a killed run left is put right (G10).

use std::time::{Duration, Instant};

use super::{Rack, gpus};
use crate::servers::IMAGE;
use crate::terraform::{FAILED, HAS_CHANGES, OK};

/// Services of `for_each`, by key: arguments of each.
fn each(rack: &Rack, entries: &[(&str, u32)]) -> String {
    let entries: String = entries
        .iter()
        .map(|(key, gpus)| format!("    \"{}\" = {gpus}\n", rack.name(key)))
        .collect();
    format!(
        r#"
resource "loomplane_gpu_service" "each" {{
  for_each = {{
{entries}  }}
  name               = each.key
  target             = "rack1"
  image              = "{IMAGE}"
  size               = {{ gpu = {{ kind = "nvidia-l4", count = each.value }} }}
  stop_grace_seconds = 0
  device_wait_seconds = 60
}}
"#
    )
}

#[test]
fn s3b_a_renamed_key_a_replace_and_a_swap_pass_in_one_run_each() {
    let Some(rack) = Rack::shared(3) else { return };
    let Some(work) = rack.work() else { return };
    work.file("main.tf", &each(&rack, &[("a", 1), ("b", 2)]));
    work.apply().expect(OK);
    let held = rack.devices("b");
    // A key renamed: the old service holds what the new one asks for.
    work.file("main.tf", &each(&rack, &[("a", 1), ("c", 2)]));
    work.plan()
        .expect(HAS_CHANGES)
        .says("1 to add, 0 to change, 1 to destroy")
        .says(&rack.name("b"));
    work.apply_plan().expect(OK);
    work.expect_no_changes();
    assert_eq!(rack.devices("c"), held, "the cards that came free");
    // Replaced as it is.
    let (old, address) = (
        rack.container("c"),
        format!("loomplane_gpu_service.each[\"{}\"]", rack.name("c")),
    );
    work.plan_with(&[&format!("-replace={address}")])
        .expect(HAS_CHANGES)
        .says("1 to add, 0 to change, 1 to destroy");
    work.apply_plan().expect(OK);
    work.expect_no_changes();
    assert_ne!(rack.container("c"), old);
    // Two trade sizes: each needs what the other holds.
    work.file("main.tf", &each(&rack, &[("a", 2), ("c", 1)]));
    work.plan()
        .expect(HAS_CHANGES)
        .says("0 to add, 2 to change, 0 to destroy");
    work.apply_plan().expect(OK);
    work.expect_no_changes();
    assert_eq!(
        (
            rack.devices("a").len(),
            rack.devices("c").len(),
            rack.assert_no_card_twice()
        ),
        (2, 1, 3)
    );
    // One more does not fit, whoever may leave: refused at plan when those who stay hold the cards.
    work.file("main.tf", &each(&rack, &[("a", 2), ("c", 1), ("d", 4)]));
    work.plan().expect(FAILED).says("4 x nvidia-l4");
    work.file("main.tf", &each(&rack, &[]));
    work.apply().expect(OK);
    assert!(rack.names().is_empty());
}

#[test]
fn s3b_two_services_trade_names_on_a_full_server() {
    let Some(rack) = Rack::shared(2) else { return };
    let Some(work) = rack.work() else { return };
    let config = |x: &str, y: &str| {
        let service = |label: &str, name: &str| {
            rack.service(
                label,
                &gpus(1).replace("device_wait_seconds = 0", "device_wait_seconds = 60"),
            )
            .replace(
                &format!("\"{}\"", rack.name(label)),
                &format!("\"{}\"", rack.name(name)),
            )
        };
        service("x", x) + &service("y", y)
    };
    work.file("main.tf", &config("left", "right"));
    work.apply().expect(OK);
    work.file("main.tf", &config("right", "left"));
    work.plan()
        .expect(HAS_CHANGES)
        .says("2 to add, 0 to change, 2 to destroy");
    work.apply_plan().expect(OK);
    work.expect_no_changes();
    assert_eq!(rack.names(), [rack.name("left"), rack.name("right")]);
    assert_eq!(rack.assert_no_card_twice(), 2);
    work.destroy().expect(OK);
}

#[test]
fn s3b_a_full_server_refuses_at_apply_and_names_the_holders() {
    let Some(rack) = Rack::shared(1) else { return };
    let (Some(first), Some(second)) = (rack.work(), rack.work()) else {
        return;
    };
    first.file("main.tf", &rack.service("one", &gpus(1)));
    first.apply().expect(OK);
    // Another state's service may leave, for all that this run knows: a warning that names it; apply decides.
    second.file("main.tf", &rack.service("two", &gpus(1)));
    second
        .plan()
        .expect(HAS_CHANGES)
        .says(&format!("{} is removed", rack.name("one")));
    second
        .apply_plan()
        .expect(FAILED)
        .says(&rack.name("one"))
        .says("device_wait_seconds");
    assert!(second.state_of("loomplane_gpu_service.two").is_none());
    assert_eq!(rack.names(), [rack.name("one")]);
    // In the same state, unchanged: it stays, so the plan is refused.
    first.file(
        "main.tf",
        &(rack.service("one", &gpus(1))
            + &rack.service("two", &gpus(1)).replace(
                "target = \"rack1\"",
                "target = \"rack1\"\n depends_on = [loomplane_gpu_service.one]",
            )),
    );
    first.plan().expect(FAILED).says(&rack.name("one"));
    first.file("main.tf", &rack.service("one", &gpus(1)));
    first.destroy().expect(OK);
}

#[test]
fn g10_the_next_apply_puts_right_what_a_killed_one_left() {
    let Some(rack) = Rack::shared(1) else { return };
    let Some(work) = rack.work() else { return };
    // Not healthy for long, so that a kill finds it in the middle.
    let slow = "health_check = { http_path = \"/index.html\", port = 8080, startup_seconds = 300, period_seconds = 1 }\n  command = [\"/bin/sleep\", \"100000\"]";
    work.file(
        "main.tf",
        &rack.service("app", &format!("{}\n  {slow}", gpus(1))),
    );
    let unfinished = format!("{}.loomplane-unfinished", rack.name("app"));
    let until_there = |name: &str| {
        let started = Instant::now();
        while !rack.names().iter().any(|found| found == name) {
            assert!(
                started.elapsed() < Duration::from_secs(60),
                "{name} never came: {:?}",
                rack.names()
            );
            std::thread::sleep(Duration::from_millis(100));
        }
    };
    let running = work.start(&["apply", "-auto-approve", "-lock=false"]);
    until_there(&unfinished);
    drop(running); // kill -9 to the whole process group
    assert!(work.state_of("loomplane_gpu_service.app").is_none());
    // The next one takes over: one container, one card, in one run.
    work.file("main.tf", &rack.service("app", &gpus(1)));
    work.apply().expect(OK);
    work.expect_no_changes();
    assert_eq!(rack.names(), [rack.name("app")]);
    let devices = rack.devices("app");
    // The same in the middle of an update: the old one comes back first.
    work.file(
        "main.tf",
        &rack.service("app", &format!("{}\n  {slow}", gpus(1))),
    );
    let running = work.start(&["apply", "-auto-approve", "-lock=false"]);
    until_there(&unfinished);
    until_there(&format!("{}.loomplane-previous", rack.name("app")));
    drop(running);
    work.file(
        "main.tf",
        &rack.service(
            "app",
            &format!("{}\n  labels = {{ again = \"yes\" }}", gpus(1)),
        ),
    );
    work.apply().expect(OK);
    work.expect_no_changes();
    assert_eq!(
        (rack.names(), rack.devices("app")),
        (vec![rack.name("app")], devices)
    );
    work.destroy().expect(OK);
    rack.server.assert_no_process_left("loomplane");
}
