//! A plan that was carried out is quiet: planned again at the same moment, nothing moves.
//!
//! What remains to be done is said again word for word, and nothing else is said, except what the first plan's own steps made legal. There are four such ways,
//! each forced by the rules that it names; each has the smallest case that shows it below.

mod excuses;

use super::apply::{apply, apply_but};
use super::generate::first_fleets;
use super::properties::for_fleets;
use crate::capacity::arbiter::plan::{Action, Plan, plan};
use crate::capacity::arbiter::snapshot::Snapshot;

/// What the next plan has to say again: starts that wait for others to be gone, and stops of claims whose notice was of no time (they come at the earliest in
/// the plan after the notice).
fn said_again(snapshot: &Snapshot, first: &Plan) -> Vec<Action> {
    let again = |action: &Action| match action {
        Action::Notice {
            claim,
            deadline,
            purpose,
            ..
        } if *deadline <= snapshot.now => Some(Action::Stop {
            claim: claim.clone(),
            purpose: purpose.clone(),
        }),
        Action::Start { after, .. } if !after.is_empty() => Some(action.clone()),
        _ => None,
    };
    first.actions.iter().filter_map(again).collect()
}

/// What differs when a plan was carried out, but for the steps in `left`, which must then be said again too.
fn moved_but(snapshot: &Snapshot, first: &Plan, left: &[Action]) -> Option<String> {
    let applied = excuses::without_lift(snapshot, apply_but(snapshot, first, left), first);
    let mut expected = said_again(snapshot, first);
    expected.extend_from_slice(left);
    let second = plan(&applied);
    let other = |actions: &[Action], than: &[Action]| -> Vec<Action> {
        let missing = actions.iter().filter(|action| !than.contains(action));
        missing.cloned().collect()
    };
    let (moved, lost) = (
        other(&second.actions, &expected),
        other(&expected, &second.actions),
    );
    (!moved.is_empty() || !lost.is_empty()).then(|| {
        format!(
            "moved {moved:?}\nlost {lost:?}\n{}\n{}",
            serde_json::to_string(&applied).unwrap(),
            second.to_json()
        )
    })
}

/// What moves though the plan was carried out; where it moves, without the steps that make others legal.
pub(super) fn moved_again(snapshot: &Snapshot) -> Option<String> {
    let first = plan(snapshot);
    let moved = moved_but(snapshot, &first, &[])?;
    let left = excuses::steps_that_free(snapshot, &first);
    if left.is_empty() {
        return Some(moved);
    }
    moved_but(snapshot, &first, &left)
}

#[test]
fn a11_a_plan_that_was_carried_out_moves_nothing_more() {
    for_fleets(moved_again);
}

/// Of 400,000 fleets some 50 need it.
#[test]
fn leaving_steps_for_later_is_the_exception() {
    let needs_it = |snapshot: &&Snapshot| {
        let first = plan(snapshot);
        let steps = excuses::steps_that_free(snapshot, &first);
        !steps.is_empty() && moved_but(snapshot, &first, &[]).is_some()
    };
    let excused = first_fleets().iter().filter(needs_it).count();
    assert!(excused <= 3, "{excused} of {}", first_fleets().len());
}
