//! A service's life on a real engine: made, read, changed, replaced without loss, removed.

use loomplane::ssh::{
    Change, HealthCheck, HostMount, PortSpec, Probe, Protocol, Restart, Ulimit, VolumeSpec, change,
};
use secrecy::SecretString;

use super::{deployment, run, scope, server_with};
use crate::servers::uuid;

fn env_of(engine: &crate::servers::Engine, name: &str) -> Vec<String> {
    engine
        .inspect(name, "{{json .Config.Env}}")
        .parse::<serde_json::Value>()
        .unwrap()
        .as_array()
        .unwrap()
        .iter()
        .map(|v| v.as_str().unwrap().to_owned())
        .collect()
}

#[test]
fn a_minimal_service_is_made_read_and_removed() {
    let Some((server, target)) = server_with(2) else {
        return;
    };
    let engine = server.engine.clone().unwrap();
    run(async {
        let wanted = deployment("chat", 1);
        assert!(
            target
                .read_service("chat", &scope())
                .await
                .unwrap()
                .is_none()
        );
        let made = target.create_service(&wanted, &scope()).await.unwrap();
        assert_eq!(
            made.observed
                .devices
                .iter()
                .map(|card| card.0.clone())
                .collect::<Vec<_>>(),
            [uuid(0)]
        );
        assert_eq!(
            (made.observed.name.as_str(), made.observed.status().as_str()),
            ("chat", "running")
        );
        let read = target
            .read_service("chat", &scope())
            .await
            .unwrap()
            .unwrap();
        assert_eq!(
            change(&read, &wanted.spec),
            Change::None,
            "the second plan is empty"
        );
        assert_eq!(engine.names(), ["chat"]);
        assert!(env_of(&engine, "chat").contains(&format!("NVIDIA_VISIBLE_DEVICES={}", uuid(0))));
        // Creating it again is refused with the import command (G10).
        let again = target.create_service(&wanted, &scope()).await.unwrap_err();
        assert!(
            again.error.to_string().contains("import")
                && again.error.to_string().contains("rack1/chat"),
            "{}",
            again.error
        );
        assert!(again.existing.is_none());
        assert_eq!(
            target.import_service("chat", &scope()).await.unwrap().id,
            made.observed.id
        );
        target
            .delete_service("chat", Some(&made.observed.id), &[], &scope())
            .await
            .unwrap();
        target
            .delete_service("chat", Some(&made.observed.id), &[], &scope())
            .await
            .unwrap();
        assert!(
            target
                .read_service("chat", &scope())
                .await
                .unwrap()
                .is_none()
        );
        assert!(
            target
                .import_service("chat", &scope())
                .await
                .unwrap_err()
                .to_string()
                .contains("no container named chat")
        );
        target.close().await;
    });
    assert!(engine.names().is_empty());
    server.assert_no_process_left("loomplane");
}

