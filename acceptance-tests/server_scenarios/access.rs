//! Logins: each bad one is refused with its own message before any command runs (S4).

use std::fs;

use super::{Rack, provider, provider_with};
use crate::servers::{Agent, Engine, IMAGE, Key, Options, Server};
use crate::terraform::{FAILED, OK};

#[test]
fn s4_each_bad_login_is_refused_before_any_command_with_its_own_message() {
    let Some(rack) = Rack::shared(1) else { return };
    let Some(mut work) = rack.work() else { return };
    let server = &rack.server;
    let dir = work.path().to_owned();
    let stranger = Key::make(&dir, "stranger", "ed25519", None);
    let locked = Key::make(&dir, "locked", "ed25519", Some("open sesame"));
    let agent = Agent::start(&dir, &[]);
    let other_host = Key::make(&dir, "host", "ed25519", None);
    let line = |key: &str| format!("[127.0.0.1]:{} {key}\n", server.port);
    fs::write(dir.join("changed"), line(&other_host.public())).unwrap();
    fs::write(dir.join("empty"), "").unwrap();
    fs::write(dir.join("right"), line(&server.host_key("ed25519"))).unwrap();
    let entry = |name: &str, user: &str, key: &str, host: &str| {
        format!(
            "    {name} = {{ host = \"127.0.0.1\", port = {}, user = \"{user}\", {key}, {host} }}\n",
            server.port
        )
    };
    let file = |key: &Key| format!("private_key_path = \"{}\"", key.path.display());
    let (good_key, good_host) = (
        file(&server.key),
        format!("host_key = \"{}\"", server.host_key("ed25519")),
    );
    let known = |name: &str| format!("known_hosts_path = \"{}\"", dir.join(name).display());
    let pinned_other = format!("host_key = \"{}\"", other_host.public().trim());
    let cases = [
        (
            entry("nothing", "root", &good_key, "hourly_usd = 1"),
            "no host key is configured for root@127.0.0.1",
        ),
        (
            entry("pinned", "root", &good_key, &pinned_other),
            "has CHANGED",
        ),
        (
            entry("changed", "root", &good_key, &known("changed")),
            "changed:1",
        ),
        (
            entry("unknown", "root", &good_key, &known("empty")),
            "is not known, so the connection is refused",
        ),
        (
            entry("user", "nobody-here", &good_key, &good_host),
            "nobody-here@127.0.0.1",
        ),
        (
            entry("key", "root", &file(&stranger), &good_host),
            "refused the login",
        ),
        (
            entry("locked", "root", &file(&locked), &good_host),
            "passphrase",
        ),
        (
            entry(
                "missing",
                "root",
                "private_key_path = \"/no/such/key\"",
                &good_host,
            ),
            "/no/such/key",
        ),
        (
            entry("text", "root", "private_key = \"not a key\"", &good_host),
            "private_key",
        ),
        (
            entry("agent", "root", "agent = true", &good_host),
            "ssh-agent can't be used",
        ),
    ];
    work.env("SSH_AUTH_SOCK", agent.socket.as_os_str());
    for (entry, message) in &cases {
        let name = entry.trim().split(' ').next().unwrap();
        work.file("provider.tf", &provider(entry));
        work.file(
            "main.tf",
            &format!("data \"loomplane_server\" \"it\" {{\n  name = \"{name}\"\n}}\n"),
        );
        work.plan().expect(FAILED).says(message);
    }
    assert_eq!(
        server.connections(),
        0,
        "nobody was let in:\n{}",
        server.log()
    );
    // The right ones get in: known_hosts, and an agent that has the key; the provider's `ssh` speaks for servers that say nothing.
    let agent = {
        drop(agent);
        fs::remove_file(dir.join("agent.sock")).ok();
        Agent::start(&dir, &[&server.key])
    };
    work.env("SSH_AUTH_SOCK", agent.socket.as_os_str());
    work.file("main.tf", "data \"loomplane_server\" \"it\" {\n  name = \"good\"\n}\noutput \"can\" {\n  value = data.loomplane_server.it.can_take_gpu_work\n}\n");
    for (key, ssh) in [
        ("agent = true", String::new()),
        ("hourly_usd = 1", format!("  ssh = {{ {good_key} }}")),
    ] {
        work.file(
            "provider.tf",
            &provider_with(&entry("good", "root", key, &known("right")), &ssh),
        );
        work.apply().expect(OK);
        assert_eq!(work.output("can"), true);
    }
    assert_eq!(server.connections(), 2);
}

#[test]
fn s4_another_account_goes_through_a_jump_host_and_uses_sudo_when_told() {
    if !std::path::Path::new("/usr/bin/sudo").exists() {
        return crate::parts::cannot_start("sudo", "/usr/bin/sudo is missing");
    }
    let Some(engine) = Engine::shared() else {
        return;
    };
    let start = |sudoers| {
        Server::start(Options {
            engine: Some(engine.clone()),
            cards: 1,
            sudoers: Some(sudoers),
            ..Options::default()
        })
    };
    let (Some(server), Some(jump)) = (
        start("ops ALL=(root) NOPASSWD: /usr/bin/docker, /usr/local/bin/docker"),
        start(""),
    ) else {
        return;
    };
    jump.authorize(&server.key);
    let Some(work) = crate::terraform::Workspace::with_provider(crate::terraform::Cli::any())
    else {
        return;
    };
    let entry =
        |more: &str| super::connection("rack1", &server, more).replace("\"root\"", "\"ops\"");
    let through = |key: &str| {
        format!(
            "proxy_jump = {{ host = \"127.0.0.1\", port = {}, user = \"root\", host_key = \"{key}\" }}",
            jump.port
        )
    };
    work.file(
        "main.tf",
        &format!("resource \"loomplane_gpu_service\" \"app\" {{\n  name = \"sudo-{}\"\n  target = \"rack1\"\n  image = \"{IMAGE}\"\n  stop_grace_seconds = 0\n}}\n", server.port),
    );
    // Not permitted, and said how it would be.
    work.file("provider.tf", &provider(&entry("")));
    work.apply().expect(FAILED).says("docker_sudo = true");
    // The jump host is verified too.
    work.file(
        "provider.tf",
        &provider(&entry(&through(&server.host_key("ed25519")))),
    );
    work.plan().expect(FAILED).says("has CHANGED");
    let direct = server.connections();
    work.file(
        "provider.tf",
        &provider(&entry(&format!(
            "docker_sudo = true\n{}",
            through(&jump.host_key("ed25519"))
        ))),
    );
    work.apply().expect(OK);
    work.expect_no_changes();
    assert!(jump.connections() > 0 && server.connections() > direct);
    work.destroy().expect(OK);
}
