//! Rollouts that can't succeed: the wait ends long before its time limit (20 minutes), with the reason, the pod's events and the
//! last lines of its log.

use std::time::Duration;

use serde_json::{Value, json};

use super::{Bench, IT, SOON, bench, gpu, l4, service};
use crate::cluster::{Cluster, Parts};
use crate::terraform::{Cli, FAILED, HAS_CHANGES, OK};

/// An annotation that makes the pods fail so (`control-plane/stages`).
fn fails(outcome: &str) -> String {
    format!("annotations = {{ \"loomplane.bench/outcome\" = {outcome:?} }}")
}

fn pods(bench: &Bench<'_>) -> String {
    format!("/api/v1/namespaces/{}/pods", bench.namespace.name())
}

#[test]
fn rollout_an_image_that_can_t_be_pulled_ends_the_wait_with_the_reason_and_the_pod_s_events() {
    let Some(bench) = bench("nopull") else { return };
    bench.main(&service("")).applied();
    let run = bench
        .main(&service(&fails("image-pull-error")))
        .work
        .start(&["apply", "-auto-approve"]);
    bench.await_pod("image-pull-error");
    let found = bench.cluster.get(&pods(&bench));
    let pod = found["items"]
        .as_array()
        .unwrap()
        .iter()
        .find(|pod| pod["metadata"]["annotations"]["loomplane.bench/outcome"].is_string())
        .unwrap();
    // What a kubelet writes; the simulated ones write no events.
    bench.cluster.create(
        &format!("/api/v1/namespaces/{}/events", bench.namespace.name()),
        &json!({
            "metadata": {"name": "pull"}, "type": "Warning", "reason": "Failed", "message": "Failed to pull image: the registry said no",
            "lastTimestamp": "2099-01-01T00:00:00Z",
            "involvedObject": {"apiVersion": "v1", "kind": "Pod", "namespace": bench.namespace.name(), "name": pod["metadata"]["name"], "uid": pod["metadata"]["uid"]},
        }),
    );
    let run = run.wait(SOON * 2).expect(FAILED);
    let name = pod["metadata"]["name"].as_str().unwrap();
    let assigned = format!(
        "Scheduled: Successfully assigned {}/{name} to",
        bench.namespace.name()
    );
    let run = run
        .says("The rollout failed")
        .says(&format!("the image of pod {name} can't be pulled (ImagePullBackOff: "))
        .says("registry.k8s.io/pause:3.10: not found). Check image, and image_pull_secret for a private registry")
        .says("Events:")
        .says(&assigned)
        .says("Warning Failed: Failed to pull image: the registry said no");
    // Oldest first.
    let text = run.text();
    assert!(
        text.find(&assigned) < text.find("Warning Failed:"),
        "{text}"
    );
    // In the state, and repaired in place.
    assert!(
        bench.state()["status"]
            .as_str()
            .unwrap()
            .contains("of 1 ready")
    );
    bench.main(&service("")).applied();
    assert_eq!(bench.state()["status"], "available (1 of 1 ready)");
    bench.work.destroy().expect(OK);
}

#[test]
fn rollout_a_container_that_keeps_ending_is_told_with_the_last_lines_of_its_log() {
    let Some(bench) = bench("crash") else { return };
    bench.main(&service(&fails("crash-loop")));
    let started = std::time::Instant::now();
    bench
        .work
        .apply()
        .expect(FAILED)
        .says("The rollout failed")
        .says("ended 3 times after its start, last with exit code 1 (Error).")
        // Of the container that ended, not of the one that is about to start: `control-plane/logs/previous.log`.
        .says("Last log lines: starting loading the model the model file is not readable");
    assert!(started.elapsed() < SOON, "{:?}", started.elapsed());
    assert_eq!(bench.state()["status"], "unavailable (0 of 1 ready)");
    bench.work.destroy().expect(OK);
}

