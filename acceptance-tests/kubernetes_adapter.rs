//! The Kubernetes adapter against a real control plane. `LOOMPLANE_TEST_KUBECONFIG` names its administrator's kubeconfig.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use loomplane::kubernetes::rollout::RolloutLimits;
use loomplane::kubernetes::workload::*;
use loomplane::kubernetes::*;
use serde_json::{Value, json};

mod fault_proxy;
use fault_proxy::FaultProxy;

fn kubeconfig() -> String {
    std::env::var("LOOMPLANE_TEST_KUBECONFIG")
        .expect("LOOMPLANE_TEST_KUBECONFIG is not set: start a control plane and name its admin kubeconfig there")
}

fn admin() -> ConnectionConfig {
    ConnectionConfig {
        config_path: Some(kubeconfig()),
        ..Default::default()
    }
}

fn cluster() -> Cluster {
    Cluster::new("bench", admin())
}

fn kubectl_path() -> std::ffi::OsString {
    let cached = std::env::home_dir()
        .unwrap()
        .join(".cache/loomplane-bench/bin/kubectl");
    if cached.exists() {
        cached.into()
    } else {
        "kubectl".into()
    }
}

fn kubectl_with(args: &[&str], input: &str) -> String {
    let mut child = Command::new(kubectl_path())
        .args(args)
        .env("KUBECONFIG", kubeconfig())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child
        .stdin
        .take()
        .unwrap()
        .write_all(input.as_bytes())
        .unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(
        output.status.success(),
        "kubectl {args:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).unwrap()
}

fn kubectl(args: &[&str]) -> String {
    kubectl_with(args, "")
}

fn get(kind: &str, namespace: &str, name: &str) -> Value {
    let text = kubectl(&[
        "get",
        kind,
        name,
        "-n",
        namespace,
        "-o",
        "json",
        "--ignore-not-found",
        "--show-managed-fields",
    ]);
    if text.is_empty() {
        Value::Null
    } else {
        serde_json::from_str(&text).unwrap()
    }
}

/// A namespace of its own for each test, removed afterwards.
struct Namespace(String);

impl Namespace {
    fn new(name: &str) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let name = format!(
            "{name}-{}-{}",
            std::process::id(),
            COUNT.fetch_add(1, Ordering::SeqCst)
        );
        kubectl(&["create", "namespace", &name]);
        Self(name)
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        let _ = Command::new(kubectl_path())
            .args(["delete", "namespace", &self.0, "--wait=false"])
            .env("KUBECONFIG", kubeconfig())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
    }
}

/// A GPU node that only this test's pods select.
struct GpuNode(String);

impl GpuNode {
    fn new(name: &str, gpus: u32) -> Self {
        let name = format!("{name}-{}", std::process::id());
        let node = json!({
            "apiVersion": "v1", "kind": "Node",
            "metadata": {"name": name, "labels": {"test-node": name, "kubernetes.io/arch": "amd64"}},
            "status": {
                "allocatable": {"cpu": "8", "memory": "32Gi", "pods": "110", "nvidia.com/gpu": gpus.to_string()},
                "capacity": {"cpu": "8", "memory": "32Gi", "pods": "110", "nvidia.com/gpu": gpus.to_string()},
                "conditions": [{"type": "Ready", "status": "True"}],
            },
        });
        kubectl_with(&["create", "-f", "-"], &node.to_string());
        kubectl(&[
            "patch",
            "node",
            &name,
            "--subresource=status",
            "--type=merge",
            "-p",
            &json!({"status": node["status"]}).to_string(),
        ]);
        // Admission taints a new node as not ready, and the controller that would end that is off on the bench.
        kubectl(&[
            "patch",
            "node",
            &name,
            "--type=merge",
            "-p",
            "{\"spec\":{\"taints\":null}}",
        ]);
        Self(name)
    }
}

impl Drop for GpuNode {
    fn drop(&mut self) {
        let _ = Command::new(kubectl_path())
            .args(["delete", "node", &self.0, "--wait=false"])
            .env("KUBECONFIG", kubeconfig())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
    }
}

fn small(namespace: &Namespace) -> ServiceSpec {
    ServiceSpec {
        name: "web".into(),
        namespace: namespace.0.clone(),
        image: "example.net/web:1".into(),
        replicas: Some(1),
        cpu_millis: Some(100),
        memory_mib: Some(64),
        env: [
            ("A".to_owned(), "1".to_owned()),
            ("B".to_owned(), "2".to_owned()),
        ]
        .into(),
        ports: vec![Port {
            name: "http".into(),
            port: 8080,
            protocol: Protocol::Tcp,
        }],
        ..ServiceSpec::default()
    }
}

