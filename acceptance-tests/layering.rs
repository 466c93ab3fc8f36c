//! Holds the source to the two tables of ARCHITECTURE.md: which room may import which, and which foreign crate stays where.
//!
//! It reads the text (comments and strings taken out), since the compiler can't say which module uses which. A new room or a
//! new arrow is a line in [`ROOMS`]; think before you add one.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// A room of `src/` and the rooms it may import. `main` and `lib` see all.
const ROOMS: &[(&str, &[&str])] = &[
    ("capacity", &[]),
    ("telemetry", &[]),
    ("kubernetes", &["capacity"]),
    ("ssh", &["capacity"]),
    ("digitalocean", &["capacity"]),
    (
        "provider",
        &["capacity", "kubernetes", "ssh", "digitalocean"],
    ),
    ("docs", &["provider"]),
    ("controller", &["capacity", "kubernetes"]),
    ("router", &["capacity", "kubernetes"]),
    ("metadata", &["capacity", "kubernetes"]),
    ("main", &["*"]),
    ("lib", &["*"]),
];

/// A foreign crate and the rooms that may name it. Crates not listed may be used anywhere that [`PURE`] does not forbid.
const CRATES: &[(&str, &[&str])] = &[
    ("tf_provider_sdk", &["provider", "docs", "main"]),
    ("tonic", &[]),
    ("prost", &[]),
    ("rmpv", &[]),
    ("rcgen", &[]),
    ("kube", &["kubernetes"]),
    ("k8s_openapi", &["kubernetes"]),
    ("russh", &["ssh"]),
    ("bollard", &["ssh"]),
    ("reqwest", &["digitalocean"]),
    ("clap", &["main"]),
];

/// What the pure room must not touch: I/O, async, clock, randomness, environment, logging.
const PURE: &[&str] = &[
    "tokio",
    "tracing",
    "rand",
    "futures",
    "async_trait",
    "std::fs",
    "std::net",
    "std::env",
    "std::process",
    "std::io",
    "std::time::Instant",
    "std::time::SystemTime",
    "jiff::Zoned::now",
    "jiff::Timestamp::now",
];

/// One file's breaches, as lines fit for the failure's text.
fn breaches(path: &str, source: &str) -> Vec<String> {
    let room = room_of(path);
    let paths = paths_of(source);
    let mut found = Vec::new();
    let Some((_, may)) = ROOMS.iter().find(|(name, _)| *name == room) else {
        return vec![format!(
            "{path}: {room} is no room that acceptance-tests/layering.rs knows"
        )];
    };
    for used in &paths {
        let mut segments = used.split("::");
        let (first, second) = (segments.next().unwrap_or_default(), segments.next());
        if let ("crate" | "loomplane", Some(target)) = (first, second) {
            let is_room = ROOMS.iter().any(|(name, _)| *name == target);
            if is_room && target != room && !may.contains(&target) && !may.contains(&"*") {
                found.push(format!("{path}: {room} must not import {target} ({used})"));
            }
        }
        if let Some((name, rooms)) = CRATES.iter().find(|(name, _)| *name == first)
            && !rooms.contains(&room)
        {
            found.push(format!(
                "{path}: the crate {name} stays out of {room} ({used})"
            ));
        }
        let impure = |banned: &&&str| used == **banned || used.starts_with(&format!("{banned}::"));
        if room == "capacity"
            && let Some(banned) = PURE.iter().find(impure)
        {
            found.push(format!(
                "{path}: capacity is pure, but uses {banned} ({used})"
            ));
        }
        // A chain of `super` must not climb out of the room, where this test would lose sight of it.
        let up = used
            .split("::")
            .take_while(|segment| *segment == "super")
            .count();
        if up > depth_of(path) {
            found.push(format!("{path}: {used} leaves the room; say crate::..."));
        }
    }
    found
}

fn room_of(path: &str) -> &str {
    let first = path.split('/').next().unwrap_or_default();
    first.strip_suffix(".rs").unwrap_or(first)
}

