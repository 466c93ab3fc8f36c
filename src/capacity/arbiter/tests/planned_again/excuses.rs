//! What a plan's own steps make legal, and nothing else does.

use serde_json::{Value, json};

use super::{Action, Plan, Snapshot, apply};
use crate::capacity::arbiter::plan::{Code, plan};
use crate::capacity::arbiter::snapshot::{Claim, Pool, Reason, State, parse};

/// Takes back what starts made legal.
///
/// - A5: a pool that they lifted above its floor may give what it could not give before.
/// - A11a with A11: a block that is held for a claim is held from higher ranks too. Without a minimum runtime they may reclaim it as soon as the claim runs there.
pub(super) fn without_lift(before: &Snapshot, mut applied: Snapshot, first: &Plan) -> Snapshot {
    let now = applied.now;
    for action in &first.actions {
        let Action::Start {
            claim, node, cards, ..
        } = action
        else {
            continue;
        };
        let held = before
            .claims
            .iter()
            .any(|it| it.name == *claim && it.node.as_ref() == Some(node) && it.cards == *cards);
        let started = applied
            .claims
            .iter_mut()
            .find(|it| it.name == *claim)
            .unwrap();
        if started.state != State::Running {
            continue;
        }
        if held && before.set.minimum_runtime_seconds == 0 {
            // As if its machine went back to its owner: it keeps its cards, is no victim, and counts toward no floor.
            started.state = State::Noticed;
            started.reason = Some(Reason::RentalReclaim);
            started.deadline = Some(now);
            continue;
        }
        let (pool, gpus) = (started.pool.clone(), started.gpus);
        let pool = applied.pools.iter_mut().find(|it| it.name == pool).unwrap();
        pool.floor = pool.effective_floor() as u32 + gpus;
    }
    applied
}

/// Stops and starts that make other steps legal though they lift no pool above its floor.
///
/// - A7: once a claim stops, those of its cards that its `for` does not need serve any rank; until then, only claims considered after that one.
/// - A3 with A8: what starts counts toward its pool's ceiling, under which an older claim that waits for minimum runtimes may not fit any more; it then keeps
///   nothing back.
pub(super) fn steps_that_free(snapshot: &Snapshot, first: &Plan) -> Vec<Action> {
    let done = Done {
        first,
        snapshot: &apply(snapshot, first),
    };
    let frees = |action: &&Action| match action {
        Action::Stop {
            claim,
            purpose: Some(purpose),
        } => done.frees_more_cards(claim, purpose),
        Action::Start { claim, after, .. } if after.is_empty() => done.uses_up_ceiling(claim),
        _ => false,
    };
    first.actions.iter().filter(frees).cloned().collect()
}

/// A plan that was carried out.
struct Done<'a> {
    first: &'a Plan,
    snapshot: &'a Snapshot,
}

impl Done<'_> {
    fn claim(&self, name: &str) -> &Claim {
        let mut claims = self.snapshot.claims.iter();
        claims.find(|claim| claim.name == name).unwrap()
    }

    fn pool(&self, claim: &str) -> &Pool {
        let name = &self.claim(claim).pool;
        let mut pools = self.snapshot.pools.iter();
        pools.find(|pool| pool.name == *name).unwrap()
    }

    /// Whether a claim is considered before another (A8).
    fn is_before(&self, a: &str, b: &str) -> bool {
        let turn = |name: &str| {
            let claim = self.claim(name);
            (self.pool(name).rank, claim.requested_at, claim.name.clone())
        };
        turn(a) < turn(b)
    }

    fn frees_more_cards(&self, stopped: &str, purpose: &str) -> bool {
        let stopped = self.claim(stopped);
        let used = |card: &u32| {
            self.first.actions.iter().any(|action| {
                matches!(action, Action::Start { node, cards, .. } if Some(node) == stopped.node.as_ref() && cards.contains(card))
            })
        };
        let without_cards = self
            .snapshot
            .claims
            .iter()
            .filter(|claim| claim.state == State::Waiting);
        !stopped.cards.iter().all(used)
            && without_cards
                .into_iter()
                .any(|claim| self.is_before(&claim.name, purpose))
    }

    fn uses_up_ceiling(&self, started: &str) -> bool {
        let pool = self.pool(started);
        let Some(ceiling) = pool.ceiling.map(u64::from) else {
            return false;
        };
        let before = self.first.pools.iter().find(|it| it.name == pool.name);
        let starts = self.first.actions.iter().map(|action| match action {
            Action::Start { claim, cards, .. } if self.pool(claim).name == pool.name => {
                cards.len() as u64
            }
            _ => 0,
        });
        let counted = before.unwrap().gpus_before + starts.sum::<u64>();
        self.first.waiting.iter().any(|wait| {
            wait.code == Code::Cooldown
                && self.pool(&wait.claim).name == pool.name
                && self.is_before(&wait.claim, started)
                && counted + u64::from(wait.needed) > ceiling
        })
    }
}

