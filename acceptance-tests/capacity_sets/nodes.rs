//! A1: a node of the wrong kind or fabric, or in another set, is refused by name.

use serde_json::json;

use super::{NODES, POOLS, a100, configuration, fleet, workspace};
use crate::cluster::NodeGroup;
use crate::terraform::{FAILED, HAS_CHANGES, OK};

#[test]
fn a1_a_node_that_does_not_fit_is_refused_by_name() {
    let Some(cluster) = fleet() else { return };
    let Some(work) = workspace() else { return };
    cluster.add_nodes(&[
        NodeGroup::new("pcie", 1, 8).label("nvidia.com/gpu.product", "NVIDIA-A100-80GB-PCIe"),
        a100("mig", 1, 8).label("nvidia.com/mig-1g.10gb.count", "56"),
        NodeGroup::new("cpu", 1, 0),
    ]);
    let nodes = r#"nodes = ["a100-0", "l4-0", "pcie-0", "mig-0", "cpu-0", "gone"]"#;
    work.file(
        "main.tf",
        &configuration(
            cluster.kubeconfig(),
            &format!("{nodes}\n{POOLS}\ninstall_crd = true"),
        ),
    );
    work.plan()
        .expect(FAILED)
        .says("5 nodes do not fit capacity set \"fleet\"")
        .says("l4-0: its GPUs are nvidia-l4, and the set's are nvidia-a100-80gb")
        .says("pcie-0: its fabric is pcie (nvidia.com/gpu.product = NVIDIA-A100-80GB-PCIe), and the set's is nvswitch")
        .says("mig-0: it does not hand out whole GPUs")
        .says("cpu-0: its GPU kind can't be told")
        .says("gone: the cluster has no node of this name")
        .says_not("a100-0:");

    // Chosen by label, nodes that do not fit stay out, and are listed.
    for node in ["a100-0", "l4-0"] {
        cluster.merge(
            &format!("/api/v1/nodes/{node}"),
            &json!({"metadata": {"labels": {"fleet": "x"}}}),
        );
    }
    let none = r#"node_selector = { fleet = "none" }"#;
    work.file(
        "main.tf",
        &configuration(
            cluster.kubeconfig(),
            &format!("{none}\n{POOLS}\ninstall_crd = true"),
        ),
    );
    work.plan()
        .expect(HAS_CHANGES)
        .says("Capacity set \"fleet\" has no nodes");
    let selector = r#"node_selector = { fleet = "x" }"#;
    work.file(
        "main.tf",
        &configuration(
            cluster.kubeconfig(),
            &format!("{selector}\n{POOLS}\ninstall_crd = true"),
        ),
    );
    work.plan()
        .expect(HAS_CHANGES)
        .says("1 node does not fit capacity set \"fleet\"")
        .says("l4-0: its GPUs are nvidia-l4");
    work.apply_plan().expect(OK);
    work.expect_no_changes();
    let address = "loomplane_capacity_set.fleet";
    let state = work.state_of(address).unwrap();
    assert_eq!(state["gpus"], 8);
    assert_eq!(
        state["nodes_refused"],
        json!({"l4-0": "its GPUs are nvidia-l4, and the set's are nvidia-a100-80gb"})
    );

    // A node that joins is in the set at the next refresh.
    cluster.merge(
        "/api/v1/nodes/a100-1",
        &json!({"metadata": {"labels": {"fleet": "x"}}}),
    );
    work.apply_with(&["-refresh-only"]).expect(OK);
    assert_eq!(work.state_of(address).unwrap()["gpus"], 16);

    // A node is in one set only.
    let Some(other) = workspace() else { return };
    let second = configuration(cluster.kubeconfig(), &format!("{NODES}\n{POOLS}")).replace(
        "\"fleet\"\n          cluster",
        "\"second\"\n          cluster",
    );
    other.file("main.tf", &second);
    // The other set might go in the same run; it does not, and apply refuses.
    other
        .plan()
        .expect(HAS_CHANGES)
        .says("Nodes of capacity set \"second\" are in another set")
        .says("a100-1: it is in capacity set \"fleet\" already");
    other
        .apply_plan()
        .expect(FAILED)
        .says("a100-1: it is in capacity set \"fleet\" already");
    assert!(other.state_of(address).is_none());

    // Under another name it is the same nodes of a new set.
    let named = configuration(
        cluster.kubeconfig(),
        &format!("nodes = [\"a100-1\"]\n{POOLS}"),
    );
    work.file("main.tf", &named);
    work.apply().expect(OK);
    work.file(
        "main.tf",
        &named.replace(
            "\"fleet\"\n          cluster",
            "\"renamed\"\n          cluster",
        ),
    );
    work.apply()
        .expect(OK)
        .says("1 added, 0 changed, 1 destroyed");
    assert_eq!(work.state_of(address).unwrap()["gpus"], 8);
}

#[test]
fn a3_floors_that_the_nodes_can_not_hold_are_refused_at_plan() {
    let Some(cluster) = fleet() else { return };
    let Some(work) = workspace() else { return };
    let pools = r#"pools = {
        rentals = { type = "on_demand", rank = 1, floor = 10 }
        batch   = { type = "spot", rank = 2, floor = 7 }
    }"#;
    work.file(
        "main.tf",
        &configuration(
            cluster.kubeconfig(),
            &format!("{NODES}\n{pools}\ninstall_crd = true"),
        ),
    );
    work.plan()
        .expect(FAILED)
        .says("floors are 17 GPUs together (batch 7, rentals 10), more than the set's 16");
}

#[test]
fn a1_a_fabric_that_a_label_states_is_believed() {
    let Some(cluster) = fleet() else { return };
    let Some(work) = workspace() else { return };
    cluster.merge(
        "/api/v1/nodes/a100-0",
        &json!({"metadata": {"labels": {"capacity.loomplane.dev/fabric": "pcie"}}}),
    );
    work.file(
        "main.tf",
        &configuration(
            cluster.kubeconfig(),
            &format!("{NODES}\n{POOLS}\ninstall_crd = true"),
        ),
    );
    work.plan()
        .expect(FAILED)
        .says("a100-0: its fabric is pcie (label capacity.loomplane.dev/fabric)")
        .says("1 node does not fit");
}
