//! What a change of a set would do, in words: who would lose capacity and to whom, who would start, who would wait (G8, A9).

use std::collections::BTreeMap;

use tf_provider_sdk::diagnostic::Diagnostic;

use super::preview::Looked;
use crate::capacity::{
    arbiter::{
        plan::{Action, Plan},
        snapshot::Mode,
    },
    set::outcome::Loss,
};

/// The most lines of one kind that a warning holds; `preview` has them all.
const MOST: usize = 20;

/// A warning about a set that changes from `before` (none for a new one) to `after`.
pub(super) fn announce(before: Option<&Looked>, after: &Looked) -> Option<Diagnostic> {
    let plan = after.plan.as_ref().ok()?;
    let set = &after.assembled.snapshot.set;
    let was = before.and_then(|before| Some((before, before.plan.as_ref().ok()?)));
    let enforced = |looked: &Looked| looked.assembled.snapshot.set.mode == Mode::Enforce;
    let turned_on = enforced(after) && !before.is_some_and(enforced);
    // In dry-run nothing was going to be lost: what is turned on counts as a whole.
    let compared = was.filter(|_| !turned_on);
    let known: BTreeMap<String, Loss> = compared
        .into_iter()
        .flat_map(|(before, _)| before.losses())
        .map(|loss| (loss.claim.clone(), loss))
        .collect();
    let losses = after.losses();
    let new: Vec<&Loss> = losses
        .iter()
        .filter(|loss| !known.contains_key(&loss.claim))
        .collect();
    let spared: Vec<&Loss> = known
        .values()
        .filter(|loss| !losses.iter().any(|other| other.claim == loss.claim))
        .collect();
    let verb = if enforced(after) { "will" } else { "would" };
    let gpus: u32 = new.iter().map(|loss| loss.gpus).sum();
    let summary = match new.len() {
        0 => format!(
            "Capacity set {:?}: no workload {verb} lose capacity",
            set.name
        ),
        count => format!(
            "Capacity set {:?}: {count} {} {verb} lose {}",
            set.name,
            if count == 1 { "workload" } else { "workloads" },
            crate::capacity::set::outcome::gpus(gpus)
        ),
    };
    let mut detail = String::new();
    let lines = |losses: &[&Loss]| losses.iter().map(ToString::to_string).collect();
    section(
        &mut detail,
        &format!("These {verb} lose capacity:"),
        lines(&new),
    );
    if new.len() < losses.len() {
        let others = losses.len() - new.len();
        detail.push_str(&format!(
            "{others} more {verb} lose capacity with or without this change.\n"
        ));
    }
    section(
        &mut detail,
        "These would have lost capacity, and keep it:",
        lines(&spared),
    );
    let earlier = compared.map(|(_, plan)| plan);
    section(
        &mut detail,
        &format!("These {verb} start:"),
        starts(plan, earlier),
    );
    section(
        &mut detail,
        &format!("These {verb} wait:"),
        waits(plan, earlier),
    );
    if detail.is_empty() {
        detail.push_str(if compared.is_some() {
            "The arbiter's plan is the same with and without this change.\n"
        } else {
            "Nothing is to be done: every claim has its cards, or there is none.\n"
        });
    }
    detail.push_str(if enforced(after) {
        "As of now. The arbiter plans again before each step; who loses capacity is given notice first."
    } else {
        "As of now, and mode is \"dry_run\": the arbiter publishes its plan and moves nothing."
    });
    section_after(&mut detail, &after.assembled.notes);
    Some(Diagnostic::warning(summary, detail).at(if turned_on { "mode" } else { "pools" }))
}

fn starts(plan: &Plan, earlier: Option<&Plan>) -> Vec<String> {
    let of = |plan: &Plan| -> BTreeMap<String, String> {
        let starts = plan.actions.iter().filter_map(|action| match action {
            Action::Start {
                claim, node, cards, ..
            } => Some((
                claim.clone(),
                format!(
                    "{claim} on {node}, cards {}",
                    crate::capacity::set::outcome::numbers(cards)
                ),
            )),
            _ => None,
        });
        starts.collect()
    };
    newly(of(plan), earlier.map(of))
}

fn waits(plan: &Plan, earlier: Option<&Plan>) -> Vec<String> {
    let of = |plan: &Plan| -> BTreeMap<String, String> {
        let waits = plan.waiting.iter();
        waits
            .map(|wait| {
                (
                    wait.claim.clone(),
                    format!("{}: {}", wait.claim, wait.message),
                )
            })
            .collect()
    };
    newly(of(plan), earlier.map(of))
}

/// What was not there before, by claim.
fn newly(now: BTreeMap<String, String>, before: Option<BTreeMap<String, String>>) -> Vec<String> {
    let before = before.unwrap_or_default();
    now.into_iter()
        .filter(|(claim, _)| !before.contains_key(claim))
        .map(|(_, line)| line)
        .collect()
}

fn section(text: &mut String, title: &str, lines: Vec<String>) {
    if lines.is_empty() {
        return;
    }
    text.push_str(title);
    text.push('\n');
    for line in lines.iter().take(MOST) {
        text.push_str("  ");
        text.push_str(line);
        text.push('\n');
    }
    if lines.len() > MOST {
        text.push_str(&format!("  and {} more\n", lines.len() - MOST));
    }
}

fn section_after(text: &mut String, notes: &[String]) {
    if !notes.is_empty() {
        text.push('\n');
        section(text, "Not all is clear:", notes.to_vec());
    }
}
