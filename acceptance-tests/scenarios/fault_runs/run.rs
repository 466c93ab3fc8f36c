//! One run: set up, the command in which the fault strikes, what it left, the next apply, and the end.

use std::time::{Duration, Instant};

use serde_json::json;

use super::super::{Bench, gpu, named};
use super::check;
use super::script::{Action, Fault, Script, Shape, Strike};
use crate::cluster::Cluster;
use crate::fault_proxy::{Fault as Answer, FaultProxy, Rule};
use crate::terraform::{Cli, OK, Run, Running};

/// A command that is cut off must end within this time: what is retried longest, and Terraform itself on a busy machine.
const BOUND: Duration = Duration::from_secs(240);
/// How long a strike is waited for.
const STRIKE: Duration = Duration::from_secs(90);
pub(super) const SECRET: &str = "correct-horse-battery-staple";

/// How a run ended that went right.
pub(super) enum Ended {
    /// The command succeeded.
    Survived,
    /// It failed, and the next apply finished the job.
    Finished,
    /// It was over before the fault came.
    Missed,
}

/// A control plane, and the proxy before it.
pub(super) struct Lab<'a> {
    cluster: &'a Cluster,
    proxy: FaultProxy,
}

impl<'a> Lab<'a> {
    pub(super) fn new(cluster: &'a Cluster) -> Self {
        cluster.create(
            "/apis/storage.k8s.io/v1/storageclasses",
            &json!({"metadata": {"name": "retain"}, "reclaimPolicy": "Retain", "volumeBindingMode": "WaitForFirstConsumer",
                "provisioner": "loomplane.bench/none"}),
        );
        Self {
            cluster,
            proxy: FaultProxy::start(cluster),
        }
    }

    /// For the next run, also after one that went wrong.
    pub(super) fn tidy(&self) {
        self.proxy.heal();
        self.proxy.forget();
        self.cluster.revive_api_server();
    }

    pub(super) fn run(&self, script: &Script) -> Ended {
        let cli = if script.seed % 5 == 4 {
            Cli::Tofu
        } else {
            Cli::any()
        };
        let Some(bench) = Bench::on(self.cluster, cli, &format!("f{}", script.seed)) else {
            return Ended::Missed;
        };
        let kubeconfig = if script.direct {
            self.cluster.kubeconfig()
        } else {
            self.proxy.kubeconfig()
        };
        bench.connections_with(kubeconfig, &[("prod", "storage_class = \"retain\"")], "");
        for (at, shape) in script.shapes.iter().enumerate() {
            if *shape == Shape::Volume {
                super::super::volumes::provision(&bench, &format!("s{at}-data"));
            }
        }
        if script.action != Action::Create {
            bench.main(&configuration(script, 1));
            bench.work.apply().expect(OK);
        }
        let uids = check::uids(&bench, script);
        bench.main(&match script.action {
            Action::Destroy => String::new(),
            _ => configuration(script, 2),
        });

        self.proxy.forget();
        self.arm(script, &bench);
        let mut command = bench.work.start(&["apply", "-auto-approve"]);
        let struck = self.strike(script, &bench, &mut command);
        let ended = command.wait(BOUND);
        let struck = struck || self.proxy.struck() > 0;
        self.proxy.heal();
        self.cluster.revive_api_server();

        check::output(script, &ended, struck);
        check::state(script, &bench, &uids);
        let between = check::uids(&bench, script);
        self.finish(script, &bench);
        check::identity(script, &bench, &uids, &between);
        bench.main("");
        bench.work.apply().expect(OK);
        check::left(script, &bench);
        match (struck, ended.code) {
            (false, _) => Ended::Missed,
            (true, Some(OK)) => Ended::Survived,
            (true, _) => Ended::Finished,
        }
    }

    /// Puts the rules of a fault in place that the proxy itself commits.
    fn arm(&self, script: &Script, bench: &Bench<'_>) {
        let n = match script.strike {
            Strike::Request { n, .. } => n,
            // Deep in the wait, or at its beginning: requests of an apply come in tens.
            Strike::Moment(later) | Strike::Wait(later) => later.as_millis() as u32 / 100,
        };
        let answer = |fault: Answer, times: Option<u32>| {
            let rule = Rule::on("*", "/").after(n).fault(fault);
            self.proxy.add(match times {
                Some(times) => rule.times(times),
                None => rule,
            });
        };
        match script.fault {
            Fault::ServerError { times } => answer(Answer::internal_error(), times),
            Fault::Throttle { times } => answer(Answer::throttle(1), Some(times)),
            Fault::SlowList(time) if script.action == Action::Destroy => {
                self.proxy.add(
                    Rule::on("GET", "/")
                        .after(n)
                        .times(3)
                        .fault(Answer::Slow(time)),
                );
            }
            Fault::WatchDrops { bytes, times } if script.action == Action::Destroy => {
                self.proxy.add(
                    Rule::on("GET", "/")
                        .after(n)
                        .times(times)
                        .fault(Answer::CutBody(bytes / 10)),
                );
            }
            Fault::SlowList(time) => {
                let namespace = bench.namespace.name();
                for list in [
                    "/api/v1/nodes".to_owned(),
                    format!("/api/v1/namespaces/{namespace}/pods"),
                    format!("/apis/apps/v1/namespaces/{namespace}/replicasets"),
                    "/apis/storage.k8s.io".to_owned(),
                ] {
                    self.proxy
                        .add(Rule::on("GET", &list).times(2).fault(Answer::Slow(time)));
                }
                let list = format!("/apis/apps/v1/namespaces/{namespace}/deployments");
                self.proxy.add(
                    Rule::on("GET", &list)
                        .query("fieldSelector")
                        .times(2)
                        .fault(Answer::Slow(time)),
                );
            }
            Fault::WatchDrops { bytes, times } => {
                self.proxy.add(
                    Rule::on("GET", "/")
                        .query("watch=")
                        .times(times)
                        .fault(Answer::CutBody(bytes)),
                );
            }
            Fault::Expired { event, times } => {
                let fault = if event {
                    Answer::WatchExpired
                } else {
                    Answer::expired()
                };
                self.proxy.add(
                    Rule::on("GET", "/")
                        .query("watch=")
                        .times(times)
                        .fault(fault),
                );
            }
            Fault::CtrlC | Fault::KillProvider | Fault::KillApiServer { .. } => {
                if let Strike::Request {
                    n,
                    write,
                    carried_out,
                } = script.strike
                {
                    let methods: &[&str] = if write {
                        &["POST", "PATCH", "DELETE"]
                    } else {
                        &["*"]
                    };
                    // One count for all that change something would need one rule; which of them comes first varies with the action.
                    for method in methods {
                        let at = if write { n / 2 } else { n };
                        self.proxy.add(
                            Rule::on(method_of(method), "/")
                                .after(at)
                                .times(1)
                                .fault(Answer::Hold { carried_out }),
                        );
                    }
                }
            }
        }
    }

