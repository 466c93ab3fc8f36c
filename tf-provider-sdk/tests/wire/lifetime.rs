//! How long the plugin lives: until `Shutdown`, a termination, or the end of its host; never until Ctrl-C.

use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use tf_provider_sdk::generated::plugin::grpc_broker_client::GrpcBrokerClient;
use tf_provider_sdk::generated::plugin::grpc_controller_client::GrpcControllerClient;
use tf_provider_sdk::generated::plugin::grpc_stdio_client::GrpcStdioClient;
use tf_provider_sdk::generated::plugin::{ConnInfo, Empty};
use tf_provider_sdk::generated::tfplugin6::{
    apply_resource_change, configure_provider, get_provider_schema,
};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::Command;
use tokio::time::{sleep, timeout};

use super::host::{Channel, Identity, Line, PATIENCE, Plugin, Start, plugin, signal};

async fn connected() -> (Plugin, Channel) {
    let identity = Identity::like_terraform();
    let plugin = Plugin::start(&identity, &[]).await;
    let channel = Channel::connect(&plugin.line, Some(&identity))
        .await
        .expect("connected");
    (plugin, channel)
}

fn apply(type_name: &str) -> apply_resource_change::Request {
    apply_resource_change::Request {
        type_name: type_name.to_owned(),
        ..Default::default()
    }
}

/// Starts an apply that waits, and lets it begin.
async fn applying(
    channel: &Channel,
    type_name: &str,
) -> tokio::task::JoinHandle<Result<tonic::Response<apply_resource_change::Response>, tonic::Status>>
{
    let mut provider = channel.provider();
    let request = apply(type_name);
    let call = tokio::spawn(async move { provider.apply_resource_change(request).await });
    sleep(Duration::from_millis(300)).await;
    assert!(!call.is_finished());
    call
}

async fn works(channel: &Channel) {
    channel
        .provider()
        .get_provider_schema(get_provider_schema::Request {})
        .await
        .expect("it answers");
}

#[tokio::test]
async fn shutdown_is_answered_and_the_process_ends_within_two_seconds_whatever_is_open() {
    let (plugin, channel) = connected().await;
    let mut stdio = GrpcStdioClient::new(channel.clone())
        .stream_stdio(())
        .await
        .expect("opened")
        .into_inner();
    let never_ends = tokio_stream::pending::<ConnInfo>();
    let _broker = GrpcBrokerClient::new(channel.clone())
        .start_stream(never_ends)
        .await
        .expect("opened")
        .into_inner();
    assert!(
        timeout(Duration::from_millis(300), stdio.message())
            .await
            .is_err(),
        "held open, with nothing in it"
    );
    let stubborn = applying(&channel, "echo_stubborn").await;
    let socket = plugin.line.socket().to_owned();

    let begun = Instant::now();
    channel.shutdown().await;
    let (status, out, _) = plugin.end().await;
    assert!(
        begun.elapsed() < Duration::from_secs(2),
        "{:?}",
        begun.elapsed()
    );
    assert!(status.success() && out.is_empty());
    assert!(!socket.exists() && !socket.parent().is_some_and(Path::exists));
    assert!(
        stubborn.await.expect("no panic").is_err(),
        "the call that did not listen is lost"
    );
    drop(channel);
}

#[tokio::test]
async fn shutdown_with_nothing_in_progress_ends_at_once() {
    let (plugin, channel) = connected().await;
    let _stdio = GrpcStdioClient::new(channel.clone())
        .stream_stdio(())
        .await
        .expect("opened");
    works(&channel).await;
    let begun = Instant::now();
    channel.shutdown().await;
    plugin.end().await;
    assert!(
        begun.elapsed() < Duration::from_millis(900),
        "no grace is waited out: {:?}",
        begun.elapsed()
    );
}

#[tokio::test]
async fn shutdown_stops_calls_in_progress_and_their_answers_still_arrive() {
    let (plugin, channel) = connected().await;
    let call = applying(&channel, "echo_slow").await;
    channel.shutdown().await;
    let answer = timeout(PATIENCE, call)
        .await
        .expect("in time")
        .expect("no panic")
        .expect("an answer")
        .into_inner();
    assert_eq!(answer.diagnostics.len(), 1);
    assert!(plugin.end().await.0.success());
}

#[tokio::test]
async fn an_apply_longer_than_any_grace_is_not_cut() {
    let (_plugin, channel) = connected().await;
    let answer = channel
        .provider()
        .apply_resource_change(apply("echo_brief"))
        .await
        .expect("3 s later");
    assert_eq!(answer.into_inner().diagnostics, []);
}

#[tokio::test]
async fn an_interrupt_is_left_to_terraform() {
    let (mut plugin, channel) = connected().await;
    let call = applying(&channel, "echo_brief").await;
    for _ in 0..3 {
        plugin.signal("INT");
        sleep(Duration::from_millis(200)).await;
    }
    assert!(!plugin.has_ended());
    works(&channel).await;
    assert_eq!(
        call.await
            .expect("no panic")
            .expect("applied")
            .into_inner()
            .diagnostics,
        [],
        "no call was stopped"
    );
}

#[tokio::test]
async fn an_interrupt_right_after_the_line_ends_nothing() {
    let identity = Identity::like_terraform();
    for _ in 0..5 {
        let mut plugin = Plugin::start(&identity, &[]).await;
        plugin.signal("INT");
        sleep(Duration::from_millis(50)).await;
        assert!(!plugin.has_ended());
    }
}