#[test]
fn a_maximal_service_is_read_back_as_it_was_asked_for() {
    let Some((server, target)) = server_with(2) else {
        return;
    };
    let engine = server.engine.clone().unwrap();
    std::fs::create_dir_all(server.path("data")).unwrap();
    run(async {
        let mut wanted = deployment("maxi-1.2_x", 2);
        let spec = &mut wanted.spec;
        let text = str::to_owned;
        spec.command = Some(vec![text("/bin/sh"), text("-c")]);
        spec.args = Some(vec![text(
            "mkdir -p /tmp/www && echo ok >/tmp/www/index.html && exec httpd -f -p 127.0.0.1:8000 -h /tmp/www",
        )]);
        spec.working_dir = Some(text("/tmp"));
        spec.user = Some(text("0:0"));
        spec.env = [
            ("QUOTES", "a'b\"c`d$(touch /tmp/owned)${HOME}\\"),
            ("LINES", "one\ntwo\r\nthree"),
            ("ACCENTS", "naïve ☃ 漢字"),
            ("EMPTY", ""),
            ("FROM_IMAGE", "yes"),
        ]
        .map(|(key, value)| (text(key), text(value)))
        .into();
        spec.secret_env = [(text("TOKEN"), SecretString::from("s3cret-'\"\n$x"))].into();
        spec.secret_env_version = Some(text("1"));
        spec.ports = vec![
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
        ];
        spec.volumes = [(
            text("cache"),
            VolumeSpec {
                docker_name: loomplane::ssh::volume_name("maxi", "cache"),
                mount_path: text("/cache"),
                read_only: false,
                delete_on_destroy: true,
            },
        )]
        .into();
        spec.host_mounts = vec![HostMount {
            host_path: server.path("data").display().to_string(),
            mount_path: text("/data"),
            read_only: true,
        }];
        spec.nano_cpus = Some(500_000_000);
        spec.memory_mib = Some(256);
        spec.shm_mib = Some(32);
        spec.restart = Restart::OnFailure(3);
        engine.docker(&["network", "create", "backend"]);
        spec.network = Some(text("backend"));
        spec.ulimits = [(
            text("nofile"),
            Ulimit {
                soft: 1024,
                hard: 2048,
            },
        )]
        .into();
        spec.labels = [(text("team"), text("ml 'quoted' ☃"))].into();
        spec.health = Some(HealthCheck {
            probe: Probe::Http {
                port: 8000,
                path: text("/index.html?x='$(y)'"),
            },
            interval_seconds: 1,
            timeout_seconds: 5,
            retries: 20,
            startup_seconds: 60,
        });
        let made = target.create_service(&wanted, &scope()).await.unwrap();
        assert_eq!(made.observed.status(), "running");
        let read = target
            .read_service("maxi-1.2_x", &scope())
            .await
            .unwrap()
            .unwrap();
        assert_eq!(change(&read, &wanted.spec), Change::None, "{read:#?}");
        assert_eq!(read.devices.len(), 2);
        let http = read
            .published
            .iter()
            .find(|port| port.port == 8000)
            .unwrap();
        assert_eq!(
            (http.host_ip.as_str(), http.host_port),
            ("127.0.0.1", 18000)
        );
        assert!(
            !format!("{read:?}").contains("s3cret"),
            "no secret is read back"
        );
        let env = env_of(&engine, "maxi-1.2_x");
        for (key, value) in &wanted.spec.env {
            assert!(env.contains(&format!("{key}={value}")), "{key} in {env:?}");
        }
        assert!(env.contains(&"TOKEN=s3cret-'\"\n$x".to_owned()));
        target
            .delete_service(
                "maxi-1.2_x",
                Some(&read.id),
                &["maxi-cache".to_owned()],
                &scope(),
            )
            .await
            .unwrap();
        assert_eq!(engine.docker(&["volume", "ls", "-q"]), "");
        target.close().await;
    });
}

#[test]
fn a_create_that_fails_says_what_is_there() {
    let Some((server, target)) = server_with(1) else {
        return;
    };
    let engine = server.engine.clone().unwrap();
    run(async {
        // It ends at once: nothing stays, the log is in the message.
        let mut ends = deployment("ends", 1);
        ends.spec.command = Some(
            ["/bin/sh", "-c", "echo last words; exit 0"]
                .map(str::to_owned)
                .to_vec(),
        );
        let failure = target.create_service(&ends, &scope()).await.unwrap_err();
        assert!(
            failure.error.to_string().contains("last words") && failure.existing.is_none(),
            "{}",
            failure.error
        );
        assert!(engine.names().is_empty());
        // It runs and is unhealthy: it stays, and the state has it.
        let mut sick = deployment("sick", 1);
        sick.spec.health = Some(HealthCheck {
            probe: Probe::Command(
                ["/bin/sh", "-c", "echo not well; exit 1"]
                    .map(str::to_owned)
                    .to_vec(),
            ),
            interval_seconds: 1,
            timeout_seconds: 2,
            retries: 2,
            startup_seconds: 0,
        });
        let failure = target.create_service(&sick, &scope()).await.unwrap_err();
        assert!(
            failure.error.to_string().contains("not well"),
            "{}",
            failure.error
        );
        let existing = failure.existing.expect("it stays");
        assert_eq!(
            (existing.name.as_str(), existing.status().as_str()),
            ("sick", "unhealthy")
        );
        assert_eq!(engine.names(), ["sick"]);
        // A network that is not there, before anything is made.
        let mut lost = deployment("lost", 0);
        lost.spec.network = Some("nowhere".to_owned());
        let failure = target.create_service(&lost, &scope()).await.unwrap_err();
        assert!(
            failure.error.to_string().contains("docker network create"),
            "{}",
            failure.error
        );
        assert_eq!(engine.names(), ["sick"]);
        target.close().await;
    });
}

#[test]
fn s2_without_the_hook_in_the_engine_the_start_says_what_to_do() {
    let Some(engine) = crate::servers::Engine::start_with(false, &[]) else {
        return;
    };
    // The hook is on the server's PATH, so the check can't know better: Docker was not restarted.
    let Some(server) = crate::servers::Server::start(crate::servers::Options {
        engine: Some(engine.clone()),
        ..Default::default()
    }) else {
        return;
    };
    run(async {
        let target = loomplane::ssh::Server::new(super::config(&server, "root"));
        let failure = target
            .create_service(&deployment("chat", 1), &scope())
            .await
            .unwrap_err();
        let text = failure.error.to_string();
        assert!(
            text.contains("can't reach the GPUs") && text.contains("nvidia-ctk runtime configure"),
            "{text}"
        );
        assert!(failure.existing.is_none() && engine.names().is_empty());
        target.close().await;
    });
}

