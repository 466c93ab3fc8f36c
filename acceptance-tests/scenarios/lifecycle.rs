//! Plan, apply, empty second plan, update, replace, import, move, remove, destroy.

use serde_json::json;

use super::{Bench, IT, SOON, actions, bench, bench_by, gpu, named, service};
use crate::terraform::{Cli, FAILED, HAS_CHANGES, OK};

#[test]
fn a_service_is_planned_applied_updated_replaced_and_destroyed_by_both_clis() {
    for cli in Cli::BOTH {
        let Some(bench) = bench_by(cli, "life") else {
            return;
        };
        bench.main(&service(&gpu("nvidia-l4", 1)));
        bench.work.plan().expect(HAS_CHANGES).says("1 to add");
        let planned = bench.work.change(IT)["after"].clone();
        assert_eq!(planned["namespace"], bench.namespace.name());
        assert_eq!(planned["hourly_usd"], 0.8048);
        assert_eq!(
            planned["placement"]["admits"]["nvidia.com/gpu.product"],
            json!(["NVIDIA-L4"])
        );
        bench.work.apply_plan().expect(OK);
        bench.work.expect_no_changes();
        let state = bench.state();
        assert_eq!(state["status"], "available (1 of 1 ready)");
        assert_eq!(
            state["placement"]["tolerations"],
            json!(["nvidia.com/gpu=present:NoSchedule"])
        );
        assert!(
            bench
                .namespace
                .nodes_used()
                .iter()
                .all(|node| node.starts_with("l4-"))
        );

        bench.main(&service(&format!(
            "{}\n  env = {{ A = \"1\" }}",
            gpu("nvidia-l4", 1)
        )));
        let change = bench.change();
        assert_eq!(actions(&change), "update");
        // G8: what the change does not touch is carried, and known.
        assert_eq!(change["after"]["hourly_usd"], 0.8048);
        bench.work.apply_plan().expect(OK);
        bench.work.expect_no_changes();
        assert_eq!(
            bench.pod_spec("it")["containers"][0]["env"],
            json!([{"name": "A", "value": "1"}])
        );

        bench.main(&service(&gpu("nvidia-l4", 1)).replace("name = \"it\"", "name = \"other\""));
        let change = bench.change();
        assert_eq!(actions(&change), "delete-create");
        assert_eq!(change["replace_paths"], json!([["name"]]));
        bench.work.apply_plan().expect(OK);
        bench.work.expect_no_changes();
        assert!(!bench.cluster.exists(&bench.namespace.deployment("it")));

        bench.work.destroy().expect(OK);
        assert_eq!(bench.left(), Vec::<String>::new());
    }
}

#[test]
fn another_kind_moves_the_pods_in_place() {
    let Some(bench) = bench("kind") else { return };
    bench.main(&service(&gpu("nvidia-l4", 1))).applied();
    bench.main(&service(&gpu("nvidia-h100-80gb", 2)));
    let change = bench.change();
    assert_eq!(actions(&change), "update");
    assert_eq!(
        change["after"]["placement"]["admits"]["nvidia.com/gpu.product"][0]
            .as_str()
            .map(|label| label.starts_with("NVIDIA-H100")),
        Some(true)
    );
    assert_ne!(
        change["after"]["hourly_usd"],
        change["before"]["hourly_usd"]
    );
    bench.work.apply_plan().expect(OK);
    bench.work.expect_no_changes();
    let pods = bench.cluster.await_true(
        &format!("/api/v1/namespaces/{}/pods", bench.namespace.name()),
        SOON,
        |pods| pods["items"].as_array().unwrap().len() == 1,
    );
    let node = pods["items"][0]["spec"]["nodeName"].as_str().unwrap();
    assert!(node.starts_with("h100-"), "{node}");
}

#[test]
fn fifty_services_by_for_each() {
    let Some(bench) = bench("fifty") else { return };
    let fifty = |count: u32| {
        format!(
            "resource \"loomplane_gpu_service\" \"it\" {{\n  for_each = toset([for n in range({count}) : format(\"s%02d\", n)])\n  name = each.key\n  target = \"prod\"\n  image = \"registry.k8s.io/pause:3.10\"\n  {}\n}}\n\
             output \"total\" {{ value = provider::loomplane::price_total({{ for k, s in loomplane_gpu_service.it : k => s.hourly_usd }}) }}\n",
            gpu("nvidia-h100-80gb", 1)
        )
    };
    bench.main(&fifty(50));
    bench.work.plan().expect(HAS_CHANGES).says("50 to add");
    bench.work.apply_plan().expect(OK);
    bench.work.expect_no_changes();
    let nodes = bench.namespace.nodes_used();
    assert_eq!(nodes.len(), 50);
    assert!(nodes.iter().all(|node| node.starts_with("h100-")));
    let total = bench.work.output("total");
    assert_eq!(total["unknown"], json!([]));
    assert!(total["hourly_usd"].as_f64().unwrap() > 50.0, "{total}");
    bench.main(&fifty(49));
    bench
        .work
        .plan()
        .expect(HAS_CHANGES)
        .says("0 to add, 0 to change, 1 to destroy");
    bench.work.destroy().expect(OK).says("50 destroyed");
    assert_eq!(bench.left(), Vec::<String>::new());
}

