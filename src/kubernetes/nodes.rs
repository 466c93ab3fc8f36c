//! The node list: one per process, page by page, slim. A cluster of 5,000 nodes answers some 75 MB; what placement can
//! use of it is a few.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use kube::core::Request;
use kube::core::params::ListParams;
use serde::Deserialize;

use super::access;
use super::cancel::Cancel;
use super::connect::Cluster;
use super::error::Error;
use super::request::Paged;
use super::workload::quantity;
use crate::capacity::label;
use crate::capacity::node::{Effect, Node, Taint};
use crate::capacity::set::{SeenNode, marks};

/// Nodes asked for with the first page; its size decides on the others.
const FIRST_PAGE: u32 = 100;
/// Nodes per page at most: what client-go uses.
const MOST_PER_PAGE: u32 = 500;
/// What a page should weigh at most, in bytes: it is held while it is read.
const PAGE_BYTES: usize = 3 << 19;
/// How often a list that expired (410) while it was read starts again.
const RESTARTS: u32 = 5;

#[derive(Deserialize)]
struct Page<'a> {
    #[serde(borrow, default)]
    metadata: ListMeta<'a>,
    #[serde(borrow)]
    items: Vec<Item<'a>>,
}

#[derive(Deserialize, Default)]
struct ListMeta<'a> {
    #[serde(borrow, default, rename = "continue")]
    next: Option<Cow<'a, str>>,
}

/// A node on the wire. Everything is optional: half-made objects are normal input.
#[derive(Deserialize)]
struct Item<'a> {
    #[serde(borrow, default)]
    metadata: Meta<'a>,
    #[serde(borrow, default)]
    spec: Spec<'a>,
    #[serde(borrow, default)]
    status: Status<'a>,
}

#[derive(Deserialize, Default)]
struct Meta<'a> {
    #[serde(borrow, default)]
    name: Cow<'a, str>,
    #[serde(borrow, default)]
    labels: Option<BTreeMap<Cow<'a, str>, Cow<'a, str>>>,
    #[serde(borrow, default)]
    annotations: Option<BTreeMap<Cow<'a, str>, Cow<'a, str>>>,
}

#[derive(Deserialize, Default)]
struct Spec<'a> {
    #[serde(default)]
    unschedulable: bool,
    #[serde(borrow, default)]
    taints: Option<Vec<WireTaint<'a>>>,
}

#[derive(Deserialize)]
struct WireTaint<'a> {
    #[serde(borrow)]
    key: Cow<'a, str>,
    #[serde(borrow, default)]
    value: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    effect: Cow<'a, str>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase")]
struct Status<'a> {
    #[serde(borrow, default)]
    allocatable: Option<BTreeMap<Cow<'a, str>, Cow<'a, str>>>,
    #[serde(borrow, default)]
    capacity: Option<BTreeMap<Cow<'a, str>, Cow<'a, str>>>,
    #[serde(borrow, default)]
    conditions: Option<Vec<Condition<'a>>>,
    #[serde(borrow, default)]
    node_info: Option<Info<'a>>,
}

#[derive(Deserialize)]
struct Condition<'a> {
    #[serde(borrow, rename = "type", default)]
    kind: Cow<'a, str>,
    #[serde(borrow, default)]
    status: Cow<'a, str>,
}

#[derive(Deserialize)]
struct Info<'a> {
    #[serde(borrow, default)]
    architecture: Cow<'a, str>,
}

/// Extended resources only (`nvidia.com/gpu`), which are whole numbers by the API's rules.
fn extended(resources: BTreeMap<Cow<'_, str>, Cow<'_, str>>) -> BTreeMap<String, u64> {
    resources
        .into_iter()
        .filter(|(name, _)| {
            name.contains('/')
                && !name.starts_with("kubernetes.io/")
                && !name.starts_with("attachable-volumes")
        })
        .filter_map(|(name, amount)| Some((name.into_owned(), whole(&amount)?)))
        .collect()
}

/// A whole quantity: digits, or digits with one of the decimal suffixes that the API server writes for large round ones.
fn whole(text: &str) -> Option<u64> {
    let (digits, factor) = match text.strip_suffix(['k', 'M', 'G']) {
        Some(digits) if text.ends_with('k') => (digits, 1_000),
        Some(digits) if text.ends_with('M') => (digits, 1_000_000),
        Some(digits) => (digits, 1_000_000_000),
        None => (text, 1),
    };
    digits.parse::<u64>().ok()?.checked_mul(factor)
}

/// A node with its annotations of capacity sets.
fn convert_seen(mut item: Item<'_>, keep: fn(&str) -> bool) -> SeenNode {
    let annotations = item.metadata.annotations.take().unwrap_or_default();
    SeenNode {
        annotations: annotations
            .into_iter()
            .filter(|(key, _)| key.starts_with(marks::PREFIX))
            .map(|(key, value)| (key.into_owned(), value.into_owned()))
            .collect(),
        node: convert(item, keep),
    }
}

