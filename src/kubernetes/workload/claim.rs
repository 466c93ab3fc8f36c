//! Whether a claim that is there can be what a volume asks for.

use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use serde_json::Value;

use super::quantity;

/// Why a kept claim can't become what is `wanted` (the claim as it would be applied), with what to do. `None`: it can.
#[must_use]
pub fn claim_problem(live: &PersistentVolumeClaim, wanted: &Value) -> Option<String> {
    let spec = live.spec.as_ref()?;
    let requested = spec
        .resources
        .as_ref()
        .and_then(|resources| resources.requests.as_ref())
        .and_then(|requests| requests.get("storage"));
    // What the volume really has counts too: a resize may have gone further than the request says.
    let has = requested.and_then(|storage| quantity::gibi(&storage.0));
    let asked = wanted["spec"]["resources"]["requests"]["storage"]
        .as_str()
        .and_then(quantity::gibi);
    if let (Some(has), Some(asked)) = (has, asked)
        && asked < has
    {
        return Some(format!(
            "it has {has} GiB and {asked} are asked for, and a claim can't shrink. Set size_gib to {has} or more"
        ));
    }
    let class = wanted["spec"]["storageClassName"].as_str();
    if let (Some(has), Some(asked)) = (spec.storage_class_name.as_deref(), class)
        && has != asked
    {
        return Some(format!(
            "its storage class is {has} and the connection picks {asked}, and a claim can't change its class. Pick {has} on the connection"
        ));
    }
    let mode = wanted["spec"]["accessModes"][0].as_str()?;
    let modes = spec.access_modes.as_deref().unwrap_or_default();
    (modes != [mode]).then(|| {
        format!(
            "its access mode is {} and {mode} is asked for, and a claim can't change that. Set access_mode to what it has",
            modes.join(", ")
        )
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn claim(storage: &str, class: &str, mode: &str) -> Value {
        json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "it-data"}, "spec": {
            "accessModes": [mode], "storageClassName": class, "resources": {"requests": {"storage": storage}}}})
    }

    #[test]
    fn g10_a_kept_claim_must_be_able_to_become_what_is_asked() {
        let live = serde_json::from_value(claim("10Gi", "retain", "ReadWriteOnce")).unwrap();
        for (wanted, says) in [
            (claim("10Gi", "retain", "ReadWriteOnce"), None),
            (claim("20Gi", "retain", "ReadWriteOnce"), None),
            (
                claim("5Gi", "retain", "ReadWriteOnce"),
                Some("it has 10 GiB and 5 are asked for"),
            ),
            (
                claim("10Gi", "other", "ReadWriteOnce"),
                Some("its storage class is retain and the connection picks other"),
            ),
            (
                claim("10Gi", "retain", "ReadWriteMany"),
                Some("its access mode is ReadWriteOnce and ReadWriteMany is asked for"),
            ),
        ] {
            let problem = claim_problem(&live, &wanted);
            match says {
                None => assert_eq!(problem, None),
                Some(says) => assert!(
                    problem.as_ref().is_some_and(|it| it.starts_with(says)),
                    "{problem:?}"
                ),
            }
        }
    }
}
