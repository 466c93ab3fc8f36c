//! The provider's own binary as a plugin: who may speak to it. The protocol itself is tested in `tf-provider-sdk/tests/wire`, with a
//! plugin made for that; here it is the program that users run, with all that is linked into it.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;

use crate::parts;

const COOKIE: &str = "d602bf8f470bc67ca7faa0386276bbdd4330efaf76d1a219cb4d6991ca9872b2";
const PATIENCE: Duration = Duration::from_secs(30);

/// A certificate with its key, as Terraform makes its own: P-521, self-signed, a CA, for localhost.
struct Identity {
    pem: String,
    key: String,
}

impl Identity {
    fn new(folder: &Path, name: &str) -> Self {
        let path = |kind: &str| folder.join(format!("{name}.{kind}"));
        let done = Command::new("openssl")
            .args("req -x509 -newkey ec -pkeyopt ec_paramgen_curve:secp521r1 -nodes -days 1 -subj /O=HashiCorp/CN=localhost -addext subjectAltName=DNS:localhost".split(' '))
            .arg("-keyout")
            .arg(path("key"))
            .arg("-out")
            .arg(path("crt"))
            .output()
            .expect("openssl starts");
        assert!(
            done.status.success(),
            "{}",
            String::from_utf8_lossy(&done.stderr)
        );
        Self {
            pem: std::fs::read_to_string(path("crt")).unwrap(),
            key: std::fs::read_to_string(path("key")).unwrap(),
        }
    }

    fn certified(&self, key: &str) -> rustls::sign::CertifiedKey {
        let certificate = CertificateDer::from_pem_slice(self.pem.as_bytes()).unwrap();
        let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap();
        let key = rustls::crypto::aws_lc_rs::sign::any_supported_type(&key).unwrap();
        rustls::sign::CertifiedKey::new(vec![certificate], key)
    }
}

/// The running plugin, and where it listens.
struct Plugin {
    process: Child,
    socket: String,
    certificate: CertificateDer<'static>,
}

impl Plugin {
    fn start(announced: &Identity) -> Self {
        let mut process = Command::new(parts::provider())
            .env_remove("TF_LOG")
            .env("TF_PLUGIN_MAGIC_COOKIE", COOKIE)
            .env("PLUGIN_PROTOCOL_VERSIONS", "6,5")
            .env("PLUGIN_CLIENT_CERT", &announced.pem)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("the provider starts");
        let mut line = String::new();
        BufReader::new(process.stdout.take().unwrap())
            .read_line(&mut line)
            .expect("the handshake line");
        let fields: Vec<&str> = line.trim_end().split('|').collect();
        assert_eq!(
            (&fields[..3], fields[4]),
            (&["1", "6", "unix"][..], "grpc"),
            "{line}"
        );
        Self {
            socket: fields[3].to_owned(),
            certificate: STANDARD_NO_PAD.decode(fields[5]).unwrap().into(),
            process,
        }
    }

    /// Whether a client that shows `shown` gets an answer of HTTP/2, and not merely a TLS handshake: in TLS 1.3 a client is done with
    /// that before the server has seen its certificate.
    async fn answers(&self, shown: Option<rustls::sign::CertifiedKey>) -> bool {
        let mut roots = RootCertStore::empty();
        roots.add(self.certificate.clone()).unwrap();
        let config = ClientConfig::builder_with_provider(Arc::new(
            rustls::crypto::aws_lc_rs::default_provider(),
        ))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots);
        let mut config = match shown {
            Some(shown) => config
                .with_client_cert_resolver(Arc::new(rustls::sign::SingleCertAndKey::from(shown))),
            None => config.with_no_client_auth(),
        };
        config.alpn_protocols = vec![b"h2".to_vec()];
        let asked = async {
            let socket = UnixStream::connect(&self.socket).await?;
            let mut stream = tokio_rustls::TlsConnector::from(Arc::new(config))
                .connect(ServerName::try_from("localhost").unwrap(), socket)
                .await?;
            // The preface and an empty SETTINGS frame; the answer begins with the server's own SETTINGS (type 4).
            stream
                .write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0")
                .await?;
            let mut head = [0; 9];
            stream.read_exact(&mut head).await?;
            Ok::<_, std::io::Error>(head[3] == 4)
        };
        tokio::time::timeout(PATIENCE, asked)
            .await
            .expect("an answer or a refusal, in time")
            .unwrap_or(false)
    }
}

impl Drop for Plugin {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        if let Some(folder) = Path::new(&self.socket).parent() {
            let _ = std::fs::remove_dir_all(folder);
        }
    }
}

#[tokio::test]
async fn only_the_holder_of_the_announced_certificate_gets_an_answer() {
    let folder = tempfile::tempdir().unwrap();
    let announced = Identity::new(folder.path(), "announced");
    let other = Identity::new(folder.path(), "other");
    let plugin = Plugin::start(&announced);
    assert!(
        plugin
            .answers(Some(announced.certified(&announced.key)))
            .await
    );
    assert!(!plugin.answers(None).await, "no certificate");
    assert!(
        !plugin.answers(Some(other.certified(&other.key))).await,
        "another certificate"
    );
    assert!(
        !plugin.answers(Some(announced.certified(&other.key))).await,
        "the announced certificate without its key"
    );
    // Those that were refused took nothing from the one that may.
    assert!(
        plugin
            .answers(Some(announced.certified(&announced.key)))
            .await
    );
}

#[cfg(unix)]
#[tokio::test]
async fn the_socket_and_its_folder_are_the_user_s_own() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let plugin = Plugin::start(&Identity::new(folder.path(), "announced"));
    let home = Path::new(&plugin.socket).parent().unwrap();
    let mode = std::fs::metadata(home).unwrap().permissions().mode();
    assert_eq!(mode & 0o077, 0, "{} has mode {mode:o}", home.display());
}
