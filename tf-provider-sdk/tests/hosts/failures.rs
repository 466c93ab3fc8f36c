//! What goes wrong in a provider: panics, errors halfway, interruptions. The state must know what exists.

use super::cli::{Work, all_hosts, hosts};

fn thing(name: &str, more: &str) -> String {
    format!("resource \"probe_thing\" \"{name}\" {{\n  name = \"{name}\"\n  {more}\n}}\n")
}

#[test]
fn a_panic_in_create_is_a_diagnostic_and_the_others_are_made() {
    for host in hosts() {
        let work = Work::probe(
            &host,
            &[
                thing("bad", "fault = \"create-panic\""),
                thing("good", "value = \"x\""),
                thing("other", ""),
            ]
            .concat(),
        );
        work.apply_fails().says(&[
            "The provider failed unexpectedly",
            "create of bad fell over (at ",
            "examples/probe/thing.rs:",
            "with probe_thing.bad",
        ]);
        assert!(work.stored("probe_thing.bad").is_null());
        assert_eq!(work.stored("probe_thing.good")["id"], "id-good");
        assert_eq!(work.stored("probe_thing.other")["id"], "id-other");
        work.write(&[thing("good", "value = \"x\""), thing("other", "")].concat());
        work.plans_nothing();
    }
}

#[test]
fn a_panic_in_plan_read_or_delete_is_a_diagnostic_and_keeps_the_state() {
    for host in hosts() {
        let work = Work::probe(
            &host,
            &[thing("bad", "fault = \"plan-panic\""), thing("good", "")].concat(),
        );
        work.apply_fails().says(&["plan of bad fell over"]);
        assert_eq!(work.state(), "", "nothing was applied");

        work.write(&[thing("bad", "fault = \"read-panic\""), thing("good", "")].concat());
        work.apply();
        work.fails(&["plan", "-input=false"])
            .says(&["ReadResource of probe_thing ended unexpectedly: read of bad fell over"]);
        assert_eq!(work.stored("probe_thing.bad")["id"], "id-bad");

        let no_refresh = ["apply", "-auto-approve", "-refresh=false"];
        work.write(&[thing("bad", "fault = \"delete-panic\""), thing("good", "")].concat());
        work.ok(&no_refresh);
        work.fails(&["destroy", "-auto-approve"])
            .says(&["delete of bad fell over"]);
        assert_eq!(work.stored("probe_thing.bad")["id"], "id-bad");
        assert!(
            work.stored("probe_thing.good").is_null(),
            "deleted all the same"
        );

        work.write(&thing("bad", "fault = \"plan_delete-error\""));
        work.apply();
        work.fails(&["destroy", "-auto-approve"])
            .says(&["Can't plan_delete bad"]);
    }
}

#[test]
fn a3_a_failed_create_that_left_something_is_tainted_and_one_that_did_not_leaves_nothing() {
    for host in all_hosts() {
        let work = Work::probe(&host, &thing("it", "fault = \"create-error\""));
        work.apply_fails().says(&[
            "Can't create it",
            "It was told to fail.",
            "on main.tf line 3",
        ]);
        assert!(work.instance("probe_thing.it").is_null());

        for (fault, value) in [
            ("create-left", serde_json::json!("half")),
            ("create-kept-error", serde_json::json!("whole")),
            ("create-kept-panic", serde_json::json!("whole")),
        ] {
            let work = Work::probe(
                &host,
                &thing("it", &format!("value = \"whole\"\n  fault = \"{fault}\"")),
            );
            work.apply_fails();
            assert!(work.is_tainted("probe_thing.it"), "{fault}");
            let stored = work.stored("probe_thing.it");
            assert_eq!((&stored["id"], &stored["value"]), (&"id-it".into(), &value));
            work.write(&thing("it", "value = \"whole\""));
            work.apply().says(&["1 added", "1 destroyed"]);
            assert!(!work.is_tainted("probe_thing.it"));
            work.plans_nothing();
        }
    }
}

#[test]
fn a3_a_failed_update_keeps_the_prior_state_or_what_is_left() {
    for host in hosts() {
        let work = Work::probe(&host, &thing("it", "value = \"old\""));
        work.apply();
        work.write(&thing("it", "value = \"new\"\n  fault = \"update-error\""));
        work.apply_fails().says(&["Can't update it"]);
        assert_eq!(work.stored("probe_thing.it")["value"], "old");
        assert_eq!(work.stored("probe_thing.it")["writes"], 1);
        assert!(!work.is_tainted("probe_thing.it"));

        for (fault, value) in [
            ("update-left", "half"),
            ("update-kept-error", "new"),
            ("update-kept-panic", "new"),
        ] {
            work.write(&thing(
                "it",
                &format!("value = \"new\"\n  fault = \"{fault}\""),
            ));
            work.apply_fails();
            assert_eq!(work.stored("probe_thing.it")["value"], value, "{fault}");
        }
        // What is left differs from what is configured, so the next plan goes on from there.
        work.write(&thing("it", "value = \"newest\""));
        work.apply().says(&["1 changed"]);
        work.plans_nothing();
    }
}

