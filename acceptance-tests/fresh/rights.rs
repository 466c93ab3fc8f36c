//! The rights that docs/guides/rbac.md names are enough for everything that a service does, on a real API server.

use serde_json::{Value, json};

use super::root;
use crate::cluster::Cluster;
use crate::terraform::{Cli, HAS_CHANGES, OK, Workspace};

/// The objects in the guide's YAML blocks.
fn objects() -> Vec<Value> {
    let text = std::fs::read_to_string(root().join("docs/guides/rbac.md")).unwrap();
    let blocks = text.split("```yaml\n").skip(1);
    blocks
        .flat_map(|rest| rest.split("```").next().unwrap().split("---\n"))
        .map(|yaml| serde_saphyr::from_str(yaml).unwrap())
        .collect()
}

fn rules(kind: &str) -> Value {
    let found = objects().into_iter().find(|object| object["kind"] == kind);
    found.unwrap_or_else(|| panic!("the guide has no {kind}"))["rules"].clone()
}

#[test]
fn k9_the_rights_that_the_guide_names_are_enough() {
    let Some(cluster) = Cluster::shared() else {
        return;
    };
    let namespace = cluster.namespace("rights");
    let name = namespace.name();
    let kubeconfig = cluster.kubeconfig_for(name, "loomplane", &rules("Role"), false);
    let rbac = "/apis/rbac.authorization.k8s.io/v1";
    cluster.create(
        &format!("{rbac}/clusterroles"),
        &json!({"metadata": {"name": name}, "rules": rules("ClusterRole")}),
    );
    cluster.create(
        &format!("{rbac}/clusterrolebindings"),
        &json!({
            "metadata": {"name": name},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name},
            "subjects": [{"kind": "ServiceAccount", "name": "loomplane", "namespace": name}],
        }),
    );
    cluster.create(
        "/apis/storage.k8s.io/v1/storageclasses",
        &json!({
            "metadata": {"name": name}, "provisioner": "kubernetes.io/no-provisioner",
            "reclaimPolicy": "Retain", "volumeBindingMode": "WaitForFirstConsumer",
        }),
    );
    let Some(work) = Workspace::with_provider(Cli::any()) else {
        return;
    };
    let services = |image: &str| {
        format!(
            r#"
terraform {{
  required_providers {{
    loomplane = {{ source = "loomplane/loomplane" }}
  }}
}}
provider "loomplane" {{
  clusters = {{
    limited = {{ config_path = "{}", storage_class = "{name}" }}
  }}
}}
# More than are read one by one, so that the namespace is listed too.
resource "loomplane_gpu_service" "all" {{
  count  = 6
  name   = "s${{count.index}}"
  target = "limited"
  image  = "{image}"
  ports  = [{{ name = "http", port = 8000 }}]
}}
resource "loomplane_gpu_service" "gpu" {{
  name   = "gpu"
  target = "limited"
  image  = "{image}"
  size   = {{ gpu = {{ kind = "nvidia-h100-80gb", count = 1 }} }}
  # Nothing makes volumes here, so the pod waits for ever.
  wait    = false
  volumes = {{ data = {{ mount_path = "/data", size_gib = 1, delete_on_destroy = true }} }}
}}
"#,
            kubeconfig.display()
        )
    };
    work.file("main.tf", &services("registry.k8s.io/pause:3.10"));
    work.plan().expect(HAS_CHANGES).says("7 to add");
    work.apply_plan().expect(OK);
    work.expect_no_changes();
    let uid = &work.state_of("loomplane_gpu_service.gpu").unwrap()["target_uid"];
    assert_ne!(
        uid, "",
        "the guide's rights let the cluster be told from others"
    );
    work.file("main.tf", &services("registry.k8s.io/pause:3.9"));
    work.apply().expect(OK).says("7 changed");
    work.destroy().expect(OK);
    for (path, name) in [
        (format!("{rbac}/clusterroles"), name),
        (format!("{rbac}/clusterrolebindings"), name),
        ("/apis/storage.k8s.io/v1/storageclasses".to_owned(), name),
    ] {
        cluster.delete(&format!("{path}/{name}"));
    }
}

#[test]
fn k1_the_error_about_nodes_names_rights_that_the_guide_names_too() {
    let rules = rules("ClusterRole");
    let nodes = rules
        .as_array()
        .unwrap()
        .iter()
        .find(|rule| rule["resources"][0] == "nodes");
    assert_eq!(nodes.unwrap()["verbs"], json!(["get", "list"]));
    let error = loomplane::kubernetes::fix_for_nodes(None);
    assert!(error.contains("verbs: [get, list]"), "{error}");
}
