//! What happens between two plans: an interrupted apply, a rollout that can't succeed, changes behind Terraform's back.

use serde_json::json;

use super::{Bench, IT, SOON, actions, bench, bench_by, gpu, service};
use crate::cluster::{Cluster, NodeGroup, Parts};
use crate::terraform::{Cli, FAILED, HAS_CHANGES, OK};

/// An annotation that makes the pods start only after `delay`.
fn slow(delay: &str) -> String {
    format!(
        "annotations = {{ \"loomplane.bench/outcome\" = \"slow-start\", \"loomplane.bench/delay\" = {delay:?} }}"
    )
}

const NEVER: &str = "annotations = { \"loomplane.bench/outcome\" = \"never-ready\" }";

#[test]
fn ctrl_c_in_a_create_leaves_a_state_from_which_the_next_apply_finishes() {
    for cli in Cli::BOTH {
        let Some(bench) = bench_by(cli, "ctrlc") else {
            return;
        };
        bench.main(&service(NEVER));
        let mut apply = bench.work.start(&["apply", "-auto-approve"]);
        apply.await_text("Creating...", SOON);
        bench.await_pod("never-ready");
        apply.interrupt();
        // Terraform itself fails; the resource does not, else the next apply would destroy it with the work on it.
        apply
            .wait(SOON)
            .expect(FAILED)
            .says("Warning: Stopped while waiting for the rollout of it")
            .says("The next apply goes on waiting")
            .says_not("Stopped while trying to");
        let state = bench.state();
        assert_eq!(state["id"], format!("{}/it", bench.namespace.name()));
        assert_eq!(state["status"], "unavailable (0 of 1 ready)");
        let live = bench.deployment("it")["metadata"].clone();
        assert_eq!(
            live["labels"]["loomplane.dev/unfinished"],
            json!(null),
            "the state holds it, so nobody else may finish it"
        );
        assert_eq!(actions(&bench.change()), "update");
        bench.main(&service(""));
        bench.applied();
        assert_eq!(bench.deployment("it")["metadata"]["uid"], live["uid"]);
        assert_eq!(bench.state()["status"], "available (1 of 1 ready)");
        bench.work.destroy().expect(OK);
        assert_eq!(bench.left(), Vec::<String>::new());
    }
}

#[test]
fn ctrl_c_in_an_update_is_gone_on_with_by_the_next_apply() {
    let Some(bench) = bench("ctrlcupdate") else {
        return;
    };
    bench.main(&service("")).applied();
    bench.main(&service(&slow("15s")));
    let mut apply = bench.work.start(&["apply", "-auto-approve"]);
    apply.await_text("Modifying...", SOON);
    bench.await_pod("slow-start");
    apply.interrupt();
    apply
        .wait(SOON)
        .expect(FAILED)
        .says("Warning: Stopped while waiting for the rollout of it");
    // The configuration is applied, the rollout is not: the plan says so, and goes on.
    bench
        .work
        .plan()
        .expect(HAS_CHANGES)
        .says("The last apply of it did not finish")
        .says("0 to add, 1 to change, 0 to destroy");
    bench.work.apply_plan().expect(OK);
    bench.work.expect_no_changes();
    assert_eq!(bench.state()["status"], "available (1 of 1 ready)");
}

#[test]
fn an_interrupted_update_that_ended_well_by_itself_needs_no_apply() {
    let Some(bench) = bench("ctrlcwell") else {
        return;
    };
    bench.main(&service("")).applied();
    bench.main(&service(&slow("4s")));
    let apply = bench.work.start(&["apply", "-auto-approve"]);
    bench.await_pod("slow-start");
    apply.interrupt();
    apply
        .wait(SOON)
        .expect(FAILED)
        .says("Warning: Stopped while waiting for the rollout of it");
    bench
        .cluster
        .await_true(&bench.namespace.deployment("it"), SOON, |found| {
            found["status"]["updatedReplicas"] == 1
                && found["status"]["replicas"] == 1
                && found["status"]["availableReplicas"] == 1
        });
    bench.work.plan().expect(OK);
}

