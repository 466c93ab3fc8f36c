//! A cluster of many nodes, as heavy as real ones.

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
                post(&client, &url, &token, &node).await;
            }
        });
    }
    while let Some(worker) = workers.join_next().await {
        worker.unwrap();
    }
}

/// Makes one node, again where a busy API server dropped the connection or asked to wait.
async fn post(client: &reqwest::Client, url: &str, token: &str, node: &Value) {
    let mut last = String::new();
    for attempt in 0..10 {
        tokio::time::sleep(Duration::from_millis(200 * attempt)).await;
        match client.post(url).bearer_auth(token).json(node).send().await {
            Ok(answer) if answer.status().is_success() || answer.status() == 409 => return,
            Ok(answer) => last = format!("{}: {:?}", answer.status(), answer.text().await),
            Err(error) => last = format!("{error:?}"),
        }
    }
    panic!("the API server takes no node: {last}");
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
