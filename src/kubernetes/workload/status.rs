//! What only a live service tells: how many pods are ready, and where it answers.

use std::fmt;

use super::Live;

/// How far a Deployment's pods are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Readiness {
    /// Pods that are asked for.
    pub wanted: i32,
    /// Pods of the newest form that are available.
    pub ready: i32,
    /// Whether all of them are, and none of an older form is left.
    pub complete: bool,
}

impl fmt::Display for Readiness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = match self {
            Self { complete: true, .. } => "available",
            Self { ready: 0, .. } => "unavailable",
            _ => "progressing",
        };
        write!(f, "{word} ({} of {} ready)", self.ready, self.wanted)
    }
}

impl Live {
    /// How far the pods are.
    #[must_use]
    pub fn readiness(&self) -> Readiness {
        let spec = self.deployment.spec.as_ref();
        let status = self.deployment.status.as_ref();
        let count = |value: Option<i32>| value.unwrap_or_default();
        let wanted = spec.and_then(|spec| spec.replicas).unwrap_or(1);
        let observed = status.and_then(|status| status.observed_generation)
            >= self.deployment.metadata.generation;
        let (updated, available, total) = status.map_or((0, 0, 0), |it| {
            (
                count(it.updated_replicas),
                count(it.available_replicas),
                count(it.replicas),
            )
        });
        Readiness {
            wanted,
            ready: available.min(updated),
            complete: observed && updated == wanted && available >= wanted && total == wanted,
        }
    }

    /// `HOST:PORT` of the Service inside the cluster: its port `first` if it has that, else the first that it has; none without a Service.
    #[must_use]
    pub fn endpoint(&self, namespace: &str, name: &str, first: Option<i64>) -> Option<String> {
        let ports = self.service.as_ref()?.spec.as_ref()?.ports.as_ref()?;
        let mut numbers = ports.iter().map(|port| port.port);
        let port = numbers
            .clone()
            .find(|port| Some(i64::from(*port)) == first)
            .or_else(|| numbers.next())?;
        Some(format!("{name}.{namespace}.svc:{port}"))
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::apps::v1::{Deployment, DeploymentSpec, DeploymentStatus};

    use super::*;

    fn live(wanted: i32, updated: i32, available: i32, total: i32) -> Live {
        let mut deployment = Deployment {
            spec: Some(DeploymentSpec {
                replicas: Some(wanted),
                ..Default::default()
            }),
            status: Some(DeploymentStatus {
                observed_generation: Some(2),
                updated_replicas: Some(updated),
                available_replicas: Some(available),
                replicas: Some(total),
                ..Default::default()
            }),
            ..Default::default()
        };
        deployment.metadata.generation = Some(2);
        Live {
            deployment,
            ..Default::default()
        }
    }

    #[test]
    fn a_status_says_how_many_pods_of_the_newest_form_are_ready() {
        assert_eq!(
            live(2, 2, 2, 2).readiness().to_string(),
            "available (2 of 2 ready)"
        );
        assert_eq!(
            live(2, 1, 2, 2).readiness().to_string(),
            "progressing (1 of 2 ready)"
        );
        assert_eq!(
            live(1, 1, 0, 1).readiness().to_string(),
            "unavailable (0 of 1 ready)"
        );
        assert_eq!(
            live(0, 0, 0, 0).readiness().to_string(),
            "available (0 of 0 ready)"
        );
    }
}
