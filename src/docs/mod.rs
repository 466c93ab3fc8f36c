//! Renders `docs/` in the layout of the Terraform and OpenTofu registries, from the provider's schemas and `examples/`.
//!
//! - here: which pages there are, writing them, and holding a folder to a fresh run
//! - `page.rs` a page from its parts; `schema.rs` the `## Schema` section
//!
//! `docs/guides/` is written by hand: it is linked from the first page and otherwise left alone. Imports the SDK and `provider`.

mod page;
mod schema;
#[cfg(test)]
mod tests;

use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
};

use tf_provider_sdk::{
    describe::{Description, describe},
    schema::SchemaError,
};

use crate::provider::Loomplane;

/// The folders below `docs/` whose every file is generated.
const GENERATED: [&str; 4] = [
    "resources",
    "data-sources",
    "ephemeral-resources",
    "functions",
];

/// Why there are no pages.
#[derive(Debug, thiserror::Error)]
pub enum DocsError {
    /// A model can't be expressed as a schema.
    #[error("the provider's schema can't be described")]
    Schema(#[from] SchemaError),
    /// A type or function without an example.
    #[error("{name} has no example: write {}", .path.display())]
    NoExample {
        /// Which.
        name: String,
        /// Where it should be.
        path: PathBuf,
    },
    /// A file could not be read.
    #[error("can't read {}", .path.display())]
    Read {
        /// Which.
        path: PathBuf,
        /// Cause.
        #[source]
        source: io::Error,
    },
    /// A file could not be written.
    #[error("can't write {}", .path.display())]
    Write {
        /// Which.
        path: PathBuf,
        /// Cause.
        #[source]
        source: io::Error,
    },
}

/// Everything that the provider offers.
///
/// # Errors
/// Where a model can't be expressed as a schema.
pub fn offered() -> Result<Description, DocsError> {
    Ok(describe(&Loomplane)?)
}

/// The pages, by path below `docs/`. `root` is the folder that holds `examples/` and `docs/guides/`.
///
/// # Errors
/// An example that is missing or can't be read.
pub fn render(root: &Path) -> Result<BTreeMap<PathBuf, String>, DocsError> {
    let offered = offered()?;
    let examples = Examples(root.join("examples"));
    let mut pages = BTreeMap::new();
    pages.insert(
        PathBuf::from("index.md"),
        page::provider(
            &offered.provider,
            &examples.needed("the provider", "provider/provider.tf")?,
            &guides(root)?,
        ),
    );
    for (name, schema) in &offered.resources {
        let example = examples.needed(name, &format!("resources/{name}/resource.tf"))?;
        let import = page::Import {
            block: examples.read(&format!("resources/{name}/import.tf"))?,
            command: examples.read(&format!("resources/{name}/import.sh"))?,
        };
        let text = page::resource(name, schema, &example, &import);
        pages.insert(file("resources", name), text);
    }
    for (name, schema) in &offered.data_sources {
        let example = examples.needed(name, &format!("data-sources/{name}/data-source.tf"))?;
        let text = page::data_source(name, schema, &example);
        pages.insert(file("data-sources", name), text);
    }
    for (name, schema) in &offered.ephemerals {
        let path = format!("ephemeral-resources/{name}/ephemeral-resource.tf");
        let text = page::ephemeral(name, schema, &examples.needed(name, &path)?);
        pages.insert(file("ephemeral-resources", name), text);
    }
    for (name, function) in &offered.functions {
        let example = examples.needed(name, &format!("functions/{name}/function.tf"))?;
        let text = page::function(name, function, &example);
        pages.insert(file("functions", name), text);
    }
    Ok(pages)
}

/// `resources/gpu_service.md`: the registries leave the provider's name out.
fn file(folder: &str, name: &str) -> PathBuf {
    let short = name.strip_prefix("loomplane_").unwrap_or(name);
    Path::new(folder).join(format!("{short}.md"))
}

/// Writes the pages into `docs/`, and removes generated ones of types that are no longer there.
///
/// # Errors
/// As [`render`], and where a file can't be written.
pub fn write(root: &Path) -> Result<usize, DocsError> {
    let pages = render(root)?;
    let docs = root.join("docs");
    for stray in present(&docs)?
        .into_iter()
        .filter(|path| !pages.contains_key(path))
    {
        let path = docs.join(stray);
        fs::remove_file(&path).map_err(|source| DocsError::Write { path, source })?;
    }
    for (path, text) in &pages {
        let path = docs.join(path);
        let written = path
            .parent()
            .map_or(Ok(()), fs::create_dir_all)
            .and_then(|()| fs::write(&path, text));
        written.map_err(|source| DocsError::Write { path, source })?;
    }
    Ok(pages.len())
}

/// Pages in `docs/` that are not what [`write`] would make of them, each with what is wrong.
///
/// # Errors
/// As [`render`].
pub fn check(root: &Path) -> Result<Vec<String>, DocsError> {
    let pages = render(root)?;
    let docs = root.join("docs");
    let mut wrong = Vec::new();
    for (path, text) in &pages {
        let shown = Path::new("docs").join(path);
        match read(&docs.join(path))? {
            None => wrong.push(format!("{} is missing", shown.display())),
            Some(found) => {
                let line = text
                    .lines()
                    .zip(found.lines())
                    .position(|(fresh, old)| fresh != old);
                if found != *text {
                    let line =
                        line.unwrap_or_else(|| text.lines().count().min(found.lines().count()));
                    wrong.push(format!(
                        "{} differs from line {}",
                        shown.display(),
                        line + 1
                    ));
                }
            }
        }
    }
    for stray in present(&docs)?
        .into_iter()
        .filter(|path| !pages.contains_key(path))
    {
        let shown = Path::new("docs").join(stray);
        wrong.push(format!(
            "{} is of nothing that the provider offers",
            shown.display()
        ));
    }
    Ok(wrong)
}

/// The files in the generated folders, below `docs/`.
fn present(docs: &Path) -> Result<Vec<PathBuf>, DocsError> {
    let mut found = Vec::new();
    for folder in GENERATED {
        found.extend(
            names(&docs.join(folder))?
                .into_iter()
                .map(|name| Path::new(folder).join(name)),
        );
    }
    Ok(found)
}

/// Names of the files in a folder, in order; none where there is no such folder.
fn names(folder: &Path) -> Result<Vec<String>, DocsError> {
    let wrong = |source| DocsError::Read {
        path: folder.to_owned(),
        source,
    };
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(wrong(error)),
    };
    let mut names = Vec::new();
    for entry in entries {
        names.push(
            entry
                .map_err(wrong)?
                .file_name()
                .to_string_lossy()
                .into_owned(),
        );
    }
    names.sort_unstable();
    Ok(names)
}

