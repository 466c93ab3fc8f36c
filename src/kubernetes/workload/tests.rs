//! Both ways at once: what is built, with what an API server adds, reads back as what was asked for.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::*;

fn full() -> ServiceSpec {
    ServiceSpec {
        name: "llm".into(),
        namespace: "ml".into(),
        image: "example.net/vllm:1".into(),
        command: Some(vec!["vllm".into(), "serve".into()]),
        args: Some(vec!["--port".into(), "8000".into()]),
        working_dir: Some("/srv".into()),
        user: Some(RunAs {
            user: 1000,
            group: Some(1000),
        }),
        env: [
            ("A".to_owned(), "1".to_owned()),
            ("EMPTY".to_owned(), String::new()),
        ]
        .into(),
        env_from: vec![EnvFrom {
            name: "HF".into(),
            secret: "hub".into(),
            key: "token".into(),
        }],
        secret_env: ["API_KEY".to_owned()].into(),
        secret_env_version: Some(3),
        ports: vec![
            Port {
                name: "http".into(),
                port: 8000,
                protocol: Protocol::Tcp,
            },
            Port {
                name: "dns".into(),
                port: 53,
                protocol: Protocol::Udp,
            },
        ],
        replicas: Some(2),
        cpu_millis: Some(1500),
        memory_mib: Some(16384),
        shm_mib: Some(2048),
        gpu: Some(Gpu { count: 2 }),
        placement: Placement {
            terms: vec![NodeTerm {
                requirements: vec![
                    NodeRequirement {
                        key: "nvidia.com/gpu.product".into(),
                        operator: NodeOperator::In,
                        values: vec!["NVIDIA-L4".into()],
                    },
                    NodeRequirement {
                        key: "nvidia.com/mig.strategy".into(),
                        operator: NodeOperator::DoesNotExist,
                        values: vec![],
                    },
                ],
            }],
            tolerations: vec![Toleration {
                key: "nvidia.com/gpu".into(),
                operator: TolerationOperator::Equal,
                value: "present".into(),
                effect: Some("NoSchedule".into()),
                seconds: None,
            }],
        },
        volumes: [(
            "cache".to_owned(),
            Volume {
                mount_path: "/cache".into(),
                size_gib: 100,
                access_mode: AccessMode::ReadWriteOnce,
                storage_class: Some("retain".into()),
                delete_on_destroy: true,
            },
        )]
        .into(),
        health_check: Some(HealthCheck {
            http_path: "/health".into(),
            port: 8000,
            startup_seconds: 601,
            ..HealthCheck::default()
        }),
        image_pull_secret: Some("registry".into()),
        labels: [("team".to_owned(), "a".to_owned())].into(),
        annotations: [("note".to_owned(), "x".to_owned())].into(),
        stop_grace_seconds: Some(45),
        runtime_class: Some("nvidia".into()),
        service_account: Some("runner".into()),
        node_selector: [("zone".to_owned(), "a".to_owned())].into(),
        tolerations: vec![Toleration {
            key: "own".into(),
            operator: TolerationOperator::Exists,
            value: String::new(),
            effect: None,
            seconds: None,
        }],
        service_type: Some("LoadBalancer".into()),
        priority_class: Some("high".into()),
        rollout: None,
    }
}

fn small() -> ServiceSpec {
    ServiceSpec {
        name: "web".into(),
        namespace: "ml".into(),
        image: "nginx".into(),
        ..ServiceSpec::default()
    }
}

