use super::*;
use crate::capacity::catalog::tests::{TAINTS, rows};
use proptest::prelude::*;

fn taint(text: &str) -> Taint {
    Taint::parse(text).unwrap()
}

fn taints(texts: &[&str]) -> Vec<Taint> {
    texts.iter().map(|text| taint(text)).collect()
}

fn tolerated(nodes: &[Vec<Taint>]) -> Vec<String> {
    tolerations(nodes.iter().map(Vec::as_slice))
        .iter()
        .map(|t| format!("{}={}:{}", t.key, t.value, t.effect))
        .collect()
}

#[test]
fn k6_every_taint_row() {
    let mut never = 0;
    for row in rows(TAINTS) {
        let key = row["key"].replace('*', "gpu-driver");
        for effect in row["effect"].split(';') {
            let effect = if effect == "any" {
                "NoSchedule"
            } else {
                effect
            };
            let value = if row["value"].starts_with('<') {
                "1764500000"
            } else {
                row["value"].as_str()
            };
            let taint = Taint {
                key: key.clone(),
                value: value.to_owned(),
                effect: Effect::parse(effect),
            };
            let tolerate = row["tolerate"].starts_with("yes");
            assert_eq!(may_tolerate(&taint), tolerate, "{row:?}");
            let every_node = vec![vec![taint.clone()], vec![taint.clone()]];
            assert_eq!(!tolerated(&every_node).is_empty(), tolerate, "{row:?}");
            never += u32::from(!tolerate);
        }
    }
    assert_eq!(never, 30);
}

#[test]
fn k6_what_every_node_carries_is_tolerated_and_what_some_carry_is_not() {
    let gpu = "nvidia.com/gpu=present:NoSchedule";
    let nodes = [
        taints(&[gpu, "dedicated=ml:NoSchedule"]),
        taints(&[gpu]),
        taints(&["team=a:NoExecute", gpu]),
    ];
    assert_eq!(tolerated(&nodes), ["nvidia.com/gpu=present:NoSchedule"]);
    assert_eq!(tolerated(&[taints(&[gpu]), vec![]]), [""; 0]);
    assert_eq!(tolerated(&[]), [""; 0]);
}

#[test]
fn k6_another_value_or_effect_is_another_taint() {
    assert_eq!(
        tolerated(&[taints(&["a=1:NoSchedule"]), taints(&["a=2:NoSchedule"])]),
        [""; 0]
    );
    assert_eq!(
        tolerated(&[taints(&["a=1:NoSchedule"]), taints(&["a=1:NoExecute"])]),
        [""; 0]
    );
}

#[test]
fn k6_a_cordoned_one_node_cluster_is_not_tolerated() {
    let node = taints(&[
        "node.kubernetes.io/unschedulable:NoSchedule",
        "nvidia.com/gpu:NoSchedule",
    ]);
    assert_eq!(
        tolerated(std::slice::from_ref(&node)),
        ["nvidia.com/gpu=:NoSchedule"]
    );
    let given = tolerations([node.as_slice()]);
    assert_eq!(blocking(&node, &given).count(), 0);
    assert_eq!(blocking_now(&node, &given).count(), 1);
}

#[test]
fn k6_prefer_no_schedule_never_blocks() {
    let soft = taints(&["spot=true:PreferNoSchedule"]);
    assert_eq!(
        blocking(&soft, &[]).count() + blocking_now(&soft, &[]).count(),
        0
    );
    let unknown = [Taint {
        key: "a".to_owned(),
        value: String::new(),
        effect: Effect::parse("NoAdmit"),
    }];
    assert_eq!(blocking(&unknown, &[]).count(), 1);
}

#[test]
fn tolerations_are_read_as_the_scheduler_does() {
    let exists = |key: &str, effect: &str| Toleration {
        key: key.to_owned(),
        operator: TolerationOperator::Exists,
        value: String::new(),
        effect: effect.to_owned(),
    };
    let t = taint("sku=gpu:NoSchedule");
    assert!(
        exists("sku", "").tolerates(&t)
            && exists("", "").tolerates(&t)
            && exists("sku", "NoSchedule").tolerates(&t)
    );
    assert!(!exists("sku", "NoExecute").tolerates(&t) && !exists("skus", "").tolerates(&t));
    let equal = |value: &str| Toleration {
        operator: TolerationOperator::Equal,
        value: value.to_owned(),
        ..exists("sku", "")
    };
    assert!(equal("gpu").tolerates(&t) && !equal("").tolerates(&t) && !equal("GPU").tolerates(&t));
    assert!(
        !Toleration {
            key: String::new(),
            ..equal("gpu")
        }
        .tolerates(&t)
    );
}

#[test]
fn taints_are_read_as_kubectl_writes_them() {
    for text in [
        "nvidia.com/gpu=present:NoSchedule",
        "nvidia.com/gpu:NoExecute",
        "a=b=c:PreferNoSchedule",
    ] {
        assert_eq!(taint(text).render(), text);
    }
    for text in [
        "",
        "a",
        "a=b",
        ":NoSchedule",
        "a=b:noschedule",
        "=b:NoSchedule",
    ] {
        assert!(Taint::parse(text).is_err(), "{text}");
    }
}

fn any_taint() -> impl Strategy<Value = Taint> {
    let keys: Vec<String> = rows(TAINTS)
        .iter()
        .map(|row| row["key"].replace('*', "x"))
        .collect();
    (
        proptest::sample::select(keys),
        proptest::sample::select(vec!["", "true", "present"]),
        proptest::sample::select(vec!["NoSchedule", "NoExecute", "PreferNoSchedule"]),
    )
        .prop_map(|(key, value, effect)| Taint {
            key,
            value: value.to_owned(),
            effect: Effect::parse(effect),
        })
}

proptest! {
    #[test]
    fn k6_tolerations_never_hold_a_node_state_and_are_exactly_what_all_share(
        nodes in proptest::collection::vec(proptest::collection::vec(any_taint(), 0..6), 1..5),
    ) {
        let given = tolerations(nodes.iter().map(Vec::as_slice));
        prop_assert!(given.iter().all(|t| !is_node_state(&t.key)));
        for node in &nodes {
            for taint in node {
                let shared = nodes.iter().all(|other| other.contains(taint));
                let covered = given.iter().any(|t| t.tolerates(taint));
                prop_assert_eq!(covered, shared && may_tolerate(taint));
            }
        }
    }
}
