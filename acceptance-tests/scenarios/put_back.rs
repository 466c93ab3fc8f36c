//! What else than Terraform did to a service, and values that say nothing: shown truly, put back where asked, and never a difference
//! for ever.

use serde_json::json;

use super::{Bench, IT, bench, gpu, l4, service};
use crate::cluster::{Cluster, Parts};
use crate::terraform::{Cli, FAILED, HAS_CHANGES, OK};

#[test]
fn values_that_say_nothing_make_no_difference() {
    let Some(bench) = bench("nothing") else {
        return;
    };
    for arguments in [
        "command = []\n  args = []",
        "working_dir = \"\"\n  image_pull_secret = \"\"\n  priority_class = \"\"\n  service_account = \"\"\n  runtime_class = \"\"",
        "service_type = \"NodePort\"",
        "service_type = \"NodePort\"\n  ports = []",
        "host_mounts = []\n  ulimits = {}",
        "env = {}\n  env_from = []\n  volumes = {}\n  tolerations = []\n  node_selector = {}\n  labels = {}\n  annotations = {}",
    ] {
        bench
            .main(&service(&format!("wait = false\n  {arguments}")))
            .applied();
    }
    // And what was set goes, where it is emptied.
    let with = |text: &str| service(&format!("wait = false\n  args = {text}"));
    bench.main(&with("[\"a\"]")).applied();
    assert_eq!(bench.pod_spec("it")["containers"][0]["args"], json!(["a"]));
    bench.main(&with("[]")).applied();
    assert_eq!(bench.pod_spec("it")["containers"][0].get("args"), None);
}

#[test]
fn a_port_that_was_renumbered_is_shown_and_put_back_where_that_is_asked() {
    let Some(bench) = bench("renumber") else {
        return;
    };
    let text = service("wait = false\n  ports = [{ name = \"http\", port = 80 }]");
    bench.main(&text).applied();
    let path = bench.path("services", "it");
    bench.cluster.merge(
        &path,
        &json!({"spec": {"ports": [{"name": "other", "port": 90, "targetPort": 90}, {"name": "http", "port": 81, "targetPort": 80}]}}),
    );
    let change = bench.change();
    assert_eq!(change["before"]["ports"][0]["port"], 81);
    assert_eq!(change["after"]["ports"][0]["port"], 80);
    bench
        .work
        .apply_plan()
        .expect(FAILED)
        .says("has fields that others manage")
        .says(".spec.ports[81/TCP]");
    bench.main(&text.replace("wait = false", "wait = false\n  force_conflicts = true"));
    bench.work.apply().expect(OK);
    bench.work.expect_no_changes();
    let ports = bench.cluster.get(&path)["spec"]["ports"].clone();
    let numbers: Vec<_> = ports
        .as_array()
        .unwrap()
        .iter()
        .map(|it| it["port"].clone())
        .collect();
    assert_eq!(numbers, [json!(90), json!(80)], "the other one is not ours");
    // The endpoint is that of the first port that is configured, not of the first that there is.
    assert!(
        bench.state()["endpoint"]
            .as_str()
            .unwrap()
            .ends_with(".svc:80")
    );
}

#[test]
fn a_probe_that_was_changed_or_removed_is_shown_and_put_back() {
    let Some(bench) = bench("probes") else {
        return;
    };
    bench
        .main(&service(
            "wait = false\n  health_check = { http_path = \"/\", port = 80 }",
        ))
        .applied();
    let set = bench.pod_spec("it")["containers"][0].clone();
    for (probe, port) in [
        ("livenessProbe", Some(99)),
        ("startupProbe", Some(99)),
        ("readinessProbe", Some(99)),
        ("livenessProbe", None),
        ("readinessProbe", None),
        ("startupProbe", None),
    ] {
        let value = port.map_or(
            json!(null),
            |port| json!({"httpGet": {"path": "/", "port": port}}),
        );
        bench.patch(
            "it",
            &json!({"spec": {"template": {"spec": {"containers": [{"name": "it", "image": set["image"], "startupProbe": set["startupProbe"],
                "readinessProbe": set["readinessProbe"], "livenessProbe": set["livenessProbe"], probe: value}]}}}}),
        );
        let change = bench.change();
        assert_ne!(
            change["before"]["health_check"], change["after"]["health_check"],
            "{probe} {port:?}"
        );
        bench.main(&service("wait = false\n  force_conflicts = true\n  health_check = { http_path = \"/\", port = 80 }"));
        bench.work.apply().expect(OK);
        bench.work.expect_no_changes();
        assert_eq!(bench.pod_spec("it")["containers"][0][probe], set[probe]);
    }
}

