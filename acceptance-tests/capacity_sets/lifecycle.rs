//! Create, second plan, change, drift, import, destroy; nothing taken over.

use serde_json::json;

use super::{CRD, NODES, POOLS, SETS, configuration, fleet, workspace};
use crate::terraform::{Cli, FAILED, HAS_CHANGES, OK, Workspace};

#[test]
fn a_set_is_made_changed_imported_and_destroyed_and_its_kind_stays() {
    let Some(cluster) = fleet() else { return };
    for cli in Cli::BOTH {
        let Some(work) = Workspace::with_provider(cli) else {
            continue;
        };
        let address = "loomplane_capacity_set.fleet";
        work.file(
            "main.tf",
            &configuration(
                cluster.kubeconfig(),
                &format!("{NODES}\n{POOLS}\ninstall_crd = true"),
            ),
        );
        work.plan()
            .expect(HAS_CHANGES)
            .says("1 to add")
            .says("Capacity set \"fleet\": no workload would lose capacity");
        let planned = work.change(address);
        assert_eq!(
            planned["after_unknown"]["preview"], true,
            "G8: unknown in a plan that changes the set"
        );
        work.apply_plan().expect(OK);
        work.expect_no_changes();

        let set = cluster.get(&format!("{SETS}/fleet"));
        assert_eq!(set["spec"]["mode"], "dry_run");
        assert_eq!(set["spec"]["nodes"], json!(["a100-0", "a100-1"]));
        let managers = set["metadata"]["managedFields"].as_array().unwrap();
        let ours: Vec<_> = managers
            .iter()
            .filter(|it| it["manager"] == "loomplane")
            .collect();
        assert_eq!(
            (ours.len(), &ours[0]["operation"]),
            (1, &json!("Apply")),
            "{managers:#?}"
        );
        assert!(set["metadata"]["annotations"].is_null(), "{set:#}");
        let state = work.state_of(address).unwrap();
        assert_eq!(state["gpus"], 16);
        assert_eq!(
            state["free_blocks"],
            json!({"1": 16, "2": 8, "4": 4, "8": 2})
        );
        assert_eq!(state["status"], "dry_run, no arbiter");
        assert_eq!(state["nodes_refused"], json!({}));
        let pools: Vec<_> = state["preview"]["pools"]
            .as_array()
            .unwrap()
            .iter()
            .map(|it| it["name"].clone())
            .collect();
        assert_eq!(pools, [json!("rentals"), json!("batch"), json!("scratch")]);

        // A pool that is taken out is gone from the object too.
        let fewer = r#"pools = {
            rentals = { type = "on_demand", rank = 1, ceiling = 8 }
            batch   = { type = "spot", rank = 2 }
        }"#;
        work.file(
            "main.tf",
            &configuration(
                cluster.kubeconfig(),
                &format!("{NODES}\n{fewer}\ninstall_crd = true"),
            ),
        );
        work.apply().expect(OK);
        work.expect_no_changes();
        let pools = cluster.get(&format!("{SETS}/fleet"))["spec"]["pools"].clone();
        assert_eq!(pools.as_array().unwrap().len(), 2, "{pools}");

        // What someone changed shows, and is put back: a field that another manager took is refused unless it is forced.
        let path = format!("{SETS}/fleet");
        cluster.merge(
            &format!("{path}?fieldManager=kubectl-edit"),
            &json!({"spec": {"noticeSeconds": 30}}),
        );
        work.plan().expect(HAS_CHANGES);
        assert_eq!(work.change(address)["before"]["notice_seconds"], 30);
        work.apply_plan()
            .expect(FAILED)
            .says("kubectl-edit")
            .says("force_conflicts = true");
        work.file(
            "main.tf",
            &configuration(
                cluster.kubeconfig(),
                &format!("{NODES}\n{fewer}\ninstall_crd = true\nforce_conflicts = true"),
            ),
        );
        work.apply().expect(OK);
        work.expect_no_changes();
        assert_eq!(cluster.get(&path)["spec"]["noticeSeconds"], 120);

        // Import into an empty state: the same configuration, no changes but what a refresh can't know.
        let Some(other) = Workspace::with_provider(cli) else {
            continue;
        };
        other.file(
            "main.tf",
            &configuration(cluster.kubeconfig(), &format!("{NODES}\n{fewer}")),
        );
        other
            .plan()
            .expect(FAILED)
            .says("It exists already")
            .says("terraform import ADDRESS 'lab/fleet'");
        other.import(address, "lab/fleet").expect(OK);
        other.expect_no_changes();
        // How a set is written is no part of it: with it, an import is followed by an empty plan too.
        other.file(
            "main.tf",
            &configuration(
                cluster.kubeconfig(),
                &format!("{NODES}\n{fewer}\ninstall_crd = true\nforce_conflicts = true"),
            ),
        );
        other.expect_no_changes();

        work.destroy().expect(OK);
        assert!(!cluster.exists(&path));
        assert!(cluster.exists(CRD), "destroying a set leaves its kind");
        other.plan().expect(HAS_CHANGES).says("1 to add");
    }
}

#[test]
fn a1_to_a3_are_refused_on_the_attribute_without_a_cluster() {
    let Some(work) = workspace() else { return };
    let nowhere = std::path::Path::new("/nonexistent/kubeconfig");
    let pools = |inner: &str| format!("{NODES}\npools = {{ {inner} }}");
    for (rest, says) in [
        (
            pools(r#"a = { type = "spot", rank = 1 }, b = { type = "spot", rank = 1 }"#),
            "give every pool a rank of its own",
        ),
        (
            pools(r#"a = { type = "spot", rank = 1, floor = 4, ceiling = 2 }"#),
            "floor of 4 GPUs is above its ceiling of 2 GPUs",
        ),
        (
            pools(
                r#"a = { type = "inference", rank = 1, ceiling = 4, replicas = { min = 1, max = 3 }, gpus_per_replica = 2 }"#,
            ),
            "more than its ceiling of 4",
        ),
        (
            pools(
                r#"a = { type = "inference", rank = 1, replicas = { min = 1, max = 3 }, gpus_per_replica = 3 }"#,
            ),
            "blocks of 1, 2, 4 or 8 GPUs",
        ),
        (
            pools(r#"a = { type = "spot", rank = 1, gpus_per_replica = 2 }"#),
            "which only an inference pool has",
        ),
        (
            pools(r#"a = { type = "inference", rank = 1 }"#),
            "is an inference pool without replicas",
        ),
        (
            pools(r#"A_b = { type = "spot", rank = 1 }"#),
            "can't name a pool",
        ),
        (
            format!("node_selector = {{ a = \"b\" }}\n{NODES}\n{POOLS}"),
            "Give either nodes, by name, or node_selector",
        ),
        (
            POOLS.to_owned(),
            "Give either nodes, by name, or node_selector",
        ),
    ] {
        work.file("main.tf", &configuration(nowhere, &rest));
        work.plan().expect(FAILED).says(says);
    }
}