fn gpu_on(namespace: &Namespace, node: &GpuNode, count: u32) -> ServiceSpec {
    ServiceSpec {
        gpu: Some(Gpu { count }),
        placement: Placement {
            terms: vec![NodeTerm {
                requirements: vec![NodeRequirement {
                    key: "test-node".into(),
                    operator: NodeOperator::In,
                    values: vec![node.0.clone()],
                }],
            }],
            tolerations: Vec::new(),
        },
        ..small(namespace)
    }
}

fn options(token: &str) -> ApplyOptions {
    ApplyOptions {
        token: token.to_owned(),
        import_id: "bench/ns/web".to_owned(),
        ..ApplyOptions::default()
    }
}

fn never() -> Cancel {
    Cancel::never()
}

async fn read(cluster: &Cluster, spec: &ServiceSpec) -> Found {
    cluster
        .read_service(&spec.namespace, &spec.name, &never())
        .await
        .unwrap()
        .expect("the service is there")
}

fn full(namespace: &Namespace) -> ServiceSpec {
    ServiceSpec {
        command: Some(vec!["serve".into()]),
        args: Some(vec!["--x".into(), "1".into()]),
        working_dir: Some("/srv".into()),
        user: Some(RunAs {
            user: 1000,
            group: Some(1000),
        }),
        env_from: vec![EnvFrom {
            name: "HF".into(),
            secret: "hub".into(),
            key: "token".into(),
        }],
        secret_env: ["API_KEY".to_owned()].into(),
        secret_env_version: Some(1),
        ports: vec![
            Port {
                name: "http".into(),
                port: 8080,
                protocol: Protocol::Tcp,
            },
            Port {
                name: "dns".into(),
                port: 53,
                protocol: Protocol::Udp,
            },
        ],
        cpu_millis: Some(1500),
        memory_mib: Some(2048),
        shm_mib: Some(1024),
        gpu: Some(Gpu { count: 1 }),
        placement: Placement {
            terms: vec![
                NodeTerm {
                    requirements: vec![
                        NodeRequirement {
                            key: "nvidia.com/gpu.product".into(),
                            operator: NodeOperator::In,
                            values: vec!["NVIDIA-L4".into(), "L4".into()],
                        },
                        NodeRequirement {
                            key: "nvidia.com/mig.strategy".into(),
                            operator: NodeOperator::DoesNotExist,
                            values: vec![],
                        },
                    ],
                },
                NodeTerm {
                    requirements: vec![NodeRequirement {
                        key: "x".into(),
                        operator: NodeOperator::Exists,
                        values: vec![],
                    }],
                },
            ],
            tolerations: vec![Toleration {
                key: "nvidia.com/gpu".into(),
                operator: TolerationOperator::Equal,
                value: String::new(),
                effect: Some("NoSchedule".into()),
                seconds: None,
            }],
        },
        volumes: [(
            "cache".to_owned(),
            Volume {
                mount_path: "/cache".into(),
                size_gib: 10,
                access_mode: AccessMode::ReadWriteOnce,
                storage_class: Some("some-class".into()),
                delete_on_destroy: false,
            },
        )]
        .into(),
        health_check: Some(HealthCheck {
            http_path: "/health".into(),
            port: 8080,
            startup_seconds: 601,
            ..HealthCheck::default()
        }),
        image_pull_secret: Some("registry".into()),
        labels: [("team".to_owned(), "a".to_owned())].into(),
        annotations: [("note".to_owned(), "x".to_owned())].into(),
        stop_grace_seconds: Some(5),
        service_account: Some("runner".into()),
        node_selector: [("zone".to_owned(), "a".to_owned())].into(),
        tolerations: vec![Toleration {
            key: "own".into(),
            operator: TolerationOperator::Exists,
            value: String::new(),
            effect: Some("NoExecute".into()),
            seconds: Some(60),
        }],
        service_type: Some("NodePort".into()),
        ..small(namespace)
    }
}

