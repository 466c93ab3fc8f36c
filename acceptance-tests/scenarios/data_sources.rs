//! What data sources say of a real fleet, and of connections that are not known yet (K1, K3, K7, K11, G1, G4).

use std::path::Path;

use serde_json::{Value, json};

use super::{Bench, REQUIRED, gpu, service};
use crate::cluster::{Cluster, NodeGroup, Parts};
use crate::terraform::{Cli, FAILED, HAS_CHANGES, OK};

const PROD: &str = "data \"loomplane_cluster\" \"prod\" {\n  name = \"prod\"\n}\noutput \"prod\" {\n  value = data.loomplane_cluster.prod\n}\n";
const TARGETS: &str = "data \"loomplane_gpu_targets\" \"all\" {}\noutput \"targets\" {\n  value = data.loomplane_gpu_targets.all\n}\n";

/// A group of two L4 nodes, without a taint.
fn l4(name: &str) -> NodeGroup {
    NodeGroup::new(name, 2, 1)
        .label("nvidia.com/gpu.product", "NVIDIA-L4")
        .label("node.kubernetes.io/instance-type", "g6.xlarge")
}

/// Groups that have GPUs and give no whole ones to amd64 pods.
fn not_whole() -> [NodeGroup; 4] {
    [
        NodeGroup::new("shared", 2, 4)
            .label("nvidia.com/gpu.product", "NVIDIA-A10G-SHARED")
            .label("nvidia.com/gpu.replicas", "4"),
        NodeGroup::new("mig", 1, 0)
            .label("nvidia.com/gpu.product", "NVIDIA-H100-80GB-HBM3")
            .resource("nvidia.com/mig-1g.10gb", "56"),
        NodeGroup::new("arm", 1, 1)
            .arch("arm64")
            .label("cloud.google.com/gke-accelerator", "nvidia-l4"),
        NodeGroup::new("bare", 1, 0).label("nvidia.com/gpu.product", "Tesla-T4"),
    ]
}

/// Applies, and gives an output.
fn read(bench: &Bench<'_>, output: &str) -> Value {
    bench.work.apply().expect(OK);
    bench.work.expect_no_changes();
    bench.work.output(output)
}

fn row<'a>(rows: &'a Value, key: &str, value: &str) -> &'a Value {
    let found = rows
        .as_array()
        .unwrap()
        .iter()
        .find(|row| row[key] == value);
    found.unwrap_or_else(|| panic!("no {key} = {value} in {rows:#}"))
}

#[test]
fn k7_a_check_reports_every_group_as_what_it_is() {
    let Some(cluster) = Cluster::own(Parts::Api, &not_whole()) else {
        return;
    };
    let Some(bench) = Bench::on(&cluster, Cli::any(), "check") else {
        return;
    };
    bench.main(&(PROD.to_owned() + TARGETS));
    // Nothing can be used: the reason says so of each group, with what to do.
    let check = read(&bench, "prod");
    assert_eq!(check["can_take_gpu_work"], false);
    assert_eq!(check["kinds"], json!([]));
    let reason = check["reason"].as_str().unwrap();
    for line in [
        "None of its GPU nodes can take GPU work:",
        "  2 nodes have nvidia-a10g, but shared, not whole GPUs (nvidia.com/gpu.product = NVIDIA-A10G-SHARED). Turn sharing off",
        "  1 node has nvidia-h100-80gb, but as MIG slices, not whole GPUs (nvidia.com/mig-1g.10gb: 56). Turn MIG off",
        "  1 node has nvidia-l4, but the architecture is arm64. GPU work runs on amd64 only.",
        "  1 node has nvidia-t4, but nothing there advertises nvidia.com/gpu. Let the NVIDIA device plugin",
    ] {
        assert!(reason.contains(line), "{line}\n{reason}");
    }
    let rows = &check["gpus"];
    assert_eq!(rows.as_array().unwrap().len(), 4, "{rows:#}");
    for (kind, nodes, gpus) in [
        ("nvidia-a10g", 2, Value::Null),
        ("nvidia-h100-80gb", 1, Value::Null),
        ("nvidia-l4", 1, json!(1)),
        ("nvidia-t4", 1, Value::Null),
    ] {
        let row = row(rows, "kind", kind);
        assert_eq!(
            (&row["usable"], &row["nodes"], &row["gpus_per_node"]),
            (&json!(false), &json!(nodes), &gpus),
            "{row:#}"
        );
        assert!(reason.contains(row["reason"].as_str().unwrap()), "{row:#}");
    }
    // The list of targets has each kind too, with the same verdict.
    let targets = &bench.work.output("targets")["targets"];
    assert_eq!(targets.as_array().unwrap().len(), 4, "{targets:#}");
    let shared = row(targets, "kind", "nvidia-a10g");
    assert_eq!(shared["usable"], false);
    assert!(
        shared["reason"]
            .as_str()
            .unwrap()
            .contains("shared, not whole GPUs"),
        "{shared:#}"
    );

    // A good group of a kind that the arm64 node has as well, and a declared one.
    cluster.add_nodes(&[l4("good")]);
    bench.connections(
        &[("prod", "gpu_node_groups = { h200 = { kind = \"nvidia-h200-141gb\", gpus_per_node = 8, instance_type = \"p5en.48xlarge\" } }")],
        "",
    );
    let check = read(&bench, "prod");
    assert_eq!(check["can_take_gpu_work"], true);
    assert_eq!(check["reason"], Value::Null);
    assert_eq!(check["kinds"], json!(["nvidia-l4", "nvidia-h200-141gb"]));
    let rows = &check["gpus"];
    let usable: Vec<_> = rows
        .as_array()
        .unwrap()
        .iter()
        .filter(|row| row["usable"] == true)
        .collect();
    assert_eq!(usable.len(), 2, "{rows:#}");
    let good = row(rows, "instance_type", "g6.xlarge");
    assert_eq!(
        (
            &good["usable"],
            &good["nodes"],
            &good["gpus_per_node"],
            &good["hourly_usd"],
            &good["reason"]
        ),
        (
            &json!(true),
            &json!(2),
            &json!(1),
            &json!(0.8048),
            &Value::Null
        ),
        "{good:#}"
    );
    let declared = row(rows, "node_group", "h200");
    assert_eq!(
        (
            &declared["usable"],
            &declared["nodes"],
            &declared["gpus_per_node"]
        ),
        (&json!(true), &json!(0), &json!(8)),
        "{declared:#}"
    );
    let namespace = cluster.get("/api/v1/namespaces/kube-system");
    assert_eq!(check["target_uid"], namespace["metadata"]["uid"]);
}

