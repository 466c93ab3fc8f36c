use bollard::models::MountType;

use super::*;
use crate::ssh::docker::body::{DefaultRuntime, EngineGpus, GpuWay, render};
use crate::ssh::docker::spec::{HostMount, PortSpec, VolumeSpec};

const PLAIN: EngineGpus = EngineGpus {
    default_runtime: DefaultRuntime::Plain,
    way: GpuWay::Capability,
};
use secrecy::SecretString;

/// What Docker shows for a container that was made with `body` from an image with `image`'s configuration.
fn shown(
    spec: &ContainerSpec,
    devices: &[CardUuid],
    image: &ImageConfig,
) -> ContainerInspectResponse {
    let body = render(spec, devices, "run-1", PLAIN);
    let mut env = image.env.clone().unwrap_or_default();
    env.extend(body.env.clone().unwrap_or_default());
    let mut labels = image.labels.clone().unwrap_or_default();
    labels.extend(body.labels.clone().unwrap_or_default());
    let mut exposed = image.exposed_ports.clone().unwrap_or_default();
    exposed.extend(body.exposed_ports.clone().unwrap_or_default());
    let mounts: Vec<bollard::models::MountPoint> = body
        .host_config
        .iter()
        .flat_map(|host| host.mounts.iter().flatten())
        .map(|mount| {
            let volume = mount.typ == Some(MountType::VOLUME);
            let typ = if volume { "volume" } else { "bind" };
            serde_json::from_value(serde_json::json!({
                "Type": typ, "Name": volume.then(|| mount.source.clone()), "Source": mount.source, "Destination": mount.target,
                "RW": mount.read_only != Some(true),
            }))
            .unwrap()
        })
        .collect();
    let mut host = body.host_config.clone().unwrap();
    host.shm_size = host.shm_size.or(Some(64 << 20));
    host.network_mode = host.network_mode.or(Some("default".to_owned()));
    ContainerInspectResponse {
        id: Some("abc".to_owned()),
        name: Some(format!("/{}", spec.name)),
        image: Some("sha256:1".to_owned()),
        mounts: Some(mounts),
        config: Some(bollard::models::ContainerConfig {
            image: body.image,
            entrypoint: body.entrypoint.or(image.entrypoint.clone()),
            cmd: body.cmd.or(image.cmd.clone()),
            working_dir: body.working_dir.or(image.working_dir.clone()),
            user: body.user.or(image.user.clone()),
            env: Some(env),
            labels: Some(labels),
            exposed_ports: Some(exposed),
            healthcheck: body.healthcheck.or(image.healthcheck.clone()),
            stop_timeout: body.stop_timeout,
            ..Default::default()
        }),
        host_config: Some(host),
        ..Default::default()
    }
}

fn image() -> ImageConfig {
    serde_json::from_value(serde_json::json!({
        "Env": ["PATH=/bin", "LANG=C"], "Cmd": ["serve"], "Entrypoint": ["/start"], "WorkingDir": "/app", "User": "app",
        "Labels": {"maintainer": "x"}, "ExposedPorts": {"9000/tcp": {}}, "Healthcheck": {"Test": ["CMD", "true"]}
    }))
    .unwrap()
}

