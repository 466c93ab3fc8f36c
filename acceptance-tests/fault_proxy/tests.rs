//! The harness itself, tried.

use std::time::Instant;

use super::*;

/// curl as the client: it says plainly what it saw. Exit code, HTTP status, body.
fn curl(proxy: &FaultProxy, path: &str, options: &[&str]) -> (i32, String, String) {
    let config: Value =
        serde_json::from_slice(&std::fs::read(proxy.kubeconfig()).unwrap()).unwrap();
    let cluster = &config["clusters"][0]["cluster"];
    let token = config["users"][0]["user"]["token"].as_str().unwrap();
    let done = std::process::Command::new("curl")
        .args(["-sS", "--noproxy", "*", "-w", "\n%{http_code}"])
        .args([
            "--cacert",
            cluster["certificate-authority"].as_str().unwrap(),
        ])
        .args(["-H", &format!("Authorization: Bearer {token}")])
        .args(options)
        .arg(format!("{}{path}", cluster["server"].as_str().unwrap()))
        .output()
        .expect("curl starts");
    let text = String::from_utf8_lossy(&done.stdout).into_owned();
    let (body, status) = text.rsplit_once('\n').unwrap();
    (
        done.status.code().unwrap(),
        status.to_owned(),
        body.to_owned(),
    )
}

#[test]
fn each_fault_is_what_a_client_sees() {
    let Some(cluster) = Cluster::shared() else {
        return;
    };
    let proxy = FaultProxy::start(cluster);
    let nodes = "/api/v1/nodes";
    assert_eq!(curl(&proxy, nodes, &[]).1, "200");

    proxy.add(Rule::on("GET", nodes).times(1).fault(Fault::throttle(7)));
    let (_, status, body) = curl(&proxy, nodes, &["-i"]);
    assert_eq!(status, "429");
    assert!(
        body.contains("retry-after: 7") && body.contains("TooManyRequests"),
        "{body}"
    );
    assert_eq!(curl(&proxy, nodes, &[]).1, "200", "once only");

    proxy.add(
        Rule::on("GET", nodes)
            .after(1)
            .times(1)
            .fault(Fault::internal_error()),
    );
    assert_eq!(curl(&proxy, nodes, &[]).1, "200", "the first passes");
    assert_eq!(curl(&proxy, nodes, &[]).1, "500");

    proxy.add(Rule::on("*", nodes).times(1).fault(Fault::DropBefore));
    assert_eq!(curl(&proxy, nodes, &[]).0, 52, "curl: empty reply");

    proxy.add(Rule::on("GET", nodes).times(1).fault(Fault::CutBody(100)));
    let (code, _, body) = curl(&proxy, nodes, &[]);
    assert!(code != 0 && body.len() <= 100, "{code} {}", body.len());

    proxy.add(
        Rule::on("GET", nodes)
            .times(1)
            .fault(Fault::Slow(Duration::from_secs(1))),
    );
    let before = Instant::now();
    assert_eq!(curl(&proxy, nodes, &[]).1, "200");
    assert!(before.elapsed() >= Duration::from_secs(1));

    proxy.add(Rule::on("GET", nodes).times(1).fault(Fault::Silence));
    assert_eq!(
        curl(&proxy, nodes, &["--max-time", "1"]).0,
        28,
        "curl: timed out"
    );

    proxy.add(
        Rule::on("GET", nodes)
            .query("watch=true")
            .fault(Fault::WatchExpired),
    );
    assert!(
        curl(&proxy, "/api/v1/nodes?watch=true", &[])
            .2
            .contains("Expired")
    );
    assert_eq!(curl(&proxy, nodes, &[]).1, "200", "not a watch");
    assert!(proxy.seen("GET", nodes) >= 11);
}

#[test]
fn a_request_whose_answer_is_lost_was_carried_out() {
    let Some(cluster) = Cluster::shared() else {
        return;
    };
    let namespace = cluster.namespace("bench-lost");
    let proxy = FaultProxy::start(cluster);
    let maps = format!("/api/v1/namespaces/{}/configmaps", namespace.name());
    proxy.add(Rule::on("POST", &maps).times(1).fault(Fault::DropAfter));
    let body = r#"{"metadata":{"name":"lost"}}"#;
    let sent = curl(
        &proxy,
        &maps,
        &["-H", "Content-Type: application/json", "-d", body],
    );
    assert_eq!(sent.0, 52, "{sent:?}");
    assert!(cluster.exists(&format!("{maps}/lost")));
}

#[test]
fn the_same_seed_gives_the_same_faults() {
    let sequence = |seed: u64| {
        let rules = vec![Rule::on("GET", "/").percent(30)];
        let mut shared = Shared {
            rules,
            seen: Vec::new(),
            random: seed | 1,
            held: 0,
            healed: tokio::sync::watch::channel(0).0,
        };
        (0..64)
            .map(|_| shared.decide("GET", "/x", "").is_some())
            .collect::<Vec<_>>()
    };
    assert_eq!(sequence(7), sequence(7));
    assert_ne!(sequence(7), sequence(1_000_003));
    let hit = sequence(7).iter().filter(|hit| **hit).count();
    assert!((5..40).contains(&hit), "{hit} of 64");
}