#[test]
fn k11_nodes_that_disagree_with_a_declaration_are_named_by_warning_refusal_and_check() {
    let Some(cluster) = Cluster::own(Parts::Api, &[l4("good")]) else {
        return;
    };
    let Some(bench) = Bench::on(&cluster, Cli::any(), "checkk11") else {
        return;
    };
    bench.connections(
        &[("prod", "gpu_node_groups = { l4 = { kind = \"nvidia-l4\", gpus_per_node = 4, label = { key = \"nvidia.com/gpu.product\", value = \"NVIDIA-L4\" } } }")],
        "",
    );
    let says = "The nodes of prod disagree with gpu_node_groups.l4";
    bench.main(&service(&gpu("nvidia-l4", 2)));
    let refused = bench.work.plan().expect(FAILED);
    refused
        .says("2 nodes have nvidia-l4, but 1 GPU per node")
        .says(says);
    bench.main(&service(&gpu("nvidia-l4", 1)));
    bench.work.plan().expect(HAS_CHANGES).says(says);
    bench.main(PROD);
    let check = read(&bench, "prod");
    assert_eq!(check["can_take_gpu_work"], true);
    let declared = row(&check["gpus"], "node_group", "l4");
    assert_eq!(declared["usable"], false);
    let reason = declared["reason"].as_str().unwrap();
    assert!(reason.starts_with(says), "{reason}");
    assert!(
        reason.ends_with("The nodes win: correct the declaration."),
        "{reason}"
    );
}

#[test]
fn k1_a_check_without_the_right_to_list_nodes_says_so_with_the_rights() {
    let Some(cluster) = Cluster::shared() else {
        return;
    };
    let Some(bench) = Bench::on(cluster, Cli::any(), "checkk1") else {
        return;
    };
    let rules =
        json!([{"apiGroups": ["apps"], "resources": ["deployments"], "verbs": ["get", "list"]}]);
    let kubeconfig = cluster.kubeconfig_for(bench.namespace.name(), "deployer", &rules, false);
    bench.connections_with(&kubeconfig, &[("prod", "")], "");
    bench.main(&(PROD.to_owned() + TARGETS));
    let check = read(&bench, "prod");
    let targets = bench.work.output("targets");
    let target = &targets["targets"][0];
    assert_eq!(
        (&check["can_take_gpu_work"], &target["usable"]),
        (&json!(false), &json!(false))
    );
    assert_eq!(check["target_uid"], Value::Null);
    for reason in [&check["reason"], &target["reason"]] {
        let reason = reason.as_str().unwrap();
        for part in [
            "Loomplane can't list this cluster's nodes, so it can't see GPUs. Apply this ClusterRole and binding, or declare",
            "kind: ClusterRoleBinding",
            "name: deployer\n",
        ] {
            assert!(reason.contains(part), "{part}\n{reason}");
        }
    }
    // A declared group is all that is known then; a request that it can't meet is refused with the same rights.
    bench.connections_with(
        &kubeconfig,
        &[(
            "prod",
            "gpu_node_groups = { l4 = { kind = \"nvidia-l4\", gpus_per_node = 1 } }",
        )],
        "",
    );
    let check = read(&bench, "prod");
    assert_eq!(
        (&check["can_take_gpu_work"], &check["kinds"]),
        (&json!(true), &json!(["nvidia-l4"]))
    );
    bench.main(&service(&gpu("nvidia-l4", 2)));
    bench
        .work
        .plan()
        .expect(FAILED)
        .says("Loomplane can't list this cluster's nodes, so it can't see GPUs. Its declared node groups do not fit:")
        .says("node group l4 (declared) has nvidia-l4, but 1 GPU per node")
        .says("kind: ClusterRoleBinding");
}

