use tf_provider_sdk::{resource::Resource, schema::Schema};

use super::GpuService;

#[test]
fn the_schema_can_be_expressed_and_says_what_replaces() {
    let schema = Schema::of::<GpuService>(GpuService::VERSION).unwrap();
    let replacing: Vec<_> = schema
        .attributes
        .iter()
        .filter(|(_, a)| a.replace)
        .map(|(name, _)| name.as_str())
        .collect();
    assert_eq!(replacing, ["name", "namespace"]);
    assert!(schema.attributes["secret_env"].write_only);
    assert!(
        schema
            .attributes
            .values()
            .all(|attribute| !attribute.description.is_empty())
    );
}
