use tf_provider_sdk::field::{Maybe, Opt};

use super::super::{
    cluster::empty,
    model::{Effect, GpuService, Port, Rollout, Size, Toleration, TolerationOperator, Volume},
};

fn refused(edit: impl FnOnce(&mut GpuService)) -> Vec<String> {
    let mut service = empty("prod", "ml", "it");
    edit(&mut service);
    let mut report = tf_provider_sdk::diagnostic::Diagnostics::none();
    super::check(&service, &mut report);
    report.0.into_iter().map(|it| it.path.to_string()).collect()
}

fn map(entries: &[(&str, &str)]) -> Opt<std::collections::BTreeMap<String, Maybe<String>>> {
    let entries = entries
        .iter()
        .map(|(key, value)| ((*key).to_owned(), (*value).to_owned().into()));
    Opt::Known(entries.collect())
}

fn volume(path: &str) -> Volume {
    Volume {
        mount_path: path.to_owned().into(),
        size_gib: Opt::Known(1),
        access_mode: Opt::Null,
        delete_on_destroy: false,
    }
}

fn toleration(key: &str, operator: TolerationOperator, value: &str) -> Toleration {
    let text = |text: &str| Some(text.to_owned()).filter(|it| !it.is_empty()).into();
    Toleration {
        key: text(key),
        operator: Opt::Known(operator),
        value: text(value),
        effect: Opt::Known(Effect::NoSchedule),
        seconds: Opt::Null,
    }
}

#[test]
fn g5_what_the_api_server_would_refuse_is_refused_on_its_attribute() {
    let long = "x".repeat(64);
    for (label, fine) in [
        ("team", true),
        ("example.com/team", true),
        ("a b", false),
        ("/team", false),
        ("Example.com/a", false),
        (long.as_str(), false),
        ("loomplane.dev/service", false),
    ] {
        let found = refused(|it| it.labels = map(&[(label, "x")]));
        assert_eq!(found.is_empty(), fine, "label {label}: {found:?}");
        assert!(found.iter().all(|path| path == "labels"));
    }
    for (value, fine) in [
        ("", true),
        ("a-b_c.d", true),
        ("-a", false),
        ("a b", false),
        (long.as_str(), false),
    ] {
        assert_eq!(
            refused(|it| it.labels = map(&[("team", value)])).is_empty(),
            fine,
            "{value:?}"
        );
        assert_eq!(
            refused(|it| it.node_selector = map(&[("team", value)])).is_empty(),
            fine,
            "{value:?}"
        );
        // An annotation takes any text.
        assert!(refused(|it| it.annotations = map(&[("team", value)])).is_empty());
    }
    assert_eq!(
        refused(|it| it.annotations = map(&[("a b", "")])),
        ["annotations"]
    );
    for (namespace, fine) in [("ml", true), ("ML", false), ("a.b", false), ("-a", false)] {
        assert_eq!(
            refused(|it| it.namespace.0.0 = Opt::Known(namespace.to_owned())).is_empty(),
            fine
        );
    }
    for (name, fine) in [
        ("http", true),
        ("HTTP", false),
        ("80", false),
        ("a--b", false),
    ] {
        let port = Port {
            name: name.to_owned().into(),
            port: 80.into(),
            protocol: Opt::Null,
            host_port: Opt::Null,
            host_ip: Opt::Null,
        };
        assert_eq!(
            refused(|it| it.ports = Opt::Known(vec![port])).is_empty(),
            fine,
            "{name}"
        );
    }
    for (name, fine) in [
        ("A", true),
        ("a.b-c", true),
        ("", false),
        ("a=b", false),
        ("a\nb", false),
    ] {
        assert_eq!(
            refused(|it| it.env = map(&[(name, "")])).is_empty(),
            fine,
            "{name:?}"
        );
    }
    assert_eq!(
        refused(|it| it.secret_env.0 = map(&[("a b", "")])),
        ["secret_env"]
    );
}

#[test]
fn k10_a_rollout_that_may_neither_add_nor_take_a_pod_is_refused() {
    for (surge, unavailable, fine) in [
        ("0", "0", false),
        ("0%", "0", false),
        ("0", "1", true),
        ("25%", "0", true),
    ] {
        let rollout = Rollout {
            max_surge: surge.to_owned().into(),
            max_unavailable: unavailable.to_owned().into(),
        };
        let found = refused(|it| it.rollout = Opt::Known(rollout));
        assert_eq!(found.is_empty(), fine, "{surge} {unavailable}");
    }
    let unknown = Rollout {
        max_surge: "0".to_owned().into(),
        max_unavailable: Maybe::Unknown,
    };
    assert!(refused(|it| it.rollout = Opt::Known(unknown)).is_empty());
}

#[test]
fn k8_volumes_that_no_pod_could_mount_are_refused() {
    let volumes = |entries: &[(&str, &str)]| {
        let entries = entries
            .iter()
            .map(|(name, path)| ((*name).to_owned(), volume(path)));
        Opt::Known(entries.collect())
    };
    for (entries, fine) in [
        (&[("data", "/data"), ("more", "/data/more")][..], true),
        (&[("data", "/data"), ("more", "/data/")], false),
        (&[("Data", "/data")], false),
        (&[("loomplane-shm", "/data")], false),
        (&[("data", "/a:b")], false),
    ] {
        assert_eq!(
            refused(|it| it.volumes = volumes(entries)).is_empty(),
            fine,
            "{entries:?}"
        );
    }
    let shm = Size {
        cpu: Opt::Null,
        memory: Opt::Null,
        shm: Opt::Known(64),
        gpu: Opt::Null,
    };
    let both = refused(|it| {
        it.volumes = volumes(&[("data", "/dev/shm")]);
        it.size = Opt::Known(shm);
    });
    assert_eq!(both, ["volumes"]);
}

#[test]
fn k6_a_toleration_that_kubernetes_does_not_know_is_refused() {
    use TolerationOperator::{Equal, Exists};
    for (key, operator, value, fine) in [
        ("team", Equal, "ml", true),
        ("", Exists, "", true),
        ("", Equal, "ml", false),
        ("team", Exists, "ml", false),
        ("a b", Exists, "", false),
        ("team", Equal, "a b", false),
    ] {
        let one = toleration(key, operator, value);
        let found = refused(|it| it.tolerations = Opt::Known(vec![one]));
        assert_eq!(found.is_empty(), fine, "{key} {operator:?} {value}");
    }
    let staying = Toleration {
        seconds: Opt::Known(60),
        ..toleration("team", Exists, "")
    };
    assert_eq!(
        refused(|it| it.tolerations = Opt::Known(vec![staying.clone()])),
        ["tolerations"]
    );
    let evicting = Toleration {
        effect: Opt::Known(Effect::NoExecute),
        ..staying
    };
    assert!(refused(|it| it.tolerations = Opt::Known(vec![evicting])).is_empty());
    // Not known yet is not wrong.
    let unknown = Toleration {
        key: Opt::Unknown,
        value: Opt::Unknown,
        ..toleration("", Equal, "")
    };
    assert!(refused(|it| it.tolerations = Opt::Known(vec![unknown])).is_empty());
}
