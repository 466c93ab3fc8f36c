//! The definition of the kind: missing, older, not allowed; and what it refuses by itself.

use serde_json::{Value, json};

use super::{CRD, CRDS, NODES, POOLS, SETS, configuration, fleet, printed_definition, workspace};
use crate::terraform::{FAILED, HAS_CHANGES, OK};

fn definition() -> Value {
    serde_saphyr::from_str(&printed_definition()).unwrap()
}

#[test]
fn a_missing_definition_is_installed_only_when_that_is_allowed() {
    let Some(cluster) = fleet() else { return };
    let Some(work) = workspace() else { return };
    work.file(
        "main.tf",
        &configuration(cluster.kubeconfig(), &format!("{NODES}\n{POOLS}")),
    );
    work.plan()
        .expect(FAILED)
        .says("The cluster does not know capacity sets")
        .says("Set install_crd = true")
        .says("terraform-provider-loomplane crds | kubectl apply -f -");
    assert!(!cluster.exists(CRD));
    work.file(
        "main.tf",
        &configuration(
            cluster.kubeconfig(),
            &format!("{NODES}\n{POOLS}\ninstall_crd = true"),
        ),
    );
    work.plan().expect(HAS_CHANGES);
    assert!(!cluster.exists(CRD), "a plan installs nothing");
    work.apply_plan().expect(OK);
    work.expect_no_changes();
    let columns = &cluster.get(CRD)["spec"]["versions"][0]["additionalPrinterColumns"];
    assert_eq!(columns[0]["name"], "Kind");
    // Without the definition the set is gone, and a refresh says so.
    cluster.delete(CRD);
    work.plan().expect(HAS_CHANGES).says("1 to add");
}

