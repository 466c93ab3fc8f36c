use super::*;
use crate::capacity::server::tests::{card, server};
use crate::capacity::server::{CardUuid, check};
use proptest::prelude::*;

fn four_l4() -> ServerCheck {
    check(&server(
        (0..4)
            .map(|index| card(index, "NVIDIA L4", 23_034))
            .collect(),
    ))
}

fn uuid(index: u32) -> CardUuid {
    card(index, "", 0).uuid
}

fn container(
    name: &str,
    state: ContainerState,
    service: Option<&str>,
    grants: Vec<Grant>,
) -> Container {
    Container {
        id: name.to_owned(),
        name: name.to_owned(),
        state,
        service: service.map(ToOwned::to_owned),
        restarts: false,
        grants,
    }
}

fn id(index: u32) -> Grant {
    Grant::Id(uuid(index).0)
}

fn ask(count: i64) -> CardAsk<'static> {
    CardAsk {
        request: GpuRequest::parse("nvidia-l4", count).unwrap(),
        service: "chat",
        keep: &[],
        budget: None,
    }
}

#[test]
fn s3a_who_holds_a_card() {
    use ContainerState::*;
    for state in [Created, Running, Paused, Restarting, Removing, Exited, Dead] {
        let alive = matches!(state, Running | Paused | Restarting);
        let foreign = container("x", state, None, vec![]);
        assert_eq!(foreign.holds(), alive, "{state:?}");
        assert!(
            container("x", state, Some("chat"), vec![]).holds(),
            "with our mark: {state:?}"
        );
        assert!(
            Container {
                restarts: true,
                ..foreign
            }
            .holds(),
            "with a restart policy: {state:?}"
        );
    }
    assert_eq!(ContainerState::parse("paused"), Paused);
    assert_eq!(ContainerState::parse("something new"), Running);
}

#[test]
fn s3a_every_way_in_which_a_container_was_given_cards() {
    let cards = four_l4().cards;
    let held = |grant: Grant| -> Vec<u32> {
        let ledger = Ledger::new(
            &cards,
            &[container("x", ContainerState::Running, None, vec![grant])],
        );
        (0..4)
            .filter(|index| !ledger.holders(&uuid(*index)).is_empty())
            .collect()
    };
    assert_eq!(held(Grant::All), [0, 1, 2, 3]);
    assert_eq!(held(Grant::First(2)), [0, 1]);
    assert_eq!(held(id(2)), [2]);
    assert_eq!(held(Grant::Id(uuid(2).0.to_uppercase())), [2]);
    assert_eq!(held(Grant::Id("3".to_owned())), [3]);
    assert_eq!(held(Grant::Id("GPU-00000001".to_owned())), [1]);
    for nothing in ["", "GPU-", "9", "MIG-1", "none"] {
        assert_eq!(held(Grant::Id(nothing.to_owned())), [0; 0], "{nothing}");
    }
}

#[test]
fn s3_free_cards_are_given_by_uuid_in_the_machines_order() {
    let check = four_l4();
    let ledger = Ledger::new(
        &check.cards,
        &[container(
            "x",
            ContainerState::Running,
            None,
            vec![id(0), id(2)],
        )],
    );
    let given = allocate(&check, &ledger, ask(2)).unwrap();
    assert_eq!(
        (given.cards, given.used_outside),
        (vec![uuid(1), uuid(3)], vec![])
    );
}

#[test]
fn s3_a_server_with_two_cards_runs_two_single_card_services() {
    let check = check(&server(
        (0..2)
            .map(|index| card(index, "NVIDIA L4", 23_034))
            .collect(),
    ));
    let mut containers = Vec::new();
    for service in ["one", "two", "three"] {
        let ledger = Ledger::new(&check.cards, &containers);
        match allocate(&check, &ledger, CardAsk { service, ..ask(1) }) {
            Ok(given) => {
                let grants = given
                    .cards
                    .into_iter()
                    .map(|uuid| Grant::Id(uuid.0))
                    .collect();
                containers.push(container(
                    service,
                    ContainerState::Running,
                    Some(service),
                    grants,
                ));
            }
            Err(shortage) => assert_eq!(
                (service, shortage.free, shortage.holders.len()),
                ("three", 0, 2)
            ),
        }
    }
    assert_eq!(containers.len(), 2);
}