/// How many `super` stay inside the room, an inline `mod tests` counted in.
fn depth_of(path: &str) -> usize {
    let inside = path.matches('/').count();
    let is_mod = path.ends_with("/mod.rs");
    inside + 1 - usize::from(is_mod)
}

/// Every path with `::` in the code, and every path of `use` declarations with its braces expanded.
fn paths_of(source: &str) -> BTreeSet<String> {
    let code = without_comments_and_strings(source);
    let mut found = BTreeSet::new();
    let mut rest = code.as_str();
    while let Some(at) = rest.find("use ") {
        let starts_word = !rest[..at].ends_with(|it: char| it.is_alphanumeric() || it == '_');
        rest = &rest[at + 4..];
        if let (true, Some(end)) = (starts_word, rest.find(';')) {
            let mut expanded = Vec::new();
            expand("", &rest[..end], &mut expanded);
            found.extend(expanded);
        }
    }
    // Paths in expressions and types: a run of identifiers joined by `::`.
    let tokens: String = code
        .chars()
        .map(|it| {
            if it.is_alphanumeric() || it == '_' || it == ':' {
                it
            } else {
                ' '
            }
        })
        .collect();
    found.extend(
        tokens
            .split(' ')
            .map(|word| word.trim_matches(':').to_owned())
            .filter(|word| word.contains("::")),
    );
    found
}

/// `a::{b, c::{d, e}}` to `a::b`, `a::c::d`, `a::c::e`.
fn expand(prefix: &str, tree: &str, into: &mut Vec<String>) {
    let tree = tree.trim().trim_start_matches("::");
    let Some(open) = tree.find('{') else {
        let name = tree.split(" as ").next().unwrap_or_default().trim();
        if !name.is_empty() {
            into.push(format!("{prefix}{name}").split_whitespace().collect());
        }
        return;
    };
    let prefix = format!("{prefix}{}", tree[..open].trim());
    let inner = tree[open + 1..].trim_end().trim_end_matches('}');
    let (mut depth, mut start) = (0_usize, 0);
    // The inner `}` were trimmed greedily: a missing one is the end of the text.
    for (at, one) in inner.char_indices() {
        match one {
            '{' => depth += 1,
            '}' => depth = depth.saturating_sub(1),
            ',' if depth == 0 => {
                expand(&prefix, &inner[start..at], into);
                start = at + 1;
            }
            _ => {}
        }
    }
    expand(&prefix, &inner[start..], into);
}

/// Comments and the contents of string literals, blanked: what they say is no import.
fn without_comments_and_strings(source: &str) -> String {
    let mut code = String::with_capacity(source.len());
    let mut rest = source;
    while let Some(first) = rest.chars().next() {
        let raw = rest
            .strip_prefix('r')
            .map(|it| it.len() - it.trim_start_matches('#').len());
        let skip = if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if rest.starts_with("/*") {
            rest.find("*/").map_or(rest.len(), |end| end + 2)
        } else if let Some(hashes) = raw
            && rest[1 + hashes..].starts_with('"')
            && !code.ends_with(|it: char| it.is_alphanumeric() || it == '_')
        {
            let close = format!("\"{}", "#".repeat(hashes));
            let body = 2 + hashes;
            rest[body..]
                .find(&close)
                .map_or(rest.len(), |end| body + end + close.len())
        } else if first == '"' {
            let mut escaped = false;
            let end = rest[1..].find(|it: char| {
                let ends = it == '"' && !escaped;
                escaped = it == '\\' && !escaped;
                ends
            });
            end.map_or(rest.len(), |end| end + 2)
        } else if rest.starts_with("'\"'") || rest.starts_with("'\\\"'") {
            rest[1..].find('\'').map_or(rest.len(), |end| end + 2)
        } else {
            code.push(first);
            rest = &rest[first.len_utf8()..];
            continue;
        };
        code.push(' ');
        rest = &rest[skip..];
    }
    code
}

