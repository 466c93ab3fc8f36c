use tf_provider_sdk::{resource::Resource, schema::Schema};

use super::CapacitySet;

#[test]
fn the_schema_can_be_expressed_and_says_what_replaces() {
    let schema = Schema::of::<CapacitySet>(CapacitySet::VERSION).unwrap();
    let replacing: Vec<_> = schema
        .attributes
        .iter()
        .filter(|(_, a)| a.replace)
        .map(|(name, _)| name.as_str())
        .collect();
    assert_eq!(replacing, ["name"]);
    assert!(
        schema
            .attributes
            .values()
            .all(|attribute| !attribute.description.is_empty())
    );
}