/// Rentals (on demand, rank 1), team (spot, rank 2), chat (replicas of 1, rank 3), batch (spot, rank 4) on A100s, whose blocks are neighbors.
fn case(nodes: &[(&str, u32)], claims: Value) -> Value {
    let nodes: Vec<Value> = nodes
        .iter()
        .map(|(name, gpus)| json!({"name": name, "gpus": gpus, "ready": true}))
        .collect();
    json!({
        "now": "2026-11-30T12:00:00Z",
        "set": {"name": "s", "gpu_kind": "nvidia-a100-80gb", "fabric": "nvswitch", "mode": "enforce"},
        "pools": [
            {"name": "rentals", "type": "on_demand", "rank": 1},
            {"name": "team", "type": "spot", "rank": 2},
            {"name": "chat", "type": "inference", "rank": 3, "replicas": {"min": 0, "max": 1, "wanted": null}, "gpus_per_replica": 1},
            {"name": "batch", "type": "spot", "rank": 4}],
        "nodes": nodes,
        "claims": claims,
    })
}

fn runs(name: &str, pool: &str, node: &str, cards: &[u32], since: &str) -> Value {
    json!({"name": name, "pool": pool, "gpus": cards.len(), "state": "running", "node": node, "cards": cards, "started_at": format!("2026-11-30T{since}Z")})
}

fn waits(name: &str, pool: &str, gpus: u32, since: &str) -> Value {
    json!({"name": name, "pool": pool, "gpus": gpus, "state": "waiting", "requested_at": format!("2026-11-30T{since}Z")})
}

fn with(mut claim: Value, more: Value) -> Value {
    let more = more.as_object().unwrap().clone();
    claim.as_object_mut().unwrap().extend(more);
    claim
}

/// The steps of a plan in short, and of the one that is made when it was carried out.
fn twice(case: &Value) -> (Vec<String>, Vec<String>) {
    let snapshot = parse(&case.to_string()).unwrap();
    let first = plan(&snapshot);
    let second = plan(&apply(&snapshot, &first));
    let short = |plan: &Plan| {
        plan.actions
            .iter()
            .map(|action| match action {
                Action::Notice { claim, .. } => format!("notice {claim}"),
                Action::Stop { claim, .. } => format!("stop {claim}"),
                Action::Start {
                    claim, node, cards, ..
                } => format!("start {claim} on {node} {cards:?}"),
                Action::Withdraw { claim, .. } => format!("withdraw {claim}"),
            })
            .collect()
    };
    (short(&first), short(&second))
}

#[test]
fn a5_a_start_lifts_its_pool_above_its_floor() {
    let mut case = case(
        &[("n1", 2), ("n2", 1)],
        json!([
            runs("b1", "batch", "n1", &[0, 1], "10:00:00"),
            waits("r", "rentals", 2, "11:59:00"),
            waits("b2", "batch", 1, "11:59:00"),
        ]),
    );
    case["pools"][3]["floor"] = json!(1);
    let (first, second) = twice(&case);
    assert_eq!(first, ["start b2 on n2 [0]"]);
    assert_eq!(second, ["notice b1", "start r on n1 [0, 1]"]);
}

#[test]
fn a11a_without_a_minimum_runtime_what_starts_on_a_held_block_may_have_to_go_for_whom_it_was_held_from()
 {
    let held = json!({"node": "n1", "cards": [0]});
    let mut case = case(
        &[("n1", 1)],
        json!([
            with(waits("b", "batch", 1, "11:59:00"), held),
            waits("r", "rentals", 1, "11:59:00"),
        ]),
    );
    case["set"]["minimum_runtime_seconds"] = json!(0);
    let (first, second) = twice(&case);
    assert_eq!(first, ["start b on n1 [0]"]);
    assert_eq!(second, ["notice b", "start r on n1 [0]"]);
    case["set"]["minimum_runtime_seconds"] = json!(1);
    assert_eq!(twice(&case).1, [""; 0]);
}

