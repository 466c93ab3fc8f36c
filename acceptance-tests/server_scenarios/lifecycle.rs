//! A service's whole life, at its smallest and at its largest; what happens to it behind Terraform's back.

use super::{AT_ONCE, Rack, gpus};
use crate::servers::{IMAGE, OTHER_IMAGE};
use crate::terraform::{Cli, FAILED, HAS_CHANGES, OK, Workspace};

/// Every argument that means something on a server.
fn maximal() -> String {
    r#"
  command     = ["/bin/sh", "-c"]
  args        = ["echo ok > /tmp/index.html; exec httpd -f -p 8080 -h /tmp"]
  working_dir = "/tmp"
  user        = "0:0"
  env         = { GREETING = "hello", EMPTY = "" }
  secret_env  = { TOKEN = "tok-lifecycle-1" }
  secret_env_version = 3
  ports = [
    { name = "http", port = 8080, host_port = 18080, host_ip = "127.0.0.1" },
    { name = "inner", port = 9000, protocol = "UDP" },
  ]
  size = { cpu = 0.5, memory = 64, shm = 16, gpu = { kind = "nvidia-l4", count = 2 } }
  volumes = {
    cache = { mount_path = "/cache" }
    data  = { mount_path = "/data", delete_on_destroy = true }
  }
  health_check = { http_path = "/index.html", port = 8080, startup_seconds = 60, period_seconds = 1, timeout_seconds = 5, failure_threshold = 5 }
  labels       = { "com.example.team" = "ml" }
  host_mounts  = [{ host_path = "/var/tmp", mount_path = "/host", read_only = true }]
  ulimits      = { core = { soft = 0, hard = 0 }, nofile = { soft = 1024, hard = 2048 } }
  restart      = "on-failure"
  network      = "bridge"
  device_wait_seconds = 5
  stop_grace_seconds  = 1
  max_hourly_usd      = 5
  wait                = true
  timeouts            = { create = "5m", update = "5m", delete = "5m" }
"#
    .to_owned()
}

#[test]
fn s3_a_minimal_service_lives_from_plan_to_destroy() {
    for cli in Cli::BOTH {
        lives(cli);
    }
}

fn lives(cli: Cli) {
    let Some(rack) = Rack::shared(2) else { return };
    let Some(work) = Workspace::with_provider(cli) else {
        return;
    };
    work.file("provider.tf", &super::provider(&rack.connection("rack1")));
    // What is smallest: three arguments.
    work.file(
        "main.tf",
        &(rack.service("cpu", "") + &rack.service("gpu", &gpus(1))),
    );
    work.plan().expect(HAS_CHANGES).says("2 to add");
    let planned = work.change("loomplane_gpu_service.gpu");
    assert_eq!(planned["after"]["price"], "price unknown", "{planned:#}");
    assert_eq!(planned["after"]["hourly_usd"], serde_json::Value::Null);
    assert_eq!(
        planned["after_unknown"]["devices"], true,
        "G8: never promised"
    );
    work.apply_plan().expect(OK);
    work.expect_no_changes();
    let state = work.state_of("loomplane_gpu_service.gpu").unwrap();
    assert_eq!(state["devices"], serde_json::json!(rack.devices("gpu")));
    assert_eq!(state["target_uid"], rack.server.machine_id());
    assert_eq!(state["id"], rack.name("gpu"));
    assert!(
        state["status"].as_str().unwrap().contains("running"),
        "{state:#}"
    );
    assert_eq!(
        work.state_of("loomplane_gpu_service.cpu").unwrap()["devices"],
        serde_json::json!([])
    );
    assert_eq!(
        rack.inspect("cpu", "{{.State.Status}} {{.Config.Image}}"),
        format!("running {IMAGE}")
    );
    work.destroy().expect(OK).says("2 destroyed");
    assert!(rack.names().is_empty(), "{:?}", rack.names());
    rack.server.assert_no_process_left("loomplane");
}