#[test]
fn a_timeout_keeps_the_service_in_the_state_and_says_what_the_pod_waits_for() {
    let Some(bench) = bench("timeout") else {
        return;
    };
    bench.main(&service(&format!(
        "{NEVER}\n  timeouts = {{ create = \"12s\", update = \"12s\" }}"
    )));
    bench
        .work
        .apply()
        .expect(FAILED)
        .says("The rollout failed")
        .says("it was not done within 12 s")
        .says_not("Stopped while");
    assert_eq!(bench.state()["status"], "unavailable (0 of 1 ready)");
    bench.work.destroy().expect(OK);
    assert_eq!(bench.left(), Vec::<String>::new());
}

#[test]
fn an_api_server_that_stays_away_in_the_wait_is_named_when_time_is_up() {
    let nodes = [NodeGroup::new("cpu", 1, 0)];
    let Some(cluster) = Cluster::own(Parts::All, &nodes) else {
        return;
    };
    let Some(bench) = Bench::on(&cluster, Cli::any(), "away") else {
        return;
    };
    let limits = "timeouts = { create = \"12s\" }";
    bench.main(&service(&format!("{}\n  {limits}", slow("30s"))));
    let apply = bench.work.start(&["apply", "-auto-approve"]);
    bench.await_pod("slow-start");
    cluster.kill_api_server();
    apply
        .wait(SOON * 2)
        .expect(FAILED)
        .says("it was not done within 12 s")
        .says("the last try to look again failed: the API server of cluster prod at");
    cluster.revive_api_server();
    bench.main(&service("")).applied();
    assert_eq!(bench.state()["status"], "available (1 of 1 ready)");
}

#[test]
fn a_crash_loop_ends_the_wait_early_and_is_repaired_in_place_later() {
    let Some(bench) = bench("crashes") else {
        return;
    };
    bench.main(&service("")).applied();
    bench.main(&service(
        "annotations = { \"loomplane.bench/outcome\" = \"crash-loop\" }",
    ));
    bench.work.apply().expect(FAILED).says("The rollout failed");
    bench.main(&service("")).applied();
    assert_eq!(bench.state()["status"], "available (1 of 1 ready)");
}

#[test]
fn deleted_behind_terraform_s_back_is_made_again() {
    for cli in Cli::BOTH {
        let Some(bench) = bench_by(cli, "deleted") else {
            return;
        };
        bench.main(&service(&gpu("nvidia-l4", 1))).applied();
        bench.cluster.delete(&bench.namespace.deployment("it"));
        let change = bench.change();
        assert_eq!(actions(&change), "create");
        bench.work.apply_plan().expect(OK);
        bench.work.expect_no_changes();
        // Destroy of what is gone already is done.
        bench.cluster.delete(&bench.namespace.deployment("it"));
        bench.work.destroy().expect(OK);
    }
}

const PARTS: &str = "ports = [{ name = \"http\", port = 8000 }]\n  secret_env = { A = \"b\" }\n  secret_env_version = 1";

#[test]
fn g10_a_deleted_deployment_is_made_again_and_what_was_left_of_it_is_named() {
    let Some(bench) = bench("halfdeleted") else {
        return;
    };
    bench.main(&service(PARTS)).applied();
    let uid = |kind: &str, name: &str| {
        bench.cluster.get(&bench.path(kind, name))["metadata"]["uid"].clone()
    };
    let before = (uid("services", "it"), uid("secrets", "it-env"));
    bench.cluster.delete(&bench.namespace.deployment("it"));
    // The state holds what is left, or nobody would ever delete it.
    bench
        .work
        .plan()
        .expect(HAS_CHANGES)
        .says("The Deployment of it is gone")
        .says("1 to change");
    bench
        .work
        .apply_plan()
        .expect(OK)
        .says("What was left of it was taken in again")
        .says(&format!(
            "Service {0}/it, Secret {0}/it-env",
            bench.namespace.name()
        ));
    bench.work.expect_no_changes();
    assert_eq!(bench.state()["status"], "available (1 of 1 ready)");
    assert_eq!((uid("services", "it"), uid("secrets", "it-env")), before);
    // And a destroy deletes what is left.
    bench.cluster.delete(&bench.namespace.deployment("it"));
    bench.work.destroy().expect(OK).says("1 destroyed");
    assert_eq!(bench.left(), Vec::<String>::new());
}