#[test]
fn s3a_cards_used_outside_containers_are_given_last_with_a_warning() {
    let mut cards: Vec<_> = (0..3)
        .map(|index| card(index, "NVIDIA L4", 23_034))
        .collect();
    cards[0].outside_processes = 1;
    let check = check(&server(cards));
    let given = allocate(&check, &Ledger::default(), ask(2)).unwrap();
    assert_eq!(
        (given.cards, given.used_outside),
        (vec![uuid(1), uuid(2)], vec![])
    );
    let given = allocate(&check, &Ledger::default(), ask(3)).unwrap();
    assert_eq!(given.used_outside, [uuid(0)]);
    assert_eq!(
        fit(&check, &Ledger::default(), ask(3), &BTreeSet::new()),
        CardFit::Fits { used_outside: 1 }
    );
    assert!(
        CardFit::Fits { used_outside: 1 }
            .render_warning("rack1", ask(3).request)
            .is_some()
    );
}

#[test]
fn s5_a_service_keeps_its_cards() {
    let check = four_l4();
    let ledger = Ledger::new(
        &check.cards,
        &[container(
            "chat",
            ContainerState::Running,
            Some("chat"),
            vec![id(3)],
        )],
    );
    let keep = [uuid(3)];
    let given = allocate(
        &check,
        &ledger,
        CardAsk {
            keep: &keep,
            ..ask(2)
        },
    )
    .unwrap();
    assert_eq!(given.cards, [uuid(0), uuid(3)]);
    // Another service's card is not kept, whatever the state says.
    let keep = [uuid(3)];
    let given = allocate(
        &check,
        &ledger,
        CardAsk {
            keep: &keep,
            service: "other",
            ..ask(3)
        },
    )
    .unwrap();
    assert_eq!(given.cards, [uuid(0), uuid(1), uuid(2)]);
}

#[test]
fn s3b_foreign_containers_and_staying_services_are_an_error_at_plan() {
    let check = four_l4();
    let containers = [
        container("trainer", ContainerState::Running, None, vec![id(0), id(1)]),
        container("embed", ContainerState::Running, Some("embed"), vec![id(2)]),
    ];
    let ledger = Ledger::new(&check.cards, &containers);
    let staying = BTreeSet::from(["embed".to_owned()]);
    assert_eq!(
        fit(&check, &ledger, ask(1), &staying),
        CardFit::Fits { used_outside: 0 }
    );
    let CardFit::TooFew(shortage) = fit(&check, &ledger, ask(2), &staying) else {
        panic!("2 fit")
    };
    assert_eq!(
        shortage.render("rack1").detail,
        "Asked for 2 x nvidia-l4 on rack1, which has 4 usable nvidia-l4, 1 free:\n\
         \x20 1 GPU held by service embed\n\
         \x20 2 GPUs held by container trainer (not started by Loomplane)\n\
         Stop or remove what holds them, or use a target with free GPUs: data.loomplane_gpu_targets lists them."
    );
}

#[test]
fn s3b_services_that_may_leave_are_a_warning_that_names_them() {
    let check = four_l4();
    let containers = [
        container("trainer", ContainerState::Running, None, vec![id(0)]),
        container(
            "old-name",
            ContainerState::Exited,
            Some("old-name"),
            vec![id(1), id(2), id(3)],
        ),
    ];
    let ledger = Ledger::new(&check.cards, &containers);
    let answer = fit(&check, &ledger, ask(3), &BTreeSet::new());
    let warning = answer.render_warning("rack1", ask(3).request).unwrap();
    assert!(
        warning
            .detail
            .contains("3 GPUs held by service old-name; free once service old-name is removed"),
        "{}",
        warning.detail
    );
    assert!(matches!(
        fit(&check, &ledger, ask(4), &BTreeSet::new()),
        CardFit::TooFew(_)
    ));
}

#[test]
fn s3b_a_card_that_a_foreign_container_holds_too_does_not_come_free() {
    let check = four_l4();
    let containers = [
        container("trainer", ContainerState::Running, None, vec![Grant::All]),
        container(
            "old-name",
            ContainerState::Running,
            Some("old-name"),
            vec![Grant::All],
        ),
    ];
    let ledger = Ledger::new(&check.cards, &containers);
    assert!(matches!(
        fit(&check, &ledger, ask(1), &BTreeSet::new()),
        CardFit::TooFew(_)
    ));
}

#[test]
fn s3b_what_the_service_itself_holds_is_not_taken() {
    let check = four_l4();
    let ledger = Ledger::new(
        &check.cards,
        &[container(
            "chat",
            ContainerState::Running,
            Some("chat"),
            vec![Grant::All],
        )],
    );
    assert_eq!(
        fit(&check, &ledger, ask(4), &BTreeSet::new()),
        CardFit::Fits { used_outside: 0 }
    );
}

