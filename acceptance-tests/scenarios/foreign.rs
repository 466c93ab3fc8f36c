//! What is not ours is not touched (G10), and what a credential may not do is said with the fix (K1, K9, K11).

use serde_json::{Value, json};

use super::{IT, bench, bench_by, gpu, service};
use crate::terraform::{Cli, FAILED, HAS_CHANGES, OK};

fn deployment(image: &str) -> Value {
    json!({"metadata": {"name": "it", "labels": {"team": "ml"}}, "spec": {"selector": {"matchLabels": {"app": "it"}}, "template": {
        "metadata": {"labels": {"app": "it"}}, "spec": {"containers": [{"name": "main", "image": image}]}}}})
}

#[test]
fn g10_a_foreign_deployment_is_refused_with_the_import_command_which_works() {
    for cli in Cli::BOTH {
        let Some(bench) = bench_by(cli, "foreign") else {
            return;
        };
        let namespace = bench.namespace.name();
        bench.cluster.create(
            &format!("/apis/apps/v1/namespaces/{namespace}/deployments"),
            &deployment("registry.k8s.io/pause:3.9"),
        );
        bench.main(&service(
            "ports = [{ name = \"http\", port = 8000 }]\n  volumes = {}",
        ));
        bench
            .work
            .apply()
            .expect(FAILED)
            .says(&format!(
                "Deployment {namespace}/it exists already on cluster prod"
            ))
            .says(&format!("terraform import ADDRESS 'prod/{namespace}/it'"));
        assert!(bench.work.state_of(IT).is_none());
        assert_eq!(
            bench.left().iter().filter(|name| *name == "it").count(),
            1,
            "no Service was made"
        );
        assert_eq!(
            bench.pod_spec("it")["containers"][0]["image"],
            "registry.k8s.io/pause:3.9"
        );

        bench
            .work
            .import(IT, &format!("prod/{namespace}/it"))
            .expect(OK);
        bench.main(&service(
            "ports = [{ name = \"http\", port = 8000 }]\n  volumes = {}\n  force_conflicts = true",
        ));
        // What the configuration leaves out is somebody else's, and stays: the plan says so.
        bench
            .work
            .plan()
            .expect(HAS_CHANGES)
            .says("Parts of the imported it stay as they are")
            .says("removed: labels.");
        let change = bench.work.change(IT);
        assert_eq!(super::actions(&change), "update");
        assert_eq!(change["before"]["image"], "registry.k8s.io/pause:3.9");
        bench.work.apply_plan().expect(OK);
        assert_eq!(bench.deployment("it")["metadata"]["labels"]["team"], "ml");
        bench.work.plan().expect(OK).says_not("stay as they are");
    }
}

#[test]
fn g10_a_foreign_service_or_secret_is_refused_before_anything_is_made() {
    let Some(bench) = bench("foreignparts") else {
        return;
    };
    let namespace = bench.namespace.name();
    bench.cluster.create(
        &format!("/api/v1/namespaces/{namespace}/services"),
        &json!({"metadata": {"name": "it"}, "spec": {"ports": [{"port": 1}]}}),
    );
    bench.main(&service("ports = [{ name = \"http\", port = 8000 }]\n  secret_env = { A = \"b\" }\n  secret_env_version = 1"));
    bench
        .work
        .apply()
        .expect(FAILED)
        .says(&format!("Service {namespace}/it exists already"));
    assert_eq!(bench.left(), ["it"]);
    bench.cluster.delete(&bench.path("services", "it"));
    bench.cluster.create(
        &format!("/api/v1/namespaces/{namespace}/secrets"),
        &json!({"metadata": {"name": "it-env"}}),
    );
    bench
        .work
        .apply()
        .expect(FAILED)
        .says(&format!("Secret {namespace}/it-env exists already"));
    assert_eq!(bench.left(), ["it-env"]);
}

