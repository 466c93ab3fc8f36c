//! Requests that can't be met fail the plan, on the attribute, with what was found and what would work (G1 to G5, K10).

use serde_json::json;

use super::{Bench, actions, bench, bench_by, gpu, h100, service};
use crate::cluster::{Cluster, NodeGroup, Parts};
use crate::terraform::{Cli, FAILED, OK};

#[test]
fn g5_a_kind_that_the_cluster_lacks_is_refused_at_plan_per_node_group() {
    for cli in Cli::BOTH {
        let Some(bench) = bench_by(cli, "g5") else {
            return;
        };
        bench.main(&service(&gpu("nvidia-h200-141gb", 1)));
        let refused = bench
            .work
            .plan()
            .expect(FAILED)
            .says("Error: prod can't meet this GPU request")
            .says("Asked for 1 x nvidia-h200-141gb on one node. prod has 28 GPU nodes:")
            .says("16 nodes have nvidia-l4 (1 GPU per node)")
            .says("12 nodes have nvidia-h100-80gb (8 GPUs per node)")
            .says("data.loomplane_gpu_targets lists them");
        // On the attribute: the line of the configuration is shown.
        assert!(refused.text().contains("size = {"), "{}", refused.text());
    }
}

#[test]
fn g5_too_many_for_one_node_is_told_from_too_few_nodes() {
    let Some(bench) = bench("g5count") else {
        return;
    };
    bench.main(&service(&gpu("nvidia-l4", 2)));
    bench
        .work
        .plan()
        .expect(FAILED)
        .says("Asked for 2 x nvidia-l4 on one node.")
        .says("16 nodes have nvidia-l4, but 1 GPU per node")
        .says("Ask for count = 1, or use a target with 2 GPUs per node");
}

#[test]
fn g1_g2_what_no_target_can_do_is_refused_by_validate() {
    let Some(bench) = bench("g1") else { return };
    let cases = [
        (gpu("nvidia-h100", 1), "nvidia-h100-80gb"),
        (gpu("amd-mi300x", 1), "amd-mi300x"),
        (gpu("nvidia-l4", 9), "8"),
        (gpu("nvidia-l4", 0), "1"),
        ("size = { memory = 64, shm = 64 }".to_owned(), "shm"),
        ("size = { cpu = -1 }".to_owned(), "cpu"),
        ("replicas = -1".to_owned(), "replicas"),
        (
            "ports = [{ name = \"a\", port = 70000 }]".to_owned(),
            "port",
        ),
        (
            "ports = [{ name = \"a\", port = 1 }, { name = \"a\", port = 2 }]".to_owned(),
            "names must differ",
        ),
        (
            "replicas = 2\n  volumes = { v = { mount_path = \"/v\", size_gib = 1 } }".to_owned(),
            "ReadWriteMany",
        ),
        ("timeouts = { create = \"soon\" }".to_owned(), "timeouts"),
    ];
    for (arguments, says) in cases {
        bench.main(&service(&arguments));
        let run = bench.work.run(&["validate"]).expect(FAILED);
        assert!(run.text().contains(says), "{arguments}: {}", run.text());
        // The whole text is for a person: no Rust names, no quotes of types.
        assert!(!run.text().contains("Some("), "{}", run.text());
    }
}

#[test]
fn g5_what_no_cluster_takes_is_refused_at_plan_on_its_attribute() {
    let Some(bench) = bench("g5values") else {
        return;
    };
    for (arguments, says) in [
        // A server takes names of users, and its own arguments.
        ("user = \"root\"", "can't be used on a cluster"),
        (
            "restart = \"always\"",
            "restart does not apply to a cluster",
        ),
        (
            "volumes = { v = { mount_path = \"/v\" } }",
            "A volume on a cluster needs a size",
        ),
        (
            "rollout = { max_surge = \"0\", max_unavailable = \"0\" }",
            "A rollout that can't move",
        ),
        (
            "env = { A = \"1\" }\n  secret_env = { A = \"2\" }\n  secret_env_version = 1",
            "Both env and secret_env set A",
        ),
    ] {
        bench.main(&service(arguments));
        let run = bench.work.plan().expect(FAILED).says(says);
        let attribute = arguments.split(' ').next().unwrap_or_default();
        let shown = format!("{attribute} = ");
        assert!(run.text().contains(&shown), "{shown}: {}", run.text());
    }
}

