//! Generated files equal a fresh run, and what documentation shows works: pages, examples and schema agree, and every block of
//! HCL that a reader might copy is formatted and valid for the provider.

mod names;
mod rights;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use loomplane::docs;
use serde_json::Value;

use crate::terraform::{Cli, OK, Workspace};

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Put beside a configuration that leaves it out, as the registries' examples do.
const REQUIRED: &str = "terraform {\n  required_providers {\n    loomplane = {\n      source = \"loomplane/loomplane\"\n    }\n  }\n}\n";

/// Files below a folder, with their paths from it, in order.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            let inner = path.file_name().unwrap();
            found.extend(
                files(&path)
                    .into_iter()
                    .map(|file| Path::new(inner).join(file)),
            );
        } else {
            found.push(PathBuf::from(path.file_name().unwrap()));
        }
    }
    found.sort();
    found
}

fn has_extension(path: &Path, extension: &str) -> bool {
    path.extension().is_some_and(|found| found == extension)
}

/// Folders of `examples/` that are configurations: their files by name.
fn examples() -> BTreeMap<PathBuf, Vec<PathBuf>> {
    let mut folders: BTreeMap<PathBuf, Vec<PathBuf>> = BTreeMap::new();
    for file in files(&root().join("examples")) {
        let folder = file.parent().unwrap().to_owned();
        folders.entry(folder).or_default().push(file);
    }
    folders.retain(|_, files| files.iter().any(|file| has_extension(file, "tf")));
    folders
}

/// The blocks of HCL in a Markdown text, with the line that each starts on.
fn blocks(text: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let mut open: Option<(usize, String)> = None;
    for (number, line) in (1..).zip(text.lines()) {
        match (&mut open, line) {
            (None, "```terraform" | "```hcl" | "```tf") => open = Some((number + 1, String::new())),
            (Some(_), "```") => found.extend(open.take()),
            (Some((_, block)), line) => {
                block.push_str(line);
                block.push('\n');
            }
            (None, _) => {}
        }
    }
    found
}

/// Every configuration that documentation shows: where it is, and its files by name.
fn configurations() -> BTreeMap<String, Vec<(String, String)>> {
    let mut found = BTreeMap::new();
    for (folder, files) in examples() {
        let read = |file: &PathBuf| {
            let name = file.file_name().unwrap().to_string_lossy().into_owned();
            (
                name,
                fs::read_to_string(root().join("examples").join(file)).unwrap(),
            )
        };
        found.insert(
            format!("examples/{}", folder.display()),
            files.iter().map(read).collect(),
        );
    }
    let guides = root().join("docs/guides");
    let guides = files(&guides)
        .into_iter()
        .map(|file| Path::new("docs/guides").join(file));
    for page in guides.chain(["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md"].map(PathBuf::from))
    {
        for (line, block) in blocks(&fs::read_to_string(root().join(&page)).unwrap()) {
            found.insert(
                format!("{}:{line}", page.display()),
                vec![("main.tf".to_owned(), block)],
            );
        }
    }
    found
}

/// Write-only and ephemeral values came with Terraform 1.11 and OpenTofu 1.11: what shows them is for those.
fn is_for(text: &str, version: (u64, u64)) -> bool {
    version >= (1, 11) || !(text.contains("secret_env ") || text.contains("ephemeral "))
}

fn version(work: &Workspace) -> (u64, u64) {
    let run = work.run(&["version", "-json"]).expect(OK).json();
    let text = run["terraform_version"].as_str().unwrap().to_owned();
    let mut parts = text.split('.').map(|part| part.parse().unwrap_or(0));
    (parts.next().unwrap(), parts.next().unwrap())
}

#[test]
fn docs_equal_a_fresh_run() {
    let wrong = docs::check(root()).unwrap();
    assert!(
        wrong.is_empty(),
        "{}\nmake docs writes them anew",
        wrong.join("\n")
    );
}

#[test]
fn configurations_in_documentation_are_formatted() {
    let Some(work) = Workspace::with_overrides(Cli::any(), &[]) else {
        return;
    };
    let mut shown = 0;
    for (at, files) in configurations() {
        let folder = at.replace(['/', ':'], "_");
        for (name, text) in files.iter().filter(|(name, _)| name.ends_with(".tf")) {
            work.file(&format!("{folder}/{name}"), text);
            shown += 1;
        }
    }
    assert!(shown > 10, "{shown}");
    work.run(&["fmt", "-check", "-diff", "-recursive"])
        .expect(OK);
}