#[test]
fn an_import_holds_what_the_applied_state_holds_and_plans_nothing() {
    for cli in Cli::BOTH {
        let Some(bench) = bench_by(cli, "import") else {
            return;
        };
        let text = service(&format!(
            "{}\n  command = [\"/pause\"]\n  args = [\"-v\"]\n  env = {{ A = \"1\", B = \"\" }}\n  replicas = 2\n  labels = {{ team = \"ml\" }}\n  \
             annotations = {{ \"example.com/a\" = \"b\" }}\n  ports = [{{ name = \"http\", port = 8000 }}, {{ name = \"dns\", port = 53, protocol = \"UDP\" }}]\n  \
             health_check = {{ http_path = \"/ok\", port = 8000 }}\n  tolerations = [{{ key = \"dedicated\", operator = \"Exists\", effect = \"NoSchedule\" }}, {{ key = \"x\", value = \"y\", effect = \"NoExecute\", seconds = 30 }}]\n  \
             node_selector = {{ \"kubernetes.io/os\" = \"linux\" }}\n  stop_grace_seconds = 5\n  service_type = \"NodePort\"\n  user = \"1000:1000\"\n  working_dir = \"/tmp\"",
            gpu("nvidia-l4", 1)
        ));
        bench.main(&text).applied();
        let before = bench.state();
        std::fs::remove_file(bench.work.path().join("terraform.tfstate")).unwrap();
        bench
            .work
            .import(IT, &format!("prod/{}/it", bench.namespace.name()))
            .expect(OK)
            .says_not("can't be expressed");
        let after = bench.state();
        for (name, value) in before.as_object().unwrap() {
            assert_eq!(*value, after[name], "{name} by {cli:?}");
        }
        bench.work.expect_no_changes();
        bench.work.destroy().expect(OK);
    }
}

#[test]
fn an_import_block_plans_no_change() {
    let Some(bench) = bench("importblock") else {
        return;
    };
    bench.main(&service(&gpu("nvidia-l4", 1))).applied();
    std::fs::remove_file(bench.work.path().join("terraform.tfstate")).unwrap();
    bench.work.file(
        "import.tf",
        &format!(
            "import {{\n  to = {IT}\n  id = \"prod/{}/it\"\n}}\n",
            bench.namespace.name()
        ),
    );
    bench.work.plan();
    assert_eq!(actions(&bench.work.change(IT)), "no-op");
    bench
        .work
        .apply_plan()
        .expect(OK)
        .says("1 imported, 0 added, 0 changed, 0 destroyed");
    bench.work.expect_no_changes();
}

#[test]
fn a_wrong_import_id_says_what_it_should_be() {
    let Some(bench) = bench("importid") else {
        return;
    };
    bench.main(&service(""));
    for (id, says) in [
        (
            "it",
            "\"it\" is neither TARGET/NAMESPACE/NAME of a cluster, such as \"prod/inference/llm\"",
        ),
        ("nowhere/ns/it", "There is no target nowhere"),
        (
            "prod/default/absent",
            "Cluster prod has no Deployment default/absent",
        ),
    ] {
        bench.work.import(IT, id).expect(FAILED).says(says);
    }
}

#[test]
fn only_what_target_names_is_applied() {
    let Some(bench) = bench("target") else { return };
    bench.main(&(named("one", "") + &named("two", "env = { A = loomplane_gpu_service.one.id }")));
    bench
        .work
        .apply_with(&["-target=loomplane_gpu_service.one"])
        .expect(OK)
        .says("1 added");
    assert!(!bench.cluster.exists(&bench.namespace.deployment("two")));
    bench.work.apply().expect(OK).says("1 added, 0 changed");
    bench.work.expect_no_changes();
}

#[test]
fn moved_and_removed_touch_nothing() {
    for cli in Cli::BOTH {
        let Some(bench) = bench_by(cli, "moved") else {
            return;
        };
        bench.main(&service("")).applied();
        let before = identity(&bench);
        let renamed = service("").replace(
            "\"loomplane_gpu_service\" \"it\"",
            "\"loomplane_gpu_service\" \"new\"",
        );
        bench.main(&format!(
            "{renamed}\nmoved {{\n  from = {IT}\n  to = loomplane_gpu_service.new\n}}\n"
        ));
        bench
            .work
            .apply()
            .expect(OK)
            .says("0 added, 0 changed, 0 destroyed");
        assert!(bench.work.state_of("loomplane_gpu_service.new").is_some());
        bench.work.expect_no_changes();
        assert_eq!(identity(&bench), before);

        bench.main("removed {\n  from = loomplane_gpu_service.new\n  lifecycle {\n    destroy = false\n  }\n}\n");
        bench.work.apply().expect(OK);
        assert!(bench.work.state_of("loomplane_gpu_service.new").is_none());
        assert_eq!(identity(&bench), before);
    }
}

/// What changes when anyone writes to the Deployment.
fn identity(bench: &Bench<'_>) -> (serde_json::Value, serde_json::Value) {
    let metadata = &bench.deployment("it")["metadata"];
    (metadata["uid"].clone(), metadata["generation"].clone())
}
