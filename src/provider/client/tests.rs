use tf_provider_sdk::{de::from_value, value::Value};

use super::*;
use crate::capacity::taint::TolerationOperator;

fn target() -> ClusterTarget {
    let group = Value::object([
        ("kind", Value::from("nvidia-l4")),
        ("gpus_per_node", 1.into()),
    ]);
    let groups = Value::object([("l4", group)]);
    let config: ClusterConfig = from_value(&Value::object([("gpu_node_groups", groups)])).unwrap();
    ClusterTarget::new("prod", &config, &|_| None).unwrap()
}

#[test]
fn services_that_ask_for_the_same_are_told_the_same_and_no_others() {
    let (target, prices) = (target(), PriceBook::default());
    let view = View::Listed(ClusterView::default());
    let (none, zone) = (
        BTreeMap::new(),
        BTreeMap::from([("zone".to_owned(), "a".to_owned())]),
    );
    let tolerations = [Toleration {
        key: "team".to_owned(),
        operator: TolerationOperator::Exists,
        value: String::new(),
        effect: String::new(),
    }];
    let ask = ClusterAsk {
        target: "prod",
        request: GpuRequest::parse("nvidia-l4", 1).unwrap(),
        replicas: 1,
        cpu_millis: None,
        memory_mib: None,
        node_selector: &none,
        tolerations: &[],
        previous: None,
        prices: &prices,
    };
    let fit = |ask: ClusterAsk<'_>| target.fit(&view, &ask);
    let first = fit(ask).unwrap();
    assert!(Arc::ptr_eq(&first, &fit(ask).unwrap()));
    let others = [
        ClusterAsk { replicas: 2, ..ask },
        ClusterAsk {
            cpu_millis: Some(1),
            ..ask
        },
        ClusterAsk {
            memory_mib: Some(1),
            ..ask
        },
        ClusterAsk {
            node_selector: &zone,
            ..ask
        },
        ClusterAsk {
            tolerations: &tolerations,
            ..ask
        },
        ClusterAsk {
            previous: Some(&first.placement),
            ..ask
        },
    ];
    for other in others {
        assert!(!Arc::ptr_eq(&first, &fit(other).unwrap()));
    }
    // A refusal is not remembered as an answer to another.
    let h100 = GpuRequest::parse("nvidia-h100-80gb", 1).unwrap();
    assert!(
        fit(ClusterAsk {
            request: h100,
            ..ask
        })
        .is_err()
    );
    assert!(fit(ask).is_ok());
}