/// What a service account of one namespace needs for services in it, without listing nodes.
fn own_namespace() -> Value {
    json!([
        {"apiGroups": ["apps"], "resources": ["deployments", "replicasets"], "verbs": ["*"]},
        {"apiGroups": [""], "resources": ["services", "secrets", "persistentvolumeclaims", "pods", "pods/log", "events"], "verbs": ["*"]}
    ])
}

#[test]
fn k1_a_credential_that_can_t_list_nodes_is_told_the_rights_that_fix_it_and_they_do() {
    let Some(bench) = bench("k1") else { return };
    let namespace = bench.namespace.name().to_owned();
    let kubeconfig = bench
        .cluster
        .kubeconfig_for(&namespace, "ci", &own_namespace(), false);
    bench.connections_with(&kubeconfig, &[("prod", "")], "");
    bench.main(&service(&gpu("nvidia-l4", 1)));
    bench
        .work
        .plan()
        .expect(FAILED)
        .says("Loomplane can't list this cluster's nodes, so it can't see GPUs")
        .says("kind: ClusterRoleBinding")
        .says(&format!("name: ci namespace: {namespace}"));
    // Without GPUs no rights on nodes are needed.
    bench.main(&service("")).applied();
    bench.work.destroy().expect(OK);
    bench.main(&service(&gpu("nvidia-l4", 1)));

    // The manifest of the message, as a user would paste it (with a name of this test's own).
    let text = bench.work.run(&["plan", "-json"]).stdout;
    let detail = text
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok())
        .filter(|line| line["diagnostic"]["severity"] == "error")
        .find_map(|line| line["diagnostic"]["detail"].as_str().map(str::to_owned))
        .expect("the error");
    let manifest = detail
        .split_once("apiVersion:")
        .map(|(_, manifest)| format!("apiVersion:{manifest}"))
        .unwrap_or_else(|| panic!("no manifest in {detail:?}"));
    let manifest = manifest.replace("loomplane-nodes", &namespace);
    let rbac = "/apis/rbac.authorization.k8s.io/v1";
    for yaml in manifest.split("---\n") {
        let object: Value = serde_saphyr::from_str(yaml).unwrap();
        let kind = object["kind"].as_str().unwrap().to_lowercase();
        bench.cluster.create(&format!("{rbac}/{kind}s"), &object);
    }
    bench.applied();
    // kube-system may still not be read: the state says so, and nothing is lost.
    assert_eq!(bench.state()["target_uid"], "");
    bench.work.destroy().expect(OK);
}

#[test]
fn k11_declared_groups_stand_in_for_nodes_that_can_t_be_listed() {
    let Some(bench) = bench("k11") else { return };
    let kubeconfig =
        bench
            .cluster
            .kubeconfig_for(bench.namespace.name(), "ci", &own_namespace(), false);
    bench.connections_with(
        &kubeconfig,
        &[("prod", "gpu_node_groups = { l4 = { kind = \"nvidia-l4\", gpus_per_node = 1, instance_type = \"g6.xlarge\", label = { key = \"nvidia.com/gpu.product\", value = \"NVIDIA-L4\" }, taints = [\"nvidia.com/gpu=present:NoSchedule\"] } }")],
        "",
    );
    bench.main(&service(&gpu("nvidia-l4", 1)));
    bench.work.plan().expect(HAS_CHANGES);
    // A declared group has an instance type and no region: the price is a range or the reference region's.
    assert_ne!(bench.work.change(IT)["after"]["price"], json!(null));
    bench.work.apply_plan().expect(OK);
    bench.work.expect_no_changes();
    assert!(bench.namespace.nodes_used()[0].starts_with("l4-"));
    bench.main(&service(&gpu("nvidia-l4", 2)));
    bench
        .work
        .plan()
        .expect(FAILED)
        .says("node group l4 (declared) has nvidia-l4, but 1 GPU per node");
    // Terraform plans before it destroys: the configuration must be one that can be met.
    bench.main(&service(&gpu("nvidia-l4", 1)));
    bench.work.destroy().expect(OK);
}
