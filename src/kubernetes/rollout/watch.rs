//! Following a list: LIST, then WATCH, again and again. Survives dropped watches and versions that are too old (410).

use std::time::Duration;

use http_body_util::BodyExt as _;
use kube::core::Request;
use kube::core::params::{ListParams, WatchParams};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use tokio::sync::mpsc;

use super::super::cancel::Cancel;
use super::super::connect::Cluster;
use super::super::error::Error;
use super::super::request::Paged;
use super::wire::{List, Metadata};

/// How long the server keeps one watch open; it ends it by itself then.
const WATCH_SECONDS: u32 = 240;
/// How long a watch may be silent. Bookmarks come once a minute.
const SILENCE: Duration = Duration::from_secs(WATCH_SECONDS as u64 + 30);
/// The pause before a watch that broke is opened again.
const PAUSE: Duration = Duration::from_millis(500);
/// The longest line of a watch: one object; etcd takes none above 1.5 MiB.
const LINE_MOST: usize = 8 << 20;

/// What was seen.
#[derive(Debug)]
pub(super) enum Seen<T> {
    /// The whole list, at the beginning and after a 410.
    All(Vec<T>),
    /// One object is new or changed.
    Put(T),
    /// One object is gone.
    Gone(T),
}

/// A list or watch path with its selectors.
#[derive(Debug, Clone)]
pub(super) struct Selection {
    pub(super) path: String,
    pub(super) labels: Option<String>,
    pub(super) fields: Option<String>,
    pub(super) doing: String,
}

#[derive(Deserialize)]
struct Line<T> {
    #[serde(rename = "type")]
    kind: String,
    object: T,
}

/// The parts of any object, or of a Status, that lead on.
#[derive(Deserialize)]
struct Head {
    #[serde(rename = "type")]
    kind: String,
    object: Mark,
}

#[derive(Deserialize)]
struct Mark {
    #[serde(default)]
    metadata: Metadata,
    #[serde(default)]
    code: u16,
}

/// Why a watch ended.
enum End {
    /// Open it again where it was.
    Again,
    /// List again.
    Relist,
    /// Nobody listens any more.
    Closed,
}

/// Follows a selection until nobody listens, or listing fails for good. An API server that is away is told of and waited for: how
/// long, decides who listens.
pub(super) async fn follow<T: DeserializeOwned>(
    cluster: Cluster,
    selection: Selection,
    seen: mpsc::Sender<Result<Seen<T>, Error>>,
    cancel: Cancel,
) {
    loop {
        let params = ListParams {
            label_selector: selection.labels.clone(),
            field_selector: selection.fields.clone(),
            ..ListParams::default()
        };
        let request = Request::new(&selection.path).list(&params);
        let list: List<T> = match cluster.call(&selection.doing, None, request, &cancel).await {
            Ok(list) => list,
            Err(error) => {
                let passing = error.is_passing();
                // A closed channel means that the wait is over.
                if seen.send(Err(error)).await.is_err() || !passing {
                    return;
                }
                tokio::time::sleep(PAUSE).await;
                continue;
            }
        };
        let mut version = list.metadata.resource_version;
        if seen.send(Ok(Seen::All(list.items))).await.is_err() {
            return;
        }
        loop {
            match watch(&cluster, &selection, &mut version, &seen, &cancel).await {
                Ok(End::Again) => tokio::time::sleep(PAUSE).await,
                Ok(End::Relist) => break,
                Ok(End::Closed) => return,
                Err(error) => {
                    let passing = error.is_passing();
                    if seen.send(Err(error)).await.is_err() || !passing {
                        return;
                    }
                    break;
                }
            }
        }
        tokio::time::sleep(PAUSE).await;
    }
}

async fn watch<T: DeserializeOwned>(
    cluster: &Cluster,
    selection: &Selection,
    version: &mut String,
    seen: &mpsc::Sender<Result<Seen<T>, Error>>,
    cancel: &Cancel,
) -> Result<End, Error> {
    let params = WatchParams {
        label_selector: selection.labels.clone(),
        field_selector: selection.fields.clone(),
        timeout: Some(WATCH_SECONDS),
        ..WatchParams::default()
    };
    let request = Request::new(&selection.path).watch(&params, version);
    let mut body = match cluster
        .open_stream(&selection.doing, request, cancel)
        .await?
    {
        Paged::Answer(body) => body,
        Paged::Expired => return Ok(End::Relist),
    };
    let mut pending: Vec<u8> = Vec::new();
    loop {
        let frame = match tokio::time::timeout(SILENCE, body.frame()).await {
            Ok(Some(Ok(frame))) => frame,
            // Silent, ended or dropped: the version that was reached still holds.
            Err(_) | Ok(None | Some(Err(_))) => return Ok(End::Again),
        };
        let Some(data) = frame.data_ref() else {
            continue;
        };
        pending.extend_from_slice(data);
        while let Some(end) = pending.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = pending.drain(..=end).collect();
            if line.trim_ascii().is_empty() {
                continue;
            }
            let Ok(head) = serde_json::from_slice::<Head>(&line) else {
                return Ok(End::Relist);
            };
            if head.kind == "ERROR" {
                return Ok(if head.object.code == 410 {
                    End::Relist
                } else {
                    End::Again
                });
            }
            if !head.object.metadata.resource_version.is_empty() {
                *version = head.object.metadata.resource_version;
            }
            if head.kind == "BOOKMARK" {
                continue;
            }
            let Ok(line) = serde_json::from_slice::<Line<T>>(&line) else {
                return Ok(End::Relist);
            };
            let what = if line.kind == "DELETED" {
                Seen::Gone(line.object)
            } else {
                Seen::Put(line.object)
            };
            if seen.send(Ok(what)).await.is_err() {
                return Ok(End::Closed);
            }
        }
        if pending.len() > LINE_MOST {
            return Ok(End::Relist);
        }
    }
}
