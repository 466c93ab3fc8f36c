//! From JSON to a valid [`Snapshot`]. The shapes here take what a file may say; the conversion says, by item, what is wrong with it.

use std::fmt;

use jiff::Timestamp;
use serde::Deserialize;
use serde::de::{self, Deserializer, Visitor};

use super::{
    Claim, Invalid, Item, Mode, Node, Pool, PoolType, Problems, Reason, Replicas, Set, Snapshot,
    State, validate,
};
use crate::capacity::fabric::Fabric;

/// Where a set says nothing (rule N1).
const DEFAULT_NOTICE_SECONDS: u32 = 120;
/// Where a set says nothing (rule A11).
const DEFAULT_MINIMUM_RUNTIME_SECONDS: u32 = 300;

/// Reads a snapshot.
///
/// # Errors
/// Everything that is wrong with it: JSON that can't be read (with line and column), values that can't be used, and what [`validate`] refuses.
pub fn parse(json: &str) -> Result<Snapshot, Invalid> {
    let mut problems = Problems::default();
    let file: File = match serde_json::from_str(json) {
        Ok(file) => file,
        Err(error) => {
            problems.add(
                Item::Snapshot,
                format!("can't be read as JSON in the snapshot format: {error}"),
            );
            return Err(Invalid {
                problems: problems.0,
            });
        }
    };
    let snapshot = file.convert(&mut problems);
    let snapshot = problems.into_result(snapshot)?;
    validate(&snapshot)?;
    Ok(snapshot)
}

#[derive(Deserialize)]
struct File {
    now: String,
    set: FileSet,
    #[serde(default)]
    pools: Vec<FilePool>,
    #[serde(default)]
    nodes: Vec<FileNode>,
    #[serde(default)]
    claims: Vec<FileClaim>,
}

#[derive(Deserialize)]
struct FileSet {
    name: String,
    gpu_kind: String,
    fabric: Fabric,
    /// A set starts in dry-run (rule A9).
    #[serde(default)]
    mode: Option<Mode>,
    #[serde(default)]
    notice_seconds: Option<Number>,
    #[serde(default)]
    minimum_runtime_seconds: Option<Number>,
}

#[derive(Deserialize)]
struct FilePool {
    name: String,
    #[serde(rename = "type")]
    kind: PoolType,
    rank: Number,
    #[serde(default)]
    floor: Option<Number>,
    #[serde(default)]
    ceiling: Option<Number>,
    #[serde(default)]
    replicas: Option<FileReplicas>,
    #[serde(default)]
    gpus_per_replica: Option<Number>,
    #[serde(default)]
    notice_seconds: Option<Number>,
}

#[derive(Deserialize)]
struct FileReplicas {
    min: Number,
    max: Number,
    #[serde(default)]
    wanted: Option<Number>,
}

#[derive(Deserialize)]
struct FileNode {
    name: String,
    gpus: Number,
    ready: bool,
    #[serde(default)]
    cordoned: bool,
    #[serde(default)]
    draining: bool,
    #[serde(default)]
    blocks: Option<Vec<Vec<Number>>>,
    /// Optional: a node that says its kind must be of the set's (rule A1).
    #[serde(default)]
    gpu_kind: Option<String>,
    /// Optional, like `gpu_kind`.
    #[serde(default)]
    fabric: Option<String>,
}

#[derive(Deserialize)]
struct FileClaim {
    name: String,
    pool: String,
    gpus: Number,
    state: State,
    #[serde(default)]
    node: Option<String>,
    #[serde(default)]
    cards: Option<Vec<Number>>,
    #[serde(default)]
    requested_at: Option<String>,
    #[serde(default)]
    started_at: Option<String>,
    #[serde(default)]
    deadline: Option<String>,
    #[serde(default)]
    reason: Option<Reason>,
    #[serde(default, rename = "for")]
    purpose: Option<String>,
}

/// A JSON number, before anyone has asked whether it is a count.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Number {
    Count(u64),
    Negative,
    Fraction(f64),
}

impl<'de> Deserialize<'de> for Number {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Any;
        impl Visitor<'_> for Any {
            type Value = Number;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a whole number")
            }
            fn visit_u64<E: de::Error>(self, value: u64) -> Result<Number, E> {
                Ok(Number::Count(value))
            }
            fn visit_i64<E: de::Error>(self, value: i64) -> Result<Number, E> {
                Ok(u64::try_from(value).map_or(Number::Negative, Number::Count))
            }
            fn visit_f64<E: de::Error>(self, value: f64) -> Result<Number, E> {
                Ok(if value < 0.0 {
                    Number::Negative
                } else {
                    Number::Fraction(value)
                })
            }
        }
        deserializer.deserialize_any(Any)
    }
}

impl Number {
    /// The count, or a problem and 0.
    fn count(self, item: &Item, field: &str, problems: &mut Problems) -> u32 {
        let found = match self {
            Self::Count(value) => match u32::try_from(value) {
                Ok(count) => return count,
                Err(_) => format!("{field} is {value}, more than {} can't be meant", u32::MAX),
            },
            Self::Negative => format!("{field} is negative; give a whole number from 0"),
            Self::Fraction(value) => format!("{field} is {value}; give a whole number from 0"),
        };
        problems.add(item.clone(), found);
        0
    }
}

