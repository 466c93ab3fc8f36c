//! Waiting for rollouts.

use super::*;

#[tokio::test]
async fn k10_a_new_image_rolls_out_on_a_full_node_over_a_connection_that_keeps_dropping() {
    let namespace = Namespace::new("k10");
    let node = GpuNode::new("full", 4);
    let proxy = FaultProxy::start(&kubeconfig()).await;
    let cluster = Cluster::new(
        "bench",
        ConnectionConfig {
            host: Some(proxy.url()),
            ..admin()
        },
    );
    // Four pods, one after the other, fill the node.
    let spec = ServiceSpec {
        replicas: Some(4),
        ..gpu_on(&namespace, &node, 1)
    };
    let limits = RolloutLimits {
        timeout: Duration::from_secs(90),
        ..RolloutLimits::default()
    };
    cluster
        .create_service(&spec, &options("t"), &never())
        .await
        .unwrap();
    cluster
        .wait_rollout(&namespace.0, "web", &limits, &never())
        .await
        .unwrap();
    let found = read(&cluster, &spec).await;
    let next = ServiceSpec {
        image: "example.net/web:2".into(),
        ..spec
    };
    cluster
        .update_service(&found, &next, &options("t"), &never())
        .await
        .unwrap();
    // Much shorter than the rollout, so that it is cut for sure; only waiting goes through it.
    proxy.cut_all_every(Duration::from_millis(120));
    cluster
        .wait_rollout(&namespace.0, "web", &limits, &never())
        .await
        .unwrap();
    assert!(proxy.cuts() > 0, "the connection was never cut");
    let pods: Value =
        serde_json::from_str(&kubectl(&["get", "pods", "-n", &namespace.0, "-o", "json"])).unwrap();
    let running: Vec<&Value> = pods["items"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|pod| pod["metadata"]["deletionTimestamp"].is_null())
        .collect();
    assert_eq!(running.len(), 4);
    for pod in running {
        assert_eq!(pod["spec"]["containers"][0]["image"], "example.net/web:2");
        assert_eq!(pod["spec"]["nodeName"], node.0.as_str());
    }
}

#[tokio::test]
async fn a_pod_that_no_node_takes_ends_the_wait_early_with_the_schedulers_words() {
    let namespace = Namespace::new("unsched");
    let node = GpuNode::new("small", 1);
    let cluster = cluster();
    let spec = gpu_on(&namespace, &node, 2);
    cluster
        .create_service(&spec, &options("t"), &never())
        .await
        .unwrap();
    let limits = RolloutLimits {
        timeout: Duration::from_secs(60),
        unschedulable_grace: Duration::from_secs(3),
        ..RolloutLimits::default()
    };
    let started = Instant::now();
    let error = cluster
        .wait_rollout(&namespace.0, "web", &limits, &never())
        .await
        .unwrap_err()
        .render();
    assert!(
        started.elapsed() < Duration::from_secs(25),
        "{:?}",
        started.elapsed()
    );
    assert!(error.contains("Insufficient nvidia.com/gpu"), "{error}");

    // K11: with nodes that may come it waits to the end, and a cancellation ends it at once.
    let limits = RolloutLimits {
        scale_from_zero: true,
        timeout: Duration::from_secs(8),
        ..limits
    };
    let error = cluster
        .wait_rollout(&namespace.0, "web", &limits, &never())
        .await
        .unwrap_err()
        .render();
    assert!(
        error.contains("not done within 8 s") && error.contains("Insufficient nvidia.com/gpu"),
        "{error}"
    );
    let (fire, fired) = tokio::sync::watch::channel(false);
    let limits = RolloutLimits {
        timeout: Duration::from_secs(60),
        ..limits
    };
    let started = Instant::now();
    tokio::spawn(async move {
        tokio::time::sleep(Duration::from_millis(500)).await;
        fire.send(true).unwrap();
    });
    let error = cluster
        .wait_rollout(&namespace.0, "web", &limits, &Cancel::from(fired))
        .await
        .unwrap_err();
    assert!(
        error.is_canceled() && started.elapsed() < Duration::from_secs(3),
        "{error}"
    );
}

#[tokio::test]
async fn a_quota_ends_the_wait_early() {
    let namespace = Namespace::new("quota");
    kubectl(&[
        "create",
        "quota",
        "none",
        "--hard=pods=0",
        "-n",
        &namespace.0,
    ]);
    let cluster = cluster();
    cluster
        .create_service(&small(&namespace), &options("t"), &never())
        .await
        .unwrap();
    let started = Instant::now();
    let error = cluster
        .wait_rollout(&namespace.0, "web", &RolloutLimits::default(), &never())
        .await
        .unwrap_err()
        .render();
    assert!(error.contains("exceeded quota"), "{error}");
    assert!(started.elapsed() < Duration::from_secs(60));
}