#[test]
fn g9_a_target_that_is_not_configured_is_named_with_those_that_are() {
    let Some(bench) = bench("notarget") else {
        return;
    };
    bench.main(&service("").replace("target = \"prod\"", "target = \"pord\""));
    bench
        .work
        .plan()
        .expect(FAILED)
        .says("There is no target pord")
        .says("Configured are: prod.");
}

#[test]
fn g5_an_unchanged_service_never_fails_a_plan_on_capacity() {
    // What becomes of the nodes that it runs on, and what a request that is new is told then.
    type Turn = fn(&Cluster);
    let node = |name: &str| format!("/api/v1/nodes/{name}");
    let gone: Turn = |cluster| {
        for name in ["h100-0", "h100-1"] {
            cluster.delete(&format!("/api/v1/nodes/{name}"));
        }
    };
    let relabelled: Turn = |cluster| {
        for name in ["h100-0", "h100-1"] {
            cluster.merge(
                &format!("/api/v1/nodes/{name}"),
                &json!({"metadata": {"labels": {"nvidia.com/gpu.product": "NVIDIA-H200"}}}),
            );
        }
    };
    let Some(cluster) = Cluster::own(Parts::All, &[NodeGroup::new("cpu", 1, 0)]) else {
        return;
    };
    let turns = [
        ("gone", gone, "No GPU nodes"),
        (
            "relabelled",
            relabelled,
            "2 nodes have nvidia-h200-141gb (8 GPUs per node)",
        ),
    ];
    for (name, turn, says) in turns {
        cluster.add_nodes(&[h100(2)]);
        let Some(bench) = Bench::on(&cluster, Cli::any(), name) else {
            return;
        };
        let with = |count: u32, more: &str| {
            service(&format!(
                "{}\n  wait = false\n  {more}",
                gpu("nvidia-h100-80gb", count)
            ))
        };
        bench.main(&with(1, "")).applied();
        let before = (bench.pod_spec("it"), bench.state());
        turn(&cluster);
        // Nothing changed: nothing to say, and nothing to do.
        bench.work.expect_no_changes();
        // Another attribute changes: what has no nodes any more is no part of it.
        bench.main(&with(1, "env = { A = \"1\" }"));
        let change = bench.change();
        assert_eq!(actions(&change), "update", "{name}");
        for carried in ["hourly_usd", "monthly_usd", "price"] {
            assert_eq!(change["after"][carried], before.1[carried], "{name}");
        }
        assert_eq!(
            change["after"]["placement"]["admits"],
            before.1["placement"]["admits"]
        );
        bench.work.apply_plan().expect(OK);
        bench.work.expect_no_changes();
        let after = bench.pod_spec("it");
        assert_eq!(
            after["containers"][0]["env"],
            json!([{"name": "A", "value": "1"}])
        );
        // Its placement stays as it was applied: nodes that come back are admitted.
        for kept in ["affinity", "tolerations"] {
            assert_eq!(after[kept], before.0[kept], "{name}: {kept}");
        }
        assert!(after["affinity"].is_object());
        // A request that is new is refused, before anything is changed.
        bench.main(&with(2, "env = { A = \"1\" }"));
        bench.work.plan().expect(FAILED).says(says);
        assert_eq!(bench.pod_spec("it"), after);
        // A pod of a node that is gone ends only when the garbage collector finds it, a minute later.
        cluster.add_nodes(&[h100(2)]);
        bench.main("");
        bench.work.apply().expect(OK);
        assert!(!cluster.exists(&bench.namespace.deployment("it")));
        for name in ["h100-0", "h100-1"] {
            cluster.delete(&node(name));
        }
    }
}

#[test]
fn the_configuration_s_own_mistakes_never_reach_the_cluster() {
    let Some(bench) = bench("admission") else {
        return;
    };
    // What only the API server knows is its own words, with what was tried.
    bench.main(&service("labels = { \"not a label\" = \"x\" }"));
    bench.work.apply().expect(FAILED).says("not a label");
    assert_eq!(bench.left(), Vec::<String>::new());
}

#[test]
fn a_namespace_that_is_not_there_is_said_to_be_missing() {
    let Some(bench) = bench("nonamespace") else {
        return;
    };
    bench.main(&service("namespace = \"absent\""));
    bench
        .work
        .apply()
        .expect(FAILED)
        .says("namespaces \"absent\" not found");
    assert!(bench.work.state_of(super::IT).is_none());
}
