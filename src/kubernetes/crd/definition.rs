//! The CustomResourceDefinition, as the cluster gets it and as `terraform-provider-loomplane crds` prints it.

use kube::CustomResourceExt as _;
use serde_json::{Value, json};

use super::types::CapacitySet;

/// Name of the CustomResourceDefinition.
pub const CRD_NAME: &str = "capacitysets.capacity.loomplane.dev";
/// Version of its schema, in the annotation [`SCHEMA_ANNOTATION`]: raise it with every change of `types.rs`. A cluster with a higher one was set up by a newer Loomplane,
/// which keeps what older ones use.
pub const SCHEMA_VERSION: u32 = 1;
/// Where [`SCHEMA_VERSION`] is written.
pub(super) const SCHEMA_ANNOTATION: &str = "capacity.loomplane.dev/schema-version";

/// The CustomResourceDefinition as an object of the API.
#[must_use]
pub fn definition() -> Value {
    let mut definition = json!(CapacitySet::crd());
    definition["metadata"]["annotations"] = json!({SCHEMA_ANNOTATION: SCHEMA_VERSION.to_string()});
    definition["metadata"]["labels"] = json!({"app.kubernetes.io/part-of": "loomplane"});
    if let Some(versions) = definition["spec"]["versions"].as_array_mut() {
        for version in versions {
            // The name is a label's value on every workload of the set, which a type of the spec can't say.
            version["schema"]["openAPIV3Schema"]["x-kubernetes-validations"] = json!([{
                "rule": "self.metadata.name.matches('^[a-z0-9]([-a-z0-9]{0,48}[a-z0-9])?$')",
                "message": "the name of a capacity set has at most 50 letters, digits and hyphens"
            }]);
        }
    }
    definition
}

/// [`definition`] as YAML, for `kubectl apply -f -`.
#[must_use]
pub fn definition_yaml() -> String {
    super::yaml::render(&definition())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_schema_is_structural_and_carries_its_rules() {
        let definition = definition();
        assert_eq!(definition["metadata"]["name"], CRD_NAME);
        assert_eq!(definition["spec"]["scope"], "Cluster");
        let version = &definition["spec"]["versions"][0];
        assert_eq!(version["subresources"]["status"], json!({}));
        let spec = &version["schema"]["openAPIV3Schema"]["properties"]["spec"];
        assert_eq!(
            spec["x-kubernetes-validations"].as_array().unwrap().len(),
            3
        );
        let pool = &spec["properties"]["pools"]["items"];
        assert_eq!(
            pool["x-kubernetes-validations"].as_array().unwrap().len(),
            5
        );
        assert_eq!(
            spec["properties"]["pools"]["x-kubernetes-list-map-keys"],
            json!(["name"])
        );
        assert!(!definition.to_string().contains("$ref"));
    }

    #[test]
    fn the_yaml_is_the_definition() {
        let back: Value = serde_saphyr::from_str(&definition_yaml()).unwrap();
        assert_eq!(back, definition());
    }
}