/// The text of a file; `None` where there is none.
fn read(path: &Path) -> Result<Option<String>, DocsError> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(DocsError::Read {
            path: path.to_owned(),
            source,
        }),
    }
}

/// The guides: file below `docs/`, and the title in its front matter.
fn guides(root: &Path) -> Result<Vec<(String, String)>, DocsError> {
    let folder = root.join("docs/guides");
    let mut guides = Vec::new();
    for name in names(&folder)?
        .into_iter()
        .filter(|name| name.ends_with(".md"))
    {
        let text = read(&folder.join(&name))?.unwrap_or_default();
        let title = text
            .lines()
            .find_map(|line| line.strip_prefix("page_title:"));
        let title = title.unwrap_or(&name).trim().trim_matches('"').to_owned();
        guides.push((format!("guides/{name}"), title));
    }
    Ok(guides)
}

/// The folder `examples/`.
struct Examples(PathBuf);

impl Examples {
    fn read(&self, path: &str) -> Result<Option<String>, DocsError> {
        read(&self.0.join(path))
    }

    fn needed(&self, name: &str, path: &str) -> Result<String, DocsError> {
        self.read(path)?.ok_or_else(|| DocsError::NoExample {
            name: name.to_owned(),
            path: Path::new("examples").join(path),
        })
    }
}