fn time(text: &str, item: &Item, field: &str, problems: &mut Problems) -> Timestamp {
    text.parse().unwrap_or_else(|error| {
        problems.add(
            item.clone(),
            format!("{field} {text:?} is no RFC 3339 time such as 2026-11-30T12:00:00Z: {error}"),
        );
        Timestamp::UNIX_EPOCH
    })
}

fn optional_time(
    text: Option<&str>,
    item: &Item,
    field: &str,
    problems: &mut Problems,
) -> Option<Timestamp> {
    text.map(|text| time(text, item, field, problems))
}

impl File {
    fn convert(self, problems: &mut Problems) -> Snapshot {
        let now = time(&self.now, &Item::Snapshot, "now", problems);
        let set = self.set.convert(problems);
        Snapshot {
            now,
            pools: self
                .pools
                .into_iter()
                .map(|pool| pool.convert(problems))
                .collect(),
            nodes: self
                .nodes
                .into_iter()
                .map(|node| node.convert(&set, problems))
                .collect(),
            claims: self
                .claims
                .into_iter()
                .map(|claim| claim.convert(problems))
                .collect(),
            set,
        }
    }
}

impl FileSet {
    fn convert(self, problems: &mut Problems) -> Set {
        let mut seconds = |number: Option<Number>, field, default| {
            number.map_or(default, |number| number.count(&Item::Set, field, problems))
        };
        Set {
            notice_seconds: seconds(
                self.notice_seconds,
                "notice_seconds",
                DEFAULT_NOTICE_SECONDS,
            ),
            minimum_runtime_seconds: seconds(
                self.minimum_runtime_seconds,
                "minimum_runtime_seconds",
                DEFAULT_MINIMUM_RUNTIME_SECONDS,
            ),
            name: self.name,
            gpu_kind: self.gpu_kind,
            fabric: self.fabric,
            mode: self.mode.unwrap_or(Mode::DryRun),
        }
    }
}

impl FilePool {
    fn convert(self, problems: &mut Problems) -> Pool {
        let item = Item::Pool(self.name.clone());
        let mut count = |number: Option<Number>, field| {
            number.map(|number| number.count(&item, field, problems))
        };
        Pool {
            kind: self.kind,
            rank: count(Some(self.rank), "rank").unwrap_or(0),
            floor: count(self.floor, "floor").unwrap_or(0),
            ceiling: count(self.ceiling, "ceiling"),
            replicas: self.replicas.map(|range| Replicas {
                min: count(Some(range.min), "replicas.min").unwrap_or(0),
                max: count(Some(range.max), "replicas.max").unwrap_or(0),
                wanted: count(range.wanted, "replicas.wanted"),
            }),
            gpus_per_replica: count(self.gpus_per_replica, "gpus_per_replica"),
            notice_seconds: count(self.notice_seconds, "notice_seconds"),
            name: self.name,
        }
    }
}

impl FileNode {
    fn convert(self, set: &Set, problems: &mut Problems) -> Node {
        let item = Item::Node(self.name.clone());
        if let Some(kind) = self.gpu_kind.filter(|kind| *kind != set.gpu_kind) {
            problems.add(
                item.clone(),
                format!(
                    "has {kind} GPUs, but the set is of {}; leave it out",
                    set.gpu_kind
                ),
            );
        }
        if let Some(fabric) = self
            .fabric
            .filter(|fabric| *fabric != set.fabric.to_string())
        {
            problems.add(
                item.clone(),
                format!(
                    "has fabric {fabric}, but the set's is {}; leave it out",
                    set.fabric
                ),
            );
        }
        let gpus = self.gpus.count(&item, "gpus", problems);
        let mut cards = |list: Vec<Number>| -> Vec<u32> {
            list.into_iter()
                .map(|card| card.count(&item, "a card number in blocks", problems))
                .collect()
        };
        Node {
            blocks: self
                .blocks
                .map(|list| list.into_iter().map(&mut cards).collect()),
            name: self.name,
            gpus,
            ready: self.ready,
            cordoned: self.cordoned,
            draining: self.draining,
        }
    }
}

impl FileClaim {
    fn convert(self, problems: &mut Problems) -> Claim {
        let item = Item::Claim(self.name.clone());
        let item = &item;
        Claim {
            gpus: self.gpus.count(item, "gpus", problems),
            cards: self
                .cards
                .unwrap_or_default()
                .into_iter()
                .map(|card| card.count(item, "a card number", problems))
                .collect(),
            requested_at: optional_time(
                self.requested_at.as_deref(),
                item,
                "requested_at",
                problems,
            ),
            started_at: optional_time(self.started_at.as_deref(), item, "started_at", problems),
            deadline: optional_time(self.deadline.as_deref(), item, "deadline", problems),
            name: self.name,
            pool: self.pool,
            state: self.state,
            node: self.node,
            reason: self.reason,
            purpose: self.purpose,
        }
    }
}
