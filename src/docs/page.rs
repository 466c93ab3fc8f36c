//! A page from its parts, laid out as terraform-plugin-docs does, so that the registries and their readers find what they know.

use tf_provider_sdk::{describe::FunctionDescription, schema::Schema};

use super::schema::{self, type_name};

/// How an object is imported: both parts may be there or not.
pub(super) struct Import {
    /// An `import` block.
    pub(super) block: Option<String>,
    /// A `terraform import` command.
    pub(super) command: Option<String>,
}

const IMPORT_BLOCK: &str =
    "In Terraform v1.5.0 and later, and in OpenTofu, an `import` block can be used, for example:";
const IMPORT_COMMAND: &str = "The `terraform import` command can be used, for example:";

/// `docs/index.md`; guides by file and title.
pub(super) fn provider(schema: &Schema, example: &str, guides: &[(String, String)]) -> String {
    let mut page = Page::new(
        "loomplane Provider",
        "",
        "loomplane Provider",
        &schema.description,
    );
    page.example(example);
    if !guides.is_empty() {
        let links: Vec<_> = guides
            .iter()
            .map(|(file, title)| format!("- [{title}]({file})"))
            .collect();
        page.section("## Guides", &links.join("\n"));
    }
    page.part(&schema::render(schema));
    page.text
}

/// `docs/resources/NAME.md`.
pub(super) fn resource(name: &str, schema: &Schema, example: &str, import: &Import) -> String {
    let mut page = typed(name, "Resource", schema, example);
    let parts: Vec<_> = [
        import
            .block
            .as_ref()
            .map(|text| format!("{IMPORT_BLOCK}\n\n{}", fence("terraform", text))),
        import
            .command
            .as_ref()
            .map(|text| format!("{IMPORT_COMMAND}\n\n{}", fence("shell", text))),
    ]
    .into_iter()
    .flatten()
    .collect();
    if !parts.is_empty() {
        page.section("## Import", &parts.join("\n\n"));
    }
    page.text
}

/// `docs/data-sources/NAME.md`.
pub(super) fn data_source(name: &str, schema: &Schema, example: &str) -> String {
    typed(name, "Data Source", schema, example).text
}

/// `docs/ephemeral-resources/NAME.md`.
pub(super) fn ephemeral(name: &str, schema: &Schema, example: &str) -> String {
    typed(name, "Ephemeral Resource", schema, example).text
}

fn typed(name: &str, what: &str, schema: &Schema, example: &str) -> Page {
    let mut page = Page::new(
        &format!("{name} {what}"),
        " - loomplane",
        &format!("{name} ({what})"),
        &schema.description,
    );
    page.example(example);
    page.part(&schema::render(schema));
    page
}

/// `docs/functions/NAME.md`.
pub(super) fn function(name: &str, function: &FunctionDescription, example: &str) -> String {
    let mut page = Page::with_summary(
        &format!("{name} function"),
        " - loomplane",
        &format!("function: {name}"),
        function.summary,
        function.description,
    );
    page.example(example);
    let signature: Vec<_> = function
        .parameters
        .iter()
        .map(|parameter| format!("{} {}", parameter.name, parameter.ty))
        .collect();
    let signature = format!("{name}({}) {}", signature.join(", "), function.output);
    page.section("## Signature", &fence("text", &signature));
    let arguments: Vec<_> = (1..)
        .zip(&function.parameters)
        .map(|(number, it)| {
            format!(
                "{number}. `{}` ({}) {}",
                it.name,
                type_name(&it.ty),
                it.description
            )
        })
        .collect();
    page.section("## Arguments", &arguments.join("\n"));
    page.text
}

struct Page {
    text: String,
}

impl Page {
    fn new(title: &str, after_title: &str, heading: &str, description: &str) -> Self {
        let summary = description.split("\n\n").next().unwrap_or_default();
        Self::with_summary(title, after_title, heading, summary, description)
    }

    fn with_summary(
        title: &str,
        after_title: &str,
        heading: &str,
        summary: &str,
        description: &str,
    ) -> Self {
        let summary = summary.split_whitespace().collect::<Vec<_>>().join(" ");
        Self {
            text: format!(
                "---\npage_title: \"{title}{after_title}\"\nsubcategory: \"\"\ndescription: |-\n  {summary}\n---\n\n# {heading}\n\n{}\n",
                description.trim()
            ),
        }
    }

    fn part(&mut self, text: &str) {
        self.text.push('\n');
        self.text.push_str(text.trim_end());
        self.text.push('\n');
    }

    fn section(&mut self, heading: &str, text: &str) {
        self.part(&format!("{heading}\n\n{text}"));
    }

    fn example(&mut self, text: &str) {
        self.section("## Example Usage", &fence("terraform", text));
    }
}

fn fence(language: &str, text: &str) -> String {
    format!("```{language}\n{}\n```", text.trim_end())
}