/// `s`, noticed for `t`, which needs one of its two cards. Noticed, it may be used again for `t` only, and its other card serves claims after `t`; stopping,
/// that card serves any rank, and sooner than a victim.
#[test]
fn a7_what_a_stop_frees_beyond_its_claim_serves_any_rank_from_then_on() {
    let due = json!({"state": "noticed", "deadline": "2026-11-30T12:00:00Z", "reason": "arbiter_stop", "for": "t"});
    let claims = json!([
        with(runs("s", "batch", "n1", &[0, 1], "10:00:00"), due),
        with(
            waits("t", "team", 1, "11:59:00"),
            json!({"node": "n1", "cards": [0]})
        ),
        waits("r", "rentals", 1, "11:59:00"),
    ]);
    let (first, second) = twice(&case(&[("n1", 2)], claims.clone()));
    assert_eq!(first, ["stop s", "start t on n1 [0]"]);
    assert_eq!(second, ["start r on n1 [1]", "start t on n1 [0]"]);

    let mut claims = claims;
    let victim = runs("v", "team", "n2", &[0], "10:00:00");
    claims.as_array_mut().unwrap().push(victim);
    let (first, second) = twice(&case(&[("n1", 2), ("n2", 1)], claims));
    assert_eq!(
        first,
        [
            "notice v",
            "stop s",
            "start r on n2 [0]",
            "start t on n1 [0]"
        ]
    );
    assert_eq!(
        second,
        ["start r on n1 [1]", "start t on n1 [0]", "withdraw v"]
    );
}

/// `r1` keeps both cards of `n1` until `s` may be interrupted; then the younger `r2` starts, and the ceiling has no room for `r1` any more. A ceiling counts what
/// holds cards and what starts, not what a claim keeps (A3), and only `COOLDOWN` keeps anything (A8).
#[test]
fn a3_a8_a_younger_claim_may_use_up_the_ceiling_of_one_that_waits_for_minimum_runtimes() {
    let mut case = case(
        &[("n1", 2), ("n2", 1)],
        json!([
            runs("s", "batch", "n1", &[0], "11:59:00"),
            waits("r1", "rentals", 2, "11:58:00"),
            waits("r2", "rentals", 1, "11:59:00"),
            waits("b", "batch", 1, "11:59:00"),
        ]),
    );
    case["pools"][0]["ceiling"] = json!(2);
    let (first, second) = twice(&case);
    assert_eq!(first, ["start r2 on n2 [0]"]);
    assert_eq!(second, ["start b on n1 [1]"]);
}

/// `x` is the replica that chat has too many, and serves `w` for nothing; `y` becomes a victim. Were `x` still noticed for `w`, the next plan would give up the
/// newer `y` instead, and `w` would move.
#[test]
fn a10_the_notice_of_a_replica_that_is_given_up_is_for_nobody() {
    let noticed = json!({"state": "noticed", "deadline": "2026-11-30T12:01:00Z", "reason": "arbiter_stop", "for": "w"});
    let case = case(
        &[("n1", 1), ("n2", 2)],
        json!([
            with(runs("x", "chat", "n1", &[0], "10:00:00"), noticed),
            runs("y", "chat", "n2", &[0, 1], "11:00:00"),
            waits("v", "rentals", 1, "11:58:00"),
            waits("w", "rentals", 1, "11:59:00"),
        ]),
    );
    let (first, second) = twice(&case);
    assert_eq!(
        first,
        ["notice y", "start v on n2 [0]", "start w on n1 [0]"]
    );
    assert_eq!(second, ["start v on n2 [0]", "start w on n1 [0]"]);

    let snapshot = parse(&case.to_string()).unwrap();
    let first = plan(&snapshot);
    assert_eq!(first.given_up, ["x"]);
    let mut kept = apply(&snapshot, &first);
    let x = kept.claims.iter_mut().find(|it| it.name == "x").unwrap();
    x.purpose = Some("w".into());
    let moved = plan(&kept);
    let start = |action: &&Action| matches!(action, Action::Start { claim, .. } if claim == "w");
    assert_ne!(
        moved.actions.iter().find(start),
        first.actions.iter().find(start)
    );
}
