//! A real control plane (etcd, API server, scheduler, controller manager) with simulated kubelets, and the nodes of a fleet.
//!
//! [`Cluster::shared`] is for tests that only place work: it has the nodes of `fleets/small-aws.json`, each test takes a
//! namespace of its own. A test that changes nodes, or that needs others, takes a control plane of its own
//! ([`Cluster::own`], three seconds), which is stopped when the value is dropped, and when the test process dies.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use axum::http::Request;
use serde::Serialize;
use serde_json::{Value, json};

use crate::parts;

/// Which parts of a control plane a test needs.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Parts {
    /// etcd and the API server: enough for plans, and half the memory.
    Api,
    /// With scheduler, controllers and kubelets: pods land and run.
    All,
    /// And with heartbeats and the controller that taints nodes which fall silent.
    AllWithNodeLifecycle,
}

/// A group of like nodes, in the form that `control-plane/fleet.py` documents.
#[derive(Clone, Serialize)]
pub struct NodeGroup {
    name: String,
    nodes: u32,
    gpus: u32,
    arch: &'static str,
    labels: BTreeMap<String, String>,
    taints: Vec<String>,
    ready: bool,
    unschedulable: bool,
    resources: BTreeMap<String, String>,
}

impl NodeGroup {
    /// `nodes` nodes called `name-0`, `name-1`, ... with `gpus` GPUs each, without labels or taints.
    pub fn new(name: &str, nodes: u32, gpus: u32) -> Self {
        Self {
            name: name.to_owned(),
            nodes,
            gpus,
            arch: "amd64",
            labels: BTreeMap::new(),
            taints: Vec::new(),
            ready: true,
            unschedulable: false,
            resources: BTreeMap::new(),
        }
    }
    pub fn label(mut self, key: &str, value: &str) -> Self {
        self.labels.insert(key.to_owned(), value.to_owned());
        self
    }
    /// `KEY[=VALUE]:EFFECT`, as kubectl writes it.
    pub fn taint(mut self, taint: &str) -> Self {
        self.taints.push(taint.to_owned());
        self
    }
    /// A further allocatable resource, such as `nvidia.com/mig-1g.10gb`, or another `cpu` or `memory`.
    pub fn resource(mut self, name: &str, quantity: &str) -> Self {
        self.resources.insert(name.to_owned(), quantity.to_owned());
        self
    }
    pub fn arch(mut self, arch: &'static str) -> Self {
        self.arch = arch;
        self
    }
    /// The kubelet never comes up: the node stays NotReady, with the taint that goes with it.
    pub fn not_ready(mut self) -> Self {
        self.ready = false;
        self
    }
    pub fn cordoned(mut self) -> Self {
        self.unschedulable = true;
        self
    }
}

/// A control plane that answers.
pub struct Cluster {
    kubeconfig: PathBuf,
    /// Set on a control plane of a test's own, which is stopped on drop.
    own: Option<tempfile::TempDir>,
    runtime: tokio::runtime::Runtime,
    client: kube::Client,
}

