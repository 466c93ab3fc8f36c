//! What users type: through to the container as it is, or refused; what does not apply to a server; published ports.

use super::{AT_ONCE, Rack, gpus, provider};
use crate::terraform::{FAILED, HAS_CHANGES, OK};

#[test]
fn s4_values_with_shell_and_other_characters_go_through_intact() {
    let Some(rack) = Rack::shared(1) else { return };
    let Some(work) = rack.work() else { return };
    let nasty = "a'b\"c $(touch /tmp/loomplane-ran) `touch /tmp/loomplane-ran` ; | & \\ $HOME\nzweite Zeile: größe 日本 🚀\t";
    let literal = serde_json::to_string(nasty).unwrap(); // HCL reads JSON's escapes
    work.file(
        "main.tf",
        &rack.service(
            "odd",
            &format!("command = [\"/bin/sleep\", \"1000\", {literal}]\n  env = {{ ODD = {literal} }}\n  labels = {{ odd = {literal} }}\n  volumes = {{ \"we.ird-1\" = {{ mount_path = \"/with blank's\" }} }}\n  {AT_ONCE}")
                .replace("/bin/sleep\", \"1000\"", "/bin/sh\", \"-c\", \"exec sleep 1000\""),
        ),
    );
    work.apply().expect(OK);
    work.expect_no_changes();
    let env: Vec<String> =
        serde_json::from_str(&rack.inspect("odd", "{{json .Config.Env}}")).unwrap();
    assert!(env.contains(&format!("ODD={nasty}")), "{env:?}");
    let labels: serde_json::Value =
        serde_json::from_str(&rack.inspect("odd", "{{json .Config.Labels}}")).unwrap();
    assert_eq!(labels["odd"], nasty);
    assert_eq!(
        work.state_of("loomplane_gpu_service.odd").unwrap()["env"]["ODD"],
        nasty
    );
    assert!(!std::path::Path::new("/tmp/loomplane-ran").exists());
    work.destroy().expect(OK);
    // Names that can't be: refused at plan.
    for (from, to, why) in [
        (
            format!("name   = \"{}\"", rack.name("odd")),
            "name   = \"$(touch /tmp/loomplane-ran)\"".to_owned(),
            "name",
        ),
        (
            "image  = \"".to_owned(),
            "image  = \"$(touch /tmp/loomplane-ran) ".to_owned(),
            "image",
        ),
        (
            "env = {".to_owned(),
            "env = { \"A=B\" = \"1\", ".to_owned(),
            "env",
        ),
        (
            "env = {".to_owned(),
            "env = { NVIDIA_VISIBLE_DEVICES = \"all\", ".to_owned(),
            "NVIDIA_VISIBLE_DEVICES",
        ),
        (
            "labels = {".to_owned(),
            "labels = { \"io.loomplane.service\" = \"x\", ".to_owned(),
            "Loomplane's own",
        ),
        ("we.ird-1".to_owned(), "a/../../b".to_owned(), "volumes"),
    ] {
        let config = rack.service("odd", &format!("env = {{ A = \"1\" }}\n  labels = {{ a = \"1\" }}\n  volumes = {{ \"we.ird-1\" = {{ mount_path = \"/v\" }} }}\n  {AT_ONCE}"));
        assert!(config.contains(&from), "{from}");
        work.file("main.tf", &config.replacen(&from, &to, 1));
        work.plan().expect(FAILED).says(why);
    }
    // A server's own words, too, are only words.
    work.file(
        "provider.tf",
        &provider(
            &rack
                .connection("rack1")
                .replace("\"127.0.0.1\"", "\"$(touch /tmp/loomplane-ran)\""),
        ),
    );
    work.file("main.tf", &rack.service("odd", &gpus(1)));
    work.plan().expect(FAILED).says("can't be reached");
    assert!(!std::path::Path::new("/tmp/loomplane-ran").exists());
    assert!(rack.names().is_empty());
}

#[test]
fn g5_what_does_not_apply_to_a_server_is_refused_on_its_attribute() {
    let Some(rack) = Rack::shared(1) else { return };
    let Some(work) = rack.work() else { return };
    let all = [
        "namespace = \"x\"",
        "replicas = 2",
        "env_from = [{ name = \"A\", secret = \"s\", key = \"k\" }]",
        "annotations = { a = \"b\" }",
        "image_pull_secret = \"s\"",
        "runtime_class = \"r\"",
        "service_account = \"s\"",
        "node_selector = { a = \"b\" }",
        "tolerations = [{ key = \"a\" }]",
        "service_type = \"ClusterIP\"",
        "priority_class = \"p\"",
        "rollout = { max_surge = \"1\", max_unavailable = \"0\" }",
        "force_conflicts = true",
    ];
    work.file("main.tf", &rack.service("app", &all.join("\n  ")));
    let mut run = work.plan().expect(FAILED);
    for line in all {
        let name = line.split(' ').next().unwrap();
        run = run.says(&format!("{name} does not apply to a server"));
    }
    for (body, why) in [
        (
            "size = { gpu = { kind = \"nvidia-h100-80gb\", count = 1 } }",
            "nvidia-h100-80gb",
        ),
        (
            "size = { gpu = { kind = \"nvidia-l4\", count = 2 } }",
            "2 x nvidia-l4",
        ),
        (
            "ports = [{ name = \"a\", port = 1, protocol = \"SCTP\", host_port = 1 }]",
            "SCTP",
        ),
        (
            "volumes = { a = { mount_path = \"/a\", size_gib = 1, access_mode = \"ReadWriteMany\" } }",
            "access_mode",
        ),
        (
            "max_hourly_usd = 1\n  size = { gpu = { kind = \"nvidia-l4\", count = 1 } }",
            "Above the price limit",
        ),
        ("size = { memory = 2 }", "6 MiB"),
    ] {
        work.file("main.tf", &rack.service("app", body));
        work.plan().expect(FAILED).says(why);
    }
}

#[test]
fn a_port_on_a_public_address_warns() {
    let Some(rack) = Rack::shared(1) else { return };
    let Some(work) = rack.work() else { return };
    let config = |ip: &str| {
        rack.service(
            "app",
            &format!(
                "ports = [{{ name = \"web\", port = 80, host_port = 18282{ip} }}]\n  {AT_ONCE}"
            ),
        )
    };
    work.file("main.tf", &config(""));
    work.plan()
        .expect(HAS_CHANGES)
        .says("Port 18282 of rack1 will answer on all its addresses");
    work.apply_plan().expect(OK);
    work.expect_no_changes();
    assert_eq!(
        work.state_of("loomplane_gpu_service.app").unwrap()["endpoint"],
        "127.0.0.1:18282"
    );
    work.file("main.tf", &config(", host_ip = \"127.0.0.1\""));
    work.plan()
        .expect(HAS_CHANGES)
        .says_not("will answer on all");
    work.destroy().expect(OK);
}
