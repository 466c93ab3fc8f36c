//! A credential that may see nodes, but not what runs on them.

use serde_json::json;

use super::{NODES, POOLS, SETS, configuration, fleet, what_if, workspace};
use crate::terraform::{FAILED, HAS_CHANGES, OK};

const ADDRESS: &str = "loomplane_capacity_set.fleet";

#[test]
fn who_may_not_see_pods_can_write_a_set_but_sees_no_preview_and_turns_nothing_on() {
    let Some(cluster) = fleet() else { return };
    let Some(work) = workspace() else { return };
    cluster.create("/api/v1/namespaces", &json!({"metadata": {"name": "ci"}}));
    let rules = json!([
        {"apiGroups": [""], "resources": ["nodes"], "verbs": ["get", "list"]},
        {"apiGroups": ["apiextensions.k8s.io"], "resources": ["customresourcedefinitions"], "verbs": ["*"]},
        {"apiGroups": ["capacity.loomplane.dev"], "resources": ["capacitysets"], "verbs": ["*"]},
        {"apiGroups": ["kubevirt.io"], "resources": ["*"], "verbs": ["get", "list"]},
        {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["get"]},
    ]);
    let kubeconfig = cluster.kubeconfig_for("ci", "half-blind", &rules, true);
    let set = |rest: &str| {
        configuration(
            &kubeconfig,
            &format!("{NODES}\n{POOLS}\ninstall_crd = true\n{rest}"),
        )
    };
    // Nodes are judged all the same.
    work.file("main.tf", &set("").replace("\"a100-1\"", "\"l4-0\""));
    work.plan()
        .expect(FAILED)
        .says("l4-0: its GPUs are nvidia-l4");

    work.file("main.tf", &set(""));
    work.plan()
        .expect(HAS_CHANGES)
        .says("Can't see who would lose capacity")
        .says("resources: [nodes, pods]")
        .says("name: half-blind");
    work.apply_plan()
        .expect(OK)
        .says("There is no preview of a capacity set");
    assert!(cluster.exists(&format!("{SETS}/fleet")));
    assert_eq!(work.state_of(ADDRESS).unwrap()["preview"], json!(null));
    work.expect_no_changes();

    work.file("main.tf", &set("mode = \"enforce\""));
    work.plan()
        .expect(FAILED)
        .says("so the set is not turned on");
    work.file("main.tf", &set(""));
    work.file(
        "what_if.tf",
        &what_if("one", r#"claim = { pool = "rentals", gpus = 4 }"#),
    );
    work.plan()
        .expect(FAILED)
        .says("Can't see who would lose capacity")
        .says("resources: [nodes, pods]");
}
