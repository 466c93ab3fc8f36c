//! S5: an update does the least that it can, and a failed one leaves the old container as it was.

use std::time::Duration;

use loomplane::ssh::{Change, HealthCheck, Observed, Probe, Restart, VolumeSpec, change};
use secrecy::SecretString;

use super::{deployment, run, scope, server_with};
use crate::servers::OTHER_IMAGE;

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
fn a_connection_cut_in_the_middle_of_an_update_brings_the_old_container_back() {
    let Some((server, target)) = server_with(1) else {
        return;
    };
    let engine = server.engine.clone().unwrap();
    run(async {
        let wanted = deployment("chat", 1);
        let old = target
            .create_service(&wanted, &scope())
            .await
            .unwrap()
            .observed;
        let mut slow = wanted.clone();
        slow.spec.health = Some(HealthCheck {
            probe: Probe::Command(vec!["/bin/false".to_owned()]),
            interval_seconds: 1,
            timeout_seconds: 1,
            retries: 100,
            startup_seconds: 100,
        });
        let scope = scope();
        let (failure, ()) = tokio::join!(target.update_service(&old, &slow, &scope), async {
            tokio::time::sleep(Duration::from_secs(6)).await;
            server.cut();
        });
        let failure = failure.unwrap_err();
        assert!(
            failure.error.to_string().contains("runs again"),
            "{}",
            failure.error
        );
        let existing = failure.existing.unwrap();
        assert_eq!(
            (&existing.id, existing.status().as_str()),
            (&old.id, "running")
        );
        assert_eq!(engine.names(), ["chat"]);
        target.close().await;
    });
}
