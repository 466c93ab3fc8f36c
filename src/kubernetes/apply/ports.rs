//! Ports of a Service that something else has renumbered. Server-side apply tells ports by their number: the one that is configured
//! would come beside the changed one, under one name, which the API server refuses for ever.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{Service, ServicePort};
use serde_json::{Value, json};

use super::super::conflict::FieldConflict;
use super::super::workload::FIELD_MANAGER;

/// What must change in a Service before its ports can be applied.
pub(super) struct Displaced {
    /// All ports that it is to have: as they are, but for those that were renumbered.
    pub(super) ports: Vec<Value>,
    /// Who renumbered them, besides Loomplane.
    pub(super) others: Vec<FieldConflict>,
}

/// The ports of `live` that bear the name of one of `wanted` (as the Service's body has them), and another number or protocol; `None`
/// where there is none.
pub(super) fn displaced(live: &Service, wanted: &[Value]) -> Option<Displaced> {
    let ports = live.spec.as_ref()?.ports.as_ref()?;
    let keys: BTreeSet<_> = wanted.iter().map(key_of).collect();
    let key = |port: &ServicePort| (port.port, protocol(port).to_owned());
    let names: BTreeSet<_> = wanted.iter().map(|port| port["name"].as_str()).collect();
    let is_displaced =
        |port: &&ServicePort| !keys.contains(&key(port)) && names.contains(&port.name.as_deref());
    let (gone, kept): (Vec<_>, Vec<_>) = ports.iter().partition(is_displaced);
    if gone.is_empty() {
        return None;
    }
    let there: BTreeSet<_> = kept.iter().map(|port| key(port)).collect();
    let mut new: Vec<Value> = kept.iter().map(|port| json!(port)).collect();
    new.extend(
        wanted
            .iter()
            .filter(|port| !there.contains(&key_of(port)))
            .cloned(),
    );
    Some(Displaced {
        ports: new,
        others: gone.iter().flat_map(|port| managers(live, port)).collect(),
    })
}

fn key_of(port: &Value) -> (i32, String) {
    let number = port["port"].as_i64().and_then(|it| i32::try_from(it).ok());
    let protocol = port["protocol"].as_str().unwrap_or("TCP");
    (number.unwrap_or_default(), protocol.to_owned())
}

fn protocol(port: &ServicePort) -> &str {
    port.protocol.as_deref().unwrap_or("TCP")
}

/// Who else manages a port.
fn managers(live: &Service, port: &ServicePort) -> Vec<FieldConflict> {
    let entry = json!({"port": port.port, "protocol": protocol(port)});
    let owns = |fields: &Value| {
        let ports = fields.pointer("/f:spec/f:ports").and_then(Value::as_object);
        let mut keys = ports.into_iter().flat_map(|ports| ports.keys());
        keys.any(|key| {
            let key = key.strip_prefix("k:").map(serde_json::from_str::<Value>);
            key.is_some_and(|key| key.is_ok_and(|key| key == entry))
        })
    };
    let entries = live.metadata.managed_fields.iter().flatten();
    entries
        .filter(|it| it.fields_v1.as_ref().is_some_and(|fields| owns(&fields.0)))
        .filter_map(|it| it.manager.clone())
        .filter(|manager| manager != FIELD_MANAGER)
        .map(|manager| FieldConflict {
            manager,
            field: format!(".spec.ports[{}/{}]", port.port, protocol(port)),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn service(ports: Value) -> Service {
        serde_json::from_value(json!({
            "metadata": {"managedFields": [
                {"manager": "loomplane", "operation": "Apply", "fieldsV1": {"f:spec": {"f:ports": {"k:{\"port\":80,\"protocol\":\"TCP\"}": {}}}}},
                {"manager": "kubectl-patch", "operation": "Update", "fieldsV1": {"f:spec": {"f:ports": {"k:{\"port\":81,\"protocol\":\"TCP\"}": {"f:port": {}}}}}},
            ]},
            "spec": {"ports": ports},
        }))
        .unwrap()
    }

    #[test]
    fn a_renumbered_port_gives_way_and_others_stay() {
        let wanted = [json!({"name": "http", "port": 80, "targetPort": 80, "protocol": "TCP"})];
        let live = service(json!([
            {"name": "x", "port": 90, "protocol": "TCP", "nodePort": 30000},
            {"name": "http", "port": 81, "protocol": "TCP"},
        ]));
        let found = displaced(&live, &wanted).unwrap();
        assert_eq!(
            found.ports,
            [
                json!({"name": "x", "port": 90, "protocol": "TCP", "nodePort": 30000}),
                wanted[0].clone()
            ]
        );
        assert_eq!(
            found.others,
            [FieldConflict {
                manager: "kubectl-patch".to_owned(),
                field: ".spec.ports[81/TCP]".to_owned()
            }]
        );
    }

    #[test]
    fn ports_as_they_were_set_are_left_to_server_side_apply() {
        let wanted = [json!({"name": "http", "port": 80, "protocol": "TCP"})];
        for ports in [
            json!([]),
            json!([{"name": "http", "port": 80}]),
            json!([{"name": "renamed", "port": 80}]),
            json!([{"name": "x", "port": 90}]),
        ] {
            assert!(displaced(&service(ports), &wanted).is_none());
        }
    }
}
