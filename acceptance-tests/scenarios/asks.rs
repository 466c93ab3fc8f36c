//! What a change of a service asks of its cluster anew, and what it leaves as it was (G5, G8, G9, K5).

use serde_json::{Value, json};

use super::{Bench, IT, bench, gpu, l4, service, unknowns::from_another};
use crate::cluster::{Cluster, NodeGroup, Parts};
use crate::terraform::{Cli, FAILED, HAS_CHANGES, OK};

#[test]
fn a_namespace_of_the_same_apply_is_filled_in_by_apply() {
    let Some(bench) = bench("unknownns") else {
        return;
    };
    let namespace = format!("{:?}", bench.namespace.name());
    bench.main(&from_another(
        &namespace,
        &format!(
            "namespace = terraform_data.from.output\n  {}",
            gpu("nvidia-l4", 1)
        ),
    ));
    bench.work.plan().expect(HAS_CHANGES);
    let change = bench.work.change(IT);
    assert_eq!(change["after_unknown"]["namespace"], true);
    // The rest of the request is checked all the same.
    assert_eq!(change["after"]["hourly_usd"], 0.8048);
    bench.work.apply_plan().expect(OK);
    bench.work.expect_no_changes();
    assert_eq!(bench.state()["namespace"], bench.namespace.name());
}

#[test]
fn g5_a_selector_of_the_same_apply_refuses_nothing_that_could_be_met() {
    let Some(bench) = bench("unknownsel") else {
        return;
    };
    let text = from_another(
        "{ value = \"g6.xlarge\", key = \"team\" }",
        &format!(
            "{}\n  node_selector = {{ \"node.kubernetes.io/instance-type\" = terraform_data.from.output.value }}\n  \
             tolerations = [{{ key = terraform_data.from.output.key, operator = \"Exists\" }}]",
            gpu("nvidia-l4", 1)
        ),
    );
    bench.main(&text);
    bench.work.plan().expect(HAS_CHANGES);
    let change = bench.work.change(IT);
    // Labels depend on the kind alone; the price on the nodes that the selector leaves.
    assert_eq!(
        change["after"]["placement"]["admits"]["nvidia.com/gpu.product"],
        json!(["NVIDIA-L4"])
    );
    assert_eq!(change["after_unknown"]["hourly_usd"], true);
    bench.work.apply_plan().expect(OK);
    bench.work.expect_no_changes();
    assert_eq!(bench.state()["hourly_usd"], 0.8048);

    // What no selector could help is refused at plan, and what the value turns out not to be at apply, before anything is changed.
    bench.work.destroy().expect(OK);
    bench.main(&text.replace("nvidia-l4", "nvidia-h200-141gb"));
    bench
        .work
        .plan()
        .expect(FAILED)
        .says("prod can't meet this GPU request");
    bench.main(&text.replace("g6.xlarge", "none"));
    bench.work.plan().expect(HAS_CHANGES);
    bench
        .work
        .apply_plan()
        .expect(FAILED)
        .says("prod can't meet this GPU request");
    assert_eq!(bench.left(), Vec::<String>::new());
}

#[test]
fn g5_a_selector_that_no_node_satisfies_is_refused_where_it_is_changed_and_the_pods_run_on() {
    let Some(bench) = bench("selector") else {
        return;
    };
    bench.main(&service(&gpu("nvidia-l4", 1))).applied();
    let before = bench.pod_spec("it");
    let elsewhere = service(&format!(
        "{}\n  node_selector = {{ \"topology.kubernetes.io/zone\" = \"nowhere\" }}",
        gpu("nvidia-l4", 1)
    ));
    bench.main(&elsewhere);
    bench
        .work
        .plan()
        .expect(FAILED)
        .says("prod can't meet this GPU request")
        // On the attribute that caused it.
        .says("node_selector = {");
    assert_eq!(bench.pod_spec("it"), before);
    // One that leaves nodes is an update, at the price that it had (G8).
    bench.main(&service(&format!(
        "{}\n  node_selector = {{ \"node.kubernetes.io/instance-type\" = \"g6.xlarge\" }}",
        gpu("nvidia-l4", 1)
    )));
    let change = bench.change();
    assert_eq!(super::actions(&change), "update");
    assert_eq!(
        change["after"]["hourly_usd"],
        change["before"]["hourly_usd"]
    );
    bench.work.apply_plan().expect(OK);
    bench.work.expect_no_changes();
}

