//! Fields that another field manager owns, as server-side apply reports them.

/// One field of an object, and who manages it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct FieldConflict {
    /// The other manager, such as `kubectl-edit`.
    pub manager: String,
    /// The field, such as `.spec.replicas`.
    pub field: String,
}

/// Reads one cause of a 409 answer: message `conflict with "kubectl-edit" using apps/v1`, field `.spec.replicas`.
pub(super) fn parse(message: &str, field: &str) -> FieldConflict {
    let manager = message.split('"').nth(1).unwrap_or(message);
    FieldConflict {
        manager: manager.to_owned(),
        field: field.to_owned(),
    }
}

/// One line per field, for a message.
pub(super) fn render(conflicts: &[FieldConflict]) -> String {
    let mut lines: Vec<String> = conflicts
        .iter()
        .map(|conflict| format!("  {} is managed by {}", conflict.field, conflict.manager))
        .collect();
    lines.sort();
    lines.dedup();
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn g10_a_conflict_names_the_manager_and_the_field() {
        let conflict = parse(
            "conflict with \"kubectl-edit\" with subresource \"scale\" using apps/v1",
            ".spec.replicas",
        );
        assert_eq!(conflict.manager, "kubectl-edit");
        assert_eq!(
            render(&[conflict]),
            "  .spec.replicas is managed by kubectl-edit"
        );
    }
}
