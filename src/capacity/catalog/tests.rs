//! The tables themselves: well formed, and with a source and a date for each row.

use super::csv::Table;
use super::*;

pub(crate) const LABELS: &str = include_str!("../data/labels.csv");
pub(crate) const INSTANCE_TYPES: &str = include_str!("../data/instance-types.csv");
pub(crate) const CARD_NAMES: &str = include_str!("../data/nvidia-smi-names.csv");
pub(crate) const PRICES: &str = include_str!("../data/prices.csv");
pub(crate) const TAINTS: &str = include_str!("../data/taints.csv");
pub(crate) const FAILURES: &str = include_str!("../data/nvidia-smi-failures.csv");
pub(crate) const KINDS: &str = include_str!("../data/kinds.csv");
pub(crate) const PRICE_FLOORS: &str = include_str!("../data/price-floor-by-kind.csv");
pub(crate) const MIG_PROFILES: &str = include_str!("../data/mig-profiles.csv");

/// The rows of a table as maps, for tests of other rooms: a reader apart from [`Table`], by splitting at quotes.
pub(crate) fn rows(text: &str) -> Vec<BTreeMap<String, String>> {
    fn split(line: &str) -> Vec<String> {
        let mut fields = vec![String::new()];
        for (index, piece) in line.split('"').enumerate() {
            let mut parts = if index % 2 == 1 {
                vec![piece]
            } else {
                piece.split(',').collect()
            }
            .into_iter();
            if let (Some(last), Some(first)) = (fields.last_mut(), parts.next()) {
                last.push_str(first);
            }
            fields.extend(parts.map(ToOwned::to_owned));
        }
        fields
    }
    let mut lines = text.lines();
    let header = split(lines.next().unwrap());
    lines
        .map(|line| header.iter().cloned().zip(split(line)).collect())
        .collect()
}

#[test]
fn every_table_is_read_whole_and_every_row_has_a_source() {
    let tables = [
        (LABELS, 163),
        (INSTANCE_TYPES, 171),
        (CARD_NAMES, 91),
        (PRICES, 170),
        (TAINTS, 36),
        (FAILURES, 13),
        (KINDS, 15),
        (MIG_PROFILES, 30),
    ];
    for (text, count) in tables {
        assert!(text.lines().all(|line| line.matches('"').count() % 2 == 0));
        let table = Table::read(text);
        let fields = text.lines().next().unwrap().split(',').count();
        assert_eq!(table.rows().count(), count);
        for (ours, theirs) in table.rows().zip(rows(text)) {
            assert_eq!(ours.len(), fields, "{theirs:?}");
            for (column, value) in &theirs {
                assert_eq!(&ours.get(column).replace('"', ""), value);
            }
            let sourced = theirs.get("source").is_none_or(|source| !source.is_empty());
            // A price that was not found has no source of its own.
            assert!(
                sourced
                    || theirs
                        .get("usd_per_hour")
                        .is_some_and(|usd| usd == "unknown"),
                "{theirs:?}"
            );
        }
    }
}

#[test]
fn g1_kinds_are_those_of_the_table_in_its_order() {
    for (row, kind) in rows(KINDS).into_iter().zip(Kind::ALL) {
        assert_eq!(row["kind"], kind.id());
        assert_eq!(row["display_name"], kind.display_name());
        assert_eq!(row["vendor"], kind.vendor().id());
        assert_eq!(row["memory_mib_nominal"], kind.memory_mib().to_string());
        assert_eq!(row["schedulable"] == "yes", kind.schedulable());
        assert_eq!(row["mig"] == "yes", kind.can_mig());
        let (least, most) = kind
            .reported_memory_mib()
            .map_or((String::new(), String::new()), |(least, most)| {
                (least.to_string(), most.to_string())
            });
        assert_eq!(
            (
                &row["suggested_match_min_mib"],
                &row["suggested_match_max_mib"]
            ),
            (&least, &most)
        );
    }
}

#[test]
fn every_kind_that_can_mig_has_profiles_and_no_other() {
    for kind in Kind::ALL {
        assert_eq!(
            get().mig_resources(kind).is_empty(),
            !kind.can_mig(),
            "{kind}"
        );
        assert!(
            get()
                .mig_resources(kind)
                .iter()
                .all(|name| name.starts_with("nvidia.com/mig-"))
        );
    }
}

#[test]
fn no_two_label_rows_of_one_key_and_value_disagree() {
    for (key, values) in &get().labels {
        for (value, meanings) in values {
            assert!(
                meanings
                    .iter()
                    .all(|m| m.kinds == meanings[0].kinds && m.whole == meanings[0].whole),
                "{key:?} {value}"
            );
        }
    }
}

/// Text, exit code and what is missing, of the table of failures (whose texts hold quotes).
pub(crate) fn table(text: &str) -> Vec<(String, String, String)> {
    let table = Table::read(text);
    table
        .rows()
        .map(|row| {
            (
                row.get("text").to_owned(),
                row.get("exit_code").to_owned(),
                row.get("what_is_missing").to_owned(),
            )
        })
        .collect()
}
