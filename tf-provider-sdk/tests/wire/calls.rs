//! Calls: large ones, stopped ones, ones that panic.

use std::time::{Duration, Instant};

use tf_provider_sdk::generated::tfplugin6::{
    DynamicValue, apply_resource_change, get_metadata, plan_resource_change, read_resource,
    stop_provider,
};
use tokio::time::timeout;
use tonic::Code;

use super::host::{Channel, Identity, PATIENCE, Plugin};

async fn connected() -> (Plugin, Channel) {
    let identity = Identity::like_terraform();
    let plugin = Plugin::start(&identity, &[]).await;
    let channel = Channel::connect(&plugin.line, Some(&identity))
        .await
        .expect("connected");
    (plugin, channel)
}

fn read(type_name: &str, state: Vec<u8>) -> read_resource::Request {
    let current_state = Some(DynamicValue {
        msgpack: state,
        json: Vec::new(),
    });
    read_resource::Request {
        type_name: type_name.to_owned(),
        current_state,
        ..Default::default()
    }
}

fn apply(type_name: &str) -> apply_resource_change::Request {
    let planned_state = Some(DynamicValue {
        msgpack: b"planned".to_vec(),
        json: Vec::new(),
    });
    apply_resource_change::Request {
        type_name: type_name.to_owned(),
        planned_state,
        ..Default::default()
    }
}

#[tokio::test]
async fn twenty_mebibytes_pass_both_ways() {
    let (_plugin, channel) = connected().await;
    let state: Vec<u8> = (0..20 << 20).map(|i: u32| (i % 251) as u8).collect();
    let answer = channel
        .provider()
        .read_resource(read("echo", state.clone()))
        .await
        .expect("read")
        .into_inner();
    assert!(answer.new_state.is_some_and(|value| value.msgpack == state));
}

#[tokio::test]
async fn a_call_that_is_not_implemented_says_so() {
    let (_plugin, channel) = connected().await;
    let status = channel
        .provider()
        .get_metadata(get_metadata::Request {})
        .await
        .expect_err("left out");
    assert_eq!(status.code(), Code::Unimplemented);
}

#[tokio::test]
async fn stop_provider_ends_every_call_in_progress_and_no_later_one() {
    let (_plugin, channel) = connected().await;
    let in_progress: Vec<_> = (0..3)
        .map(|_| {
            let mut provider = channel.provider();
            tokio::spawn(async move { provider.apply_resource_change(apply("echo_slow")).await })
        })
        .collect();
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert!(in_progress.iter().all(|call| !call.is_finished()));
    let stopped = channel
        .provider()
        .stop_provider(stop_provider::Request {})
        .await
        .expect("answered at once");
    assert_eq!(stopped.into_inner().error, "");
    for call in in_progress {
        let answer = timeout(PATIENCE, call)
            .await
            .expect("it ends")
            .expect("no panic")
            .expect("an answer, not a status")
            .into_inner();
        assert_eq!(answer.diagnostics.len(), 1);
        assert!(
            answer
                .new_state
                .is_some_and(|state| state.msgpack == b"planned"),
            "what was done is returned"
        );
    }
    let later = channel
        .provider()
        .apply_resource_change(apply("echo"))
        .await
        .expect("applied")
        .into_inner();
    assert_eq!(later.diagnostics, []);
}

#[tokio::test]
async fn a_guarded_panic_is_a_diagnostic_and_the_next_call_works() {
    let (plugin, channel) = connected().await;
    let answer = channel
        .provider()
        .read_resource(read("echo_panic", Vec::new()))
        .await
        .expect("an answer")
        .into_inner();
    let detail = &answer.diagnostics[0].detail;
    assert!(
        detail.starts_with("the echo fell silent (at ") && detail.contains("echo_provider.rs:"),
        "{detail}"
    );
    let answer = channel
        .provider()
        .read_resource(read("echo", b"x".to_vec()))
        .await
        .expect("read")
        .into_inner();
    assert!(answer.new_state.is_some_and(|value| value.msgpack == b"x"));
    channel.shutdown().await;
    let (status, _, err) = plugin.end().await;
    assert!(status.success());
    // The form that Terraform shows to the user.
    assert!(
        err.starts_with("panic: the echo fell silent\n\nthread main at "),
        "{err}"
    );
}

#[tokio::test]
async fn a_panic_that_nobody_guards_fails_that_call_only() {
    let (_plugin, channel) = connected().await;
    let request = plan_resource_change::Request {
        type_name: "echo_panic".to_owned(),
        ..Default::default()
    };
    let status = channel
        .provider()
        .plan_resource_change(request)
        .await
        .expect_err("it panicked");
    assert_eq!(status.code(), Code::Internal);
    channel
        .provider()
        .read_resource(read("echo", Vec::new()))
        .await
        .expect("the next call works");
}

#[tokio::test]
async fn ten_calls_run_at_once() {
    let (_plugin, channel) = connected().await;
    let begun = Instant::now();
    let calls: Vec<_> = (0..10)
        .map(|_| {
            let mut provider = channel.provider();
            tokio::spawn(async move {
                provider
                    .apply_resource_change(apply("echo_brief"))
                    .await
                    .expect("applied")
            })
        })
        .collect();
    for call in calls {
        assert_eq!(call.await.expect("no panic").into_inner().diagnostics, []);
    }
    assert!(
        begun.elapsed() < Duration::from_secs(10),
        "3 s each: one after the other they would take 30"
    );
}
