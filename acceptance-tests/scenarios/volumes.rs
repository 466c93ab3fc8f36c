//! Persistent volumes (K8) and what becomes of them.

use serde_json::json;

use super::{Bench, bench, service};
use crate::terraform::{FAILED, HAS_CHANGES, OK};

pub(super) const VOLUME: &str = "volumes = { data = { mount_path = \"/data\", size_gib = 2 } }";

#[test]
fn k8_the_storage_class_is_checked_at_plan() {
    let Some(bench) = bench("k8") else { return };
    bench.main(&service(VOLUME));
    bench
        .work
        .plan()
        .expect(FAILED)
        .says("prod can't keep this service's volumes")
        .says("The connection prod picks no storage class.")
        .says("Set storage_class on the connection to one that does:");
    for (class, says) in [
        (
            "delete",
            "has reclaim policy Delete: its volumes go when their claim goes.",
        ),
        ("absent", "prod has no storage class \"absent\""),
    ] {
        bench.connections(&[("prod", &format!("storage_class = {class:?}"))], "");
        bench.work.plan().expect(FAILED).says(says);
    }
    bench.connections(&[("prod", "storage_class = \"immediate\"")], "");
    bench
        .work
        .plan()
        .expect(HAS_CHANGES)
        .says("may be made away from its GPU nodes");
    bench.connections(&[("prod", "storage_class = \"retain\"")], "");
    bench
        .work
        .plan()
        .expect(HAS_CHANGES)
        .says_not("Warning: Volumes");
}

/// A PersistentVolume for a claim, since nothing provisions here.
pub(super) fn provision(bench: &Bench<'_>, claim: &str) {
    bench.cluster.create(
        "/api/v1/persistentvolumes",
        &json!({"metadata": {"name": format!("{}-{claim}", bench.namespace.name())}, "spec": {
            "capacity": {"storage": "2Gi"}, "accessModes": ["ReadWriteOnce", "ReadWriteMany"], "storageClassName": "retain", "persistentVolumeReclaimPolicy": "Retain",
            "hostPath": {"path": "/x"}, "claimRef": {"kind": "PersistentVolumeClaim", "namespace": bench.namespace.name(), "name": claim}}}),
    );
}

#[test]
fn k8_a_claim_outlives_its_service_unless_asked_otherwise() {
    let Some(bench) = bench("k8keep") else { return };
    bench.connections(&[("prod", "storage_class = \"retain\"")], "");
    provision(&bench, "it-data");
    provision(&bench, "it-scratch");
    let both = "volumes = { data = { mount_path = \"/data\", size_gib = 2 }, scratch = { mount_path = \"/scratch\", size_gib = 2, delete_on_destroy = true } }";
    bench.main(&service(both)).applied();
    assert_eq!(bench.state()["status"], "available (1 of 1 ready)");
    bench.work.destroy().expect(OK);
    assert_eq!(bench.left(), ["it-data"]);
}

#[test]
fn a_volume_comes_and_goes_in_place() {
    let Some(bench) = bench("volume") else { return };
    bench.connections(&[("prod", "storage_class = \"retain\"")], "");
    provision(&bench, "it-data");
    bench.main(&service("")).applied();
    bench.main(&service(VOLUME)).applied();
    assert_eq!(
        bench.pod_spec("it")["volumes"][0]["persistentVolumeClaim"]["claimName"],
        "it-data"
    );
    bench.main(&service("")).applied();
    assert_eq!(bench.pod_spec("it").get("volumes"), None);
    assert!(
        bench
            .cluster
            .exists(&bench.path("persistentvolumeclaims", "it-data"))
    );
    // And back: the kept claim is the service's own.
    bench.main(&service(VOLUME)).applied();
}

