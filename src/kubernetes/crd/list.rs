//! Lists of any kind, page by page. A kind that the cluster does not have has none.

use kube::core::Request;
use kube::core::params::ListParams;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::super::cancel::Cancel;
use super::super::connect::Cluster;
use super::super::error::Error;
use super::super::request::Paged;

/// What client-go asks for.
const PER_PAGE: u32 = 500;
/// How often a list that expired (410) while it was read starts again.
const RESTARTS: u32 = 5;

#[derive(Deserialize)]
struct Page<T> {
    #[serde(default)]
    metadata: PageMeta,
    // Null stands for none in some API servers' answers.
    items: Option<Vec<T>>,
}

#[derive(Deserialize, Default)]
struct PageMeta {
    #[serde(default, rename = "continue")]
    next: Option<String>,
}

impl Cluster {
    /// Every object at `path` that the parameters select.
    ///
    /// # Errors
    /// What any request can end in.
    pub(super) async fn list_all<T: DeserializeOwned>(
        &self,
        doing: &str,
        path: &str,
        params: &ListParams,
        cancel: &Cancel,
    ) -> Result<Vec<T>, Error> {
        let mut items = Vec::new();
        let mut buffer = Vec::new();
        let mut token: Option<String> = None;
        let mut restarts = 0;
        loop {
            let mut params = params.clone().limit(PER_PAGE);
            params.continue_token = token.take();
            match self
                .send_into(doing, Request::new(path).list(&params), &mut buffer, cancel)
                .await
            {
                Ok(Paged::Answer(())) => {}
                Ok(Paged::Expired) if restarts < RESTARTS => {
                    restarts += 1;
                    items.clear();
                    continue;
                }
                Ok(Paged::Expired) => {
                    return Err(Error::Overloaded {
                        cluster: self.inner.name.clone(),
                        doing: doing.to_owned(),
                        code: 410,
                        tries: restarts,
                        message: "the list expired before its last page".to_owned(),
                    });
                }
                Err(error) if error.is_not_found() => return Ok(Vec::new()),
                Err(error) => return Err(error),
            }
            let page: Page<T> =
                serde_json::from_slice(&buffer).map_err(|error| self.malformed(doing, error))?;
            items.extend(page.items.unwrap_or_default());
            token = page.metadata.next.filter(|next| !next.is_empty());
            if token.is_none() {
                return Ok(items);
            }
        }
    }
}