#[test]
fn a_deployment_on_its_way_out_is_waited_for_and_made_again() {
    let Some(bench) = bench("going") else { return };
    bench.main(&service("")).applied();
    let hold = |finalizers: serde_json::Value| {
        bench.patch("it", &json!({"metadata": {"finalizers": finalizers}}));
    };
    hold(json!(["example.net/hold"]));
    bench.cluster.delete(&bench.namespace.deployment("it"));
    bench
        .work
        .plan()
        .expect(HAS_CHANGES)
        .says("being deleted")
        .says("1 to change");
    let mut apply = bench.work.start(&["apply", "-auto-approve"]);
    apply.await_text("Modifying...", SOON);
    std::thread::sleep(std::time::Duration::from_secs(1));
    hold(json!(null));
    apply.wait(SOON).expect(OK);
    bench.work.expect_no_changes();
    assert_eq!(bench.state()["status"], "available (1 of 1 ready)");
}

#[test]
fn g10_leftovers_that_no_state_knows_are_taken_in_and_foreign_ones_refused() {
    let Some(bench) = bench("leftovers") else {
        return;
    };
    bench.main(&service(PARTS)).applied();
    bench.cluster.delete(&bench.namespace.deployment("it"));
    std::fs::remove_file(bench.work.path().join("terraform.tfstate")).unwrap();
    bench
        .work
        .apply()
        .expect(OK)
        .says("1 added")
        .says("What was left of it was taken in again")
        .says("carry Loomplane's label for this very service");
    bench.work.expect_no_changes();
    // Without our label it is someone else's.
    bench.cluster.delete(&bench.namespace.deployment("it"));
    bench.cluster.merge(
        &bench.path("services", "it"),
        &json!({"metadata": {"labels": {"loomplane.dev/service": "other"}}}),
    );
    std::fs::remove_file(bench.work.path().join("terraform.tfstate")).unwrap();
    bench
        .work
        .apply()
        .expect(FAILED)
        .says("exists already")
        .says("does not carry Loomplane's label for this service");
    assert!(bench.work.state_of(IT).is_none());
}

#[test]
fn g10_an_apply_whose_provider_was_killed_in_the_wait_is_taken_over_by_the_next() {
    let Some(bench) = bench("killed") else { return };
    bench.main(&service(&slow("8s")));
    let apply = bench.work.start(&["apply", "-auto-approve"]);
    bench.await_pod("slow-start");
    apply.kill_providers();
    apply.wait(SOON).expect(FAILED);
    assert!(bench.work.state_of(IT).is_none(), "Terraform keeps nothing");
    let uid = bench.deployment("it")["metadata"]["uid"].clone();
    bench
        .work
        .apply()
        .expect(OK)
        .says("An apply of it that was cut off was taken over");
    bench.work.expect_no_changes();
    assert_eq!(bench.deployment("it")["metadata"]["uid"], uid);
    assert_eq!(bench.state()["status"], "available (1 of 1 ready)");
    // Nothing of the mark stays: controllers copy a Deployment's annotations to its ReplicaSets, and a rollback brings them back.
    for kind in ["deployments", "replicasets"] {
        let list = format!("/apis/apps/v1/namespaces/{}/{kind}", bench.namespace.name());
        assert!(
            !bench.cluster.get(&list)["items"]
                .to_string()
                .contains("loomplane.dev/unfinished\":\"")
        );
    }
}

#[test]
fn g10_an_apply_whose_terraform_was_killed_in_the_wait_is_taken_over_by_the_next() {
    let Some(bench) = bench("killedcli") else {
        return;
    };
    bench.main(&service(&slow("5s")));
    let mut apply = bench.work.start(&["apply", "-auto-approve"]);
    bench.await_pod("slow-start");
    apply.kill_cli();
    assert_eq!(apply.wait(SOON).code, None);
    // The provider notices, and leaves the mark: no state holds the service.
    bench
        .cluster
        .await_true(&bench.namespace.deployment("it"), SOON, |found| {
            found["status"]["availableReplicas"] == 1
        });
    std::thread::sleep(std::time::Duration::from_secs(2));
    let mark = &bench.deployment("it")["metadata"]["labels"]["loomplane.dev/unfinished"];
    assert!(mark.is_string());
    bench
        .work
        .apply()
        .expect(OK)
        .says("An apply of it that was cut off was taken over");
    bench.work.expect_no_changes();
}

