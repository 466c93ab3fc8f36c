//! A provider of text files in one folder: what Terraform writes there, other programs read.
use std::{fs, io::ErrorKind, path::PathBuf, process::ExitCode};
use tf_provider_sdk::prelude::*;

fn main() -> ExitCode {
    serve::provider("registry.terraform.io/loomplane/shelf", Shelf)
}

/// Text files in one folder.
#[derive(Serialize, Deserialize, JsonSchema)]
struct Config {
    /// The folder. It must exist.
    folder: PathBuf,
}

type Cx<'a> = Context<'a, PathBuf>;
struct Shelf;
impl Provider for Shelf {
    type Config = Config;
    type Client = PathBuf;
    async fn configure(&self, config: Config) -> Result<Configured<PathBuf>, Diagnostics> {
        Ok(config.folder.into())
    }
    fn offers(&self) -> Offers<PathBuf> {
        let offers = Offers::new().resource::<File>();
        offers.data_source::<Files>().function::<FileName>()
    }
}

/// A text file on the shelf.
#[derive(Clone, Serialize, Deserialize, JsonSchema)]
struct File {
    /// Its name. Another name makes another file.
    #[schemars(regex(pattern = "^[a-z0-9][a-z0-9._-]*$"))]
    name: Replace<String>,
    /// What it says.
    content: String,
}

impl Resource for File {
    const TYPE: &'static str = "shelf_file";
    type Client = PathBuf;
    async fn create(change: Change<Self>, cx: &Cx<'_>) -> Result<Self, Failed<Self>> {
        let File { name, content } = &change.planned;
        fs::write(cx.client.join(&**name), content).explain("Can't write the file")?;
        Ok(change.planned)
    }
    async fn read(mut self, cx: &Cx<'_>) -> Result<Option<Self>, Diagnostics> {
        match fs::read_to_string(cx.client.join(&*self.name)) {
            Err(why) if why.kind() == ErrorKind::NotFound => return Ok(None),
            content => self.content = content.explain("Can't read the file")?,
        }
        Ok(Some(self))
    }
    async fn update(change: Change<Self>, cx: &Cx<'_>) -> Result<Self, Failed<Self>> {
        Self::create(change, cx).await
    }
    async fn delete(self, cx: &Cx<'_>) -> Result<(), Diagnostics> {
        match fs::remove_file(cx.client.join(&*self.name)) {
            Err(why) if why.kind() == ErrorKind::NotFound => Ok(()),
            done => Ok(done.explain("Can't delete the file")?),
        }
    }
    async fn import(id: ImportId, _: &Cx<'_>) -> Result<Self, Diagnostics> {
        let (name, content) = (Replace(id.into_id()?), String::new());
        Ok(File { name, content })
    }
}

/// The files on the shelf.
#[derive(Serialize, Deserialize, JsonSchema)]
struct Files {
    /// Their names.
    names: Computed<SetOf<PathBuf>>,
}

impl DataSource for Files {
    const TYPE: &'static str = "shelf_files";
    type Client = PathBuf;
    async fn read(self, cx: &Cx<'_>) -> Result<Self, Diagnostics> {
        let files = fs::read_dir(cx.client).explain("Can't list it")?.flatten();
        let names = files.map(|file| file.file_name().into()).collect();
        Ok(Files { names })
    }
}

struct FileName;
impl Function for FileName {
    const NAME: &'static str = "file_name";
    const SUMMARY: &'static str = "A name for a file, made from a title";
    type Output = String;
    fn parameters() -> Vec<Parameter> {
        vec![Parameter::of::<String>("title", "What the file is about.")]
    }
    fn call(arguments: Arguments) -> Result<String, FunctionError> {
        let title: String = arguments.get(0)?;
        Ok(title.to_lowercase().replace(' ', "-") + ".txt")
    }
}
