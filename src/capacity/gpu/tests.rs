use super::*;
use crate::capacity::catalog::tests::{CARD_NAMES, LABELS, rows};
use proptest::prelude::*;

#[test]
fn g1_the_fifteen_ids_are_those_of_the_source_document() {
    let ids = "nvidia-t4 nvidia-l4 nvidia-a10 nvidia-a10g nvidia-l40s nvidia-rtx-4000-ada nvidia-rtx-6000-ada \
               nvidia-v100-16gb nvidia-v100-32gb nvidia-a100-40gb nvidia-a100-80gb nvidia-h100-80gb \
               nvidia-h100-nvl-94gb nvidia-h200-141gb amd-mi300x";
    assert_eq!(
        Kind::ALL.map(Kind::id).join(" "),
        ids.split_whitespace().collect::<Vec<_>>().join(" ")
    );
    for kind in Kind::ALL {
        assert_eq!(kind.id().parse(), Ok(kind));
    }
}

#[test]
fn g1_an_unknown_id_is_refused_with_the_nearest() {
    let nearest = |text: &str| text.parse::<Kind>().unwrap_err().nearest;
    assert_eq!(nearest("nvidia-h100"), [Kind::H100_80gb, Kind::H100Nvl94gb]);
    assert_eq!(nearest("nvidia-a100"), [Kind::A100_40gb, Kind::A100_80gb]);
    assert_eq!(nearest("nvidia-t40")[0], Kind::T4);
    assert_eq!(nearest("l40s"), [Kind::L40s]);
    assert_eq!(nearest("nvidia-rtx4000-ada")[0], Kind::Rtx4000Ada);
    assert_eq!(nearest("NVIDIA-L4")[0], Kind::L4);
    assert_eq!(nearest("mi300x"), [Kind::Mi300x]);
    assert_eq!(nearest("").len(), 3);
    assert_eq!(nearest(&"é".repeat(10_000)).len(), 3);
    assert_eq!(
        "nvidia-h100".parse::<Kind>().unwrap_err().to_string(),
        "\"nvidia-h100\" is not a GPU kind that Loomplane knows. Nearest known: nvidia-h100-80gb, nvidia-h100-nvl-94gb. \
         data.loomplane_gpu_kinds lists all of them."
    );
}

#[test]
fn g2_count_is_one_to_eight() {
    for count in [i64::MIN, -1, 0, 9, 256, 257, i64::MAX] {
        assert_eq!(
            GpuRequest::parse("nvidia-l4", count),
            Err(RequestError::Count { count })
        );
    }
    for count in 1..=8 {
        let request = GpuRequest::parse("nvidia-l4", count).unwrap();
        assert_eq!(i64::from(request.count.get()), count);
    }
    assert_eq!(
        GpuRequest::parse("nvidia-h100-80gb", 2)
            .unwrap()
            .to_string(),
        "2 x nvidia-h100-80gb"
    );
}

#[test]
fn g2_only_nvidia_kinds_can_be_asked_for() {
    for kind in Kind::ALL {
        assert_eq!(
            GpuRequest::parse(kind.id(), 1).is_ok(),
            kind.id().starts_with("nvidia-"),
            "{kind}"
        );
    }
    let refusal = GpuRequest::parse("amd-mi300x", 1).unwrap_err().to_string();
    assert!(refusal.contains("can't schedule it yet"), "{refusal}");
}

#[test]
fn gpu_kind_reads_every_known_label_value() {
    let mut read = 0;
    for row in rows(LABELS).iter().filter(|row| row["precedence"] != "aux") {
        let answer = kind_of_text(&row["label_value"]);
        match row["kind"].as_str() {
            "unknown" => assert!(
                matches!(answer, Err(KindTextError::OtherGpu { .. })),
                "{row:?} {answer:?}"
            ),
            // Feature discovery calls a card with 94 GB NVIDIA-H100.
            _ if row["label_value"] == "nvidia-h100" => {
                assert!(
                    matches!(answer, Err(KindTextError::OtherGpu { .. })),
                    "{answer:?}"
                );
            }
            // GKE means one of the two by it; a text alone does not say whose label it is.
            kind if kind.starts_with("ambiguous")
                || row["label_value"] == "nvidia-tesla-v100"
                || row["label_value"] == "nvidia-tesla-a100" =>
            {
                assert!(
                    matches!(&answer, Err(KindTextError::Ambiguous { kinds, .. }) if kinds.len() == 2),
                    "{answer:?}"
                );
            }
            kind => assert_eq!(answer.map(Kind::id), Ok(kind), "{row:?}"),
        }
        read += 1;
    }
    assert_eq!(read, 141);
}

