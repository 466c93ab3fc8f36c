//! Apply, read, update, delete.

use super::*;

#[tokio::test]
async fn an_applied_service_reads_back_without_a_difference_and_is_owned_by_server_side_apply() {
    let namespace = Namespace::new("apply");
    let cluster = cluster();
    let spec = full(&namespace);
    let dry = cluster
        .create_service(
            &spec,
            &ApplyOptions {
                dry_run: true,
                secret_values: secrets(),
                ..options("t1")
            },
            &never(),
        )
        .await
        .unwrap();
    assert!(dry.applied.is_empty());
    assert_eq!(
        get("deployment", &namespace.0, "web"),
        Value::Null,
        "a dry run stores nothing"
    );

    let made = cluster
        .create_service(
            &spec,
            &ApplyOptions {
                secret_values: secrets(),
                ..options("t1")
            },
            &never(),
        )
        .await
        .unwrap();
    assert_eq!(
        made.applied
            .iter()
            .map(|made| made.kind)
            .collect::<Vec<_>>(),
        [Kind::Claim, Kind::Secret, Kind::Service, Kind::Deployment]
    );
    let found = read(&cluster, &spec).await;
    assert_eq!(found.unfinished, None);
    assert_eq!(observe(&found.live, Lens::Prior(&spec)), spec);
    assert_eq!(found.live.secret_keys, Some(["API_KEY".to_owned()].into()));
    for (kind, name) in [
        ("deployment", "web"),
        ("service", "web"),
        ("secret", "web-env"),
        ("pvc", "web-cache"),
    ] {
        let object = get(kind, &namespace.0, name);
        assert!(
            !object.to_string().contains("loomplane.dev/unfinished\":"),
            "{kind} still carries the token: {object}"
        );
        let managers: Vec<(&str, &str)> = object["metadata"]["managedFields"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|entry| entry["manager"] == "loomplane")
            .map(|entry| {
                (
                    entry["manager"].as_str().unwrap(),
                    entry["operation"].as_str().unwrap(),
                )
            })
            .collect();
        assert_eq!(managers, [("loomplane", "Apply")], "{kind}");
    }

    // The same again changes nothing.
    let generation = get("deployment", &namespace.0, "web")["metadata"]["generation"].clone();
    cluster
        .update_service(&found, &spec, &options("t2"), &never())
        .await
        .unwrap();
    assert_eq!(
        get("deployment", &namespace.0, "web")["metadata"]["generation"],
        generation
    );

    // What is taken out of the configuration goes; what only it needed goes too; the claim stays.
    let less = ServiceSpec {
        env: [("A".to_owned(), "3".to_owned())].into(),
        ports: Vec::new(),
        service_type: None,
        secret_env: Default::default(),
        secret_env_version: None,
        volumes: BTreeMap::new(),
        health_check: None,
        command: None,
        ..spec.clone()
    };
    cluster
        .update_service(&found, &less, &options("t3"), &never())
        .await
        .unwrap();
    let found = read(&cluster, &less).await;
    assert_eq!(observe(&found.live, Lens::Prior(&less)), less);
    let container =
        &get("deployment", &namespace.0, "web")["spec"]["template"]["spec"]["containers"][0];
    assert_eq!(container["env"].as_array().unwrap().len(), 2, "{container}");
    assert!(
        container["command"].is_null()
            && container["livenessProbe"].is_null()
            && container["ports"].is_null(),
        "{container}"
    );
    assert_eq!(get("service", &namespace.0, "web"), Value::Null);
    assert_eq!(get("secret", &namespace.0, "web-env"), Value::Null);
    assert_ne!(get("pvc", &namespace.0, "web-cache"), Value::Null);

    // And back, with the kept claim.
    cluster
        .update_service(
            &found,
            &spec,
            &ApplyOptions {
                secret_values: secrets(),
                ..options("t4")
            },
            &never(),
        )
        .await
        .unwrap();
    assert_eq!(
        observe(&read(&cluster, &spec).await.live, Lens::Prior(&spec)),
        spec
    );
}