/// What lives after an apply of `spec`, after `change` on the Deployment.
fn live(spec: &ServiceSpec, change: impl FnOnce(&mut Value)) -> Live {
    let objects = build(spec, &Identity::new(&spec.name));
    let mut deployment = objects.deployment;
    // What the API server and its controllers add.
    let body = &mut deployment["spec"];
    body["replicas"] = body["replicas"].as_i64().unwrap_or(1).into();
    body["revisionHistoryLimit"] = 10.into();
    body["progressDeadlineSeconds"] = 600.into();
    if body["strategy"].is_null() {
        body["strategy"] = json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"}});
    }
    let pod = &mut body["template"]["spec"];
    pod["restartPolicy"] = "Always".into();
    pod["dnsPolicy"] = "ClusterFirst".into();
    pod["schedulerName"] = "default-scheduler".into();
    pod["terminationGracePeriodSeconds"] = pod["terminationGracePeriodSeconds"]
        .as_i64()
        .unwrap_or(30)
        .into();
    pod["serviceAccount"] = pod["serviceAccountName"].clone();
    pod["containers"][0]["imagePullPolicy"] = "IfNotPresent".into();
    pod["containers"][0]["terminationMessagePath"] = "/dev/termination-log".into();
    deployment["metadata"]["annotations"]["deployment.kubernetes.io/revision"] = "1".into();
    change(&mut deployment);
    Live {
        deployment: serde_json::from_value(deployment).unwrap(),
        service: objects.service.map(|mut service| {
            service["spec"]["clusterIP"] = "10.0.0.7".into();
            service["spec"]["type"] = service["spec"]["type"]
                .as_str()
                .unwrap_or("ClusterIP")
                .into();
            serde_json::from_value(service).unwrap()
        }),
        claims: objects
            .claims
            .into_values()
            .map(|claim| {
                (
                    claim["metadata"]["name"].as_str().unwrap().to_owned(),
                    serde_json::from_value(claim).unwrap(),
                )
            })
            .collect(),
        secret_keys: (!spec.secret_env.is_empty()).then(|| spec.secret_env.clone()),
        secret_unreadable: false,
    }
}

fn container(deployment: &mut Value) -> &mut Value {
    &mut deployment["spec"]["template"]["spec"]["containers"][0]
}

#[test]
fn what_is_applied_reads_back_without_a_difference() {
    for spec in [full(), small()] {
        assert_eq!(observe(&live(&spec, |_| {}), Lens::Prior(&spec)), spec);
    }
}

#[test]
fn webhooks_defaults_and_sidecars_are_no_difference() {
    let spec = full();
    let live = live(&spec, |deployment| {
        deployment["metadata"]["labels"]["injected"] = "yes".into();
        deployment["metadata"]["annotations"]["policy/checked"] = "yes".into();
        let pod = &mut deployment["spec"]["template"]["spec"];
        pod["containers"]
            .as_array_mut()
            .unwrap()
            .insert(0, json!({"name": "proxy", "image": "envoy"}));
        pod["containers"][1]["env"]
            .as_array_mut()
            .unwrap()
            .push(json!({"name": "INJECTED", "value": "1"}));
        pod["tolerations"]
            .as_array_mut()
            .unwrap()
            .insert(0, json!({"key": "injected", "operator": "Exists"}));
        pod["nodeSelector"]["injected"] = "yes".into();
        pod["volumes"]
            .as_array_mut()
            .unwrap()
            .push(json!({"name": "token", "projected": {}}));
    });
    assert_eq!(observe(&live, Lens::Prior(&spec)), spec);
    assert_eq!(
        unexpressed(&live),
        [
            "container proxy",
            "volume token (not a PersistentVolumeClaim)"
        ]
    );
}

#[test]
fn equal_quantities_in_other_words_are_no_difference() {
    let spec = full();
    let live = live(&spec, |deployment| {
        for part in ["requests", "limits"] {
            container(deployment)["resources"][part]["cpu"] = "1.5".into();
            container(deployment)["resources"][part]["memory"] = "16Gi".into();
        }
    });
    assert_eq!(observe(&live, Lens::Prior(&spec)), spec);
}

