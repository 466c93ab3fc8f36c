//! What Loomplane knows of the world's GPU labels, machines, card names and list prices.
//!
//! The facts are the tables in `data/`, each row with its source and date. They are read once, when first needed: a
//! plug-in process that Terraform starts only to ask for a schema never pays for them.

use std::collections::BTreeMap;
use std::str::FromStr;
use std::sync::LazyLock;

use rust_decimal::Decimal;

use super::gpu::Kind;
use super::label::KindKey;

mod csv;
#[cfg(test)]
pub(crate) mod tests;

use csv::Table;

/// The catalogue.
#[must_use]
pub fn get() -> &'static Catalog {
    static CATALOG: LazyLock<Catalog> = LazyLock::new(Catalog::read);
    &CATALOG
}

/// A cloud whose machines the catalogue knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Cloud {
    /// Amazon Web Services (EKS).
    Aws,
    /// Microsoft Azure (AKS).
    Azure,
    /// Google Cloud (GKE).
    Gcp,
    /// DigitalOcean (DOKS, Droplets).
    DigitalOcean,
}

impl Cloud {
    /// Every cloud.
    pub const ALL: [Self; 4] = [Self::Aws, Self::Azure, Self::Gcp, Self::DigitalOcean];

    /// How `prices` and the reference table write it: `aws`, `azure`, `gcp`, `digitalocean`.
    #[must_use]
    pub fn id(self) -> &'static str {
        match self {
            Self::Aws => "aws",
            Self::Azure => "azure",
            Self::Gcp => "gcp",
            Self::DigitalOcean => "digitalocean",
        }
    }

    /// The name for people.
    #[must_use]
    pub fn display_name(self) -> &'static str {
        match self {
            Self::Aws => "AWS",
            Self::Azure => "Azure",
            Self::Gcp => "Google Cloud",
            Self::DigitalOcean => "DigitalOcean",
        }
    }

    /// Reads an ID.
    #[must_use]
    pub fn from_id(id: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|cloud| cloud.id() == id)
    }
}

/// What a label value stands for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LabelMeaning {
    /// The value as it is written on nodes (Kubernetes compares it exactly).
    pub value: String,
    /// The kinds it may mean: none for a GPU that is none of ours, several where only the instance type settles it.
    pub kinds: Vec<Kind>,
    /// Whether a node with it hands out whole devices.
    pub whole: bool,
}

/// A machine that a cloud rents.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InstanceType {
    /// Whose.
    pub cloud: Cloud,
    /// Its name, such as `g6.xlarge`.
    pub name: String,
    /// The kind of its GPUs; none for a GPU that is none of ours.
    pub kind: Option<Kind>,
    /// Whole GPUs in it; none when not known. 0 for a slice of a card.
    pub gpus: Option<u32>,
    /// `amd64` or `arm64`.
    pub arch: String,
    /// Whether its GPUs are whole devices.
    pub whole: bool,
}

/// A card name that `nvidia-smi` prints.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CardName {
    /// The name as printed.
    pub name: String,
    /// The kind; none for a card that is none of ours.
    pub kind: Option<Kind>,
    /// False for a vGPU profile: a slice, or a whole card behind a vGPU.
    pub whole: bool,
}

/// An on-demand list price, in one region, on one day.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListPrice {
    /// US dollars an hour for the whole machine; none when not known.
    pub usd_per_hour: Option<Decimal>,
    /// The region of the figure; none where the cloud has one price everywhere.
    pub region: Option<String>,
    /// The day of the figure, as its source gives it.
    pub as_of: String,
}

/// The tables, ready to be asked.
#[derive(Debug)]
pub struct Catalog {
    labels: BTreeMap<KindKey, BTreeMap<String, Vec<LabelMeaning>>>,
    instance_types: BTreeMap<String, InstanceType>,
    card_names: BTreeMap<String, CardName>,
    prices: BTreeMap<(Cloud, String), ListPrice>,
    mig_resources: BTreeMap<Kind, Vec<String>>,
}

impl Catalog {
    fn read() -> Self {
        Self {
            labels: labels(),
            instance_types: instance_types(),
            card_names: card_names(),
            prices: prices(),
            mig_resources: mig_resources(),
        }
    }