#[test]
fn s5_a_maximal_service_is_stable_and_imports_into_an_empty_plan() {
    let Some(rack) = Rack::shared(2) else { return };
    let Some(work) = rack.work() else { return };
    work.file(
        "provider.tf",
        &super::provider(&super::connection("rack1", &rack.server, "hourly_usd = 3")),
    );
    work.file("main.tf", &rack.service("max", &maximal()));
    work.plan().expect(HAS_CHANGES).says("$3");
    work.apply_plan().expect(OK);
    work.expect_no_changes();
    let state = work.state_of("loomplane_gpu_service.max").unwrap();
    assert_eq!(state["hourly_usd"].as_f64(), Some(3.0), "{state:#}");
    assert_eq!(state["monthly_usd"].as_f64(), Some(2190.0), "{state:#}");
    assert_eq!(state["endpoint"], "127.0.0.1:18080", "{state:#}");
    assert!(
        state["status"].as_str().unwrap().contains("running"),
        "{state:#}"
    );
    assert_eq!(rack.devices("max").len(), 2);
    for (format, want) in [
        ("{{.Config.WorkingDir}} {{.Config.User}}", "/tmp 0:0"),
        (
            "{{.HostConfig.NanoCpus}} {{.HostConfig.Memory}} {{.HostConfig.ShmSize}}",
            "500000000 67108864 16777216",
        ),
        ("{{.HostConfig.RestartPolicy.Name}}", "on-failure"),
        ("{{index .Config.Labels \"com.example.team\"}}", "ml"),
    ] {
        assert_eq!(rack.inspect("max", format), want, "{format}");
    }
    assert!(
        rack.inspect("max", "{{json .Config.Env}}")
            .contains("TOKEN=tok-lifecycle-1")
    );

    // Imported elsewhere by the same configuration, nothing is to do.
    let Some(other) = rack.work() else { return };
    other.file(
        "provider.tf",
        &std::fs::read_to_string(work.path().join("provider.tf")).unwrap(),
    );
    other.file("main.tf", &rack.service("max", &maximal()));
    other
        .import(
            "loomplane_gpu_service.max",
            &format!("rack1/{}", rack.name("max")),
        )
        .expect(OK);
    let id = rack.container("max");
    other.apply().expect(OK); // what Docker does not tell: time limits, prices' limit, whether to wait
    assert_eq!(rack.container("max"), id, "an import touches nothing");
    other.expect_no_changes();

    let volume = |name: &str| {
        rack.engine.docker(&[
            "volume",
            "ls",
            "-q",
            "--filter",
            &format!("name={}-{name}", rack.name("max")),
        ])
    };
    assert!(!volume("data").is_empty());
    work.destroy().expect(OK);
    assert!(rack.names().is_empty());
    assert_eq!(
        (volume("data").as_str(), volume("cache").is_empty()),
        ("", false),
        "delete_on_destroy and not"
    );
}

#[test]
fn g10_what_exists_is_refused_with_the_import_command_and_imports() {
    let Some(rack) = Rack::shared(1) else { return };
    let Some(work) = rack.work() else { return };
    let name = rack.name("hand");
    rack.engine.docker(&[
        "run",
        "-d",
        "--name",
        &name,
        "--restart",
        "always",
        "-e",
        "BY=hand",
        "--gpus",
        &format!("\"device={}\"", rack.uuid(0)),
        IMAGE,
    ]);
    let config = rack.service("hand", "env = { BY = \"hand\" }\n  restart = \"always\"\n  size = { gpu = { kind = \"nvidia-l4\", count = 1 } }");
    work.file("main.tf", &rack.service("hand", "env = { BY = \"hand\" }"));
    work.apply()
        .expect(FAILED)
        .says(&format!("terraform import ADDRESS rack1/{name}"));
    assert!(work.state_of("loomplane_gpu_service.hand").is_none());
    let id = rack.container("hand");
    work.file("main.tf", &config);
    work.import("loomplane_gpu_service.hand", &format!("rack1/{name}"))
        .expect(OK);
    work.expect_no_changes();
    assert_eq!(rack.container("hand"), id);
    // The configuration that core writes for it fits it.
    let Some(written) = rack.work() else { return };
    written.file(
        "main.tf",
        &format!("import {{\n  to = loomplane_gpu_service.hand\n  id = \"rack1/{name}\"\n}}\n"),
    );
    written
        .run(&["plan", "-generate-config-out=written.tf"])
        .expect(OK)
        .says("1 to import, 0 to add, 0 to change, 0 to destroy");
    written.apply().expect(OK);
    written.expect_no_changes();
    assert_eq!(rack.container("hand"), id);
    work.destroy().expect(OK);
    work.import(
        "loomplane_gpu_service.hand",
        &format!("rack1/{}", rack.name("none")),
    )
    .expect(FAILED)
    .says("no container named");
}

