//! What may be typed of a service on a cluster: what its API server would refuse is said at plan (G5), on the attribute. Called with
//! plans, so what is not known yet is passed over.

use std::{collections::BTreeMap, ops::RangeInclusive};

use tf_provider_sdk::{
    diagnostic::Diagnostics,
    field::{Maybe, Opt},
};

use super::model::{Effect, GpuService, Toleration, TolerationOperator};

/// Longest name of a volume, a namespace, and of the part of a label's key behind its prefix: Kubernetes' limits.
const LABEL_LENGTH: RangeInclusive<usize> = 1..=63;

/// Refuses what the API server would refuse.
pub(super) fn check(service: &GpuService, report: &mut Diagnostics) {
    if let Opt::Known(namespace) = &service.namespace.0.0
        && !is_dns_label(namespace)
    {
        report.error(
            "namespace",
            "Invalid namespace",
            format!("{namespace:?} can't be a namespace: {DNS_LABEL}."),
        );
    }
    if let Some(rollout) = service.rollout.known()
        && let (Some(surge), Some(unavailable)) =
            (rollout.max_surge.known(), rollout.max_unavailable.known())
        && [surge, unavailable]
            .iter()
            .all(|it| it.trim_end_matches('%').parse() == Ok(0))
    {
        report.error(
            "rollout",
            "A rollout that can't move",
            "max_surge and max_unavailable are both 0: no pod could be replaced. Set one of them to 1 or more.",
        );
    }
    variables(service, report);
    ports(service, report);
    volumes(service, report);
    for (attribute, map, are_labels) in [
        ("labels", &service.labels, true),
        ("annotations", &service.annotations, false),
        ("node_selector", &service.node_selector, true),
    ] {
        keys(attribute, map, are_labels, report);
    }
    for (index, toleration) in service
        .tolerations
        .known()
        .into_iter()
        .flatten()
        .enumerate()
    {
        if let Some(why) = invalid(toleration) {
            report.error(
                "tolerations",
                "Invalid toleration",
                format!("tolerations[{index}]: {why}"),
            );
        }
    }
}

const DNS_LABEL: &str = "it takes lower-case letters, digits and hyphens, starts and ends with a letter or digit, and has at most 63 characters";

fn is_dns_label(text: &str) -> bool {
    let alphanumeric = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    LABEL_LENGTH.contains(&text.len())
        && text.chars().all(|c| alphanumeric(c) || c == '-')
        && text.starts_with(alphanumeric)
        && text.ends_with(alphanumeric)
}

/// What Kubernetes calls a qualified name's last part, and a label's value.
fn is_label_text(text: &str) -> bool {
    text.len() <= *LABEL_LENGTH.end()
        && text
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'))
        && text.starts_with(|c: char| c.is_ascii_alphanumeric())
        && text.ends_with(|c: char| c.is_ascii_alphanumeric())
}

fn is_qualified_name(text: &str) -> bool {
    let (prefix, name) = match text.split_once('/') {
        Some((prefix, name)) => (Some(prefix), name),
        None => (None, text),
    };
    is_label_text(name)
        && prefix.is_none_or(|prefix| prefix.len() <= 253 && prefix.split('.').all(is_dns_label))
}

fn variables(service: &GpuService, report: &mut Diagnostics) {
    let env = service.env.known().into_iter().flatten();
    let env = env.map(|(name, _)| ("env", name));
    let from = service.env_from.known().into_iter().flatten();
    let from = from.filter_map(|it| Some(("env_from", it.name.known()?)));
    for (attribute, name) in env.chain(from) {
        let printable = name.chars().all(|c| (' '..='~').contains(&c) && c != '=');
        if name.is_empty() || !printable {
            report.error(
                attribute,
                "Invalid name of a variable",
                format!("{name:?} can't be the name of a variable: it takes printable ASCII characters but \"=\"."),
            );
        }
    }
    // The key of a Secret is narrower than a variable's name.
    for (name, _) in service.secret_env.known().into_iter().flatten() {
        let takes = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        if name.is_empty() || name.len() > 253 || !name.chars().all(takes) {
            report.error(
                "secret_env",
                "Invalid name of a variable",
                format!("{name:?} can't be a key of a Secret: it takes letters, digits, \"-\", \"_\" and \".\", at most 253 of them."),
            );
        }
    }
}