    /// What a value of a label that names kinds stands for, compared whole and without regard to case.
    #[must_use]
    pub fn label(&self, key: KindKey, value: &str) -> Option<&LabelMeaning> {
        self.labels
            .get(&key)?
            .get(&value.to_ascii_lowercase())?
            .first()
    }

    /// The values of a label that mean whole cards of `kind`, with all their known spellings; with them, whether the
    /// value alone says so (else the instance type has to settle it).
    #[must_use]
    pub fn whole_values(&self, key: KindKey, kind: Kind) -> Vec<(&str, bool)> {
        let mut values: Vec<(&str, bool)> = self
            .labels
            .get(&key)
            .into_iter()
            .flat_map(BTreeMap::values)
            .flatten()
            .filter(|meaning| meaning.whole && meaning.kinds.contains(&kind))
            .map(|meaning| (meaning.value.as_str(), meaning.kinds.len() == 1))
            .collect();
        values.sort_unstable();
        values
    }

    /// The values of a label that mean slices of a card of `kind`, as far as they are listed.
    pub fn sliced_values(&self, key: KindKey, kind: Kind) -> impl Iterator<Item = &str> {
        self.labels
            .get(&key)
            .into_iter()
            .flat_map(BTreeMap::values)
            .flatten()
            .filter(move |meaning| !meaning.whole && meaning.kinds.contains(&kind))
            .map(|meaning| meaning.value.as_str())
    }

    /// A machine by the name of its type, compared whole and without regard to case.
    #[must_use]
    pub fn instance_type(&self, name: &str) -> Option<&InstanceType> {
        self.instance_types.get(&name.to_ascii_lowercase())
    }

    /// Every machine that the catalogue knows.
    pub fn instance_types(&self) -> impl Iterator<Item = &InstanceType> {
        self.instance_types.values()
    }

    /// A card by the name that `nvidia-smi` prints, compared whole and without regard to case.
    #[must_use]
    pub fn card_name(&self, name: &str) -> Option<&CardName> {
        self.card_names.get(&name.trim().to_ascii_lowercase())
    }

    /// A list price. The name is that of an instance type, or of a price row (`n1-standard-4 + 1x nvidia-tesla-t4`).
    #[must_use]
    pub fn list_price(&self, cloud: Cloud, name: &str) -> Option<&ListPrice> {
        self.prices.get(&(cloud, name.to_ascii_lowercase()))
    }

    /// Machines that are priced with one card of a kind attached: cloud, machine and accelerator.
    pub fn attached_machines(&self, kind: Kind) -> impl Iterator<Item = (Cloud, &str, &str)> {
        self.prices.keys().filter_map(move |(cloud, name)| {
            let (machine, accelerator) = name.split_once(" + 1x ")?;
            let meaning = self.label(KindKey::GkeAccelerator, accelerator)?;
            (meaning.kinds == [kind]).then_some((*cloud, machine, accelerator))
        })
    }

    /// The resources that a node with mixed MIG slices of this kind advertises, such as `nvidia.com/mig-1g.5gb`.
    #[must_use]
    pub fn mig_resources(&self, kind: Kind) -> &[String] {
        self.mig_resources.get(&kind).map_or(&[], Vec::as_slice)
    }

    /// The kinds that a label value (any key) or card name can mean, for a lower-case text. None: not known at all.
    #[must_use]
    pub fn kinds_of_name(&self, lower: &str) -> Option<Vec<Kind>> {
        if let Some(card) = self.card_names.get(lower) {
            return Some(card.kind.into_iter().collect());
        }
        let meanings: Vec<&LabelMeaning> = self
            .labels
            .values()
            .filter_map(|values| values.get(lower))
            .flatten()
            .collect();
        let known = !meanings.is_empty();
        // What one label uses for another GPU is no kind, whatever a second label means by it: `nvidia-h100` is
        // plausible on EKS, and feature discovery calls a card with 94 GB so.
        if meanings.iter().any(|meaning| meaning.kinds.is_empty()) {
            return Some(Vec::new());
        }
        let mut kinds: Vec<Kind> = meanings
            .iter()
            .flat_map(|meaning| &meaning.kinds)
            .copied()
            .collect();
        kinds.sort_unstable();
        kinds.dedup();
        known.then_some(kinds)
    }

