use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

use super::membership::{Why, cards};
use super::what_if::{CLAIM, Figures, WhatIf};
use super::{Assembled, Definition, Nodes, Observed, Phase, SeenNode, Workload, WorkloadKind};
use super::{assemble, marks, members, outcome};
use crate::capacity::arbiter::plan_checked;
use crate::capacity::arbiter::snapshot::{Mode, Pool, PoolType, Reason, Set, State};
use crate::capacity::fabric::Fabric;
use crate::capacity::node::Node;

fn now() -> Timestamp {
    "2026-11-30T12:00:00Z".parse().unwrap()
}

fn pool(name: &str, kind: PoolType, rank: u32) -> Pool {
    Pool {
        name: name.to_owned(),
        kind,
        rank,
        floor: 0,
        ceiling: None,
        replicas: None,
        gpus_per_replica: None,
        notice_seconds: None,
    }
}

fn definition(names: &[&str]) -> Definition {
    Definition {
        set: Set {
            name: "fleet".to_owned(),
            gpu_kind: "nvidia-a100-80gb".to_owned(),
            fabric: Fabric::Nvswitch,
            mode: Mode::DryRun,
            notice_seconds: 120,
            minimum_runtime_seconds: 300,
        },
        pools: vec![
            pool("rentals", PoolType::OnDemand, 1),
            pool("batch", PoolType::Spot, 2),
        ],
        nodes: Nodes::Named(names.iter().map(|name| (*name).to_owned()).collect()),
    }
}

fn node(name: &str, gpus: u64) -> SeenNode {
    let labels = [("nvidia.com/gpu.product", "NVIDIA-A100-SXM4-80GB")];
    let resources = BTreeMap::from([("nvidia.com/gpu".to_owned(), gpus)]);
    SeenNode {
        node: Node {
            name: name.to_owned(),
            labels: labels
                .iter()
                .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
                .collect(),
            allocatable: resources.clone(),
            capacity: resources,
            arch: "amd64".to_owned(),
            ready: true,
            ..Node::default()
        },
        annotations: BTreeMap::new(),
    }
}

fn labeled(mut seen: SeenNode, key: &str, value: &str) -> SeenNode {
    seen.node.labels.insert(key.to_owned(), value.to_owned());
    seen
}

fn vm(name: &str, pool: &str, gpus: u32, phase: Phase, on: Option<&str>) -> Workload {
    Workload {
        kind: WorkloadKind::Vm,
        namespace: "ml".to_owned(),
        name: name.to_owned(),
        pool: pool.to_owned(),
        annotations: BTreeMap::new(),
        gpus,
        phase,
        node: on.map(str::to_owned),
        created_at: Some("2026-11-30T10:00:00Z".parse().unwrap()),
        started_at: Some("2026-11-30T11:00:00Z".parse().unwrap()),
    }
}

fn marked(mut workload: Workload, marks: &[(&str, &str)]) -> Workload {
    for (key, value) in marks {
        workload
            .annotations
            .insert((*key).to_owned(), (*value).to_owned());
    }
    workload
}

fn assembled(nodes: Vec<SeenNode>, members: Vec<Workload>, strangers: Vec<Workload>) -> Assembled {
    let names: Vec<String> = nodes.iter().map(|seen| seen.node.name.clone()).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let observed = Observed {
        nodes: nodes.into(),
        members,
        strangers,
        ..Observed::default()
    };
    let assembled = assemble(&definition(&names), &observed, now());
    // Whatever is on the cluster, there is a plan, and it is sound.
    plan_checked(&assembled.snapshot).unwrap();
    assembled
}

fn why(seen: &SeenNode) -> Option<Why> {
    let definition = definition(&[&seen.node.name]);
    let (_, refused) = members(&definition, std::slice::from_ref(seen), &[]);
    refused.into_iter().next().map(|refused| refused.why)
}

