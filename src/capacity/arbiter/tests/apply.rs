//! What a snapshot looks like once a plan's steps were taken: those that can be taken now, and the marks that the arbiter leaves for the rest.

use std::collections::BTreeSet;

use crate::capacity::arbiter::plan::{Action, Plan};
use crate::capacity::arbiter::snapshot::{Claim, Snapshot, State};

/// Takes every step that can be taken at once.
pub(super) fn apply(snapshot: &Snapshot, plan: &Plan) -> Snapshot {
    apply_but(snapshot, plan, &[])
}

/// The same, but for some stops and starts that are left for later.
pub(super) fn apply_but(snapshot: &Snapshot, plan: &Plan, left: &[Action]) -> Snapshot {
    let mut after = snapshot.clone();
    add_replicas(&mut after, plan);
    drop_replicas(&mut after, plan);
    give_up_holds(&mut after, plan, left);
    // The notices that the plan gives say themselves whom they are for.
    let mut served: BTreeSet<String> = plan
        .actions
        .iter()
        .filter(|action| matches!(action, Action::Notice { .. }))
        .map(|action| action.claim().to_owned())
        .collect();
    for action in plan.actions.iter().filter(|action| !left.contains(action)) {
        match action {
            Action::Notice {
                claim,
                reason,
                deadline,
                purpose,
            } => {
                let claim = find(&mut after, claim);
                claim.state = State::Noticed;
                claim.reason = Some(*reason);
                claim.deadline = Some(*deadline);
                claim.purpose.clone_from(purpose);
            }
            Action::Stop { claim, purpose } => {
                let claim = find(&mut after, claim);
                claim.state = State::Stopping;
                claim.purpose.clone_from(purpose);
            }
            Action::Start {
                claim,
                node,
                cards,
                after: first,
            } => {
                let now = after.now;
                for victim in first {
                    if served.insert(victim.clone()) {
                        serve(&mut after, plan, victim, claim);
                    }
                }
                let claim = find(&mut after, claim);
                claim.node = Some(node.clone());
                claim.cards.clone_from(cards);
                if first.is_empty() {
                    claim.state = State::Running;
                    claim.started_at = Some(now);
                }
            }
            Action::Withdraw { claim, .. } => {
                let claim = find(&mut after, claim);
                claim.state = State::Running;
                claim.reason = None;
                claim.deadline = None;
                claim.purpose = None;
            }
        }
    }
    after
}

fn find<'s>(snapshot: &'s mut Snapshot, name: &str) -> &'s mut Claim {
    snapshot
        .claims
        .iter_mut()
        .find(|claim| claim.name == name)
        .unwrap()
}

/// A hold that its claim does not use is given up: the block that is written on it, and what claims that leave were meant for. A replica that its pool gives up
/// is for nobody (A10).
fn give_up_holds(snapshot: &mut Snapshot, plan: &Plan, left: &[Action]) {
    for claim in &mut snapshot.claims {
        let untouched = left.iter().any(|action| action.claim() == claim.name);
        if claim.state == State::Waiting && !untouched {
            claim.node = None;
            claim.cards.clear();
        }
        let used = plan.actions.iter().any(|action| {
            matches!(action, Action::Start { claim: served, after, .. } if Some(served) == claim.purpose.as_ref() && after.contains(&claim.name))
        });
        if !used || plan.given_up.contains(&claim.name) {
            claim.purpose = None;
        }
    }
}

/// A victim's `for` becomes the first claim that starts after it. What leaves anyway leaves for nobody: on a draining node, or as a replica that its pool gives up.
fn serve(snapshot: &mut Snapshot, plan: &Plan, victim: &str, first: &str) {
    let claim = find(snapshot, victim).clone();
    let drained = snapshot
        .nodes
        .iter()
        .any(|node| node.draining && Some(&node.name) == claim.node.as_ref());
    if claim.noticed_by_arbiter() && !drained && !plan.given_up.contains(&claim.name) {
        find(snapshot, victim).purpose = Some(first.to_owned());
    }
}

/// Replicas that the planner added exist from now on.
fn add_replicas(snapshot: &mut Snapshot, plan: &Plan) {
    let decided: Vec<&str> = plan
        .actions
        .iter()
        .map(Action::claim)
        .chain(plan.waiting.iter().map(|wait| wait.claim.as_str()))
        .collect();
    for name in decided {
        if snapshot.claims.iter().any(|claim| claim.name == name) {
            continue;
        }
        let pool = snapshot
            .pools
            .iter()
            .find(|pool| name.rsplit_once('-').is_some_and(|(of, _)| of == pool.name))
            .unwrap();
        snapshot.claims.push(Claim {
            name: name.to_owned(),
            pool: pool.name.clone(),
            gpus: pool.gpus_per_replica.unwrap(),
            state: State::Waiting,
            node: None,
            cards: Vec::new(),
            requested_at: Some(snapshot.now),
            started_at: None,
            deadline: None,
            reason: None,
            purpose: None,
        });
    }
}

/// Waiting replicas that the plan does not mention were dropped.
fn drop_replicas(snapshot: &mut Snapshot, plan: &Plan) {
    let decided: BTreeSet<&str> = plan
        .actions
        .iter()
        .map(Action::claim)
        .chain(plan.waiting.iter().map(|wait| wait.claim.as_str()))
        .collect();
    snapshot
        .claims
        .retain(|claim| claim.state != State::Waiting || decided.contains(claim.name.as_str()));
}
