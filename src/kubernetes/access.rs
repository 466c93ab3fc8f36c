//! What to say about missing rights: the ClusterRole and binding that fix them (K1).

/// Text with the objects that let `identity` list nodes; a service account or user when it is known.
#[must_use]
pub fn fix_for_nodes(identity: Option<&str>) -> String {
    let (who, subject) = who_and_subject(identity);
    format!(
        "A cluster administrator can let {who} do it with `kubectl apply -f` of:

apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: loomplane-node-reader
rules:
  - apiGroups: [\"\"]
    resources: [nodes]
    verbs: [get, list]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata:
  name: loomplane-node-reader
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: ClusterRole
  name: loomplane-node-reader
subjects:
{subject}

Where that can't be, declare the cluster's GPU nodes in gpu_node_groups."
    )
}

/// Who `identity` is in words, and as a subject of a binding.
pub(super) fn who_and_subject(identity: Option<&str>) -> (String, String) {
    let account = identity
        .and_then(|user| user.strip_prefix("system:serviceaccount:"))
        .and_then(|rest| rest.split_once(':'));
    match (account, identity) {
        (Some((namespace, name)), _) => (
            format!("service account {name} of namespace {namespace}"),
            format!("  - kind: ServiceAccount\n    name: {name}\n    namespace: {namespace}"),
        ),
        (None, Some(user)) => (format!("user {user}"), format!("  - kind: User\n    apiGroup: rbac.authorization.k8s.io\n    name: {user:?}")),
        (None, None) => (
            "the service account in use".to_owned(),
            "  - kind: ServiceAccount\n    name: NAME_OF_THE_SERVICE_ACCOUNT\n    namespace: ITS_NAMESPACE".to_owned(),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn k1_the_binding_names_the_service_account_in_use() {
        let text = fix_for_nodes(Some("system:serviceaccount:ml:ci"));
        assert!(
            text.contains("  - kind: ServiceAccount\n    name: ci\n    namespace: ml\n"),
            "{text}"
        );
        assert!(fix_for_nodes(Some("alice@example.net")).contains("name: \"alice@example.net\""));
        assert!(fix_for_nodes(None).contains("NAME_OF_THE_SERVICE_ACCOUNT"));
    }
}