    /// Every text that stands for a kind, for near misses.
    pub fn names_of_kind(&self, kind: Kind) -> impl Iterator<Item = &str> {
        let labels = self
            .labels
            .values()
            .flat_map(BTreeMap::values)
            .flatten()
            .filter(move |meaning| meaning.kinds.contains(&kind))
            .map(|meaning| meaning.value.as_str());
        let cards = self
            .card_names
            .values()
            .filter(move |card| card.kind == Some(kind))
            .map(|card| card.name.as_str());
        labels.chain(cards)
    }
}

/// `nvidia-l4`, `ambiguous:nvidia-v100-16gb|nvidia-v100-32gb`, or anything else for "none of ours".
fn kinds(text: &str) -> Vec<Kind> {
    text.trim_start_matches("ambiguous:")
        .split('|')
        .filter_map(Kind::from_str_quiet)
        .collect()
}

impl Kind {
    /// Like `from_str`, for tables: an unknown ID is an answer there, and needs no near misses (which need the tables).
    pub(super) fn from_str_quiet(id: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.id() == id)
    }
}

fn labels() -> BTreeMap<KindKey, BTreeMap<String, Vec<LabelMeaning>>> {
    let mut all: BTreeMap<KindKey, BTreeMap<String, Vec<LabelMeaning>>> = BTreeMap::new();
    let table = Table::read(include_str!("data/labels.csv"));
    for row in table.rows() {
        let Some(key) = KindKey::from_label(row.get("label_key")) else {
            continue;
        };
        // A row that holds only beside another label repeats a value to say that the device is then not whole: that
        // rule is `label::sharing`'s, for every value.
        if !row.get("only_with_label").is_empty() {
            continue;
        }
        let value = row.get("label_value");
        all.entry(key)
            .or_default()
            .entry(value.to_ascii_lowercase())
            .or_default()
            .push(LabelMeaning {
                value: value.to_owned(),
                kinds: kinds(row.get("kind")),
                whole: row.get("whole_device") == "yes",
            });
    }
    all
}

fn instance_types() -> BTreeMap<String, InstanceType> {
    let table = Table::read(include_str!("data/instance-types.csv"));
    table
        .rows()
        // A machine to which GPUs are attached separately says nothing of GPUs by its type.
        .filter(|row| !row.get("kind").starts_with('('))
        .filter_map(|row| {
            let name = row.get("instance_type");
            Some((
                name.to_ascii_lowercase(),
                InstanceType {
                    cloud: Cloud::from_id(row.get("cloud"))?,
                    name: name.to_owned(),
                    kind: Kind::from_str_quiet(row.get("kind")),
                    gpus: row.get("gpu_count").parse().ok(),
                    arch: row.get("arch").to_owned(),
                    whole: row.get("whole_devices") == "yes",
                },
            ))
        })
        .collect()
}

fn card_names() -> BTreeMap<String, CardName> {
    let table = Table::read(include_str!("data/nvidia-smi-names.csv"));
    table
        .rows()
        .map(|row| {
            let name = row.get("name");
            (
                name.to_ascii_lowercase(),
                CardName {
                    name: name.to_owned(),
                    kind: Kind::from_str_quiet(row.get("kind")),
                    whole: row.get("whole_device") == "yes",
                },
            )
        })
        .collect()
}

fn prices() -> BTreeMap<(Cloud, String), ListPrice> {
    let table = Table::read(include_str!("data/prices.csv"));
    table
        .rows()
        .filter_map(|row| {
            let region = row.get("region");
            Some((
                (
                    Cloud::from_id(row.get("cloud"))?,
                    row.get("instance_type").to_ascii_lowercase(),
                ),
                ListPrice {
                    usd_per_hour: Decimal::from_str(row.get("usd_per_hour"))
                        .ok()
                        .filter(|usd| *usd > Decimal::ZERO),
                    region: (!region.starts_with("all ")).then(|| region.to_owned()),
                    as_of: row.get("as_of").to_owned(),
                },
            ))
        })
        .collect()
}

fn mig_resources() -> BTreeMap<Kind, Vec<String>> {
    let mut all: BTreeMap<Kind, Vec<String>> = BTreeMap::new();
    let table = Table::read(include_str!("data/mig-profiles.csv"));
    for row in table.rows() {
        if let Some(kind) = Kind::from_str_quiet(row.get("kind")) {
            all.entry(kind)
                .or_default()
                .push(row.get("mixed_strategy_resource").to_owned());
        }
    }
    all
}
