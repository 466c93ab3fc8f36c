//! Updates: each attribute, and those that fail.

use super::{AT_ONCE, Rack, gpus};
use crate::servers::{IMAGE, OTHER_IMAGE};
use crate::terraform::{FAILED, HAS_CHANGES, OK};

/// One attribute's change: label, before, after, what to inspect and what must be there.
struct Case(
    &'static str,
    &'static str,
    &'static str,
    &'static str,
    &'static str,
);

const CASES: &[Case] = &[
    Case(
        "command",
        "command = [\"/bin/sleep\", \"1000\"]",
        "command = [\"/bin/sleep\", \"2000\"]",
        "{{json .Config.Entrypoint}}{{json .Config.Cmd}}",
        "2000",
    ),
    Case(
        "args",
        "args = [\"/bin/sleep\", \"1000\"]",
        "args = [\"/bin/sleep\", \"3000\"]",
        "{{json .Config.Cmd}}",
        "3000",
    ),
    Case(
        "dir",
        "",
        "working_dir = \"/tmp\"",
        "{{.Config.WorkingDir}}",
        "/tmp",
    ),
    Case(
        "user",
        "user = \"1000\"",
        "user = \"1000:1001\"",
        "{{.Config.User}}",
        "1000:1001",
    ),
    Case(
        "env",
        "env = { A = \"1\", B = \"1\" }",
        "env = { A = \"2\" }",
        "{{json .Config.Env}}",
        "A=2",
    ),
    Case(
        "secret",
        "secret_env = { S = \"s-one\" }\n secret_env_version = 1",
        "secret_env = { S = \"s-two\" }\n secret_env_version = 2",
        "{{json .Config.Env}}",
        "S=s-two",
    ),
    Case(
        "ports",
        "",
        "ports = [{ name = \"web\", port = 80, host_port = 18181, host_ip = \"127.0.0.1\" }]",
        "{{json .HostConfig.PortBindings}}",
        "18181",
    ),
    Case(
        "cpu",
        "size = { cpu = 1 }",
        "size = { cpu = 0.25 }",
        "{{.HostConfig.NanoCpus}}",
        "250000000",
    ),
    Case(
        "memory",
        "size = { memory = 64 }",
        "size = { memory = 128 }",
        "{{.HostConfig.Memory}}",
        "134217728",
    ),
    Case(
        "shm",
        "size = { memory = 64, shm = 8 }",
        "size = { memory = 64, shm = 16 }",
        "{{.HostConfig.ShmSize}}",
        "16777216",
    ),
    Case(
        "gpu",
        "size = { gpu = { kind = \"nvidia-l4\", count = 1 } }",
        "size = { gpu = { kind = \"nvidia-l4\", count = 2 } }",
        "{{json .HostConfig.DeviceRequests}}",
        ",\"GPU-",
    ),
    Case(
        "volumes",
        "volumes = { a = { mount_path = \"/a\" } }",
        "volumes = { a = { mount_path = \"/a\" }, b = { mount_path = \"/b\", delete_on_destroy = true } }",
        "{{json .Mounts}}",
        "/b",
    ),
    Case(
        "health",
        "health_check = { http_path = \"/\", port = 80 }\n wait = false",
        "health_check = { http_path = \"/ready\", port = 81, startup_seconds = 7 }\n wait = false",
        "{{json .Config.Healthcheck}}",
        "/ready",
    ),
    Case(
        "labels",
        "labels = { a = \"1\" }",
        "labels = { a = \"2\", b = \"x y\" }",
        "{{json .Config.Labels}}",
        "\"b\":\"x y\"",
    ),
    Case(
        "mounts",
        "",
        "host_mounts = [{ host_path = \"/var/tmp\", mount_path = \"/host\" }]",
        "{{json .Mounts}}",
        "/host",
    ),
    Case(
        "ulimits",
        "",
        "ulimits = { nofile = { soft = 512, hard = 1024 } }",
        "{{json .HostConfig.Ulimits}}",
        "512",
    ),
    Case(
        "restart",
        "restart = \"no\"",
        "restart = \"always\"",
        "{{.HostConfig.RestartPolicy.Name}}",
        "always",
    ),
    Case(
        "network",
        "",
        "network = \"none\"",
        "{{.HostConfig.NetworkMode}}",
        "none",
    ),
    Case(
        "limit",
        "",
        "max_hourly_usd = 100",
        "{{.State.Status}}",
        "running",
    ),
    Case(
        "timeouts",
        "",
        "timeouts = { update = \"9m\" }",
        "{{.State.Status}}",
        "running",
    ),
];