#[test]
fn configurations_in_documentation_are_valid() {
    for cli in Cli::BOTH {
        let Some(work) = Workspace::with_provider(cli) else {
            continue;
        };
        let version = version(&work);
        let mut wrong = Vec::new();
        for (at, files) in configurations() {
            if !files.iter().all(|(_, text)| is_for(text, version)) {
                continue;
            }
            let folder = at.replace(['/', ':'], "_");
            for (name, text) in &files {
                work.file(&format!("{folder}/{name}"), text);
            }
            if !files
                .iter()
                .any(|(_, text)| text.contains("required_providers"))
            {
                work.file(&format!("{folder}/required.tf"), REQUIRED);
            }
            let run = work.run(&[&format!("-chdir={folder}"), "validate"]);
            if run.code != Some(OK) {
                wrong.push(format!("{at}\n{}{}", run.stdout, run.stderr));
            }
        }
        assert!(wrong.is_empty(), "{cli:?}: {}", wrong.join("\n"));
    }
}

#[test]
fn configurations_in_documentation_use_names_that_the_schemas_have() {
    let mut wrong = Vec::new();
    for (at, files) in configurations() {
        for (name, text) in files.iter().filter(|(name, _)| name.ends_with(".tf")) {
            wrong.extend(
                names::unknown(text)
                    .into_iter()
                    .map(|path| format!("{at} {name}: {path}")),
            );
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn everything_that_is_offered_has_an_example_that_uses_it_and_no_example_is_of_nothing() {
    let offered = docs::offered().unwrap();
    let mut expected = BTreeSet::new();
    let mut uses = |path: String, text: &str| {
        let found = fs::read_to_string(root().join("examples").join(&path))
            .unwrap_or_else(|error| panic!("examples/{path}: {error}"));
        assert!(found.contains(text), "examples/{path} does not use {text}");
        expected.insert(Path::new(&path).parent().unwrap().to_owned());
    };
    uses("provider/provider.tf".into(), "provider \"loomplane\"");
    for name in offered.resources.keys() {
        uses(
            format!("resources/{name}/resource.tf"),
            &format!("resource \"{name}\""),
        );
        uses(
            format!("resources/{name}/import.tf"),
            &format!("to = {name}."),
        );
        uses(
            format!("resources/{name}/import.sh"),
            &format!("terraform import {name}."),
        );
    }
    for name in offered.data_sources.keys() {
        uses(
            format!("data-sources/{name}/data-source.tf"),
            &format!("data \"{name}\""),
        );
    }
    for name in offered.functions.keys() {
        uses(
            format!("functions/{name}/function.tf"),
            &format!("provider::loomplane::{name}("),
        );
    }
    for folder in examples()
        .into_keys()
        .filter(|folder| folder.components().count() > 1)
    {
        assert!(
            expected.contains(&folder),
            "examples/{} is of nothing",
            folder.display()
        );
    }
}

#[test]
fn pages_list_the_attributes_that_the_cli_is_told() {
    let Some(work) = Workspace::with_provider(Cli::any()) else {
        return;
    };
    work.file("main.tf", REQUIRED);
    let all = work
        .run(&["providers", "schema", "-json"])
        .expect(OK)
        .json();
    let provider = all["provider_schemas"]
        .as_object()
        .unwrap()
        .values()
        .next()
        .unwrap();
    let mut pages = vec![("index".to_owned(), &provider["provider"])];
    for (kind, folder) in [
        ("resource_schemas", "resources"),
        ("data_source_schemas", "data-sources"),
    ] {
        for (name, schema) in provider[kind].as_object().unwrap() {
            let short = name.strip_prefix("loomplane_").unwrap();
            pages.push((format!("{folder}/{short}"), schema));
        }
    }
    assert!(pages.len() > 3, "{pages:?}");
    for (page, schema) in pages {
        let text = fs::read_to_string(root().join(format!("docs/{page}.md"))).unwrap();
        let listed = text
            .lines()
            .filter_map(|line| line.strip_prefix("- `")?.split_once("` ("))
            .count();
        assert_eq!(
            listed,
            check(&page, &text, &[], &schema["block"]["attributes"]),
            "{page}"
        );
    }
    let functions: BTreeSet<_> = provider["functions"].as_object().unwrap().keys().collect();
    let pages: BTreeSet<_> = files(&root().join("docs/functions"))
        .into_iter()
        .map(|file| file.file_stem().unwrap().to_string_lossy().into_owned())
        .collect();
    assert_eq!(functions, pages.iter().collect());
}

/// Looks for each attribute of a schema on its page, under its heading; how many there are, nested ones included.
fn check(page: &str, text: &str, above: &[&str], attributes: &Value) -> usize {
    let section = match above {
        [] => "## Schema\n".to_owned(),
        above => format!("### Nested Schema for `{}`\n", above.join(".")),
    };
    let start = text
        .find(&section)
        .unwrap_or_else(|| panic!("docs/{page}.md has no {section}"));
    let rest = &text[start + section.len()..];
    let section = &rest[..rest.find("<a id=").unwrap_or(rest.len())];
    let mut count = 0;
    for (name, attribute) in attributes.as_object().unwrap() {
        assert!(
            section.contains(&format!("\n- `{name}` (")),
            "docs/{page}.md: {above:?} lacks {name}"
        );
        count += 1;
        if attribute["nested_type"].is_object() {
            let path = [above, &[name.as_str()]].concat();
            count += check(page, text, &path, &attribute["nested_type"]["attributes"]);
        }
    }
    count
}

#[test]
fn guides_have_the_front_matter_that_the_registries_read() {
    for file in files(&root().join("docs/guides")) {
        let text = fs::read_to_string(root().join("docs/guides").join(&file)).unwrap();
        let front = text
            .strip_prefix("---\n")
            .and_then(|rest| rest.split_once("\n---\n"));
        let Some((front, _)) = front else {
            panic!("{}: no front matter", file.display());
        };
        for key in ["page_title:", "subcategory:", "description:"] {
            assert!(
                front.lines().any(|line| line.starts_with(key)),
                "{}: no {key}",
                file.display()
            );
        }
        assert!(
            text.len() < 500_000,
            "{}: the registries cut pages of 500 KB",
            file.display()
        );
    }
}

#[test]
fn links_between_files_of_the_repository_lead_somewhere() {
    let mut pages: Vec<PathBuf> = fs::read_dir(root())
        .unwrap()
        .map(|entry| PathBuf::from(entry.unwrap().file_name()))
        .filter(|path| has_extension(path, "md"))
        .collect();
    pages.extend(
        files(&root().join("docs"))
            .into_iter()
            .map(|file| Path::new("docs").join(file)),
    );
    let mut links = 0;
    for page in pages {
        let text = without_code(&fs::read_to_string(root().join(&page)).unwrap());
        for link in text
            .split("](")
            .skip(1)
            .filter_map(|rest| rest.split_once(')'))
        {
            let (target, anchor) = link.0.split_once('#').unwrap_or((link.0, ""));
            if target.contains("://") {
                continue;
            }
            links += 1;
            let to = root().join(page.parent().unwrap()).join(target);
            assert!(
                target.is_empty() || to.exists(),
                "{}: {target} leads nowhere",
                page.display()
            );
            if target.is_empty() && !anchor.is_empty() {
                let there = text.contains(&format!("<a id=\"{anchor}\">"))
                    || headings(&text).any(|it| it == anchor);
                assert!(there, "{}: #{anchor} leads nowhere", page.display());
            }
        }
    }
    assert!(links > 20, "{links}");
}

/// A Markdown text without its blocks and spans of code: what looks like a link there is none.
fn without_code(text: &str) -> String {
    let mut prose = String::new();
    let mut in_block = false;
    for line in text.lines() {
        if line.starts_with("```") {
            in_block = !in_block;
        } else if !in_block {
            prose.extend(line.split('`').step_by(2));
            prose.push('\n');
        }
    }
    prose
}

/// The anchors that readers of Markdown give to headings.
fn headings(text: &str) -> impl Iterator<Item = String> {
    text.lines()
        .filter(|line| line.starts_with('#'))
        .map(|line| {
            line.trim_start_matches('#')
                .trim()
                .to_lowercase()
                .chars()
                .filter(|it| it.is_alphanumeric() || " -_".contains(*it))
                .map(|it| if it == ' ' { '-' } else { it })
                .collect()
        })
}
