//! The node list of a large cluster.

use super::*;

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
            "kubernetes_adapter::nodes::measure_node_list",
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