#[test]
fn rollout_a_time_limit_quotes_the_log_of_the_pod_that_is_not_ready() {
    let Some(bench) = bench("slowlog") else {
        return;
    };
    bench.main(&service(&format!(
        "{}\n  timeouts = {{ create = \"8s\" }}",
        fails("never-ready")
    )));
    let run = bench.work.apply().expect(FAILED);
    run.says("it was not done within 8 s")
        .says("Last log lines: starting loading the model")
        .says_not("the model file is not readable");
    bench.work.destroy().expect(OK);
}

#[test]
fn rollout_a_secret_that_is_missing_is_told_before_the_time_limit() {
    let Some(bench) = bench("nosecret") else {
        return;
    };
    bench.main(&service(&format!(
        "{}\n  env_from = [{{ name = \"KEY\", secret = \"absent\", key = \"key\" }}]",
        fails("missing-secret")
    )));
    // A Secret of the same apply may come a little later: it is waited for, but not for 20 minutes.
    bench
        .work
        .start(&["apply", "-auto-approve"])
        .wait(Duration::from_secs(90))
        .expect(FAILED)
        .says("The rollout failed")
        .says("can't be made (CreateContainerConfigError: secret \"absent\" not found). Check that the Secrets and keys of env_from exist in this namespace");
    bench.work.destroy().expect(OK);
}