#[test]
fn g5_no_pod_asks_for_no_node_and_no_money() {
    let Some(cluster) = Cluster::own(Parts::All, &[l4(1)]) else {
        return;
    };
    let Some(bench) = Bench::on(&cluster, Cli::any(), "zero") else {
        return;
    };
    let text = |replicas: u32| {
        service(&format!(
            "{}\n  wait = false\n  max_hourly_usd = 5\n  replicas = {replicas}",
            gpu("nvidia-l4", 1)
        ))
    };
    bench.main(&text(2)).applied();
    assert_eq!(bench.state()["hourly_usd"], 1.6096);
    bench.main(&text(0)).applied();
    assert_eq!(bench.state()["hourly_usd"], json!(null));
    assert_eq!(bench.state()["price"], "no GPU share");
    bench.main(&text(1)).applied();
    // The nodes go: a service can still be turned off, and one that is off can be made.
    cluster.delete("/api/v1/nodes/l4-0");
    bench.main(&text(0));
    bench.work.plan().expect(HAS_CHANGES);
    bench.work.apply_plan().expect(OK);
    bench.work.expect_no_changes();
    bench.work.destroy().expect(OK);
    bench
        .work
        .plan()
        .expect(HAS_CHANGES)
        .says("Warning: prod can't meet this GPU request");
    bench.work.apply_plan().expect(OK);
    bench.main(&text(1));
    bench.work.plan().expect(FAILED).says("No GPU nodes");
}

#[test]
fn p5_the_price_is_that_of_the_replicas_that_an_autoscaler_made() {
    let Some(bench) = bench("scaled") else {
        return;
    };
    bench.main(&service(&gpu("nvidia-l4", 1))).applied();
    assert_eq!(bench.state()["hourly_usd"], 0.8048);
    bench.patch("it", &json!({"spec": {"replicas": 2}}));
    bench.work.apply().expect(OK);
    assert_eq!(bench.state()["hourly_usd"], 1.6096);
    bench.work.expect_no_changes();
}

#[test]
fn a_namespace_that_is_missing_is_named_on_its_attribute_and_no_id_has_a_blank() {
    let Some(bench) = bench("nonamespace") else {
        return;
    };
    bench.main(&service("wait = false\n  namespace = \"not-there\""));
    bench
        .work
        .apply()
        .expect(FAILED)
        .says("There is no namespace not-there")
        .says("namespace = \"not-there\"")
        .says("kubectl create namespace not-there");
    assert!(bench.work.state_of(IT).is_none());
    for id in [
        "prod/default/it ",
        "prod/kube system/it",
        "prod/default/",
        "it",
    ] {
        bench
            .work
            .import(IT, id)
            .expect(FAILED)
            .says("Invalid import ID");
    }
}

#[test]
fn a_volume_that_is_taken_out_says_that_its_claim_stays() {
    let Some(bench) = bench("claimstays") else {
        return;
    };
    bench.connections(&[("prod", "storage_class = \"retain\"")], "");
    super::volumes::provision(&bench, "it-scratch");
    bench
        .main(&service("wait = false\n  volumes = { scratch = { mount_path = \"/scratch\", size_gib = 2, delete_on_destroy = true } }"))
        .applied();
    bench.main(&service("wait = false"));
    bench
        .work
        .plan()
        .expect(HAS_CHANGES)
        .says("The claim of volume scratch stays")
        .says("kubectl delete pvc it-scratch");
}
