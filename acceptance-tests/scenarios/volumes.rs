//! Persistent volumes (K8) and what becomes of them.

use serde_json::json;

use super::{Bench, bench, service};
use crate::terraform::{FAILED, HAS_CHANGES, OK};

const VOLUME: &str = "volumes = { data = { mount_path = \"/data\", size_gib = 2 } }";

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
fn provision(bench: &Bench<'_>, claim: &str) {
    bench.cluster.create(
        "/api/v1/persistentvolumes",
        &json!({"metadata": {"name": format!("{}-{claim}", bench.namespace.name())}, "spec": {
            "capacity": {"storage": "2Gi"}, "accessModes": ["ReadWriteOnce"], "storageClassName": "retain", "persistentVolumeReclaimPolicy": "Retain",
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
fn k8_a_kept_claim_is_mounted_again_by_the_same_service_and_refused_to_another() {
    let Some(bench) = bench("k8again") else {
        return;
    };
    bench.connections(&[("prod", "storage_class = \"retain\"")], "");
    provision(&bench, "it-data");
    bench.main(&service(VOLUME)).applied();
    bench.work.destroy().expect(OK);
    let again = bench.main(&service(VOLUME)).work.apply();
    // G10: nothing is taken over silently; the message says what is in the way.
    if again.code != Some(OK) {
        again
            .expect(FAILED)
            .says("PersistentVolumeClaim")
            .says("exists already");
    }
}