#[test]
fn rollout_pods_that_admission_refuses_end_the_wait_in_its_words() {
    let Some(bench) = bench("restricted") else {
        return;
    };
    bench.cluster.merge(
        &format!("/api/v1/namespaces/{}", bench.namespace.name()),
        &json!({"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "restricted"}}}),
    );
    bench.main(&service(""));
    bench
        .work
        .start(&["apply", "-auto-approve"])
        .wait(Duration::from_secs(60))
        .expect(FAILED)
        .says("The rollout failed")
        .says("its pods can't be made: pods")
        .says("violates PodSecurity \"restricted:latest\"");
    assert_eq!(bench.state()["status"], "unavailable (0 of 1 ready)");
    // Allowed, the same service goes on from its state.
    bench.cluster.merge(
        &format!("/api/v1/namespaces/{}", bench.namespace.name()),
        &json!({"metadata": {"labels": {"pod-security.kubernetes.io/enforce": null}}}),
    );
    bench.main(&service("labels = { a = \"b\" }"));
    bench.work.apply().expect(OK);
    bench.work.destroy().expect(OK);
}

#[test]
fn rollout_a_deployment_that_admission_refuses_leaves_nothing_and_says_why() {
    let Some(bench) = bench("policy") else { return };
    let name = bench.namespace.name().to_owned();
    let policies = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies";
    let bindings = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings";
    bench.cluster.create(
        policies,
        &json!({"metadata": {"name": name}, "spec": {
            "matchConstraints": {"resourceRules": [{"apiGroups": ["apps"], "apiVersions": ["v1"], "operations": ["CREATE", "UPDATE"], "resources": ["deployments"]}]},
            "validations": [{"expression": "has(object.metadata.labels) && 'team' in object.metadata.labels", "message": "every Deployment names its team"}],
        }}),
    );
    bench.cluster.create(
        bindings,
        &json!({"metadata": {"name": name}, "spec": {"policyName": name, "validationActions": ["Deny"],
            "matchResources": {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": name}}}}}),
    );
    // The API server learns of a policy a moment later.
    let until = std::time::Instant::now() + SOON;
    let probe = json!({"metadata": {"name": "probe"}, "spec": {"selector": {"matchLabels": {"a": "b"}}, "replicas": 0, "template": {
        "metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "main", "image": "probe"}]}}}});
    let path = format!("/apis/apps/v1/namespaces/{name}/deployments?dryRun=All");
    while bench
        .cluster
        .request("POST", &path, "application/json", Some(&probe))
        .is_ok()
    {
        assert!(
            std::time::Instant::now() < until,
            "the policy is not in force"
        );
        std::thread::sleep(Duration::from_millis(100));
    }
    bench.main(&service(""));
    bench
        .work
        .apply()
        .expect(FAILED)
        .says("every Deployment names its team");
    assert_eq!(bench.left(), Vec::<String>::new());
    assert!(bench.work.state_of(IT).is_none());
    // An update that is refused changes nothing either.
    bench.main(&service("labels = { team = \"ml\" }")).applied();
    let before = bench.deployment("it")["metadata"]["resourceVersion"].clone();
    let labels = bench.state()["labels"].clone();
    bench.main(&service("labels = { other = \"ml\" }"));
    bench
        .work
        .apply()
        .expect(FAILED)
        .says("every Deployment names its team");
    assert_eq!(
        bench.deployment("it")["metadata"]["resourceVersion"],
        before
    );
    assert_eq!(bench.state()["labels"], labels);
    bench.work.destroy().expect(OK);
    bench.cluster.delete(&format!("{bindings}/{name}"));
    bench.cluster.delete(&format!("{policies}/{name}"));
}

#[test]
fn g5_a_state_that_passes_is_an_error_when_the_apply_s_wait_meets_it() {
    let Some(cluster) = Cluster::own(Parts::All, &[l4(1).cordoned()]) else {
        return;
    };
    let Some(bench) = Bench::on(&cluster, Cli::any(), "g5wait") else {
        return;
    };
    bench.main(&service(&format!(
        "{}\n  timeouts = {{ create = \"10s\" }}",
        gpu("nvidia-l4", 1)
    )));
    bench
        .work
        .plan()
        .expect(HAS_CHANGES)
        .says("No matching node of prod takes GPU work just now");
    bench
        .work
        .apply_plan()
        .expect(FAILED)
        .says("it was not done within 10 s")
        .says("no node takes pod")
        .says("1 node(s) were unschedulable")
        .says("Warning FailedScheduling: 0/1 nodes are available");
    assert_eq!(bench.state()["status"], "unavailable (0 of 1 ready)");
    bench.work.destroy().expect(OK);
}

#[test]
fn k11_a_node_that_an_autoscaler_brings_is_waited_for() {
    let Some(cluster) = Cluster::own(Parts::All, &[l4(1)]) else {
        return;
    };
    let Some(bench) = Bench::on(&cluster, Cli::any(), "scaleup") else {
        return;
    };
    // Two replicas, one node: the second pod waits for the autoscaler, which says that it is at work.
    bench.main(&service(&format!(
        "{}\n  replicas = 2",
        gpu("nvidia-l4", 1)
    )));
    let apply = bench.work.start(&["apply", "-auto-approve"]);
    let waits = |pod: &&Value| {
        pod["status"]["conditions"]
            .to_string()
            .contains("Unschedulable")
    };
    let found = bench.cluster.await_true(&pods(&bench), SOON, |found| {
        found["items"]
            .as_array()
            .unwrap()
            .iter()
            .any(|pod| waits(&pod))
    });
    let pod = found["items"]
        .as_array()
        .unwrap()
        .iter()
        .find(waits)
        .unwrap()
        .clone();
    bench.cluster.create(
        &format!("/api/v1/namespaces/{}/events", bench.namespace.name()),
        &json!({
            "metadata": {"name": "scale"}, "type": "Normal", "reason": "TriggeredScaleUp", "message": "pod triggered scale-up: [{l4 1->2 (max: 4)}]",
            "lastTimestamp": "2099-01-01T00:00:00Z",
            "involvedObject": {"apiVersion": "v1", "kind": "Pod", "namespace": bench.namespace.name(), "name": pod["metadata"]["name"], "uid": pod["metadata"]["uid"]},
        }),
    );
    // Longer than a pod that nobody helps is waited for (60 s).
    std::thread::sleep(Duration::from_secs(66));
    cluster.add_nodes(&[crate::cluster::NodeGroup::new("new", 1, 1)
        .label("nvidia.com/gpu.product", "NVIDIA-L4")
        .taint("nvidia.com/gpu=present:NoSchedule")]);
    apply.wait(SOON).expect(OK);
    assert_eq!(bench.state()["status"], "available (2 of 2 ready)");
    bench.work.destroy().expect(OK);
}
