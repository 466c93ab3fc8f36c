use std::collections::BTreeMap;

use super::*;
use crate::capacity::catalog::tests::{PRICE_FLOORS, PRICES, rows};
use crate::capacity::gpu::Kind;
use crate::capacity::node::Node;
use rust_decimal::Decimal;

fn usd(text: &str) -> Decimal {
    text.parse().unwrap()
}

fn known(hourly: &str) -> Price {
    Price::stated(Some(usd(hourly))).unwrap()
}

fn machine(labels: &[(&str, &str)], gpus: u64) -> Machine {
    let mut node = Node::default();
    node.labels.extend(
        labels
            .iter()
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned())),
    );
    node.capacity.insert("nvidia.com/gpu".to_owned(), gpus);
    Machine::of_node(&node)
}

fn of_type(name: &str) -> Machine {
    machine(&[("node.kubernetes.io/instance-type", name)], 1)
}

#[test]
fn p3_every_price_row_of_a_machine() {
    let book = PriceBook::default();
    let (mut priced, mut unknown) = (0, 0);
    for row in rows(PRICES) {
        let name = &row["instance_type"];
        let (machine, gpus) = match name.split_once(" + 1x ") {
            Some((machine_type, card)) => {
                let labels = [
                    ("node.kubernetes.io/instance-type", machine_type),
                    ("cloud.google.com/gke-accelerator", card),
                ];
                (machine(&labels, 1), Some(1))
            }
            None if name.starts_with("accelerator ") => continue,
            None => (
                of_type(name),
                row["gpu_count"]
                    .parse::<u64>()
                    .ok()
                    .filter(|gpus| *gpus > 0),
            ),
        };
        assert_eq!(
            machine.cloud.map(Cloud::id),
            Some(row["cloud"].as_str()),
            "{row:?}"
        );
        if let Some(gpus) = gpus {
            assert_eq!(machine.gpus, Some(gpus), "{row:?}");
        }
        let price = book.price(&machine);
        if row["usd_per_hour"] == "unknown" {
            assert_eq!(price, Price::Unknown, "{row:?}");
            assert_eq!(price.render(), "price unknown");
            unknown += 1;
        } else {
            assert_eq!(
                price.hourly().map(Usd::decimal),
                Some(usd(&row["usd_per_hour"]).normalize()),
                "{row:?}"
            );
            let text = price.render();
            assert!(
                text.contains("estimate") && text.contains(&row["as_of"]),
                "{text}"
            );
            assert!(
                row["region"].starts_with("all ") || text.contains(&row["region"]),
                "{text}"
            );
            priced += 1;
        }
    }
    assert_eq!((priced, unknown), (162, 6));
}

#[test]
fn p1_every_price_says_that_it_is_an_estimate_and_unknown_is_never_zero() {
    let live = |hourly: Option<&str>, monthly: Option<&str>| {
        Price::live(Cloud::DigitalOcean, hourly.map(usd), monthly.map(usd))
    };
    assert_eq!(
        live(Some("1.57"), Some("1168.08")).render(),
        "about $1.57 an hour, $1,168 a month (estimate)"
    );
    for unknown in [
        live(None, None),
        live(Some("0"), Some("0")),
        live(Some("0.0"), None),
        live(None, Some("5")),
        live(Some("-1"), None),
    ] {
        assert_eq!(
            (
                unknown.hourly(),
                unknown.monthly(),
                unknown.render().as_str()
            ),
            (None, None, "price unknown")
        );
    }
    // Monthly is the API's own figure, else hourly x 730.
    assert_eq!(
        live(Some("2"), None).monthly().map(Usd::decimal),
        Some(usd("1460"))
    );
    assert_eq!(
        live(Some("2"), Some("0")).monthly().map(Usd::decimal),
        Some(usd("1460"))
    );
    // Small amounts never read as nothing.
    assert_eq!(
        known("0.0004").render(),
        "about $0.0004 an hour, $0.29 a month (estimate)"
    );
    assert_eq!(Usd::new(usd("0.0000001")), None);
    assert_eq!(
        known("12345.675").render(),
        "about $12,345.68 an hour, $9,012,343 a month (estimate)"
    );
    assert_eq!(known("79228162514264337593543950335"), Price::Unknown);
}

#[test]
fn p5_a_stated_zero_is_unknown_and_a_negative_price_is_refused() {
    assert_eq!(Price::stated(Some(usd("0"))), Ok(Price::Unknown));
    assert_eq!(Price::stated(None), Ok(Price::Unknown));
    assert_eq!(
        Price::stated(Some(usd("-0.01"))),
        Err(NegativePrice { usd: usd("-0.01") })
    );
}