#[test]
fn drift_of_each_thing_that_was_set_shows() {
    let spec = full();
    type Change = fn(&mut Value);
    let changes: Vec<(&str, Change)> = vec![
        ("image", |d| container(d)["image"] = "other".into()),
        ("command", |d| container(d)["command"] = Value::Null),
        ("args", |d| container(d)["args"] = json!(["x"])),
        ("working_dir", |d| container(d)["workingDir"] = "/x".into()),
        ("user", |d| {
            container(d)["securityContext"]["runAsGroup"] = 7.into()
        }),
        ("env changed", |d| {
            container(d)["env"][0]["value"] = "2".into()
        }),
        ("env removed", |d| {
            drop(container(d)["env"].as_array_mut().unwrap().remove(0))
        }),
        ("env_from", |d| {
            container(d)["env"][2]["valueFrom"]["secretKeyRef"]["key"] = "x".into()
        }),
        ("secret_env", |d| {
            drop(container(d)["env"].as_array_mut().unwrap().pop())
        }),
        ("replicas", |d| d["spec"]["replicas"] = 5.into()),
        ("cpu limit", |d| {
            container(d)["resources"]["limits"]["cpu"] = "2".into()
        }),
        ("cpu request", |d| {
            container(d)["resources"]["requests"]["cpu"] = "1".into()
        }),
        ("memory", |d| {
            container(d)["resources"]["limits"]["memory"] = "1Gi".into()
        }),
        ("gpu", |d| {
            container(d)["resources"]["limits"]["nvidia.com/gpu"] = "1".into()
        }),
        ("shm", |d| {
            d["spec"]["template"]["spec"]["volumes"][1]["emptyDir"]["sizeLimit"] = "1Gi".into()
        }),
        ("affinity", |d| {
            d["spec"]["template"]["spec"]["affinity"] = Value::Null
        }),
        ("toleration", |d| {
            drop(
                d["spec"]["template"]["spec"]["tolerations"]
                    .as_array_mut()
                    .unwrap()
                    .remove(0),
            )
        }),
        ("own toleration", |d| {
            drop(
                d["spec"]["template"]["spec"]["tolerations"]
                    .as_array_mut()
                    .unwrap()
                    .remove(1),
            )
        }),
        ("mount", |d| {
            container(d)["volumeMounts"][0]["mountPath"] = "/x".into()
        }),
        ("volume", |d| {
            drop(
                d["spec"]["template"]["spec"]["volumes"]
                    .as_array_mut()
                    .unwrap()
                    .remove(0),
            )
        }),
        ("probe path", |d| {
            container(d)["readinessProbe"]["httpGet"]["path"] = "/x".into()
        }),
        ("start-up", |d| {
            container(d)["startupProbe"]["failureThreshold"] = 5.into()
        }),
        ("pull secret", |d| {
            d["spec"]["template"]["spec"]["imagePullSecrets"] = Value::Null
        }),
        ("label", |d| d["metadata"]["labels"]["team"] = "b".into()),
        ("annotation", |d| {
            drop(
                d["metadata"]["annotations"]
                    .as_object_mut()
                    .unwrap()
                    .remove("note"),
            )
        }),
        ("grace", |d| {
            d["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] = 30.into()
        }),
        ("runtime class", |d| {
            d["spec"]["template"]["spec"]["runtimeClassName"] = Value::Null
        }),
        ("service account", |d| {
            d["spec"]["template"]["spec"]["serviceAccountName"] = "x".into()
        }),
        ("node selector", |d| {
            d["spec"]["template"]["spec"]["nodeSelector"]["zone"] = "b".into()
        }),
        ("priority", |d| {
            d["spec"]["template"]["spec"]["priorityClassName"] = "low".into()
        }),
        ("K10 rollout", |d| {
            d["spec"]["strategy"]["rollingUpdate"]["maxSurge"] = "25%".into()
        }),
        ("secret version", |d| {
            d["spec"]["template"]["metadata"]["annotations"][SECRET_VERSION] = "2".into()
        }),
    ];
    for (what, change) in changes {
        assert_ne!(
            observe(&live(&spec, change), Lens::Prior(&spec)),
            spec,
            "{what} changed and nobody saw it"
        );
    }
    let mut lost = live(&spec, |_| {});
    lost.service = None;
    assert!(
        observe(&lost, Lens::Prior(&spec)).ports.is_empty(),
        "a deleted Service"
    );
    let mut lost = live(&spec, |_| {});
    lost.claims.clear();
    assert!(
        observe(&lost, Lens::Prior(&spec)).volumes.is_empty(),
        "a deleted claim"
    );
    let mut lost = live(&spec, |_| {});
    lost.secret_keys = Some(BTreeSet::new());
    assert!(
        observe(&lost, Lens::Prior(&spec)).secret_env.is_empty(),
        "a deleted key of the Secret"
    );
    lost.secret_unreadable = true;
    assert_eq!(
        observe(&lost, Lens::Prior(&spec)),
        spec,
        "K9: no right to read Secrets is no drift"
    );
}

#[test]
fn an_autoscalers_replicas_are_left_alone_and_a_persons_are_drift() {
    let spec = ServiceSpec {
        replicas: Some(2),
        ..small()
    };
    let scaled_by = |manager: &str| {
        live(&spec, |deployment| {
            deployment["spec"]["replicas"] = 7.into();
            deployment["metadata"]["managedFields"] = json!([{"manager": manager, "operation": "Update", "subresource": "scale", "fieldsType": "FieldsV1", "fieldsV1": {"f:spec": {"f:replicas": {}}}}]);
        })
    };
    let hpa = scaled_by("kube-controller-manager");
    assert_eq!(observe(&hpa, Lens::Prior(&spec)), spec);
    let again = build(&spec, &Identity::of(&hpa.deployment)).deployment;
    assert!(
        again["spec"]["replicas"].is_null(),
        "the next apply would fight the autoscaler"
    );
    assert_eq!(observe(&hpa, Lens::Import).replicas, None);
    assert_eq!(
        observe(&scaled_by("kubectl"), Lens::Prior(&spec)).replicas,
        Some(7)
    );
}

#[test]
fn import_of_what_loomplane_made_is_what_was_asked_for() {
    let spec = full();
    let mut imported = observe(&live(&spec, |_| {}), Lens::Import);
    // What can't be told apart or is not on the cluster: whose a toleration is, and how the volume ends.
    assert_eq!(imported.placement.tolerations.len(), 2);
    imported.placement.tolerations.truncate(1);
    imported.tolerations.clone_from(&spec.tolerations);
    imported.volumes.get_mut("cache").unwrap().delete_on_destroy = true;
    imported.health_check.as_mut().unwrap().startup_seconds = 601;
    assert_eq!(imported, spec);
    assert_eq!(observe(&live(&small(), |_| {}), Lens::Import), small());
}

#[test]
fn a_deployment_of_others_keeps_its_selector_container_and_claims() {
    let deployment: k8s_openapi::api::apps::v1::Deployment = serde_json::from_value(json!({
        "metadata": {"name": "llm", "namespace": "ml"},
        "spec": {
            "selector": {"matchLabels": {"app": "llm"}},
            "template": {
                "metadata": {"labels": {"app": "llm"}},
                "spec": {"containers": [{"name": "server", "image": "x"}], "volumes": [{"name": "cache", "persistentVolumeClaim": {"claimName": "old-claim"}}]},
            },
        },
    }))
    .unwrap();
    let identity = Identity::of(&deployment);
    let built = build(&full(), &identity);
    assert_eq!(
        built.deployment["spec"]["selector"],
        json!({"matchLabels": {"app": "llm"}})
    );
    assert_eq!(
        built.deployment["spec"]["template"]["metadata"]["labels"]["app"],
        "llm"
    );
    assert_eq!(
        built.deployment["spec"]["template"]["spec"]["containers"][0]["name"],
        "server"
    );
    assert_eq!(built.claims["cache"]["metadata"]["name"], "old-claim");
    assert_eq!(
        built.service.unwrap()["spec"]["selector"],
        json!({"app": "llm"})
    );
}

#[test]
fn k10_a_gpu_service_rolls_without_a_surge_and_the_argument_wins() {
    let strategy = |spec: &ServiceSpec| {
        build(spec, &Identity::new(&spec.name)).deployment["spec"]["strategy"]["rollingUpdate"]
            .clone()
    };
    assert_eq!(
        strategy(&full()),
        json!({"maxSurge": 0, "maxUnavailable": 1})
    );
    let own = Rollout {
        max_surge: "50%".into(),
        max_unavailable: "0".into(),
    };
    assert_eq!(
        strategy(&ServiceSpec {
            rollout: Some(own),
            ..full()
        }),
        json!({"maxSurge": "50%", "maxUnavailable": 0})
    );
    assert!(
        strategy(&small()).is_null(),
        "a CPU service keeps the cluster's default"
    );
}

#[test]
fn k5_a_gpu_is_a_limit_and_memory_backs_shm() {
    let built = build(&full(), &Identity::new("llm")).deployment;
    let pod = &built["spec"]["template"]["spec"];
    assert_eq!(
        pod["containers"][0]["resources"]["limits"][GPU_RESOURCE],
        "2"
    );
    assert_eq!(
        pod["containers"][0]["resources"]["requests"],
        pod["containers"][0]["resources"]["limits"]
    );
    assert_eq!(
        pod["volumes"][1]["emptyDir"],
        json!({"medium": "Memory", "sizeLimit": "2048Mi"})
    );
}

#[test]
fn no_secret_value_is_in_the_objects() {
    let built = build(&full(), &Identity::new("llm"));
    assert_eq!(
        built.deployment["spec"]["template"]["spec"]["containers"][0]["env"][3]["valueFrom"]["secretKeyRef"],
        json!({"name": "llm-env", "key": "API_KEY"})
    );
    let values: BTreeMap<String, secrecy::SecretString> =
        [("API_KEY".to_owned(), "s3cret".to_owned().into())].into();
    assert_eq!(
        build::secret(&full(), &values)["data"]["API_KEY"],
        "czNjcmV0"
    );
}