#[test]
fn gpu_kind_reads_every_known_card_name() {
    for row in rows(CARD_NAMES) {
        for text in [
            row["name"].clone(),
            row["name"].to_uppercase(),
            format!("  {} ", row["name"].to_lowercase()),
        ] {
            match row["kind"].as_str() {
                "unknown" => assert!(
                    matches!(kind_of_text(&text), Err(KindTextError::OtherGpu { .. })),
                    "{text}"
                ),
                kind => assert_eq!(kind_of_text(&text).map(Kind::id), Ok(kind)),
            }
        }
    }
}

#[test]
fn gpu_kind_never_matches_by_prefix() {
    // By hand, from the notes on real traps.
    for text in [
        "NVIDIA-H100",
        "NVIDIA-L40",
        "NVIDIA-A10M",
        "NVIDIA-RTX-A6000",
        "Quadro-RTX-6000",
        "Tesla-V100",
        "NVIDIA-A40",
        "NVIDIA-RTX-4000-Ada-Generation-Laptop-GPU",
        "NVIDIA B200",
        "NVIDIA-GH200-480GB",
        "NVIDIA-GeForce-GTX-1080-Ti",
    ] {
        assert!(kind_of_text(text).is_err(), "{text}");
    }
    assert_eq!(kind_of_text(" "), Err(KindTextError::Empty));
}

#[test]
fn gpu_kind_says_what_to_write_instead() {
    assert_eq!(
        kind_of_text("NVIDIA H100").unwrap_err().to_string(),
        "\"NVIDIA H100\" is a GPU, but none of the kinds that Loomplane knows. Nearest known: nvidia-h100-80gb, \
         nvidia-h100-nvl-94gb; they are other cards."
    );
    assert_eq!(
        kind_of_text("nvidia-tesla-a100").unwrap_err().to_string(),
        "\"nvidia-tesla-a100\" can mean nvidia-a100-40gb or nvidia-a100-80gb: it does not say how much memory the card has. \
         Write the kind ID that you mean."
    );
}

/// Every text that stands for a kind.
fn known_texts() -> Vec<String> {
    let labels = rows(LABELS)
        .into_iter()
        .filter(|row| row["precedence"] != "aux")
        .map(|row| row["label_value"].clone());
    let cards = rows(CARD_NAMES).into_iter().map(|row| row["name"].clone());
    labels
        .chain(cards)
        .chain(Kind::ALL.map(|kind| kind.id().to_owned()))
        .collect()
}

#[test]
fn every_known_text_cut_or_extended_by_one_letter_is_another_text() {
    let known: std::collections::BTreeSet<String> = known_texts()
        .iter()
        .map(|text| text.to_lowercase())
        .collect();
    let mut tried = 0;
    for text in &known {
        let cut = &text[..text.len() - 1];
        for changed in [
            cut.to_owned(),
            text[1..].to_owned(),
            format!("{text}0"),
            format!("{text}s"),
            format!("x{text}"),
        ] {
            if !known.contains(changed.trim()) {
                tried += 1;
                assert!(kind_of_text(&changed).is_err(), "{changed}");
            }
        }
    }
    assert!(tried > 1000, "{tried}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]
    #[test]
    fn near_misses_never_panic_and_name_one_to_three(text in "\\PC{0,100}") {
        let nearest = Kind::nearest(&text);
        prop_assert!((1..=3).contains(&nearest.len()));
    }
}
