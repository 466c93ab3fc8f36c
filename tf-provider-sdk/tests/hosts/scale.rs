//! Many at once.

use super::cli::{Work, hosts};

#[test]
fn two_hundred_instances_are_made_planned_and_deleted() {
    for host in hosts() {
        let work = Work::probe(
            &host,
            "resource \"probe_thing\" \"it\" {\n  for_each = toset([for i in range(200) : tostring(i)])\n  name = each.key\n}\n",
        );
        work.apply().says(&["200 added"]);
        work.plans_nothing();
        work.ok(&["destroy", "-auto-approve"])
            .says(&["200 destroyed"]);
    }
}
