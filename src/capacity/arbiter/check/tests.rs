use super::*;
use crate::capacity::arbiter::plan::{Waiting, plan};
use crate::capacity::arbiter::snapshot::{Reason, State, parse};

/// Two A100 nodes of 4; a rental of 2 takes the place of the spot VM `b`, whose start is recent enough to be preferred, and one of 4 waits.
fn snapshot() -> Snapshot {
    parse(
        r#"{"now":"2026-11-30T12:00:00Z",
        "set":{"name":"s","gpu_kind":"nvidia-a100-80gb","fabric":"nvswitch","mode":"enforce"},
        "pools":[{"name":"rentals","type":"on_demand","rank":1},{"name":"chat","type":"inference","rank":2,"replicas":{"min":0,"max":2,"wanted":0},"gpus_per_replica":1},
                 {"name":"batch","type":"spot","rank":3,"ceiling":6}],
        "nodes":[{"name":"n1","gpus":4,"ready":true},{"name":"n2","gpus":4,"ready":true}],
        "claims":[
          {"name":"a","pool":"batch","gpus":2,"state":"running","node":"n1","cards":[0,1],"started_at":"2026-11-30T10:00:00Z"},
          {"name":"b","pool":"batch","gpus":2,"state":"running","node":"n1","cards":[2,3],"started_at":"2026-11-30T11:00:00Z"},
          {"name":"r","pool":"rentals","gpus":2,"state":"running","node":"n2","cards":[0,1],"started_at":"2026-11-30T10:00:00Z"},
          {"name":"c","pool":"chat","gpus":1,"state":"running","node":"n2","cards":[2],"started_at":"2026-11-30T10:00:00Z"},
          {"name":"old","pool":"batch","gpus":1,"state":"noticed","node":"n2","cards":[3],"started_at":"2026-11-30T09:00:00Z","deadline":"2026-11-30T12:01:00Z","reason":"arbiter_stop","for":"gone"},
          {"name":"w1","pool":"rentals","gpus":2,"state":"waiting","requested_at":"2026-11-30T11:58:00Z"},
          {"name":"w2","pool":"rentals","gpus":2,"state":"waiting","requested_at":"2026-11-30T11:59:00Z"},
          {"name":"w4","pool":"batch","gpus":4,"state":"waiting","requested_at":"2026-11-30T11:59:00Z"}]}"#,
    )
    .unwrap()
}

fn rules(snapshot: &Snapshot, plan: &Plan) -> Vec<&'static str> {
    check(snapshot, plan)
        .into_iter()
        .map(|violation| violation.rule)
        .collect()
}

/// The plan's step for a claim.
fn step<'p>(plan: &'p mut Plan, claim: &str) -> &'p mut Action {
    plan.actions
        .iter_mut()
        .find(|action| action.claim() == claim)
        .unwrap()
}

fn claim<'s>(
    snapshot: &'s mut Snapshot,
    name: &str,
) -> &'s mut crate::capacity::arbiter::snapshot::Claim {
    snapshot
        .claims
        .iter_mut()
        .find(|claim| claim.name == name)
        .unwrap()
}

#[test]
fn the_planners_plan_is_sound() {
    let snapshot = snapshot();
    let plan = plan(&snapshot);
    assert_eq!(check(&snapshot, &plan), []);
    let text = plan.to_json();
    for part in [
        r#"{"action":"notice","claim":"c","reason":"arbiter_stop","deadline":"2026-11-30T12:02:00Z"}"#,
        r#"{"action":"notice","claim":"b","reason":"arbiter_stop","deadline":"2026-11-30T12:02:00Z","for":"w2"}"#,
        r#"{"action":"start","claim":"w1","node":"n2","cards":[2,3],"after":["c","old"]}"#,
        r#"{"action":"start","claim":"w2","node":"n1","cards":[2,3],"after":["b"]}"#,
    ] {
        assert!(text.contains(part), "{part} is not in {text}");
    }
}

type Change = fn(&mut Snapshot, &mut Plan);

