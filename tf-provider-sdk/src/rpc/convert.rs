//! Between protocol messages and our types.

use std::time::{Duration, SystemTime};

use crate::{
    diagnostic::{Diagnostic, Diagnostics, Severity},
    generated::tfplugin6 as pb,
    json, msgpack,
    path::{Path, Step},
    types::Type,
    value::Value,
};

/// A value that core sent: msgpack, else JSON; neither, or no message at all, is null.
pub(super) fn from_dynamic(
    value: Option<&pb::DynamicValue>,
    ty: &Type,
) -> Result<Value, Diagnostic> {
    let unreadable = |path: Path, why: String| {
        Diagnostic::error(
            "A value from Terraform can't be read",
            format!("{why}. The schema that Terraform knows may be of another version of this provider: run `terraform init -upgrade`."),
        )
        .at(path)
    };
    match value {
        Some(value) if !value.msgpack.is_empty() => msgpack::decode(&value.msgpack, ty)
            .map_err(|why| unreadable(why.path.clone(), why.to_string())),
        Some(value) if !value.json.is_empty() => json::decode(&value.json, ty)
            .map_err(|why| unreadable(why.path.clone(), why.to_string())),
        _ => Ok(Value::Null),
    }
}

/// A value for core.
pub(super) fn to_dynamic(value: &Value, ty: &Type) -> Result<pb::DynamicValue, Diagnostic> {
    match msgpack::encode(value, ty) {
        Ok(msgpack) => Ok(pb::DynamicValue {
            msgpack,
            json: Vec::new(),
        }),
        Err(why) => Err(Diagnostic::error(
            "The provider made a value that Terraform can't take",
            format!("{why}. This is a bug in the provider: please report it."),
        )
        .at(why.path)),
    }
}

/// Messages for core. A path is cut to its first attribute, since core shows the line of no other; the text names the rest.
pub(super) fn to_diagnostics(report: Diagnostics) -> Vec<pb::Diagnostic> {
    report.0.into_iter().map(to_diagnostic).collect()
}

fn to_diagnostic(diagnostic: Diagnostic) -> pb::Diagnostic {
    let Diagnostic {
        severity,
        summary,
        mut detail,
        path,
    } = diagnostic;
    if path.0.len() > 1 && !detail.contains(&path.to_string()) {
        detail = format!("{path}: {detail}");
    }
    let severity = match severity {
        Severity::Error => pb::diagnostic::Severity::Error,
        Severity::Warning => pb::diagnostic::Severity::Warning,
    };
    pb::Diagnostic {
        severity: severity.into(),
        summary: crate::log::redact::masked(&summary).into_owned(),
        detail: crate::log::redact::masked(&detail).into_owned(),
        attribute: (!path.is_root()).then(|| to_path(&path.top())),
    }
}

/// A path for core.
pub(super) fn to_path(path: &Path) -> pb::AttributePath {
    use pb::attribute_path::{Step as PbStep, step::Selector};
    let steps = path.0.iter().map(|step| PbStep {
        selector: Some(match step {
            Step::Attribute(name) => Selector::AttributeName(name.to_string()),
            Step::Key(key) => Selector::ElementKeyString(key.to_string()),
            Step::Index(index) => {
                Selector::ElementKeyInt(i64::try_from(*index).unwrap_or(i64::MAX))
            }
        }),
    });
    pb::AttributePath {
        steps: steps.collect(),
    }
}

/// The time after `delay`, for core's clock on the same machine.
pub(super) fn after(delay: Duration) -> Option<prost_types::Timestamp> {
    let at = SystemTime::now()
        .checked_add(delay)?
        .duration_since(SystemTime::UNIX_EPOCH)
        .ok()?;
    Some(prost_types::Timestamp {
        seconds: i64::try_from(at.as_secs()).ok()?,
        nanos: i32::try_from(at.subsec_nanos()).ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_nested_path_is_cut_and_named_in_the_text() {
        let it = to_diagnostic(Diagnostic::error("No", "must be 1 to 8").at("size.gpu.count"));
        assert_eq!(it.detail, "size.gpu.count: must be 1 to 8");
        assert_eq!(it.attribute.unwrap().steps.len(), 1);
    }
}
