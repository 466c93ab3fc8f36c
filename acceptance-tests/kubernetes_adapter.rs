//! The Kubernetes adapter against a real control plane. `LOOMPLANE_TEST_KUBECONFIG` names its administrator's kubeconfig.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    reason = "tests fail by panicking, and print their figures"
)]

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

mod access;
mod creations;
mod fault_proxy;
mod lifecycle;
mod many;
mod nodes;
mod ownership;
mod rollout;
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
