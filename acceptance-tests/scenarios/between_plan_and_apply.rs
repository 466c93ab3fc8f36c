//! The fleet changes between a plan and the apply of that very plan: apply goes through with what is there, or stops with a message
//! of Loomplane's own before anything is changed (G5, G8). Never with core's "inconsistent final plan".

use serde_json::{Value, json};

use super::{Bench, IT, SOON, gpu, h100, service};
use crate::cluster::{Cluster, NodeGroup, Parts};
use crate::terraform::{Cli, FAILED, HAS_CHANGES, OK, Run};

/// What happens to the fleet, two nodes with eight H100 each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Turn {
    /// A third node like them joins.
    Added,
    /// Both are cordoned.
    Cordoned,
    /// Both are another kind now.
    Relabeled,
    /// Both carry other taints than before.
    Tainted,
    /// Both are gone.
    Gone,
}

const TURNS: [Turn; 5] = [
    Turn::Added,
    Turn::Cordoned,
    Turn::Relabeled,
    Turn::Tainted,
    Turn::Gone,
];

const NODES: [&str; 2] = ["/api/v1/nodes/h100-0", "/api/v1/nodes/h100-1"];
const LATE: &str = "/api/v1/nodes/late-0";

impl Turn {
    fn happens(self, cluster: &Cluster) {
        let patch = match self {
            Self::Added => return cluster.add_nodes(&[late()]),
            Self::Gone => {
                for node in NODES {
                    cluster.delete(node);
                }
                return;
            }
            Self::Cordoned => json!({"spec": {"unschedulable": true}}),
            Self::Relabeled => {
                json!({"metadata": {"labels": {"nvidia.com/gpu.product": "NVIDIA-H200"}}})
            }
            Self::Tainted => {
                json!({"spec": {"taints": [{"key": "pool", "value": "gpu", "effect": "NoSchedule"}]}})
            }
        };
        for node in NODES {
            cluster.merge(node, &patch);
        }
    }

    /// What a request that can't be met any more is told.
    fn refusal(self) -> Option<&'static str> {
        match self {
            Self::Relabeled => Some("2 nodes have nvidia-h200-141gb (8 GPUs per node)"),
            Self::Gone => Some("No GPU nodes"),
            _ => None,
        }
    }
}

fn late() -> NodeGroup {
    NodeGroup::new("late", 1, 8)
        .label("node.kubernetes.io/instance-type", "p5.48xlarge")
        .label("nvidia.com/gpu.product", "NVIDIA-H100-80GB-HBM3")
        .label("topology.kubernetes.io/region", "us-east-1")
        .taint("nvidia.com/gpu=present:NoSchedule")
}

/// The fleet as it is before each turn.
fn reset(cluster: &Cluster) {
    for node in NODES.into_iter().chain([LATE]) {
        cluster.delete(node);
    }
    cluster.add_nodes(&[h100(2)]);
}

fn with(count: u32, more: &str) -> String {
    service(&format!(
        "{}\n  wait = false\n  {more}",
        gpu("nvidia-h100-80gb", count)
    ))
}

/// What no apply of a plan of ours may end with.
fn of_ours(run: Run) -> Run {
    run.says_not("inconsistent").says_not("bug in the provider")
}

/// What was made of the fleet as it is: a pod lands where it can.
fn holds(turn: Turn, bench: &Bench<'_>) {
    let state = bench.state();
    let (nodes, tolerations) = match turn {
        Turn::Added => (3, "nvidia.com/gpu=present:NoSchedule"),
        Turn::Tainted => (2, "pool=gpu:NoSchedule"),
        _ => (2, "nvidia.com/gpu=present:NoSchedule"),
    };
    assert_eq!(
        state["placement"]["tolerations"],
        json!([tolerations]),
        "{turn:?}"
    );
    // Those that are not the same in all that placement looks at are a group each.
    let counted: u64 = state["nodes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|line| {
            let count = line.as_str().unwrap().split(' ').next().unwrap();
            count.parse::<u64>().unwrap()
        })
        .sum();
    assert_eq!(counted, nodes, "{turn:?}: {state}");
    if turn == Turn::Cordoned {
        return;
    }
    bench
        .cluster
        .await_true(&bench.namespace.deployment("it"), SOON, |it| {
            it["status"]["updatedReplicas"] == 1 && it["status"]["availableReplicas"] == 1
        });
}

fn ends(turn: Turn, bench: &Bench<'_>) {
    // A pod of a node that is gone ends only when the garbage collector finds it, a minute later.
    if turn == Turn::Gone {
        bench.cluster.add_nodes(&[h100(2)]);
    }
    bench.work.destroy().expect(OK);
    assert!(!bench.cluster.exists(&bench.namespace.deployment("it")));
}

fn fleet() -> Option<Cluster> {
    Cluster::own(Parts::All, &[NodeGroup::new("cpu", 1, 0)])
}

#[test]
fn g8_a_planned_create_goes_through_on_a_changed_fleet_or_stops_before_anything_is_made() {
    let Some(cluster) = fleet() else { return };
    for turn in TURNS {
        reset(&cluster);
        let Some(bench) = Bench::on(&cluster, Cli::any(), "create") else {
            return;
        };
        bench.main(&with(1, ""));
        bench.work.plan().expect(HAS_CHANGES);
        turn.happens(&cluster);
        let applied = of_ours(bench.work.apply_plan());
        if let Some(refusal) = turn.refusal() {
            applied
                .expect(FAILED)
                .says("prod can't meet this GPU request")
                .says(refusal);
            assert_eq!(bench.left(), Vec::<String>::new(), "{turn:?}");
            assert!(bench.work.state_of(IT).is_none(), "{turn:?}");
            continue;
        }
        applied.expect(OK);
        bench.work.expect_no_changes();
        holds(turn, &bench);
        ends(turn, &bench);
    }
}

