//! S4: who is let in, and which machine is believed. Each refusal has its own message and comes before any command.

use std::time::Duration;

use loomplane::ssh::{Auth, HostKeyPolicy, Login, Server as Target, ServerConfig, SshError};
use secrecy::SecretString;

use super::{config, login, run, scope};
use crate::servers::{Agent, Key, Options, Server};

/// The message of a connection that must fail.
fn refused(config: ServerConfig) -> String {
    run(async {
        Target::new(config)
            .target_uid(&scope())
            .await
            .expect_err("the connection must be refused")
            .to_string()
    })
}

fn with(server: &Server, change: impl FnOnce(&mut Login)) -> ServerConfig {
    let mut config = config(server, "root");
    change(&mut config.login);
    config
}

fn accepted(config: ServerConfig) -> String {
    run(async { Target::new(config).target_uid(&scope()).await.unwrap() })
}

#[test]
fn s4_a_wrong_unknown_or_revoked_host_key_is_refused_before_the_login() {
    let Some(server) = Server::start(Options::default()) else {
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    let other = Key::make(dir.path(), "other", "ed25519", None).public();
    let known_hosts = |text: String| {
        let path = dir.path().join("known_hosts");
        std::fs::write(&path, text).unwrap();
        HostKeyPolicy::KnownHosts(vec![path.display().to_string()])
    };
    let host = format!("[127.0.0.1]:{}", server.port);
    let right = server.host_key("ed25519");

    let changed = refused(with(&server, |login| {
        login.host_key = HostKeyPolicy::Pinned(vec![other.clone()])
    }));
    assert!(
        changed.contains("has CHANGED") && changed.contains("host_key") && changed.contains(&right),
        "{changed}"
    );
    let changed = refused(with(&server, |login| {
        login.host_key = known_hosts(format!("{host} {other}"))
    }));
    assert!(
        changed.contains("has CHANGED") && changed.contains("known_hosts:1"),
        "{changed}"
    );
    let unknown = refused(with(&server, |login| {
        login.host_key = known_hosts(format!("elsewhere {right}"))
    }));
    assert!(
        unknown.contains("is not known") && unknown.contains("SHA256:"),
        "{unknown}"
    );
    let revoked = refused(with(&server, |login| {
        login.host_key = known_hosts(format!("@revoked {host} {right}\n{host} {right}"))
    }));
    assert!(revoked.contains("@revoked"), "{revoked}");
    let none = refused(with(&server, |login| login.host_key = HostKeyPolicy::None));
    assert!(none.contains("set host_key"), "{none}");

    assert!(
        !server.log().contains("Accepted") && !server.log().contains("userauth"),
        "nothing was authenticated:\n{}",
        server.log()
    );

    // The same with what is right: plain, hashed by ssh-keygen itself, and another type than the server would choose.
    assert_eq!(
        accepted(with(&server, |login| login.host_key =
            known_hosts(format!("{host} {right}")))),
        server.machine_id()
    );
    let path = dir.path().join("known_hosts");
    let done = std::process::Command::new("ssh-keygen")
        .args(["-q", "-H", "-f"])
        .arg(&path)
        .output()
        .unwrap();
    assert!(done.status.success() && std::fs::read_to_string(&path).unwrap().starts_with("|1|"));
    let hashed = HostKeyPolicy::KnownHosts(vec![path.display().to_string()]);
    assert_eq!(
        accepted(with(&server, |login| login.host_key = hashed)),
        server.machine_id()
    );
    for kind in ["ecdsa", "rsa"] {
        let pinned = HostKeyPolicy::Pinned(vec![server.host_key(kind)]);
        assert_eq!(
            accepted(with(&server, |login| login.host_key = pinned)),
            server.machine_id(),
            "{kind}"
        );
    }
}

#[test]
fn s4_each_bad_login_has_its_own_message() {
    let Some(server) = Server::start(Options::default()) else {
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    let stranger = Key::make(dir.path(), "stranger", "ed25519", None);
    let file = |path: String, passphrase: Option<&str>| Auth::KeyFile {
        path,
        passphrase: passphrase.map(|phrase| SecretString::from(phrase.to_owned())),
    };

    let wrong_user = refused(with(&server, |login| login.user = "nobody-here".to_owned()));
    assert!(
        wrong_user.contains("refused the login") && wrong_user.contains("publickey"),
        "{wrong_user}"
    );
    let wrong_key = refused(with(&server, |login| {
        login.auth = file(stranger.path.display().to_string(), None)
    }));
    assert!(
        wrong_key.contains("refused the login") && wrong_key.contains("SHA256:"),
        "{wrong_key}"
    );
    let missing = refused(with(&server, |login| {
        login.auth = file("/nowhere/id".to_owned(), None)
    }));
    assert!(
        missing.contains("/nowhere/id") && missing.contains("no such file"),
        "{missing}"
    );
    let public = refused(with(&server, |login| {
        login.auth = file(format!("{}.pub", server.key.path.display()), None)
    }));
    assert!(public.contains("public key"), "{public}");
    let garbage = refused(with(&server, |login| {
        login.auth = Auth::Key {
            text: SecretString::from("nonsense".to_owned()),
            passphrase: None,
        }
    }));
    assert!(
        garbage.contains("can't be read as a private key"),
        "{garbage}"
    );

    let encrypted = Key::make(dir.path(), "encrypted", "ed25519", Some("open sesame"));
    let locked = refused(with(&server, |login| {
        login.auth = file(encrypted.path.display().to_string(), None)
    }));
    assert!(
        locked.contains("is encrypted") && locked.contains("passphrase"),
        "{locked}"
    );
    let wrong = refused(with(&server, |login| {
        login.auth = file(encrypted.path.display().to_string(), Some("wrong"))
    }));
    assert!(wrong.contains("does not decrypt"), "{wrong}");
    assert!(
        !wrong.contains("PRIVATE KEY") && !garbage.contains("nonsense"),
        "no part of a key is shown"
    );

    let empty = Agent::start(dir.path(), &[]);
    let no_key = refused(with(&server, |login| {
        login.auth = Auth::Agent {
            socket: Some(empty.socket.clone()),
        }
    }));
    assert!(no_key.contains("holds no key"), "{no_key}");
    let no_agent = refused(with(&server, |login| {
        login.auth = Auth::Agent {
            socket: Some("/nowhere/agent".into()),
        }
    }));
    assert!(no_agent.contains("does not answer"), "{no_agent}");
    let unset = refused(with(&server, |login| {
        login.auth = Auth::Agent { socket: None }
    }));
    assert!(unset.contains("SSH_AUTH_SOCK"), "{unset}");
    assert!(!server.log().contains("Accepted"), "{}", server.log());
}

#[test]
fn s4_every_kind_of_key_logs_in() {
    let Some(server) = Server::start(Options::default()) else {
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    for kind in ["ed25519", "ecdsa", "rsa"] {
        let key = Key::make(dir.path(), kind, kind, None);
        server.authorize(&key);
        let text = Auth::Key {
            text: SecretString::from(key.text()),
            passphrase: None,
        };
        assert_eq!(
            accepted(with(&server, |login| login.auth = text)),
            server.machine_id(),
            "{kind}"
        );
    }
    let encrypted = Key::make(dir.path(), "encrypted", "ed25519", Some("open sesame"));
    server.authorize(&encrypted);
    let with_passphrase = Auth::KeyFile {
        path: encrypted.path.display().to_string(),
        passphrase: Some(SecretString::from("open sesame".to_owned())),
    };
    assert_eq!(
        accepted(with(&server, |login| login.auth = with_passphrase)),
        server.machine_id()
    );
    // An agent whose second key is the right one.
    let stranger = Key::make(dir.path(), "stranger", "ed25519", None);
    let agent = Agent::start(dir.path(), &[&stranger, &server.key]);
    assert_eq!(
        accepted(with(&server, |login| login.auth = Auth::Agent {
            socket: Some(agent.socket.clone())
        })),
        server.machine_id()
    );
}

#[test]
fn s4_a_jump_host_is_verified_too() {
    let (Some(jump), Some(server)) = (
        Server::start(Options::default()),
        Server::start(Options::default()),
    ) else {
        return;
    };
    let mut config = config(&server, "root");
    config.proxy_jump = Some(login(&jump, "root"));
    assert_eq!(accepted(config.clone()), server.machine_id());
    assert_eq!((jump.connections(), server.connections()), (1, 1));
    if let Some(jump_login) = &mut config.proxy_jump {
        jump_login.host_key = HostKeyPolicy::Pinned(vec![server.host_key("ed25519")]);
    }
    let text = refused(config.clone());
    assert!(
        text.contains("has CHANGED") && text.contains(&jump.port.to_string()),
        "{text}"
    );
    config.proxy_jump = Some(login(&jump, "root"));
    config.login.port = crate::servers::free_port();
    let text = refused(config);
    assert!(
        text.contains("can't be reached") && text.contains("jump host"),
        "{text}"
    );
}

#[test]
fn an_unreachable_server_is_tried_once_for_all_and_is_an_error() {
    let Some(server) = Server::start(Options::default()) else {
        return;
    };
    let mut config = config(&server, "root");
    config.login.port = crate::servers::free_port();
    run(async {
        let target = Target::new(config);
        let scope = scope();
        let (one, two) = tokio::join!(
            target.read_service("chat", &scope),
            target.read_service("other", &scope)
        );
        for result in [one, two] {
            let error = result.expect_err("unreachable is never gone").to_string();
            assert!(error.contains("can't be reached"), "{error}");
        }
    });
}

#[test]
fn a_server_that_says_nothing_is_given_up_at_the_limit() {
    let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let Some(server) = Server::start(Options::default()) else {
        return;
    };
    let mut config = config(&server, "root");
    config.login.port = listener.local_addr().unwrap().port();
    config.limits.connect = Duration::from_secs(1);
    let started = std::time::Instant::now();
    let error = run(async { Target::new(config).target_uid(&scope()).await.unwrap_err() });
    assert!(started.elapsed() < Duration::from_secs(5));
    let inner = match &error {
        SshError::Shared(inner) => inner,
        other => other,
    };
    assert!(matches!(inner, SshError::TimedOut { .. }), "{error}");
}

#[test]
fn many_processes_at_once_get_in_past_max_startups() {
    let Some(server) = Server::start(Options {
        sshd: "MaxStartups 2:50:4".to_owned(),
        ..Options::default()
    }) else {
        return;
    };
    run(async {
        let tasks: Vec<_> = (0..12)
            .map(|_| {
                let target = Target::new(config(&server, "root"));
                tokio::spawn(async move { target.target_uid(&scope()).await })
            })
            .collect();
        for task in tasks {
            assert_eq!(task.await.unwrap().unwrap(), server.machine_id());
        }
    });
}