fn maximal() -> ContainerSpec {
    let text = str::to_owned;
    ContainerSpec {
        name: text("chat"),
        image: text("ghcr.io/o/app:1"),
        command: Some(vec![text("/bin/sh"), text("-c")]),
        args: Some(vec![text("echo 'quotes' \"$(x)\"\nné")]),
        working_dir: Some(text("/srv")),
        user: Some(text("1000:1000")),
        env: [(text("LANG"), text("C")), (text("A"), text("b=c\n'd'"))].into(),
        secret_env: [(text("TOKEN"), SecretString::from("hunter22"))].into(),
        secret_env_version: Some(text("3")),
        ports: vec![
            PortSpec {
                name: text("http"),
                port: 8000,
                host_port: Some(18000),
                host_ip: Some(text("127.0.0.1")),
                protocol: Protocol::Tcp,
            },
            PortSpec {
                name: text("admin"),
                port: 8001,
                host_port: None,
                host_ip: None,
                protocol: Protocol::Tcp,
            },
            PortSpec {
                name: text("dns"),
                port: 53,
                host_port: Some(1053),
                host_ip: None,
                protocol: Protocol::Udp,
            },
        ],
        volumes: [(
            text("cache"),
            VolumeSpec {
                docker_name: text("chat-cache"),
                mount_path: text("/cache"),
                read_only: false,
                delete_on_destroy: true,
            },
        )]
        .into(),
        host_mounts: vec![HostMount {
            host_path: text("/data"),
            mount_path: text("/data"),
            read_only: true,
        }],
        nano_cpus: Some(1_500_000_000),
        memory_mib: Some(512),
        shm_mib: Some(128),
        gpu: Some(GpuRequest::parse("nvidia-l4", 2).unwrap()),
        pool: None,
        restart: Restart::OnFailure(4),
        network: Some(text("backend")),
        ulimits: [(text("memlock"), Ulimit { soft: -1, hard: -1 })].into(),
        labels: [(text("team"), text("ml"))].into(),
        health: Some(HealthCheck {
            probe: Probe::Http {
                port: 8000,
                path: text("/health?x='1'"),
            },
            interval_seconds: 10,
            timeout_seconds: 5,
            retries: 3,
            startup_seconds: 600,
        }),
        stop_grace_seconds: Some(30),
    }
}

fn comparable(mut spec: ContainerSpec) -> String {
    spec.secret_env.clear();
    format!("{spec:#?}")
}

#[test]
fn what_was_asked_for_is_read_back_whole() {
    let devices = vec![CardUuid("GPU-a".to_owned()), CardUuid("GPU-b".to_owned())];
    let found = observe(&shown(&maximal(), &devices, &image()), Some(&image()));
    assert_eq!(comparable(found.spec), comparable(maximal()));
    assert_eq!(found.devices, devices);
    assert_eq!(found.secret_env_names, BTreeSet::from(["TOKEN".to_owned()]));
    assert_eq!(
        found.mark,
        Some(Mark {
            service: "chat".to_owned(),
            run: "run-1".to_owned()
        })
    );
}

#[test]
fn the_images_own_settings_are_not_taken_for_asked_ones() {
    let minimal = ContainerSpec {
        name: "chat".to_owned(),
        image: "app".to_owned(),
        ..ContainerSpec::default()
    };
    for config in [Some(image()), None] {
        let found = observe(&shown(&minimal, &[], &image()), config.as_ref());
        assert_eq!(
            comparable(found.spec),
            comparable(minimal.clone()),
            "with the image there: {}",
            config.is_some()
        );
    }
}

#[test]
fn a_foreign_container_is_read_against_its_image() {
    let made: ContainerInspectResponse = serde_json::from_value(serde_json::json!({
        "Id": "f", "Name": "/theirs", "Image": "sha256:1", "State": {"Status": "running"},
        "Config": {"Image": "app", "Env": ["PATH=/bin", "LANG=C", "X=1"], "Cmd": ["other"], "Entrypoint": ["/start"], "WorkingDir": "/app",
                   "User": "app", "Labels": {"maintainer": "x", "mine": "y"}, "ExposedPorts": {"9000/tcp": {}, "80/tcp": {}},
                   "Healthcheck": {"Test": ["CMD", "true"]}},
        "HostConfig": {"Binds": ["data:/data:ro", "/srv:/srv"], "PortBindings": {"80/tcp": [{"HostIp": "", "HostPort": "8080"}]},
                       "RestartPolicy": {"Name": "always"}, "Memory": 0, "NanoCpus": 0, "ShmSize": 67108864},
        "Mounts": [{"Type": "volume", "Name": "data", "Source": "/x", "Destination": "/data", "RW": false},
                   {"Type": "volume", "Name": "0123anonymous", "Source": "/y", "Destination": "/anon", "RW": true},
                   {"Type": "bind", "Source": "/srv", "Destination": "/srv", "RW": true}]
    }))
    .unwrap();
    let found = observe(&made, Some(&image()));
    assert_eq!(found.mark, None);
    assert_eq!(
        found.spec.env,
        BTreeMap::from([("X".to_owned(), "1".to_owned())])
    );
    assert_eq!(found.spec.args.as_deref(), Some(&["other".to_owned()][..]));
    assert_eq!(
        (
            found.spec.command.clone(),
            found.spec.user.clone(),
            found.spec.health.clone()
        ),
        (None, None, None)
    );
    assert_eq!(
        found.spec.labels,
        BTreeMap::from([("mine".to_owned(), "y".to_owned())])
    );
    assert_eq!(found.spec.ports.len(), 1);
    assert_eq!(
        (found.spec.ports[0].port, found.spec.ports[0].host_port),
        (80, Some(8080))
    );
    assert_eq!(found.spec.volumes.keys().collect::<Vec<_>>(), ["data"]);
    assert_eq!(found.spec.host_mounts.len(), 1);
    assert_eq!(
        (
            found.spec.restart,
            found.spec.memory_mib,
            found.spec.shm_mib
        ),
        (Restart::Always, None, None)
    );
}

