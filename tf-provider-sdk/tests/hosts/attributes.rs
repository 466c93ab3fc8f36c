//! Every kind of attribute: no perpetual differences, nothing secret where it must not be.

use serde_json::json;

use super::cli::{Work, all_hosts, hosts};

const FULL: &str = r#"
resource "probe_shape" "it" {
  name   = "full"
  single = { kind = "a", note = "n" }
  list   = [{ kind = "b", count = 5 }, { kind = "c", color = "red" }]
  map    = { one = { kind = "d" }, two = { kind = "e", count = 1 } }
  set    = [{ port = 80, protocol = "tcp" }, { port = 53, protocol = "udp" }, { port = 22 }]
  any    = { x = [1, "two", null], y = true }
  number = 123456789012345678901234567890.125
}
"#;

#[test]
fn nested_attributes_with_computed_and_defaults_are_planned_once() {
    for host in all_hosts() {
        let work = Work::probe(&host, FULL);
        work.apply();
        let stored = work.stored("probe_shape.it");
        assert_eq!(
            stored["single"],
            json!({ "kind": "a", "count": 3, "note": "n", "color": "gray", "id": "a-3", "serial": "s-a" })
        );
        assert_eq!(stored["list"][1]["color"], "red");
        assert_eq!(stored["list"][0]["count"], 5);
        assert_eq!(stored["map"]["two"]["id"], "e-1");
        assert_eq!(stored["set"].as_array().map(Vec::len), Some(3));
        assert_eq!(stored["size"], 3);
        assert_eq!(stored["either"], "made");
        assert_eq!(stored["made"].as_array().map(Vec::len), Some(5));
        work.plans_nothing();

        // The same in another order is the same.
        work.write(&FULL.replace(
            "[{ port = 80, protocol = \"tcp\" }, { port = 53, protocol = \"udp\" }, { port = 22 }]",
            "[{ port = 22 }, { port = 53, protocol = \"udp\" }, { port = 80, protocol = \"tcp\" }]",
        ));
        work.plans_nothing();

        // A change inside marks what may change, and keeps what is stable.
        work.write(&FULL.replace("count = 5", "count = 6"));
        let change = work.planned("probe_shape.it");
        assert_eq!(change["actions"], json!(["update"]));
        assert_eq!(change["after_unknown"]["list"][0]["id"], true);
        assert_eq!(change["after"]["list"][0]["serial"], "s-b");
        assert_eq!(change["after"]["list"][1]["color"], "red");
        assert_eq!(change["after"]["either"], "made");
        work.apply();
        work.plans_nothing();
    }
}

#[test]
fn unset_set_and_unset_again() {
    let minimal = "resource \"probe_shape\" \"it\" {\n  name = \"full\"\n}\n";
    for host in hosts() {
        let work = Work::probe(&host, minimal);
        for configuration in [minimal, FULL, minimal] {
            work.write(configuration);
            work.apply();
            work.plans_nothing();
        }
        assert!(work.stored("probe_shape.it")["single"].is_null());
        // What the provider filled in stays, until the user says otherwise.
        assert_eq!(work.stored("probe_shape.it")["either"], "made");
        work.write("resource \"probe_shape\" \"it\" {\n  name = \"full\"\n  either = \"given\"\n  size = 9\n}\n");
        work.apply();
        work.plans_nothing();
        assert_eq!(work.stored("probe_shape.it")["either"], "given");
        // Empty is not null.
        work.write("resource \"probe_shape\" \"it\" {\n  name = \"full\"\n  list = []\n  map = {}\n  set = []\n}\n");
        work.apply();
        work.plans_nothing();
        let stored = work.stored("probe_shape.it");
        assert_eq!((&stored["list"], &stored["map"]), (&json!([]), &json!({})));
    }
}

#[test]
fn numbers_of_any_size_and_decimals_keep_every_digit() {
    for host in hosts() {
        for number in [
            "18446744073709551617",
            "123456789012345678901234567890.125",
            "0.1",
            "-7",
            "1e400",
        ] {
            let work = Work::probe(
                &host,
                &format!(
                    "resource \"probe_shape\" \"it\" {{\n  name = \"n\"\n  number = {number}\n}}\noutput \"same\" {{\n  value = probe_shape.it.number == {number} && probe_shape.it.number_again == {number}\n}}\n"
                ),
            );
            work.apply();
            work.plans_nothing();
            work.ok(&["output", "same"]).says(&["true"]);
            if !number.contains('e') {
                assert!(work.state().contains(number), "{number}");
            }
        }
    }
}

