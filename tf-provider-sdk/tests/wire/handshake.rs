//! What the plugin reads and prints before the first call.

use std::os::unix::fs::PermissionsExt;
use std::process::Output;

use tokio::time::timeout;

use super::host::{Identity, PATIENCE, Plugin, Start, plugin};

async fn output(start: Start<'_>, without_cookie: bool) -> Output {
    let mut command = start.command(&plugin());
    if without_cookie {
        command.env_remove("TF_PLUGIN_MAGIC_COOKIE");
    }
    timeout(PATIENCE, command.output())
        .await
        .expect("it ends")
        .expect("it starts")
}

#[tokio::test]
async fn a_human_is_told_what_this_is_and_stdout_stays_empty() {
    for variables in [&[][..], &[("TF_PLUGIN_MAGIC_COOKIE", "something")][..]] {
        let output = output(
            Start {
                identity: None,
                variables,
                arguments: &[],
            },
            variables.is_empty(),
        )
        .await;
        assert_eq!(output.status.code(), Some(1));
        assert!(output.stdout.is_empty());
        let text = String::from_utf8(output.stderr).expect("text");
        assert!(
            text.contains("required_providers") && text.contains("loomplane/echo"),
            "{text}"
        );
    }
}

#[tokio::test]
async fn a_malformed_client_certificate_is_named_and_ends_the_plugin() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path().to_str().expect("text");
    for certificate in [
        "nonsense",
        "-----BEGIN CERTIFICATE-----\naGVsbG8=\n-----END CERTIFICATE-----\n",
    ] {
        let variables = [
            ("PLUGIN_CLIENT_CERT", certificate),
            ("PLUGIN_UNIX_SOCKET_DIR", folder),
        ];
        let output = output(
            Start {
                identity: None,
                variables: &variables,
                arguments: &[],
            },
            false,
        )
        .await;
        assert_eq!(output.status.code(), Some(1));
        assert!(output.stdout.is_empty());
        let text = String::from_utf8(output.stderr).expect("text");
        assert!(
            text.starts_with("[ERROR] ")
                && text.contains("PLUGIN_CLIENT_CERT")
                && text.lines().count() == 1,
            "{text}"
        );
        assert_eq!(std::fs::read_dir(folder).expect("there").count(), 0);
    }
}

#[tokio::test]
async fn stdout_has_one_line_and_without_tls_its_last_field_is_empty() {
    let identity = Identity::like_terraform();
    let with = Plugin::start(&identity, &[]).await;
    assert!(with.line.certificate().len() > 50);
    let without = Plugin::spawn(
        Start {
            identity: None,
            variables: &[],
            arguments: &[],
        }
        .command(&plugin()),
    )
    .await;
    assert_eq!(without.line.certificate(), "");
    for plugin in [with, without] {
        plugin.signal("TERM");
        let (status, out, err) = plugin.end().await;
        assert!(status.success());
        assert_eq!(
            (out.as_str(), err.as_str()),
            ("", ""),
            "nothing more on stdout, and no logs unless asked for"
        );
    }
}

#[tokio::test]
async fn the_socket_is_where_it_was_asked_for_and_gone_with_the_plugin() {
    let folder = tempfile::tempdir().expect("a folder");
    let variables = [(
        "PLUGIN_UNIX_SOCKET_DIR",
        folder.path().to_str().expect("text"),
    )];
    let plugin = Plugin::start(&Identity::like_terraform(), &variables).await;
    let own = plugin.line.socket().parent().expect("a folder").to_owned();
    assert_eq!(own.parent(), Some(folder.path()));
    assert_eq!(
        std::fs::metadata(&own).expect("there").permissions().mode() & 0o777,
        0o700
    );
    plugin.signal("TERM");
    assert!(plugin.end().await.0.success());
    assert_eq!(std::fs::read_dir(folder.path()).expect("there").count(), 0);
}

#[tokio::test]
async fn logs_are_hclog_lines_at_the_wanted_level_without_secrets() {
    use tf_provider_sdk::generated::tfplugin6::configure_provider;

    let identity = Identity::like_terraform();
    for (level, wanted) in [("INFO", 1), ("WARN", 0)] {
        let plugin = Plugin::start(
            &identity,
            &[("TF_LOG_PROVIDER_ECHO", level), ("TF_LOG", "OFF")],
        )
        .await;
        let channel = super::host::Channel::connect(&plugin.line, Some(&identity))
            .await
            .expect("connected");
        let request = configure_provider::Request {
            terraform_version: "1.11.4".into(),
            ..Default::default()
        };
        channel
            .provider()
            .configure_provider(request)
            .await
            .expect("configured");
        channel.shutdown().await;
        let (_, _, err) = plugin.end().await;
        let lines: Vec<serde_json::Value> = err
            .lines()
            .map(|line| serde_json::from_str(line).expect("JSON"))
            .collect();
        assert_eq!(lines.len(), wanted, "{err}");
        for line in lines {
            assert_eq!(line["@message"], "configured with (hidden)");
            assert_eq!(
                (&line["@level"], &line["@module"], &line["terraform"]),
                (&"info".into(), &"echo".into(), &"1.11.4".into())
            );
            assert_eq!(
                line["@timestamp"].as_str().map(str::len),
                Some("2006-01-02T15:04:05.000000Z".len())
            );
        }
    }
}
