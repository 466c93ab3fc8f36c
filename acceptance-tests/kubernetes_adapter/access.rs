//! Credentials, rights, certificates, and what is read once.

use super::*;

#[tokio::test]
async fn k1_k9_a_namespaced_token_is_normal() {
    let namespace = Namespace::new("token");
    kubectl(&["create", "serviceaccount", "ci", "-n", &namespace.0]);
    kubectl(&[
        "create",
        "rolebinding",
        "ci",
        "--clusterrole=edit",
        &format!("--serviceaccount={}:ci", namespace.0),
        "-n",
        &namespace.0,
    ]);
    let token = kubectl(&["create", "token", "ci", "-n", &namespace.0])
        .trim()
        .to_owned();
    let limited = Cluster::new(
        "bench",
        ConnectionConfig {
            token: Some(token.into()),
            ..admin()
        },
    );
    let error = limited
        .nodes(|_| true, &never())
        .await
        .unwrap_err()
        .render();
    assert!(
        error.starts_with("Loomplane can't list this cluster's nodes, so it can't see GPUs"),
        "{error}"
    );
    assert!(
        error.contains(&format!(
            "  - kind: ServiceAccount\n    name: ci\n    namespace: {}\n",
            namespace.0
        )),
        "{error}"
    );
    assert_eq!(
        limited.target_uid(&never()).await.unwrap(),
        TargetUid::Forbidden
    );
    assert!(
        limited
            .storage_classes(&never())
            .await
            .unwrap_err()
            .is_forbidden()
    );
    let spec = small(&namespace);
    limited
        .create_service(&spec, &options("t"), &never())
        .await
        .unwrap();
    assert_eq!(
        observe(&read(&limited, &spec).await.live, Lens::Prior(&spec)),
        spec
    );
    assert!(
        matches!(cluster().target_uid(&never()).await.unwrap(), TargetUid::Known(uid) if uid.len() == 36)
    );

    // The ClusterRole and binding of the message are what helps.
    let yaml = error
        .split("apply -f` of:\n")
        .nth(1)
        .unwrap()
        .split("\nWhere that")
        .next()
        .unwrap();
    let own = yaml.replace("loomplane-node-reader", &format!("reader-{}", namespace.0));
    kubectl_with(&["apply", "-f", "-"], &own);
    let mut listed = limited.nodes(|_| true, &never()).await;
    for _ in 0..20 {
        if listed.is_ok() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
        listed = limited.nodes(|_| true, &never()).await;
    }
    listed.unwrap();
    kubectl_with(&["delete", "-f", "-"], &own);
}

#[tokio::test]
async fn wrong_credentials_certificates_and_addresses_are_told_apart() {
    let wrong = |config: ConnectionConfig| async move {
        Cluster::new("bench", config)
            .nodes(|_| true, &never())
            .await
            .unwrap_err()
    };
    let error = wrong(ConnectionConfig {
        token: Some("wrong".to_owned().into()),
        ..admin()
    })
    .await;
    assert!(matches!(error, Error::Unauthorized { .. }), "{error:?}");
    let plain: Value =
        serde_json::from_str(&kubectl(&["config", "view", "--raw", "-o", "json"])).unwrap();
    let server = plain["clusters"][0]["cluster"]["server"]
        .as_str()
        .unwrap()
        .to_owned();
    let error = wrong(ConnectionConfig {
        host: Some(server),
        token: Some("x".to_owned().into()),
        ..Default::default()
    })
    .await;
    assert!(
        matches!(error, Error::UntrustedCertificate { .. }),
        "{error:?}"
    );
    let started = Instant::now();
    let error = wrong(ConnectionConfig {
        host: Some("https://127.0.0.1:9".into()),
        ..admin()
    })
    .await;
    assert!(matches!(error, Error::Unreachable { .. }), "{error:?}");
    assert!(started.elapsed() < Duration::from_secs(20));
}

#[tokio::test]
async fn storage_classes_are_read_as_k8_needs_them() {
    let name = format!("retain-{}", std::process::id());
    let class = json!({"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": name}, "provisioner": "example.net/disk", "reclaimPolicy": "Retain", "volumeBindingMode": "WaitForFirstConsumer"});
    kubectl_with(&["create", "-f", "-"], &class.to_string());
    let cluster = cluster();
    let classes = cluster.storage_classes(&never()).await.unwrap();
    let found = classes.iter().find(|class| class.name == name).unwrap();
    assert_eq!(
        (found.reclaim_policy.as_str(), found.binding_mode.as_str()),
        ("Retain", "WaitForFirstConsumer")
    );
    kubectl(&["delete", "storageclass", &name]);
}