fn convert(item: Item<'_>, keep: fn(&str) -> bool) -> Node {
    let labels = item.metadata.labels.unwrap_or_default();
    let arch = item
        .status
        .node_info
        .map(|info| info.architecture)
        .filter(|arch| !arch.is_empty())
        .or_else(|| labels.get("kubernetes.io/arch").cloned())
        .unwrap_or_default()
        .into_owned();
    let allocatable = item.status.allocatable.unwrap_or_default();
    let amount = |name: &str, read: fn(&str) -> Option<u64>| {
        allocatable.get(name).and_then(|amount| read(amount))
    };
    // Counted first, for no more room than is used: there may be 5,000 nodes with dozens of labels each.
    let others = labels.iter().filter(|(key, _)| !keep(key));
    let mut fingerprints = Vec::with_capacity(others.clone().count());
    fingerprints.extend(others.map(|(key, value)| label::fingerprint(key, value)));
    Node {
        name: item.metadata.name.into_owned(),
        labels: labels
            .into_iter()
            .filter(|(key, _)| keep(key))
            .map(|(key, value)| (key.into_owned(), value.into_owned()))
            .collect(),
        others: fingerprints,
        cpu_millis: amount("cpu", quantity::milli),
        memory_mib: amount("memory", quantity::mebi),
        taints: item
            .spec
            .taints
            .unwrap_or_default()
            .into_iter()
            .map(taint)
            .collect(),
        allocatable: extended(allocatable),
        capacity: extended(item.status.capacity.unwrap_or_default()),
        arch,
        cordoned: item.spec.unschedulable,
        ready: item
            .status
            .conditions
            .unwrap_or_default()
            .iter()
            .any(|condition| condition.kind == "Ready" && condition.status == "True"),
    }
}

fn taint(taint: WireTaint<'_>) -> Taint {
    Taint {
        key: taint.key.into_owned(),
        value: taint.value.unwrap_or_default().into_owned(),
        effect: match &*taint.effect {
            "NoSchedule" => Effect::NoSchedule,
            "PreferNoSchedule" => Effect::PreferNoSchedule,
            "NoExecute" => Effect::NoExecute,
            other => Effect::Other(other.to_owned()),
        },
    }
}

/// How many nodes to ask for next, after a page of `count` nodes that weighed `bytes`.
fn next_limit(count: usize, bytes: usize) -> u32 {
    let each = bytes / count.max(1);
    u32::try_from(PAGE_BYTES / each.max(1))
        .unwrap_or(MOST_PER_PAGE)
        .clamp(25, MOST_PER_PAGE)
}

impl Cluster {
    /// The nodes, by name: one list per process, which all callers share; those that come while it is read wait for it. A
    /// failure is shared by those who waited, and the next caller tries again. Of the labels only those are kept whose key
    /// `keep` admits; the first caller's counts.
    ///
    /// # Errors
    /// [`Error::NodesForbidden`] with the ClusterRole that helps (K1), and what any request can end in.
    pub async fn nodes(
        &self,
        keep: fn(&str) -> bool,
        cancel: &Cancel,
    ) -> Result<Arc<Vec<Node>>, Error> {
        tokio::select! {
            biased;
            () = cancel.canceled() => Err(self.canceled(DOING)),
            answer = self.inner.nodes.get(|| self.list_nodes(keep, cancel)) => answer,
        }
    }

    /// Forgets the node list, so that the next caller reads it again: before an apply that waited long.
    pub async fn forget_nodes(&self) {
        self.inner.nodes.forget().await;
    }

    async fn list_nodes(
        &self,
        keep: fn(&str) -> bool,
        cancel: &Cancel,
    ) -> Result<Vec<Node>, Error> {
        let mut nodes = self
            .pages_of_nodes(|item| convert(item, keep), cancel)
            .await?;
        nodes.sort_by(|a, b| a.name.cmp(&b.name));
        nodes.shrink_to_fit();
        Ok(nodes)
    }

    /// The nodes, by name, read anew, with what they say of capacity sets.
    pub(super) async fn list_seen_nodes(
        &self,
        keep: fn(&str) -> bool,
        cancel: &Cancel,
    ) -> Result<Vec<SeenNode>, Error> {
        let mut nodes = self
            .pages_of_nodes(|item| convert_seen(item, keep), cancel)
            .await?;
        nodes.sort_by(|a, b| a.node.name.cmp(&b.node.name));
        Ok(nodes)
    }

