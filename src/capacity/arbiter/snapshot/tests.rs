use serde_json::{Value, json};

use super::*;

/// A valid snapshot with something of everything.
fn valid() -> Value {
    json!({
        "now": "2026-11-30T12:00:00Z",
        "set": {"name": "s", "gpu_kind": "nvidia-a100-80gb", "fabric": "nvswitch"},
        "pools": [
            {"name": "rentals", "type": "on_demand", "rank": 1, "floor": 0, "ceiling": null},
            {"name": "chat", "type": "inference", "rank": 2, "floor": 2, "ceiling": 8, "replicas": {"min": 1, "max": 4, "wanted": 3}, "gpus_per_replica": 2},
            {"name": "batch", "type": "spot", "rank": 3, "floor": 0, "ceiling": null, "notice_seconds": 60}],
        "nodes": [{"name": "n1", "gpus": 8, "ready": true, "cordoned": false, "draining": false, "blocks": null}],
        "claims": [
            {"name": "a", "pool": "batch", "gpus": 1, "state": "running", "node": "n1", "cards": [0], "requested_at": "2026-11-30T10:00:00Z"},
            {"name": "b", "pool": "rentals", "gpus": 2, "state": "waiting", "requested_at": "2026-11-30T10:00:00+02:00", "node": "n1", "cards": [0, 1]},
            {"name": "c", "pool": "batch", "gpus": 1, "state": "noticed", "node": "n1", "cards": [1], "deadline": "2026-11-30T12:01:00Z", "reason": "arbiter_stop", "for": "b"}]
    })
}

/// A valid snapshot with another value at one place; `null` for a field that is left out is another value too.
fn with(pointer: &str, value: Value) -> String {
    let mut snapshot = valid();
    let (parent, field) = pointer.rsplit_once('/').unwrap();
    let parent = snapshot.pointer_mut(parent).unwrap();
    match parent {
        Value::Array(list) => list[field.parse::<usize>().unwrap()] = value,
        parent => parent[field] = value,
    }
    snapshot.to_string()
}

#[test]
fn defaults_are_those_of_the_rules() {
    let snapshot = parse(&valid().to_string()).unwrap();
    assert_eq!(snapshot.set.mode, Mode::DryRun);
    assert_eq!(
        (
            snapshot.set.notice_seconds,
            snapshot.set.minimum_runtime_seconds
        ),
        (120, 300)
    );
    assert_eq!(
        snapshot.claims[1].requested_at.unwrap().to_string(),
        "2026-11-30T08:00:00Z"
    );
    assert_eq!(snapshot.pools[1].effective_floor(), 2);
}

#[test]
fn fields_that_the_format_does_not_name_are_ignored() {
    assert!(parse(&with("/claims/0/color", json!("red"))).is_ok());
    assert!(parse(&with("/nodes/0/gpu_kind", json!("nvidia-a100-80gb"))).is_ok());
}

