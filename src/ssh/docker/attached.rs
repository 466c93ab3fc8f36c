//! What a container is attached to, read back: ports, volumes, directories of the server.

use std::collections::BTreeMap;

use bollard::models::{ContainerInspectResponse, HostConfig, MountType};

use super::body::{Asked, port_key};
use super::observed::Published;
use super::spec::{HostMount, PortSpec, Protocol, VolumeSpec};

fn parse_port(key: &str) -> Option<(u16, Protocol)> {
    let (port, protocol) = key.split_once('/').unwrap_or((key, "tcp"));
    let protocol = match protocol {
        "tcp" => Protocol::Tcp,
        "udp" => Protocol::Udp,
        _ => return None,
    };
    Some((port.parse().ok()?, protocol))
}

pub(super) fn ports(
    host: &HostConfig,
    exposed: &[String],
    image: Option<&[String]>,
    asked: Option<&Asked>,
) -> Vec<PortSpec> {
    let bound = host.port_bindings.clone().unwrap_or_default();
    let mut found = Vec::new();
    for key in exposed
        .iter()
        .chain(bound.keys().filter(|key| !exposed.contains(key)))
    {
        let Some((port, protocol)) = parse_port(key) else {
            continue;
        };
        let known: Vec<&PortSpec> = asked
            .iter()
            .flat_map(|asked| &asked.ports)
            .filter(|spec| port_key(spec) == *key)
            .collect();
        let bindings: Vec<_> = bound.get(key).cloned().flatten().unwrap_or_default();
        let named = |at: usize| {
            known
                .get(at)
                .map_or_else(|| format!("port-{port}"), |spec| spec.name.clone())
        };
        if bindings.is_empty() {
            let inherited = image.map_or(asked.is_some(), |image| image.contains(key));
            if !known.is_empty() || !inherited {
                found.push(PortSpec {
                    name: named(0),
                    port,
                    host_port: None,
                    host_ip: None,
                    protocol,
                });
            }
            continue;
        }
        for (at, binding) in bindings.iter().enumerate() {
            found.push(PortSpec {
                name: named(at),
                port,
                host_port: binding
                    .host_port
                    .as_deref()
                    .and_then(|port| port.parse().ok())
                    .filter(|port| *port != 0),
                host_ip: binding.host_ip.clone().filter(|ip| !ip.is_empty()),
                protocol,
            });
        }
    }
    // In the order that was asked for, so that nothing seems to change.
    let order = |port: &PortSpec| {
        asked
            .and_then(|asked| asked.ports.iter().position(|spec| spec.name == port.name))
            .unwrap_or(usize::MAX)
    };
    found.sort_by_key(|port| (order(port), port.clone()));
    found
}

pub(super) fn published(container: &ContainerInspectResponse) -> Vec<Published> {
    let ports = container
        .network_settings
        .as_ref()
        .and_then(|settings| settings.ports.as_ref());
    let mut found: Vec<Published> = ports
        .into_iter()
        .flatten()
        .filter_map(|(key, bindings)| Some((parse_port(key)?, bindings.as_ref()?)))
        .flat_map(|((port, protocol), bindings)| {
            bindings.iter().filter_map(move |binding| {
                let host_port = binding.host_port.as_deref()?.parse().ok()?;
                Some(Published {
                    port,
                    protocol,
                    host_ip: binding.host_ip.clone().unwrap_or_default(),
                    host_port,
                })
            })
        })
        .collect();
    found.sort();
    found
}

pub(super) fn volumes(
    container: &ContainerInspectResponse,
    host: &HostConfig,
    asked: Option<&Asked>,
) -> BTreeMap<String, VolumeSpec> {
    let mut found = BTreeMap::new();
    for mount in container.mounts.iter().flatten() {
        let (Some(docker_name), Some(path)) = (&mount.name, &mount.destination) else {
            continue;
        };
        let configured = host.mounts.iter().flatten().any(|asked| {
            asked.typ == Some(MountType::VOLUME) && asked.source.as_ref() == Some(docker_name)
        });
        let bound = host
            .binds
            .iter()
            .flatten()
            .any(|bind| bind.split(':').next() == Some(docker_name));
        // Else it is an anonymous volume of the image.
        if !configured && !bound {
            continue;
        }
        let known = asked.and_then(|asked| {
            asked.volumes.iter().find(|(_, volume)| {
                volume.docker_name == *docker_name && same_path(&volume.mount_path, path)
            })
        });
        let name = known.map_or_else(|| docker_name.clone(), |(name, _)| name.clone());
        found.insert(
            name,
            VolumeSpec {
                docker_name: docker_name.clone(),
                mount_path: known
                    .map_or_else(|| path.clone(), |(_, volume)| volume.mount_path.clone()),
                read_only: mount.rw == Some(false),
                delete_on_destroy: known.is_some_and(|(_, volume)| volume.delete_on_destroy),
            },
        );
    }
    found
}

pub(super) fn host_mounts(
    container: &ContainerInspectResponse,
    host: &HostConfig,
) -> Vec<HostMount> {
    let mut found: Vec<HostMount> = container
        .mounts
        .iter()
        .flatten()
        .filter(|mount| mount.typ.as_deref() == Some("bind"))
        .filter_map(|mount| {
            let (source, target) = (mount.source.clone()?, mount.destination.clone()?);
            // As it was written, where it was asked for: Docker tidies paths up.
            let asked = host.mounts.iter().flatten().find(|asked| {
                asked.typ == Some(MountType::BIND)
                    && asked
                        .target
                        .as_deref()
                        .is_some_and(|path| same_path(path, &target))
            });
            Some(HostMount {
                host_path: asked
                    .and_then(|asked| asked.source.clone())
                    .unwrap_or(source),
                mount_path: asked
                    .and_then(|asked| asked.target.clone())
                    .unwrap_or(target),
                read_only: mount.rw == Some(false),
            })
        })
        .collect();
    let order = |mount: &HostMount| {
        let asked = host
            .mounts
            .iter()
            .flatten()
            .position(|asked| asked.target.as_ref() == Some(&mount.mount_path));
        asked.unwrap_or(usize::MAX)
    };
    found.sort_by_key(|mount| (order(mount), mount.mount_path.clone()));
    found
}

/// Whether two paths are one but for a slash at the end.
fn same_path(left: &str, right: &str) -> bool {
    left.trim_end_matches('/') == right.trim_end_matches('/')
}