#[test]
fn a1_a_node_is_judged_by_kind_fabric_and_whole_cards() {
    assert_eq!(why(&node("n", 8)), None);
    assert_eq!(
        why(&node("n", 4)),
        None,
        "a board of 4 does not say how it is wired: the set's word counts"
    );
    let product = |value: &str| labeled(node("n", 8), "nvidia.com/gpu.product", value);
    assert!(matches!(
        why(&product("NVIDIA-L4")),
        Some(Why::OtherKind {
            found: "nvidia-l4",
            ..
        })
    ));
    assert!(matches!(
        why(&product("NVIDIA-Nothing")),
        Some(Why::UnknownKind(_))
    ));
    assert!(matches!(
        why(&product("NVIDIA-A100-80GB-PCIe")),
        Some(Why::OtherFabric {
            found: Fabric::Pcie,
            ..
        })
    ));
    assert_eq!(
        why(&labeled(
            product("NVIDIA-A100-80GB-PCIe"),
            marks::FABRIC,
            "nvswitch"
        )),
        None
    );
    assert!(matches!(
        why(&product("NVIDIA-A100-SXM4-80GB-SHARED")),
        Some(Why::NotWhole(_))
    ));
    assert_eq!(why(&node("n", 0)), Some(Why::NoGpus));
    assert_eq!(why(&node("n", 65)), Some(Why::TooMany(65)));
    let mut arm = node("n", 8);
    arm.node.arch = "arm64".to_owned();
    assert_eq!(why(&arm), Some(Why::OtherArchitecture("arm64".to_owned())));
    let (_, refused) = members(&definition(&["gone"]), &[], &[]);
    assert_eq!(refused[0].why, Why::Missing);
    let mut other = definition(&["n"]);
    other.set.name = "other".to_owned();
    let (_, refused) = members(&definition(&["n"]), &[node("n", 8)], &[other]);
    assert_eq!(refused[0].why, Why::InSet("other".to_owned()));
}

#[test]
fn a1_every_kind_that_only_pcie_cards_carry_refuses_nvswitch() {
    let mut set = definition(&["n"]);
    set.set.gpu_kind = "nvidia-l40s".to_owned();
    let seen = labeled(node("n", 8), "nvidia.com/gpu.product", "NVIDIA-L40S");
    let (_, refused) = members(&set, std::slice::from_ref(&seen), &[]);
    assert!(matches!(
        refused[0].why,
        Why::OtherFabric {
            found: Fabric::Pcie,
            ..
        }
    ));
    set.set.fabric = Fabric::Pcie;
    assert_eq!(members(&set, &[seen], &[]).0.len(), 1);
    let sxm = node("n", 8);
    let mut pcie = definition(&["n"]);
    pcie.set.fabric = Fabric::Pcie;
    assert!(matches!(
        members(&pcie, &[sxm], &[]).1[0].why,
        Why::OtherFabric {
            found: Fabric::Nvswitch,
            ..
        }
    ));
}

#[test]
fn passthrough_cards_count_and_slices_do_not() {
    let count = |names: &[(&str, u64)]| {
        cards(
            &names
                .iter()
                .map(|(name, count)| ((*name).to_owned(), *count))
                .collect(),
        )
    };
    assert_eq!(
        count(&[
            ("nvidia.com/GA100_A100_SXM4_80GB", 6),
            ("nvidia.com/gpu", 2)
        ]),
        8
    );
    assert_eq!(
        count(&[
            ("nvidia.com/mig-1g.5gb", 7),
            ("nvidia.com/gpu.shared", 4),
            ("amd.com/gpu", 1)
        ]),
        0
    );
}

#[test]
fn a2_blocks_of_a_node_can_be_its_own_and_bad_ones_refuse_it() {
    let with = |blocks: &str| {
        let mut seen = node("n", 2);
        seen.annotations
            .insert(marks::BLOCKS.to_owned(), blocks.to_owned());
        seen
    };
    let (nodes, _) = members(&definition(&["n"]), &[with("[[0],[1]]")], &[]);
    assert_eq!(nodes[0].blocks, Some(vec![vec![0], vec![1]]));
    for bad in ["[[0,1,2]]", "[[0],[7]]", "0,1"] {
        assert!(matches!(why(&with(bad)), Some(Why::BadBlocks(_))), "{bad}");
    }
}

