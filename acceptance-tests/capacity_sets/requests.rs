//! What a plan of many sets and what-ifs asks the API server: each list once, whoever needs it.

use super::{
    NODES, POOLS, SETS, a100, configuration, instance, vm, what_if, with_kubevirt, workspace,
};
use crate::cluster::{Cluster, Parts};
use crate::fault_proxy::FaultProxy;
use crate::terraform::{HAS_CHANGES, OK};

/// How often the objects at exactly this path were listed, page by page.
fn lists(proxy: &FaultProxy, path: &str) -> usize {
    let seen = proxy.requests();
    seen.iter()
        .filter(|it| it.method == "GET" && it.path.split('?').next() == Some(path))
        .count()
}

const VMS: &str = "/apis/kubevirt.io/v1/virtualmachines";
const VMIS: &str = "/apis/kubevirt.io/v1/virtualmachineinstances";

#[test]
fn one_list_of_each_serves_all_sets_and_what_ifs_of_a_plan() {
    let Some(cluster) = Cluster::own(Parts::Api, &[a100("a100", 2, 8)]) else {
        return;
    };
    let Some(work) = workspace() else { return };
    with_kubevirt(&cluster);
    vm(&cluster, "batch-a", "batch", 4, Some(("a100-0", "0,1,2,3")));
    instance(&cluster, "batch-a", 4, "a100-0", "2026-11-01T13:00:00Z");
    let set = |kubeconfig: &std::path::Path, pools: &str| {
        let first = NODES.replace(", \"a100-1\"", "");
        let first = configuration(kubeconfig, &format!("{first}\n{pools}\ninstall_crd = true"));
        let start = first.find("resource").unwrap();
        let second = first[start..]
            .replace("\"fleet\"", "\"second\"")
            .replace("a100-0", "a100-1")
            + "\n";
        let second = second.replacen(
            "pools =",
            "depends_on = [loomplane_capacity_set.fleet]\n          pools =",
            1,
        );
        first + &second
    };
    work.file("main.tf", &set(cluster.kubeconfig(), POOLS));
    work.apply().expect(OK);

    let proxy = FaultProxy::start(&cluster);
    work.file("main.tf", &set(proxy.kubeconfig(), POOLS));
    let claim = r#"claim = { pool = "rentals", gpus = 8 }"#;
    let what_ifs = [
        what_if("one", claim),
        what_if("two", r#"drain_nodes = ["a100-0"]"#),
        what_if("three", claim).replace("set = \"fleet\"", "set = \"second\""),
    ];
    work.file("what_if.tf", &what_ifs.join("\n"));
    let all = |nodes, sets, vms, vmis, pods| {
        let found = (
            lists(&proxy, "/api/v1/nodes"),
            lists(&proxy, SETS),
            lists(&proxy, VMS),
            lists(&proxy, VMIS),
            lists(&proxy, "/api/v1/pods"),
        );
        assert_eq!(
            found,
            (nodes, sets, vms, vmis, pods),
            "{:?}",
            proxy.requests()
        );
    };
    // Outputs are new, so there is something to apply; nothing of the sets.
    work.plan().expect(HAS_CHANGES).says("Changes to Outputs");
    // Pods: those that name a set, and those of each of the two nodes.
    all(1, 1, 1, 1, 3);
    work.apply_plan().expect(OK);
    let one = work.output("one");
    assert_eq!(one["loses"][0]["claim"], "vm/ml/batch-a");
    assert_eq!(work.output("three")["starts"], true);

    // What an apply changed is listed anew: each set is looked at before it is written and after.
    let other = POOLS.replace("rank = 3", "rank = 4");
    work.file("main.tf", &set(proxy.kubeconfig(), &other));
    work.file("what_if.tf", "");
    work.plan().expect(HAS_CHANGES).says("2 to change");
    let before = (lists(&proxy, SETS), lists(&proxy, "/api/v1/nodes"));
    work.apply_plan().expect(OK);
    let after = (lists(&proxy, SETS), lists(&proxy, "/api/v1/nodes"));
    assert_eq!((after.0 - before.0, after.1 - before.1), (3, 1));
}
