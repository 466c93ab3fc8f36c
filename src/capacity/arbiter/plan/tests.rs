//! Rules that neither the reference cases nor the random fleets name: one small fleet each.

use serde_json::{Value, json};

use crate::capacity::arbiter::snapshot::parse;
use crate::capacity::arbiter::{NoPlan, plan_checked};

/// A set of pools and nodes to which claims are added.
struct Case {
    snapshot: Value,
}

impl Case {
    /// A PCIe set of one node with this many cards: rentals before chat (replicas of 1) before batch.
    fn new(cards: u32) -> Self {
        Self {
            snapshot: json!({
                "now": "2026-11-30T12:00:00Z",
                "set": {"name": "s", "gpu_kind": "nvidia-l40s", "fabric": "pcie", "mode": "enforce"},
                "pools": [
                    {"name": "rentals", "type": "on_demand", "rank": 1},
                    {"name": "chat", "type": "inference", "rank": 2, "replicas": {"min": 0, "max": 8, "wanted": 0}, "gpus_per_replica": 1},
                    {"name": "batch", "type": "spot", "rank": 3}],
                "nodes": [{"name": "n1", "gpus": cards, "ready": true}],
                "claims": []
            }),
        }
    }

    fn set(mut self, pointer: &str, value: Value) -> Self {
        let (parent, field) = pointer.rsplit_once('/').unwrap();
        match self.snapshot.pointer_mut(parent).unwrap() {
            Value::Array(list) => list[field.parse::<usize>().unwrap()] = value,
            object => object[field] = value,
        }
        self
    }

    fn claim(mut self, claim: Value) -> Self {
        self.snapshot["claims"].as_array_mut().unwrap().push(claim);
        self
    }

    /// A claim of one GPU that runs on this card of `n1` since this time of the day.
    fn runs(self, name: &str, pool: &str, card: u32, since: &str) -> Self {
        self.claim(json!({"name": name, "pool": pool, "gpus": 1, "state": "running", "node": "n1", "cards": [card], "started_at": format!("2026-11-30T{since}Z")}))
    }

    /// The same, stopping or noticed until this time of the day.
    fn leaves(
        self,
        name: &str,
        pool: &str,
        card: u32,
        state: &str,
        reason: &str,
        until: &str,
    ) -> Self {
        self.claim(json!({"name": name, "pool": pool, "gpus": 1, "state": state, "node": "n1", "cards": [card], "started_at": "2026-11-30T10:00:00Z",
            "reason": reason, "deadline": format!("2026-11-30T{until}Z")}))
    }

    fn waits(self, name: &str, pool: &str) -> Self {
        self.claim(json!({"name": name, "pool": pool, "gpus": 1, "state": "waiting", "requested_at": "2026-11-30T11:59:00Z"}))
    }

    /// The plan, in short: `verb claim` or `claim CODE`, with whom it comes after or is for.
    fn plan(&self) -> Vec<String> {
        let plan = match plan_checked(&parse(&self.snapshot.to_string()).unwrap()) {
            Ok(plan) => plan,
            Err(NoPlan::Unsound(violations)) => panic!("{violations:?}"),
            Err(NoPlan::Invalid(invalid)) => panic!("{invalid}"),
        };
        let plan: Value = serde_json::from_str(&plan.to_json()).unwrap();
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let mut lines = Vec::new();
        for action in plan["actions"].as_array().unwrap() {
            let mut line = format!("{} {}", text(&action["action"]), text(&action["claim"]));
            for name in action["after"].as_array().into_iter().flatten() {
                line += &format!(" after {}", text(name));
            }
            if let Some(purpose) = action["for"].as_str() {
                line += &format!(" for {purpose}");
            }
            lines.push(line);
        }
        lines.extend(
            plan["waiting"]
                .as_array()
                .unwrap()
                .iter()
                .map(|wait| format!("{} {}", text(&wait["claim"]), text(&wait["code"]))),
        );
        lines
    }
}

#[test]
fn a10_too_many_replicas_give_up_the_most_recently_started_that_ran_long_enough() {
    let case = Case::new(4)
        .runs("x", "chat", 0, "11:00:00")
        .runs("y", "chat", 1, "11:30:00")
        .runs("z", "chat", 2, "11:59:00")
        .set(
            "/pools/1/replicas",
            json!({"min": 0, "max": 8, "wanted": 2}),
        );
    assert_eq!(case.plan(), ["notice y"]);
}

