//! The provider's functions through the CLIs (P2, G1).

use serde_json::{Value, json};

use super::REQUIRED;
use crate::terraform::{Cli, FAILED, OK, Workspace};

/// A folder with these outputs; functions need no connection.
fn outputs(cli: Cli, text: &str) -> Option<Workspace> {
    let work = Workspace::with_provider(cli)?;
    work.file("main.tf", &format!("{REQUIRED}{text}"));
    Some(work)
}

#[test]
fn p2_a_total_with_an_unknown_part_is_no_number_and_says_which_part() {
    for cli in Cli::BOTH {
        let Some(work) = outputs(
            cli,
            "output \"one\" {\n  value = provider::loomplane::price_total({ chat = 0.8048, train = null, free = 0 })\n}\n\
             output \"all\" {\n  value = provider::loomplane::price_total({ chat = 0.8, train = 1.2 })\n}\n\
             output \"none\" {\n  value = provider::loomplane::price_total({ train = null })\n}\n",
        ) else {
            return;
        };
        work.apply().expect(OK);
        assert_eq!(
            work.output("one"),
            json!({
                "hourly_usd": null, "at_least_usd": 0.8048, "unknown": ["free", "train"],
                "text": "price unknown for free, train; at least $0.80 an hour, $588 a month (estimate)",
            })
        );
        let all = work.output("all");
        assert_eq!(all["hourly_usd"], 2);
        assert_eq!(all["unknown"], json!([]));
        let none = work.output("none");
        assert_eq!(none["hourly_usd"], Value::Null);
        assert_eq!(none["at_least_usd"], Value::Null);
        assert_eq!(none["text"], "price unknown for train");
        work.expect_no_changes();
    }
}

#[test]
fn p5_a_total_of_a_negative_part_is_refused_with_its_name() {
    let Some(work) = outputs(
        Cli::any(),
        "output \"it\" {\n  value = provider::loomplane::price_total({ chat = -1 })\n}\n",
    ) else {
        return;
    };
    work.plan().expect(FAILED).says("chat").says("negative");
}

#[test]
fn g1_a_text_that_means_no_kind_or_two_is_an_error_that_names_the_nearest() {
    for cli in Cli::BOTH {
        for (text, says) in [
            (
                "NVIDIA-L40",
                "\"NVIDIA-L40\" is a GPU, but none of the kinds that Loomplane knows. Nearest known: nvidia-l4, nvidia-l40s",
            ),
            (
                "nvidia-tesla-v100",
                "can mean nvidia-v100-16gb or nvidia-v100-32gb",
            ),
            (
                "NVIDIA-H100-80GB-HBM",
                "is no label value, nvidia-smi name or kind ID that Loomplane knows. Nearest known: nvidia-h100-80gb",
            ),
            ("", "an empty text names no GPU kind"),
        ] {
            let Some(work) = outputs(
                cli,
                &format!(
                    "output \"it\" {{\n  value = provider::loomplane::gpu_kind({text:?})\n}}\n"
                ),
            ) else {
                return;
            };
            work.plan().expect(FAILED).says(says);
        }
        let Some(work) = outputs(
            cli,
            "output \"it\" {\n  value = provider::loomplane::gpu_kind(\"Tesla-T4-SHARED\")\n}\n",
        ) else {
            return;
        };
        work.apply().expect(OK);
        assert_eq!(work.output("it"), "nvidia-t4");
    }
}