#[test]
fn s5_each_attribute_is_updated_in_place_and_then_the_plan_is_empty() {
    let Some(rack) = Rack::shared(2) else { return };
    let Some(work) = rack.work() else { return };
    let config = |after: bool| -> String {
        let mut text: String = CASES
            .iter()
            .map(|Case(label, old, new, ..)| {
                rack.service(
                    label,
                    &format!("{}\n  {AT_ONCE}", if after { new } else { old }),
                )
            })
            .collect();
        text += &rack.service_with("image", if after { OTHER_IMAGE } else { IMAGE }, AT_ONCE);
        text + &rack.service(
            "grace",
            &format!("stop_grace_seconds = {}", i32::from(after)),
        ) + &rack.service("wait", &format!("stop_grace_seconds = 0\n wait = {after}"))
            + &rack.service(
                "patience",
                &format!(
                    "stop_grace_seconds = 0\n device_wait_seconds = {}",
                    i32::from(after)
                ),
            )
    };
    work.file("main.tf", &config(false));
    work.apply().expect(OK);
    work.expect_no_changes();
    let (limit, wait) = (rack.container("limit"), rack.container("wait"));
    work.file("main.tf", &config(true));
    work.plan().expect(HAS_CHANGES).says(&format!(
        "0 to add, {} to change, 0 to destroy",
        CASES.len() + 4
    ));
    work.apply_plan().expect(OK);
    work.expect_no_changes();
    for Case(label, _, _, format, want) in CASES {
        let found = rack.inspect(label, format);
        assert!(found.contains(want), "{label}: {found}");
        assert_eq!(rack.inspect(label, "{{.State.Running}}"), "true", "{label}");
    }
    assert!(
        !rack.inspect("env", "{{json .Config.Env}}").contains("B=1"),
        "a removed variable goes"
    );
    assert_eq!(rack.inspect("image", "{{.Config.Image}}"), OTHER_IMAGE);
    // What is Terraform's alone recreates nothing.
    assert_eq!(
        (limit, wait),
        (rack.container("limit"), rack.container("wait"))
    );
    work.destroy().expect(OK);
    assert!(rack.names().is_empty());
}

#[test]
fn s5_a_failed_update_leaves_the_old_container_and_the_state_says_so() {
    let Some(rack) = Rack::shared(1) else { return };
    let Some(work) = rack.work() else { return };
    let body = |more: &str| {
        format!(
            "volumes = {{ data = {{ mount_path = \"/data\" }} }}\n  {}\n  {more}",
            gpus(1)
        )
    };
    work.file("main.tf", &rack.service("app", &body("")));
    work.apply().expect(OK);
    let (id, devices) = (rack.container("app"), rack.devices("app"));
    rack.engine
        .docker(&["exec", &rack.name("app"), "touch", "/data/kept"]);
    for (config, why) in [
        (
            rack.service_with("app", "127.0.0.1:9/none/such:1", &body("")),
            "could not pull image 127.0.0.1:9/none/such:1",
        ),
        (
            rack.service("app", &body("command = [\"/bin/false\"]")),
            "did not come up",
        ),
        (
            rack.service("app", &body("command = [\"/bin/no-such-program\"]")),
            "no such file",
        ),
        (
            rack.service("app", &body("network = \"no-such-network\"")),
            "no such network",
        ),
    ] {
        work.file("main.tf", &config);
        work.apply().expect(FAILED).says(why);
        assert_eq!(rack.names(), [rack.name("app")], "{why}");
        assert_eq!(
            (rack.container("app"), rack.devices("app")),
            (id.clone(), devices.clone()),
            "{why}"
        );
        assert_eq!(rack.inspect("app", "{{.State.Running}}"), "true", "{why}");
        rack.engine
            .docker(&["exec", &rack.name("app"), "test", "-e", "/data/kept"]);
        let state = work.state_of("loomplane_gpu_service.app").unwrap();
        assert_eq!(
            (&state["image"], &state["command"], &state["network"]),
            (
                &IMAGE.into(),
                &serde_json::Value::Null,
                &serde_json::Value::Null
            ),
            "{why}"
        );
        // The change is still to be made.
        work.plan().expect(HAS_CHANGES).says("1 to change");
    }
    // As it was before, nothing is to do.
    work.file("main.tf", &rack.service("app", &body("")));
    work.expect_no_changes();
    // And a good one passes, with the same card and volume.
    work.file("main.tf", &rack.service_with("app", OTHER_IMAGE, &body("")));
    work.apply().expect(OK);
    assert_eq!(rack.devices("app"), devices);
    rack.engine
        .docker(&["exec", &rack.name("app"), "test", "-e", "/data/kept"]);
    work.expect_no_changes();
    work.destroy().expect(OK);
}

#[test]
fn s3_a_lost_card_shows_and_another_one_is_planned() {
    let Some(rack) = Rack::shared(2) else { return };
    let Some(work) = rack.work() else { return };
    work.file("main.tf", &rack.service("app", &gpus(1)));
    work.apply().expect(OK);
    let first = rack.devices("app")[0].clone();
    assert_eq!(first, rack.uuid(0));
    rack.server.smi.rows(&[rack.row(1)], 0);
    work.plan()
        .expect(HAS_CHANGES)
        .says("1 to change")
        .says("is lost")
        .says(&first);
    assert_eq!(rack.devices("app"), [first], "a plan moves nothing");
    work.apply_plan().expect(OK);
    assert_eq!(rack.devices("app"), [rack.uuid(1)]);
    work.expect_no_changes();
    work.destroy().expect(OK);
}