#[test]
fn dynamic_values_change_their_type() {
    for host in hosts() {
        let work = Work::probe(&host, "");
        for value in [
            "\"text\"",
            "[1, \"two\", null]",
            "{ a = { b = [true] } }",
            "tolist([1, 2])",
            "null",
            "12.5",
        ] {
            work.write(&format!("resource \"probe_shape\" \"it\" {{\n  name = \"n\"\n  any = {value}\n}}\noutput \"same\" {{\n  value = jsonencode(probe_shape.it.any) == jsonencode({value})\n}}\n"));
            work.apply();
            work.plans_nothing();
            work.ok(&["output", "same"]).says(&["true"]);
        }
    }
}

#[test]
fn secrets_show_nowhere_and_write_only_ones_are_stored_nowhere() {
    let configuration = |password: &str, version: u32| {
        format!(
            "resource \"probe_shape\" \"it\" {{\n  name = \"s\"\n  secret = \"hunter-two\"\n  password = \"{password}\"\n  password_version = {version}\n}}\n"
        )
    };
    for host in all_hosts() {
        let work = Work::probe(&host, &configuration("open-sesame", 1));
        let planned = work.ok(&["plan", "-input=false", "-out=plan"]);
        planned.says(&["(sensitive value)", "(write-only attribute)"]);
        let plan = work.ok(&["show", "-json", "plan"]);
        let applied = work.ok(&["apply", "plan"]);
        for said in [&planned.said, &applied.said] {
            assert!(
                !said.contains("hunter-two") && !said.contains("open-sesame"),
                "{said}"
            );
        }
        assert!(
            !plan.json()["resource_changes"]
                .to_string()
                .contains("open-sesame")
        );
        assert!(!work.state().contains("open-sesame"));
        let stored = work.stored("probe_shape.it");
        assert!(stored["password"].is_null());
        assert_eq!(stored["password_length"], 11, "the provider got it");
        work.plans_nothing();

        work.write(&configuration("sesame", 1));
        work.plans_nothing();
        work.write(&configuration("sesame", 2));
        work.apply().says(&["1 changed"]);
        assert_eq!(work.stored("probe_shape.it")["password_length"], 6);
        work.plans_nothing();
    }
}

#[test]
fn a_deprecated_attribute_is_warned_of_only_where_it_is_used() {
    for host in hosts() {
        let work = Work::probe(
            &host,
            "resource \"probe_shape\" \"it\" {\n  name = \"n\"\n}\n",
        );
        assert!(!work.ok(&["validate"]).said.contains("deprecated"));
        work.write("resource \"probe_shape\" \"it\" {\n  name = \"n\"\n  title = \"t\"\n}\n");
        work.ok(&["validate"]).says(&[
            "Warning: title is deprecated",
            "Say name.",
            "on main.tf line 3",
        ]);
    }
}

#[test]
fn messages_name_the_nested_attribute_and_point_at_the_line() {
    for host in hosts() {
        let work = Work::probe(
            &host,
            "resource \"probe_shape\" \"it\" {\n  name = \"n\"\n  size = 12\n  list = [{ kind = \"a\" }, { kind = \"b\", count = -1 }]\n  set = [{ port = 1, protocol = \"icmp\" }]\n}\n",
        );
        work.fails(&["validate"]).says(&[
            "size must be a whole number, 1 to 9; it is 12",
            "on main.tf line 3",
            "list[1].count must be a whole number, 0 to 4294967295; it is -1",
            "on main.tf line 4",
            "set.protocol must be one of \"tcp\", \"udp\"; it is \"icmp\"",
        ]);
    }
}

#[test]
fn twenty_mebibytes_in_an_attribute_pass() {
    for host in hosts() {
        let work = Work::probe(&host, "");
        work.file("large.txt", &"0123456789abcdef".repeat(20 << 16));
        work.write("resource \"probe_thing\" \"large\" {\n  name = \"large\"\n  value = file(\"large.txt\")\n}\noutput \"length\" {\n  value = length(probe_thing.large.value)\n}\n");
        work.apply();
        work.ok(&["output", "length"]).says(&["20971520"]);
    }
}
