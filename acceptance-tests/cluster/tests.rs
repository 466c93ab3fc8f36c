//! The harness itself, tried.

use super::*;

fn gpu_deployment(name: &str, outcome: Option<&str>, kind_label: &str) -> Value {
    json!({
        "metadata": {"name": name},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}, "annotations": outcome.map(|it| json!({"loomplane.bench/outcome": it}))},
                "spec": {
                    "nodeSelector": {"nvidia.com/gpu.product": kind_label},
                    "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists"}],
                    "containers": [{"name": "main", "image": "registry.example/app:1", "resources": {"limits": {"nvidia.com/gpu": "1"}}}],
                },
            },
        },
    })
}

#[test]
fn the_real_scheduler_places_a_gpu_pod_and_its_rollout_completes() {
    let Some(cluster) = Cluster::shared() else {
        return;
    };
    let namespace = cluster.namespace("bench-lands");
    let path = namespace.deployment("lands");
    cluster.create(
        &path.replace("/lands", ""),
        &gpu_deployment("lands", None, "NVIDIA-H100-80GB-HBM3"),
    );
    cluster.await_true(&path, Duration::from_secs(30), |found| {
        found["status"]["readyReplicas"] == 1
    });
    assert_eq!(namespace.nodes_used(), ["p5-h100-0"]);
}

#[test]
fn a_pod_can_be_made_to_fail_in_the_ways_users_meet() {
    let Some(cluster) = Cluster::shared() else {
        return;
    };
    let namespace = cluster.namespace("bench-fails");
    for (outcome, reason) in [
        ("image-pull-error", "ImagePullBackOff"),
        ("crash-loop", "CrashLoopBackOff"),
    ] {
        let path = namespace.deployment(outcome);
        cluster.create(
            &path.replace(&format!("/{outcome}"), ""),
            &gpu_deployment(outcome, Some(outcome), "NVIDIA-H100-80GB-HBM3"),
        );
        let pods = format!(
            "/api/v1/namespaces/{}/pods?labelSelector=app%3D{outcome}",
            namespace.name()
        );
        cluster.await_true(&pods, Duration::from_secs(30), |found| {
            found["items"][0]["status"]["containerStatuses"][0]["state"]["waiting"]["reason"]
                == reason
        });
        assert_ne!(cluster.get(&path)["status"]["readyReplicas"], 1);
    }
}

#[test]
fn a_control_plane_of_ones_own_has_the_nodes_asked_for_and_ends_with_the_value() {
    let nodes = [
        NodeGroup::new("good", 2, 4)
            .label("nvidia.com/gpu.product", "NVIDIA-L4")
            .taint("nvidia.com/gpu=present:NoSchedule"),
        NodeGroup::new("dark", 1, 1).not_ready(),
        NodeGroup::new("closed", 1, 1).cordoned(),
    ];
    let Some(cluster) = Cluster::own(Parts::Api, &nodes) else {
        return;
    };
    let good = cluster.get("/api/v1/nodes/good-1");
    assert_eq!(good["status"]["allocatable"]["nvidia.com/gpu"], "4");
    assert_eq!(
        good["spec"]["taints"],
        json!([{"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}])
    );
    let dark = cluster.get("/api/v1/nodes/dark-0");
    assert_eq!(
        dark["spec"]["taints"][0]["key"],
        "node.kubernetes.io/not-ready"
    );
    assert_eq!(
        cluster.get("/api/v1/nodes/closed-0")["spec"]["unschedulable"],
        true
    );
    let folder = cluster.folder().to_owned();
    drop(cluster);
    assert!(!folder.exists());
}

#[test]
fn a_limited_credential_is_limited() {
    let Some(cluster) = Cluster::shared() else {
        return;
    };
    let namespace = cluster.namespace("bench-rbac");
    let rules = json!([{"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]}]);
    let kubeconfig = cluster.kubeconfig_for(namespace.name(), "reader", &rules, false);
    let reader = Cluster::connect(kubeconfig, None);
    reader.get(&format!("/api/v1/namespaces/{}/pods", namespace.name()));
    let refused = reader
        .request("GET", "/api/v1/nodes", "application/json", None)
        .unwrap_err();
    assert!(
        matches!(&refused, kube::Error::Api(status) if status.code == 403),
        "{refused}"
    );
}
