//! For random schemas, configurations and prior states: what is planned satisfies the rules that Terraform's core applies
//! (`core.rs`, written from their description, not from the engine), and what is applied is consistent with the plan.

mod core;
mod random;

use proptest::prelude::*;
use random::Random;

use super::*;

/// What a provider's hook may do: give known values to attributes that are unknown and not configured.
fn hook(random: &mut Random, attributes: &Attributes, config: &Value, planned: &mut Value) {
    let Value::Map(values) = planned else { return };
    for (name, attribute) in attributes {
        if values[name].is_unknown() && config.attribute(name).is_null() && random.one_in(3) {
            let value = random.value(&attribute.ty(), 0);
            values.insert(name.clone(), value);
        }
    }
}

/// What a provider returns from apply: the plan with values for the unknown, and sometimes something else.
fn result(random: &mut Random, attributes: &Attributes, planned: &Value, faithful: bool) -> Value {
    let Value::Map(values) = planned else {
        return planned.clone();
    };
    let of = |random: &mut Random, name: &str, attribute: &Attribute| {
        let value = values.get(name).unwrap();
        let other = !faithful && random.one_in(4);
        match (&attribute.kind, value) {
            (_, value) if value.is_unknown() || other => random.value(&attribute.ty(), 0),
            (Kind::Nested(Nesting::Single, nested), Value::Map(_)) => {
                result(random, nested, value, faithful)
            }
            (Kind::Nested(Nesting::List, nested), Value::List(items)) => Value::List(
                items
                    .iter()
                    .map(|item| result(random, nested, item, faithful))
                    .collect(),
            ),
            (Kind::Nested(Nesting::Map, nested), Value::Map(items)) => Value::Map(
                items
                    .iter()
                    .map(|(key, item)| (key.clone(), result(random, nested, item, faithful)))
                    .collect(),
            ),
            (_, value) => random.fill(value, &attribute.ty()),
        }
    };
    Value::Map(
        attributes
            .iter()
            .map(|(name, attribute)| (name.clone(), of(random, name, attribute)))
            .collect(),
    )
}

struct Planned {
    config: Value,
    prior: Value,
    draft: Draft,
    planned: Value,
}

/// A plan from one random configuration over the state that applying another left.
fn plan_of(random: &mut Random, schema: &Schema, prior: &Value, config: Value) -> Planned {
    let proposed = core::proposed_new(&schema.attributes, prior, &config);
    let draft = draft(schema, &config, prior, &proposed);
    let mut planned = draft.planned.clone();
    hook(random, &schema.attributes, &config, &mut planned);
    without_write_only(schema, &mut planned);
    Planned {
        config,
        prior: prior.clone(),
        draft,
        planned,
    }
}

fn applied(
    random: &mut Random,
    schema: &Schema,
    config: Value,
    prior: &Value,
    faithful: bool,
) -> (Planned, Value) {
    let plan = plan_of(random, schema, prior, config);
    let result = result(random, &schema.attributes, &plan.planned, faithful);
    let (state, _) = settle(schema, &plan.planned, &result);
    (plan, state)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn p1_to_p8_every_plan_is_one_that_core_accepts(seed: u64) {
        let random = &mut Random::new(seed);
        let schema = random.schema();
        let known = random.config(&schema, false);
        let (_, prior) = applied(random, &schema, known, &Value::Null, true);
        let prior = if random.one_in(4) { Value::Null } else { prior };
        let config = random.config(&schema, true);
        let plan = plan_of(random, &schema, &prior, config);
        let faults = core::plan_faults(&schema.attributes, &plan.config, &plan.prior, &plan.planned);
        prop_assert!(faults.is_empty(), "{faults:?}\n{:#?}", plan.planned);
        prop_assert_eq!(violations(&schema, &plan.config, &plan.prior, &plan.planned), vec![]);
        prop_assert!(core::conforms(&plan.planned, &schema.ty(), true));
    }

    #[test]
    fn a1_a2_apply_is_never_inconsistent_with_its_plan(seed: u64, faithful: bool) {
        let random = &mut Random::new(seed);
        let schema = random.schema();
        let first = random.config(&schema, false);
        let (plan, prior) = applied(random, &schema, first, &Value::Null, faithful);
        prop_assert_eq!(core::apply_faults(&schema.ty(), &plan.planned, &prior), Vec::<String>::new());
        let second = random.config(&schema, false);
        let (plan, state) = applied(random, &schema, second, &prior, faithful);
        prop_assert_eq!(core::apply_faults(&schema.ty(), &plan.planned, &state), Vec::<String>::new());
        prop_assert!(core::conforms(&state, &schema.ty(), false));
    }

    #[test]
    fn p4_a_second_plan_of_the_same_configuration_is_empty(seed: u64) {
        let random = &mut Random::new(seed);
        let schema = random.schema();
        let config = random.config(&schema, false);
        let (_, state) = applied(random, &schema, config.clone(), &Value::Null, true);
        let again = plan_of(random, &schema, &state, config);
        for (name, attribute) in &schema.attributes {
            let (now, was) = (again.draft.planned.attribute(name), state.attribute(name));
            prop_assert!(now.equals(was, &attribute.ty()), "{name} {attribute:?}\nplanned {now:?}\nstate {was:?}\nconfig {:?}", again.config.attribute(name));
        }
        prop_assert!(!again.draft.changed);
        prop_assert!(again.draft.planned.equals(&state, &schema.ty()));
        prop_assert_eq!(replaced(&schema, &state, &again.draft.planned), vec![]);
    }

    #[test]
    fn a1_unknown_values_that_become_known_keep_every_known_value(seed: u64) {
        let random = &mut Random::new(seed);
        let schema = random.schema();
        let partly = random.config(&schema, true);
        let proposed = core::proposed_new(&schema.attributes, &Value::Null, &partly);
        let first = draft(&schema, &partly, &Value::Null, &proposed).planned;
        let whole = random.fill(&partly, &schema.ty());
        let proposed = core::proposed_new(&schema.attributes, &Value::Null, &whole);
        let second = draft(&schema, &whole, &Value::Null, &proposed).planned;
        prop_assert_eq!(core::final_plan_faults(&first, &second), Vec::<String>::new());
    }
}