fn secrets() -> Option<BTreeMap<String, secrecy::SecretString>> {
    Some([("API_KEY".to_owned(), "s3cret".to_owned().into())].into())
}

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
    assert!(dry.is_empty());
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
        made.iter().map(|made| made.kind).collect::<Vec<_>>(),
        [Kind::Claim, Kind::Secret, Kind::Service, Kind::Deployment]
    );
    let found = read(&cluster, &spec).await;
    assert!(!found.unfinished);
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
            && text.contains("terraform import ADDRESS 'bench/ns/web'"),
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
        matches!(failure.error, Error::AlreadyExists { .. }),
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
        ("nginx", Some(1))
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
        failures
            .iter()
            .all(|error| matches!(error, Error::AlreadyExists { .. })),
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
            "metadata": {"name": "web", "namespace": namespace.0, "labels": {"loomplane.dev/service": service}, "annotations": {"loomplane.dev/unfinished": "old"}},
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
    cluster
        .create_service(&spec, &options("t"), &never())
        .await
        .unwrap();
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

#[tokio::test]
async fn k10_a_new_image_rolls_out_on_a_full_node_over_a_connection_that_keeps_dropping() {
    let namespace = Namespace::new("k10");
    let node = GpuNode::new("full", 1);
    let proxy = FaultProxy::start(&kubeconfig()).await;
    let cluster = Cluster::new(
        "bench",
        ConnectionConfig {
            host: Some(proxy.url()),
            ..admin()
        },
    );
    let spec = gpu_on(&namespace, &node, 1);
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
    proxy.cut_all_every(Duration::from_millis(400));
    cluster
        .update_service(&found, &next, &options("t"), &never())
        .await
        .unwrap();
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
    assert_eq!(running.len(), 1);
    assert_eq!(
        running[0]["spec"]["containers"][0]["image"],
        "example.net/web:2"
    );
    assert_eq!(running[0]["spec"]["nodeName"], node.0.as_str());
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
        .iter()
        .find(|made| made.kind == Kind::Deployment)
        .unwrap()
        .uid
        .clone();
    let deletion = |uid: &str, claims: &[&str]| Deletion {
        namespace: namespace.0.clone(),
        name: "web".into(),
        uid: Some(uid.to_owned()),
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
        ..deletion(&made.last().unwrap().uid, &[])
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

/// Nodes of the large cluster.
const MANY: usize = 5000;
/// Environment of the child that measures its own memory.
const MEASURE: &str = "LOOMPLANE_TEST_MEASURE_NODES";

fn gpu_labels(key: &str) -> bool {
    key.starts_with("nvidia.com/") || key == "node.kubernetes.io/instance-type" || key == "many"
}

/// A figure of this process's memory, in KiB.
fn memory(which: &str) -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix(which))
        .unwrap();
    line.trim().trim_end_matches(" kB").trim().parse().unwrap()
}

