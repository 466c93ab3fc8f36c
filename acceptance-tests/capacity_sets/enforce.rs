//! A9: turning a set on says who would lose capacity, and is refused while no arbiter holds the set's lease.

use jiff::Timestamp;
use serde_json::json;

use super::{POOLS, a100, configuration, vm, with_kubevirt, workspace};
use crate::cluster::{Cluster, Parts};
use crate::terraform::{FAILED, HAS_CHANGES, OK};

const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/loomplane-system/leases";

#[test]
fn a9_enforce_is_refused_without_an_arbiter_and_warns_with_who_would_lose_capacity() {
    let Some(cluster) = Cluster::own(Parts::Api, &[a100("a100", 1, 8)]) else {
        return;
    };
    let Some(work) = workspace() else { return };
    with_kubevirt(&cluster);
    vm(
        &cluster,
        "scratch-a",
        "scratch",
        8,
        Some(("a100-0", "0,1,2,3,4,5,6,7")),
    );
    vm(&cluster, "rented", "rentals", 2, None);
    let set = |mode: &str, pools: &str| {
        configuration(
            cluster.kubeconfig(),
            &format!("nodes = [\"a100-0\"]\n{pools}\ninstall_crd = true\nmode = \"{mode}\""),
        )
    };
    work.file("main.tf", &set("enforce", POOLS));
    work.plan()
        .expect(FAILED)
        .says("No arbiter acts for capacity set \"fleet\"")
        .says("Nobody holds the Lease loomplane-system/capacity-set-fleet")
        .says("A new set starts with mode = \"dry_run\"");
    work.file("main.tf", &set("dry_run", POOLS));
    work.plan()
        .expect(HAS_CHANGES)
        .says("1 workload would lose 8 GPUs");
    work.apply_plan().expect(OK);
    work.file("main.tf", &set("enforce", POOLS));
    work.plan().expect(FAILED).says("Nobody holds the Lease");

    // A lease that was not renewed for long is nobody's.
    cluster.create(
        "/api/v1/namespaces",
        &json!({"metadata": {"name": "loomplane-system"}}),
    );
    cluster.create(LEASES, &json!({"metadata": {"name": "capacity-set-fleet"},
        "spec": {"holderIdentity": "arbiter-0", "leaseDurationSeconds": 15, "renewTime": "2026-01-01T00:00:00.000000Z"}}));
    work.plan()
        .expect(FAILED)
        .says("was last renewed at 2026-01-01T00:00:00Z, by arbiter-0");

    // The lease runs for the whole test: this is about who holds it, not for how long.
    let now = format!("{:.6}", Timestamp::now());
    cluster.merge(
        &format!("{LEASES}/capacity-set-fleet"),
        &json!({"spec": {"renewTime": now, "leaseDurationSeconds": 3600}}),
    );
    work.plan()
        .expect(HAS_CHANGES)
        .says("Capacity set \"fleet\": 1 workload will lose 8 GPUs")
        .says("vm/ml/scratch-a of pool scratch loses 8 GPUs on a100-0 to vm/ml/rented")
        .says("who loses capacity is given notice first");
    work.apply_plan().expect(OK);
    work.expect_no_changes();
    let address = "loomplane_capacity_set.fleet";
    let state = work.state_of(address).unwrap();
    assert_eq!(state["status"], "enforce, arbiter arbiter-0");
    assert_eq!(state["preview"]["mode"], "enforce");
    assert_eq!(
        cluster.get(&format!("{}/fleet", super::SETS))["spec"]["mode"],
        "enforce"
    );

    // An arbiter that goes away later refuses no other change; it is said.
    cluster.merge(
        &format!("{LEASES}/capacity-set-fleet"),
        &json!({"spec": {"holderIdentity": ""}}),
    );
    let floor = POOLS.replace("rank = 3", "rank = 3, floor = 8");
    work.file("main.tf", &set("enforce", &floor));
    work.plan()
        .expect(HAS_CHANGES)
        .says("No arbiter acts for capacity set \"fleet\"")
        .says("These would have lost capacity, and keep it: vm/ml/scratch-a");
    work.apply_plan().expect(OK);
    work.expect_no_changes();
    work.destroy().expect(OK);
}
