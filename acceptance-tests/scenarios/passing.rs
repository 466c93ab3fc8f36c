//! States of nodes that pass: what the plan's warning says of apply is what apply does (G5).

use super::{Bench, IT, gpu, l4, service};
use crate::cluster::{Cluster, Parts};
use crate::terraform::{Cli, FAILED, HAS_CHANGES, OK};

#[test]
fn g5_a_state_that_does_not_pass_fails_apply_after_its_wait() {
    let Some(cluster) = Cluster::own(Parts::All, &[l4(1).cordoned()]) else {
        return;
    };
    let Some(bench) = Bench::on(&cluster, Cli::any(), "passing") else {
        return;
    };
    bench.main(&service(&gpu("nvidia-l4", 1)));
    bench
        .work
        .plan()
        .expect(HAS_CHANGES)
        .says("1 node is cordoned")
        .says("apply waits a minute for a node")
        .says("then fails and says so. With wait = false it does not wait for them.");
    bench
        .work
        .apply_plan()
        .expect(FAILED)
        .says("The rollout failed")
        .says("unschedulable");
    assert!(
        bench.work.state_of(IT).is_some(),
        "what was made is in the state"
    );
    // The same without the wait: the pod stays pending.
    bench
        .main(&service(&format!(
            "{}\n  wait = false",
            gpu("nvidia-l4", 1)
        )))
        .work
        .apply()
        .expect(OK)
        .says("1 node is cordoned");
    bench.work.destroy().expect(OK);
}
