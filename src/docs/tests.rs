use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tf_provider_sdk::{
    field::{Computed, Maybe, Opt, Replace, Sensitive, WriteOnly},
    schema::Schema,
};

use super::schema;

/// A thing.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
struct Thing {
    /// Its name.
    #[schemars(regex(pattern = "^[a-z]+$"))]
    name: Replace<Maybe<String>>,
    /// How many, 1 to 8.
    #[schemars(range(min = 1, max = 8))]
    count_of: Opt<i64>,
    /// How big.
    #[schemars(range(min = 2))]
    big: Opt<i64>,
    /// Whether it waits.
    #[serde(default = "yes")]
    wait: bool,
    /// Which.
    colour: Opt<Colour>,
    /// A secret.
    secret: Sensitive<Opt<String>>,
    /// A secret that is not kept.
    once: WriteOnly<Opt<String>>,
    /// Its parts.
    parts: Opt<Vec<Part>>,
    /// What came of it.
    made: Computed<String>,
}

fn yes() -> bool {
    true
}

/// A colour.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Colour {
    /// Red.
    Red,
    /// Blue.
    Blue,
}

/// A part.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
struct Part {
    /// Its inner part.
    inner: Inner,
}

/// An inner part.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
struct Inner {
    /// Its weight.
    weight: Opt<String>,
}

#[test]
fn the_schema_section_says_what_the_schema_knows() {
    let text = schema::render(&Schema::of::<Thing>(0).unwrap());
    for line in [
        "### Required\n\n- `name` (String) Its name. Must match `^[a-z]+$`. A new value makes a new object.\n",
        "### Optional\n\n> **NOTE**: [Write-only arguments]",
        "- `big` (Number) How big. Must be a whole number, at least 2.\n",
        "- `colour` (String) Which. Must be one of `red`, `blue`.\n",
        // Said by the author: not again.
        "- `count_of` (Number) How many, 1 to 8.\n",
        "- `once` (String, Write-only) A secret that is not kept.\n",
        "- `parts` (Attributes List) Its parts. (see [below for nested schema](#nestedatt--parts))\n",
        "- `secret` (String, Sensitive) A secret.\n",
        "- `wait` (Boolean) Whether it waits. Default: `true`.\n",
        "### Read-Only\n\n- `made` (String) What came of it.\n",
        "<a id=\"nestedatt--parts\"></a>\n### Nested Schema for `parts`\n\nRequired:\n\n- `inner` (Attributes) Its inner part. (see [below for nested schema](#nestedatt--parts--inner))\n",
        "<a id=\"nestedatt--parts--inner\"></a>\n### Nested Schema for `parts.inner`\n\nOptional:\n\n- `weight` (String) Its weight.\n",
    ] {
        assert!(text.contains(line), "{line:?} is not in\n{text}");
    }
}

#[test]
fn a_page_that_differs_is_missing_or_left_over_is_named() {
    let root = tempfile::tempdir().unwrap();
    let here = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    std::os::unix::fs::symlink(here.join("examples"), root.path().join("examples")).unwrap();
    let pages = super::write(root.path()).unwrap();
    assert!(pages >= 6, "{pages}");
    assert_eq!(super::check(root.path()).unwrap(), Vec::<String>::new());

    let docs = root.path().join("docs");
    std::fs::write(docs.join("resources/gone.md"), "old").unwrap();
    std::fs::remove_file(docs.join("functions/gpu_kind.md")).unwrap();
    let index = std::fs::read_to_string(docs.join("index.md")).unwrap();
    std::fs::write(docs.join("index.md"), index.replacen("---\n", "--\n", 1)).unwrap();
    assert_eq!(
        super::check(root.path()).unwrap(),
        [
            "docs/functions/gpu_kind.md is missing",
            "docs/index.md differs from line 1",
            "docs/resources/gone.md is of nothing that the provider offers",
        ]
    );
    super::write(root.path()).unwrap();
    assert!(!docs.join("resources/gone.md").exists());
    assert_eq!(super::check(root.path()).unwrap(), Vec::<String>::new());
}
