//! What capacity sets and what-ifs look at, listed once a process and shared by all of them: a plan of many sets asks the API server as often as a plan of one.
//!
//! Nodes, sets, workloads that name a set: one list each. Pods that have GPUs: one list of all of them, or for a small set one list a node. A failure is shared by
//! those who waited for it, and whoever comes later asks again. What this process changes itself is forgotten: see [`Cluster::forget_sets`] and
//! [`Cluster::forget_workloads`].

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

use kube::core::params::ListParams;

use super::super::cancel::Cancel;
use super::super::connect::Cluster;
use super::super::error::Error;
use super::super::once::Once;
use super::observe::{Pod, Vm, Vmi};
use crate::capacity::set::{Definition, SeenNode, Workload, marks};

/// Up to this many nodes, the pods of each are asked for; beyond, one list of all pods is cheaper.
const NODES_ASKED_ONE_BY_ONE: usize = 32;
/// Pods that have their GPUs.
const ALIVE: &str = "status.phase!=Succeeded,status.phase!=Failed";
const PODS: &str = "/api/v1/pods";
const VMS: &str = "/apis/kubevirt.io/v1/virtualmachines";
const VMIS: &str = "/apis/kubevirt.io/v1/virtualmachineinstances";

/// The lists of one cluster.
#[derive(Debug, Default)]
pub(in crate::kubernetes) struct Seen {
    nodes: Once<Vec<SeenNode>>,
    sets: Once<Vec<Definition>>,
    vms: Once<Vec<Member>>,
    pods: Once<Vec<Member>>,
    on_all_nodes: Once<Vec<GpuPod>>,
    on_node: Mutex<BTreeMap<String, Arc<Once<Vec<GpuPod>>>>>,
}

/// A workload that names a set.
#[derive(Debug)]
pub(super) struct Member {
    pub(super) set: String,
    pub(super) workload: Workload,
}

/// A pod that has GPUs of a node.
#[derive(Debug)]
pub(super) struct GpuPod {
    /// The set that it names.
    pub(super) set: Option<String>,
    /// The VM that it is the shell of; empty where it does not say which.
    pub(super) vm: Option<String>,
    pub(super) workload: Workload,
}

impl GpuPod {
    fn of(pod: &Pod) -> Option<Self> {
        (!pod.has_ended() && pod.gpus() > 0).then(|| Self {
            set: pod.set().map(str::to_owned),
            vm: pod.vm().map(str::to_owned),
            workload: pod.workload(),
        })
    }
}

impl Cluster {
    /// All nodes, with all of their labels and what they say of capacity sets; one list per process.
    ///
    /// # Errors
    /// [`Error::NodesForbidden`] (K1), and what any request can end in.
    pub async fn set_nodes(&self, cancel: &Cancel) -> Result<Arc<Vec<SeenNode>>, Error> {
        let list = || self.list_seen_nodes(|_| true, cancel);
        self.once(&self.inner.seen.nodes, "list nodes", list, cancel)
            .await
    }

    /// Every set of the cluster that this version can read, by name; one list per process.
    pub(super) async fn seen_sets(&self, cancel: &Cancel) -> Result<Arc<Vec<Definition>>, Error> {
        let list = || self.capacity_sets(cancel);
        self.once(&self.inner.seen.sets, "list capacity sets", list, cancel)
            .await
    }

    /// VMs that name a set and run, or are to run.
    pub(super) async fn seen_vms(&self, cancel: &Cancel) -> Result<Arc<Vec<Member>>, Error> {
        let list = || self.list_vms(cancel);
        self.once(&self.inner.seen.vms, "list VirtualMachines", list, cancel)
            .await
    }

    /// Pods that name a set, and are no VM's.
    pub(super) async fn seen_pods(&self, cancel: &Cancel) -> Result<Arc<Vec<Member>>, Error> {
        let list = || async {
            let params = ListParams::default().labels(marks::SET).fields(ALIVE);
            let pods: Vec<Pod> = self.list_all("list pods", PODS, &params, cancel).await?;
            let own = pods
                .iter()
                .filter(|pod| pod.vm().is_none() && !pod.has_ended());
            Ok(own
                .filter_map(|pod| {
                    Some(Member {
                        set: pod.set()?.to_owned(),
                        workload: pod.workload(),
                    })
                })
                .collect())
        };
        self.once(&self.inner.seen.pods, "list pods", list, cancel)
            .await
    }

    /// Pods that have GPUs of these nodes, and perhaps of others.
    pub(super) async fn seen_pods_on(
        &self,
        nodes: &BTreeSet<String>,
        cancel: &Cancel,
    ) -> Result<Vec<Arc<Vec<GpuPod>>>, Error> {
        let doing = "list pods";
        let list = |fields: String| async move {
            let params = ListParams::default().fields(&fields);
            let pods: Vec<Pod> = self.list_all(doing, PODS, &params, cancel).await?;
            Ok(pods.iter().filter_map(GpuPod::of).collect())
        };
        if nodes.len() > NODES_ASKED_ONE_BY_ONE {
            let all = || list(ALIVE.to_owned());
            let once = &self.inner.seen.on_all_nodes;
            return Ok(vec![self.once(once, doing, all, cancel).await?]);
        }
        let mut found = Vec::new();
        for node in nodes {
            let once = {
                let on_node = self.inner.seen.on_node.lock();
                let mut on_node = on_node.unwrap_or_else(PoisonError::into_inner);
                Arc::clone(on_node.entry(node.clone()).or_default())
            };
            let one = || list(format!("spec.nodeName={node},{ALIVE}"));
            found.push(self.once(&once, doing, one, cancel).await?);
        }
        Ok(found)
    }

    /// Forgets the list of sets: one was made, changed or deleted.
    pub(super) async fn forget_sets(&self) {
        self.inner.seen.sets.forget().await;
    }

    /// Forgets all workloads: pods were made, changed or deleted.
    pub(in crate::kubernetes) async fn forget_workloads(&self) {
        let seen = &self.inner.seen;
        seen.vms.forget().await;
        seen.pods.forget().await;
        seen.on_all_nodes.forget().await;
        seen.on_node
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clear();
    }

    async fn once<T, F: Future<Output = Result<T, Error>>>(
        &self,
        once: &Once<T>,
        doing: &str,
        ask: impl FnOnce() -> F,
        cancel: &Cancel,
    ) -> Result<Arc<T>, Error> {
        tokio::select! {
            biased;
            () = cancel.canceled() => Err(self.canceled(doing)),
            answer = once.get(ask) => answer,
        }
    }

    async fn list_vms(&self, cancel: &Cancel) -> Result<Vec<Member>, Error> {
        let params = ListParams::default().labels(marks::SET);
        let vms: Vec<Vm> = self
            .list_all("list VirtualMachines", VMS, &params, cancel)
            .await?;
        if vms.is_empty() {
            return Ok(Vec::new());
        }
        // An instance has the labels of the VM's template, which need not be the VM's.
        let doing = "list VirtualMachineInstances";
        let instances: Vec<Vmi> = self
            .list_all(doing, VMIS, &ListParams::default(), cancel)
            .await?;
        let instances: BTreeMap<(&str, &str), &Vmi> =
            instances.iter().map(|it| (it.key(), it)).collect();
        let member = |vm: &Vm| {
            Some(Member {
                set: vm.set()?.to_owned(),
                workload: vm.workload(instances.get(&vm.key()).copied())?,
            })
        };
        Ok(vms.iter().filter_map(member).collect())
    }
}
