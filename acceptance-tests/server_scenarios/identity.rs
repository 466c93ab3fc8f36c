//! Servers renamed, removed, gone; and state of another provider (G9, `moved`).

use super::{Rack, connection, gpus, provider};
use crate::parts;
use crate::servers::{IMAGE, Options, Server};
use crate::terraform::{Cli, FAILED, HAS_CHANGES, OK, Workspace};

#[test]
fn g9_a_renamed_server_keeps_its_services() {
    let Some(rack) = Rack::shared(1) else { return };
    let Some(work) = rack.work() else { return };
    work.file("main.tf", &rack.service("app", &gpus(1)));
    work.apply().expect(OK);
    let id = rack.container("app");
    work.file("provider.tf", &provider(&rack.connection("renamed")));
    work.file(
        "main.tf",
        &rack
            .service("app", &gpus(1))
            .replace("\"rack1\"", "\"renamed\""),
    );
    work.plan()
        .expect(HAS_CHANGES)
        .says("0 to add, 1 to change, 0 to destroy");
    work.apply_plan().expect(OK);
    work.expect_no_changes();
    assert_eq!(rack.container("app"), id, "nothing was touched");
    assert_eq!(
        work.state_of("loomplane_gpu_service.app").unwrap()["target"],
        "renamed"
    );

    // Another machine is another service.
    let other = Server::start(Options {
        engine: Some(rack.engine.clone()),
        cards: 1,
        ..Options::default()
    })
    .unwrap();
    other.smi.rows(&[rack.row(3)], 0);
    work.file(
        "provider.tf",
        &provider(&(rack.connection("renamed") + &connection("other", &other, ""))),
    );
    work.file(
        "main.tf",
        &rack
            .service("app", &gpus(1))
            .replace("\"rack1\"", "\"other\""),
    );
    work.plan()
        .expect(HAS_CHANGES)
        .says("1 to add, 0 to change, 1 to destroy");
    work.file(
        "main.tf",
        &rack
            .service("app", &gpus(1))
            .replace("\"rack1\"", "\"renamed\""),
    );

    // Another machine behind the known name: an error, never "gone".
    work.file("provider.tf", &provider(&connection("renamed", &other, "")));
    work.plan()
        .expect(FAILED)
        .says("renamed is another machine now")
        .says(&rack.server.machine_id());
    // Nor is it changed or deleted where refresh did not look.
    let labeled = rack.service("app", &format!("labels = {{ a = \"b\" }}\n  {}", gpus(1)));
    work.file("main.tf", &labeled.replace("\"rack1\"", "\"renamed\""));
    work.apply_with(&["-refresh=false"])
        .expect(FAILED)
        .says("renamed is another machine now");
    work.run(&["destroy", "-auto-approve", "-refresh=false"])
        .expect(FAILED)
        .says("renamed is another machine now");
    work.file(
        "main.tf",
        &rack
            .service("app", &gpus(1))
            .replace("\"rack1\"", "\"renamed\""),
    );
    work.file("provider.tf", &provider(&rack.connection("renamed")));
    work.expect_no_changes();
    work.destroy().expect(OK);
}

#[test]
fn g9_a_server_that_is_removed_or_gone_strands_no_state() {
    let Some(rack) = Rack::shared(1) else { return };
    let Some(work) = rack.work() else { return };
    work.file(
        "main.tf",
        &(rack.service("app", &gpus(1)) + &rack.service("two", "")),
    );
    work.apply().expect(OK);
    // Gone from the configuration: one warning, no change; changing or deleting is the error.
    work.file("provider.tf", &provider(""));
    work.plan().expect(OK).says("no longer configured");
    work.file(
        "main.tf",
        &(rack.service("app", "labels = { a = \"b\" }") + &rack.service("two", "")),
    );
    work.plan().expect(FAILED).says("There is no target rack1");
    work.file("main.tf", &rack.service("app", &gpus(1)));
    work.plan().expect(FAILED).says("removed` block");
    // What the message says helps.
    work.file(
        "main.tf",
        &(rack.service("app", &gpus(1)) + "removed {\n  from = loomplane_gpu_service.two\n  lifecycle {\n    destroy = false\n  }\n}\n"),
    );
    work.apply().expect(OK);
    assert!(work.state_of("loomplane_gpu_service.two").is_none());
    assert_eq!(
        rack.names(),
        [rack.name("app"), rack.name("two")],
        "it runs on"
    );
    // Can't be reached: an error that names it, and the state stays.
    let gone = rack.connection("rack1").replace(
        &format!("port             = {}", rack.server.port),
        "port             = 1",
    );
    work.file("provider.tf", &provider(&gone));
    work.plan()
        .expect(FAILED)
        .says("127.0.0.1:1 can't be reached");
    assert!(work.state_of("loomplane_gpu_service.app").is_some());
    work.file("provider.tf", &provider(&rack.connection("rack1")));
    work.expect_no_changes();
    work.destroy().expect(OK);
    rack.engine.docker(&["rm", "-f", &rack.name("two")]);
}

