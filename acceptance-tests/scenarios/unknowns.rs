//! Values and connections that are not known when Terraform plans.

use serde_json::json;

use super::{Bench, IT, REQUIRED, bench, bench_by, gpu, named, service};
use crate::terraform::{Cli, FAILED, HAS_CHANGES, OK};

/// A configuration whose values come from a resource of the same apply.
pub(super) fn from_another(values: &str, arguments: &str) -> String {
    format!(
        "resource \"terraform_data\" \"from\" {{\n  input = {values}\n}}\n{}",
        service(arguments)
    )
}

#[test]
fn values_of_another_resource_are_filled_in_by_apply() {
    for cli in Cli::BOTH {
        let Some(bench) = bench_by(cli, "unknown") else {
            return;
        };
        let text = from_another(
            "{ image = \"registry.k8s.io/pause:3.9\", env = \"e\", replicas = 2, kind = \"nvidia-l4\", count = 1, port = 8000, label = \"l\" }",
            "env = { A = terraform_data.from.output.env }\n  replicas = terraform_data.from.output.replicas\n  labels = { a = terraform_data.from.output.label }\n  \
             ports = [{ name = \"http\", port = terraform_data.from.output.port }]\n  \
             size = { gpu = { kind = terraform_data.from.output.kind, count = terraform_data.from.output.count } }",
        )
        .replace("\"registry.k8s.io/pause:3.10\"", "terraform_data.from.output.image");
        bench.main(&text);
        bench.work.plan().expect(HAS_CHANGES);
        let unknown = bench.work.change(IT)["after_unknown"].clone();
        for name in ["image", "replicas", "hourly_usd", "price", "placement"] {
            assert_eq!(unknown[name], true, "{name}: {unknown}");
        }
        bench.work.apply_plan().expect(OK);
        bench.work.expect_no_changes();
        let state = bench.state();
        assert_eq!(state["image"], "registry.k8s.io/pause:3.9");
        assert_eq!(state["hourly_usd"], 1.6096);
        assert_eq!(bench.deployment("it")["spec"]["replicas"], 2);
        // And an update from there: the values are unknown again.
        bench.main(
            &text
                .replace("env = \"e\"", "env = \"f\"")
                .replace("replicas = 2", "replicas = 1"),
        );
        bench.work.plan().expect(HAS_CHANGES);
        bench.work.apply_plan().expect(OK);
        bench.work.expect_no_changes();
        assert_eq!(bench.state()["hourly_usd"], 0.8048);
        bench.work.destroy().expect(OK);
    }
}

#[test]
fn a_wholly_unknown_size_and_maps_are_filled_in_by_apply() {
    let Some(bench) = bench("unknownsize") else {
        return;
    };
    bench.main(&from_another(
        "{ size = { cpu = 0.5, memory = 512, shm = 64, gpu = { kind = \"nvidia-h100-80gb\", count = 2 } }, env = { A = \"1\" }, list = [\"a\"], replicas = 1 }",
        "size = terraform_data.from.output.size\n  env = terraform_data.from.output.env\n  command = terraform_data.from.output.list\n  replicas = terraform_data.from.output.replicas",
    ));
    bench.work.plan().expect(HAS_CHANGES);
    bench.work.apply_plan().expect(OK);
    bench.work.expect_no_changes();
    let container = bench.pod_spec("it")["containers"][0].clone();
    assert_eq!(container["resources"]["limits"]["nvidia.com/gpu"], "2");
    assert_eq!(container["command"], json!(["a"]));
}

#[test]
fn g5_an_unknown_request_that_can_t_be_met_stops_at_apply_before_anything_is_made() {
    let Some(bench) = bench("unknownbad") else {
        return;
    };
    bench.main(&from_another(
        "{ kind = \"nvidia-h200-141gb\", count = 4 }",
        "size = { gpu = { kind = terraform_data.from.output.kind, count = terraform_data.from.output.count } }",
    ));
    bench.work.plan().expect(HAS_CHANGES);
    bench
        .work
        .apply_plan()
        .expect(FAILED)
        .says("prod can't meet this GPU request")
        .says("12 nodes have nvidia-h100-80gb (8 GPUs per node)");
    assert_eq!(bench.left(), Vec::<String>::new());
    assert!(bench.work.state_of(IT).is_none());
}