#[test]
fn a11c_a_node_that_lost_a_card_or_is_not_ready_is_not_planned_on() {
    let mut lost = node("n", 8);
    lost.node.allocatable.insert("nvidia.com/gpu".to_owned(), 7);
    let (nodes, _) = members(&definition(&["n"]), &[lost], &[]);
    assert_eq!((nodes[0].ready, nodes[0].gpus), (false, 8));
    let draining = labeled(node("n", 8), marks::DRAIN, "true");
    assert!(members(&definition(&["n"]), &[draining], &[]).0[0].draining);
}

#[test]
fn a_workload_is_a_claim_in_the_state_that_its_notice_says() {
    let placed = [(marks::NODE, "n"), (marks::CARDS, "1,0")];
    let notice = [
        (marks::CARDS, "2"),
        (marks::DEADLINE, "2026-11-30T12:01:00Z"),
        (marks::REASON, "rental_reclaim"),
        (marks::FOR, "vm/ml/w"),
    ];
    let found = assembled(
        vec![node("n", 8)],
        vec![
            marked(
                vm("w", "rentals", 4, Phase::Waiting, None),
                &[(marks::REQUESTED_AT, "2026-11-01T00:00:00Z")],
            ),
            marked(vm("r", "batch", 2, Phase::Running, None), &placed),
            marked(vm("x", "batch", 1, Phase::Running, Some("n")), &notice),
            marked(
                vm("s", "batch", 1, Phase::Stopping, Some("n")),
                &[(marks::CARDS, "3")],
            ),
        ],
        Vec::new(),
    );
    let claims = &found.snapshot.claims;
    let states: Vec<_> = claims
        .iter()
        .map(|claim| (claim.name.as_str(), claim.state))
        .collect();
    assert_eq!(
        states,
        [
            ("vm/ml/r", State::Running),
            ("vm/ml/s", State::Stopping),
            ("vm/ml/w", State::Waiting),
            ("vm/ml/x", State::Noticed)
        ]
    );
    assert_eq!(
        (claims[0].node.as_deref(), claims[0].cards.as_slice()),
        (Some("n"), &[0, 1][..])
    );
    assert_eq!(
        claims[2].requested_at.unwrap().to_string(),
        "2026-11-01T00:00:00Z"
    );
    assert_eq!(claims[2].started_at, None);
    assert_eq!(
        (claims[3].reason, claims[3].purpose.as_deref()),
        (Some(Reason::RentalReclaim), Some("vm/ml/w"))
    );
    assert!(found.notes.is_empty(), "{:?}", found.notes);
}

#[test]
fn cards_that_are_not_said_are_assumed_after_those_that_are_and_that_is_said() {
    let found = assembled(
        vec![node("n", 8)],
        vec![
            vm("a", "batch", 2, Phase::Running, Some("n")),
            marked(
                vm("b", "batch", 1, Phase::Running, Some("n")),
                &[(marks::CARDS, "0")],
            ),
            marked(
                vm("c", "batch", 1, Phase::Running, Some("n")),
                &[(marks::CARDS, "0")],
            ),
        ],
        Vec::new(),
    );
    let held: Vec<_> = found
        .snapshot
        .claims
        .iter()
        .map(|claim| claim.cards.clone())
        .collect();
    // a gets the pair beside the broken one, c the card that is left of that: larger blocks stay whole.
    assert_eq!(
        held,
        [vec![2, 3], vec![0], vec![1]].map(|cards| cards.to_vec())
    );
    assert_eq!(found.notes.len(), 2, "{:?}", found.notes);
    assert!(
        found.notes[1].contains("which others have"),
        "{:?}",
        found.notes
    );
}

#[test]
fn what_is_outside_the_set_takes_its_cards_out_of_every_block() {
    let stranger = vm("other", "", 1, Phase::Running, Some("n"));
    let found = assembled(vec![node("n", 8)], Vec::new(), vec![stranger]);
    assert_eq!(
        outcome::free_blocks(&found.snapshot),
        BTreeMap::from([(1, 7), (2, 3), (4, 1), (8, 0)])
    );
    assert!(found.notes[0].contains("vm/ml/other has 1 GPU of n and is not in the set"));
    // More than fit: nothing is planned there.
    let many = (0..3).map(|number| vm(&format!("s{number}"), "", 4, Phase::Running, Some("n")));
    let found = assembled(vec![node("n", 8)], Vec::new(), many.collect());
    assert!(!found.snapshot.nodes[0].ready);
}