    /// Strikes from outside. Whether it came to that before the command ended.
    fn strike(&self, script: &Script, bench: &Bench<'_>, command: &mut Running) -> bool {
        if !matches!(
            script.fault,
            Fault::CtrlC | Fault::KillProvider | Fault::KillApiServer { .. }
        ) {
            return false;
        }
        let until = Instant::now() + STRIKE;
        let path = |kind: &str, group: &str| {
            format!("{group}/namespaces/{}/{kind}", bench.namespace.name())
        };
        loop {
            if command.has_ended() || Instant::now() > until {
                return false;
            }
            let now = match script.strike {
                Strike::Request { .. } => self.proxy.holds(),
                Strike::Moment(_) => {
                    let text = command.text();
                    ["Creating...", "Modifying...", "Destroying..."]
                        .iter()
                        .any(|begun| text.contains(begun))
                }
                Strike::Wait(_) if script.action == Action::Destroy => {
                    let found = bench.cluster.get(&path("deployments", "/apis/apps/v1"));
                    let items = found["items"].as_array().unwrap();
                    items.len() < script.shapes.len()
                        || items
                            .iter()
                            .any(|it| it["metadata"]["deletionTimestamp"].is_string())
                }
                Strike::Wait(_) => {
                    let found = bench.cluster.get(&path("pods", "/api/v1"));
                    found["items"].as_array().unwrap().iter().any(|pod| {
                        pod["metadata"]["annotations"]["loomplane.bench/outcome"] == "slow-start"
                            && pod["spec"]["nodeName"].is_string()
                    })
                }
            };
            if now {
                break;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        if let Strike::Moment(later) | Strike::Wait(later) = script.strike {
            std::thread::sleep(later);
        }
        if command.has_ended() {
            return false;
        }
        let struck = match script.fault {
            Fault::CtrlC => {
                command.interrupt();
                true
            }
            Fault::KillProvider => command.kill_providers() > 0,
            Fault::KillApiServer { back } => {
                self.cluster.kill_api_server();
                self.proxy.heal();
                if let Some(back) = back {
                    std::thread::sleep(back);
                    self.cluster.revive_api_server();
                }
                true
            }
            _ => false,
        };
        // Long enough for the signal to arrive before the request goes on.
        std::thread::sleep(Duration::from_millis(100));
        self.proxy.heal();
        struck
    }

    /// The next apply: succeeds, leaves nothing to do, and everything runs as configured.
    fn finish(&self, script: &Script, bench: &Bench<'_>) {
        let next: Run = bench.work.apply();
        check::names_no_types(&next);
        next.expect(OK);
        bench.work.plan().expect(OK);
        if script.action == Action::Destroy {
            check::left(script, bench);
        } else {
            check::as_configured(script, bench);
        }
    }
}

/// Rules want a `'static` method.
fn method_of(method: &str) -> &'static str {
    match method {
        "POST" => "POST",
        "PATCH" => "PATCH",
        "DELETE" => "DELETE",
        _ => "*",
    }
}

/// The configuration in its first or second form. The second takes a while to roll out.
fn configuration(script: &Script, form: u32) -> String {
    script
        .shapes
        .iter()
        .enumerate()
        .map(|(at, shape)| {
            let shape = match shape {
                Shape::Plain => String::new(),
                Shape::Parts => format!(
                    "ports = [{{ name = \"http\", port = 8000 }}]\n  secret_env = {{ KEY = \"{SECRET}-{form}\" }}\n  secret_env_version = {form}"
                ),
                Shape::Volume => format!(
                    "volumes = {{ data = {{ mount_path = \"/data\", size_gib = 2, delete_on_destroy = {} }} }}",
                    script.delete_volume
                ),
                Shape::Gpu => gpu("nvidia-l4", 1),
            };
            let slow = if form == 2 {
                "annotations = { \"loomplane.bench/outcome\" = \"slow-start\", \"loomplane.bench/delay\" = \"3s\" }"
            } else {
                ""
            };
            // A fault that stays must not be waited for as long as a user would.
            let limits = "timeouts = { create = \"100s\", update = \"100s\", delete = \"100s\" }";
            named(&format!("s{at}"), &format!("{shape}\n  {slow}\n  {limits}\n  env = {{ FORM = \"{form}\" }}"))
        })
        .collect()
}