/// A provider whose kubeconfig is the output of a resource of the same apply.
fn unknown_connection(bench: &Bench<'_>) {
    bench.work.file(
        "provider.tf",
        &format!(
            "{REQUIRED}resource \"terraform_data\" \"cluster\" {{\n  input = {:?}\n}}\nprovider \"loomplane\" {{\n  clusters = {{\n    prod = {{\n      config_path = terraform_data.cluster.output\n      namespace = {:?}\n    }}\n  }}\n}}\n",
            bench.cluster.kubeconfig().display().to_string(),
            bench.namespace.name()
        ),
    );
}

#[test]
fn g9_an_unknown_connection_plans_with_one_warning_and_is_checked_at_apply() {
    for cli in Cli::BOTH {
        let Some(bench) = bench_by(cli, "unknownconn") else {
            return;
        };
        unknown_connection(&bench);
        bench.main(
            &(service(&gpu("nvidia-l4", 1))
                + &named("two", "")
                + "data \"loomplane_gpu_targets\" \"all\" {\n  depends_on = [terraform_data.cluster]\n}\noutput \"first\" {\n  value = data.loomplane_gpu_targets.all.targets[0].kind\n}\n"),
        );
        let plan = bench.work.plan().expect(HAS_CHANGES);
        let warning = "A connection is not known yet, so its GPU requests were not checked";
        assert_eq!(plan.text().matches(warning).count(), 1, "{}", plan.text());
        bench.work.apply_plan().expect(OK).says("3 added");
        bench.work.expect_no_changes();
        // A data source that waits for a change is read at apply.
        assert_eq!(bench.work.output("first"), "nvidia-l4");
        // The connection becomes unknown again: the state is kept, and nothing is stranded.
        bench
            .work
            .plan_with(&["-replace=terraform_data.cluster"])
            .expect(HAS_CHANGES)
            .says("1 to add, 0 to change, 1 to destroy");
        bench.work.apply_plan().expect(OK);
        bench.work.expect_no_changes();
        bench.work.destroy().expect(OK);
        assert_eq!(bench.left(), Vec::<String>::new());
    }
}

#[test]
fn g9_a_request_behind_an_unknown_connection_is_refused_at_apply_before_anything_is_made() {
    let Some(bench) = bench("unknownconnbad") else {
        return;
    };
    unknown_connection(&bench);
    bench.main(&service(&gpu("nvidia-h200-141gb", 1)));
    bench
        .work
        .plan()
        .expect(HAS_CHANGES)
        .says("its GPU requests were not checked");
    bench
        .work
        .apply_plan()
        .expect(FAILED)
        .says("prod can't meet this GPU request");
    assert_eq!(bench.left(), Vec::<String>::new());
    assert!(bench.work.state_of(IT).is_none());
}

#[test]
fn an_update_behind_an_unknown_connection_goes_through() {
    let Some(bench) = bench("unknownupdate") else {
        return;
    };
    unknown_connection(&bench);
    bench.main(&service(&gpu("nvidia-l4", 1))).applied();
    bench.main(&service(&format!(
        "{}\n  env = {{ A = \"1\" }}",
        gpu("nvidia-h100-80gb", 1)
    )));
    bench
        .work
        .plan_with(&["-replace=terraform_data.cluster"])
        .expect(HAS_CHANGES);
    bench.work.apply_plan().expect(OK);
    bench.work.expect_no_changes();
    assert!(
        bench.pod_spec("it")["affinity"]
            .to_string()
            .contains("H100")
    );
    bench.work.destroy().expect(OK);
}

#[test]
fn g9_an_unknown_target_is_decided_at_apply() {
    let Some(bench) = bench("unknowntarget") else {
        return;
    };
    bench.main(
        &from_another("\"prod\"", &gpu("nvidia-l4", 1))
            .replace("target = \"prod\"", "target = terraform_data.from.output"),
    );
    bench.work.plan().expect(HAS_CHANGES);
    bench.work.apply_plan().expect(OK);
    bench.work.expect_no_changes();
    // Unknown again on an object that is there.
    bench
        .work
        .plan_with(&["-replace=terraform_data.from"])
        .expect(HAS_CHANGES);
    bench.work.apply_plan().expect(OK);
    bench.work.expect_no_changes();
}
