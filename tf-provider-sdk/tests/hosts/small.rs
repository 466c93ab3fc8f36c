//! Data sources, functions and ephemeral resources.

use super::cli::{Work, all_hosts, hosts};

#[test]
fn a_data_source_that_fails_says_so_where() {
    for host in hosts() {
        let echo = |text: &str| format!("data \"probe_echo\" \"it\" {{\n  text = \"{text}\"\n}}\n");
        let work = Work::probe(&host, &echo("bad"));
        work.fails(&["validate"])
            .says(&["Bad text", "on main.tf line 2"]);
        work.write(&echo("error"));
        work.fails(&["plan"])
            .says(&["No echo", "on main.tf line 2"]);
        work.write(&echo("panic"));
        work.fails(&["plan"])
            .says(&["ReadDataSource of probe_echo ended unexpectedly: the echo fell silent"]);
        work.write(&echo("lie"));
        work.plan()
            .says(&["The result differs from what was configured"]);
    }
}

#[test]
fn functions_answer_and_name_the_argument_at_fault() {
    for host in hosts() {
        let work = Work::probe(&host, "");
        let expression =
            |text: &str| work.write(&format!("output \"it\" {{\n  value = {text}\n}}\n"));
        for (text, result) in [
            ("provider::probe::divide(1, 4)", "0.25"),
            ("provider::probe::join(\"-\")", "\"\""),
            (
                "provider::probe::join(\"-\", \"a\", \"b\", \"c\")",
                "\"a-b-c\"",
            ),
            ("provider::probe::or_else(null, \"other\")", "\"other\""),
            ("provider::probe::or_else(\"some\", \"other\")", "\"some\""),
        ] {
            expression(text);
            work.apply();
            work.ok(&["output", "it"]).says(&[result]);
        }
        for (text, why) in [
            ("provider::probe::divide(1, 0)", "the divisor is zero"),
            (
                "provider::probe::divide(13, 1)",
                "CallFunction of divide ended unexpectedly: thirteen",
            ),
            (
                "provider::probe::divide(1)",
                "Not enough function arguments",
            ),
            (
                "provider::probe::or_else(\"a\", null)",
                "argument must not be null",
            ),
        ] {
            expression(text);
            work.fails(&["plan"]).says(&[why]);
        }
        expression("provider::probe::divide(1, 0)");
        work.fails(&["plan"])
            .says(&["Invalid value for \"divisor\" parameter"]);
    }
}

#[test]
fn an_ephemeral_resource_is_opened_renewed_and_closed_and_stored_nowhere() {
    for host in all_hosts() {
        let work = Work::probe(
            &host,
            "ephemeral \"probe_lease\" \"it\" {\n  name = \"me\"\n}\nresource \"probe_shape\" \"it\" {\n  name = \"n\"\n  password = ephemeral.probe_lease.it.token\n  password_version = 1\n}\nresource \"probe_thing\" \"slow\" {\n  name = \"slow\"\n  takes = 4000\n}\nprovider \"probe\" {\n  alias = \"leased\"\n  token = ephemeral.probe_lease.it.token\n}\nresource \"probe_gate\" \"it\" {\n  provider = probe.leased\n  text = probe_thing.slow.id\n}\n",
        );
        work.apply();
        assert_eq!(
            work.stored("probe_shape.it")["password_length"],
            "token-of-me".len()
        );
        let journal = work.journal();
        let count = |line: &str| journal.iter().filter(|it| it.starts_with(line)).count();
        assert!(count("open me") >= 2, "in plan and in apply: {journal:?}");
        assert_eq!(count("open me"), count("close me"), "{journal:?}");
        assert!(
            count("renew me+") >= 1,
            "the handle of the last renewal: {journal:?}"
        );
        assert!(!work.state().contains("token-of-me"));
    }
}