#[test]
fn g1_the_kinds_have_a_price_and_mi300x_is_among_them() {
    let Some(cluster) = Cluster::shared() else {
        return;
    };
    let Some(bench) = Bench::on(cluster, Cli::any(), "kindprices") else {
        return;
    };
    bench.connections(
        &[("prod", "")],
        "prices = { \"digitalocean:gpu-mi300x1-192gb\" = 2 }",
    );
    bench.main("data \"loomplane_gpu_kinds\" \"all\" {}\noutput \"kinds\" {\n  value = data.loomplane_gpu_kinds.all.kinds\n}\n");
    let kinds = read(&bench, "kinds");
    let mi300x = row(&kinds, "id", "amd-mi300x");
    assert_eq!(
        (
            &mi300x["schedulable"],
            &mi300x["hourly_usd"],
            &mi300x["monthly_usd"]
        ),
        (&json!(false), &json!(2), &json!(1460)),
        "{mi300x:#}"
    );
    let l4 = row(&kinds, "id", "nvidia-l4");
    let aws = row(&l4["prices"], "cloud", "aws");
    assert_eq!(aws["machine"], "g6.xlarge");
    assert_eq!(
        aws["price"],
        "about $0.80 an hour, $588 a month for one GPU (estimate; AWS list price of us-east-1, 2026-07-20; g6.xlarge)"
    );
    assert!(l4["hourly_usd"].as_f64().unwrap() <= aws["hourly_usd"].as_f64().unwrap());
    // A price of the user's own that is not known yet could be any: none is shown.
    bench.connections(
        &[("prod", "")],
        "prices = { \"digitalocean:gpu-mi300x1-192gb\" = terraform_data.price.output }",
    );
    bench.main("resource \"terraform_data\" \"price\" {\n  input = 2\n}\ndata \"loomplane_gpu_kinds\" \"all\" {}\noutput \"l4\" {\n  value = [for kind in data.loomplane_gpu_kinds.all.kinds : [kind.hourly_usd, kind.price] if kind.id == \"nvidia-l4\"][0]\n}\n");
    bench
        .work
        .plan()
        .expect(HAS_CHANGES)
        .says("Some prices are not known yet");
    let planned = bench.work.plan_json();
    assert_eq!(
        planned["planned_values"]["outputs"]["l4"]["value"],
        json!([null, "price unknown"])
    );
}

/// The cluster `prod` and the server `rack1`, whose connections come from a resource of the same apply.
fn unknown_connections(bench: &Bench<'_>) {
    bench.work.file(
        "provider.tf",
        &format!(
            "{REQUIRED}resource \"terraform_data\" \"cluster\" {{\n  input = {:?}\n}}\nprovider \"loomplane\" {{\n  clusters = {{\n    prod = {{\n      config_path = terraform_data.cluster.output\n      namespace = {:?}\n    }}\n  }}\n  servers = {{\n    rack1 = {{\n      host = terraform_data.cluster.output\n      user = \"ops\"\n    }}\n  }}\n}}\n",
            bench.cluster.kubeconfig().display().to_string(),
            bench.namespace.name()
        ),
    );
}

