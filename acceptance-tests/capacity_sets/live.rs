//! Sets on which workloads run as Kubernetes and KubeVirt show them: replicas of an inference pool, and VMs with their instances.

use serde_json::json;

use super::{
    MARK, NODES, POOLS, VMS, a100, configuration, instance, pod, vm, what_if, with_kubevirt,
    workspace,
};
use crate::cluster::{Cluster, Parts};
use crate::terraform::OK;

const ADDRESS: &str = "loomplane_capacity_set.fleet";

fn replica(cluster: &Cluster, name: &str, cards: &str, since: &str) {
    pod(
        cluster,
        name,
        2,
        Some("a100-0"),
        &json!({format!("{MARK}/set"): "fleet", format!("{MARK}/pool"): "chat"}),
        &json!({format!("{MARK}/cards"): cards, format!("{MARK}/started-at"): format!("2026-11-01T{since}Z")}),
    );
}

#[test]
fn a10_an_inference_pool_has_its_live_replicas_and_gets_or_gives_up_what_its_range_says() {
    let Some(cluster) = Cluster::own(Parts::Api, &[a100("a100", 1, 8)]) else {
        return;
    };
    let Some(work) = workspace() else { return };
    cluster.create("/api/v1/namespaces", &json!({"metadata": {"name": "ml"}}));
    replica(&cluster, "chat-a", "0,1", "13:00:00");
    replica(&cluster, "chat-b", "2,3", "14:00:00");
    let with = |min: u32, max: u32| {
        let chat = format!(
            "pools = {{\n    chat = {{ type = \"inference\", rank = 1, gpus_per_replica = 2, replicas = {{ min = {min}, max = {max} }} }}\n}}"
        );
        configuration(
            cluster.kubeconfig(),
            &format!("nodes = [\"a100-0\"]\n{chat}\ninstall_crd = true"),
        )
    };
    let preview = || work.state_of(ADDRESS).unwrap()["preview"].clone();

    // Nobody says what the queue asks for: as many as there are.
    work.file("main.tf", &with(1, 4));
    work.apply().expect(OK);
    work.expect_no_changes();
    let state = work.state_of(ADDRESS).unwrap();
    assert_eq!(
        state["preview"]["pools"][0],
        json!({"name": "chat", "gpus_before": 4, "gpus_after": 4, "floor": 2})
    );
    assert_eq!(
        (&state["preview"]["actions"], &state["preview"]["notes"]),
        (&json!([]), &json!([]))
    );
    assert_eq!(
        state["free_blocks"],
        json!({"1": 4, "2": 2, "4": 1, "8": 0})
    );

    work.file("main.tf", &with(3, 4));
    work.apply().expect(OK);
    let start = &preview()["actions"][0];
    assert_eq!(
        (&start["action"], &start["claim"], &start["cards"]),
        (&json!("start"), &json!("chat-0"), &json!([4, 5]))
    );

    work.file("main.tf", &with(0, 1));
    work.apply().expect(OK);
    work.expect_no_changes();
    let preview = preview();
    assert_eq!(preview["loses"].as_array().map(Vec::len), Some(1));
    let loss = &preview["loses"][0];
    assert_eq!(
        (&loss["claim"], &loss["for"]),
        (&json!("pod/ml/chat-b"), &json!(null)),
        "the most recently started"
    );
}

/// KubeVirt put the VM where it is: the instance says the node and since when, the VM's annotation the cards, and the shell pod is no stranger.
#[test]
fn a_vm_with_a_live_instance_is_seen_where_it_runs_and_once() {
    let Some(cluster) = Cluster::own(Parts::Api, &[a100("a100", 2, 8)]) else {
        return;
    };
    let Some(work) = workspace() else { return };
    with_kubevirt(&cluster);
    vm(&cluster, "batch-a", "batch", 4, Some(("a100-1", "4,5,6,7")));
    let path = format!("{VMS}/batch-a");
    // Without the annotations that stand for what KubeVirt knows better.
    let forget = json!({"metadata": {"annotations": {format!("{MARK}/node"): null, format!("{MARK}/started-at"): null}}});
    cluster.merge(&path, &forget);
    instance(&cluster, "batch-a", 4, "a100-1", "2026-11-01T13:00:00Z");
    let set = configuration(
        cluster.kubeconfig(),
        &format!("{NODES}\n{POOLS}\ninstall_crd = true"),
    );
    work.file("main.tf", &set);
    let claim = r#"claim = { pool = "rentals", gpus = 8 }"#;
    let both = [
        what_if("one_more", claim),
        what_if("drain", r#"drain_nodes = ["a100-1"]"#),
    ];
    work.apply().expect(OK);
    let state = work.state_of(ADDRESS).unwrap();
    assert_eq!(state["preview"]["notes"], json!([]));
    assert_eq!(
        state["free_blocks"],
        json!({"1": 12, "2": 6, "4": 3, "8": 1})
    );
    work.file("what_if.tf", &both.join("\n"));
    work.apply().expect(OK);
    assert_eq!(
        work.output("one_more")["answer"],
        "starts on a100-0, cards 0, 1, 2, 3, 4, 5, 6, 7, now"
    );
    let loss = &work.output("drain")["loses"][0];
    assert_eq!(
        (&loss["claim"], &loss["cards"]),
        (&json!("vm/ml/batch-a"), &json!([4, 5, 6, 7]))
    );

    // It is switched off: its instance is going, its cards are not free yet.
    cluster.merge(&path, &json!({"spec": {"runStrategy": "Halted"}}));
    work.file("what_if.tf", &what_if("twice", claim));
    cluster.delete("/api/v1/nodes/a100-0");
    work.apply().expect(OK);
    let answer = work.output("twice")["answer"].to_string();
    assert!(
        answer.contains("starts on a100-1") && answer.contains("after vm/ml/batch-a"),
        "{answer}"
    );
    assert_eq!(work.output("twice")["loses"], json!([]));
}

#[test]
fn a3_a_what_if_of_a_ceiling_alone_says_who_would_wait_and_stops_nobody() {
    let Some(cluster) = Cluster::own(Parts::Api, &[a100("a100", 1, 8)]) else {
        return;
    };
    let Some(work) = workspace() else { return };
    with_kubevirt(&cluster);
    vm(&cluster, "batch-a", "batch", 4, Some(("a100-0", "0,1,2,3")));
    vm(&cluster, "batch-b", "batch", 2, None);
    let set = configuration(
        cluster.kubeconfig(),
        &format!("nodes = [\"a100-0\"]\n{POOLS}\ninstall_crd = true"),
    );
    work.file("main.tf", &set);
    work.apply().expect(OK);
    let start = work.state_of(ADDRESS).unwrap()["preview"]["actions"][0].clone();
    assert_eq!(start["claim"], "vm/ml/batch-b");
    work.file(
        "what_if.tf",
        &what_if("lower", "pools = { batch = { ceiling = 3 } }"),
    );
    work.apply().expect(OK);
    let lower = work.output("lower");
    assert_eq!(
        (&lower["starts"], &lower["answer"], &lower["loses"]),
        (&json!(null), &json!(null), &json!([])),
        "no claim was asked about, and a ceiling stops nothing that runs"
    );
    let wait = &lower["preview"]["waiting"][0];
    assert_eq!(
        (&wait["claim"], &wait["code"], &wait["reachable"]),
        (&json!("vm/ml/batch-b"), &json!("CEILING"), &json!(0))
    );
    assert_eq!(lower["preview"]["actions"], json!([]));
}
