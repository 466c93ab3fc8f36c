//! What must hold after a fault, and after the apply that follows it.

use std::collections::BTreeMap;

use serde_json::Value;

use super::super::Bench;
use super::run::SECRET;
use super::script::{Action, Fault, Script, Shape, Strike};
use crate::terraform::{FAILED, OK, Run};

/// UIDs of Deployments and claims, by `kind/name`.
pub(super) type Uids = BTreeMap<String, String>;

const KINDS: [(&str, &str); 4] = [
    ("deployments", "/apis/apps/v1"),
    ("services", "/api/v1"),
    ("secrets", "/api/v1"),
    ("persistentvolumeclaims", "/api/v1"),
];

fn objects(bench: &Bench<'_>) -> Vec<(&'static str, Value)> {
    let mut all = Vec::new();
    for (kind, group) in KINDS {
        let list = bench.cluster.get(&format!(
            "{group}/namespaces/{}/{kind}",
            bench.namespace.name()
        ));
        let items = list["items"].as_array().cloned().unwrap_or_default();
        all.extend(items.into_iter().map(|item| (kind, item)));
    }
    all
}

pub(super) fn uids(bench: &Bench<'_>, _script: &Script) -> Uids {
    objects(bench)
        .into_iter()
        .filter(|(kind, _)| ["deployments", "persistentvolumeclaims"].contains(kind))
        .map(|(kind, item)| {
            (
                format!("{kind}/{}", text(&item["metadata"]["name"])),
                text(&item["metadata"]["uid"]),
            )
        })
        .collect()
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// Names of the services in the state.
fn in_state(bench: &Bench<'_>) -> Vec<String> {
    let state: Value = serde_json::from_str(&bench.work.state_text()).unwrap_or_default();
    let resources = state["resources"].as_array().cloned().unwrap_or_default();
    resources
        .iter()
        .filter(|resource| {
            resource["instances"]
                .as_array()
                .is_some_and(|instances| !instances.is_empty())
        })
        .map(|resource| text(&resource["name"]))
        .collect()
}

/// No panic, and no name of a Rust type, reaches a user.
pub(super) fn names_no_types(run: &Run) {
    let all = run.text();
    for word in [
        "panicked",
        "RUST_BACKTRACE",
        "kube::",
        "hyper::",
        "reqwest::",
        "tokio::",
        "Error {",
        "Os {",
        "Some(",
        "Err(",
        "inconsistent",
    ] {
        assert!(
            !all.contains(word),
            "{word:?} is in\n{}{}",
            run.stdout,
            run.stderr
        );
    }
    assert!(
        !all.contains(SECRET),
        "a secret is in\n{}{}",
        run.stdout,
        run.stderr
    );
}

/// The command in which the fault struck.
pub(super) fn output(script: &Script, run: &Run, struck: bool) {
    names_no_types(run);
    let all = run.text();
    let printed = || format!("{}{}", run.stdout, run.stderr);
    if !struck || script.passes() {
        assert_eq!(
            run.code,
            Some(OK),
            "it must pass unnoticed, and says\n{}",
            printed()
        );
        return;
    }
    if run.code == Some(OK) {
        return;
    }
    assert_eq!(run.code, Some(FAILED), "{}", printed());
    let says: &[&str] = match script.fault {
        Fault::CtrlC => &[
            "Stopped while",
            "it was interrupted",
            "execution halted",
            "operation canceled",
            "Interrupted",
        ],
        // Terraform's own words: the provider has no say any more.
        Fault::KillProvider => &[
            "Plugin did not respond",
            "plugin",
            "connection is shut down",
        ],
        Fault::KillApiServer { .. } => &["the API server of cluster prod at"],
        // Its tries were used up, or the time of the operation.
        Fault::ServerError { .. } => &[
            "of cluster prod is overloaded or failing (it answered 500",
            "answered 500",
        ],
        _ => &[],
    };
    assert!(
        says.iter().any(|word| all.contains(word)),
        "none of {says:?} is in\n{}",
        printed()
    );
}

/// What the state holds is there, and what is there is in the state or can be taken over.
pub(super) fn state(script: &Script, bench: &Bench<'_>, before: &Uids) {
    assert!(
        !bench.work.state_text().contains(SECRET),
        "a secret is in the state"
    );
    let states = in_state(bench);
    let there = objects(bench);
    if script.action == Action::Create {
        for name in &states {
            let found = there.iter().any(|(_, item)| {
                item["metadata"]["labels"]["loomplane.dev/service"] == name.as_str()
            });
            assert!(
                found,
                "{name} is in the state and nothing of it on the cluster"
            );
        }
        for (kind, item) in &there {
            let service = text(&item["metadata"]["labels"]["loomplane.dev/service"]);
            let marked = item["metadata"]["labels"]["loomplane.dev/unfinished"].is_string();
            if *kind == "deployments" && !states.contains(&service) {
                assert!(
                    marked,
                    "Deployment {service} is in no state, and the next apply would refuse it: {item:#}"
                );
            }
        }
    }
    if script.action == Action::Update {
        // An update that fails never loses what it was to change.
        for at in 0..script.shapes.len() {
            assert!(
                states.contains(&format!("s{at}")),
                "s{at} is no longer in the state"
            );
        }
        let now = uids(bench, script);
        assert!(
            before.keys().all(|key| now.contains_key(key)),
            "{before:?} became {now:?}"
        );
    }
    if script.action == Action::Destroy {
        for (kind, item) in &there {
            let service = text(&item["metadata"]["labels"]["loomplane.dev/service"]);
            let going = item["metadata"]["deletionTimestamp"].is_string();
            if *kind != "persistentvolumeclaims" && !service.is_empty() && !going {
                assert!(
                    states.contains(&service),
                    "{kind} of {service} is left, and no state knows it"
                );
            }
        }
    }
}

/// After the apply that finishes: all runs in its second form, and nothing is marked any more.
pub(super) fn as_configured(script: &Script, bench: &Bench<'_>) {
    for (kind, item) in objects(bench) {
        let mark = &item["metadata"]["labels"]["loomplane.dev/unfinished"];
        assert!(mark.is_null(), "{kind} is still marked: {item:#}");
    }
    for (at, shape) in script.shapes.iter().enumerate() {
        let name = format!("s{at}");
        let live = bench.deployment(&name);
        let env = &live["spec"]["template"]["spec"]["containers"][0]["env"];
        assert!(
            env.as_array().is_some_and(|env| env
                .iter()
                .any(|it| it["name"] == "FORM" && it["value"] == "2")),
            "{live:#}"
        );
        assert_eq!(live["status"]["availableReplicas"], 1, "{name}: {live:#}");
        let state = bench
            .work
            .state_of(&format!("loomplane_gpu_service.{name}"))
            .expect("it is in the state");
        assert_eq!(state["status"], "available (1 of 1 ready)", "{name}");
        if *shape == Shape::Parts {
            assert!(bench.cluster.exists(&bench.path("services", &name)));
            use base64::Engine as _;
            let secret = bench
                .cluster
                .get(&bench.path("secrets", &format!("{name}-env")));
            let wanted = base64::engine::general_purpose::STANDARD.encode(format!("{SECRET}-2"));
            assert_eq!(secret["data"]["KEY"], wanted.as_str());
        }
    }
}

/// What runs is not thrown away: an update never makes a Deployment anew, nor does a create that was only waited for; data is kept.
pub(super) fn identity(script: &Script, bench: &Bench<'_>, before: &Uids, between: &Uids) {
    let now = uids(bench, script);
    let same = |earlier: &Uids, only: &str| {
        for (key, uid) in earlier.iter().filter(|(key, _)| key.starts_with(only)) {
            assert_eq!(now.get(key), Some(uid), "{key} was made anew");
        }
    };
    match script.action {
        Action::Update => same(before, ""),
        Action::Create => {
            same(between, "persistentvolumeclaims");
            let stopped = matches!(script.fault, Fault::CtrlC | Fault::KillProvider);
            if stopped && matches!(script.strike, Strike::Wait(_)) && script.shapes.len() == 1 {
                same(between, "deployments");
            }
        }
        Action::Destroy => {}
    }
}

/// After a destroy only claims that are to be kept are there.
pub(super) fn left(script: &Script, bench: &Bench<'_>) {
    assert_eq!(in_state(bench), Vec::<String>::new());
    let kept: Vec<String> = script
        .shapes
        .iter()
        .enumerate()
        .filter(|(_, shape)| **shape == Shape::Volume && !script.delete_volume)
        .map(|(at, _)| format!("s{at}-data"))
        .collect();
    let names: Vec<String> = objects(bench)
        .into_iter()
        .filter(|(_, item)| item["metadata"]["deletionTimestamp"].is_null())
        .map(|(_, item)| text(&item["metadata"]["name"]))
        .collect();
    assert_eq!(names, kept);
}
