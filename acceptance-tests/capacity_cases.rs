//! Every case of `capacity-cases/`, through the command that an operator would use: `capacity plan --snapshot`.
//! What a case may expect is in the `README.md` beside the cases.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;

/// Cases that say something about the planner; two are about the arbiter and the hardware.
const PLANNER_CASES: usize = 51;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("acceptance-tests/capacity-cases")
}

fn command(file: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_terraform-provider-loomplane"));
    command
        .args(["capacity", "plan", "--snapshot", file])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

/// Plans on a snapshot given on standard input.
fn plan_from_stdin(snapshot: &str) -> Output {
    let mut child = command("-").stdin(Stdio::piped()).spawn().unwrap();
    child
        .stdin
        .take()
        .unwrap()
        .write_all(snapshot.as_bytes())
        .unwrap();
    child.wait_with_output().unwrap()
}

fn names(value: &Value) -> BTreeSet<String> {
    value
        .as_array()
        .unwrap()
        .iter()
        .map(|name| name.as_str().unwrap().to_owned())
        .collect()
}

/// The entries of a list by claim, of one kind of action where one is named.
fn by_claim<'p>(list: &'p Value, action: Option<&str>) -> BTreeMap<String, &'p Value> {
    let entries = list.as_array().unwrap().iter();
    let entries = entries.filter(|entry| action.is_none_or(|action| entry["action"] == action));
    entries
        .map(|entry| (entry["claim"].as_str().unwrap().to_owned(), entry))
        .collect()
}

/// What a plan does not do as the case expects.
fn faults(expect: &Value, plan: &Value) -> Vec<String> {
    let mut faults = Vec::new();
    let starts = by_claim(&plan["actions"], Some("start"));
    let waits = by_claim(&plan["waiting"], None);
    if let Some(expected) = expect["starts"].as_object() {
        if !starts.keys().eq(expected.keys().collect::<BTreeSet<_>>()) {
            faults.push(format!("starts {:?}", starts.keys()));
        }
        for (claim, fields) in expected {
            for (field, value) in fields.as_object().unwrap() {
                if starts.get(claim).is_none_or(|start| start[field] != *value) {
                    faults.push(format!("{claim} does not start with {field} {value}"));
                }
            }
        }
    }
    if let Some(expected) = expect["waits"].as_object() {
        if !waits.keys().eq(expected.keys().collect::<BTreeSet<_>>()) {
            faults.push(format!("waits {:?}", waits.keys()));
        }
        for (claim, codes) in expected {
            let allowed = match codes {
                Value::Null => continue,
                Value::Array(codes) => codes.clone(),
                code => vec![code.clone()],
            };
            if waits
                .get(claim)
                .is_none_or(|wait| !allowed.contains(&wait["code"]))
            {
                faults.push(format!(
                    "{claim} does not wait with {codes}: {:?}",
                    waits.get(claim)
                ));
            }
        }
    }
    for (claim, figures) in expect["figures"].as_object().into_iter().flatten() {
        let said = waits
            .get(claim)
            .map(|wait| Value::from(vec![wait["needed"].clone(), wait["reachable"].clone()]));
        if said.as_ref() != Some(figures) {
            faults.push(format!("{claim} waits with figures {said:?}"));
        }
    }
    for (key, action) in [
        ("notices", "notice"),
        ("stops", "stop"),
        ("withdraws", "withdraw"),
    ] {
        let said: BTreeSet<String> = by_claim(&plan["actions"], Some(action))
            .into_keys()
            .collect();
        if !expect[key].is_null() && said != names(&expect[key]) {
            faults.push(format!("{key} {said:?}"));
        }
    }
    for (claim, deadline) in expect["deadlines"].as_object().into_iter().flatten() {
        let notices = by_claim(&plan["actions"], Some("notice"));
        if notices
            .get(claim)
            .is_none_or(|notice| notice["deadline"] != *deadline)
        {
            faults.push(format!("{claim} is not noticed until {deadline}"));
        }
    }
    for (pool, figures) in expect["pools"].as_object().into_iter().flatten() {
        let said = plan["pools"]
            .as_array()
            .unwrap()
            .iter()
            .find(|entry| entry["name"] == *pool);
        let said = said.map(|entry| {
            Value::from(vec![
                entry["gpus_before"].clone(),
                entry["gpus_after"].clone(),
            ])
        });
        if said.as_ref() != Some(figures) {
            faults.push(format!("pool {pool} has {said:?}"));
        }
    }
    faults
}

