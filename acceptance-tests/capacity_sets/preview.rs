//! The preview: from VMs and pods by label; a change of rank shows who would lose what; what-ifs.

use serde_json::{Value, json};

use super::{MARK, NODES, POOLS, a100, configuration, pod, vm, what_if, with_kubevirt, workspace};
use crate::cluster::{Cluster, Parts};
use crate::terraform::{FAILED, HAS_CHANGES, OK};

const ADDRESS: &str = "loomplane_capacity_set.fleet";

fn names(list: &Value) -> Vec<&str> {
    list.as_array()
        .unwrap()
        .iter()
        .map(|it| it["claim"].as_str().unwrap())
        .collect()
}

#[test]
fn g8_a_change_of_rank_says_in_the_plan_who_would_lose_what() {
    let Some(cluster) = Cluster::own(Parts::Api, &[a100("a100", 1, 8)]) else {
        return;
    };
    let Some(work) = workspace() else { return };
    with_kubevirt(&cluster);
    // A full board: four cards to batch, four to scratch. One more VM of batch waits.
    vm(&cluster, "batch-a", "batch", 4, Some(("a100-0", "0,1,2,3")));
    vm(&cluster, "scratch-a", "scratch", 2, Some(("a100-0", "4,5")));
    vm(&cluster, "scratch-b", "scratch", 2, Some(("a100-0", "6,7")));
    vm(&cluster, "scratch-c", "scratch", 4, None);
    let nodes = r#"nodes = ["a100-0"]"#;
    work.file(
        "main.tf",
        &configuration(
            cluster.kubeconfig(),
            &format!("{nodes}\n{POOLS}\ninstall_crd = true"),
        ),
    );
    work.plan()
        .expect(HAS_CHANGES)
        .says("no workload would lose capacity")
        .says("vm/ml/scratch-c: needs one block of 4");
    work.apply_plan().expect(OK);
    work.expect_no_changes();
    let state = work.state_of(ADDRESS).unwrap();
    assert_eq!(names(&state["preview"]["waiting"]), ["vm/ml/scratch-c"]);
    assert_eq!(state["preview"]["waiting"][0]["code"], "RANK");
    assert_eq!(state["preview"]["loses"], json!([]));
    assert_eq!(
        state["free_blocks"],
        json!({"1": 0, "2": 0, "4": 0, "8": 0})
    );

    // scratch before batch: batch-a loses its block to scratch-c.
    let swapped = POOLS
        .replace("rank = 2", "rank = 9")
        .replace("rank = 3", "rank = 2");
    work.file(
        "main.tf",
        &configuration(
            cluster.kubeconfig(),
            &format!("{nodes}\n{swapped}\ninstall_crd = true"),
        ),
    );
    work.plan()
        .expect(HAS_CHANGES)
        .says("Capacity set \"fleet\": 1 workload would lose 4 GPUs")
        .says("vm/ml/batch-a of pool batch loses 4 GPUs on a100-0 to vm/ml/scratch-c")
        .says("vm/ml/scratch-c on a100-0, cards 0, 1, 2, 3")
        .says("mode is \"dry_run\": the arbiter publishes its plan and moves nothing");
    assert_eq!(work.change(ADDRESS)["after_unknown"]["preview"], true);
    work.apply_plan().expect(OK);
    work.expect_no_changes();
    let preview = work.state_of(ADDRESS).unwrap()["preview"].clone();
    assert_eq!(names(&preview["loses"]), ["vm/ml/batch-a"]);
    assert_eq!(preview["loses"][0]["for"], "vm/ml/scratch-c");
    assert_eq!(preview["actions"][0]["action"], "notice");
    assert_eq!(preview["actions"][0]["notice_seconds"], 120);
    assert_eq!(preview["mode"], "dry_run");
    let vms = cluster.get("/apis/kubevirt.io/v1/namespaces/ml/virtualmachines");
    let touched = vms["items"]
        .as_array()
        .unwrap()
        .iter()
        .any(|vm| vm.to_string().contains("/deadline"));
    assert!(!touched, "a preview moves nothing");

    // The refresh keeps the preview: batch-a goes, and scratch-c starts without harm.
    cluster.delete("/apis/kubevirt.io/v1/namespaces/ml/virtualmachines/batch-a");
    work.apply_with(&["-refresh-only"]).expect(OK);
    let preview = work.state_of(ADDRESS).unwrap()["preview"].clone();
    assert_eq!(preview["loses"], json!([]));
    assert_eq!(
        preview["actions"],
        json!([{"action": "start", "claim": "vm/ml/scratch-c", "node": "a100-0", "cards": [0, 1, 2, 3],
        "after": [], "reason": null, "notice_seconds": null, "for": null, "why": null}])
    );
}