#[test]
fn everything_works_through_dial_stdio_too() {
    let Some(engine) = crate::servers::Engine::start() else {
        return;
    };
    let Some(server) = crate::servers::Server::start(crate::servers::Options {
        engine: Some(engine.clone()),
        forwarding: false,
        ..Default::default()
    }) else {
        return;
    };
    run(async {
        let target = loomplane::ssh::Server::new(super::config(&server, "root"));
        let one = deployment("one", 1);
        let two = deployment("two", 1);
        let scope = scope();
        let (first, second) = tokio::join!(
            target.create_service(&one, &scope),
            target.create_service(&two, &scope)
        );
        let (first, second) = (first.unwrap().observed, second.unwrap().observed);
        assert_ne!(first.devices, second.devices);
        target
            .delete_service("one", Some(&first.id), &[], &scope)
            .await
            .unwrap();
        target
            .delete_service("two", Some(&second.id), &[], &scope)
            .await
            .unwrap();
        target.close().await;
    });
    assert!(engine.names().is_empty());
}

#[test]
fn images_are_pulled_once_and_with_their_registrys_login() {
    let Some((server, target)) = server_with(1) else {
        return;
    };
    let engine = server.engine.clone().unwrap();
    // Bytes whose base64 has the signs that differ between its two alphabets.
    let password = "p>>?>~~?pw";
    let Some(registry) = engine.registry(Some(("robot", password))) else {
        return;
    };
    run(async {
        let mut wanted = deployment("pulled", 1);
        wanted.spec.image = format!("{}/team/app:1", registry.host);
        let failure = target.create_service(&wanted, &scope()).await.unwrap_err();
        let text = failure.error.to_string();
        assert!(
            text.contains("could not pull") && text.contains("registries["),
            "{text}"
        );
        let login = |password: &str| loomplane::ssh::RegistryLogin {
            username: "robot".to_owned(),
            password: SecretString::from(password.to_owned()),
        };
        wanted.registries = [(registry.host.clone(), login("wrong"))].into();
        let failure = target.create_service(&wanted, &scope()).await.unwrap_err();
        let text = failure.error.to_string();
        assert!(
            text.contains("refuses the credentials") && !text.contains("wrong"),
            "{text}"
        );
        wanted.registries = [(registry.host.clone(), login(password))].into();
        let made = target.create_service(&wanted, &scope()).await.unwrap();
        assert_eq!(made.observed.spec.image, wanted.spec.image);
        let mut other = wanted.clone();
        other.spec.image = format!("{}/team/app:none", registry.host);
        let failure = target
            .update_service(&made.observed, &other, &scope())
            .await
            .unwrap_err();
        assert!(
            failure.error.to_string().contains("no such tag"),
            "{}",
            failure.error
        );
        // Pulled only when absent: the registry may be gone.
        drop(registry);
        let mut again = wanted.clone();
        again.spec.env.insert("A".to_owned(), "1".to_owned());
        target
            .update_service(&made.observed, &again, &scope())
            .await
            .unwrap();
        target.close().await;
    });
}

#[test]
fn few_sessions_are_enough_and_one_is_too_few_and_said() {
    let Some(engine) = crate::servers::Engine::start() else {
        return;
    };
    let with = |sshd: &str| {
        crate::servers::Server::start(crate::servers::Options {
            engine: Some(engine.clone()),
            sshd: sshd.to_owned(),
            ..Default::default()
        })
    };
    let (Some(few), Some(one)) = (with("MaxSessions 3"), with("MaxSessions 1")) else {
        return;
    };
    run(async {
        let target = loomplane::ssh::Server::new(super::config(&few, "root"));
        let (first, second) = (deployment("one", 1), deployment("two", 1));
        let scope = scope();
        let (first, second) = tokio::join!(
            target.create_service(&first, &scope),
            target.create_service(&second, &scope)
        );
        first.map_err(|failure| failure.error.to_string()).unwrap();
        second.map_err(|failure| failure.error.to_string()).unwrap();
        target.close().await;
        let target = loomplane::ssh::Server::new(super::config(&one, "root"));
        let failure = target
            .create_service(&deployment("three", 1), &scope)
            .await
            .unwrap_err();
        assert!(
            failure.error.to_string().contains("MaxSessions"),
            "{}",
            failure.error
        );
        target.close().await;
    });
}