#[tokio::test]
async fn a_field_that_the_api_refuses_is_told_and_what_was_made_is_reported() {
    let namespace = Namespace::new("refused");
    let spec = ServiceSpec {
        env: [("not a name=".to_owned(), "1".to_owned())].into(),
        ..small(&namespace)
    };
    let failure = cluster()
        .create_service(&spec, &options("t"), &never())
        .await
        .unwrap_err();
    assert!(
        matches!(&failure.error, Error::Refused { code: 422, .. }),
        "{:?}",
        failure.error
    );
    assert_eq!(
        failure
            .applied
            .iter()
            .map(|made| made.kind)
            .collect::<Vec<_>>(),
        [Kind::Service]
    );
    // The next apply of the same service goes on from there.
    cluster()
        .create_service(&small(&namespace), &options("t2"), &never())
        .await
        .unwrap();
}

#[tokio::test]
async fn delete_waits_until_it_is_gone_and_keeps_what_is_to_be_kept() {
    let namespace = Namespace::new("delete");
    let cluster = cluster();
    let spec = full(&namespace);
    let made = cluster
        .create_service(
            &spec,
            &ApplyOptions {
                secret_values: secrets(),
                ..options("t")
            },
            &never(),
        )
        .await
        .unwrap();
    let uid = made
        .applied
        .iter()
        .find(|made| made.kind == Kind::Deployment)
        .unwrap()
        .uid
        .clone();
    let deletion = |uid: &str, claims: &[&str]| Deletion {
        namespace: namespace.0.clone(),
        name: "web".into(),
        uid: Some(uid.to_owned()),
        token: None,
        claims: claims.iter().map(|claim| (*claim).to_owned()).collect(),
        timeout: Duration::from_secs(60),
    };
    cluster
        .delete_service(
            &deletion("00000000-0000-0000-0000-000000000000", &["web-cache"]),
            &never(),
        )
        .await
        .unwrap();
    assert_ne!(
        get("deployment", &namespace.0, "web"),
        Value::Null,
        "another uid is left alone"
    );
    cluster
        .delete_service(&deletion(&uid, &[]), &never())
        .await
        .unwrap();
    assert!(
        cluster
            .read_service(&namespace.0, "web", &never())
            .await
            .unwrap()
            .is_none()
    );
    assert_eq!(get("service", &namespace.0, "web"), Value::Null);
    assert_eq!(get("secret", &namespace.0, "web-env"), Value::Null);
    assert!(
        get("pvc", &namespace.0, "web-cache")["metadata"]["deletionTimestamp"].is_null(),
        "the claim is kept"
    );
    assert_ne!(
        get("pvc", &namespace.0, "web-cache"),
        Value::Null,
        "the claim is kept"
    );
    // Gone is done; and now the claim too.
    cluster
        .delete_service(&deletion(&uid, &["web-cache"]), &never())
        .await
        .unwrap();
    assert_eq!(get("pvc", &namespace.0, "web-cache"), Value::Null);

    // A finalizer that nobody removes: the wait ends and names it.
    let made = cluster
        .create_service(&small(&namespace), &options("t"), &never())
        .await
        .unwrap();
    kubectl(&[
        "patch",
        "deployment",
        "web",
        "-n",
        &namespace.0,
        "--type=merge",
        "-p",
        "{\"metadata\":{\"finalizers\":[\"example.net/hold\"]}}",
    ]);
    let stuck = Deletion {
        timeout: Duration::from_secs(2),
        ..deletion(&made.applied.last().unwrap().uid, &[])
    };
    let error = cluster
        .delete_service(&stuck, &never())
        .await
        .unwrap_err()
        .render();
    assert!(
        error.contains("still there after 2 s") && error.contains("example.net/hold"),
        "{error}"
    );
    kubectl(&[
        "patch",
        "deployment",
        "web",
        "-n",
        &namespace.0,
        "--type=merge",
        "-p",
        "{\"metadata\":{\"finalizers\":null}}",
    ]);
}
