//! State with a past: upgrades, moves, imports, identity.

use serde_json::{Value as Json, json};

use super::cli::{Work, all_hosts};

const RECORD: &str =
    "resource \"probe_record\" \"it\" {\n  region = \"home\"\n  name = \"old\"\n  amount = 5\n}\n";

/// A state file as an earlier version of the provider left it.
fn old_state(host: &str, version: u64, attributes: Json) -> String {
    let registry = match host {
        "tofu" => "registry.opentofu.org",
        _ => "registry.terraform.io",
    };
    json!({
        "version": 4, "terraform_version": "1.5.0", "serial": 3, "lineage": "8a2b1f7e-0000-4000-8000-000000000001", "outputs": {},
        "resources": [{
            "mode": "managed", "type": "probe_record", "name": "it",
            "provider": format!("provider[\"{registry}/loomplane/probe\"]"),
            "instances": [{ "schema_version": version, "attributes": attributes, "sensitive_attributes": [] }],
        }],
        "check_results": null,
    })
    .to_string()
}

#[test]
fn r3_states_of_older_versions_are_upgraded() {
    for host in all_hosts() {
        for (version, attributes) in [
            (
                0,
                json!({ "title": "old", "amount": "5", "gone": { "x": [1] } }),
            ),
            (1, json!({ "region": "home", "name": "old", "amount": "5" })),
            (
                2,
                json!({ "region": "home", "name": "old", "amount": 5, "origin": "version 2" }),
            ),
        ] {
            let work = Work::probe(&host, RECORD);
            work.file(
                "terraform.tfstate",
                &old_state(host.name, version, attributes),
            );
            work.plans_nothing();
            work.ok(&["apply", "-auto-approve", "-refresh-only"]);
            let origin = work.stored("probe_record.it")["origin"].clone();
            // A refresh alone may leave the file as it was.
            assert!(
                origin.is_null() || origin == format!("version {version}"),
                "{origin}"
            );
        }
        let work = Work::probe(&host, RECORD);
        work.file(
            "terraform.tfstate",
            &old_state(host.name, 3, json!({ "name": "old" })),
        );
        work.fails(&["plan"]);
    }
}

#[test]
fn a_state_with_attributes_that_the_version_does_not_have_is_read() {
    for host in all_hosts() {
        let work = Work::probe(&host, RECORD);
        let attributes =
            json!({ "region": "home", "name": "old", "amount": 5, "origin": "x", "dropped": true });
        work.file("terraform.tfstate", &old_state(host.name, 2, attributes));
        work.plans_nothing();
        // One that was added since is null.
        let attributes = json!({ "region": "home", "name": "old", "amount": 5 });
        work.file("terraform.tfstate", &old_state(host.name, 2, attributes));
        work.plan().says(&["No changes"]);
    }
}

#[test]
fn a_moved_block_takes_over_the_state_of_another_type() {
    for host in all_hosts() {
        let work = Work::probe(
            &host,
            "resource \"probe_thing\" \"it\" {\n  name = \"moved\"\n}\n",
        );
        work.apply();
        work.write("moved {\n  from = probe_thing.it\n  to = probe_record.it\n}\nresource \"probe_record\" \"it\" {\n  region = \"home\"\n  name = \"moved\"\n}\n");
        work.apply().says(&["0 added, 0 changed, 0 destroyed"]);
        let origin = work.stored("probe_record.it")["origin"].to_string();
        assert!(
            origin.contains("moved from ") && origin.contains("/loomplane/probe"),
            "{origin}"
        );
        assert!(work.instance("probe_thing.it").is_null());
        work.plans_nothing();

        work.write("moved {\n  from = probe_record.it\n  to = probe_thing.it\n}\nresource \"probe_thing\" \"it\" {\n  name = \"moved\"\n}\n");
        work.fails(&["plan"])
            .says(&["probe_record can't be moved to probe_thing"]);
    }
}

#[test]
fn r4_import_by_id_then_nothing_to_do() {
    let record = "resource \"probe_record\" \"it\" {\n  region = \"home\"\n  name = \"it\"\n  amount = 7\n}\n";
    for host in all_hosts() {
        let work = Work::probe(&host, record);
        work.ok(&["import", "probe_record.it", "home/it"]);
        assert_eq!(work.stored("probe_record.it")["origin"], "imported");
        work.plans_nothing();

        let work = Work::probe(
            &host,
            &format!("{record}import {{\n  to = probe_record.it\n  id = \"home/it\"\n}}\n"),
        );
        work.apply()
            .says(&["1 imported, 0 added, 0 changed, 0 destroyed"]);
        work.plans_nothing();

        let work = Work::probe(&host, record);
        work.fails(&["import", "probe_record.it", "it"])
            .says(&["Invalid import ID", "Write REGION/NAME."]);
        work.fails(&["import", "probe_record.it", "home/nowhere"])
            .says(&["Cannot import non-existent remote object"]);
        work.write("resource \"probe_gate\" \"it\" {\n  text = \"t\"\n}\n");
        work.fails(&["import", "probe_gate.it", "x"])
            .says(&["probe_gate can't be imported"]);
    }
}

#[test]
fn resource_identity_is_stored_and_imported_where_the_host_knows_it() {
    for host in all_hosts() {
        let work = Work::probe(&host, RECORD);
        work.apply();
        work.plans_nothing();
        let identity = work.instance("probe_record.it")["identity"].clone();
        if !host.has_identity() {
            assert!(identity.is_null());
            continue;
        }
        assert_eq!(identity, json!({ "region": "home", "name": "old" }));
        work.write(&RECORD.replace("amount = 5", "amount = 6"));
        work.apply().says(&["1 changed"]);
        work.plans_nothing();
        // Another identity is another object.
        work.write(&RECORD.replace("\"old\"", "\"new\""));
        work.apply().says(&["1 added", "1 destroyed"]);
        assert_eq!(work.instance("probe_record.it")["identity"]["name"], "new");
        work.plans_nothing();

        let work = Work::probe(
            &host,
            "import {\n  to = probe_record.it\n  identity = { region = \"home\", name = \"it\" }\n}\nresource \"probe_record\" \"it\" {\n  region = \"home\"\n  name = \"it\"\n  amount = 7\n}\n",
        );
        work.apply()
            .says(&["1 imported, 0 added, 0 changed, 0 destroyed"]);
        work.plans_nothing();
    }
}
