//! A host of our own: starts a plugin, shakes hands and connects as Terraform does.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use hyper::body::Incoming;
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair,
    KeyUsagePurpose,
};
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tf_provider_sdk::generated::plugin::Empty;
use tf_provider_sdk::generated::plugin::grpc_controller_client::GrpcControllerClient;
use tf_provider_sdk::generated::tfplugin6::provider_client::ProviderClient;
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWrite, BufReader};
use tokio::net::{TcpStream, UnixStream};
use tokio::process::{Child, ChildStdout, Command};
use tokio::time::timeout;
use tonic::body::Body;
use tonic::codegen::Service;
use tonic::codegen::http::{Request, Response};

/// No step of a test takes longer, except on a machine that is stuck.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

pub(crate) const COOKIE: &str = "d602bf8f470bc67ca7faa0386276bbdd4330efaf76d1a219cb4d6991ca9872b2";

/// The plugin under test.
pub(crate) fn plugin() -> PathBuf {
    PathBuf::from(env!("CARGO_BIN_EXE_echo-provider"))
}

/// A client certificate with its key.
pub(crate) struct Identity {
    pub(crate) pem: String,
    certificate: CertificateDer<'static>,
    key: Vec<u8>,
}

impl Identity {
    /// As go-plugin makes it: P-521, self-signed, marked as a CA, for `localhost`.
    pub(crate) fn like_terraform() -> Self {
        Self::lasting((2096, 1, 1))
    }

    /// The same with another last day.
    pub(crate) fn lasting((year, month, day): (i32, u8, u8)) -> Self {
        let key = KeyPair::generate_for(&rcgen::PKCS_ECDSA_P521_SHA512).expect("a key");
        let mut params = CertificateParams::new(vec!["localhost".to_owned()]).expect("a name");
        params
            .distinguished_name
            .push(DnType::CommonName, "localhost");
        params
            .distinguished_name
            .push(DnType::OrganizationName, "HashiCorp");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![
            KeyUsagePurpose::DigitalSignature,
            KeyUsagePurpose::KeyEncipherment,
            KeyUsagePurpose::KeyAgreement,
            KeyUsagePurpose::KeyCertSign,
        ];
        params.extended_key_usages = vec![
            ExtendedKeyUsagePurpose::ClientAuth,
            ExtendedKeyUsagePurpose::ServerAuth,
        ];
        params.not_after = rcgen::date_time_ymd(year, month, day);
        let certificate = params.self_signed(&key).expect("a certificate");
        Self {
            pem: certificate.pem(),
            certificate: certificate.into(),
            key: key.serialize_der(),
        }
    }

    /// This certificate with the key of another: what someone has who saw the certificate.
    pub(crate) fn with_key_of(&self, other: &Self) -> Self {
        Self {
            pem: self.pem.clone(),
            certificate: self.certificate.clone(),
            key: other.key.clone(),
        }
    }
}

/// The handshake line, taken apart.
#[derive(Debug, Clone)]
pub(crate) struct Line {
    pub(crate) fields: Vec<String>,
}

impl Line {
    pub(crate) fn parse(line: &str) -> Self {
        let fields: Vec<String> = line
            .trim_end_matches('\n')
            .split('|')
            .map(str::to_owned)
            .collect();
        assert_eq!(fields.len(), 6, "six fields: {line}");
        assert_eq!(
            (fields[0].as_str(), fields[1].as_str(), fields[4].as_str()),
            ("1", "6", "grpc"),
            "{line}"
        );
        Self { fields }
    }

    pub(crate) fn certificate(&self) -> &str {
        &self.fields[5]
    }

    pub(crate) fn socket(&self) -> &Path {
        assert_eq!(self.fields[2], "unix");
        Path::new(&self.fields[3])
    }

    /// A bare connection, without TLS.
    pub(crate) async fn dial(&self) -> std::io::Result<Box<dyn Io>> {
        Ok(match self.fields[2].as_str() {
            "unix" => Box::new(UnixStream::connect(&self.fields[3]).await?),
            _ => Box::new(
                TcpStream::connect(self.fields[3].parse::<SocketAddr>().expect("an address"))
                    .await?,
            ),
        })
    }
}

pub(crate) trait Io: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Io for T {}

/// An HTTP/2 connection that gRPC clients can be built on.
#[derive(Clone)]
pub(crate) struct Channel(http2::SendRequest<Body>);

impl Service<Request<Body>> for Channel {
    type Response = Response<Incoming>;
    type Error = hyper::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, hyper::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), hyper::Error>> {
        self.0.poll_ready(context)
    }

    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        let path = request.uri().path().to_owned();
        *request.uri_mut() = format!("http://localhost{path}").parse().expect("a URI");
        Box::pin(self.0.send_request(request))
    }
}