#[test]
fn s5_no_secret_is_in_what_is_read_back() {
    let found = observe(&shown(&maximal(), &[], &image()), Some(&image()));
    assert!(!format!("{found:?}").contains("hunter22"));
}

#[test]
fn s3a_a_cpu_service_gets_no_card_where_nvidia_is_the_default_runtime() {
    let minimal = ContainerSpec {
        name: "chat".to_owned(),
        image: "app".to_owned(),
        ..ContainerSpec::default()
    };
    let env = |default_runtime| {
        render(
            &minimal,
            &[],
            "r",
            EngineGpus {
                default_runtime,
                ..PLAIN
            },
        )
        .env
        .unwrap()
    };
    assert_eq!(env(DefaultRuntime::Nvidia), ["NVIDIA_VISIBLE_DEVICES=void"]);
    assert!(env(DefaultRuntime::Plain).is_empty());
}

#[test]
fn cards_are_asked_for_by_cdi_name_where_that_is_all_that_the_engine_has() {
    let devices = vec![CardUuid("GPU-a".to_owned())];
    let minimal = ContainerSpec {
        name: "chat".to_owned(),
        image: "app".to_owned(),
        ..ContainerSpec::default()
    };
    let body = render(
        &minimal,
        &devices,
        "r",
        EngineGpus {
            way: GpuWay::Cdi,
            ..PLAIN
        },
    );
    let host = body.host_config.unwrap();
    let request = &host.device_requests.as_ref().unwrap()[0];
    assert_eq!(
        (request.driver.as_deref(), request.device_ids.as_deref()),
        (Some("cdi"), Some(&["nvidia.com/gpu=GPU-a".to_owned()][..]))
    );
    assert_eq!(super::devices(&host), devices);
}

#[test]
fn what_the_engine_adds_or_tidies_up_is_no_drift() {
    let mut wanted = maximal();
    wanted.shm_mib = None;
    wanted.host_mounts[0].mount_path = "/data/".to_owned();
    let mut shown = shown(&wanted, &[], &image());
    let host = shown.host_config.as_mut().unwrap();
    // daemon.json: default-shm-size, default-ulimits.
    host.shm_size = Some(128 << 20);
    host.ulimits
        .as_mut()
        .unwrap()
        .push(bollard::models::ResourcesUlimits {
            name: Some("nofile".to_owned()),
            soft: Some(1),
            hard: Some(1),
        });
    for mount in shown.mounts.iter_mut().flatten() {
        let tidy = mount
            .destination
            .clone()
            .map(|path| path.trim_end_matches('/').to_owned());
        mount.destination = tidy;
    }
    let found = observe(&shown, Some(&image()));
    wanted.gpu = None;
    let mut read = found.spec;
    read.gpu = None;
    assert_eq!(comparable(read), comparable(wanted));
}
