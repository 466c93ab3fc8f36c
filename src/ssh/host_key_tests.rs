use super::*;
use base64::Engine;

const ED: &str = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJdD7y3aLq454yWBdwLWbieU1ebz9/cu7/QEXn9OIeZJ";
const OTHER: &str =
    "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIA6rWI3G1sz07DnfFlrouTcysQlj2P+jpNSOEWD9OJ3X";

fn key(line: &str) -> PublicKey {
    PublicKey::from_openssh(line).unwrap()
}

fn known(text: &str, host: &str, port: u16) -> Trusted {
    let mut trusted = Trusted::default();
    trusted.add_known_hosts(text, "kh", host, port);
    trusted.settle_ports(host, port);
    trusted
}

fn hashed(name: &str) -> String {
    let salt = b"0123456789abcdefghij";
    let key = aws_lc_rs::hmac::Key::new(aws_lc_rs::hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY, salt);
    let tag = aws_lc_rs::hmac::sign(&key, name.as_bytes());
    let encode = |bytes: &[u8]| base64::engine::general_purpose::STANDARD.encode(bytes);
    format!("|1|{}|{}", encode(salt), encode(tag.as_ref()))
}

#[test]
fn s4_a_hashed_entry_of_ssh_keygen_matches() {
    // Published example of a hashed name: example.com.
    let line = "|1|O33ESRMWPVkMYIwJ1Uw+n877jTo=|nuuC5vEqXlEZ/8BXQR7m619W6Ak= ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAILIG2T/B0l0gaqj3puu510tu9N1OkQ4znY3LYuEm5zCF";
    let shown =
        key("ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAILIG2T/B0l0gaqj3puu510tu9N1OkQ4znY3LYuEm5zCF");
    assert_eq!(
        known(line, "example.com", 22).verdict(&shown),
        Verdict::Trusted
    );
    assert!(matches!(
        known(line, "example.org", 22).verdict(&shown),
        Verdict::Unknown(_)
    ));
}

#[test]
fn s4_known_hosts_table() {
    let trusted = |text: String, host: &str, port: u16| known(&text, host, port).verdict(&key(ED));
    for (line, host, port, want) in [
        (format!("gpu-01 {ED}"), "gpu-01", 22, true),
        (format!("GPU-01 {ED}"), "gpu-01", 22, true),
        (format!("gpu-01 {ED}"), "GPU-01", 22, true),
        (format!("a,gpu-01,b {ED} comment here"), "gpu-01", 22, true),
        (format!("[gpu-01]:2222 {ED}"), "gpu-01", 2222, true),
        (format!("[gpu-01]:2222 {ED}"), "gpu-01", 22, false),
        (format!("gpu-01 {ED}"), "gpu-01", 2222, true),
        (format!("*.example.net {ED}"), "gpu.example.net", 22, true),
        (
            format!("*.example.net,!gpu.example.net {ED}"),
            "gpu.example.net",
            22,
            false,
        ),
        (format!("gpu-0? {ED}"), "gpu-01", 22, true),
        (format!("gpu-0? {ED}"), "gpu-011", 22, false),
        (format!("{} {ED}", hashed("gpu-01")), "gpu-01", 22, true),
        (
            format!("{} {ED}", hashed("[gpu-01]:2222")),
            "gpu-01",
            2222,
            true,
        ),
        (format!("# gpu-01 {ED}"), "gpu-01", 22, false),
        (format!("@cert-authority gpu-01 {ED}"), "gpu-01", 22, false),
        (
            format!("gpu-01 ssh-ed25519 not-base64\ngpu-01 {ED}"),
            "gpu-01",
            22,
            true,
        ),
        ("gpu-01 2048 35 1234567\n".to_owned(), "gpu-01", 22, false),
        (format!("2001:db8::1 {ED}"), "2001:db8::1", 22, true),
    ] {
        let verdict = trusted(line.clone(), host, port);
        assert_eq!(
            verdict == Verdict::Trusted,
            want,
            "{line:?} for {host}:{port} gave {verdict:?}"
        );
    }
}

#[test]
fn s4_another_key_is_changed_and_no_entry_is_unknown() {
    let changed = known(&format!("gpu-01 {OTHER}"), "gpu-01", 22).verdict(&key(ED));
    assert!(
        matches!(&changed, Verdict::Changed(place) if place.contains("kh:1")),
        "{changed:?}"
    );
    let unknown = known("", "gpu-01", 22).verdict(&key(ED));
    assert!(
        matches!(&unknown, Verdict::Unknown(place) if place.contains("kh")),
        "{unknown:?}"
    );
    // A key on record for the host without port says nothing about another port.
    assert!(matches!(
        known(&format!("gpu-01 {OTHER}"), "gpu-01", 2222).verdict(&key(ED)),
        Verdict::Unknown(_)
    ));
    // Two keys on record (a rotation): either will do.
    let both = known(&format!("gpu-01 {OTHER}\ngpu-01 {ED}"), "gpu-01", 22);
    assert_eq!(both.verdict(&key(ED)), Verdict::Trusted);
}

#[test]
fn s4_revoked_wins_over_trusted() {
    let text = format!("gpu-01 {ED}\n@revoked gpu-01 {ED}");
    assert!(
        matches!(known(&text, "gpu-01", 22).verdict(&key(ED)), Verdict::Revoked(place) if place == "kh:2")
    );
}

#[test]
fn s4_pinned_takes_the_forms_that_people_paste() {
    for line in [
        ED.to_owned(),
        format!("{ED} root@gpu"),
        format!("gpu-01 {ED}"),
        format!("[gpu-01]:2222 {ED} c"),
        format!("\n{ED}\n"),
    ] {
        let trusted =
            Trusted::load(&HostKeyPolicy::Pinned(vec![line.clone()]), "x", 22, None).unwrap();
        assert_eq!(trusted.verdict(&key(ED)), Verdict::Trusted, "{line:?}");
        assert!(
            matches!(trusted.verdict(&key(OTHER)), Verdict::Changed(_)),
            "{line:?}"
        );
    }
    for line in ["", "SHA256:abc", "ssh-ed25519", "ssh-ed25519 nope"] {
        assert!(
            Trusted::load(&HostKeyPolicy::Pinned(vec![line.to_owned()]), "x", 22, None).is_err(),
            "{line:?}"
        );
    }
}

#[test]
fn s4_only_algorithms_of_keys_on_record_are_asked_for() {
    let trusted =
        Trusted::load(&HostKeyPolicy::Pinned(vec![ED.to_owned()]), "x", 22, None).unwrap();
    assert_eq!(trusted.algorithms(), [Algorithm::Ed25519]);
    assert_eq!(Trusted::default().algorithms().len(), 6);
}

#[test]
fn a_missing_known_hosts_file_is_said() {
    let error = Trusted::load(
        &HostKeyPolicy::KnownHosts(vec!["/nowhere/known_hosts".to_owned()]),
        "x",
        22,
        None,
    )
    .unwrap_err();
    assert!(error.contains("/nowhere/known_hosts"), "{error}");
}