    async fn pages_of_nodes<T>(
        &self,
        convert: impl Fn(Item<'_>) -> T,
        cancel: &Cancel,
    ) -> Result<Vec<T>, Error> {
        let mut nodes: Vec<T> = Vec::new();
        let mut buffer = Vec::with_capacity(64 << 10);
        let mut token: Option<String> = None;
        let mut limit = FIRST_PAGE;
        let mut restarts = 0;
        loop {
            let mut params = ListParams::default().limit(limit);
            params.continue_token = token.take();
            let request = Request::new("/api/v1/nodes").list(&params);
            match self.send_into(DOING, request, &mut buffer, cancel).await {
                Ok(Paged::Answer(())) => {}
                // The version that the list began with is compacted away: the pages so far are of no use.
                Ok(Paged::Expired) if restarts < RESTARTS => {
                    restarts += 1;
                    nodes.clear();
                    // Fewer, larger pages are done sooner.
                    limit = MOST_PER_PAGE;
                    continue;
                }
                Ok(Paged::Expired) => {
                    return Err(Error::Overloaded {
                        cluster: self.inner.name.clone(),
                        doing: DOING.to_owned(),
                        code: 410,
                        tries: restarts,
                        message: "the list expired before its last page".to_owned(),
                    });
                }
                Err(Error::Forbidden {
                    cluster,
                    message,
                    identity,
                    ..
                }) => {
                    return Err(Error::NodesForbidden {
                        cluster,
                        message,
                        fix: access::fix_for_nodes(identity.as_deref()),
                    });
                }
                Err(error) => return Err(error),
            }
            let page: Page<'_> =
                serde_json::from_slice(&buffer).map_err(|error| self.malformed(DOING, error))?;
            if restarts == 0 && !page.items.is_empty() {
                limit = next_limit(page.items.len(), buffer.len());
            }
            nodes.extend(page.items.into_iter().map(&convert));
            token = page
                .metadata
                .next
                .filter(|next| !next.is_empty())
                .map(Cow::into_owned);
            if token.is_none() {
                return Ok(nodes);
            }
        }
    }
}

const DOING: &str = "list nodes";

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(json: &str) -> Node {
        convert(serde_json::from_str(json).unwrap(), |key| {
            key.starts_with("nvidia.com/")
        })
    }

    #[test]
    fn a_node_is_read_as_far_as_placement_cares() {
        let node = parse(
            r#"{"metadata":{"name":"gpu-1","managedFields":[{"x":1}],"labels":{"nvidia.com/gpu.product":"NVIDIA-L4","team":"a","kubernetes.io/arch":"amd64"}},
            "spec":{"unschedulable":true,"taints":[{"key":"nvidia.com/gpu","effect":"NoSchedule"},{"key":"x","value":"a \"quoted\" one","effect":"Sometimes"}]},
            "status":{"allocatable":{"cpu":"8","memory":"32Gi","nvidia.com/gpu":"4","nvidia.com/mig-1g.5gb":"0","example.com/units":"2k"},"capacity":{"nvidia.com/gpu":"8"},
            "conditions":[{"type":"MemoryPressure","status":"False"},{"type":"Ready","status":"True"}]}}"#,
        );
        assert_eq!(
            node.labels,
            [("nvidia.com/gpu.product".to_owned(), "NVIDIA-L4".to_owned())].into()
        );
        assert_eq!(
            node.allocatable,
            [
                ("nvidia.com/gpu".to_owned(), 4),
                ("nvidia.com/mig-1g.5gb".to_owned(), 0),
                ("example.com/units".to_owned(), 2000)
            ]
            .into()
        );
        assert_eq!(node.capacity["nvidia.com/gpu"], 8);
        assert_eq!(
            node.arch, "amd64",
            "the label stands in for a missing nodeInfo, even when it is not kept"
        );
        assert!(node.cordoned && node.ready);
        assert_eq!(
            node.taints[1],
            Taint {
                key: "x".into(),
                value: "a \"quoted\" one".into(),
                effect: Effect::Other("Sometimes".into())
            }
        );
    }

    #[test]
    fn k9_a_half_made_node_is_normal_input() {
        let node = parse(
            r#"{"metadata":{"name":"new","labels":null},"spec":{},"status":{"allocatable":null,"conditions":null}}"#,
        );
        assert_eq!(
            node,
            Node {
                name: "new".into(),
                ..Node::default()
            }
        );
        assert_eq!(parse("{}").name, "");
    }

    #[test]
    fn k9_pages_follow_the_weight_of_a_node() {
        assert_eq!(next_limit(100, 100 * 1_000), MOST_PER_PAGE);
        assert_eq!(next_limit(100, 100 * 20_000), 78);
        assert_eq!(next_limit(100, 100 * 2_000_000), 25);
        assert_eq!(next_limit(0, 10), MOST_PER_PAGE);
    }
}