#[test]
fn what_can_not_be_a_claim_is_left_out_and_said() {
    let found = assembled(
        vec![node("n", 8)],
        vec![
            vm("a", "nope", 1, Phase::Waiting, None),
            vm("b", "batch", 3, Phase::Waiting, None),
            vm("c", "batch", 3, Phase::Running, Some("n")),
            vm("d", "batch", 1, Phase::Running, Some("elsewhere")),
            marked(
                vm("e", "batch", 2, Phase::Waiting, None),
                &[(marks::NODE, "gone"), (marks::CARDS, "0,1")],
            ),
        ],
        Vec::new(),
    );
    let names: Vec<_> = found
        .snapshot
        .claims
        .iter()
        .map(|claim| claim.name.as_str())
        .collect();
    assert_eq!(names, ["vm/ml/e"]);
    assert_eq!(
        found.snapshot.claims[0].node, None,
        "a hold on what is not there is none"
    );
    let free = outcome::free_blocks(&found.snapshot);
    assert_eq!(free[&1], 5, "what runs has its cards all the same");
    for name in ["vm/ml/a", "vm/ml/b", "vm/ml/c", "vm/ml/d"] {
        assert!(
            found.notes.iter().any(|note| note.contains(name)),
            "{name}: {:?}",
            found.notes
        );
    }
}

#[test]
fn a_what_if_changes_what_it_says_and_nothing_else() {
    let running = marked(
        vm("a", "batch", 8, Phase::Running, Some("n")),
        &[(marks::CARDS, "0,1,2,3,4,5,6,7")],
    );
    let snapshot = assembled(vec![node("n", 8)], vec![running], Vec::new()).snapshot;
    assert_eq!(WhatIf::default().apply(&snapshot).unwrap(), snapshot);
    let claim = WhatIf {
        claim: Some(("rentals".to_owned(), 4)),
        ..WhatIf::default()
    };
    let changed = claim.apply(&snapshot).unwrap();
    let plan = plan_checked(&changed).unwrap();
    let losses = outcome::losses(&changed, &plan);
    assert_eq!(
        losses[0].to_string(),
        "vm/ml/a of pool batch loses 8 GPUs on n to what-if"
    );
    assert_eq!(losses[0].purpose.as_deref(), Some(CLAIM));
    assert!(outcome::losses(&snapshot, &plan_checked(&snapshot).unwrap()).is_empty());
    let floor = WhatIf {
        pools: BTreeMap::from([(
            "batch".to_owned(),
            Figures {
                floor: Some(8),
                ..Figures::default()
            },
        )]),
        ..claim.clone()
    };
    let changed = floor.apply(&snapshot).unwrap();
    assert!(outcome::losses(&changed, &plan_checked(&changed).unwrap()).is_empty());
    let drain = WhatIf {
        drain: BTreeSet::from(["n".to_owned()]),
        ..WhatIf::default()
    };
    let changed = drain.apply(&snapshot).unwrap();
    let plan = plan_checked(&changed).unwrap();
    assert_eq!(
        outcome::lines(&changed, &plan),
        [
            "notice: vm/ml/a of pool batch loses 8 GPUs on n, which is being drained, 120 s after its notice"
        ]
    );
    for wrong in [
        WhatIf {
            claim: Some(("nope".to_owned(), 1)),
            ..WhatIf::default()
        },
        WhatIf {
            drain: BTreeSet::from(["gone".to_owned()]),
            ..WhatIf::default()
        },
        WhatIf {
            pools: BTreeMap::from([("nope".to_owned(), Figures::default())]),
            ..WhatIf::default()
        },
    ] {
        assert!(wrong.apply(&snapshot).is_err(), "{wrong:?}");
    }
}