#[test]
fn a_hook_that_breaks_a_rule_is_named() {
    let random = &mut Random::new(7);
    let schema = loop {
        let schema = random.schema();
        if schema
            .attributes
            .values()
            .any(|a| a.required && matches!(a.kind, Kind::Plain(_)))
        {
            break schema;
        }
    };
    let config = random.config(&schema, false);
    let mut planned = plan_of(random, &schema, &Value::Null, config.clone()).planned;
    let (name, attribute) = schema
        .attributes
        .iter()
        .find(|(_, a)| a.required && matches!(a.kind, Kind::Plain(_)))
        .unwrap();
    let other = loop {
        let value = random.value(&attribute.ty(), 0);
        if !value.equals(config.attribute(name), &attribute.ty()) {
            break value;
        }
    };
    planned.set_attribute(name.clone(), other);
    let found = violations(&schema, &config, &Value::Null, &planned);
    let paths: Vec<_> = found.iter().map(|(path, _)| path.to_string()).collect();
    assert_eq!(paths, std::slice::from_ref(name));
    assert!(!core::plan_faults(&schema.attributes, &config, &Value::Null, &planned).is_empty());
}

#[test]
fn p8_a_hook_that_plans_a_write_only_value_is_named_wherever_it_is() {
    let random = &mut Random::new(11);
    let mut found = 0;
    for _ in 0..2000 {
        let schema = random.schema();
        let config = random.config(&schema, false);
        let proposed = core::proposed_new(&schema.attributes, &Value::Null, &config);
        let mut planned = draft(&schema, &config, &Value::Null, &proposed).planned;
        hook(random, &schema.attributes, &config, &mut planned);
        let mut clean = planned.clone();
        without_write_only(&schema, &mut clean);
        let named = violations(&schema, &config, &Value::Null, &planned);
        assert_eq!(
            named.is_empty(),
            clean == planned,
            "{named:?}\n{planned:#?}"
        );
        found += usize::from(!named.is_empty());
    }
    assert!(
        found > 5,
        "the random hooks are meant to do it now and then: {found}"
    );
}

#[test]
fn replacement_is_asked_where_a_replacing_attribute_changed() {
    let random = &mut Random::new(3);
    let mut asked = 0;
    for _ in 0..500 {
        let schema = random.schema();
        let config = random.config(&schema, false);
        let (_, prior) = applied(random, &schema, config, &Value::Null, true);
        let config = random.config(&schema, false);
        let plan = plan_of(random, &schema, &prior, config);
        for path in replaced(&schema, &prior, &plan.planned) {
            asked += 1;
            assert_ne!(prior.get(&path), plan.planned.get(&path), "{path}");
        }
    }
    assert!(
        asked > 20,
        "the random schemas are meant to replace now and then: {asked}"
    );
}