fn ports(service: &GpuService, report: &mut Diagnostics) {
    for port in service.ports.known().into_iter().flatten() {
        let Some(name) = port.name.known() else {
            continue;
        };
        let fits = is_dns_label(name)
            && name.chars().any(|c| c.is_ascii_lowercase())
            && !name.contains("--");
        if !fits {
            report.error(
                "ports",
                "Invalid name of a port",
                format!("{name:?} can't be the name of a port: it takes lower-case letters, digits and single hyphens between them, with at least one letter."),
            );
        }
    }
}

fn volumes(service: &GpuService, report: &mut Diagnostics) {
    let has_shm = service.size.known().is_some_and(|size| !size.shm.is_null());
    let mut paths = BTreeMap::new();
    for (name, volume) in service.volumes.known().into_iter().flatten() {
        if !is_dns_label(name) || name == crate::kubernetes::workload::SHM_VOLUME {
            report.error(
                "volumes",
                "Invalid name of a volume",
                format!("{name:?} can't be the name of a volume on a cluster: {DNS_LABEL}."),
            );
        }
        let Some(path) = volume.mount_path.known() else {
            continue;
        };
        let path = path.trim_end_matches('/');
        if let Some(other) = paths.insert(path, name) {
            report.error(
                "volumes",
                "Two volumes on one path",
                format!("The volumes {other:?} and {name:?} are both mounted on {path:?}."),
            );
        }
        if path == "/dev/shm" && has_shm {
            report.error(
                "volumes",
                "Two volumes on one path",
                format!("The volume {name:?} is mounted on /dev/shm, where size.shm puts shared memory. Leave one of them out."),
            );
        }
        if path.contains(':') {
            report.error(
                "volumes",
                "Invalid path of a volume",
                format!("The volume {name:?} is mounted on {path:?}: a path can't hold a colon."),
            );
        }
    }
}

fn keys(
    attribute: &'static str,
    map: &Opt<BTreeMap<String, Maybe<String>>>,
    are_labels: bool,
    report: &mut Diagnostics,
) {
    for (key, value) in map.known().into_iter().flatten() {
        if !is_qualified_name(key) {
            report.error(
                attribute,
                format!("Invalid key in {attribute}"),
                format!("{key:?} can't be a key: it is a name of letters, digits, \"-\", \"_\" and \".\" that starts and ends with a letter or digit (63 characters at most), with or without the prefix of a domain and a slash."),
            );
        }
        if attribute != "node_selector" && key.starts_with("loomplane.dev/") {
            report.error(
                attribute,
                format!("A key of Loomplane's own in {attribute}"),
                format!("{key:?} is set by Loomplane, which tells by it what is its own. Use another key."),
            );
        }
        if attribute == "annotations" && key.starts_with("deployment.kubernetes.io/") {
            report.error(
                attribute,
                "An annotation of Kubernetes' own",
                format!("{key:?} is written by the cluster's Deployment controller. Leave it out."),
            );
        }
        let Some(value) = value.known().filter(|_| are_labels) else {
            continue;
        };
        if !value.is_empty() && !is_label_text(value) {
            report.error(
                attribute,
                format!("Invalid value in {attribute}"),
                format!("{attribute}[{key:?}] is {value:?}: a label's value takes letters, digits, \"-\", \"_\" and \".\", starts and ends with a letter or digit, and has at most 63 characters."),
            );
        }
    }
}

/// Why Kubernetes takes no such toleration.
fn invalid(it: &Toleration) -> Option<&'static str> {
    let exists = it.operator.known() == Some(&TolerationOperator::Exists);
    let key = it.key.known().map_or("", String::as_str);
    let value = it.value.known().map_or("", String::as_str);
    if !it.operator.is_unknown() && !it.key.is_unknown() && !exists && key.is_empty() {
        return Some(
            "without a key, its operator must be \"Exists\" (which tolerates every taint).",
        );
    }
    if exists && !value.is_empty() {
        return Some("with the operator \"Exists\" it takes no value.");
    }
    if !key.is_empty() && !is_qualified_name(key) {
        return Some("its key can't be the key of a taint.");
    }
    if !value.is_empty() && !is_label_text(value) {
        return Some("its value can't be the value of a taint.");
    }
    (it.seconds.known().is_some()
        && !it.effect.is_unknown()
        && it.effect.known() != Some(&Effect::NoExecute))
    .then_some("seconds need the effect \"NoExecute\": no other ends a pod that runs.")
}

#[cfg(test)]
mod tests;