impl Cluster {
    /// The control plane that all tests share: the one that `LOOMPLANE_TEST_KUBECONFIG` names (`make test` starts it), else
    /// one that this process starts and that ends with it. `None` where it can't start.
    pub fn shared() -> Option<&'static Self> {
        static SHARED: OnceLock<Option<Cluster>> = OnceLock::new();
        SHARED
            .get_or_init(|| {
                if let Some(kubeconfig) = std::env::var_os("LOOMPLANE_TEST_KUBECONFIG") {
                    return Some(Self::connect(PathBuf::from(kubeconfig), None));
                }
                let folder = std::env::temp_dir()
                    .join(format!("loomplane-control-plane-{}", std::process::id()));
                let cluster = Self::connect(start(&folder, Parts::All)?, None);
                cluster.fleet(&std::fs::read(parts::here().join("fleets/small-aws.json")).unwrap());
                Some(cluster)
            })
            .as_ref()
    }

    /// A control plane for one test alone, with these nodes.
    pub fn own(parts: Parts, nodes: &[NodeGroup]) -> Option<Self> {
        let folder = tempfile::Builder::new()
            .prefix("loomplane-cp-")
            .tempdir()
            .unwrap();
        // The folder itself, so that nothing is left when the process ends without dropping the value: a static never is.
        let kubeconfig = start(folder.path(), parts)?;
        let cluster = Self::connect(kubeconfig, Some(folder));
        cluster.add_nodes(nodes);
        Some(cluster)
    }

    fn connect(kubeconfig: PathBuf, own: Option<tempfile::TempDir>) -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        let client = runtime.block_on(async {
            let file = kube::config::Kubeconfig::read_from(&kubeconfig).expect("the kubeconfig");
            let options = kube::config::KubeConfigOptions::default();
            let config = kube::Config::from_custom_kubeconfig(file, &options)
                .await
                .expect("the kubeconfig names a cluster");
            kube::Client::try_from(config).expect("a client")
        });
        Self {
            kubeconfig,
            own,
            runtime,
            client,
        }
    }

    /// An administrator's kubeconfig.
    pub fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// The folder of a control plane of ours: logs, certificates.
    pub fn folder(&self) -> &Path {
        self.kubeconfig.parent().unwrap()
    }

    /// kill -9 of the API server of a control plane of one's own. etcd, and what else runs, goes on.
    pub fn kill_api_server(&self) {
        self.part("kill");
    }

    /// Starts the API server again, with the same etcd, and waits until it is ready. One that runs is left alone.
    pub fn revive_api_server(&self) {
        self.part("revive");
    }

    fn part(&self, action: &str) {
        assert!(self.own.is_some(), "others share this control plane");
        let folder = self.folder().to_owned();
        control_plane(&[
            action.as_ref(),
            folder.as_os_str(),
            "kube-apiserver".as_ref(),
        ])
        .unwrap_or_else(|why| panic!("{action} kube-apiserver: {why}"));
    }

    pub fn add_nodes(&self, groups: &[NodeGroup]) {
        if !groups.is_empty() {
            self.fleet(&serde_json::to_vec(groups).unwrap());
        }
    }

    fn fleet(&self, json: &[u8]) {
        use std::io::Write as _;
        let mut child = Command::new("python3")
            .arg(parts::here().join("control-plane/fleet.py"))
            .arg("apply")
            .arg(&self.kubeconfig)
            .arg("-")
            .stdin(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("python3 starts");
        child.stdin.take().unwrap().write_all(json).unwrap();
        let done = child.wait_with_output().unwrap();
        assert!(
            done.status.success(),
            "fleet: {}",
            String::from_utf8_lossy(&done.stderr)
        );
    }

    /// One request to the API server; the error is the server's own Status message.
    pub fn request(
        &self,
        method: &str,
        path: &str,
        content_type: &str,
        body: Option<&Value>,
    ) -> Result<Value, kube::Error> {
        let body = body.map_or_else(Vec::new, |value| serde_json::to_vec(value).unwrap());
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header("content-type", content_type)
            .body(body)
            .unwrap();
        self.runtime.block_on(self.client.request::<Value>(request))
    }

    pub fn get(&self, path: &str) -> Value {
        self.request("GET", path, "application/json", None)
            .unwrap_or_else(|error| panic!("GET {path}: {error}"))
    }

    /// Whether there is something at `path`: only a 404 says no.
    pub fn exists(&self, path: &str) -> bool {
        match self.request("GET", path, "application/json", None) {
            Ok(_) => true,
            Err(kube::Error::Api(status)) if status.code == 404 => false,
            Err(error) => panic!("GET {path}: {error}"),
        }
    }

    pub fn create(&self, path: &str, body: &Value) -> Value {
        self.request("POST", path, "application/json", Some(body))
            .unwrap_or_else(|error| panic!("POST {path}: {error}"))
    }

    pub fn merge(&self, path: &str, body: &Value) -> Value {
        self.request("PATCH", path, "application/merge-patch+json", Some(body))
            .unwrap_or_else(|error| panic!("PATCH {path}: {error}"))
    }

    /// Deletes; what is not there is fine.
    pub fn delete(&self, path: &str) {
        match self.request("DELETE", path, "application/json", None) {
            Ok(_) => {}
            Err(kube::Error::Api(status)) if status.code == 404 => {}
            Err(error) => panic!("DELETE {path}: {error}"),
        }
    }

    /// Reads `path` until `test` says yes; panics with the last answer after `limit`.
    pub fn await_true(&self, path: &str, limit: Duration, test: impl Fn(&Value) -> bool) -> Value {
        let until = Instant::now() + limit;
        loop {
            let found = self.get(path);
            if test(&found) {
                return found;
            }
            assert!(
                Instant::now() < until,
                "{path} after {limit:?}: {}",
                serde_json::to_string_pretty(&found).unwrap()
            );
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    /// A namespace of the test's own; deleted, with all in it, on drop.
    pub fn namespace(&self, prefix: &str) -> Namespace<'_> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("{prefix}-{}-{count}", std::process::id());
        self.create("/api/v1/namespaces", &json!({"metadata": {"name": name}}));
        Namespace {
            cluster: self,
            name,
        }
    }

    /// A kubeconfig for a service account that may do what `rules` (of a Role, or of a ClusterRole with `cluster_wide`) say,
    /// and nothing else. Written beside the administrator's.
    pub fn kubeconfig_for(
        &self,
        namespace: &str,
        account: &str,
        rules: &Value,
        cluster_wide: bool,
    ) -> PathBuf {
        self.create(
            &format!("/api/v1/namespaces/{namespace}/serviceaccounts"),
            &json!({"metadata": {"name": account}}),
        );
        let rbac = "/apis/rbac.authorization.k8s.io/v1";
        let (kind, prefix) = if cluster_wide {
            ("ClusterRole", format!("{rbac}/cluster"))
        } else {
            ("Role", format!("{rbac}/namespaces/{namespace}/"))
        };
        let name = format!("{namespace}-{account}");
        self.create(
            &format!("{prefix}roles"),
            &json!({"metadata": {"name": name}, "rules": rules}),
        );
        self.create(
            &format!("{prefix}rolebindings"),
            &json!({
                "metadata": {"name": name},
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": name},
                "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": namespace}],
            }),
        );
        let token = self.create(
            &format!("/api/v1/namespaces/{namespace}/serviceaccounts/{account}/token"),
            &json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}),
        );
        let mut config = self.kubeconfig_json();
        config["users"][0]["user"] = json!({"token": token["status"]["token"]});
        config["contexts"][0]["context"]["namespace"] = json!(namespace);
        let path = self.folder().join(format!("{name}.kubeconfig"));
        write_private(&path, &config);
        path
    }

    /// The kubeconfig of a control plane of ours, which is JSON.
    pub fn kubeconfig_json(&self) -> Value {
        serde_json::from_slice(&std::fs::read(&self.kubeconfig).unwrap())
            .expect("a kubeconfig that control_plane.py wrote (not a user's own cluster)")
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        if self.own.is_some() {
            let folder = self.folder().to_owned();
            control_plane(&["down".as_ref(), folder.as_os_str()]).ok();
        }
    }
}