impl Channel {
    /// Connects, with TLS if the line has a certificate; `identity` is presented to the plugin.
    pub(crate) async fn connect(
        line: &Line,
        identity: Option<&Identity>,
    ) -> Result<Self, Box<dyn std::error::Error + Send + Sync>> {
        let socket = line.dial().await?;
        let io: Box<dyn Io> = if line.certificate().is_empty() {
            socket
        } else {
            // As Terraform: the plugin's certificate is the only root, and the name is localhost.
            let server: CertificateDer<'static> =
                STANDARD_NO_PAD.decode(line.certificate())?.into();
            let mut roots = RootCertStore::empty();
            roots.add(server)?;
            let config = ClientConfig::builder_with_provider(Arc::new(
                rustls::crypto::aws_lc_rs::default_provider(),
            ))
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots);
            let mut config = match identity {
                Some(identity) => {
                    // Built by hand, since rustls refuses a key that doesn't fit, and an impostor's doesn't.
                    let key = rustls::crypto::aws_lc_rs::sign::any_supported_type(
                        &PrivatePkcs8KeyDer::from(identity.key.clone()).into(),
                    )?;
                    let certified =
                        rustls::sign::CertifiedKey::new(vec![identity.certificate.clone()], key);
                    config.with_client_cert_resolver(Arc::new(
                        rustls::sign::SingleCertAndKey::from(certified),
                    ))
                }
                None => config.with_no_client_auth(),
            };
            config.alpn_protocols = vec![b"h2".to_vec()];
            let connector = tokio_rustls::TlsConnector::from(Arc::new(config));
            let stream = connector
                .connect(ServerName::try_from("localhost")?, socket)
                .await?;
            assert_eq!(stream.get_ref().1.alpn_protocol(), Some(b"h2".as_slice()));
            Box::new(stream)
        };
        let (sender, connection) = http2::handshake(TokioExecutor::new(), TokioIo::new(io)).await?;
        tokio::spawn(connection);
        Ok(Self(sender))
    }

    pub(crate) fn provider(&self) -> ProviderClient<Self> {
        ProviderClient::new(self.clone())
            .max_decoding_message_size(i32::MAX as usize)
            .max_encoding_message_size(i32::MAX as usize)
    }

    pub(crate) async fn shutdown(&self) {
        GrpcControllerClient::new(self.clone())
            .shutdown(Empty {})
            .await
            .expect("Shutdown is answered");
    }
}

/// How to start a plugin.
pub(crate) struct Start<'a> {
    pub(crate) identity: Option<&'a Identity>,
    pub(crate) variables: &'a [(&'a str, &'a str)],
    pub(crate) arguments: &'a [&'a str],
}

impl Start<'_> {
    pub(crate) fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        for variable in [
            "TF_LOG",
            "TF_LOG_PROVIDER",
            "TF_LOG_SDK",
            "PLUGIN_CLIENT_CERT",
            "TF_PLUGIN_MAGIC_COOKIE",
            "RUST_BACKTRACE",
        ] {
            command.env_remove(variable);
        }
        command
            .args(self.arguments)
            .env("TF_PLUGIN_MAGIC_COOKIE", COOKIE)
            .env("PLUGIN_PROTOCOL_VERSIONS", "5,6")
            .env("PLUGIN_MIN_PORT", "10000")
            .env("PLUGIN_MAX_PORT", "25000")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        if let Some(identity) = self.identity {
            command.env("PLUGIN_CLIENT_CERT", &identity.pem);
        }
        command.envs(self.variables.iter().copied());
        command
    }
}

/// A running plugin.
pub(crate) struct Plugin {
    pub(crate) line: Line,
    child: Child,
    stdout: BufReader<ChildStdout>,
}

impl Plugin {
    /// Starts the plugin under test, and reads its line.
    pub(crate) async fn start(identity: &Identity, variables: &[(&str, &str)]) -> Self {
        Self::spawn(
            Start {
                identity: Some(identity),
                variables,
                arguments: &[],
            }
            .command(&plugin()),
        )
        .await
    }

    pub(crate) async fn spawn(mut command: Command) -> Self {
        let mut child = command.spawn().expect("the plugin starts");
        let mut stdout = BufReader::new(child.stdout.take().expect("piped"));
        let mut line = String::new();
        timeout(PATIENCE, stdout.read_line(&mut line))
            .await
            .expect("in time")
            .expect("a line");
        Self {
            line: Line::parse(&line),
            child,
            stdout,
        }
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id().expect("it runs")
    }

    pub(crate) fn signal(&self, name: &str) {
        signal(self.id(), name);
    }

    pub(crate) fn has_ended(&mut self) -> bool {
        self.child.try_wait().expect("a status").is_some()
    }

    /// Waits for the end: its status, the rest of stdout after the handshake line, and stderr.
    pub(crate) async fn end(mut self) -> (ExitStatus, String, String) {
        let (mut out, mut err) = (String::new(), String::new());
        let mut stderr = self.child.stderr.take().expect("piped");
        let all = async {
            let (status, _, _) = tokio::join!(
                self.child.wait(),
                self.stdout.read_to_string(&mut out),
                stderr.read_to_string(&mut err)
            );
            status.expect("a status")
        };
        let status = timeout(PATIENCE, all).await.expect("the plugin ends");
        (status, out, err)
    }
}

impl Drop for Plugin {
    /// A plugin that a test leaves running is killed, and can't remove its socket itself.
    fn drop(&mut self) {
        if let Some(folder) = self.line.socket().parent() {
            let _ = std::fs::remove_dir_all(folder);
        }
    }
}

/// Sends a signal by name, as `kill` does.
pub(crate) fn signal(process: u32, name: &str) {
    let sent = std::process::Command::new("kill")
        .args([format!("-{name}"), process.to_string()])
        .status();
    assert!(
        sent.expect("kill").success(),
        "process {process} takes {name}"
    );
}
