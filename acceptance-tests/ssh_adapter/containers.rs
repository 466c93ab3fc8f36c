//! A service's life on a real engine: made, read, changed, replaced without loss, removed.

use std::time::Duration;

use loomplane::ssh::{
    Change, HealthCheck, HostMount, Observed, PortSpec, Probe, Protocol, Restart, Ulimit,
    VolumeSpec, change,
};
use secrecy::SecretString;

use super::{deployment, run, scope, server_with};
use crate::servers::{OTHER_IMAGE, uuid};

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
fn s5_updates_do_the_least_and_keep_cards_and_volumes() {
    let Some((server, target)) = server_with(2) else {
        return;
    };
    let engine = server.engine.clone().unwrap();
    run(async {
        let mut wanted = deployment("chat", 1);
        wanted.spec.memory_mib = Some(64);
        wanted.spec.volumes = [(
            "cache".to_owned(),
            VolumeSpec {
                docker_name: "chat-cache".to_owned(),
                mount_path: "/cache".to_owned(),
                read_only: false,
                delete_on_destroy: false,
            },
        )]
        .into();
        let first = target
            .create_service(&wanted, &scope())
            .await
            .unwrap()
            .observed;
        engine.docker(&["exec", "chat", "/bin/touch", "/cache/kept"]);

        wanted.spec.memory_mib = Some(96);
        wanted.spec.restart = Restart::Always;
        let in_place = target
            .update_service(&first, &wanted, &scope())
            .await
            .unwrap()
            .observed;
        assert_eq!(in_place.id, first.id, "changed as it runs");
        assert_eq!(change(&in_place, &wanted.spec), Change::None);

        wanted.spec.image = OTHER_IMAGE.to_owned();
        wanted.spec.env.insert("NEW".to_owned(), "1".to_owned());
        let replaced = target
            .update_service(&in_place, &wanted, &scope())
            .await
            .unwrap()
            .observed;
        assert_ne!(replaced.id, first.id);
        assert_eq!(replaced.devices, first.devices, "cards are kept");
        assert_eq!(change(&replaced, &wanted.spec), Change::None);
        engine.docker(&["exec", "chat", "/bin/test", "-e", "/cache/kept"]);
        assert_eq!(engine.names(), ["chat"], "nothing of the old one is left");

        // Stopped by hand: shown, and started again by the next apply.
        engine.docker(&["stop", "-t", "0", "chat"]);
        let stopped = target
            .read_service("chat", &scope())
            .await
            .unwrap()
            .unwrap();
        assert!(
            stopped.status().starts_with("stopped"),
            "{}",
            stopped.status()
        );
        let started = target
            .update_service(&stopped, &wanted, &scope())
            .await
            .unwrap()
            .observed;
        assert_eq!(
            (started.status().as_str(), &started.id),
            ("running", &replaced.id)
        );
        // Removed by hand: gone.
        engine.docker(&["rm", "-f", "chat"]);
        assert!(
            target
                .read_service("chat", &scope())
                .await
                .unwrap()
                .is_none()
        );
        target.close().await;
    });
}

#[test]
fn s5_a_failed_update_leaves_the_old_container_running() {
    // Without a default bridge, where Docker can't rename a container that was started again: both ways to set one aside are taken.
    for arguments in [&[][..], &["--bridge=none"]] {
        let Some(engine) = crate::servers::Engine::start_with(true, arguments) else {
            return;
        };
        let Some(server) = crate::servers::Server::start(crate::servers::Options {
            engine: Some(engine),
            ..Default::default()
        }) else {
            return;
        };
        failed_updates(
            &server,
            loomplane::ssh::Server::new(super::config(&server, "root")),
        );
    }
}

fn failed_updates(server: &crate::servers::Server, target: std::sync::Arc<loomplane::ssh::Server>) {
    let engine = server.engine.clone().unwrap();
    run(async {
        let wanted = deployment("chat", 1);
        let old = target
            .create_service(&wanted, &scope())
            .await
            .unwrap()
            .observed;
        let as_before = |existing: Option<Box<Observed>>| {
            let existing = existing.expect("the state keeps the old one");
            assert_eq!(
                (&existing.id, &existing.devices, existing.status().as_str()),
                (&old.id, &old.devices, "running")
            );
            assert_eq!(existing.spec.name, "chat");
            assert_eq!(engine.names(), ["chat"]);
        };
        // An image that exits at once.
        let mut broken = wanted.clone();
        broken.spec.command = Some(
            ["/bin/sh", "-c", "echo told $TOKEN; exit 3"]
                .map(str::to_owned)
                .to_vec(),
        );
        broken.spec.restart = Restart::No;
        broken.spec.secret_env = [("TOKEN".to_owned(), SecretString::from("hunter22"))].into();
        let failure = target
            .update_service(&old, &broken, &scope())
            .await
            .unwrap_err();
        let text = failure.error.to_string();
        assert!(
            text.contains("exit code 3")
                && text.contains("told ***")
                && text.contains("runs again"),
            "{text}"
        );
        assert!(!text.contains("hunter22"));
        as_before(failure.existing);
        // One that Docker keeps restarting.
        broken.spec.restart = Restart::Always;
        let failure = target
            .update_service(&old, &broken, &scope())
            .await
            .unwrap_err();
        assert!(
            failure.error.to_string().contains("restart"),
            "{}",
            failure.error
        );
        as_before(failure.existing);
        // A program that is not there: Docker can't start it.
        let mut missing = wanted.clone();
        missing.spec.command = Some(vec!["/bin/nothing".to_owned()]);
        let failure = target
            .update_service(&old, &missing, &scope())
            .await
            .unwrap_err();
        assert!(
            failure.error.to_string().contains("/bin/nothing"),
            "{}",
            failure.error
        );
        as_before(failure.existing);
        // An image that can't be had: nothing is touched.
        let mut no_image = wanted.clone();
        no_image.spec.image = format!("127.0.0.1:{}/nothing:1", crate::servers::free_port());
        let failure = target
            .update_service(&old, &no_image, &scope())
            .await
            .unwrap_err();
        assert!(
            failure.error.to_string().contains("could not pull")
                && failure.error.to_string().contains("nothing was changed"),
            "{}",
            failure.error
        );
        as_before(failure.existing);
        // More cards than there are.
        let failure = target
            .update_service(&old, &deployment("chat", 4), &scope())
            .await
            .unwrap_err();
        assert!(
            failure.error.to_string().contains("4 x nvidia-l4"),
            "{}",
            failure.error
        );
        as_before(failure.existing);
        // Stopped in the middle: back to the old one.
        let (stop, stopped) = tokio::sync::watch::channel(false);
        let mut slow = wanted.clone();
        slow.spec.health = Some(HealthCheck {
            probe: Probe::Command(vec!["/bin/false".to_owned()]),
            interval_seconds: 1,
            timeout_seconds: 1,
            retries: 100,
            startup_seconds: 100,
        });
        let scope_with_stop = loomplane::ssh::Scope::new(Duration::from_secs(120), stopped);
        let (failure, ()) = tokio::join!(
            target.update_service(&old, &slow, &scope_with_stop),
            async {
                tokio::time::sleep(Duration::from_secs(6)).await;
                stop.send(true).unwrap();
            }
        );
        let failure = failure.unwrap_err();
        assert!(
            failure.error.to_string().contains("interrupted"),
            "{}",
            failure.error
        );
        as_before(failure.existing);
        target.close().await;
    });
    server.assert_no_process_left("loomplane");
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