#[test]
fn g5_what_no_node_is_large_enough_for_and_a_label_that_none_has_are_refused_at_plan() {
    let small = l4(1).resource("cpu", "3920m").resource("memory", "14Gi");
    let Some(cluster) = Cluster::own(Parts::All, &[small.label("team", "ml")]) else {
        return;
    };
    let Some(bench) = Bench::on(&cluster, Cli::any(), "size") else {
        return;
    };
    let sized = |cpu: &str, memory: u32, more: &str| {
        service(&format!(
            "size = {{ cpu = {cpu}, memory = {memory}, gpu = {{ kind = \"nvidia-l4\", count = 1 }} }}\n  {more}"
        ))
    };
    for (cpu, memory) in [("4", 1024), ("1", 20_000)] {
        bench.main(&sized(cpu, memory, ""));
        bench
            .work
            .plan()
            .expect(FAILED)
            .says("but at most 3.92 cores and 14336 MiB for a pod")
            .says("Ask for less size.cpu or size.memory");
    }
    bench.main(&sized("1", 1024, "node_selector = { team = \"web\" }"));
    bench
        .work
        .plan()
        .expect(FAILED)
        .says("but not the labels of node_selector")
        .says("node_selector = {");
    bench
        .main(&sized("1", 1024, "node_selector = { team = \"ml\" }"))
        .applied();
    // A larger pod is a new request; a smaller one is not refused, whatever became of the nodes.
    bench.main(&sized("4", 1024, ""));
    bench.work.plan().expect(FAILED);
    cluster.delete("/api/v1/nodes/l4-0");
    bench.main(&sized(
        "0.5",
        1024,
        "wait = false\n  node_selector = { team = \"ml\" }",
    ));
    bench.work.plan().expect(HAS_CHANGES);
}

#[test]
fn g8_a_pod_of_unknown_size_has_a_price_after_apply() {
    let cheap = l4(1).resource("cpu", "4");
    let large = NodeGroup::new("large", 1, 1)
        .label("node.kubernetes.io/instance-type", "g6.16xlarge")
        .label("nvidia.com/gpu.product", "NVIDIA-L4")
        .label("topology.kubernetes.io/region", "us-east-1")
        .taint("nvidia.com/gpu=present:NoSchedule");
    let Some(cluster) = Cluster::own(Parts::All, &[cheap, large]) else {
        return;
    };
    let Some(bench) = Bench::on(&cluster, Cli::any(), "unknownsize") else {
        return;
    };
    // Only the large machine holds what comes, and it has another price than both have.
    bench.main(&from_another(
        "8",
        "size = { cpu = terraform_data.from.output, gpu = { kind = \"nvidia-l4\", count = 1 } }",
    ));
    bench.work.plan().expect(HAS_CHANGES);
    assert_eq!(bench.work.change(IT)["after_unknown"]["hourly_usd"], true);
    bench.work.apply_plan().expect(OK);
    bench.work.expect_no_changes();
    assert_eq!(bench.namespace.nodes_used(), ["large-0"]);
}

#[test]
fn g5_a_toleration_that_its_nodes_need_is_not_taken_away() {
    let tainted = NodeGroup::new("a", 1, 1)
        .label("nvidia.com/gpu.product", "NVIDIA-L4")
        .taint("team=a:NoSchedule");
    let other = NodeGroup::new("b", 1, 1)
        .label("nvidia.com/gpu.product", "NVIDIA-L4")
        .taint("team=b:NoSchedule");
    let Some(cluster) = Cluster::own(Parts::All, &[tainted, other]) else {
        return;
    };
    let Some(bench) = Bench::on(&cluster, Cli::any(), "tolerate") else {
        return;
    };
    let with = format!(
        "{}\n  tolerations = [{{ key = \"team\", value = \"a\", effect = \"NoSchedule\" }}]",
        gpu("nvidia-l4", 1)
    );
    bench.main(&service(&with)).applied();
    bench.main(&service(&gpu("nvidia-l4", 1)));
    bench
        .work
        .plan()
        .expect(FAILED)
        .says("but the taint team=a:NoSchedule");
    // A toleration that is not known yet may be the one that is needed.
    bench.main(&from_another(
        "\"a\"",
        &format!(
            "{}\n  tolerations = [{{ key = \"team\", value = terraform_data.from.output, effect = \"NoSchedule\" }}]",
            gpu("nvidia-l4", 1)
        ),
    ));
    bench.work.plan().expect(HAS_CHANGES);
    bench.work.apply_plan().expect(OK);
    bench.work.expect_no_changes();
}

#[test]
fn g8_a_price_that_hangs_on_an_unknown_override_is_known_after_apply() {
    let Some(bench) = bench("unknownprice") else {
        return;
    };
    bench.connections(
        &[("prod", "")],
        "prices = { \"aws:g6.xlarge\" = terraform_data.price.output }",
    );
    let text = format!(
        "resource \"terraform_data\" \"price\" {{\n  input = 2.5\n}}\n{}",
        service(&gpu("nvidia-l4", 1))
    );
    bench.main(&text);
    bench
        .work
        .plan()
        .expect(HAS_CHANGES)
        .says("Some prices are not known yet");
    assert_eq!(bench.work.change(IT)["after_unknown"]["hourly_usd"], true);
    bench.work.apply_plan().expect(OK);
    bench.work.expect_no_changes();
    assert_eq!(bench.state()["hourly_usd"], 2.5);
    // Unknown again: what is stored stays, and nothing is planned.
    let plan = bench
        .work
        .plan_with(&["-replace=terraform_data.price"])
        .expect(HAS_CHANGES);
    assert!(
        plan.text().contains("1 to add, 0 to change, 1 to destroy"),
        "{}",
        plan.text()
    );
    // P4: a limit is held before anything is made.
    bench.work.destroy().expect(OK);
    bench.main(&text.replace("size =", "max_hourly_usd = 1\n  size ="));
    bench.work.plan().expect(HAS_CHANGES);
    bench
        .work
        .apply_plan()
        .expect(FAILED)
        .says("Above the price limit");
    assert_eq!(bench.left(), Vec::<String>::new());
}