#[test]
fn s5_what_happens_behind_terraforms_back_shows_and_is_put_right() {
    let Some(rack) = Rack::shared(2) else { return };
    let Some(work) = rack.work() else { return };
    let labels = ["removed", "stopped", "restart", "image", "env"];
    let body = |label: &str| match label {
        "env" => format!("env = {{ A = \"1\" }}\n  {}", gpus(1)),
        _ => AT_ONCE.to_owned(),
    };
    let config: String = labels
        .iter()
        .map(|label| rack.service(label, &body(label)))
        .collect();
    work.file("main.tf", &config);
    work.apply().expect(OK);
    let docker = |arguments: &[&str]| rack.engine.docker(arguments);
    docker(&["rm", "-f", &rack.name("removed")]);
    docker(&["stop", "-t", "0", &rack.name("stopped")]);
    docker(&["update", "--restart", "no", &rack.name("restart")]);
    // Made anew by hand, with our labels: still ours, and not as it was set.
    for (label, image, env) in [("image", OTHER_IMAGE, "A=1"), ("env", IMAGE, "A=2")] {
        let name = rack.name(label);
        let labels: serde_json::Value =
            serde_json::from_str(&rack.inspect(label, "{{json .Config.Labels}}")).unwrap();
        let mut arguments: Vec<String> = [
            "run",
            "-d",
            "--name",
            &name,
            "--restart",
            "unless-stopped",
            "-e",
            env,
        ]
        .map(str::to_owned)
        .to_vec();
        for (key, value) in labels.as_object().unwrap() {
            arguments.push("--label".to_owned());
            arguments.push(format!("{key}={}", value.as_str().unwrap()));
        }
        if label == "env" {
            let other = if rack.devices("env")[0] == rack.uuid(0) {
                rack.uuid(1)
            } else {
                rack.uuid(0)
            };
            arguments.extend(["--gpus".to_owned(), format!("\"device={other}\"")]);
        }
        docker(&["rm", "-f", &name]);
        arguments.push(image.to_owned());
        docker(&arguments.iter().map(String::as_str).collect::<Vec<_>>());
    }
    work.plan()
        .expect(HAS_CHANGES)
        .says("1 to add, ")
        .says("0 to destroy");
    let actions =
        |label: &str| work.change(&format!("loomplane_gpu_service.{label}"))["actions"].clone();
    assert_eq!(actions("removed"), serde_json::json!(["create"]));
    for label in ["stopped", "restart", "image", "env"] {
        assert_eq!(actions(label), serde_json::json!(["update"]), "{label}");
    }
    work.apply_plan().expect(OK);
    work.expect_no_changes();
    for label in labels {
        assert_eq!(
            rack.inspect(
                label,
                "{{.State.Status}} {{.HostConfig.RestartPolicy.Name}} {{.Config.Image}}"
            ),
            format!("running unless-stopped {IMAGE}"),
            "{label}"
        );
    }
    assert!(rack.inspect("env", "{{json .Config.Env}}").contains("A=1"));
    work.destroy().expect(OK);
}