#[test]
fn g8_a_connection_that_is_not_known_yet_plans_with_one_warning() {
    let Some(rack) = Rack::shared(1) else { return };
    let Some(work) = rack.work() else { return };
    let late = rack.connection("rack1").replace(
        &format!("= {}\n", rack.server.port),
        "= terraform_data.port.output\n",
    );
    // Arguments, too, may be known only at apply.
    let late_gpus = gpus(1).replace("count = 1", "count = terraform_data.one.output");
    let config = rack.service("app", &late_gpus)
        + &rack.service("two", "env = { PORT = terraform_data.port.output }")
        + "resource \"terraform_data\" \"one\" {\n  input = 1\n}\n"
        + &format!(
            "resource \"terraform_data\" \"port\" {{\n  input = {}\n}}\n",
            rack.server.port
        );
    work.file("provider.tf", &provider(&late));
    work.file("main.tf", &config);
    work.plan()
        .expect(HAS_CHANGES)
        .says("not known yet")
        .says("4 to add");
    work.apply_plan().expect(OK);
    work.expect_no_changes();
    work.destroy().expect(OK);
}

#[test]
fn moved_from_a_docker_container_touches_nothing() {
    let Some(rack) = Rack::shared(1) else { return };
    let binary = parts::provider();
    let folder = tempfile::tempdir().unwrap();
    let docker = folder.path().join("terraform-provider-docker");
    std::os::unix::fs::symlink(&binary, &docker).unwrap();
    let Some(work) = Workspace::with_overrides(
        Cli::any(),
        // The other provider is only asked for its schema, of a type that is in no configuration any more.
        &[
            ("loomplane/loomplane", &binary),
            ("kreuzwerker/docker", &docker),
        ],
    ) else {
        return;
    };
    let name = rack.name("web");
    rack.engine.docker(&[
        "run",
        "-d",
        "--name",
        &name,
        "--restart",
        "unless-stopped",
        "-e",
        "A=1",
        "-v",
        &format!("{name}-vol:/data"),
        "--gpus",
        &format!("\"device={}\"", rack.uuid(0)),
        IMAGE,
    ]);
    let id = rack.container("web");
    work.file(
        "terraform.tfstate",
        &serde_json::json!({
            "version": 4, "terraform_version": "1.11.4", "serial": 1, "lineage": "moved", "outputs": {},
            "resources": [{
                "mode": "managed", "type": "docker_container", "name": "web",
                "provider": "provider[\"registry.terraform.io/kreuzwerker/docker\"]",
                "instances": [{"schema_version": 2, "attributes": {
                    "id": id, "name": name, "image": "sha256:0123", "env": ["A=1"], "restart": "unless-stopped", "gpus": null, "must_run": true,
                    "ports": [], "volumes": [{"container_path": "/data", "volume_name": format!("{name}-vol")}],
                }, "sensitive_attributes": []}],
            }],
        })
        .to_string(),
    );
    work.file("provider.tf", &provider(&rack.connection("rack1")));
    let config = rack.service("web", &format!("env = {{ A = \"1\" }}\n  size = {{ gpu = {{ kind = \"nvidia-l4\", count = 1 }} }}\n  volumes = {{ \"{name}-vol\" = {{ mount_path = \"/data\" }} }}"));
    work.file(
        "main.tf",
        &(config
            + "moved {\n  from = docker_container.web\n  to   = loomplane_gpu_service.web\n}\n"),
    );
    let plan = work.plan();
    assert!(matches!(plan.code, Some(OK | HAS_CHANGES)), "{plan:?}");
    let plan = plan
        .says("has moved to loomplane_gpu_service.web")
        .says_not("to destroy, 1")
        .says_not("must be replaced");
    drop(plan);
    work.apply_plan().expect(OK);
    work.expect_no_changes();
    assert_eq!(rack.container("web"), id);
    let state = work.state_of("loomplane_gpu_service.web").unwrap();
    assert_eq!(
        (&state["target"], &state["devices"]),
        (&"rack1".into(), &serde_json::json!([rack.uuid(0)]))
    );
    work.destroy().expect(OK);
}
