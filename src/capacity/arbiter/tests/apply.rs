//! What a snapshot looks like once a plan's steps were taken: those that can be taken now, and the marks that the arbiter leaves for the rest.

use std::collections::BTreeSet;

use crate::capacity::arbiter::plan::{Action, Plan};
use crate::capacity::arbiter::snapshot::{Claim, Reason, Snapshot, State};

/// Takes every step that can be taken at once.
pub(super) fn apply(snapshot: &Snapshot, plan: &Plan) -> Snapshot {
    let mut after = snapshot.clone();
    add_replicas(&mut after, plan);
    drop_replicas(&mut after, plan);
    // A hold that its claim does not use is given up.
    for claim in after
        .claims
        .iter_mut()
        .filter(|claim| claim.state == State::Waiting)
    {
        claim.node = None;
        claim.cards.clear();
    }
    let mut served: BTreeSet<String> = BTreeSet::new();
    for action in &plan.actions {
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
                for victim in first
                    .iter()
                    .filter(|victim| served.insert((*victim).clone()))
                {
                    let victim = after
                        .claims
                        .iter_mut()
                        .find(|other| other.name == *victim)
                        .unwrap();
                    // A replica that was noticed for nobody goes on leaving for nobody.
                    let replica = after
                        .pools
                        .iter()
                        .any(|pool| pool.name == victim.pool && pool.replicas.is_some());
                    let by_arbiter = victim.state == State::Noticed
                        && victim.reason == Some(Reason::ArbiterStop);
                    if by_arbiter && !(replica && victim.purpose.is_none()) {
                        victim.purpose = Some(claim.clone());
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
