use std::collections::BTreeMap;

use tf_provider_sdk::{
    diagnostic::Diagnostics,
    field::{Maybe, Opt},
    resource::Resource,
    schema::Schema,
};

use super::{
    GpuService,
    cluster::empty,
    model::{AccessMode, EnvFrom, Gpu, Port, Protocol, Size, Volume},
    validate::validate,
};

#[test]
fn the_schema_can_be_expressed_and_says_what_replaces() {
    let schema = Schema::of::<GpuService>(GpuService::VERSION).unwrap();
    let replacing: Vec<_> = schema
        .attributes
        .iter()
        .filter(|(_, a)| a.replace)
        .map(|(name, _)| name.as_str())
        .collect();
    assert_eq!(replacing, ["name", "namespace"]);
    assert!(schema.attributes["secret_env"].write_only);
    assert!(
        schema
            .attributes
            .values()
            .all(|attribute| !attribute.description.is_empty())
    );
}

fn invalid(edit: impl FnOnce(&mut GpuService)) -> Vec<String> {
    let mut service = empty("prod", "ml", "it");
    edit(&mut service);
    let mut report = Diagnostics::none();
    validate(&service, &mut report);
    report.0.into_iter().map(|it| it.path.to_string()).collect()
}

fn one(name: &str) -> Opt<BTreeMap<String, Maybe<String>>> {
    Opt::Known([(name.to_owned(), String::new().into())].into())
}

#[test]
fn one_variable_comes_from_one_place() {
    let from = |name: &str| {
        let text = |text: &str| Maybe::Known(text.to_owned());
        vec![EnvFrom {
            name: text(name),
            secret: text("s"),
            key: text("k"),
        }]
    };
    assert_eq!(
        invalid(|it| {
            it.env = one("A");
            it.env_from = Opt::Known(from("A"));
        }),
        ["env_from"]
    );
    assert_eq!(
        invalid(|it| {
            it.env = one("A");
            it.secret_env.0 = one("A");
            it.secret_env_version = Opt::Known(1);
        }),
        ["secret_env"]
    );
    assert_eq!(
        invalid(|it| it.env_from = Opt::Known([from("A"), from("A")].concat())),
        ["env_from"]
    );
    assert!(
        invalid(|it| {
            it.env = one("A");
            it.env_from = Opt::Known(from("B"));
        })
        .is_empty()
    );
}

#[test]
fn a_port_without_a_protocol_is_a_tcp_port() {
    let port = |name: &str, protocol| Port {
        name: Maybe::Known(name.to_owned()),
        port: 80.into(),
        protocol,
        host_port: Opt::Null,
        host_ip: Opt::Null,
    };
    let ports = |second| Opt::Known(vec![port("a", Opt::Null), port("b", second)]);
    assert_eq!(
        invalid(|it| it.ports = ports(Opt::Known(Protocol::Tcp))),
        ["ports"]
    );
    assert!(invalid(|it| it.ports = ports(Opt::Known(Protocol::Udp))).is_empty());
    assert!(invalid(|it| it.ports = ports(Opt::Unknown)).is_empty());
}

#[test]
fn k10_several_replicas_share_a_volume_that_all_may_write_and_no_other() {
    for (mode, fine) in [
        (Opt::Null, false),
        (Opt::Known(AccessMode::ReadWriteOnce), false),
        (Opt::Known(AccessMode::ReadWriteOncePod), false),
        (Opt::Known(AccessMode::ReadOnlyMany), false),
        (Opt::Known(AccessMode::ReadWriteMany), true),
        (Opt::Unknown, true),
    ] {
        let volume = Volume {
            mount_path: Maybe::Known("/data".to_owned()),
            size_gib: Opt::Known(1),
            access_mode: mode,
            delete_on_destroy: false,
        };
        let found = invalid(|it| {
            it.replicas = Opt::Known(2);
            it.volumes = Opt::Known([("data".to_owned(), volume)].into());
        });
        assert_eq!(found.is_empty(), fine, "{mode:?}");
    }
}

#[test]
fn g1_a_kind_that_is_none_is_refused_while_its_count_is_not_known() {
    let size = |kind: &str| {
        Opt::Known(Size {
            cpu: Opt::Null,
            memory: Opt::Null,
            shm: Opt::Null,
            gpu: Opt::Known(Gpu {
                kind: Maybe::Known(kind.to_owned()),
                count: Maybe::Unknown,
            }),
        })
    };
    assert_eq!(invalid(|it| it.size = size("nvidia-l5")), ["size.gpu"]);
    assert!(invalid(|it| it.size = size("nvidia-l4")).is_empty());
}
