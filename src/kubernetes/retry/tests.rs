//! Retries against a server that fails as told: plain HTTP on loopback.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use super::super::cancel::Cancel;
use super::super::config::{ConnectionConfig, ExecConfig};
use super::*;

/// One answer of the server.
enum Answer {
    /// Status, extra header, body.
    Say(u16, &'static str, String),
    /// Close after half of an answer.
    Break,
}

struct Server {
    url: String,
    /// Request lines and authorizations, in order.
    seen: Arc<Mutex<Vec<String>>>,
}

/// Answers in the given order; the last one again and again.
async fn server(answers: Vec<Answer>) -> Server {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let seen = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&seen);
    tokio::spawn(async move {
        let mut answers = VecDeque::from(answers);
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut request = Vec::new();
            let mut byte = [0u8; 1];
            while !request.ends_with(b"\r\n\r\n") && stream.read_exact(&mut byte).await.is_ok() {
                request.push(byte[0]);
            }
            let text = String::from_utf8_lossy(&request).into_owned();
            let line = text.lines().next().unwrap_or_default().to_owned();
            let authorization = text
                .lines()
                .find(|line| line.to_ascii_lowercase().starts_with("authorization:"))
                .unwrap_or_default()
                .to_owned();
            log.lock().unwrap().push(format!("{line} {authorization}"));
            let text = match if answers.len() > 1 {
                answers.pop_front()
            } else {
                None
            }
            .as_ref()
            .or(answers.front())
            {
                Some(Answer::Say(code, header, body)) => format!(
                    "HTTP/1.1 {code} X\r\nContent-Length: {}\r\nConnection: close\r\n{header}\r\n{body}",
                    body.len()
                ),
                _ => "HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n{\"items\":[".to_owned(),
            };
            let _ = stream.write_all(text.as_bytes()).await;
        }
    });
    Server { url, seen }
}

fn cluster(server: &Server) -> Cluster {
    Cluster::new(
        "stub",
        ConnectionConfig {
            host: Some(server.url.clone()),
            token: Some("t".to_owned().into()),
            ..Default::default()
        },
    )
}

fn say(code: u16, body: &str) -> Answer {
    Answer::Say(code, "", body.to_owned())
}

const ONE_NODE: &str = r#"{"metadata":{},"items":[{"metadata":{"name":"a"}}]}"#;

