//! Requests that can't be met fail the plan, on the attribute, with what was found and what would work (G1 to G5, K10).

use super::{bench, bench_by, gpu, service};
use crate::terraform::{Cli, FAILED, HAS_CHANGES, OK};

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
    let Some(bench) = bench("g5unchanged") else {
        return;
    };
    bench.main(&service(&gpu("nvidia-l4", 1))).applied();
    // A group that now says no: a selector that no node carries, set by hand on a service that runs.
    bench.main(&service(&format!(
        "{}\n  env = {{ A = \"1\" }}",
        gpu("nvidia-l4", 1)
    )));
    bench.work.plan().expect(HAS_CHANGES);
    bench.work.apply_plan().expect(OK);
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
