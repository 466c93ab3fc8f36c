//! Rule G10: nothing is taken over silently.

use super::*;

#[tokio::test]
async fn g10_what_exists_is_not_taken_over() {
    let namespace = Namespace::new("foreign");
    let cluster = cluster();
    let spec = small(&namespace);
    kubectl(&[
        "create",
        "service",
        "clusterip",
        "web",
        "--tcp=80:80",
        "-n",
        &namespace.0,
    ]);
    let failure = cluster
        .create_service(&spec, &options("t"), &never())
        .await
        .unwrap_err();
    assert!(failure.applied.is_empty());
    let text = failure.error.render();
    assert!(
        text.contains(&format!("Service {}/web exists already", namespace.0))
            && text.contains("does not carry Loomplane's label for this service"),
        "{text}"
    );
    assert_eq!(
        get("deployment", &namespace.0, "web"),
        Value::Null,
        "nothing is made beside it"
    );
    kubectl(&["delete", "service", "web", "-n", &namespace.0]);

    kubectl(&[
        "create",
        "deployment",
        "web",
        "--image=nginx",
        "-n",
        &namespace.0,
    ]);
    let before = get("deployment", &namespace.0, "web")["metadata"]["generation"].clone();
    let failure = cluster
        .create_service(&spec, &options("t"), &never())
        .await
        .unwrap_err();
    assert!(
        failure
            .error
            .render()
            .contains("terraform import ADDRESS 'bench/ns/web'"),
        "{:?}",
        failure.error
    );
    assert_eq!(
        get("deployment", &namespace.0, "web")["metadata"]["generation"],
        before
    );
    // Imported, it keeps its selector and container, and what Loomplane does not say stays.
    let found = read(&cluster, &spec).await;
    let imported = observe(&found.live, Lens::Import);
    assert_eq!(
        (imported.image.as_str(), imported.replicas),
        ("nginx", None)
    );
    cluster
        .update_service(&found, &imported, &options("t"), &never())
        .await
        .unwrap();
    let after = get("deployment", &namespace.0, "web");
    assert_eq!(
        after["spec"]["selector"]["matchLabels"],
        json!({"app": "web"})
    );
    assert_eq!(
        after["spec"]["template"]["spec"]["containers"]
            .as_array()
            .unwrap()
            .len(),
        1
    );
}

#[tokio::test]
async fn g10_two_creations_at_once_end_with_one_owner() {
    let namespace = Namespace::new("race");
    let spec = small(&namespace);
    let (a, b) = (cluster(), cluster());
    let (a_options, b_options, cancel) = (options("a"), options("b"), never());
    let (first, second) = tokio::join!(
        a.create_service(&spec, &a_options, &cancel),
        b.create_service(&spec, &b_options, &cancel)
    );
    let failures: Vec<Error> = [first, second]
        .into_iter()
        .filter_map(|outcome| outcome.err().map(|failure| failure.error))
        .collect();
    assert!(
        failures.iter().all(|error| matches!(
            error,
            Error::AlreadyExists { .. } | Error::BeingCreated { .. }
        )),
        "{failures:?}"
    );
    assert!(failures.len() <= 1, "{failures:?}");
}

#[tokio::test]
async fn g10_an_unfinished_creation_of_this_service_is_finished_and_no_other() {
    let namespace = Namespace::new("unfinished");
    let cluster = cluster();
    let spec = small(&namespace);
    let left_over = |service: &str| {
        json!({
            "apiVersion": "v1", "kind": "Service",
            "metadata": {"name": "web", "namespace": namespace.0, "labels": {"loomplane.dev/service": service, "loomplane.dev/unfinished": "old"}},
            "spec": {"ports": [{"name": "old", "port": 1}]},
        })
    };
    kubectl_with(&["create", "-f", "-"], &left_over("another").to_string());
    let failure = cluster
        .create_service(&spec, &options("t"), &never())
        .await
        .unwrap_err();
    assert!(matches!(failure.error, Error::AlreadyExists { .. }));
    kubectl(&["delete", "service", "web", "-n", &namespace.0]);
    kubectl_with(
        &["create", "--field-manager=loomplane", "-f", "-"],
        &left_over("web").to_string(),
    );
    let begun = Instant::now();
    let made = cluster
        .create_service(&spec, &options("t"), &never())
        .await
        .unwrap();
    assert!(
        begun.elapsed() > Duration::from_secs(20),
        "its holder may still live"
    );
    assert_eq!(
        made.taken_in
            .iter()
            .map(ToString::to_string)
            .collect::<Vec<_>>(),
        [format!("Service {}/web", namespace.0)]
    );
    let found = read(&cluster, &spec).await;
    assert_eq!(observe(&found.live, Lens::Prior(&spec)), spec);
    let service = get("service", &namespace.0, "web");
    assert_eq!(
        service["spec"]["ports"].as_array().unwrap().len(),
        1,
        "the left-over's port is gone: {service}"
    );
}

#[tokio::test]
async fn g10_fields_of_others_are_refused_unless_forced() {
    let namespace = Namespace::new("conflict");
    let cluster = cluster();
    let spec = small(&namespace);
    cluster
        .create_service(&spec, &options("t"), &never())
        .await
        .unwrap();
    kubectl(&[
        "set",
        "image",
        "deployment/web",
        "web=someone/else:2",
        "-n",
        &namespace.0,
    ]);
    let found = read(&cluster, &spec).await;
    assert_eq!(
        observe(&found.live, Lens::Prior(&spec)).image,
        "someone/else:2",
        "drift shows"
    );
    let next = ServiceSpec {
        image: "example.net/web:3".into(),
        ..spec
    };
    let failure = cluster
        .update_service(&found, &next, &options("t"), &never())
        .await
        .unwrap_err();
    let text = failure.error.render();
    assert!(
        text.contains("kubectl-set") && text.contains("image") && text.contains("force_conflicts"),
        "{text}"
    );
    cluster
        .update_service(
            &found,
            &next,
            &ApplyOptions {
                force_conflicts: true,
                ..options("t")
            },
            &never(),
        )
        .await
        .unwrap();
    assert_eq!(
        observe(&read(&cluster, &next).await.live, Lens::Prior(&next)),
        next
    );
}

#[tokio::test]
async fn an_autoscaler_keeps_its_replicas() {
    let namespace = Namespace::new("scaled");
    let cluster = cluster();
    let spec = small(&namespace);
    cluster
        .create_service(&spec, &options("t"), &never())
        .await
        .unwrap();
    let scale = json!({"spec": {"replicas": 3}}).to_string();
    kubectl(&[
        "patch",
        "deployment",
        "web",
        "-n",
        &namespace.0,
        "--subresource=scale",
        "--type=merge",
        "--field-manager=kube-controller-manager",
        "-p",
        &scale,
    ]);
    let found = read(&cluster, &spec).await;
    assert!(found.identity.autoscaled);
    assert_eq!(observe(&found.live, Lens::Prior(&spec)), spec);
    let next = ServiceSpec {
        image: "example.net/web:2".into(),
        ..spec
    };
    cluster
        .update_service(&found, &next, &options("t"), &never())
        .await
        .unwrap();
    assert_eq!(
        get("deployment", &namespace.0, "web")["spec"]["replicas"],
        3
    );
}
