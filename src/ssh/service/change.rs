//! What an update has to do: nothing, an in-place change, or a new container. Pure, so that a plan can say it too.

use bollard::models::ContainerUpdateBody;

use crate::ssh::docker::body::{MIB, restart};
use crate::ssh::docker::observed::Observed;
use crate::ssh::docker::spec::ContainerSpec;

/// The least that makes a container what it shall be.
#[derive(Debug, Clone, PartialEq)]
pub enum Change {
    /// It is that already.
    None,
    /// Docker can change it as it runs: limits and restart policy.
    InPlace(Box<InPlace>),
    /// A new container; the attributes that ask for it, in alphabetical order.
    Recreate(Vec<&'static str>),
}

/// Changes to a running container.
#[derive(Debug, Clone, PartialEq)]
pub struct InPlace {
    pub(crate) body: ContainerUpdateBody,
}

/// Compares what is there with what shall be. Values of secrets can't be compared: `secret_env_version` and the names stand for them.
pub fn change(old: &Observed, new: &ContainerSpec) -> Change {
    let was = &old.spec;
    let mut recreate = Vec::new();
    let mut differs = |differs: bool, attribute: &'static str| {
        if differs {
            recreate.push(attribute);
        }
    };
    let secret_names: Vec<&String> = old.secret_env_names.iter().collect();
    differs(was.args != new.args, "args");
    differs(was.command != new.command, "command");
    differs(was.env != new.env, "env");
    differs(was.health != new.health, "health_check");
    differs(was.host_mounts != new.host_mounts, "host_mounts");
    differs(was.image != new.image, "image");
    differs(was.labels != new.labels, "labels");
    differs(was.network != new.network, "network");
    differs(
        was.pool.as_ref().map(|pool| &pool.pool) != new.pool.as_ref().map(|pool| &pool.pool),
        "pool",
    );
    differs(was.ports != new.ports, "ports");
    differs(
        was.secret_env_version != new.secret_env_version
            || (!new.secret_env.is_empty() && !new.secret_env.keys().eq(secret_names)),
        "secret_env",
    );
    differs(was.gpu != new.gpu, "size.gpu");
    differs(was.shm_mib != new.shm_mib, "size.shm");
    differs(
        was.stop_grace_seconds != new.stop_grace_seconds,
        "stop_grace_seconds",
    );
    differs(was.ulimits != new.ulimits, "ulimits");
    differs(was.user != new.user, "user");
    let mounted = |spec: &ContainerSpec| -> Vec<_> {
        spec.volumes
            .values()
            .map(|volume| {
                (
                    volume.docker_name.clone(),
                    volume.mount_path.clone(),
                    volume.read_only,
                )
            })
            .collect()
    };
    differs(mounted(was) != mounted(new), "volumes");
    differs(was.working_dir != new.working_dir, "working_dir");
    // Docker can raise and lower a limit, not take it away.
    differs(
        was.nano_cpus.is_some() && new.nano_cpus.is_none(),
        "size.cpu",
    );
    differs(
        was.memory_mib.is_some() && new.memory_mib.is_none(),
        "size.memory",
    );
    if !recreate.is_empty() {
        recreate.sort_unstable();
        return Change::Recreate(recreate);
    }
    if was.nano_cpus == new.nano_cpus
        && was.memory_mib == new.memory_mib
        && was.restart == new.restart
    {
        return Change::None;
    }
    let memory = new
        .memory_mib
        .filter(|_| was.memory_mib != new.memory_mib)
        .map(|mib| i64::try_from(mib * MIB).unwrap_or(i64::MAX));
    Change::InPlace(Box::new(InPlace {
        body: ContainerUpdateBody {
            nano_cpus: new.nano_cpus.filter(|_| was.nano_cpus != new.nano_cpus),
            memory,
            memory_swap: memory,
            restart_policy: (was.restart != new.restart).then(|| restart(new.restart)),
            ..ContainerUpdateBody::default()
        },
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ssh::docker::observed::observe;
    use crate::ssh::docker::spec::Restart;
    use secrecy::SecretString;

    fn base() -> ContainerSpec {
        ContainerSpec {
            name: "chat".to_owned(),
            image: "app:1".to_owned(),
            memory_mib: Some(64),
            ..ContainerSpec::default()
        }
    }

    fn old() -> Observed {
        let mut old = observe(&bollard::models::ContainerInspectResponse::default(), None);
        old.spec = base();
        old
    }

    fn with(edit: impl Fn(&mut ContainerSpec)) -> Change {
        let mut new = base();
        edit(&mut new);
        change(&old(), &new)
    }

    #[test]
    fn s5_only_what_must_is_recreated() {
        assert_eq!(with(|_| {}), Change::None);
        assert_eq!(
            with(|spec| spec.image = "app:2".to_owned()),
            Change::Recreate(vec!["image"])
        );
        assert_eq!(
            with(|spec| drop(spec.env.insert("A".to_owned(), "1".to_owned()))),
            Change::Recreate(vec!["env"])
        );
        assert_eq!(
            with(|spec| spec.memory_mib = None),
            Change::Recreate(vec!["size.memory"])
        );
        assert_eq!(
            with(|spec| spec.secret_env_version = Some("2".to_owned())),
            Change::Recreate(vec!["secret_env"])
        );
        assert_eq!(
            with(|spec| drop(
                spec.secret_env
                    .insert("T".to_owned(), SecretString::from("x"))
            )),
            Change::Recreate(vec!["secret_env"])
        );
        assert!(
            matches!(with(|spec| spec.memory_mib = Some(128)), Change::InPlace(change) if change.body.memory == Some(128 << 20))
        );
        assert!(
            matches!(with(|spec| spec.restart = Restart::No), Change::InPlace(change) if change.body.memory.is_none())
        );
    }
}
