//! What a connection comes to, without a network.

use super::*;

const KUBECONFIG: &str = "
apiVersion: v1
kind: Config
clusters:
- {name: a, cluster: {server: 'https://a.example:6443'}}
- {name: b, cluster: {server: 'https://b.example:6443', proxy-url: 'socks5://127.0.0.1:1080'}}
users:
- {name: alice, user: {token: from-file}}
- {name: old, user: {auth-provider: {name: gcp}}}
contexts:
- {name: a, context: {cluster: a, user: alice, namespace: ml}}
- {name: ghost, context: {cluster: a, user: nobody}}
- {name: old, context: {cluster: a, user: old}}
current-context: a
";

fn inline() -> ConnectionConfig {
    ConnectionConfig {
        kubeconfig: Some(KUBECONFIG.to_owned().into()),
        ..Default::default()
    }
}

#[tokio::test]
async fn the_current_context_is_used_and_overrides_lie_over_it() {
    let resolved = resolve("prod", &inline()).await.unwrap();
    assert_eq!(
        resolved.kube.cluster_url.to_string(),
        "https://a.example:6443/"
    );
    assert_eq!(resolved.kube.default_namespace, "ml");
    assert_eq!(
        resolved
            .kube
            .auth_info
            .token
            .as_ref()
            .unwrap()
            .expose_secret(),
        "from-file"
    );

    let config = ConnectionConfig {
        config_context_cluster: Some("b".into()),
        token: Some("mine".to_owned().into()),
        ..inline()
    };
    let resolved = resolve("prod", &config).await.unwrap();
    assert_eq!(resolved.kube.cluster_url.host(), Some("b.example"));
    assert_eq!(
        resolved.kube.proxy_url.unwrap().to_string(),
        "socks5://127.0.0.1:1080/"
    );
    assert_eq!(
        resolved.kube.auth_info.token.unwrap().expose_secret(),
        "mine"
    );
}

#[tokio::test]
async fn an_explicit_credential_replaces_the_files_whole() {
    let exec = super::super::config::ExecConfig {
        command: "aws".into(),
        args: vec!["eks".into()],
        ..Default::default()
    };
    let resolved = resolve(
        "prod",
        &ConnectionConfig {
            exec: Some(exec),
            ..inline()
        },
    )
    .await
    .unwrap();
    assert!(resolved.kube.auth_info.token.is_none());
    assert!(
        resolved.kube.auth_info.exec.is_none(),
        "kube must never run it: it would read Terraform's stdin"
    );
    assert!(resolved.plugin.is_some());
}

#[tokio::test]
async fn a_host_alone_is_enough_and_gets_a_scheme() {
    let config = ConnectionConfig {
        host: Some("10.0.0.1:6443".into()),
        token: Some("t".to_owned().into()),
        insecure: Some(true),
        ..Default::default()
    };
    let resolved = resolve("prod", &config).await.unwrap();
    assert_eq!(
        resolved.kube.cluster_url.to_string(),
        "https://10.0.0.1:6443/"
    );
    assert!(resolved.kube.accept_invalid_certs);
}

#[tokio::test]
async fn what_names_no_cluster_or_contradicts_itself_is_refused() {
    let text =
        async |config: &ConnectionConfig| resolve("prod", config).await.unwrap_err().render();
    assert!(
        text(&ConnectionConfig::default())
            .await
            .contains("names no cluster")
    );
    assert!(
        text(&ConnectionConfig {
            config_path: Some("x".into()),
            ..inline()
        })
        .await
        .contains("exclude each other")
    );
    assert!(
        text(&ConnectionConfig {
            client_certificate: Some("x".into()),
            ..inline()
        })
        .await
        .contains("belong together")
    );
    assert!(
        text(&ConnectionConfig {
            config_context: Some("ghost".into()),
            ..inline()
        })
        .await
        .contains("no user \"nobody\"")
    );
    assert!(
        text(&ConnectionConfig {
            config_context: Some("nope".into()),
            ..inline()
        })
        .await
        .contains("nope")
    );
    assert!(
        text(&ConnectionConfig {
            config_context: Some("old".into()),
            ..inline()
        })
        .await
        .contains("auth-provider")
    );
    assert!(
        text(&ConnectionConfig {
            config_path: Some("/does/not/exist".into()),
            ..Default::default()
        })
        .await
        .contains("/does/not/exist")
    );
    assert!(
        text(&ConnectionConfig {
            proxy_url: Some("::".into()),
            ..inline()
        })
        .await
        .contains("proxy_url")
    );
}

#[test]
fn a_path_takes_the_home_directory() {
    let home_dir = std::env::home_dir().unwrap();
    assert_eq!(home("~/x/y"), home_dir.join("x/y"));
    assert_eq!(home("/a/~/b"), PathBuf::from("/a/~/b"));
}