#[test]
fn a10_what_is_given_up_serves_any_rank_and_a_notice_for_nobody_is_kept_first() {
    let case = Case::new(2)
        .leaves("x", "chat", 0, "noticed", "arbiter_stop", "12:01:00")
        .runs("y", "chat", 1, "11:30:00")
        .set(
            "/pools/1/replicas",
            json!({"min": 0, "max": 8, "wanted": 1}),
        )
        .waits("w", "batch");
    assert_eq!(case.plan(), ["start w after x"]);
}

#[test]
fn a10_replicas_are_never_given_up_below_the_floor() {
    let case = Case::new(2)
        .runs("x", "chat", 0, "11:00:00")
        .runs("y", "chat", 1, "11:30:00")
        .set("/pools/1/floor", json!(2));
    assert!(case.plan().is_empty());
}

#[test]
fn a10_waiting_replicas_are_dropped_newest_first_and_added_with_the_smallest_free_number() {
    let fewer = Case::new(1)
        .waits("chat-0", "chat")
        .claim(json!({"name": "chat-1", "pool": "chat", "gpus": 1, "state": "waiting", "requested_at": "2026-11-30T11:00:00Z"}))
        .set("/pools/1/replicas", json!({"min": 0, "max": 8, "wanted": 1}));
    assert_eq!(fewer.plan(), ["start chat-1"]);
    let more = Case::new(2).runs("chat-0", "batch", 0, "10:00:00").set(
        "/pools/1/replicas",
        json!({"min": 2, "max": 8, "wanted": null}),
    );
    assert_eq!(
        more.plan(),
        [
            "notice chat-0 for chat-2",
            "start chat-1",
            "start chat-2 after chat-0"
        ]
    );
}

#[test]
fn a11c_what_is_stuck_is_taken_and_relied_on_by_nobody() {
    let case = |until| {
        Case::new(1)
            .leaves("s", "batch", 0, "stopping", "arbiter_stop", until)
            .waits("w", "rentals")
    };
    assert_eq!(case("11:55:01").plan(), ["start w after s"]);
    assert_eq!(case("11:55:00").plan(), ["w NO_COMPLETE_PLAN"]);
}

#[test]
fn a11c_a_notice_on_a_node_that_is_not_ready_is_withdrawn_and_nothing_stopped() {
    let case = Case::new(1)
        .leaves("s", "batch", 0, "noticed", "arbiter_stop", "11:59:00")
        .set("/nodes/0", json!({"name": "n1", "gpus": 1, "ready": false}))
        .waits("w", "rentals");
    assert_eq!(case.plan(), ["withdraw s", "w STALE_DATA"]);
}

#[test]
fn n1_a_rental_reclaim_is_left_alone_and_its_cards_are_not_counted_on() {
    let case = Case::new(1)
        .leaves("s", "batch", 0, "noticed", "rental_reclaim", "11:59:00")
        .waits("w", "rentals");
    assert_eq!(case.plan(), ["w NO_COMPLETE_PLAN"]);
}

#[test]
fn n1_a_drain_that_is_over_is_withdrawn_unless_the_notice_is_of_use() {
    let case = Case::new(1).leaves("s", "batch", 0, "noticed", "drain", "12:01:00");
    assert_eq!(case.plan(), ["withdraw s"]);
    assert_eq!(case.waits("w", "rentals").plan(), ["start w after s"]);
}

#[test]
fn n1_a_drained_node_stops_at_the_deadline_whatever_floors_say() {
    let case = Case::new(2)
        .leaves("s", "batch", 0, "noticed", "drain", "12:00:00")
        .runs("t", "batch", 1, "11:59:59")
        .set("/pools/2/floor", json!(2))
        .set(
            "/nodes/0",
            json!({"name": "n1", "gpus": 2, "ready": true, "draining": true}),
        )
        .waits("w", "rentals");
    assert_eq!(case.plan(), ["notice t", "stop s", "w NO_COMPLETE_PLAN"]);
}

#[test]
fn n3_a_notice_of_no_time_is_not_stopped_in_the_same_plan() {
    let case = Case::new(1)
        .runs("s", "batch", 0, "10:00:00")
        .set("/pools/2/notice_seconds", json!(0))
        .waits("w", "rentals");
    assert_eq!(case.plan(), ["notice s for w", "start w after s"]);
}

