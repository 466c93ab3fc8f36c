use super::*;

fn class(name: &str, policy: Option<&str>, mode: Option<&str>) -> StorageClass {
    StorageClass {
        name: name.to_owned(),
        reclaim_policy: policy.map(ToOwned::to_owned),
        binding_mode: mode.map(ToOwned::to_owned),
    }
}

#[test]
fn k8_retain_and_wait_for_first_consumer_pass() {
    let classes = [class("ssd", Some("Retain"), Some("WaitForFirstConsumer"))];
    assert_eq!(check_storage(Some("ssd"), &classes), Ok(None));
}

#[test]
fn k8_immediate_warns() {
    let classes = [class("ssd", Some("Retain"), Some("Immediate"))];
    let warning = check_storage(Some("ssd"), &classes).unwrap().unwrap();
    assert!(
        warning
            .render("prod")
            .detail
            .contains("WaitForFirstConsumer")
    );
}

#[test]
fn k8_anything_else_is_refused_until_a_class_is_added() {
    let good = class("keep", Some("Retain"), Some("WaitForFirstConsumer"));
    let classes = [
        class("std", Some("Delete"), Some("WaitForFirstConsumer")),
        class("old", None, None),
        class("odd", Some("Retain"), None),
        good,
    ];
    let why = |name| check_storage(name, &classes).unwrap_err();
    let suitable = || vec!["keep".to_owned()];
    assert_eq!(
        why(None),
        StorageWhy::NotPicked {
            suitable: suitable()
        }
    );
    assert_eq!(
        why(Some("")),
        StorageWhy::NotPicked {
            suitable: suitable()
        }
    );
    assert_eq!(
        why(Some("none")),
        StorageWhy::NotFound {
            name: "none".to_owned(),
            suitable: suitable()
        }
    );
    for name in ["std", "old"] {
        assert_eq!(
            why(Some(name)),
            StorageWhy::NotRetained {
                name: name.to_owned(),
                policy: "Delete".to_owned(),
                suitable: suitable()
            }
        );
    }
    assert_eq!(
        why(Some("odd")),
        StorageWhy::NoBindingMode {
            name: "odd".to_owned(),
            suitable: suitable()
        }
    );
    assert_eq!(
        why(Some("std")).render("prod").detail,
        "Volumes need a storage class with reclaim policy Retain and a declared volume binding mode. The storage class \"std\" of prod has \
         reclaim policy Delete: its volumes go when their claim goes. Set storage_class on the connection to one that does: keep."
    );
    assert!(
        check_storage(Some("x"), &[])
            .unwrap_err()
            .render("prod")
            .detail
            .contains("The cluster has no such class: add one")
    );
}

#[test]
fn k10_replicas_share_only_read_write_many() {
    let all = [
        AccessMode::ReadWriteOnce,
        AccessMode::ReadWriteOncePod,
        AccessMode::ReadOnlyMany,
        AccessMode::ReadWriteMany,
    ];
    for mode in all {
        assert_eq!(mode.as_str().parse(), Ok(mode));
        assert_eq!(check_replicas(1, [("cache", mode)]), Ok(()));
        assert_eq!(
            check_replicas(2, [("cache", mode)]).is_ok(),
            mode == AccessMode::ReadWriteMany,
            "{mode:?}"
        );
    }
    let mixed = check_replicas(
        2,
        [
            ("a", AccessMode::ReadWriteMany),
            ("b", AccessMode::ReadWriteOnce),
        ],
    );
    assert_eq!(
        mixed,
        Err(VolumeError::Shared {
            volume: "b".to_owned(),
            mode: AccessMode::ReadWriteOnce,
            replicas: 2
        })
    );
    assert_eq!(check_replicas(5, []), Ok(()));
    assert!("rwx".parse::<AccessMode>().is_err());
}
