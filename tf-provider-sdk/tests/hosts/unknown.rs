//! Values that are not known while planning.

use serde_json::json;

use super::cli::{Work, all_hosts, hosts};

const SOURCE: &str = "resource \"probe_thing\" \"source\" {\n  name = \"source\"\n}\n";

fn gate(attributes: &str) -> String {
    format!("{SOURCE}resource \"probe_gate\" \"it\" {{\n  {attributes}\n}}\n")
}

#[test]
fn a_hook_runs_while_fields_that_admit_it_are_unknown() {
    for host in hosts() {
        let work = Work::probe(
            &host,
            &gate("text = probe_thing.source.id\n  extra = probe_thing.source.id"),
        );
        work.plan().says(&["text unknown, extra unknown"]);
        assert_eq!(
            work.planned("probe_gate.it")["after_unknown"]["length"],
            true
        );
        work.write(&gate("text = \"four\"\n  extra = probe_thing.source.id"));
        work.plan().says(&["text known, extra unknown"]);
        assert_eq!(
            work.planned("probe_gate.it")["after"]["length"],
            4,
            "the hook planned it"
        );
        work.apply();
        assert_eq!(work.stored("probe_gate.it")["extra"], "id-source");
        work.plans_nothing();
    }
}

#[test]
fn a_hook_is_skipped_while_another_field_is_unknown() {
    for host in hosts() {
        let work = Work::probe(
            &host,
            &gate("text = \"four\"\n  strict = probe_thing.source.id"),
        );
        let planned = work.plan();
        assert!(!planned.said.contains("The hook ran"), "{}", planned.said);
        assert_eq!(
            work.planned("probe_gate.it")["after_unknown"]["length"],
            true
        );
        work.apply();
        assert_eq!(work.stored("probe_gate.it")["length"], 4);
        work.plans_nothing();
    }
}

#[test]
fn r6_validation_is_silent_about_what_is_unknown_and_speaks_once_it_is_known() {
    for host in hosts() {
        let variable = "variable \"text\" {\n  type = string\n}\n";
        let work = Work::probe(&host, &format!("{variable}{}", gate("text = var.text")));
        work.ok(&["validate"]);
        work.fails(&["plan", "-var=text=bad"])
            .says(&["Bad text", "text is \"bad\""]);
        work.ok(&["plan", "-var=text=good"]);
    }
}

#[test]
fn what_is_known_of_an_unknown_value_is_handed_back() {
    for host in all_hosts() {
        // The template's value is unknown, but begins with "pre-"; core holds the plan to that.
        let work = Work::probe(
            &host,
            &gate(
                "text = \"pre-${probe_thing.source.id}\"\n  extra = \"pre-${probe_thing.source.writes}\"",
            ),
        );
        let change = work.planned("probe_gate.it");
        assert_eq!(change["after_unknown"]["text"], json!(true));
        work.apply();
        assert_eq!(work.stored("probe_gate.it")["text"], "pre-id-source");
        // Also where the condition can already be decided.
        work.write(
            &(gate("text = \"pre-${probe_thing.source.id}\"")
                + "output \"starts\" {\n  value = startswith(probe_gate.it.text, \"pre-\")\n}\n"),
        );
        work.apply();
        work.ok(&["output", "starts"]).says(&["true"]);
    }
}

#[test]
fn unknown_collections_and_elements_become_known_at_apply() {
    for host in hosts() {
        let work = Work::probe(
            &host,
            &format!(
                "{SOURCE}resource \"probe_shape\" \"it\" {{\n  name = \"n\"\n  list = [{{ kind = probe_thing.source.id }}, {{ kind = \"k\" }}]\n  map = {{ for k in [probe_thing.source.id] : \"key\" => {{ kind = k }} }}\n  set = toset([for n in probe_thing.source.id == \"\" ? [1] : [2, 3] : {{ port = n, protocol = null }}])\n  any = {{ id = probe_thing.source.id }}\n}}\n"
            ),
        );
        work.apply();
        let stored = work.stored("probe_shape.it");
        assert_eq!(stored["list"][0]["kind"], "id-source");
        assert_eq!(stored["map"]["key"]["id"], "id-source-3");
        assert_eq!(stored["set"].as_array().map(Vec::len), Some(2));
        work.plans_nothing();
    }
}

#[test]
fn a_data_source_is_read_at_apply_when_it_depends_on_what_is_not_made_yet() {
    for host in hosts() {
        let work = Work::probe(
            &host,
            &format!(
                "{SOURCE}data \"probe_echo\" \"it\" {{\n  text = probe_thing.source.id\n}}\noutput \"said\" {{\n  value = data.probe_echo.it.said\n}}\n"
            ),
        );
        work.plan().says(&["(known after apply)"]);
        assert!(!work.journal().iter().any(|line| line.starts_with("echo")));
        work.apply();
        work.ok(&["output", "said"]).says(&["ID-SOURCE"]);
        work.plans_nothing();
    }
}