fn sources(folder: &Path) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let mut open = vec![folder.to_owned()];
    while let Some(next) = open.pop() {
        for entry in std::fs::read_dir(&next).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                open.push(path);
            } else if path.extension().is_some_and(|it| it == "rs") {
                let name = path.strip_prefix(folder).unwrap().display().to_string();
                found.insert(name, std::fs::read_to_string(&path).unwrap());
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn root() -> &'static Path {
        Path::new(env!("CARGO_MANIFEST_DIR"))
    }

    #[test]
    fn every_arrow_of_the_source_is_one_that_architecture_allows() {
        let files = sources(&root().join("src"));
        assert!(files.len() > 3, "the source was not found");
        let found: Vec<String> = files
            .iter()
            .flat_map(|(path, source)| breaches(path, source))
            .collect();
        assert!(found.is_empty(), "{}", found.join("\n"));
    }

    #[test]
    fn the_sdk_knows_nothing_of_ours() {
        for (path, source) in sources(&root().join("tf-provider-sdk/src")) {
            let ours = paths_of(&source)
                .into_iter()
                .find(|used| used.starts_with("loomplane"));
            assert_eq!(ours, None, "{path}");
        }
        let manifest = std::fs::read_to_string(root().join("tf-provider-sdk/Cargo.toml")).unwrap();
        assert!(
            !manifest
                .lines()
                .any(|line| line.starts_with("terraform-provider-loomplane"))
        );
    }

    #[test]
    fn the_checker_itself_catches_each_breach() {
        let caught = |path: &str, source: &str| !breaches(path, source).is_empty();
        assert!(caught("capacity/fit.rs", "use crate::kubernetes::nodes;"));
        assert!(caught(
            "ssh/exec.rs",
            "use crate::{capacity::gpu, digitalocean::{client, sizes}};"
        ));
        assert!(caught(
            "kubernetes/nodes.rs",
            "fn f() { crate::provider::configuration::get() }"
        ));
        assert!(caught("provider/configuration.rs", "use kube::Client;"));
        assert!(caught(
            "provider/mod.rs",
            "fn f(_: k8s_openapi::api::core::v1::Node) {}"
        ));
        assert!(caught(
            "kubernetes/nodes.rs",
            "use tonic as t; fn f() { tonic::Status::ok() }"
        ));
        assert!(caught(
            "capacity/price.rs",
            "fn now() { std::time::Instant::now(); }"
        ));
        assert!(caught(
            "capacity/price.rs",
            "use std::{collections::BTreeMap, time::{Duration, SystemTime}};"
        ));
        assert!(caught(
            "capacity/price.rs",
            "fn f() { tracing::info!(\"x\"); }"
        ));
        assert!(caught("capacity/gpu.rs", "use super::super::super::ssh;"));
        assert!(caught("attic/mod.rs", "fn f() {}"));
    }

    #[test]
    fn the_checker_lets_pass_what_is_allowed() {
        let clean =
            |path: &str, source: &str| assert_eq!(breaches(path, source), [""; 0], "{source}");
        clean(
            "provider/resources/gpu_service.rs",
            "use crate::capacity::fit; use crate::kubernetes::nodes; use super::shared;",
        );
        clean(
            "kubernetes/nodes.rs",
            "use crate::capacity::node::Node; use crate::kubernetes::connect; use kube::Api;",
        );
        clean(
            "capacity/gpu.rs",
            "// use crate::kubernetes::nodes;\n/* kube::Client */ const A: &str = \"tokio::spawn\"; const B: &str = r#\"kube::\"x\"\"#;",
        );
        clean(
            "capacity/gpu.rs",
            "use std::time::Duration; #[cfg(test)] mod tests { use super::*; }",
        );
        clean("main.rs", "use loomplane::provider; use clap::Parser;");
        clean(
            "capacity/arbiter/mod.rs",
            "use super::gpu; const Q: char = '\"'; use crate::capacity::label;",
        );
    }

    #[test]
    fn braces_of_use_are_expanded() {
        let found = paths_of("pub(crate) use a::{b, c::{d, e as f}, self};\nuse g::h;");
        for path in ["a::b", "a::c::d", "a::c::e", "g::h"] {
            assert!(found.contains(path), "{path} in {found:?}");
        }
    }
}