#[test]
fn k5_refresh_warns_when_no_node_admits_the_pods_and_g9_a_rename_is_not_refused_for_it() {
    let Some(cluster) = Cluster::own(Parts::All, &[l4(1)]) else {
        return;
    };
    let Some(bench) = Bench::on(&cluster, Cli::any(), "k5gone") else {
        return;
    };
    let text = service(&format!("{}\n  wait = false", gpu("nvidia-l4", 1)));
    bench.main(&text).applied();
    let before = bench.pod_spec("it");
    cluster.delete("/api/v1/nodes/l4-0");
    let warning = "No node of prod admits the pods of a GPU service any more";
    bench
        .work
        .plan_with(&["-refresh-only"])
        .expect(HAS_CHANGES)
        .says(warning);
    bench.work.plan().expect(OK).says(warning);
    // Another name of the cluster changes nothing there, and asks for nothing.
    bench.connections(&[("renamed", "")], "");
    bench.main(&text.replace("target = \"prod\"", "target = \"renamed\""));
    bench
        .work
        .plan()
        .expect(HAS_CHANGES)
        .says("0 to add, 1 to change, 0 to destroy");
    bench.work.apply_plan().expect(OK);
    assert_eq!(bench.pod_spec("it"), before);
    // K5 without a word where nothing runs.
    bench.main(&text.replace("target = \"prod\"", "target = \"renamed\"\n  replicas = 0"));
    bench.work.apply().expect(OK);
    bench.work.plan().expect(OK).says_not("admits the pods");
}

#[test]
fn g9_an_update_touches_no_other_cluster_and_no_other_deployment_of_the_name() {
    let (Some(one), Some(two)) = (super::cluster(), Cluster::own(Parts::Api, &[])) else {
        return;
    };
    let Some(bench) = Bench::on(one, Cli::any(), "otheruid") else {
        return;
    };
    let text = service("wait = false\n  force_conflicts = true");
    bench.main(&text).applied();
    let changed = text.replace("pause:3.10", "pause:3.9");
    bench.main(&changed);

    // Planned here, applied where the connection leads to another cluster by now.
    bench
        .work
        .plan_with(&["-refresh=false"])
        .expect(HAS_CHANGES);
    let there = two.namespace("otheruid");
    let deployment = |name: &str| {
        json!({"metadata": {"name": name}, "spec": {"selector": {"matchLabels": {"app": name}}, "template": {
            "metadata": {"labels": {"app": name}}, "spec": {"containers": [{"name": "main", "image": "someone-elses"}]}}}})
    };
    let image = |deployment: &Value| {
        deployment["spec"]["template"]["spec"]["containers"][0]["image"].clone()
    };
    let provider = |cluster: &Cluster, namespace: &str| {
        bench.work.file("provider.tf", &format!("{}provider \"loomplane\" {{\n  clusters = {{\n    prod = {{ config_path = {:?}, namespace = {namespace:?} }}\n  }}\n}}\n", super::REQUIRED, cluster.kubeconfig().display().to_string()));
    };
    two.create(
        "/api/v1/namespaces",
        &json!({"metadata": {"name": bench.namespace.name()}}),
    );
    drop(there);
    two.create(
        &format!(
            "/apis/apps/v1/namespaces/{}/deployments",
            bench.namespace.name()
        ),
        &deployment("it"),
    );
    provider(&two, bench.namespace.name());
    bench
        .work
        .apply_with(&["-refresh=false"])
        .expect(FAILED)
        .says("prod is another cluster now");
    assert_eq!(
        image(&two.get(&bench.namespace.deployment("it"))),
        "someone-elses"
    );

    // The Deployment was deleted, and another one made by its name.
    provider(one, bench.namespace.name());
    one.delete(&bench.namespace.deployment("it"));
    one.await_true(
        &format!(
            "/apis/apps/v1/namespaces/{}/deployments",
            bench.namespace.name()
        ),
        super::SOON,
        |list| list["items"] == json!([]),
    );
    one.create(
        &format!(
            "/apis/apps/v1/namespaces/{}/deployments",
            bench.namespace.name()
        ),
        &deployment("it"),
    );
    bench
        .work
        .apply_with(&["-refresh=false"])
        .expect(FAILED)
        .says("another one has its name");
    assert_eq!(image(&bench.deployment("it")), "someone-elses");
}