#[test]
fn p3_overrides_go_before_live_prices_and_the_table() {
    let book = PriceBook::new([
        ("aws:p5.48xlarge", usd("40")),
        ("aws:g6.xlarge", usd("0")),
        ("aws:made.up", usd("3")),
    ])
    .unwrap();
    assert_eq!(book.price(&of_type("p5.48xlarge")), known("40"));
    assert_eq!(
        book.price(&of_type("g6.xlarge")),
        Price::Unknown,
        "0 says unknown, whatever the table says"
    );
    let made_up = machine(
        &[
            ("node.kubernetes.io/instance-type", "made.up"),
            ("eks.amazonaws.com/nodegroup", "gpu"),
        ],
        4,
    );
    assert_eq!((book.price(&made_up), made_up.gpus), (known("3"), Some(4)));
    let live = PriceBook::default().with_live(
        Cloud::DigitalOcean,
        "gpu-l40sx1-48gb",
        Price::live(Cloud::DigitalOcean, Some(usd("2")), None),
    );
    assert_eq!(
        live.price(&of_type("gpu-l40sx1-48gb"))
            .hourly()
            .map(Usd::decimal),
        Some(usd("2"))
    );
    assert_eq!(
        PriceBook::default().price(&of_type("nonesuch")),
        Price::Unknown
    );
}

#[test]
fn p3_overrides_are_validated() {
    let wrong = |name: &str, price: &str| {
        PriceBook::new([(name, usd(price))])
            .unwrap_err()
            .to_string()
    };
    for name in [
        "p5.48xlarge",
        "amazon:p5.48xlarge",
        "aws:",
        "aws: p5.48xlarge",
        "",
    ] {
        assert!(wrong(name, "1").contains("write CLOUD:TYPE"), "{name}");
    }
    assert!(wrong("aws:p5.48xlarge", "-1").contains("negative"));
    assert!(matches!(
        PriceBook::new([("azure:a", usd("1")), ("azure:A", usd("2"))]),
        Err(BookError::Twice { .. })
    ));
}

#[test]
fn p3_cards_attached_to_a_machine_are_added_up() {
    let n1 = |machine_type: &str, count: &str| {
        let labels = [
            ("node.kubernetes.io/instance-type", machine_type),
            ("cloud.google.com/gke-accelerator", "nvidia-tesla-t4"),
            ("cloud.google.com/gke-accelerator-count", count),
        ];
        let machine = machine(&labels, 1);
        (
            PriceBook::default()
                .price(&machine)
                .hourly()
                .map(Usd::decimal),
            machine.gpus,
        )
    };
    // 0.189999 for the machine and 0.35 for each card.
    assert_eq!(n1("n1-standard-4", "1"), (Some(usd("0.539999")), Some(1)));
    assert_eq!(n1("n1-standard-4", "4"), (Some(usd("1.589999")), Some(4)));
    assert_eq!(
        n1("n1-standard-96", "1"),
        (None, Some(1)),
        "the machine's own price is not known"
    );
}

#[test]
fn p5_the_share_is_count_times_replicas_times_machine_price_over_machine_gpus() {
    let price = known("55.04");
    let share = share(2, 3, [(&price, Some(8))]);
    assert_eq!(share.hourly().map(Usd::decimal), Some(usd("41.28")));
    assert_eq!(share.monthly().map(Usd::decimal), Some(usd("30134.4")));
    assert_eq!(
        share.render(),
        "about $41.28 an hour, $30,134 a month (estimate; a share of the machine's price, not a cost on top of it)"
    );
}

#[test]
fn p5_the_number_is_the_highest_and_the_text_gives_the_range() {
    let book = PriceBook::default();
    let machines = [
        of_type("g6.xlarge"),
        of_type("g6.12xlarge"),
        of_type("g6.48xlarge"),
    ]
    .map(|machine| (book.price(&machine), machine.gpus));
    let share = share(1, 1, machines.iter().map(|(price, gpus)| (price, *gpus)));
    assert_eq!(share.hourly().map(Usd::decimal), Some(usd("1.6688")));
    assert_eq!(
        share.render(),
        "about $0.80 to $1.67 an hour, $588 to $1,218 a month (estimate; depends on the machine that it lands on; \
         AWS list price of us-east-1, 2026-07-20; a share of the machine's price, not a cost on top of it)"
    );
}

#[test]
fn p5_one_unknown_machine_makes_the_share_unknown() {
    let (price, none) = (known("1"), Price::Unknown);
    let part = share(1, 1, [(&price, Some(1)), (&none, Some(1))]);
    assert_eq!((part.hourly(), part.monthly()), (None, None));
    assert!(
        part.render().starts_with("price unknown: some machines"),
        "{}",
        part.render()
    );
    for unknown in [
        share(1, 1, [(&none, Some(1))]),
        share(1, 1, [(&price, None)]),
        share(1, 1, []),
        share(1, 1, [(&price, Some(0))]),
    ] {
        assert_eq!(
            (unknown.hourly(), unknown.render().as_str()),
            (None, "price unknown")
        );
    }
}