#[test]
fn every_case_comes_out_as_expected() {
    let mut files: Vec<PathBuf> = std::fs::read_dir(folder())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    files.retain(|file| {
        file.extension()
            .is_some_and(|extension| extension == "json")
    });
    files.sort();
    let (mut planned, mut wrong) = (0, Vec::new());
    for file in files {
        let case: Value = serde_json::from_str(&std::fs::read_to_string(&file).unwrap()).unwrap();
        let (expect, name) = (&case["expect"], case["name"].as_str().unwrap());
        if case["snapshot"].is_null() {
            assert!(
                expect["not_planner"].is_string(),
                "{name} has no snapshot and does not say why"
            );
            continue;
        }
        planned += 1;
        let output = plan_from_stdin(&case["snapshot"].to_string());
        let (said, refused) = (
            String::from_utf8(output.stdout).unwrap(),
            String::from_utf8(output.stderr).unwrap(),
        );
        let faults = match &expect["invalid"] {
            Value::Null if output.status.code() == Some(0) => {
                faults(expect, &serde_json::from_str(&said).unwrap())
            }
            Value::Null => vec![format!("is refused: {refused}")],
            _ if output.status.code() != Some(2) => {
                vec![format!("is not refused, but ends with {}", output.status)]
            }
            Value::Array(words) => words
                .iter()
                .filter(|word| !refused.contains(word.as_str().unwrap()))
                .map(|word| format!("{word} is not in {refused}"))
                .collect(),
            _ => Vec::new(),
        };
        if !faults.is_empty() {
            wrong.push(format!("{name}: {}\n{said}", faults.join("; ")));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert_eq!(planned, PLANNER_CASES);
}

#[test]
fn dry_run_says_so_and_plans_the_same() {
    let case: Value =
        serde_json::from_str(&std::fs::read_to_string(folder().join("26-dry-run.json")).unwrap())
            .unwrap();
    let dry: Value =
        serde_json::from_slice(&plan_from_stdin(&case["snapshot"].to_string()).stdout).unwrap();
    let mut snapshot = case["snapshot"].clone();
    snapshot["set"]["mode"] = "enforce".into();
    let mut enforced: Value =
        serde_json::from_slice(&plan_from_stdin(&snapshot.to_string()).stdout).unwrap();
    assert_eq!(dry["mode"], "dry_run");
    enforced["mode"] = "dry_run".into();
    assert_eq!(dry, enforced);
}

#[test]
fn a_file_gives_the_bytes_that_standard_input_gives() {
    let case: Value = serde_json::from_str(
        &std::fs::read_to_string(folder().join("B08-both-lower.json")).unwrap(),
    )
    .unwrap();
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), case["snapshot"].to_string()).unwrap();
    let from_file = command(file.path().to_str().unwrap()).output().unwrap();
    assert_eq!(from_file.status.code(), Some(0));
    assert_eq!(
        from_file.stdout,
        plan_from_stdin(&case["snapshot"].to_string()).stdout
    );
    let missing = command("no-such-file.json").output().unwrap();
    assert_ne!(missing.status.code(), Some(0));
    assert!(
        String::from_utf8(missing.stderr)
            .unwrap()
            .contains("no-such-file.json")
    );
}

#[test]
fn a_snapshot_that_is_not_valid_is_refused_by_name() {
    let output = plan_from_stdin("{}");
    assert_eq!(
        (output.status.code(), output.stdout.is_empty()),
        (Some(2), true)
    );
    assert!(String::from_utf8(output.stderr).unwrap().contains("now"));
}