/// Runs only as a child of the test below: lists in a process of its own, so that its memory is its own.
#[tokio::test]
#[ignore = "started by k9_five_thousand_nodes"]
async fn measure_node_list() {
    if std::env::var(MEASURE).is_err() {
        return;
    }
    let cluster = cluster();
    // The connection, TLS and the test's own code are not the list's.
    cluster.target_uid(&never()).await.unwrap();
    let before = memory("VmHWM:");
    let nodes = cluster.nodes(gpu_labels, &never()).await.unwrap();
    println!(
        "nodes={} before_kib={before} peak_kib={} after_kib={}",
        nodes
            .iter()
            .filter(|node| node.labels.contains_key("many"))
            .count(),
        memory("VmHWM:"),
        memory("VmRSS:")
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn k9_five_thousand_nodes_are_one_slim_list_also_over_a_connection_that_drops() {
    many::create(MANY).await;
    let output = Command::new(std::env::current_exe().unwrap())
        .args([
            "kubernetes_adapter::measure_node_list",
            "--exact",
            "--ignored",
            "--nocapture",
        ])
        .env(MEASURE, "1")
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let value = |key: &str| -> usize {
        text.split(key)
            .nth(1)
            .and_then(|rest| rest.split_whitespace().next())
            .and_then(|number| number.parse().ok())
            .unwrap_or_else(|| panic!("{text}"))
    };
    assert_eq!(value("nodes="), MANY);
    let added = value("peak_kib=") - value("before_kib=");
    println!("listing {MANY} nodes adds {added} KiB to a process's peak");
    assert!(added < 20 << 10, "{text}");

    // Fifty callers, one list; the first connections break in the middle of an answer.
    let proxy = FaultProxy::start(&kubeconfig()).await;
    proxy.cut_after(400_000, 4);
    let cluster = Cluster::new(
        "bench",
        ConnectionConfig {
            host: Some(proxy.url()),
            ..admin()
        },
    );
    let callers: Vec<_> = (0..50)
        .map(|_| {
            let cluster = cluster.clone();
            tokio::spawn(async move { cluster.nodes(gpu_labels, &never()).await.unwrap() })
        })
        .collect();
    let mut lists = Vec::new();
    for caller in callers {
        lists.push(caller.await.unwrap());
    }
    assert!(
        lists.iter().all(|list| Arc::ptr_eq(list, &lists[0])),
        "each caller listed for itself"
    );
    let many: Vec<_> = lists[0]
        .iter()
        .filter(|node| node.labels.contains_key("many"))
        .collect();
    assert_eq!(many.len(), MANY);
    assert_eq!(many[0].allocatable["nvidia.com/gpu"], 8);
    assert!(many.iter().all(|node| !node.labels.contains_key("team")));
    assert_eq!(proxy.cuts(), 4);
    many::delete().await;
}

mod many {
    use super::*;

    fn client() -> (reqwest::Client, String, String) {
        let config: Value = serde_json::from_str(&kubectl(&[
            "config",
            "view",
            "--raw",
            "--flatten",
            "-o",
            "json",
        ]))
        .unwrap();
        let cluster = &config["clusters"][0]["cluster"];
        use base64::Engine as _;
        let ca = base64::engine::general_purpose::STANDARD
            .decode(cluster["certificate-authority-data"].as_str().unwrap())
            .unwrap();
        let client = reqwest::Client::builder()
            .tls_certs_only(reqwest::Certificate::from_pem_bundle(&ca).unwrap())
            .build()
            .unwrap();
        (
            client,
            cluster["server"].as_str().unwrap().to_owned(),
            config["users"][0]["user"]["token"]
                .as_str()
                .unwrap()
                .to_owned(),
        )
    }

    /// Nodes as heavy as real ones: some 12 KB, most of it image names.
    pub(super) async fn create(count: usize) {
        let (client, server, token) = client();
        let next = Arc::new(AtomicUsize::new(0));
        let mut workers = tokio::task::JoinSet::new();
        for _ in 0..12 {
            let (client, url, token, next) = (
                client.clone(),
                format!("{server}/api/v1/nodes"),
                token.clone(),
                Arc::clone(&next),
            );
            workers.spawn(async move {
                loop {
                    let number = next.fetch_add(1, Ordering::SeqCst);
                    if number >= count {
                        return;
                    }
                    let images: Vec<Value> = (0..40)
                        .map(|image| json!({"names": [format!("registry.example.net/team-{image}/some-quite-long-image-name@sha256:{:064x}", image * 7919), format!("registry.example.net/team-{image}/some-quite-long-image-name:v1.{image}")], "sizeBytes": 123_456_789}))
                        .collect();
                    let mut labels = json!({"many": "yes", "nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3", "node.kubernetes.io/instance-type": "p5.48xlarge", "kubernetes.io/arch": "amd64"});
                    for extra in 0..30 {
                        labels[format!("feature.node.kubernetes.io/cpu-{extra}")] = "true".into();
                    }
                    let resources = json!({"cpu": "192", "memory": "2Ti", "pods": "110", "nvidia.com/gpu": "8"});
                    let node = json!({
                        "apiVersion": "v1", "kind": "Node",
                        "metadata": {"name": format!("many-{number:05}"), "labels": labels},
                        // Out of the scheduler's way, for the tests that run beside.
                        "spec": {"unschedulable": true, "taints": [{"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}]},
                        "status": {"allocatable": resources, "capacity": resources, "images": images, "conditions": [{"type": "Ready", "status": "True"}]},
                    });
                    let answer = client.post(&url).bearer_auth(&token).json(&node).send().await.unwrap();
                    assert!(answer.status().is_success() || answer.status() == 409, "{}", answer.text().await.unwrap());
                }
            });
        }
        while let Some(worker) = workers.join_next().await {
            worker.unwrap();
        }
    }

    pub(super) async fn delete() {
        let (client, server, token) = client();
        let answer = client
            .delete(format!("{server}/api/v1/nodes?labelSelector=many"))
            .bearer_auth(&token)
            .send()
            .await
            .unwrap();
        assert!(answer.status().is_success(), "{}", answer.status());
    }
}
