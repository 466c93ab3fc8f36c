//! A secret is in the Kubernetes Secret, and nowhere else.

use super::{bench_by, service};
use crate::terraform::{Cli, HAS_CHANGES, OK};

const SECRET: &str = "correct-horse-battery-staple";

#[test]
fn a_write_only_secret_is_in_no_state_plan_or_log() {
    for cli in Cli::BOTH {
        let Some(mut bench) = bench_by(cli, "secret") else {
            return;
        };
        bench
            .work
            .env("TF_LOG", "TRACE")
            .env("TF_LOG_PATH", "trace.log")
            .env("TF_VAR_key", SECRET);
        let with = |version: u32| {
            format!(
                "variable \"key\" {{\n  ephemeral = true\n}}\n{}",
                service(&format!(
                    "secret_env = {{ API_KEY = var.key }}\n  secret_env_version = {version}"
                ))
            )
        };
        bench.main(&with(1));
        let mut seen = bench.work.plan().expect(HAS_CHANGES).text();
        seen += &bench.work.plan_json().to_string();
        seen += &bench.work.apply_plan().expect(OK).text();
        bench.work.expect_no_changes();
        let secret = |bench: &super::Bench<'_>| {
            bench.cluster.get(&bench.path("secrets", "it-env"))["data"]["API_KEY"].clone()
        };
        // base64 of SECRET and of the other
        assert_eq!(secret(&bench), "Y29ycmVjdC1ob3JzZS1iYXR0ZXJ5LXN0YXBsZQ==");
        let generation = bench.deployment("it")["metadata"]["generation"].clone();

        // Without a new version nothing is written; with one the pods restart.
        bench.work.env("TF_VAR_key", "another-correct-horse");
        bench.work.expect_no_changes();
        bench.main(&with(2));
        seen += &bench.work.apply().expect(OK).says("1 changed").text();
        bench.work.expect_no_changes();
        assert_eq!(secret(&bench), "YW5vdGhlci1jb3JyZWN0LWhvcnNl");
        assert_ne!(bench.deployment("it")["metadata"]["generation"], generation);

        seen += &bench.work.state_text();
        seen +=
            &std::fs::read_to_string(bench.work.path().join("terraform.tfstate.backup")).unwrap();
        let log = std::fs::read_to_string(bench.work.path().join("trace.log")).unwrap();
        assert!(
            log.contains("loomplane"),
            "the provider's own log lines are there"
        );
        for text in [
            SECRET,
            "another-correct-horse",
            "Y29ycmVjdC1ob3JzZS",
            "YW5vdGhlci1jb3JyZWN0",
        ] {
            assert!(!seen.contains(text), "{text} was shown");
            let line = log.lines().find(|line| line.contains(text));
            assert_eq!(line, None, "{text} was logged");
        }
        // The plan file is a zip; its members are compressed, so look at what is in them by the CLI's own eyes (above),
        // and at the raw bytes as well.
        let raw = std::fs::read(bench.work.path().join("plan.bin")).unwrap();
        assert!(!String::from_utf8_lossy(&raw).contains(SECRET));

        bench.main(&service(""));
        bench.work.apply().expect(OK);
        bench.work.expect_no_changes();
        assert!(!bench.cluster.exists(&bench.path("secrets", "it-env")));
    }
}

/// What `ps e` shows: the command lines of all processes, and the environment of ours; a line each.
#[cfg(target_os = "linux")]
fn process_list(ours: &[u32]) -> Vec<String> {
    let read = |path: std::path::PathBuf| {
        let text = std::fs::read(path).unwrap_or_default();
        String::from_utf8_lossy(&text).replace('\0', " ")
    };
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let commands = processes.map(|entry| read(entry.path().join("cmdline")));
    let environments = ours
        .iter()
        .map(|pid| read(format!("/proc/{pid}/environ").into()));
    commands.chain(environments).collect()
}

