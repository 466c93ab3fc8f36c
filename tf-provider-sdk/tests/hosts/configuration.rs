//! The provider's own configuration: unknown, refused, several at once.

use super::cli::{Work, hosts};

const SOURCE: &str = "resource \"terraform_data\" \"source\" {\n  input = \"made\"\n}\n";
const GATE: &str = "resource \"probe_gate\" \"it\" {\n  text = \"four\"\n}\n";

#[test]
fn r7_a_provider_that_admits_unknown_values_is_configured_with_them() {
    for host in hosts() {
        let work = Work::with(&host, "probe", "  label = terraform_data.source.output");
        work.write(&[SOURCE, GATE].concat());
        work.plan()
            .says(&["text known, extra known, label unknown"]);
        work.apply();
        assert_eq!(work.stored("probe_gate.it")["label"], "made");
        work.plans_nothing();
    }
}

#[test]
fn r7_without_a_client_plans_are_made_offline_and_reads_keep_the_state() {
    for host in hosts() {
        let work = Work::with(&host, "probe", "  endpoint = terraform_data.source.output");
        work.write(&[SOURCE, GATE].concat());
        let planned = work.plan();
        planned.says(&["The provider's configuration is not known yet", "2 to add"]);
        assert!(!planned.said.contains("The hook ran"));
        work.apply();
        assert_eq!(work.stored("probe_gate.it")["length"], 4);
        work.plans_nothing();

        // Now its source is to be replaced: the object is in the state, but can't be looked at.
        work.write(
            &[
                &SOURCE.replace(
                    "input = \"made\"",
                    "input = \"made\"\n  triggers_replace = 2",
                ),
                GATE,
            ]
            .concat(),
        );
        work.plan().says(&[
            "The provider's configuration is not known yet",
            "1 to add, 0 to change, 1 to destroy",
        ]);
        work.write(&[SOURCE, "data \"probe_echo\" \"it\" {\n  text = \"x\"\n}\n"].concat());
        work.ok(&["destroy", "-auto-approve", "-refresh=false"]);
        work.fails(&["plan", "-input=false"])
            .says(&["The provider is not configured", "data.probe_echo.it"]);
    }
}

#[test]
fn a_refused_configuration_points_at_its_line() {
    for host in hosts() {
        let work = Work::with(&host, "probe", "  label = \"refused\"");
        work.write(GATE);
        work.fails(&["plan"])
            .says(&["label is \"refused\".", "on provider.tf line 7"]);
        let work = Work::with(&host, "probe", "  label = \"bad\"");
        work.write(GATE);
        work.fails(&["validate"])
            .says(&["label is \"bad\". Use another."]);
    }
}

#[test]
fn two_configurations_serve_their_own_resources() {
    for host in hosts() {
        let work = Work::with(&host, "probe", "  label = \"first\"");
        work.write(&format!(
            "provider \"probe\" {{\n  alias = \"second\"\n  label = \"second\"\n}}\n{GATE}resource \"probe_gate\" \"other\" {{\n  provider = probe.second\n  text = \"four\"\n}}\n"
        ));
        work.apply();
        assert_eq!(work.stored("probe_gate.it")["label"], "first");
        assert_eq!(work.stored("probe_gate.other")["label"], "second");
    }
}