#[test]
fn a_creation_is_few_requests() {
    let Some(bench) = bench("requests") else {
        return;
    };
    let proxy = crate::fault_proxy::FaultProxy::start(bench.cluster);
    bench.connections_with(proxy.kubeconfig(), &[("prod", "")], "");
    for (arguments, writes, reads) in [
        // POST, and what takes the mark off (which a controller may get in the way of). Reads: the cluster's UID, the wait's lists and
        // watches (Deployment, pods, ReplicaSets), and the last look.
        ("", 3, 8),
        // With a Secret and a Service beside it, and a look whether any of them is there.
        (PARTS, 7, 12),
        ("wait = false", 3, 2),
    ] {
        bench.main(&service(arguments));
        proxy.forget();
        bench.work.apply().expect(OK);
        let requests = proxy.requests();
        let (read, written): (Vec<_>, Vec<_>) = requests
            .iter()
            .map(|seen| format!("{} {}", seen.method, seen.path))
            .partition(|line| line.starts_with("GET"));
        assert!(written.len() <= writes, "{arguments}: {written:#?}");
        assert!(read.len() <= reads, "{arguments}: {read:#?}");
        bench.work.destroy().expect(OK);
    }
}

#[test]
fn many_creations_in_a_namespace_share_one_look_at_its_names() {
    let Some(bench) = bench("manynames") else {
        return;
    };
    let proxy = crate::fault_proxy::FaultProxy::start(bench.cluster);
    bench.connections_with(proxy.kubeconfig(), &[("prod", "")], "");
    let many = |count: u32| {
        format!(
            "resource \"loomplane_gpu_service\" \"it\" {{\n  for_each = toset([for n in range({count}) : format(\"s%02d\", n)])\n  name = each.key\n  target = \"prod\"\n  image = \"registry.k8s.io/pause:3.10\"\n  wait = false\n  ports = [{{ name = \"http\", port = 8000 }}]\n}}\n"
        )
    };
    // One that is there already and is not ours: the shared look sees it as each one's own would.
    bench.cluster.create(
        bench.path("services", "").trim_end_matches('/'),
        &json!({"metadata": {"name": "s15"}, "spec": {"ports": [{"port": 1}]}}),
    );
    bench.main(&many(16));
    bench
        .work
        .apply()
        .expect(FAILED)
        .says("exists already on cluster");
    let requests = proxy.requests();
    let reads = |end: &str| {
        let of = |path: &str| path.split('?').next().unwrap_or_default().ends_with(end);
        requests
            .iter()
            .filter(|seen| seen.method == "GET" && of(&seen.path))
            .count()
    };
    assert_eq!((reads("/services"), reads("/deployments")), (1, 1));
    // Four look for themselves, and the one that meets something more than once. (A Deployment is also read again where its controller
    // wrote meanwhile.)
    let single = |seen: &&crate::fault_proxy::Seen| {
        seen.method == "GET" && seen.path.contains("/services/s")
    };
    let looks = requests.iter().filter(single).count();
    assert!(looks <= 8, "{looks} Services were looked for one by one");
    assert!(!bench.cluster.exists(&bench.namespace.deployment("s15")));
}

#[test]
fn g10_two_applies_of_one_service_at_once_leave_it_to_one_of_them() {
    let (Some(first), Some(second)) = (bench("together"), bench("unused")) else {
        return;
    };
    first.main(&service(&slow("60s")));
    let waiting = first.work.start(&["apply", "-auto-approve"]);
    first.await_pod("slow-start");
    // Another configuration of the same service, with a state of its own.
    let provider = std::fs::read_to_string(first.work.path().join("provider.tf")).unwrap();
    second.work.file("provider.tf", &provider);
    second.main(&service(""));
    second
        .work
        .apply()
        .expect(FAILED)
        .says("Another apply is creating it")
        .says("its mark kept changing while this one watched");
    assert!(second.work.state_of(IT).is_none());
    waiting.interrupt();
    waiting
        .wait(SOON)
        .expect(FAILED)
        .says("Stopped while waiting");
    // Once it is in a state it is refused with the import command.
    second
        .work
        .apply()
        .expect(FAILED)
        .says("terraform import ADDRESS");
}