/// A sound plan, and one thing changed in it or in what it was made for.
#[test]
fn every_breach_is_seen() {
    let changes: [(&str, &str, Change); 24] = [
        ("an on-demand VM is interrupted", "A4", |snapshot, _| {
            snapshot.pools[2].kind = crate::capacity::arbiter::snapshot::PoolType::OnDemand
        }),
        ("a higher rank is interrupted", "A5", |snapshot, _| {
            snapshot.pools[0].rank = 9
        }),
        ("a floor is passed", "A5", |snapshot, _| {
            snapshot.pools[2].floor = 3
        }),
        ("no such block", "A2", |_, plan| {
            if let Action::Start { cards, .. } = step(plan, "w2") {
                *cards = vec![1, 2];
            }
        }),
        ("cards of one that stays", "A6", |_, plan| {
            plan.actions.retain(|action| action.claim() != "b")
        }),
        ("cards twice", "A6", |_, plan| {
            if let Action::Start { node, after, .. } = step(plan, "w1") {
                *node = "n1".into();
                *after = vec!["b".into()];
            }
        }),
        ("a ceiling is passed", "A3", |snapshot, _| {
            snapshot.pools[0].ceiling = Some(4)
        }),
        ("another deadline", "N1", |_, plan| {
            if let Action::Notice { deadline, .. } = step(plan, "b") {
                *deadline = "2026-11-30T12:00:30Z".parse().unwrap();
            }
        }),
        ("for the wrong claim", "A7", |_, plan| {
            if let Action::Notice { purpose, .. } = step(plan, "b") {
                *purpose = Some("w1".into());
            }
        }),
        ("a drain that is none", "N2", |_, plan| {
            if let Action::Notice { reason, .. } = step(plan, "b") {
                *reason = Reason::Drain;
            }
        }),
        ("before the minimum runtime", "A11", |snapshot, _| {
            claim(snapshot, "b").started_at = Some(snapshot.now)
        }),
        ("on a node that is not ready", "A11c", |snapshot, _| {
            snapshot.nodes[0].ready = false
        }),
        ("on a cordoned node", "A11c", |snapshot, _| {
            snapshot.nodes[0].cordoned = true
        }),
        ("a free block would do", "A7", |snapshot, _| {
            let mut node = snapshot.nodes[0].clone();
            node.name = "n3".into();
            snapshot.nodes.push(node);
        }),
        ("a claim is forgotten", "A6", |_, plan| plan.waiting.clear()),
        ("a stop before its time", "N3", |_, plan| {
            plan.actions.insert(
                2,
                Action::Stop {
                    claim: "old".into(),
                    purpose: None,
                },
            );
        }),
        ("a notice is kept for nothing", "A7", |_, plan| {
            plan.actions.retain(|action| action.claim() != "w1");
            plan.waiting.insert(
                0,
                Waiting {
                    claim: "w1".into(),
                    code: Code::Rank,
                    needed: 2,
                    reachable: 0,
                    message: "x".into(),
                },
            );
        }),
        (
            "a later claim gets a block that would have done",
            "A8",
            |_, plan| {
                plan.actions.retain(|action| action.claim() != "w1");
                plan.waiting.insert(
                    0,
                    Waiting {
                        claim: "w1".into(),
                        code: Code::Rank,
                        needed: 2,
                        reachable: 0,
                        message: "x".into(),
                    },
                );
            },
        ),
        (
            "a replica goes, and the plan does not say that it is given up",
            "A10",
            |_, plan| plan.given_up.clear(),
        ),
        (
            "a replica goes that is not too many",
            "A10",
            |snapshot, _| snapshot.pools[1].replicas.as_mut().unwrap().wanted = Some(1),
        ),
        ("steps out of order", "order", |_, plan| {
            plan.actions.reverse()
        }),
        ("a claim that nobody knows", "A10", |_, plan| {
            plan.actions.push(Action::Withdraw {
                claim: "nobody".into(),
                why: "x".into(),
            });
        }),
        (
            "a deadline that came is passed over",
            "N3",
            |snapshot, _| claim(snapshot, "old").deadline = Some(snapshot.now),
        ),
        ("figures that do not add up", "figures", |_, plan| {
            plan.pools[0].gpus_after += 1
        }),
    ];
    for (what, rule, change) in changes {
        let mut snapshot = snapshot();
        let mut plan = plan(&snapshot);
        change(&mut snapshot, &mut plan);
        let found = rules(&snapshot, &plan);
        assert!(
            found.contains(&rule),
            "{what}: {rule} is not among {found:?}"
        );
    }
}

#[test]
fn n1_a_drain_is_not_passed_over() {
    let mut snapshot = snapshot();
    let before = plan(&snapshot);
    snapshot.nodes[0].draining = true;
    assert!(rules(&snapshot, &before).contains(&"N1"));
    let drained = plan(&snapshot);
    assert_eq!(check(&snapshot, &drained), []);
    assert_eq!(claim(&mut snapshot, "r").state, State::Running);
}