#[test]
fn pods_and_what_is_not_of_the_set_are_seen_and_what_is_not_clear_is_said() {
    let Some(cluster) = Cluster::own(Parts::Api, &[a100("a100", 1, 8)]) else {
        return;
    };
    let Some(work) = workspace() else { return };
    cluster.create("/api/v1/namespaces", &json!({"metadata": {"name": "ml"}}));
    let of = |pool: &str| json!({format!("{MARK}/set"): "fleet", format!("{MARK}/pool"): pool});
    let cards = |cards: &str| json!({format!("{MARK}/cards"): cards});
    pod(
        &cluster,
        "says",
        2,
        Some("a100-0"),
        &of("batch"),
        &cards("2,3"),
    );
    pod(
        &cluster,
        "silent",
        1,
        Some("a100-0"),
        &of("batch"),
        &json!({}),
    );
    pod(
        &cluster,
        "stranger",
        2,
        Some("a100-0"),
        &json!({}),
        &json!({}),
    );
    pod(&cluster, "lost", 1, None, &of("nowhere"), &json!({}));
    pod(&cluster, "waits", 2, None, &of("rentals"), &json!({}));
    let nodes = r#"nodes = ["a100-0"]"#;
    work.file(
        "main.tf",
        &configuration(
            cluster.kubeconfig(),
            &format!("{nodes}\n{POOLS}\ninstall_crd = true"),
        ),
    );
    work.apply().expect(OK);
    work.expect_no_changes();
    let state = work.state_of(ADDRESS).unwrap();
    let notes = state["preview"]["notes"].to_string();
    for note in [
        "pod/ml/silent does not say which cards it has (annotation capacity.loomplane.dev/cards): cards 0 of a100-0 are assumed",
        "pod/ml/stranger has 2 GPUs of a100-0 and is not in the set: cards 4, 5 are assumed to be taken",
        "pod/ml/lost is left out: it names pool \\\"nowhere\\\", which the set does not have",
    ] {
        assert!(notes.contains(note), "{note}: {notes}");
    }
    assert_eq!(
        state["free_blocks"],
        json!({"1": 3, "2": 1, "4": 0, "8": 0})
    );
    let starts = &state["preview"]["actions"][0];
    assert_eq!(
        (&starts["claim"], &starts["cards"]),
        (&json!("pod/ml/waits"), &json!([6, 7]))
    );
}

#[test]
fn a_what_if_tells_what_it_would_take_and_from_whom_and_changes_nothing() {
    let Some(cluster) = Cluster::own(Parts::Api, &[a100("a100", 2, 8)]) else {
        return;
    };
    let Some(work) = workspace() else { return };
    with_kubevirt(&cluster);
    vm(
        &cluster,
        "rented",
        "rentals",
        8,
        Some(("a100-0", "0,1,2,3,4,5,6,7")),
    );
    vm(&cluster, "batch-a", "batch", 4, Some(("a100-1", "0,1,2,3")));
    vm(&cluster, "scratch-a", "scratch", 2, Some(("a100-1", "4,5")));
    vm(&cluster, "scratch-b", "scratch", 2, Some(("a100-1", "6,7")));
    let set = configuration(
        cluster.kubeconfig(),
        &format!("{NODES}\n{POOLS}\ninstall_crd = true"),
    );
    work.file("main.tf", &set);
    work.apply().expect(OK);
    let before = cluster.get("/apis/kubevirt.io/v1/virtualmachines")["items"].clone();
    let all = [
        what_if("one_more", r#"claim = { pool = "rentals", gpus = 4 }"#),
        what_if("too_low", r#"claim = { pool = "scratch", gpus = 1 }"#),
        what_if(
            "floor",
            "claim = { pool = \"rentals\", gpus = 2 }\n pools = { scratch = { floor = 4 } }",
        ),
        what_if(
            "ranks",
            "claim = { pool = \"scratch\", gpus = 4 }\n pools = { scratch = { rank = 2 }, batch = { rank = 3 } }",
        ),
        what_if("drain", r#"drain_nodes = ["a100-0", "a100-1"]"#),
        what_if("as_is", ""),
    ];
    work.file("what_if.tf", &all.join("\n"));
    work.apply().expect(OK);
    let one_more = work.output("one_more");
    assert_eq!(one_more["starts"], true);
    assert_eq!(
        names(&one_more["loses"]),
        ["vm/ml/scratch-a", "vm/ml/scratch-b"],
        "the lowest rank loses first"
    );
    assert_eq!(one_more["loses"][0]["for"], "what-if");
    assert_eq!(
        one_more["answer"],
        "starts on a100-1, cards 4, 5, 6, 7, after vm/ml/scratch-a, vm/ml/scratch-b"
    );
    let too_low = work.output("too_low");
    assert_eq!(
        (&too_low["starts"], &too_low["loses"]),
        (&json!(false), &json!([]))
    );
    assert!(
        too_low["answer"]
            .as_str()
            .unwrap()
            .contains("claims of rank 3 or higher"),
        "{too_low}"
    );
    assert_eq!(names(&work.output("floor")["loses"]), ["vm/ml/batch-a"]);
    assert_eq!(names(&work.output("ranks")["loses"]), ["vm/ml/batch-a"]);
    let drain = work.output("drain");
    assert_eq!(
        names(&drain["loses"]),
        ["vm/ml/batch-a", "vm/ml/scratch-a", "vm/ml/scratch-b"]
    );
    assert_eq!(
        drain["preview"]["drains"][0],
        json!({"node": "a100-0", "blocked_by": ["vm/ml/rented"]})
    );
    assert_eq!(work.output("as_is")["preview"]["actions"], json!([]));
    work.expect_no_changes();
    assert_eq!(
        cluster.get("/apis/kubevirt.io/v1/virtualmachines")["items"],
        before
    );
    for (what, says) in [
        (
            "claim = { pool = \"nope\", gpus = 1 }",
            "whose pools are batch, rentals, scratch",
        ),
        (
            "claim = { pool = \"rentals\", gpus = 3 }",
            "asks for 3 GPUs, but an nvswitch set hands out blocks",
        ),
        (
            "pools = { batch = { rank = 1 } }",
            "give every pool a rank of its own",
        ),
        ("drain_nodes = [\"l4-0\"]", "is not in the set"),
    ] {
        work.file("what_if.tf", &what_if("wrong", what));
        work.plan().expect(FAILED).says(says);
    }
    work.file(
        "what_if.tf",
        &what_if("wrong", "").replace("\"fleet\"", "\"flet\""),
    );
    work.plan()
        .expect(FAILED)
        .says("has no CapacitySet \"flet\"")
        .says("Its sets are fleet");
}
