//! What `nvidia-smi` prints, read. Pure: judging what it means is `capacity::server`'s.

use std::collections::BTreeMap;

use crate::capacity::server::{
    Card, CardUuid, ComputeMode, MigMode, NvidiaSmi, failure, has_no_value,
};

/// Fields of the query, in the order asked for. Older drivers lack some: a query without them is tried then.
pub(crate) const FIELDS: [&str; 8] = [
    "index",
    "uuid",
    "name",
    "memory.total",
    "mig.mode.current",
    "compute_mode",
    "pci.bus_id",
    "driver_version",
];

/// Fields without which there is nothing to read.
const NEEDED: [&str; 3] = ["index", "uuid", "name"];

/// Exit code that stands for a time limit (as timeout(1) has it).
pub(crate) const TIMED_OUT: i32 = 124;

/// The arguments of the query for `fields`.
pub(crate) fn query(fields: &[&str]) -> Vec<String> {
    vec![
        format!("--query-gpu={}", fields.join(",")),
        "--format=csv,noheader,nounits".to_owned(),
    ]
}

/// The fields to ask for after an answer that one of them is unknown; none when asking again makes no sense.
pub(crate) fn fewer<'a>(output: &str, asked: &[&'a str]) -> Option<Vec<&'a str>> {
    let failure::SmiFailure::UnknownField(field) = failure::classify(output, 2) else {
        return None;
    };
    let left: Vec<&str> = asked
        .iter()
        .copied()
        .filter(|name| *name != field)
        .collect();
    (left.len() < asked.len() && NEEDED.iter().all(|name| left.contains(name))).then_some(left)
}

/// Reads an answer to [`query`].
pub(crate) fn parse(output: &str, exit_code: i32, fields: &[&str]) -> NvidiaSmi {
    let mut cards = Vec::new();
    let mut driver_version = String::new();
    let mut complaints = Vec::new();
    for line in output
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty())
    {
        match parse_row(line, fields) {
            Some((card, driver)) => {
                if driver_version.is_empty() && !has_no_value(&driver) {
                    driver_version = driver;
                }
                cards.push(card);
            }
            None => complaints.push(line),
        }
    }
    let listed = cards.iter().any(|card: &Card| card.fault.is_none());
    if !listed && exit_code != 0 || cards.is_empty() && (exit_code != 0 || !complaints.is_empty()) {
        return NvidiaSmi::Failed {
            output: output.trim().to_owned(),
            exit_code,
        };
    }
    for complaint in complaints {
        blame(&mut cards, complaint);
    }
    NvidiaSmi::Answered {
        driver_version,
        cards,
    }
}

/// One row; none when the line is no row (a complaint between them).
fn parse_row(line: &str, fields: &[&str]) -> Option<(Card, String)> {
    let values: Vec<&str> = line.splitn(fields.len(), ',').map(str::trim).collect();
    if values.len() != fields.len() {
        return None;
    }
    let row: BTreeMap<&str, &str> = fields.iter().copied().zip(values).collect();
    let field = |name: &str| row.get(name).copied().unwrap_or_default();
    let index = field("index").parse().ok()?;
    let uuid = field("uuid");
    // A lost card still has a row in some drivers, with an error in place of values.
    let fault = fields
        .iter()
        .map(|name| field(name))
        .find(|value| value.starts_with('[') && (value.contains("lost") || value.contains("Error")))
        .map(|value| value.trim_matches(['[', ']']).to_owned());
    if !uuid.starts_with("GPU-") && fault.is_none() {
        return None;
    }
    let text = |name: &str| {
        if has_no_value(field(name)) {
            String::new()
        } else {
            field(name).to_owned()
        }
    };
    let card = Card {
        // No name of its own, so no container can be given it.
        uuid: CardUuid(if uuid.starts_with("GPU-") {
            uuid.to_owned()
        } else {
            String::new()
        }),
        index,
        name: text("name"),
        memory_mib: field("memory.total")
            .trim_end_matches("MiB")
            .trim()
            .parse()
            .ok(),
        mig: MigMode::parse(field("mig.mode.current")),
        compute_mode: ComputeMode::parse(field("compute_mode")),
        bus_id: text("pci.bus_id"),
        fault,
        outside_processes: 0,
    };
    Some((card, field("driver_version").to_owned()))
}

/// Puts a complaint on the card that it names, if it is listed. One that is not listed shows as lost against the PCI bus.
fn blame(cards: &mut [Card], complaint: &str) {
    let Some(address) = bus_address(complaint) else {
        return;
    };
    for card in cards
        .iter_mut()
        .filter(|card| bus_address(&card.bus_id).as_deref() == Some(&address))
    {
        card.fault = Some(complaint.to_owned());
    }
}

/// `0000:3b:00.0` out of a text, in lower case and without a long domain; `xx` stands in published examples.
fn bus_address(text: &str) -> Option<String> {
    let words = text.split(|c: char| c.is_whitespace() || matches!(c, ',' | '…'));
    words
        .map(|word| {
            word.trim_start_matches("GPU")
                .trim_end_matches(['.', ':'])
                .to_ascii_lowercase()
        })
        .find(|word| word.matches(':').count() == 2 && word.contains('.'))
        .map(|word| {
            let (domain, rest) = word.split_once(':').unwrap_or(("", &word));
            format!("{}:{rest}", domain.trim_start_matches('0'))
        })
}

/// Answer to `--query-compute-apps=gpu_uuid,pid`: card to process ids.
pub(crate) fn parse_processes(output: &str) -> BTreeMap<String, Vec<u32>> {
    let mut processes: BTreeMap<String, Vec<u32>> = BTreeMap::new();
    for line in output.lines() {
        let mut values = line.split(',').map(str::trim);
        if let (Some(uuid), Some(Ok(pid))) = (values.next(), values.next().map(str::parse))
            && uuid.starts_with("GPU-")
        {
            processes.entry(uuid.to_owned()).or_default().push(pid);
        }
    }
    processes
}

#[cfg(test)]
#[path = "nvidia_smi_tests.rs"]
mod tests;
