//! G9: state is never stranded, and a connection that is renamed touches nothing.

use serde_json::json;

use super::{NODES, POOLS, SETS, configuration, fleet, workspace};
use crate::terraform::{FAILED, HAS_CHANGES, OK};

const ADDRESS: &str = "loomplane_capacity_set.fleet";

#[test]
fn g9_a_renamed_connection_keeps_the_set_and_a_missing_one_keeps_its_state() {
    let Some(cluster) = fleet() else { return };
    let Some(work) = workspace() else { return };
    let set = configuration(
        cluster.kubeconfig(),
        &format!("{NODES}\n{POOLS}\ninstall_crd = true"),
    );
    work.file("main.tf", &set);
    work.apply().expect(OK);
    let before = cluster.get(&format!("{SETS}/fleet"));

    let renamed = set
        .replace("lab = {", "other = {")
        .replace("\"lab\"", "\"other\"");
    work.file("main.tf", &renamed);
    work.plan()
        .expect(HAS_CHANGES)
        .says("1 to change")
        .says_not("would lose");
    work.apply_plan().expect(OK);
    work.expect_no_changes();
    let after = cluster.get(&format!("{SETS}/fleet"));
    assert_eq!(
        (
            &before["metadata"]["uid"],
            &before["metadata"]["generation"]
        ),
        (&after["metadata"]["uid"], &after["metadata"]["generation"])
    );

    // The connection is taken out of the provider: the state stays, and only deleting the set is refused.
    let gone = renamed.replace("other = {", "third = {");
    work.file("main.tf", &gone);
    work.run(&["plan", "-refresh-only"])
        .expect(OK)
        .says("A cluster is no longer configured, so its capacity sets were not checked");
    work.destroy().expect(FAILED).says("destroy = false");
    work.file("main.tf", &gone.replace("rank = 3", "rank = 4"));
    work.plan()
        .expect(FAILED)
        .says("cluster = \"other\" names no connection of the provider")
        .says("Configured are: third.");
    assert!(work.state_of(ADDRESS).is_some());
    assert!(cluster.exists(&format!("{SETS}/fleet")));
}

#[test]
fn a_cluster_that_is_made_in_the_same_apply_is_checked_then() {
    let Some(cluster) = fleet() else { return };
    let Some(work) = workspace() else { return };
    let set = configuration(
        cluster.kubeconfig(),
        &format!("{NODES}\n{POOLS}\ninstall_crd = true"),
    );
    let path = format!("\"{}\"", cluster.kubeconfig().display());
    let later = set.replace(&path, "terraform_data.path.output")
        + &format!("resource \"terraform_data\" \"path\" {{ input = {path} }}\n");
    work.file("main.tf", &later);
    work.plan()
        .expect(HAS_CHANGES)
        .says("A connection is not known yet, so its capacity sets were not checked");
    work.apply_plan().expect(OK);
    work.expect_no_changes();
    // What does not fit is refused at apply, before anything is written.
    let Some(other) = workspace() else { return };
    let wrong = later
        .replace("\"a100-1\"", "\"l4-0\"")
        .replace("name     = \"fleet\"", "name     = \"second\"");
    other.file("main.tf", &wrong);
    other.plan().expect(HAS_CHANGES);
    other
        .apply_plan()
        .expect(FAILED)
        .says("l4-0: its GPUs are nvidia-l4");
    assert!(!cluster.exists(&format!("{SETS}/second")));
    assert_eq!(cluster.get(SETS)["items"].as_array().map(Vec::len), Some(1));
    assert_eq!(
        cluster.get(&format!("{SETS}/fleet"))["spec"]["nodes"],
        json!(["a100-0", "a100-1"])
    );
}