/// Writes a kubeconfig that only its owner can read.
pub fn write_private(path: &Path, config: &Value) {
    use std::io::Write as _;
    use std::os::unix::fs::OpenOptionsExt as _;
    let mut file = std::fs::OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(path)
        .unwrap();
    file.write_all(&serde_json::to_vec_pretty(config).unwrap())
        .unwrap();
}

fn control_plane(arguments: &[&std::ffi::OsStr]) -> Result<String, String> {
    let done = Command::new("python3")
        .arg(parts::here().join("control-plane/control_plane.py"))
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("python3: {error}"))?;
    if done.status.success() {
        Ok(String::from_utf8_lossy(&done.stdout).trim().to_owned())
    } else {
        Err(String::from_utf8_lossy(&done.stderr).trim().to_owned())
    }
}

fn start(folder: &Path, parts: Parts) -> Option<PathBuf> {
    let pid = std::process::id().to_string();
    let mut arguments = vec![
        "up".as_ref(),
        folder.as_os_str(),
        "--while-pid".as_ref(),
        pid.as_ref(),
    ];
    match parts {
        Parts::Api => arguments.push("--api-only".as_ref()),
        Parts::All => {}
        Parts::AllWithNodeLifecycle => arguments.push("--node-lifecycle".as_ref()),
    }
    match control_plane(&arguments) {
        Ok(path) => Some(PathBuf::from(path)),
        Err(why) => {
            parts::cannot_start("the control plane", &why);
            None
        }
    }
}

/// A namespace that goes when the value does.
pub struct Namespace<'a> {
    cluster: &'a Cluster,
    name: String,
}

impl Namespace<'_> {
    pub fn name(&self) -> &str {
        &self.name
    }
    /// The pods of this namespace.
    pub fn pods(&self) -> Vec<Value> {
        let found = self
            .cluster
            .get(&format!("/api/v1/namespaces/{}/pods", self.name));
        found["items"].as_array().cloned().unwrap_or_default()
    }
    /// The names of the nodes that the scheduler put the pods on, sorted.
    pub fn nodes_used(&self) -> Vec<String> {
        let mut nodes: Vec<String> = self
            .pods()
            .iter()
            .filter_map(|pod| pod["spec"]["nodeName"].as_str().map(str::to_owned))
            .collect();
        nodes.sort();
        nodes
    }
    /// Path of a Deployment in this namespace.
    pub fn deployment(&self, name: &str) -> String {
        format!("/apis/apps/v1/namespaces/{}/deployments/{name}", self.name)
    }
}

impl Drop for Namespace<'_> {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.cluster
                .delete(&format!("/api/v1/namespaces/{}", self.name));
        }
    }
}

mod tests;