#[test]
fn g10_what_an_imported_container_of_the_services_name_holds_is_not_taken() {
    use ContainerState::Running;
    let check = four_l4();
    let held = |name: &str, service: Option<&str>| {
        let all = vec![id(0), id(1), id(2), id(3)];
        Ledger::new(&check.cards, &[container(name, Running, service, all)])
    };
    assert!(allocate(&check, &held("chat", None), ask(4)).is_ok());
    assert!(allocate(&check, &held("other", None), ask(1)).is_err());
    // Another service's mark counts, whatever the container is called.
    assert!(allocate(&check, &held("chat", Some("other")), ask(1)).is_err());
}

#[test]
fn a_shortage_says_what_the_server_has_instead() {
    let mut mig = card(0, "NVIDIA A100-SXM4-40GB", 40_960);
    mig.mig = super::super::server::MigMode::On;
    let check = check(&server(vec![mig, card(1, "NVIDIA L4", 23_034)]));
    let h100 = GpuRequest::parse("nvidia-h100-80gb", 1).unwrap();
    let shortage = allocate(
        &check,
        &Ledger::default(),
        CardAsk {
            request: h100,
            ..ask(1)
        },
    )
    .unwrap_err();
    assert_eq!(
        shortage.render("rack1").detail,
        "Asked for 1 x nvidia-h100-80gb on rack1, which has no usable nvidia-h100-80gb:\n\
         \x20 1 GPU can't be used, NVIDIA A100-SXM4-40GB: MIG is on: its slices are not whole GPUs. Turn MIG off (nvidia-smi -mig 0) to use the card.\n\
         \x20 1 GPU of another kind: NVIDIA L4\n\
         Ask for a kind that it has, or use a target with nvidia-h100-80gb: data.loomplane_gpu_targets lists them."
    );
    let two = allocate(&check, &Ledger::default(), ask(2))
        .unwrap_err()
        .render("rack1")
        .detail;
    assert!(two.ends_with("Ask for count = 1 at most, or use a target with 2 GPUs: data.loomplane_gpu_targets lists them."), "{two}");
}

#[test]
fn o1_a_pool_hands_out_no_more_than_its_budget() {
    let check = four_l4();
    let budget = |gpus, handed_out| CardAsk {
        budget: Some(Budget { gpus, handed_out }),
        ..ask(2)
    };
    assert!(allocate(&check, &Ledger::default(), budget(3, 1)).is_ok());
    let shortage = allocate(&check, &Ledger::default(), budget(3, 2)).unwrap_err();
    assert_eq!(
        shortage.budget,
        Some(Budget {
            gpus: 3,
            handed_out: 2
        })
    );
    assert!(
        shortage
            .render("rack1")
            .detail
            .contains("the pool's budget here is 3 GPUs, 2 of it handed out")
    );
    assert!(matches!(
        fit(&check, &Ledger::default(), budget(1, 0), &BTreeSet::new()),
        CardFit::TooFew(_)
    ));
}

fn any_container() -> impl Strategy<Value = Container> {
    let grant = prop_oneof![
        Just(Grant::All),
        (0..4u32).prop_map(Grant::First),
        (0..4u32).prop_map(id),
        (0..5u32).prop_map(|index| Grant::Id(index.to_string()))
    ];
    let state = proptest::sample::select(vec!["created", "running", "paused", "exited", "dead"]);
    let service = proptest::option::of(proptest::sample::select(vec!["chat", "embed", "other"]));
    (
        state,
        service,
        any::<bool>(),
        proptest::collection::vec(grant, 0..3),
    )
        .prop_map(|(state, service, restarts, grants)| Container {
            restarts,
            ..container("c", ContainerState::parse(state), service, grants)
        })
}

proptest! {
    #[test]
    fn s3_no_card_is_given_that_another_holds(containers in proptest::collection::vec(any_container(), 0..5), count in 1..=4i64) {
        let check = four_l4();
        let ledger = Ledger::new(&check.cards, &containers);
        let free = (0..4).filter(|index| ledger.holders(&uuid(*index)).iter().all(|holder| holder.service.as_deref() == Some("chat"))).count();
        match allocate(&check, &ledger, ask(count)) {
            Ok(given) => {
                prop_assert_eq!(given.cards.len() as i64, count);
                prop_assert!(given.cards.windows(2).all(|pair| pair[0] < pair[1]));
                prop_assert!(given.cards.iter().flat_map(|card| ledger.holders(card)).all(|holder| holder.service.as_deref() == Some("chat")));
            }
            Err(shortage) => {
                prop_assert!((free as i64) < count);
                prop_assert_eq!(shortage.free as usize, free);
            }
        }
        // A plan that says "fits" is one whose apply, from the same facts, finds the cards.
        let fits = matches!(fit(&check, &ledger, ask(count), &BTreeSet::new()), CardFit::Fits { .. });
        prop_assert_eq!(fits, free as i64 >= count);
    }
}