#[test]
fn a_tainted_service_with_a_kept_volume_can_be_replaced() {
    let Some(bench) = bench("tainted") else {
        return;
    };
    bench.connections(&[("prod", "storage_class = \"retain\"")], "");
    super::volumes::provision(&bench, "it-data");
    let with = |more: &str| service(&format!("{}\n  {more}", super::volumes::VOLUME));
    bench.main(&with(
        "annotations = { \"loomplane.bench/outcome\" = \"crash-loop\" }",
    ));
    bench.work.apply().expect(FAILED).says("The rollout failed");
    let claim = bench
        .cluster
        .get(&bench.path("persistentvolumeclaims", "it-data"))["metadata"]["uid"]
        .clone();
    bench.main(&with(""));
    assert_eq!(actions(&bench.change()), "delete-create");
    bench
        .work
        .apply_plan()
        .expect(OK)
        .says("A kept claim keeps its data");
    bench.work.expect_no_changes();
    assert_eq!(
        bench
            .cluster
            .get(&bench.path("persistentvolumeclaims", "it-data"))["metadata"]["uid"],
        claim
    );
}

#[test]
fn a_service_or_secret_deleted_behind_terraform_s_back_is_put_back() {
    let Some(bench) = bench("partdeleted") else {
        return;
    };
    bench
        .main(&service("ports = [{ name = \"http\", port = 8000 }]\n  secret_env = { A = \"b\" }\n  secret_env_version = 1"))
        .applied();
    bench.cluster.delete(&bench.path("services", "it"));
    assert_eq!(actions(&bench.change()), "update");
    bench.work.apply_plan().expect(OK);
    bench.work.expect_no_changes();
    assert!(bench.cluster.exists(&bench.path("services", "it")));
    bench.cluster.delete(&bench.path("secrets", "it-env"));
    assert_eq!(actions(&bench.change()), "update");
    bench.work.apply_plan().expect(OK);
    bench.work.expect_no_changes();
    assert!(bench.cluster.exists(&bench.path("secrets", "it-env")));
}

#[test]
fn what_was_set_and_is_changed_behind_terraform_s_back_is_a_difference_and_is_put_back() {
    let Some(bench) = bench("drift") else { return };
    bench
        .main(&service(&format!(
            "{}\n  env = {{ A = \"1\" }}\n  replicas = 1\n  labels = {{ team = \"ml\" }}\n  command = [\"/pause\"]\n  stop_grace_seconds = 5\n  force_conflicts = true",
            gpu("nvidia-h100-80gb", 1)
        )))
        .applied();
    let pod = |spec: serde_json::Value| json!({"spec": {"template": {"spec": spec}}});
    let container = |mut fields: serde_json::Value| {
        fields["name"] = json!("it");
        json!({"spec": {"template": {"spec": {"containers": [fields]}}}})
    };
    let drifts = [
        ("image", container(json!({"image": "other"}))),
        (
            "env",
            container(json!({"env": [{"name": "A", "value": "2"}]})),
        ),
        ("command", container(json!({"command": ["x"]}))),
        (
            "size",
            container(
                json!({"resources": {"limits": {"nvidia.com/gpu": "2"}, "requests": {"nvidia.com/gpu": "2"}}}),
            ),
        ),
        ("replicas", json!({"spec": {"replicas": 3}})),
        ("labels", json!({"metadata": {"labels": {"team": "other"}}})),
        (
            "stop_grace_seconds",
            pod(json!({"terminationGracePeriodSeconds": 60})),
        ),
        (
            "rollout",
            json!({"spec": {"strategy": {"rollingUpdate": {"maxSurge": 1}}}}),
        ),
        ("placement", pod(json!({"affinity": null}))),
        ("placement", pod(json!({"tolerations": []}))),
    ];
    for (attribute, patch) in drifts {
        let before = bench.deployment("it")["spec"].clone();
        bench
            .cluster
            .request(
                "PATCH",
                &format!("{}?fieldManager=someone", bench.namespace.deployment("it")),
                "application/strategic-merge-patch+json",
                Some(&patch),
            )
            .unwrap();
        assert_ne!(
            json!([before, "team"]),
            json!([
                bench.deployment("it")["spec"],
                bench.deployment("it")["metadata"]["labels"]["team"]
            ])
        );
        let change = bench.change();
        assert_eq!(actions(&change), "update", "{attribute}: {change}");
        if attribute == "rollout" {
            assert_ne!(change["before"]["rollout"], json!(null));
        } else {
            assert_ne!(
                json!([
                    change["before"][attribute],
                    change["after_unknown"][attribute]
                ]),
                json!([change["after"][attribute], null]),
                "{attribute}"
            );
        }
        bench.work.apply_plan().expect(OK);
        bench.work.plan().expect(OK);
        assert_eq!(
            bench.deployment("it")["spec"],
            before,
            "{attribute} is put back"
        );
    }
}