#[test]
fn p5_a_service_without_gpus_has_no_share() {
    let none = share(0, 1, [(&known("1"), Some(1))]);
    assert_eq!(
        (none.hourly(), none.monthly(), none.render().as_str()),
        (None, None, "no GPU share")
    );
    // Nor has one that is scaled to zero: it costs nothing now, and an unknown price it is not.
    let off = share(1, 0, [(&known("1"), Some(1))]);
    assert_eq!(
        (off.hourly(), off.render().as_str()),
        (None, "no GPU share")
    );
}

#[test]
fn p4_an_unknown_price_does_not_pass_a_limit() {
    let one = Usd::new(usd("1.5"));
    assert_eq!(check_limit(one, usd("1.5")), Ok(()));
    assert!(matches!(
        check_limit(one, usd("1.49")),
        Err(OverLimit::Above { .. })
    ));
    assert_eq!(
        check_limit(None, usd("1000000")),
        Err(OverLimit::Unknown {
            limit: usd("1000000")
        })
    );
    assert!(
        check_limit(None, usd("1"))
            .unwrap_err()
            .to_string()
            .starts_with("price unknown")
    );
}

fn total(parts: &[(&str, Option<&str>)]) -> PriceTotal {
    let parts: BTreeMap<String, Option<Decimal>> = parts
        .iter()
        .map(|(name, price)| ((*name).to_owned(), price.map(usd)))
        .collect();
    price_total(&parts).unwrap()
}

#[test]
fn p2_a_total_of_known_parts_is_a_number() {
    let total = total(&[("a", Some("1.57")), ("b", Some("4.41"))]);
    assert_eq!(
        (total.hourly, total.at_least, total.unknown.len()),
        (Some(usd("5.98")), Some(usd("5.98")), 0)
    );
    assert_eq!(total.text, "about $5.98 an hour, $4,365 a month (estimate)");
}

#[test]
fn p2_a_total_with_an_unknown_part_is_no_number_and_says_which() {
    let total = total(&[("chat", None), ("b", Some("1.57")), ("free", Some("0"))]);
    assert_eq!((total.hourly, total.at_least), (None, Some(usd("1.57"))));
    assert_eq!(total.unknown, ["chat", "free"]);
    assert_eq!(
        total.text,
        "price unknown for chat, free; at least $1.57 an hour, $1,146 a month (estimate)"
    );
}

#[test]
fn p2_a_total_of_unknown_parts_only_never_says_zero() {
    let total_ = total(&[("chat", None)]);
    assert_eq!(
        (total_.hourly, total_.at_least, total_.text.as_str()),
        (None, None, "price unknown for chat")
    );
    assert_eq!(total(&[]).hourly, Some(Decimal::ZERO));
    let negative = BTreeMap::from([("a".to_owned(), Some(usd("-1")))]);
    assert!(price_total(&negative).is_err());
}

#[test]
fn p3_the_lowest_price_of_each_kind_is_that_worked_out_apart() {
    // The table was computed from the same lists by other code.
    let book = PriceBook::default();
    let mut known = 0;
    for row in rows(PRICE_FLOORS) {
        let lowest = book.lowest(row["kind"].parse().unwrap());
        let found = lowest
            .iter()
            .find(|lowest| lowest.cloud.id() == row["cloud"]);
        match row["lowest_usd_per_gpu_hour"].as_str() {
            "unknown" => assert_eq!(found, None, "{row:?}"),
            figure => {
                assert_eq!(
                    found.map(|lowest| lowest.per_gpu),
                    Usd::new(usd(figure)),
                    "{row:?}"
                );
                known += 1;
            }
        }
    }
    assert!(known >= 20, "{known}");
}

#[test]
fn g1_a_price_of_a_kind_names_machine_region_and_date_and_mi300x_has_one() {
    let book = PriceBook::default();
    let rendered = |book: &PriceBook, kind: Kind| -> Vec<String> {
        book.lowest(kind).iter().map(Lowest::render).collect()
    };
    assert!(
        rendered(&book, Kind::L4).contains(
            &"about $0.80 an hour, $588 a month for one GPU (estimate; AWS list price of us-east-1, 2026-07-20; g6.xlarge)".to_owned()
        ),
        "{:?}",
        rendered(&book, Kind::L4)
    );
    assert_eq!(
        rendered(&book, Kind::Mi300x),
        [
            "about $6.00 an hour, $4,380 a month for one GPU (estimate; Azure list price of eastus2, 2026-06-18; Standard_ND96is_MI300X_v5)",
            "about $2.59 an hour, $1,891 a month for one GPU (estimate; DigitalOcean list price, 2026-10-08; gpu-mi300x1-192gb)",
        ]
    );
    // The user's own figure goes before the list, in the price of a kind too.
    let own = PriceBook::new([("aws:g6.xlarge", usd("0.5"))]).unwrap();
    assert!(rendered(&own, Kind::L4).contains(
        &"about $0.50 an hour, $365 a month for one GPU (estimate; AWS; g6.xlarge)".to_owned()
    ));
}