#[test]
fn ctrl_c_during_an_apply_ends_with_the_partial_state() {
    for host in all_hosts() {
        let work = Work::probe(
            &host,
            &[thing("slow", "takes = 60000"), thing("quick", "")].concat(),
        );
        let begun = std::time::Instant::now();
        let ended = work.interrupted(&["apply", "-auto-approve"], "create slow");
        assert_eq!(ended.code, Some(1), "{}", ended.said);
        ended.says(&["Can't create slow", "it was interrupted"]);
        assert!(begun.elapsed().as_secs() < 50);
        assert_eq!(work.stored("probe_thing.slow")["id"], "id-slow");
        assert!(work.is_tainted("probe_thing.slow"));
        assert!(!work.state().contains("\"lineage\": \"\""));
        assert!(
            !work.path(".terraform.tfstate.lock.info").exists(),
            "unlocked"
        );
    }
}

#[test]
fn an_operation_ends_at_its_time_limit_and_keeps_what_it_made() {
    for host in hosts() {
        let work = Work::probe(
            &host,
            &thing("slow", "takes = 60000\n  timeouts = { create = \"1s\" }"),
        );
        work.apply_fails().says(&[
            "Can't create slow",
            "it took longer than 1 s, the limit in `timeouts`",
        ]);
        assert!(work.is_tainted("probe_thing.slow"));
        work.write(&thing("slow", "timeouts = { create = \"soon\" }"));
        work.fails(&["validate"])
            .says(&["timeouts.create is \"soon\". Write a number with a unit"]);
    }
}

#[test]
fn an_invalid_plan_and_another_result_are_named() {
    for host in hosts() {
        let work = Work::probe(&host, &thing("it", "value = \"x\"\n  fault = \"plan-lie\""));
        work.fails(&["plan"]).says(&[
            "The provider made an invalid plan",
            "value: the planned value is not the configured one",
            "on main.tf line 3",
        ]);
        work.write(&thing("it", "value = \"x\"\n  fault = \"create-lie\""));
        work.apply().says(&[
            "The result differs from what was planned",
            "value came out in another form",
        ]);
        assert_eq!(work.stored("probe_thing.it")["value"], "x");
        assert!(!work.is_tainted("probe_thing.it"));
    }
}

#[test]
fn r1_what_is_gone_is_made_anew() {
    for host in hosts() {
        let work = Work::probe(&host, &thing("it", "fault = \"read-gone\""));
        work.apply();
        work.plan().says(&["1 to add"]);
        work.write(&thing("it", "fault = \"read-error\""));
        work.ok(&["apply", "-auto-approve", "-refresh=false"]);
        work.fails(&["plan"]).says(&["Can't read it"]);
        assert_eq!(work.stored("probe_thing.it")["id"], "id-it");
    }
}

#[test]
fn a_hook_may_ask_for_a_change_or_a_new_object() {
    for host in hosts() {
        let work = Work::probe(&host, &thing("it", "fault = \"plan-touch\""));
        work.apply();
        let change = work.planned("probe_thing.it");
        assert_eq!(change["actions"], serde_json::json!(["update"]));
        assert_eq!(change["after_unknown"]["writes"], true);
        work.apply().says(&["1 changed"]);
        assert_eq!(
            work.stored("probe_thing.it")["writes"],
            2,
            "private data went on"
        );

        work.write(&thing("it", "fault = \"plan-replace\""));
        let change = work.planned("probe_thing.it");
        assert_eq!(change["actions"], serde_json::json!(["delete", "create"]));
        assert_eq!(change["replace_paths"], serde_json::json!([["id"]]));
        work.write(&thing("it", "fault = \"plan-warn\""));
        work.plan()
            .says(&["Warning: Take care", "on main.tf line 3"]);
    }
}

#[test]
fn private_data_is_kept_across_operations() {
    for host in hosts() {
        let work = Work::probe(&host, &thing("it", "value = \"1\""));
        work.apply();
        for writes in 2..4 {
            work.ok(&["apply", "-auto-approve", "-refresh-only"]);
            work.write(&thing("it", &format!("value = \"{writes}\"")));
            work.apply();
            assert_eq!(work.stored("probe_thing.it")["writes"], writes);
        }
        work.write(&thing("it", "value = \"1\"").replace("\"it\"\n", "\"else\"\n"));
        work.apply().says(&["1 added", "1 destroyed"]);
        assert_eq!(
            work.stored("probe_thing.it")["writes"],
            1,
            "a new object has none"
        );
    }
}