#[test]
fn what_others_add_is_never_a_difference() {
    let Some(bench) = bench("others") else { return };
    bench
        .main(&service(&format!(
            "{}\n  env = {{ A = \"1\" }}",
            gpu("nvidia-l4", 1)
        )))
        .applied();
    bench
        .cluster
        .request(
            "PATCH",
            &format!("{}?fieldManager=webhook", bench.namespace.deployment("it")),
            "application/strategic-merge-patch+json",
            Some(&json!({"metadata": {"labels": {"x": "y"}, "annotations": {"kubectl.kubernetes.io/restartedAt": "now"}}, "spec": {
                "revisionHistoryLimit": 3, "replicas": 2, "template": {"metadata": {"annotations": {"sidecar.istio.io/status": "injected"}}, "spec": {
                    "dnsPolicy": "Default", "priorityClassName": "important",
                    "containers": [{"name": "it", "env": [{"name": "INJECTED", "value": "1"}], "resources": {"requests": {"ephemeral-storage": "1Gi"}}}, {"name": "proxy", "image": "envoy"}]}}}})),
        )
        .unwrap();
    bench.work.expect_no_changes();
    // And an update leaves it there.
    bench
        .main(&service(&format!(
            "{}\n  env = {{ A = \"2\" }}",
            gpu("nvidia-l4", 1)
        )))
        .applied();
    let containers = bench.pod_spec("it")["containers"].clone();
    assert_eq!(containers.as_array().unwrap().len(), 2);
    assert!(containers.to_string().contains("INJECTED"));
    assert_eq!(bench.deployment("it")["spec"]["replicas"], 2);
}

#[test]
fn an_apply_goes_on_when_one_of_several_services_fails() {
    let Some(bench) = bench("several") else {
        return;
    };
    bench.main(
        &(service("annotations = { \"loomplane.bench/outcome\" = \"crash-loop\" }")
            + &super::named("well", "")),
    );
    bench.work.apply().expect(FAILED).says("The rollout failed");
    assert!(bench.work.state_of("loomplane_gpu_service.well").is_some());
    assert!(bench.work.state_of(IT).is_some());
    bench.main(&(service("") + &super::named("well", "")));
    bench.applied();
}

#[test]
fn g10_a_field_that_another_manages_is_refused_with_its_name_unless_forced() {
    let Some(bench) = bench("conflict") else {
        return;
    };
    bench.main(&service("")).applied();
    bench
        .cluster
        .request(
            "PATCH",
            &format!("{}?fieldManager=someone", bench.namespace.deployment("it")),
            "application/strategic-merge-patch+json",
            Some(&json!({"spec": {"template": {"spec": {"containers": [{"name": "it", "image": "theirs"}]}}}})),
        )
        .unwrap();
    assert_eq!(actions(&bench.change()), "update");
    bench
        .work
        .apply_plan()
        .expect(FAILED)
        .says("image is managed by someone")
        .says("force_conflicts = true");
    assert_eq!(bench.pod_spec("it")["containers"][0]["image"], "theirs");
    bench.main(&service("force_conflicts = true")).applied();
    assert_eq!(
        bench.pod_spec("it")["containers"][0]["image"],
        "registry.k8s.io/pause:3.10"
    );
}