#[test]
fn k8_a_kept_claim_is_mounted_again_by_the_same_service_and_by_its_replacement() {
    let Some(bench) = bench("k8again") else {
        return;
    };
    bench.connections(&[("prod", "storage_class = \"retain\"")], "");
    provision(&bench, "it-data");
    let path = bench.path("persistentvolumeclaims", "it-data");
    let uid = || bench.cluster.get(&path)["metadata"]["uid"].clone();
    bench.main(&service(VOLUME)).applied();
    let before = uid();
    bench
        .work
        .apply_with(&["-replace=loomplane_gpu_service.it"])
        .expect(OK)
        .says("1 added, 0 changed, 1 destroyed")
        // G10: named, and what that means is said.
        .says("What was left of it was taken in again")
        .says(&format!(
            "PersistentVolumeClaim {}/it-data",
            bench.namespace.name()
        ))
        .says("A kept claim keeps its data");
    bench.work.expect_no_changes();
    bench.work.destroy().expect(OK);
    bench.main(&service(VOLUME));
    bench
        .work
        .plan()
        .expect(HAS_CHANGES)
        .says("it will use a volume that is there");
    bench.applied();
    assert_eq!(uid(), before);
}

#[test]
fn k8_a_volume_that_is_there_keeps_what_a_claim_can_t_change() {
    let Some(bench) = bench("k8change") else {
        return;
    };
    bench.connections(&[("prod", "storage_class = \"retain\"")], "");
    provision(&bench, "it-data");
    bench.main(&service(VOLUME)).applied();
    for (change, says) in [
        ("size_gib = 1", "It has 2 GiB and 1 are asked for"),
        (
            "size_gib = 2, access_mode = \"ReadWriteMany\"",
            "Its access mode is ReadWriteOnce and ReadWriteMany is asked for",
        ),
    ] {
        bench.main(&service(&format!(
            "volumes = {{ data = {{ mount_path = \"/data\", {change} }} }}"
        )));
        bench
            .work
            .plan()
            .expect(FAILED)
            .says("Volume data can't become that")
            .says(says);
    }
    // Another class of the connection is for new volumes.
    bench.connections(&[("prod", "storage_class = \"immediate\"")], "");
    bench
        .main(&service(&format!("{VOLUME}\n  env = {{ A = \"1\" }}")))
        .applied();
    let claim = bench
        .cluster
        .get(&bench.path("persistentvolumeclaims", "it-data"));
    assert_eq!(claim["spec"]["storageClassName"], "retain");
}

#[test]
fn g10_a_kept_claim_that_does_not_fit_is_refused_before_anything_is_made() {
    let Some(bench) = bench("k8fit") else { return };
    bench.connections(&[("prod", "storage_class = \"retain\"")], "");
    provision(&bench, "it-data");
    bench.main(&service(VOLUME)).applied();
    bench.work.destroy().expect(OK);
    let smaller = "volumes = { data = { mount_path = \"/data\", size_gib = 1 } }\n  ports = [{ name = \"http\", port = 8000 }]";
    bench.main(&service(smaller));
    bench.work.apply().expect(FAILED).says(
        "it has 2 GiB and 1 are asked for, and a claim can't shrink. Set size_gib to 2 or more",
    );
    assert_eq!(bench.left(), ["it-data"]);
    bench.connections(&[("prod", "storage_class = \"immediate\"")], "");
    bench.main(&service(VOLUME));
    bench
        .work
        .apply()
        .expect(FAILED)
        .says("its storage class is retain and the connection picks immediate");
    assert_eq!(bench.left(), ["it-data"]);
}

