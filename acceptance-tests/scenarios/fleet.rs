//! A fleet that changes: nodes of the test's own (K5, K6, K10, K11, G5).

use serde_json::json;

use super::{Bench, IT, SOON, gpu, h100, l4, service};
use crate::cluster::{Cluster, NodeGroup, Parts};
use crate::terraform::{Cli, FAILED, HAS_CHANGES, OK};

fn on<'a>(cluster: &'a Cluster, name: &str) -> Option<Bench<'a>> {
    Bench::on(cluster, Cli::any(), name)
}

fn node(name: &str) -> String {
    format!("/api/v1/nodes/{name}")
}

#[test]
fn k5_a_placement_stays_while_it_admits_a_node_and_is_renewed_when_it_admits_none() {
    let Some(cluster) = Cluster::own(Parts::All, &[l4(2)]) else {
        return;
    };
    let Some(bench) = on(&cluster, "k5") else {
        return;
    };
    bench.main(&service(&gpu("nvidia-l4", 1))).applied();
    let applied = bench.pod_spec("it");

    // One of the nodes gets another taint: nothing to do.
    cluster.merge(
        &node("l4-1"),
        &json!({"spec": {"taints": [{"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}, {"key": "team", "value": "ml", "effect": "NoSchedule"}]}}),
    );
    bench.work.expect_no_changes();
    assert_eq!(bench.pod_spec("it"), applied);

    // Now every node carries it: the applied tolerations admit none, and the plan proposes the new ones.
    cluster.merge(
        &node("l4-0"),
        &json!({"spec": {"taints": [{"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}, {"key": "team", "value": "ml", "effect": "NoSchedule"}]}}),
    );
    bench
        .work
        .plan()
        .expect(HAS_CHANGES)
        .says("The applied placement admits no nvidia-l4 node of prod any more")
        .says("0 to add, 1 to change, 0 to destroy");
    bench.work.apply_plan().expect(OK);
    bench.work.expect_no_changes();
    assert_eq!(
        bench.state()["placement"]["tolerations"],
        json!(["nvidia.com/gpu=present:NoSchedule", "team=ml:NoSchedule"])
    );
    bench.work.destroy().expect(OK);
}

#[test]
fn k6_taints_that_differ_on_every_node_are_named_at_plan() {
    let taint = |name: &str, taint: &str| {
        NodeGroup::new(name, 1, 1)
            .label("nvidia.com/gpu.product", "NVIDIA-L4")
            .taint(taint)
    };
    let Some(cluster) = Cluster::own(
        Parts::Api,
        &[
            taint("a", "team=a:NoSchedule"),
            taint("b", "team=b:NoSchedule"),
        ],
    ) else {
        return;
    };
    let Some(bench) = on(&cluster, "k6") else {
        return;
    };
    bench.main(&service(&gpu("nvidia-l4", 1)));
    bench
        .work
        .plan()
        .expect(FAILED)
        .says("but the taint team=a:NoSchedule")
        .says("but the taint team=b:NoSchedule")
        .says("tolerate these with the service's tolerations");
    bench.main(&service(&format!("{}\n  wait = false\n  tolerations = [{{ key = \"team\", value = \"b\", effect = \"NoSchedule\" }}]", gpu("nvidia-l4", 1)))).applied();
    assert_eq!(bench.state()["nodes"].as_array().unwrap().len(), 1);
}

#[test]
fn g5_cordoned_nodes_only_warn_and_the_fleet_at_apply_is_what_counts() {
    let Some(cluster) = Cluster::own(Parts::All, &[l4(1).cordoned()]) else {
        return;
    };
    let Some(bench) = on(&cluster, "g5now") else {
        return;
    };
    bench.main(&service(&format!(
        "{}\n  wait = false",
        gpu("nvidia-l4", 1)
    )));
    bench
        .work
        .plan()
        .expect(HAS_CHANGES)
        .says("No matching node of prod takes GPU work just now")
        .says("1 node is cordoned");
    // The only node goes between plan and apply: nothing is made.
    cluster.delete(&node("l4-0"));
    bench.work.apply_plan().expect(FAILED).says("No GPU nodes");
    assert_eq!(bench.left(), Vec::<String>::new());
    assert!(bench.work.state_of(IT).is_none());

    // Planned on one node group, applied on what came meanwhile: taints and all.
    cluster.add_nodes(&[l4(1)]);
    bench.work.plan().expect(HAS_CHANGES);
    cluster.merge(
        &node("l4-0"),
        &json!({"spec": {"taints": [{"key": "new", "effect": "NoSchedule"}]}}),
    );
    bench.work.apply_plan().expect(OK);
    bench.work.expect_no_changes();
    assert_eq!(
        bench.state()["placement"]["tolerations"],
        json!(["new:NoSchedule"])
    );
    // G9, G5: without any node an applied service plans no change, and can be destroyed.
    cluster.delete(&node("l4-0"));
    bench.work.expect_no_changes();
    assert_eq!(bench.state()["name"], "it");
    // (A pod of a node that is gone ends only when the garbage collector finds it.)
    cluster.add_nodes(&[l4(1)]);
    bench.work.destroy().expect(OK);
}

#[test]
fn k3_a_cluster_without_a_device_plugin_or_a_label_is_told_what_it_lacks() {
    let bare = |gpus: u32| NodeGroup::new("bare", 1, gpus);
    let cases: [(NodeGroup, &str); 3] = [
        (bare(0), "No GPU nodes"),
        (
            bare(0).label("nvidia.com/gpu.product", "NVIDIA-L4"),
            "nothing advertises nvidia.com/gpu",
        ),
        (bare(1), "no label that names their kind"),
    ];
    let Some(cluster) = Cluster::own(Parts::Api, &[]) else {
        return;
    };
    let Some(bench) = on(&cluster, "k3") else {
        return;
    };
    bench.main(&(service(&gpu("nvidia-l4", 1)) + "data \"loomplane_gpu_targets\" \"all\" {}\n"));
    for (group, says) in cases {
        cluster.add_nodes(std::slice::from_ref(&group));
        bench.work.plan().expect(FAILED).says(says);
        cluster.delete(&node("bare-0"));
    }
}

#[test]
fn k10_an_image_change_completes_on_a_cluster_whose_gpus_are_all_used() {
    let Some(cluster) = Cluster::own(Parts::All, &[h100(1)]) else {
        return;
    };
    let Some(bench) = on(&cluster, "k10") else {
        return;
    };
    let text = service(&format!("{}\n  replicas = 2", gpu("nvidia-h100-80gb", 4)));
    bench.main(&text).applied();
    bench
        .main(&text.replace("pause:3.10", "pause:3.9"))
        .applied();
    assert_eq!(bench.state()["status"], "available (2 of 2 ready)");
    bench.work.destroy().expect(OK);
}

#[test]
fn k11_a_group_that_scales_from_zero_is_planned_and_the_nodes_win_where_they_disagree() {
    let Some(cluster) = Cluster::own(Parts::All, &[NodeGroup::new("cpu", 1, 0)]) else {
        return;
    };
    let Some(bench) = on(&cluster, "k11zero") else {
        return;
    };
    let group = |gpus: u32| {
        format!(
            "gpu_node_groups = {{ l4 = {{ kind = \"nvidia-l4\", gpus_per_node = {gpus}, label = {{ key = \"nvidia.com/gpu.product\", value = \"NVIDIA-L4\" }}, taints = [\"nvidia.com/gpu=present:NoSchedule\"] }} }}"
        )
    };
    bench.connections(&[("prod", &group(1))], "");
    bench.main(&service(&gpu("nvidia-l4", 1)));
    bench.work.plan().expect(HAS_CHANGES);
    let mut apply = bench.work.start(&["apply", "-auto-approve"]);
    apply.await_text("Creating...", SOON);
    cluster.await_true(
        &format!("/api/v1/namespaces/{}/pods", bench.namespace.name()),
        SOON,
        |pods| {
            pods["items"][0]["status"]["conditions"]
                .to_string()
                .contains("Unschedulable")
        },
    );
    // The autoscaler answers.
    cluster.add_nodes(&[l4(1)]);
    apply.wait(SOON).expect(OK);
    bench.work.expect_no_changes();
    bench.connections(&[("prod", &group(4))], "");
    bench.main(&service(&gpu("nvidia-l4", 2)));
    bench
        .work
        .plan()
        .expect(FAILED)
        .says("nvidia-l4, but 1 GPU per node");
    // Terraform plans before it destroys: the configuration must be one that can be met.
    bench.main(&service(&gpu("nvidia-l4", 1)));
    bench.work.destroy().expect(OK);
}

#[test]
fn a_data_source_lists_what_each_target_can_do() {
    let Some(cluster) = Cluster::own(Parts::Api, &[l4(2), h100(1)]) else {
        return;
    };
    let Some(bench) = on(&cluster, "targets") else {
        return;
    };
    bench.connections(&[("prod", "")], "");
    bench.main(
        "data \"loomplane_gpu_targets\" \"all\" {}\ndata \"loomplane_gpu_targets\" \"two\" {\n  gpus = 2\n}\noutput \"all\" {\n  value = data.loomplane_gpu_targets.all.targets\n}\noutput \"two\" {\n  value = [for t in data.loomplane_gpu_targets.two.targets : t.kind if t.usable]\n}\n\
         output \"kinds\" {\n  value = length(data.loomplane_gpu_kinds.all.kinds)\n}\ndata \"loomplane_gpu_kinds\" \"all\" {}\n",
    );
    bench.work.apply().expect(OK);
    assert_eq!(bench.work.output("two"), json!(["nvidia-h100-80gb"]));
    assert_eq!(bench.work.output("kinds"), 15);
    let all = bench.work.output("all");
    let l4 = all
        .as_array()
        .unwrap()
        .iter()
        .find(|row| row["kind"] == "nvidia-l4")
        .unwrap();
    assert_eq!(l4["nodes"], 2);
    assert_eq!(l4["usable"], true);
    assert_eq!(l4["hourly_usd"], 0.8048);
    bench.work.expect_no_changes();
}