#[cfg(target_os = "linux")]
#[test]
fn a_write_only_secret_is_in_no_process_list() {
    for cli in Cli::BOTH {
        let Some(bench) = bench_by(cli, "secretps") else {
            return;
        };
        // From a file: a variable of the environment would be the user's own doing.
        bench.work.file("key.txt", SECRET);
        bench.main(&service(
            "annotations = { \"loomplane.bench/outcome\" = \"slow-start\", \"loomplane.bench/delay\" = \"3s\" }\n  \
             secret_env = { API_KEY = file(\"key.txt\") }\n  secret_env_version = 1",
        ));
        let mut seen = std::collections::BTreeSet::new();
        for arguments in [
            ["plan", "-out=plan.bin"].as_slice(),
            &["apply", "plan.bin"],
            &["destroy", "-auto-approve"],
        ] {
            let mut run = bench.work.start(arguments);
            while !run.has_ended() {
                seen.extend(process_list(&run.processes()));
                std::thread::sleep(std::time::Duration::from_millis(10));
            }
            run.wait(super::SOON).expect(OK);
        }
        let seen: Vec<String> = seen.into_iter().collect();
        let seen = seen.join("\n");
        // It did look at the CLI and at a provider while they ran.
        for sign in [
            "apply plan.bin",
            "terraform-provider-loomplane",
            "TF_IN_AUTOMATION=1",
            "TF_PLUGIN_MAGIC_COOKIE=",
        ] {
            assert!(seen.contains(sign), "{sign} was not seen");
        }
        for text in [SECRET, "Y29ycmVjdC1ob3JzZS1iYXR0ZXJ5LXN0YXBsZQ"] {
            assert!(!seen.contains(text), "{text} is in the process list");
        }
    }
}

#[test]
fn a_secret_s_new_name_with_a_new_version_reaches_the_secret_and_the_pods() {
    let Some(bench) = bench_by(Cli::any(), "secretname") else {
        return;
    };
    let with = |name: &str, version: u32| {
        service(&format!(
            "secret_env = {{ {name} = \"{SECRET}\" }}\n  secret_env_version = {version}"
        ))
    };
    let keys = || {
        let secret = bench.cluster.get(&bench.path("secrets", "it-env"));
        let keys: Vec<String> = secret["data"]
            .as_object()
            .unwrap()
            .keys()
            .cloned()
            .collect();
        (
            keys,
            bench.pod_spec("it")["containers"][0]["env"][0]["valueFrom"]["secretKeyRef"]["key"]
                .clone(),
        )
    };
    bench.main(&with("OLD", 1)).applied();
    assert_eq!(keys(), (vec!["OLD".to_owned()], "OLD".into()));
    bench.main(&with("NEW", 2)).applied();
    assert_eq!(keys(), (vec!["NEW".to_owned()], "NEW".into()));
    assert_eq!(bench.state()["status"], "available (1 of 1 ready)");
}

#[test]
fn a_secret_without_a_version_is_refused() {
    let Some(bench) = bench_by(Cli::any(), "secretversion") else {
        return;
    };
    bench.main(&service("secret_env = { A = \"b\" }"));
    bench
        .work
        .plan()
        .expect(crate::terraform::FAILED)
        .says("Set secret_env_version, and raise it with every change.");
}

#[test]
fn a_connection_s_token_is_in_no_state_plan_or_log() {
    let Some(mut bench) = bench_by(Cli::any(), "token") else {
        return;
    };
    let config = bench.cluster.kubeconfig_json();
    let cluster = &config["clusters"][0]["cluster"];
    let token = config["users"][0]["user"]["token"]
        .as_str()
        .unwrap()
        .to_owned();
    bench
        .work
        .env("TF_LOG", "TRACE")
        .env("TF_LOG_PATH", "trace.log")
        .env("TF_VAR_token", &token);
    bench.work.file(
        "provider.tf",
        &format!(
            "{}variable \"token\" {{\n  ephemeral = true\n}}\nprovider \"loomplane\" {{\n  clusters = {{\n    prod = {{\n      host = {}\n      token = var.token\n      cluster_ca_certificate = file({})\n      namespace = {:?}\n    }}\n  }}\n}}\n",
            super::REQUIRED, cluster["server"], cluster["certificate-authority"], bench.namespace.name()
        ),
    );
    bench.main(&service(""));
    let mut seen =
        bench.work.plan().expect(HAS_CHANGES).text() + &bench.work.plan_json().to_string();
    seen += &bench.work.apply_plan().expect(OK).text();
    bench.work.expect_no_changes();
    seen += &bench.work.state_text();
    assert!(!seen.contains(&token));
    let log = std::fs::read_to_string(bench.work.path().join("trace.log")).unwrap();
    let line = log.lines().find(|line| line.contains(&token));
    assert_eq!(line, None, "the token was logged");
}