#[test]
fn an_older_definition_is_brought_up_to_date_only_when_that_is_allowed() {
    let Some(cluster) = fleet() else { return };
    let Some(work) = workspace() else { return };
    let mut older = definition();
    older["metadata"]["annotations"] = json!({"capacity.loomplane.dev/schema-version": "0"});
    let properties = &mut older["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
        ["properties"];
    properties
        .as_object_mut()
        .unwrap()
        .remove("minimumRuntimeSeconds");
    cluster.create(CRDS, &older);
    work.file(
        "main.tf",
        &configuration(cluster.kubeconfig(), &format!("{NODES}\n{POOLS}")),
    );
    work.plan()
        .expect(FAILED)
        .says("The cluster knows an older kind of capacity sets")
        .says("has schema version 0, and this provider writes version 1");
    work.file(
        "main.tf",
        &configuration(
            cluster.kubeconfig(),
            &format!("{NODES}\n{POOLS}\ninstall_crd = true\nminimum_runtime_seconds = 60"),
        ),
    );
    work.apply().expect(OK);
    work.expect_no_changes();
    let found = cluster.get(CRD);
    assert_eq!(
        found["metadata"]["annotations"]["capacity.loomplane.dev/schema-version"],
        "1"
    );
    assert_eq!(
        cluster.get(&format!("{SETS}/fleet"))["spec"]["minimumRuntimeSeconds"],
        60
    );
}

#[test]
fn without_the_right_to_install_it_the_plan_says_which_rights_help() {
    let Some(cluster) = fleet() else { return };
    let Some(work) = workspace() else { return };
    cluster.create("/api/v1/namespaces", &json!({"metadata": {"name": "ci"}}));
    let rules = json!([
        {"apiGroups": [""], "resources": ["nodes", "pods", "namespaces"], "verbs": ["get", "list"]},
        {"apiGroups": ["capacity.loomplane.dev"], "resources": ["capacitysets"], "verbs": ["*"]},
        {"apiGroups": ["kubevirt.io"], "resources": ["*"], "verbs": ["get", "list"]},
        {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["get"]},
    ]);
    let kubeconfig = cluster.kubeconfig_for("ci", "deployer", &rules, true);
    work.file(
        "main.tf",
        &configuration(
            &kubeconfig,
            &format!("{NODES}\n{POOLS}\ninstall_crd = true"),
        ),
    );
    work.plan()
        .expect(FAILED)
        .says("The definition of capacity sets can't be installed")
        .says("resources: [customresourcedefinitions]")
        .says("name: deployer")
        .says("namespace: ci");
    // An administrator installs it once; the same credential then does the rest, though it may not read definitions.
    cluster.create(CRDS, &definition());
    cluster.await_true(CRD, std::time::Duration::from_secs(30), |crd| {
        crd["status"]["acceptedNames"]["kind"] == "CapacitySet"
    });
    work.apply().expect(OK);
    work.expect_no_changes();
    work.destroy().expect(OK);
    // Who can't see nodes is told what helps.
    let blind = cluster.kubeconfig_for("ci", "blind", &json!([{"apiGroups": ["capacity.loomplane.dev"], "resources": ["capacitysets"], "verbs": ["*"]}]), true);
    work.file(
        "main.tf",
        &configuration(&blind, &format!("{NODES}\n{POOLS}")),
    );
    work.plan()
        .expect(FAILED)
        .says("Loomplane can't list this cluster's nodes");
}

#[test]
fn the_schema_refuses_by_itself_what_the_object_alone_can_tell() {
    let Some(cluster) = fleet() else { return };
    cluster.create(CRDS, &definition());
    let spec = |change: Value| {
        let mut spec = json!({"gpuKind": "nvidia-a100-80gb", "fabric": "nvswitch", "nodes": ["a"],
            "pools": [{"name": "x", "type": "spot", "rank": 1}, {"name": "y", "type": "inference", "rank": 2, "replicas": {"min": 1, "max": 2}, "gpusPerReplica": 2}]});
        for (key, value) in change.as_object().unwrap() {
            spec[key] = value.clone();
        }
        json!({"apiVersion": "capacity.loomplane.dev/v1alpha1", "kind": "CapacitySet", "metadata": {"name": "fleet"}, "spec": spec})
    };
    let post = |body: &Value| {
        cluster.request(
            "POST",
            &format!("{SETS}?fieldValidation=Strict"),
            "application/json",
            Some(body),
        )
    };
    let until = std::time::Instant::now() + std::time::Duration::from_secs(30);
    let made = loop {
        match post(&spec(json!({}))) {
            Ok(made) => break made,
            Err(error) => assert!(std::time::Instant::now() < until, "{error}"),
        }
        std::thread::sleep(std::time::Duration::from_millis(200));
    };
    assert_eq!(
        (&made["spec"]["mode"], &made["spec"]["noticeSeconds"]),
        (&json!("dry_run"), &json!(120))
    );
    cluster.delete(&format!("{SETS}/fleet"));
    let pool = |pool: Value| json!({"pools": [pool]});
    for (change, says) in [
        (
            json!({"nodeSelector": {"a": "b"}}),
            "give either nodes or nodeSelector",
        ),
        (
            json!({"pools": [{"name": "x", "type": "spot", "rank": 1}, {"name": "y", "type": "spot", "rank": 1}]}),
            "no two pools share a rank",
        ),
        (json!({"fabric": "pcie"}), "gpusPerReplica must be 1"),
        (
            pool(json!({"name": "x", "type": "spot", "rank": 1, "floor": 3, "ceiling": 2})),
            "floor is above ceiling",
        ),
        (
            pool(json!({"name": "x", "type": "inference", "rank": 1})),
            "an inference pool has replicas",
        ),
        (
            pool(
                json!({"name": "x", "type": "inference", "rank": 1, "replicas": {"min": 3, "max": 2}, "gpusPerReplica": 1}),
            ),
            "replicas.min is above replicas.max",
        ),
        (
            pool(
                json!({"name": "x", "type": "inference", "rank": 1, "ceiling": 3, "replicas": {"min": 1, "max": 2}, "gpusPerReplica": 2}),
            ),
            "is above ceiling",
        ),
        (
            pool(json!({"name": "x", "type": "spot", "rank": 0})),
            "greater than or equal to 1",
        ),
        (json!({"mode": "sometimes"}), "Unsupported value"),
    ] {
        let refused = post(&spec(change.clone())).unwrap_err().to_string();
        assert!(refused.contains(says), "{change}: {refused}");
    }
}
