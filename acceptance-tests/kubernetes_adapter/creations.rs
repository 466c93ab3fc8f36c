//! Rule G10: whose a creation is while it goes on, and who may go on with it after.

use super::*;

/// Creates and holds, as an apply does that waits for the rollout.
fn holding(token: &str) -> ApplyOptions {
    ApplyOptions {
        hold: true,
        ..options(token)
    }
}

fn mark(namespace: &Namespace) -> Value {
    get("deployment", &namespace.0, "web")["metadata"]["labels"]["loomplane.dev/unfinished"].clone()
}

#[tokio::test]
async fn g10_leftovers_without_a_deployment_are_taken_in_at_once_and_named() {
    let namespace = Namespace::new("leftovers");
    let cluster = cluster();
    let spec = small(&namespace);
    let made = cluster
        .create_service(&spec, &options("a"), &never())
        .await
        .unwrap();
    assert!(made.taken_in.is_empty() && made.hold.is_none());
    assert_eq!(mark(&namespace), Value::Null);
    let service = get("service", &namespace.0, "web")["metadata"]["uid"].clone();
    // Beside a Deployment that is there it is refused, with the way to import it.
    let refused = cluster
        .create_service(&spec, &options("b"), &never())
        .await
        .unwrap_err();
    assert!(refused.applied.is_empty());
    assert!(
        refused.error.render().contains("Deployment"),
        "{:?}",
        refused.error
    );
    kubectl(&["delete", "deployment", "web", "-n", &namespace.0]);
    let begun = Instant::now();
    let again = cluster
        .create_service(&spec, &options("c"), &never())
        .await
        .unwrap();
    assert!(
        begun.elapsed() < Duration::from_secs(15),
        "nobody holds a leftover"
    );
    assert_eq!(again.taken_in.len(), 1, "{:?}", again.taken_in);
    assert_eq!(
        get("service", &namespace.0, "web")["metadata"]["uid"],
        service
    );
    assert_eq!(
        observe(&read(&cluster, &spec).await.live, Lens::Prior(&spec)),
        spec
    );
}

#[tokio::test]
async fn g10_a_creation_whose_holder_lives_is_refused_and_one_whose_holder_is_gone_taken_over() {
    let namespace = Namespace::new("held");
    let (first, second) = (cluster(), cluster());
    let spec = small(&namespace);
    let cancel = never();
    let made = first
        .create_service(&spec, &holding("a"), &cancel)
        .await
        .unwrap();
    let hold = made.hold.unwrap();
    assert!(mark(&namespace).as_str().unwrap().starts_with("a.20"));
    // The Service is done; only the Deployment is held.
    assert!(
        get("service", &namespace.0, "web")["metadata"]["labels"]["loomplane.dev/unfinished"]
            .is_null()
    );

    let second_options = holding("b");
    let refused = tokio::select! {
        refused = second.create_service(&spec, &second_options, &cancel) => refused.unwrap_err(),
        lost = first.keep_hold(&hold, &cancel) => panic!("{lost}"),
    };
    assert!(
        matches!(refused.error, Error::BeingCreated { .. }),
        "{:?}",
        refused.error
    );
    assert!(refused.applied.is_empty());
    assert!(mark(&namespace).as_str().unwrap().starts_with("a.20"));

    // Now the holder is gone: nothing renews the mark.
    let uid = get("deployment", &namespace.0, "web")["metadata"]["uid"].clone();
    let other = ServiceSpec {
        image: "example.net/web:2".into(),
        env: [("A".to_owned(), "1".to_owned())].into(),
        ..spec.clone()
    };
    let taken = second
        .create_service(&other, &second_options, &cancel)
        .await
        .unwrap();
    assert_eq!(taken.taken_in.len(), 2, "{:?}", taken.taken_in);
    assert!(mark(&namespace).as_str().unwrap().starts_with("b.20"));
    assert_eq!(
        get("deployment", &namespace.0, "web")["metadata"]["uid"],
        uid
    );
    // It comes back, and learns that it is no longer the holder.
    let lost = tokio::time::timeout(Duration::from_secs(60), first.keep_hold(&hold, &cancel))
        .await
        .unwrap();
    assert!(matches!(lost, Error::TakenOver { .. }), "{lost:?}");
    let found = read(&first, &other).await;
    assert_eq!(found.unfinished.as_deref(), Some("b"));
    let refused = first.release(&hold, &found, &cancel).await.unwrap_err();
    assert!(matches!(refused, Error::TakenOver { .. }), "{refused:?}");
    second
        .release(&taken.hold.unwrap(), &found, &cancel)
        .await
        .unwrap();
    assert_eq!(mark(&namespace), Value::Null);
    assert_eq!(
        observe(&read(&second, &other).await.live, Lens::Prior(&other)),
        other,
        "what the first set and the second did not is gone"
    );
}

#[tokio::test]
async fn an_update_ends_a_creation_that_could_not_take_its_mark_off() {
    let namespace = Namespace::new("markleft");
    let cluster = cluster();
    let spec = small(&namespace);
    cluster
        .create_service(&spec, &holding("a"), &never())
        .await
        .unwrap();
    let next = ServiceSpec {
        env: [("A".to_owned(), "9".to_owned())].into(),
        ..spec
    };
    let found = read(&cluster, &next).await;
    assert_eq!(found.unfinished.as_deref(), Some("a"));
    cluster
        .update_service(&found, &next, &options("b"), &never())
        .await
        .unwrap();
    assert_eq!(mark(&namespace), Value::Null);
    // What the creation's POST set is ours to remove.
    assert_eq!(
        observe(&read(&cluster, &next).await.live, Lens::Prior(&next)),
        next
    );
}
