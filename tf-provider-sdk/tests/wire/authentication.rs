//! Who may connect: the holder of the announced certificate, and nobody else.

use std::time::Duration;

use tf_provider_sdk::generated::health::HealthCheckRequest;
use tf_provider_sdk::generated::health::health_client::HealthClient;
use tf_provider_sdk::generated::tfplugin6::get_provider_schema;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;

use super::host::{Channel, Identity, PATIENCE, Plugin};

async fn schema_through(plugin: &Plugin, identity: Option<&Identity>) -> Result<usize, String> {
    // In TLS 1.3 a client is done before the server has seen its certificate: the refusal may show at the first call.
    let channel = Channel::connect(&plugin.line, identity)
        .await
        .map_err(|error| error.to_string())?;
    let answer = channel
        .provider()
        .get_provider_schema(get_provider_schema::Request {})
        .await;
    answer
        .map(|answer| answer.into_inner().resource_schemas.len())
        .map_err(|status| status.to_string())
}

#[tokio::test]
async fn the_announced_certificate_is_accepted_also_after_others_were_refused() {
    let identity = Identity::like_terraform();
    let plugin = Plugin::start(&identity, &[]).await;
    assert_eq!(schema_through(&plugin, Some(&identity)).await, Ok(1));

    schema_through(&plugin, None)
        .await
        .expect_err("no certificate");
    let other = Identity::like_terraform();
    schema_through(&plugin, Some(&other))
        .await
        .expect_err("another certificate");
    let expired = Identity::lasting((2001, 1, 1));
    schema_through(&plugin, Some(&expired))
        .await
        .expect_err("another certificate, which is out of date");
    let stolen = identity.with_key_of(&other);
    schema_through(&plugin, Some(&stolen))
        .await
        .expect_err("the announced certificate without its key");

    assert_eq!(schema_through(&plugin, Some(&identity)).await, Ok(1));
}

#[tokio::test]
async fn plain_text_gets_no_answer_where_tls_is_on() {
    let identity = Identity::like_terraform();
    let plugin = Plugin::start(&identity, &[]).await;
    let mut socket = plugin.line.dial().await.expect("connected");
    socket
        .write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
        .await
        .expect("sent");
    let mut answer = Vec::new();
    let _ = timeout(PATIENCE, socket.read_to_end(&mut answer))
        .await
        .expect("closed at once");
    // A TLS alert is content type 21; an HTTP/2 SETTINGS frame would start with its length.
    assert!(answer.is_empty() || answer[0] == 21, "{answer:?}");
    assert_eq!(schema_through(&plugin, Some(&identity)).await, Ok(1));
}

#[tokio::test]
async fn silent_clients_block_nobody() {
    let identity = Identity::like_terraform();
    let plugin = Plugin::start(&identity, &[]).await;
    let mut silent = Vec::new();
    for _ in 0..40 {
        silent.push(plugin.line.dial().await.expect("connected"));
    }
    let answer = timeout(
        Duration::from_secs(5),
        schema_through(&plugin, Some(&identity)),
    )
    .await;
    assert_eq!(
        answer.expect("at once, not after the silent ones' time limit"),
        Ok(1)
    );
    let mut first = silent.remove(0);
    let mut byte = [0];
    let read = timeout(PATIENCE, first.read(&mut byte))
        .await
        .expect("a silent client is refused in the end");
    assert_eq!(read.unwrap_or(0), 0);
}

#[tokio::test]
async fn the_plugin_is_healthy_by_the_name_that_go_plugin_asks_for() {
    let identity = Identity::like_terraform();
    let plugin = Plugin::start(&identity, &[]).await;
    let mut health = HealthClient::new(
        Channel::connect(&plugin.line, Some(&identity))
            .await
            .expect("connected"),
    );
    let ask = |service: &str| HealthCheckRequest {
        service: service.to_owned(),
    };
    assert_eq!(
        health
            .check(ask("plugin"))
            .await
            .expect("answered")
            .into_inner()
            .status,
        1
    );
    assert_eq!(
        health
            .check(ask("other"))
            .await
            .expect_err("unknown")
            .code(),
        tonic::Code::NotFound
    );
    let mut watch = health
        .watch(ask("plugin"))
        .await
        .expect("answered")
        .into_inner();
    assert_eq!(
        watch.message().await.expect("a message").map(|m| m.status),
        Some(1)
    );
    assert!(
        timeout(Duration::from_millis(300), watch.message())
            .await
            .is_err(),
        "it stays open"
    );
}
