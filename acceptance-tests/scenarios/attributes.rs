//! Every optional attribute: set, changed, unset, set again, each in place, and nothing left to do after each.

use serde_json::{Value, json};

use super::{Bench, actions, bench, named, service};
use crate::terraform::{FAILED, OK};

/// An attribute, two values of it, and where it lands in the Deployment.
struct Case {
    attribute: &'static str,
    first: &'static str,
    second: &'static str,
    /// JSON pointer below the Deployment, and what is there with the first value, the second, and none.
    at: &'static str,
    lands: fn() -> [Value; 3],
}

macro_rules! case {
    ($attribute:literal, $first:literal, $second:literal, $at:expr, [$one:tt, $two:tt, $none:tt]) => {
        Case {
            attribute: $attribute,
            first: $first,
            second: $second,
            at: $at,
            lands: || [json!($one), json!($two), json!($none)],
        }
    };
}

fn cases() -> Vec<Case> {
    vec![
        case!(
            "command",
            r#"["/pause"]"#,
            r#"["/pause", "-v"]"#,
            "/spec/template/spec/containers/0/command",
            [["/pause"], ["/pause", "-v"], null]
        ),
        case!(
            "args",
            r#"["a"]"#,
            r#"["b", ""]"#,
            "/spec/template/spec/containers/0/args",
            [["a"], ["b", ""], null]
        ),
        case!(
            "working_dir",
            r#""/tmp""#,
            r#""/""#,
            "/spec/template/spec/containers/0/workingDir",
            ["/tmp", "/", null]
        ),
        case!("user", r#""1000""#, r#""1000:2000""#, "/spec/template/spec/containers/0/securityContext", [{"runAsUser": 1000}, {"runAsUser": 1000, "runAsGroup": 2000}, null]),
        case!("env", r#"{ A = "1", B = "" }"#, r#"{ A = "2" }"#, "/spec/template/spec/containers/0/env", [[{"name": "A", "value": "1"}, {"name": "B"}], [{"name": "A", "value": "2"}], null]),
        case!(
            "env_from",
            r#"[{ name = "T", secret = "s", key = "k" }]"#,
            r#"[{ name = "T", secret = "s", key = "l" }]"#,
            "/spec/template/spec/containers/0/env/0/valueFrom/secretKeyRef/key",
            ["k", "l", null]
        ),
        case!("replicas", "2", "0", "/spec/replicas", [2, 0, 1]),
        case!(
            "health_check",
            r#"{ http_path = "/a", port = 8000 }"#,
            r#"{ http_path = "/b", port = 8001, startup_seconds = 60 }"#,
            "/spec/template/spec/containers/0/readinessProbe/httpGet/path",
            ["/a", "/b", null]
        ),
        case!("image_pull_secret", r#""one""#, r#""two""#, "/spec/template/spec/imagePullSecrets", [[{"name": "one"}], [{"name": "two"}], null]),
        case!(
            "labels",
            r#"{ team = "a" }"#,
            r#"{ team = "b", more = "c" }"#,
            "/spec/template/metadata/labels/team",
            ["a", "b", null]
        ),
        case!(
            "annotations",
            r#"{ "example.com/a" = "1" }"#,
            r#"{ "example.com/a" = "2" }"#,
            "/metadata/annotations/example.com~1a",
            ["1", "2", null]
        ),
        case!(
            "stop_grace_seconds",
            "5",
            "0",
            "/spec/template/spec/terminationGracePeriodSeconds",
            [5, 0, 30]
        ),
        case!(
            "runtime_class",
            r#""nvidia""#,
            r#""nvidia""#,
            "/spec/template/spec/runtimeClassName",
            ["nvidia", "nvidia", null]
        ),
        case!(
            "service_account",
            r#""runner""#,
            r#""default""#,
            "/spec/template/spec/serviceAccountName",
            ["runner", "default", null]
        ),
        case!("node_selector", r#"{ "kubernetes.io/os" = "linux" }"#, r#"{ "kubernetes.io/arch" = "amd64" }"#, "/spec/template/spec/nodeSelector", [{"kubernetes.io/os": "linux"}, {"kubernetes.io/arch": "amd64"}, null]),
        case!("tolerations", r#"[{ key = "a", operator = "Exists" }]"#, r#"[{ key = "a", value = "b", effect = "NoExecute", seconds = 5 }]"#, "/spec/template/spec/tolerations", [[{"key": "a", "operator": "Exists"}], [{"key": "a", "operator": "Equal", "value": "b", "effect": "NoExecute", "tolerationSeconds": 5}], null]),
        case!(
            "priority_class",
            r#""important""#,
            r#""system-cluster-critical""#,
            "/spec/template/spec/priorityClassName",
            ["important", "system-cluster-critical", null]
        ),
        case!("rollout", r#"{ max_surge = "0", max_unavailable = "100%" }"#, r#"{ max_surge = "1", max_unavailable = "0" }"#, "/spec/strategy/rollingUpdate", [{"maxSurge": 0, "maxUnavailable": "100%"}, {"maxSurge": 1, "maxUnavailable": 0}, {"maxSurge": "25%", "maxUnavailable": "25%"}]),
        case!("size", "{ cpu = 0.5, memory = 512 }", "{ cpu = 1, memory = 600, shm = 64 }", "/spec/template/spec/containers/0/resources/limits", [{"cpu": "500m", "memory": "512Mi"}, {"cpu": "1", "memory": "600Mi"}, null]),
    ]
}

/// What each attribute needs to be there.
fn surroundings(bench: &Bench<'_>) {
    let namespace = bench.namespace.name();
    bench.cluster.create(
        &format!("/api/v1/namespaces/{namespace}/serviceaccounts"),
        &json!({"metadata": {"name": "runner"}}),
    );
    bench.cluster.create(
        &format!("/api/v1/namespaces/{namespace}/secrets"),
        &json!({"metadata": {"name": "s"}, "stringData": {"k": "1", "l": "2"}}),
    );
}

/// A service for each attribute, so that one apply tries all of them and none hides another.
fn each(text: impl Fn(&Case) -> String) -> String {
    cases()
        .iter()
        .map(|case| {
            let name = case.attribute.replace('_', "-");
            named(&name, &format!("wait = false\n  {}", text(case)))
        })
        .collect()
}

#[test]
fn each_optional_attribute_is_set_changed_and_unset_in_place() {
    let Some(bench) = bench("attributes") else {
        return;
    };
    surroundings(&bench);
    bench.main(&each(|_| String::new())).applied();
    let uids = |bench: &Bench<'_>| -> Vec<Value> {
        let name = |case: &Case| case.attribute.replace('_', "-");
        cases()
            .iter()
            .map(|case| bench.deployment(&name(case))["metadata"]["uid"].clone())
            .collect()
    };
    let before = uids(&bench);
    type Text = fn(&Case) -> String;
    let steps: [Text; 4] = [
        |case| format!("{} = {}", case.attribute, case.first),
        |case| format!("{} = {}", case.attribute, case.second),
        |_| String::new(),
        |case| format!("{} = {}", case.attribute, case.first),
    ];
    for (step, text) in steps.into_iter().enumerate() {
        bench.main(&each(text)).applied();
        for case in cases() {
            let lands = (case.lands)()[step % 3].clone();
            let found = bench.deployment(&case.attribute.replace('_', "-"));
            let found = found.pointer(case.at).cloned().unwrap_or_default();
            let found = if found == json!({}) {
                Value::Null
            } else {
                found
            };
            assert_eq!(found, lands, "{} in step {step}", case.attribute);
        }
    }
    assert_eq!(uids(&bench), before);
}

#[test]
fn ports_and_the_type_of_the_service_change_in_place_and_go() {
    let Some(bench) = bench("ports") else { return };
    let ports = |bench: &Bench<'_>| -> Vec<Value> {
        let found = bench.cluster.get(&bench.path("services", "it"));
        let ports = found["spec"]["ports"].as_array().unwrap();
        ports
            .iter()
            .map(|port| json!([port["name"], port["port"], port["protocol"]]))
            .collect()
    };
    bench
        .main(&service("ports = [{ name = \"http\", port = 8000 }]"))
        .applied();
    assert_eq!(ports(&bench), [json!(["http", 8000, "TCP"])]);
    assert_eq!(
        bench.state()["endpoint"],
        format!("it.{}.svc:8000", bench.namespace.name())
    );
    bench
        .main(&service("ports = [{ name = \"dns\", port = 53, protocol = \"UDP\" }, { name = \"web\", port = 8000 }, { name = \"dnst\", port = 53 }]\n  service_type = \"NodePort\""))
        .applied();
    assert_eq!(
        ports(&bench),
        [
            json!(["dns", 53, "UDP"]),
            json!(["web", 8000, "TCP"]),
            json!(["dnst", 53, "TCP"])
        ]
    );
    // The order of a list is the user's.
    bench
        .main(&service("ports = [{ name = \"web\", port = 8000 }, { name = \"dns\", port = 53, protocol = \"UDP\" }]"))
        .applied();
    assert_eq!(
        bench.cluster.get(&bench.path("services", "it"))["spec"]["type"],
        "ClusterIP"
    );
    bench.main(&service("")).applied();
    assert!(!bench.cluster.exists(&bench.path("services", "it")));
    assert_eq!(bench.state()["endpoint"], Value::Null);
}

#[test]
fn minimal_to_maximal_and_back_leaves_nothing_behind() {
    let Some(bench) = bench("maximal") else {
        return;
    };
    surroundings(&bench);
    bench.connections(&[("prod", "storage_class = \"retain\"")], "");
    super::volumes::provision(&bench, "it-data");
    let maximal: String = cases()
        .iter()
        // The pod could not start with a runtime class that no node has a handler for; the others are really rolled out.
        .filter(|case| !["size", "replicas"].contains(&case.attribute))
        .map(|case| format!("  {} = {}\n", case.attribute, case.first))
        .collect();
    let maximal = format!(
        "{maximal}  size = {{ cpu = 0.5, memory = 512, shm = 64, gpu = {{ kind = \"nvidia-l4\", count = 1 }} }}\n  replicas = 2\n  ports = [{{ name = \"http\", port = 8000 }}]\n  service_type = \"NodePort\"\n  \
         volumes = {{ data = {{ mount_path = \"/data\", size_gib = 2, access_mode = \"ReadWriteMany\" }} }}\n  secret_env = {{ KEY = \"value\" }}\n  secret_env_version = 1\n  max_hourly_usd = 5\n  force_conflicts = true\n  timeouts = {{ create = \"2m\", update = \"2m\", delete = \"2m\" }}"
    );
    bench.main(&service("")).applied();
    let before = bench.deployment("it")["spec"].clone();
    for _ in 0..2 {
        bench.main(&service(&maximal)).applied();
        assert_eq!(bench.state()["status"], "available (2 of 2 ready)");
        bench.main(&service(""));
        assert_eq!(actions(&bench.change()), "update");
        bench.work.apply_plan().expect(OK);
        bench.work.expect_no_changes();
        let mut after = bench.deployment("it")["spec"].clone();
        // Without a count of its own the Deployment keeps the one it has.
        after["replicas"] = before["replicas"].clone();
        let container = &mut after["template"]["spec"]["containers"][0];
        if container["securityContext"] == json!({}) {
            container.as_object_mut().unwrap().remove("securityContext");
        }
        assert_eq!(after, before);
    }
    bench.work.destroy().expect(OK);
    assert_eq!(bench.left(), ["s", "it-data"]);
}

#[test]
fn what_only_terraform_acts_on_changes_nothing_on_the_cluster() {
    let Some(bench) = bench("onlyhere") else {
        return;
    };
    let with = |more: &str| service(&format!("{}\n  {more}", super::gpu("nvidia-l4", 1)));
    bench.main(&with("")).applied();
    let written = || {
        let found = bench.deployment("it");
        let ours: Vec<Value> = found["metadata"]["managedFields"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|entry| entry["manager"] == "loomplane")
            .cloned()
            .collect();
        (
            found["metadata"]["generation"].clone(),
            found["metadata"]["annotations"].clone(),
            ours,
        )
    };
    let before = written();
    let first = "wait = false\n  force_conflicts = true\n  max_hourly_usd = 5\n  timeouts = { create = \"5m\" }";
    let second = "wait = true\n  force_conflicts = false\n  max_hourly_usd = 4.5\n  timeouts = { update = \"4m\", delete = \"3m\" }";
    for text in [first, second, "", first, ""] {
        bench.main(&with(text)).applied();
        assert_eq!(written(), before, "{text}");
    }
}

#[test]
fn a_label_that_names_another_tool_is_the_users_and_loomplanes_own_are_refused() {
    let Some(bench) = bench("managedby") else {
        return;
    };
    let managed_by = |bench: &Bench<'_>| {
        bench.deployment("it")["metadata"]["labels"]["app.kubernetes.io/managed-by"].clone()
    };
    let with = |labels: &str| service(&format!("wait = false\n  labels = {{ {labels} }}"));
    bench
        .main(&with("\"app.kubernetes.io/managed-by\" = \"terraform\""))
        .applied();
    assert_eq!(managed_by(&bench), "terraform");
    bench.main(&with("team = \"ml\"")).applied();
    assert_eq!(managed_by(&bench), "loomplane");
    bench.main(&with("\"loomplane.dev/service\" = \"other\""));
    bench
        .work
        .plan()
        .expect(FAILED)
        .says("A key of Loomplane's own in labels");
}