#[tokio::test]
async fn k9_a_busy_failing_or_dropping_server_is_asked_again() {
    let server = server(vec![
        say(503, "busy"),
        say(500, ""),
        Answer::Break,
        say(429, r#"{"kind":"Status","message":"slow down","code":429}"#),
        say(504, ""),
        say(200, ONE_NODE),
    ])
    .await;
    let nodes = cluster(&server)
        .nodes(|_| true, &Cancel::never())
        .await
        .unwrap();
    assert_eq!(nodes.len(), 1);
    assert_eq!(server.seen.lock().unwrap().len(), 6);
}

#[tokio::test]
async fn k9_retry_after_is_honored_from_the_header_and_from_the_status() {
    for answer in [
        Answer::Say(429, "Retry-After: 1\r\n", String::new()),
        say(
            503,
            r#"{"kind":"Status","message":"x","code":503,"details":{"retryAfterSeconds":1}}"#,
        ),
    ] {
        let server = server(vec![answer, say(200, ONE_NODE)]).await;
        let started = Instant::now();
        cluster(&server)
            .nodes(|_| true, &Cancel::never())
            .await
            .unwrap();
        assert!(
            started.elapsed() >= Duration::from_secs(1),
            "{:?}",
            started.elapsed()
        );
    }
}

#[tokio::test]
async fn k9_a_list_that_expires_between_two_pages_starts_again() {
    let page = |name: &str, next: &str| {
        say(
            200,
            &format!(
                r#"{{"metadata":{{"continue":"{next}"}},"items":[{{"metadata":{{"name":"{name}"}}}}]}}"#
            ),
        )
    };
    let server = server(vec![
        page("old", "c1"),
        say(410, r#"{"kind":"Status","code":410,"reason":"Expired"}"#),
        page("b", "c2"),
        page("a", ""),
    ])
    .await;
    let nodes = cluster(&server)
        .nodes(|_| true, &Cancel::never())
        .await
        .unwrap();
    assert_eq!(
        nodes
            .iter()
            .map(|node| node.name.as_str())
            .collect::<Vec<_>>(),
        ["a", "b"]
    );
    let seen = server.seen.lock().unwrap();
    assert!(
        seen[1].contains("continue=c1")
            && !seen[2].contains("continue")
            && seen[3].contains("continue=c2"),
        "{seen:?}"
    );
}

#[tokio::test]
async fn what_is_final_is_not_tried_again() {
    for (code, wanted) in [
        (400, "Refused"),
        (403, "Forbidden"),
        (404, "NotFound"),
        (422, "Refused"),
        (401, "Unauthorized"),
    ] {
        let server = server(vec![say(
            code,
            r#"{"kind":"Status","message":"no","details":{}}"#,
        )])
        .await;
        let error = cluster(&server)
            .storage_classes(&Cancel::never())
            .await
            .unwrap_err();
        assert!(format!("{error:?}").starts_with(wanted), "{error:?}");
        assert_eq!(server.seen.lock().unwrap().len(), 1);
    }
}

#[tokio::test]
async fn a_page_that_is_no_kubernetes_answer_says_so_without_quoting_it() {
    let server = server(vec![say(200, "<html>login SECRET</html>")]).await;
    let error = cluster(&server)
        .storage_classes(&Cancel::never())
        .await
        .unwrap_err();
    assert!(matches!(error, Error::Malformed { .. }), "{error:?}");
    assert!(!error.render().contains("SECRET"));
}

#[tokio::test]
async fn a_cancellation_ends_the_wait_between_two_tries() {
    let server = server(vec![Answer::Say(503, "Retry-After: 60\r\n", String::new())]).await;
    let (fire, fired) = tokio::sync::watch::channel(false);
    tokio::spawn(async move {
        tokio::time::sleep(Duration::from_millis(200)).await;
        let _ = fire.send(true);
    });
    let started = Instant::now();
    let error = cluster(&server)
        .nodes(|_| true, &Cancel::from(fired))
        .await
        .unwrap_err();
    assert!(error.is_canceled(), "{error:?}");
    assert!(started.elapsed() < Duration::from_secs(5));
}

#[tokio::test]
async fn a_plugins_credential_is_renewed_once_when_it_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let count = folder.path().join("count");
    let script = format!(
        r#"echo x >> {0}; echo '{{"kind":"ExecCredential","status":{{"token":"token-'$(wc -l < {0} | tr -d ' ')'"}}}}'"#,
        count.display()
    );
    let connect = |server: &Server| {
        let exec = ExecConfig {
            command: "sh".into(),
            args: vec!["-c".into(), script.clone()],
            ..Default::default()
        };
        Cluster::new(
            "stub",
            ConnectionConfig {
                host: Some(server.url.clone()),
                exec: Some(exec),
                ..Default::default()
            },
        )
    };
    let server_once = server(vec![say(401, ""), say(200, ONE_NODE)]).await;
    connect(&server_once)
        .nodes(|_| true, &Cancel::never())
        .await
        .unwrap();
    let seen = server_once.seen.lock().unwrap().clone();
    assert!(
        seen[0].ends_with("Bearer token-1") && seen[1].ends_with("Bearer token-2"),
        "{seen:?}"
    );
    let server_never = server(vec![say(401, "")]).await;
    let error = connect(&server_never)
        .nodes(|_| true, &Cancel::never())
        .await
        .unwrap_err();
    assert!(matches!(error, Error::Unauthorized { .. }));
    assert_eq!(server_never.seen.lock().unwrap().len(), 2);
}

#[test]
fn k1_the_user_is_read_from_a_refusal() {
    let message = "nodes is forbidden: User \"system:serviceaccount:ml:ci\" cannot list resource \"nodes\" in API group \"\" at the cluster scope";
    assert_eq!(
        identity(message).as_deref(),
        Some("system:serviceaccount:ml:ci")
    );
    assert_eq!(identity("forbidden"), None);
}

#[test]
fn k9_pauses_grow_and_stay_bounded() {
    let total: Duration = pauses().take(TRIES as usize).sum();
    assert!(
        total > Duration::from_secs(40) && total < Duration::from_secs(240),
        "{total:?}"
    );
}