#[tokio::test]
async fn termination_stops_calls_waits_for_them_and_ends() {
    let (plugin, channel) = connected().await;
    let call = applying(&channel, "echo_slow").await;
    plugin.signal("TERM");
    let answer = timeout(PATIENCE, call)
        .await
        .expect("in time")
        .expect("no panic")
        .expect("an answer")
        .into_inner();
    assert_eq!(answer.diagnostics.len(), 1);
    assert!(plugin.end().await.0.success());
}

#[tokio::test]
async fn a_second_termination_waits_for_nothing() {
    let (mut plugin, channel) = connected().await;
    let _call = applying(&channel, "echo_stubborn").await;
    plugin.signal("TERM");
    sleep(Duration::from_millis(500)).await;
    assert!(!plugin.has_ended(), "the first one waits");
    plugin.signal("TERM");
    let begun = Instant::now();
    assert!(plugin.end().await.0.success());
    assert!(begun.elapsed() < Duration::from_secs(3));
}

#[tokio::test]
async fn a_plugin_whose_host_was_killed_ends_and_leaves_no_socket() {
    let identity = Identity::like_terraform();
    // The shell is the host: it starts the plugin, and is killed.
    let mut command = Start {
        identity: Some(&identity),
        variables: &[],
        arguments: &["-c", "\"$0\" & echo $!; wait"],
    }
    .command(Path::new("sh"));
    let mut host = command
        .arg(plugin())
        .stderr(Stdio::null())
        .spawn()
        .expect("a shell");
    let mut lines = BufReader::new(host.stdout.take().expect("piped")).lines();
    let mut found = Vec::new();
    for _ in 0..2 {
        found.push(
            timeout(PATIENCE, lines.next_line())
                .await
                .expect("in time")
                .expect("read")
                .expect("a line"),
        );
    }
    found.sort_by_key(|line| line.contains('|'));
    let process: u32 = found[0].parse().expect("a process id");
    let line = Line::parse(&found[1]);
    let channel = Channel::connect(&line, Some(&identity))
        .await
        .expect("connected");
    let call = applying(&channel, "echo_slow").await;

    signal(host.id().expect("it runs"), "KILL");
    host.wait().await.expect("killed");
    let answer = timeout(PATIENCE, call)
        .await
        .expect("calls are stopped")
        .expect("no panic")
        .expect("an answer")
        .into_inner();
    assert_eq!(answer.diagnostics.len(), 1);
    let gone = async {
        while Path::new(&format!("/proc/{process}")).exists() && !is_zombie(process) {
            sleep(Duration::from_millis(50)).await;
        }
    };
    timeout(PATIENCE, gone)
        .await
        .expect("the plugin ends by itself");
    assert!(!line.socket().exists() && !line.socket().parent().is_some_and(Path::exists));
}

/// Ended, but not yet collected: in a container, the first process may collect nobody.
fn is_zombie(process: u32) -> bool {
    std::fs::read_to_string(format!("/proc/{process}/stat")).is_ok_and(|stat| {
        stat.rsplit(')')
            .next()
            .is_some_and(|rest| rest.starts_with(" Z"))
    })
}

#[tokio::test]
async fn debug_mode_serves_many_hosts_and_ends_on_an_interrupt() {
    let mut command = Start {
        identity: None,
        variables: &[],
        arguments: &["--debug"],
    }
    .command(&plugin());
    command.env_remove("TF_PLUGIN_MAGIC_COOKIE");
    let (mut child, line) = reattachable(command).await;
    for round in 0..3 {
        // As Terraform: a first connection shows that somebody listens, and is closed.
        drop(line.dial().await.expect("connected"));
        let channel = Channel::connect(&line, None).await.expect("connected");
        let request = configure_provider::Request {
            terraform_version: round.to_string(),
            ..Default::default()
        };
        channel
            .provider()
            .configure_provider(request)
            .await
            .expect("configured");
        // A host that ends its run must not end the process of a developer.
        GrpcControllerClient::new(channel.clone())
            .shutdown(Empty {})
            .await
            .expect("answered");
        works(&channel).await;
    }
    let id = child.id().expect("it runs");
    signal(id, "INT");
    assert!(
        timeout(PATIENCE, child.wait())
            .await
            .expect("it ends")
            .expect("a status")
            .success()
    );
    assert!(!line.socket().exists());
}

/// Starts a plugin in debug mode, and takes its address from what it prints for a human.
pub(crate) async fn reattachable(mut command: Command) -> (tokio::process::Child, Line) {
    let mut child = command.spawn().expect("it starts");
    let mut lines = BufReader::new(child.stdout.take().expect("piped")).lines();
    let value = loop {
        let line = timeout(PATIENCE, lines.next_line())
            .await
            .expect("in time")
            .expect("read")
            .expect("a line");
        if let Some(value) = line.trim().strip_prefix("TF_REATTACH_PROVIDERS=") {
            break value.trim_matches('\'').to_owned();
        }
    };
    let value: serde_json::Value = serde_json::from_str(&value).expect("JSON");
    let entry = &value["registry.terraform.io/loomplane/echo"];
    assert_eq!(entry["Pid"].as_u64(), child.id().map(u64::from));
    let address = &entry["Addr"];
    let text = |key: &str| address[key].as_str().expect("text").to_owned();
    let line = Line::parse(&format!(
        "1|6|{}|{}|grpc|\n",
        text("Network"),
        text("String")
    ));
    (child, line)
}