#[test]
fn g8_a_planned_update_of_the_request_goes_through_on_a_changed_fleet_or_stops_before_anything_is_changed()
 {
    let Some(cluster) = fleet() else { return };
    for turn in TURNS {
        reset(&cluster);
        let Some(bench) = Bench::on(&cluster, Cli::any(), "request") else {
            return;
        };
        bench.main(&with(1, "")).applied();
        bench.main(&with(2, ""));
        bench.work.plan().expect(HAS_CHANGES);
        let spec = bench.deployment("it")["spec"].clone();
        turn.happens(&cluster);
        let applied = of_ours(bench.work.apply_plan());
        if let Some(refusal) = turn.refusal() {
            applied
                .expect(FAILED)
                .says("prod can't meet this GPU request")
                .says(refusal);
            assert_eq!(bench.deployment("it")["spec"], spec, "{turn:?}");
            assert_eq!(bench.state()["size"]["gpu"]["count"], 1, "{turn:?}");
            // Terraform plans before it destroys: the configuration must be one that can be met.
            bench.main(&with(1, ""));
        } else {
            applied.expect(OK);
            bench.work.expect_no_changes();
            holds(turn, &bench);
            assert_eq!(gpus(&bench), "2");
        }
        ends(turn, &bench);
    }
}

#[test]
fn g5_a_planned_update_of_another_attribute_goes_through_on_any_fleet() {
    let Some(cluster) = fleet() else { return };
    for turn in TURNS {
        reset(&cluster);
        let Some(bench) = Bench::on(&cluster, Cli::any(), "other") else {
            return;
        };
        bench.main(&with(1, "")).applied();
        bench.main(&with(1, "env = { A = \"1\" }"));
        bench.work.plan().expect(HAS_CHANGES);
        let affinity = bench.pod_spec("it")["affinity"].clone();
        turn.happens(&cluster);
        of_ours(bench.work.apply_plan()).expect(OK);
        bench.work.expect_no_changes();
        let spec = bench.pod_spec("it");
        assert_eq!(spec["containers"][0]["env"][0]["value"], "1", "{turn:?}");
        assert_eq!(spec["affinity"], affinity, "{turn:?}");
        if turn.refusal().is_none() {
            holds(turn, &bench);
        }
        ends(turn, &bench);
    }
}

fn gpus(bench: &Bench<'_>) -> Value {
    bench.pod_spec("it")["containers"][0]["resources"]["limits"]["nvidia.com/gpu"].clone()
}

#[test]
fn g8_a_list_price_that_changes_between_plan_and_apply_leaves_nothing_half_done() {
    let Some(cluster) = fleet() else { return };
    let machine = |name: &str, machine: &str| {
        NodeGroup::new(name, 1, 8)
            .label("node.kubernetes.io/instance-type", machine)
            .label("nvidia.com/gpu.product", "NVIDIA-L4")
            .label("topology.kubernetes.io/region", "us-east-1")
    };
    let dearer = || cluster.add_nodes(&[machine("dear", "g6.16xlarge")]);
    cluster.add_nodes(&[machine("cheap", "g6.48xlarge")]);
    let Some(bench) = Bench::on(&cluster, Cli::any(), "price") else {
        return;
    };
    let with = |count: u32, more: &str| {
        service(&format!(
            "{}\n  wait = false\n  {more}",
            gpu("nvidia-l4", count)
        ))
    };
    // A known price is a promise: where it can't be kept, core stops the apply, and nothing was made.
    let kept_or_stopped = |run: Run| {
        if run.code == Some(OK) {
            return true;
        }
        run.expect(FAILED)
            .says("inconsistent final plan")
            .says("hourly_usd");
        false
    };
    bench.main(&with(1, ""));
    bench.work.plan().expect(HAS_CHANGES);
    let planned = bench.work.change(IT)["after"]["hourly_usd"].clone();
    // A machine with the same cards and another price joins: the share is the highest (P5).
    dearer();
    if !kept_or_stopped(bench.work.apply_plan()) {
        assert_eq!(bench.left(), Vec::<String>::new());
        assert!(bench.work.state_of(IT).is_none());
        bench.main(&with(1, "")).applied();
    }
    bench.work.apply_with(&["-refresh-only"]).expect(OK);
    let shown = bench.state()["hourly_usd"].clone();
    assert!(shown.as_f64() > planned.as_f64(), "{shown} {planned}");

    // What does not ask for a price anew goes through.
    cluster.delete("/api/v1/nodes/dear-0");
    bench.work.apply_with(&["-refresh-only"]).expect(OK);
    bench.main(&with(1, "env = { A = \"1\" }"));
    bench.work.plan().expect(HAS_CHANGES);
    dearer();
    of_ours(bench.work.apply_plan()).expect(OK);
    bench.work.expect_no_changes();

    cluster.delete("/api/v1/nodes/dear-0");
    bench.main(&with(2, ""));
    bench.work.plan().expect(HAS_CHANGES);
    dearer();
    let spec = bench.deployment("it")["spec"].clone();
    if !kept_or_stopped(bench.work.apply_plan()) {
        assert_eq!(bench.deployment("it")["spec"], spec);
        bench.main(&with(2, "")).applied();
    }
    assert_eq!(gpus(&bench), "2");
    ends(Turn::Added, &bench);
}