#[test]
fn what_is_not_valid_is_refused_by_name() {
    for (pointer, value, words) in [
        (
            "/nodes/0/gpu_kind",
            json!("nvidia-l4"),
            &["n1", "nvidia-l4", "nvidia-a100-80gb"][..],
        ),
        (
            "/nodes/0/fabric",
            json!("pcie"),
            &["n1", "pcie", "nvswitch"],
        ),
        (
            "/set/fabric",
            json!("infiniband"),
            &["infiniband", "line 1"],
        ),
        (
            "/nodes/0/blocks",
            json!([[0, 1, 2]]),
            &["n1", "1, 2, 4 or 8"],
        ),
        ("/nodes/0/blocks", json!([[0, 8]]), &["n1", "card 8"]),
        ("/nodes/0/gpus", json!(65), &["n1", "65"]),
        (
            "/claims/1/gpus",
            json!(3),
            &["\"b\"", "3 GPUs", "1, 2, 4 or 8"],
        ),
        ("/claims/1/gpus", json!(0), &["\"b\"", "0 GPUs"]),
        ("/pools/2/rank", json!(1), &["batch", "rentals", "rank 1"]),
        ("/pools/2/rank", json!(0), &["batch", "start at 1"]),
        (
            "/pools/1/floor",
            json!(9),
            &["chat", "9 GPUs", "ceiling of 8"],
        ),
        (
            "/pools/1/replicas/min",
            json!(5),
            &["chat", "at least 5", "at most 4"],
        ),
        (
            "/pools/1/replicas/max",
            json!(5),
            &["chat", "10 GPUs", "ceiling of 8"],
        ),
        (
            "/pools/1/gpus_per_replica",
            json!(3),
            &["chat", "gpus_per_replica"],
        ),
        (
            "/pools/1/gpus_per_replica",
            Value::Null,
            &["chat", "gpus_per_replica"],
        ),
        ("/pools/1/replicas", Value::Null, &["chat", "replicas"]),
        (
            "/pools/2/gpus_per_replica",
            json!(1),
            &["batch", "inference"],
        ),
        (
            "/pools/0/floor",
            json!(7),
            &["9 GPUs together", "rentals 7", "chat 2"],
        ),
        ("/pools/2/name", json!("chat"), &["chat", "twice"]),
        ("/claims/1/name", json!("a"), &["\"a\"", "twice"]),
        ("/claims/1/name", json!(""), &["no name"]),
        ("/claims/0/pool", json!("other"), &["\"a\"", "other"]),
        ("/claims/0/node", json!("other"), &["\"a\"", "other"]),
        ("/claims/0/node", Value::Null, &["\"a\"", "no node"]),
        ("/claims/0/cards", json!([1]), &["card 1", "\"a\"", "\"c\""]),
        ("/claims/0/cards", json!([8]), &["\"a\"", "card 8"]),
        (
            "/claims/0/cards",
            json!([2, 3]),
            &["\"a\"", "1 GPUs", "2 cards"],
        ),
        ("/claims/1/cards", json!([2, 2]), &["\"b\"", "twice"]),
        (
            "/claims/1/cards",
            json!([2]),
            &["\"b\"", "2 GPUs", "1 cards"],
        ),
        ("/claims/0/cards", Value::Null, &["\"a\"", "0 cards"]),
        ("/claims/2/deadline", Value::Null, &["\"c\"", "deadline"]),
        ("/claims/2/reason", Value::Null, &["\"c\"", "reason"]),
        (
            "/claims/1/requested_at",
            Value::Null,
            &["\"b\"", "requested_at"],
        ),
        (
            "/claims/0/started_at",
            json!("yesterday"),
            &["\"a\"", "started_at", "yesterday"],
        ),
        ("/claims/0/state", json!("asleep"), &["asleep"]),
        ("/now", json!("noon"), &["now", "noon"]),
        (
            "/set/notice_seconds",
            json!(-1),
            &["set", "notice_seconds", "negative"],
        ),
        (
            "/set/minimum_runtime_seconds",
            json!(1.5),
            &["set", "minimum_runtime_seconds", "1.5"],
        ),
        (
            "/pools/2/notice_seconds",
            json!(0.5),
            &["batch", "notice_seconds", "0.5"],
        ),
        (
            "/pools/2/notice_seconds",
            json!(5_000_000_000_u64),
            &["batch", "notice_seconds", "5000000000"],
        ),
        ("/pools/2/notice_seconds", json!("60"), &["whole number"]),
    ] {
        let message = parse(&with(pointer, value.clone()))
            .expect_err(pointer)
            .to_string();
        for word in words {
            assert!(
                message.contains(word),
                "{pointer} {value}: {word} is not in {message}"
            );
        }
    }
}

#[test]
fn everything_that_is_wrong_is_said_at_once() {
    let mut snapshot = valid();
    snapshot["claims"][0]["pool"] = json!("other");
    snapshot["pools"][2]["rank"] = json!(1);
    let problems = parse(&snapshot.to_string()).unwrap_err().problems;
    assert_eq!(
        problems
            .iter()
            .map(|problem| &problem.item)
            .collect::<Vec<_>>(),
        [&Item::Pool("batch".into()), &Item::Claim("a".into())]
    );
}

proptest::proptest! {
    /// Whatever stands in a snapshot, reading it ends with a snapshot or with a message.
    #[test]
    fn reading_never_fails_otherwise(place in 0_usize..2_000, text in "[0-9a-z\\[\\]{}\",:.eE+ -]{0,6}") {
        let mut json = valid().to_string();
        let place = place % json.len();
        let end = (place + text.len()).min(json.len());
        json.replace_range(place..end, &text);
        if let Err(invalid) = parse(&json) {
            proptest::prop_assert!(!invalid.problems.is_empty());
        }
    }
}
