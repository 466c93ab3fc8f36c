//! The example provider, `examples/shelf.rs`.

use std::fs;

use super::cli::{Work, all_hosts, hosts};

const CONFIGURATION: &str = r##"
resource "shelf_file" "menu" {
  name    = provider::shelf::file_name("Menu of today")
  content = "soup"
}
data "shelf_files" "all" {
  depends_on = [shelf_file.menu]
}
output "names" {
  value = data.shelf_files.all.names
}
"##;

#[test]
fn the_example_makes_reads_changes_imports_and_deletes_files() {
    for host in all_hosts() {
        let work = Work::with(&host, "shelf", "  folder = \"shelf\"");
        fs::create_dir(work.path("shelf")).expect("a folder");
        let file = work.path("shelf/menu-of-today.txt");
        let content = || fs::read_to_string(&file).expect("the file");
        work.write(CONFIGURATION);
        work.apply();
        assert_eq!(content(), "soup");
        work.ok(&["output", "-json", "names"])
            .says(&["[\"menu-of-today.txt\"]"]);
        work.plans_nothing();

        work.write(&CONFIGURATION.replace("soup", "stew"));
        work.apply().says(&["1 changed"]);
        assert_eq!(content(), "stew");

        fs::write(&file, "salad").expect("changed by others");
        work.plan().says(&["1 to change"]);
        fs::remove_file(&file).expect("deleted by others");
        work.plan().says(&["1 to add"]);
        work.apply();

        work.ok(&["state", "rm", "shelf_file.menu"]);
        work.ok(&["import", "shelf_file.menu", "menu-of-today.txt"]);
        work.plans_nothing();

        work.ok(&["destroy", "-auto-approve"]);
        assert!(!file.exists());
    }
}

#[test]
fn the_example_says_what_is_wrong_where() {
    for host in hosts() {
        let work = Work::with(&host, "shelf", "  folder = \"shelf\"");
        work.write(
            "resource \"shelf_file\" \"menu\" {\n  name = \"../menu\"\n  content = \"\"\n}\n",
        );
        work.fails(&["validate"]).says(&[
            "Invalid value for name",
            "on main.tf line 2",
            "name must match ^[a-z0-9][a-z0-9._-]*$; it is \"../menu\"",
        ]);
        work.write("resource \"shelf_file\" \"menu\" {\n  name = \"menu\"\n  content = \"\"\n}\n");
        work.apply_fails()
            .says(&["Can't write the file", "No such file or directory"]);
        assert!(work.stored("shelf_file.menu").is_null());
    }
}

#[test]
fn the_example_is_under_a_hundred_lines() {
    let example = include_str!("../../examples/shelf.rs");
    assert!(example.lines().count() < 100);
}
