//! Secrets are in no state, plan or log; registry logins serve (and stay secret too).

use super::{AT_ONCE, Rack, connection, gpus, provider_with};
use crate::servers::IMAGE;
use crate::terraform::{FAILED, OK};

#[test]
fn secrets_are_in_no_state_plan_or_log() {
    let Some(rack) = Rack::shared(1) else { return };
    let Some(mut work) = rack.work() else { return };
    let Some(registry) = rack.engine.registry(Some(("robot", "reg-pass-4711"))) else {
        return;
    };
    let log = work.path().join("trace.log");
    work.env("TF_LOG", "TRACE")
        .env("TF_LOG_PATH", log.as_os_str());
    let key = rack.server.key.text();
    let by_text = connection("rack1", &rack.server, "").replace(
        &format!("private_key_path = \"{}\"", rack.server.key.path.display()),
        "private_key = var.key",
    );
    let login = |password: &str| {
        format!(
            "  registries = {{ \"{}\" = {{ username = \"robot\", password = {password} }} }}",
            registry.host
        )
    };
    work.file(
        "main.tf",
        &(rack.service_with("app", &format!("{}/team/app:1", registry.host), &format!("secret_env = {{ TOKEN = var.token }}\n  secret_env_version = 1\n  {}", gpus(1)))
            + "variable \"key\" {\n  sensitive = true\n}\nvariable \"token\" {\n  sensitive = true\n  ephemeral = true\n}\nvariable \"pass\" {\n  sensitive = true\n}\n"),
    );
    work.env("TF_VAR_key", &key)
        .env("TF_VAR_token", "tok-secret-4712")
        .env("TF_VAR_pass", "reg-pass-4711");
    // A wrong password first: refused, without repeating it.
    work.file(
        "provider.tf",
        &provider_with(&by_text, &login("\"wrong-pass-4713\"")),
    );
    let run = work.apply().expect(FAILED).says("could not pull image");
    assert!(!run.text().contains("wrong-pass-4713"));
    work.file("provider.tf", &provider_with(&by_text, &login("var.pass")));
    work.plan().expect(2);
    let plan = std::fs::read(work.path().join("plan.bin")).unwrap();
    work.apply_with(&[]).expect(OK);
    work.expect_no_changes();
    assert!(
        rack.inspect("app", "{{json .Config.Env}}")
            .contains("TOKEN=tok-secret-4712")
    );
    // A container that fails prints its environment: the error shows the log without the secret.
    work.file(
        "main.tf",
        &(rack.service("app", &format!("secret_env = {{ TOKEN = var.token }}\n  secret_env_version = 2\n  command = [\"/bin/sh\", \"-c\", \"env; exit 3\"]\n  {AT_ONCE}"))
            + "variable \"key\" {\n  sensitive = true\n}\nvariable \"token\" {\n  sensitive = true\n  ephemeral = true\n}\nvariable \"pass\" {\n  sensitive = true\n}\n"),
    );
    let run = work.apply().expect(FAILED).says("FROM_IMAGE=yes");
    let trace = std::fs::read_to_string(&log).unwrap();
    assert!(trace.contains("loomplane"), "the log is there");
    let pem = key.lines().nth(2).unwrap();
    let plan = String::from_utf8_lossy(&plan).into_owned();
    for (what, secret) in [
        ("token", "tok-secret-4712"),
        ("registry password", "reg-pass-4711"),
        ("private key", pem),
    ] {
        for (place, text) in [
            ("state", work.state_text()),
            ("log", trace.clone()),
            ("plan", plan.clone()),
            ("output", run.text()),
        ] {
            assert!(!text.contains(secret), "{what} in the {place}");
        }
    }
    assert!(
        rack.engine
            .inspect(&rack.name("app"), "{{.State.Running}}")
            .contains("true")
    );
    work.destroy().expect(OK);
}

#[test]
fn an_image_that_is_there_is_not_pulled_again() {
    let Some(rack) = Rack::shared(1) else { return };
    let Some(work) = rack.work() else { return };
    // Nobody listens where it would come from.
    let image = "127.0.0.1:9/team/present:1";
    rack.engine.docker(&["tag", IMAGE, image]);
    work.file("main.tf", &rack.service_with("app", image, AT_ONCE));
    work.apply().expect(OK);
    work.expect_no_changes();
    work.destroy().expect(OK);
}