#[test]
fn data_sources_of_a_connection_that_is_not_known_yet_say_null_and_the_plan_goes_on() {
    let Some(cluster) = Cluster::shared() else {
        return;
    };
    for cli in Cli::BOTH {
        let Some(bench) = Bench::on(cluster, cli, "sourceunknown") else {
            return;
        };
        unknown_connections(&bench);
        let rack = "data \"loomplane_server\" \"rack1\" {\n  name = \"rack1\"\n}\noutput \"rack1\" {\n  value = data.loomplane_server.rack1\n}\n";
        let preview = "data \"loomplane_capacity_preview\" \"a100\" {\n  cluster = \"prod\"\n  set = \"a100\"\n}\noutput \"preview\" {\n  value = data.loomplane_capacity_preview.a100.preview\n}\n";
        bench.main(&(service(&gpu("nvidia-l4", 1)) + PROD + TARGETS + rack + preview));
        let plan = bench.work.plan().expect(HAS_CHANGES);
        // One warning for the service and all of the data sources.
        let warning = "A connection is not known yet, so its GPU requests were not checked";
        assert_eq!(plan.text().matches(warning).count(), 1, "{}", plan.text());
        let outputs = bench.work.plan_json()["planned_values"]["outputs"].clone();
        for (name, value) in [("prod", "config_path"), ("rack1", "host")] {
            let found = &outputs[name]["value"];
            for null in ["can_take_gpu_work", "gpus", "target_uid"] {
                assert_eq!(found[null], Value::Null, "{null}: {found:#}");
            }
            let reason = found["reason"].as_str().unwrap();
            assert!(
                reason.starts_with(&format!("The connection is not known yet ({value})")),
                "{reason}"
            );
        }
        assert_eq!(outputs["prod"]["value"]["kinds"], Value::Null);
        assert_eq!(outputs["preview"]["value"], Value::Null);
        // No row says what nobody knows.
        assert_eq!(outputs["targets"]["value"]["targets"], json!([]));
        assert_eq!(
            outputs["targets"]["value"]["not_known_yet"],
            json!(["prod", "rack1"])
        );

        // Not even the names are known: nothing is said at all.
        bench.work.file(
            "provider.tf",
            &format!(
                "{REQUIRED}resource \"terraform_data\" \"all\" {{\n  input = {{ prod = {{ config_path = \"x\" }} }}\n}}\nprovider \"loomplane\" {{\n  clusters = terraform_data.all.output\n}}\n"
            ),
        );
        bench.main(&(PROD.to_owned() + TARGETS));
        bench.work.plan().expect(HAS_CHANGES).says(warning);
        let outputs = bench.work.plan_json()["planned_values"]["outputs"].clone();
        assert_eq!(outputs["prod"]["value"]["can_take_gpu_work"], Value::Null);
        assert_eq!(outputs["targets"]["value"]["not_known_yet"], Value::Null);
    }
}

#[test]
fn the_examples_of_the_documentation_plan_while_the_connection_is_not_known() {
    let Some(cluster) = Cluster::shared() else {
        return;
    };
    for cli in Cli::BOTH {
        let Some(bench) = Bench::on(cluster, cli, "sourceexample") else {
            return;
        };
        unknown_connections(&bench);
        for name in ["cluster", "server"] {
            let example = format!("examples/data-sources/loomplane_{name}/data-source.tf");
            let root = Path::new(env!("CARGO_MANIFEST_DIR"));
            bench.main(&std::fs::read_to_string(root.join(example)).unwrap());
            bench
                .work
                .plan()
                .expect(HAS_CHANGES)
                .says("A connection is not known yet")
                .says_not("Check block assertion failed");
        }
    }
}

#[test]
fn with_depends_on_a_data_source_is_read_when_the_connection_is_known() {
    let Some(cluster) = Cluster::shared() else {
        return;
    };
    for cli in Cli::BOTH {
        let Some(bench) = Bench::on(cluster, cli, "sourcewaits") else {
            return;
        };
        let waits = format!("{PROD}{TARGETS}")
            .replace(
                "name = \"prod\"",
                "name = \"prod\"\n  depends_on = [terraform_data.cluster]",
            )
            .replace(
                "\"all\" {}",
                "\"all\" {\n  kind = \"nvidia-l4\"\n  depends_on = [terraform_data.cluster]\n}",
            );
        bench.work.file(
            "provider.tf",
            &format!(
                "{REQUIRED}resource \"terraform_data\" \"cluster\" {{\n  input = {:?}\n}}\nprovider \"loomplane\" {{\n  clusters = {{\n    prod = {{\n      config_path = terraform_data.cluster.output\n    }}\n  }}\n}}\n",
                cluster.kubeconfig().display().to_string()
            ),
        );
        // Without it: null until the next refresh.
        bench.main(PROD);
        bench.work.plan().expect(HAS_CHANGES);
        bench.work.apply_plan().expect(OK);
        let planned = bench.work.output("prod");
        assert_eq!(planned["can_take_gpu_work"], Value::Null);
        let check = read(&bench, "prod");
        assert_eq!(check["can_take_gpu_work"], true);
        bench.work.destroy().expect(OK);

        bench.main(&waits);
        bench.work.plan().expect(HAS_CHANGES);
        bench.work.apply_plan().expect(OK);
        assert_eq!(bench.work.output("prod")["can_take_gpu_work"], true);
        let targets = bench.work.output("targets");
        assert_eq!(targets["not_known_yet"], json!([]));
        assert_eq!(targets["targets"][0]["usable"], true, "{targets:#}");
    }
}