#[test]
fn g10_a_claim_of_someone_else_is_refused_until_it_is_given_to_the_service() {
    let Some(bench) = bench("k8foreign") else {
        return;
    };
    bench.connections(&[("prod", "storage_class = \"retain\"")], "");
    provision(&bench, "it-data");
    let path = bench.path("persistentvolumeclaims", "it-data");
    bench.cluster.create(
        path.trim_end_matches("/it-data"),
        &json!({"metadata": {"name": "it-data"}, "spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": "retain",
            "resources": {"requests": {"storage": "2Gi"}}}}),
    );
    bench.main(&service(VOLUME));
    bench
        .work
        .apply()
        .expect(FAILED)
        .says("PersistentVolumeClaim")
        .says("exists already")
        .says("label it loomplane.dev/service=NAME");
    assert_eq!(bench.left(), ["it-data"]);
    bench.cluster.merge(
        &path,
        &json!({"metadata": {"labels": {"loomplane.dev/service": "it"}}}),
    );
    bench
        .work
        .apply()
        .expect(OK)
        .says("A kept claim keeps its data");
    bench.work.expect_no_changes();
}

#[test]
fn k8_an_imported_claim_of_another_name_goes_with_its_service_where_that_is_asked() {
    let Some(bench) = bench("k8import") else {
        return;
    };
    bench.connections(&[("prod", "storage_class = \"retain\"")], "");
    let namespace = bench.namespace.name();
    provision(&bench, "disk");
    for (name, labels) in [
        ("disk", json!({})),
        ("it-data", json!({"loomplane.dev/service": "it"})),
    ] {
        bench.cluster.create(
            &format!("/api/v1/namespaces/{namespace}/persistentvolumeclaims"),
            &json!({"metadata": {"name": name, "labels": labels}, "spec": {
                "accessModes": ["ReadWriteOnce"], "storageClassName": "retain", "resources": {"requests": {"storage": "2Gi"}}}}),
        );
    }
    bench.cluster.create(
        &format!("/apis/apps/v1/namespaces/{namespace}/deployments"),
        &json!({"metadata": {"name": "it"}, "spec": {"selector": {"matchLabels": {"app": "it"}}, "template": {
            "metadata": {"labels": {"app": "it"}}, "spec": {
                "containers": [{"name": "main", "image": "registry.k8s.io/pause:3.10", "volumeMounts": [{"name": "data", "mountPath": "/data"}]}],
                "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "disk"}}]}}}}),
    );
    bench.main(&service(
        "volumes = { data = { mount_path = \"/data\", size_gib = 2, delete_on_destroy = true } }",
    ));
    bench
        .work
        .import("loomplane_gpu_service.it", &format!("prod/{namespace}/it"))
        .expect(OK);
    bench.applied();
    bench.work.destroy().expect(OK);
    // The claim that was mounted went; the one that only has a name like ours did not.
    assert_eq!(bench.left(), ["it-data"]);
}

#[test]
fn k8_a_volume_that_grows_on_a_class_that_forbids_it_is_warned_of() {
    let Some(bench) = bench("k8grow") else { return };
    bench.connections(&[("prod", "storage_class = \"retain\"")], "");
    provision(&bench, "it-data");
    bench.main(&service(VOLUME)).applied();
    bench.main(&service(&VOLUME.replace("size_gib = 2", "size_gib = 3")));
    bench
        .work
        .plan()
        .expect(HAS_CHANGES)
        .says("A volume may not be able to grow")
        .says("allowVolumeExpansion");
}

#[test]
fn k9_a_credential_that_can_t_list_storage_classes_is_told_what_it_lacks() {
    let Some(bench) = bench("k9classes") else {
        return;
    };
    let rules = json!([{"apiGroups": ["apps"], "resources": ["deployments", "replicasets"], "verbs": ["*"]},
        {"apiGroups": [""], "resources": ["services", "secrets", "persistentvolumeclaims", "pods", "pods/log", "events"], "verbs": ["*"]}]);
    let kubeconfig = bench
        .cluster
        .kubeconfig_for(bench.namespace.name(), "ci", &rules, false);
    bench.connections_with(&kubeconfig, &[("prod", "storage_class = \"retain\"")], "");
    bench.main(&service(VOLUME));
    bench
        .work
        .plan()
        .expect(FAILED)
        .says("Loomplane can't list the storage classes of prod")
        .says("`storageclasses`")
        .says("volumes = {");
}