#[test]
fn a3_a_ceiling_counts_who_leaves_and_stops_no_smaller_claim_of_another_pool() {
    let case = Case::new(2)
        .leaves("s", "batch", 0, "stopping", "arbiter_stop", "12:00:00")
        .set("/pools/2/ceiling", json!(1))
        .waits("v", "batch")
        .waits("w", "rentals");
    assert_eq!(case.plan(), ["start w", "v CEILING"]);
}

#[test]
fn a4_an_on_demand_vm_keeps_no_notice() {
    let case = Case::new(1).leaves("s", "rentals", 0, "noticed", "arbiter_stop", "11:00:00");
    assert_eq!(case.plan(), ["withdraw s"]);
}

#[test]
fn a5_a_notice_is_taken_back_when_the_pool_fell_to_its_floor_meanwhile() {
    let case = |floor| {
        Case::new(2)
            .leaves("s", "batch", 0, "noticed", "arbiter_stop", "12:01:00")
            .runs("t", "batch", 1, "10:00:00")
            .set("/pools/2/floor", json!(floor))
            .waits("w", "rentals")
    };
    assert_eq!(case(1).plan(), ["start w after s"]);
    assert_eq!(case(2).plan(), ["withdraw s", "w FLOOR"]);
}

#[test]
fn a8_what_a_claim_waiting_for_minimum_runtimes_will_take_from_a_floor_is_kept_for_it() {
    // `w` will take `s` in a minute; were `t` taken for `v` now, the floor would keep `s` from it.
    let case = |started: &str| {
        Case::new(0)
            .set("/set/fabric", json!("nvswitch"))
            .set("/pools/2/floor", json!(1))
            .set("/nodes", json!([{"name": "n1", "gpus": 2, "ready": true}, {"name": "n2", "gpus": 1, "ready": true}]))
            .claim(json!({"name": "s", "pool": "batch", "gpus": 2, "state": "running", "node": "n1", "cards": [0, 1], "started_at": started}))
            .claim(json!({"name": "t", "pool": "batch", "gpus": 1, "state": "running", "node": "n2", "cards": [0], "started_at": "2026-11-30T10:00:00Z"}))
            .claim(json!({"name": "w", "pool": "rentals", "gpus": 2, "state": "waiting", "requested_at": "2026-11-30T11:58:00Z"}))
            .waits("x", "rentals")
    };
    assert_eq!(
        case("2026-11-30T11:56:00Z").plan(),
        ["w COOLDOWN", "x HELD"]
    );
    assert_eq!(
        case("2026-11-30T10:00:00Z").plan(),
        ["notice s for w", "start w after s", "x HELD"]
    );
}

#[test]
fn a11a_a_hold_on_a_node_that_takes_no_work_is_given_up() {
    let case = Case::new(1)
        .set("/nodes", json!([{"name": "n1", "gpus": 1, "ready": true, "cordoned": true}, {"name": "n2", "gpus": 1, "ready": true}]))
        .claim(json!({"name": "w", "pool": "batch", "gpus": 1, "state": "waiting", "node": "n1", "cards": [0], "requested_at": "2026-11-30T11:59:00Z"}));
    assert_eq!(case.plan(), ["start w"]);
}

#[test]
fn a7_a_card_that_became_free_is_taken_and_the_notice_taken_back() {
    let case = Case::new(2)
        .claim(json!({"name": "s", "pool": "batch", "gpus": 1, "state": "noticed", "node": "n1", "cards": [0], "started_at": "2026-11-30T10:00:00Z",
            "reason": "arbiter_stop", "deadline": "2026-11-30T12:01:00Z", "for": "w"}))
        .claim(json!({"name": "w", "pool": "rentals", "gpus": 1, "state": "waiting", "node": "n1", "cards": [0], "requested_at": "2026-11-30T11:59:00Z"}));
    assert_eq!(case.plan(), ["start w", "withdraw s"]);
}

#[test]
fn a_set_without_anything_has_an_empty_plan() {
    let case = Case::new(0)
        .set("/nodes", json!([]))
        .set("/pools", json!([]));
    assert!(case.plan().is_empty());
    assert_eq!(Case::new(0).waits("w", "rentals").plan(), ["w NEVER_FITS"]);
}
