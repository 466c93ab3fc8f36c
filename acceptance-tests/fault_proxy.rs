//! Stands before a real API server and makes it behave as API servers do on a bad day (rule K9): throttling, failing, slow,
//! silent, connections that drop before the answer or in its middle, watches that expire.
//!
//! ```ignore
//! let proxy = FaultProxy::start(&cluster);
//! proxy.add(Rule::on("GET", "/api/v1/nodes").times(2).fault(Fault::throttle(1)));
//! // ... give proxy.kubeconfig() to the provider ...
//! assert_eq!(proxy.seen("GET", "/api/v1/nodes"), 3);
//! ```
//! HTTPS on both sides: it shows the API server's own certificate, so that a client trusts it as it trusts the server.

use std::convert::Infallible;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body, Frame};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::{Request, Response, StatusCode};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use serde_json::{Value, json};

use crate::cluster::{Cluster, write_private};

/// What is done to a request instead of, or while, passing it on.
#[derive(Clone, Debug)]
pub enum Fault {
    /// An answer of the proxy's own, with a Kubernetes Status; `retry_after` in seconds.
    Answer {
        status: u16,
        reason: &'static str,
        retry_after: Option<u64>,
    },
    /// Passed on after this time.
    Slow(Duration),
    /// The connection is closed without an answer; the API server never sees the request.
    DropBefore,
    /// The API server carries the request out, and the connection is closed before the answer: a client can't know.
    DropAfter,
    /// The answer ends after so many bytes of its body.
    CutBody(usize),
    /// Never answered; the connection stays open.
    Silence,
    /// Kept until [`FaultProxy::heal`]: before the API server sees the request, or once it has carried it out. See
    /// [`FaultProxy::holds`].
    Hold { carried_out: bool },
    /// A watch: the stream opens, sends one 410 Expired event and ends.
    WatchExpired,
}

impl Fault {
    pub fn throttle(retry_after: u64) -> Self {
        Self::Answer {
            status: 429,
            reason: "TooManyRequests",
            retry_after: Some(retry_after),
        }
    }
    pub fn internal_error() -> Self {
        Self::Answer {
            status: 500,
            reason: "InternalError",
            retry_after: None,
        }
    }
    pub fn unavailable() -> Self {
        Self::Answer {
            status: 503,
            reason: "ServiceUnavailable",
            retry_after: None,
        }
    }
    /// 410: a continue token or resource version that is too old.
    pub fn expired() -> Self {
        Self::Answer {
            status: 410,
            reason: "Expired",
            retry_after: None,
        }
    }
}

/// Which requests a fault befalls.
#[derive(Clone, Debug)]
pub struct Rule {
    method: &'static str,
    path: String,
    query: Option<String>,
    skip: u32,
    times: Option<u32>,
    /// Of 100 matching requests, how many; the sequence follows from the proxy's seed.
    percent: u8,
    fault: Fault,
}

impl Rule {
    /// Requests of this method (`*`: any) whose path starts with `path`. Every one, until [`Rule::times`] says otherwise.
    pub fn on(method: &'static str, path: &str) -> Self {
        Self {
            method,
            path: path.to_owned(),
            query: None,
            skip: 0,
            times: None,
            percent: 100,
            fault: Fault::internal_error(),
        }
    }
    /// Only requests whose query has this text, such as `watch=true` or `continue=`.
    pub fn query(mut self, text: &str) -> Self {
        self.query = Some(text.to_owned());
        self
    }
    /// The first `count` matching requests pass.
    pub fn after(mut self, count: u32) -> Self {
        self.skip = count;
        self
    }
    /// So many times, then never again.
    pub fn times(mut self, count: u32) -> Self {
        self.times = Some(count);
        self
    }
    pub fn percent(mut self, percent: u8) -> Self {
        self.percent = percent;
        self
    }
    pub fn fault(mut self, fault: Fault) -> Self {
        self.fault = fault;
        self
    }
}

/// A request that came in, and what was done to it.
#[derive(Clone, Debug)]
pub struct Seen {
    pub method: String,
    /// With its query.
    pub path: String,
    pub fault: Option<Fault>,
}

struct Shared {
    rules: Vec<Rule>,
    seen: Vec<Seen>,
    random: u64,
    /// Requests that are kept back.
    held: u32,
    /// Counts the calls of [`FaultProxy::heal`].
    healed: tokio::sync::watch::Sender<u32>,
}

impl Shared {
    fn decide(&mut self, method: &str, path: &str, query: &str) -> Option<Fault> {
        for rule in &mut self.rules {
            let matches = (rule.method == "*" || rule.method == method)
                && path.starts_with(&rule.path)
                && rule.query.as_ref().is_none_or(|text| query.contains(text));
            if !matches || rule.times == Some(0) {
                continue;
            }
            if rule.skip > 0 {
                rule.skip -= 1;
                continue;
            }
            // xorshift: the same seed gives the same faults
            self.random ^= self.random << 13;
            self.random ^= self.random >> 7;
            self.random ^= self.random << 17;
            if self.random % 100 >= u64::from(rule.percent) {
                continue;
            }
            if let Some(times) = &mut rule.times {
                *times -= 1;
            }
            return Some(rule.fault.clone());
        }
        None
    }
}

/// The proxy; it ends when the value is dropped.
pub struct FaultProxy {
    shared: Arc<Mutex<Shared>>,
    kubeconfig: PathBuf,
    stop: Option<tokio::sync::oneshot::Sender<()>>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl FaultProxy {
    /// Before this control plane (one of ours: it needs the server's key).
    pub fn start(cluster: &Cluster) -> Self {
        Self::with_seed(cluster, 1)
    }

    pub fn with_seed(cluster: &Cluster, seed: u64) -> Self {
        let shared = Arc::new(Mutex::new(Shared {
            rules: Vec::new(),
            seen: Vec::new(),
            random: seed | 1,
            held: 0,
            healed: tokio::sync::watch::channel(0).0,
        }));
        let mut config = cluster.kubeconfig_json();
        let upstream = config["clusters"][0]["cluster"]["server"]
            .as_str()
            .unwrap()
            .to_owned();
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let port = listener.local_addr().unwrap().port();
        config["clusters"][0]["cluster"]["server"] = json!(format!("https://127.0.0.1:{port}"));
        let kubeconfig = cluster
            .folder()
            .join(format!("fault-proxy-{port}.kubeconfig"));
        write_private(&kubeconfig, &config);

        let certificates = cluster.folder().join("certs");
        let (stop, stopped) = tokio::sync::oneshot::channel();
        let state = Arc::clone(&shared);
        // A thread with a runtime of its own: the test's thread blocks on the CLI meanwhile.
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .unwrap();
            runtime.block_on(async {
                let listener = tokio::net::TcpListener::from_std(listener).unwrap();
                tokio::select! {
                    () = serve(listener, &certificates, upstream, state) => {}
                    _ = stopped => {}
                }
            });
        });
        Self {
            shared,
            kubeconfig,
            stop: Some(stop),
            thread: Some(thread),
        }
    }

    /// The administrator's kubeconfig, through the proxy. For another credential: take its `server` over.
    pub fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// Adds a rule; of several that match, the one added first counts.
    pub fn add(&self, rule: Rule) {
        self.shared.lock().unwrap().rules.push(rule);
    }

    /// From now on all goes through.
    pub fn heal(&self) {
        let mut shared = self.shared.lock().unwrap();
        shared.rules.clear();
        shared.healed.send_modify(|count| *count += 1);
    }

    /// Whether a request was kept back by now.
    pub fn holds(&self) -> bool {
        self.shared.lock().unwrap().held > 0
    }

    /// How often a rule has struck.
    pub fn struck(&self) -> usize {
        let shared = self.shared.lock().unwrap();
        shared
            .seen
            .iter()
            .filter(|seen| seen.fault.is_some())
            .count()
    }

    /// Forgets what was seen and kept back so far.
    pub fn forget(&self) {
        let mut shared = self.shared.lock().unwrap();
        shared.seen.clear();
        shared.held = 0;
    }

    /// All requests so far, in the order of their arrival.
    pub fn requests(&self) -> Vec<Seen> {
        self.shared.lock().unwrap().seen.clone()
    }

    /// How many requests of this method there were whose path starts so.
    pub fn seen(&self, method: &str, path: &str) -> usize {
        self.requests()
            .iter()
            .filter(|request| request.method == method && request.path.starts_with(path))
            .count()
    }
}

impl Drop for FaultProxy {
    fn drop(&mut self) {
        if let Some(stop) = self.stop.take() {
            stop.send(()).ok();
        }
        if let Some(thread) = self.thread.take() {
            thread.join().ok();
        }
        std::fs::remove_file(&self.kubeconfig).ok();
    }
}

async fn serve(
    listener: tokio::net::TcpListener,
    certificates: &Path,
    upstream: String,
    shared: Arc<Mutex<Shared>>,
) {
    let chain: Vec<_> = CertificateDer::pem_file_iter(certificates.join("apiserver.crt"))
        .unwrap()
        .map(Result::unwrap)
        .collect();
    let key = PrivateKeyDer::from_pem_file(certificates.join("apiserver.key")).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let tls = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .unwrap();
    let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(tls));
    let trusted = std::fs::read(certificates.join("apiserver.crt")).unwrap();
    let client = reqwest::Client::builder()
        .no_proxy()
        .http1_only()
        .tls_certs_only(reqwest::Certificate::from_pem_bundle(&trusted).unwrap())
        .build()
        .unwrap();
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            continue;
        };
        let (acceptor, client) = (acceptor.clone(), client.clone());
        let (upstream, shared) = (upstream.clone(), Arc::clone(&shared));
        tokio::spawn(async move {
            let Ok(stream) = acceptor.accept(stream).await else {
                return;
            };
            let service = hyper::service::service_fn(move |request| {
                pass(
                    request,
                    client.clone(),
                    upstream.clone(),
                    Arc::clone(&shared),
                )
            });
            // An error of `pass` ends the connection: that is the dropped connection of the faults.
            hyper::server::conn::http1::Builder::new()
                .serve_connection(hyper_util::rt::TokioIo::new(stream), service)
                .await
                .ok();
        });
    }
}

type AnyBody = UnsyncBoxBody<Bytes, Dropped>;

/// Why a connection was cut.
#[derive(Debug, thiserror::Error)]
#[error("the fault proxy cut the connection")]
struct Dropped;

async fn pass(
    request: Request<Incoming>,
    client: reqwest::Client,
    upstream: String,
    shared: Arc<Mutex<Shared>>,
) -> Result<Response<AnyBody>, Dropped> {
    let (head, body) = request.into_parts();
    let path = head.uri.path().to_owned();
    let query = head.uri.query().unwrap_or_default().to_owned();
    let fault = {
        let mut shared = shared.lock().unwrap();
        let fault = shared.decide(head.method.as_str(), &path, &query);
        shared.seen.push(Seen {
            method: head.method.to_string(),
            path: head.uri.to_string(),
            fault: fault.clone(),
        });
        fault
    };
    match &fault {
        Some(Fault::Answer {
            status,
            reason,
            retry_after,
        }) => return Ok(own_answer(*status, reason, *retry_after)),
        Some(Fault::DropBefore) => return Err(Dropped),
        Some(Fault::Silence) => std::future::pending().await,
        Some(Fault::Slow(time)) => tokio::time::sleep(*time).await,
        Some(Fault::WatchExpired) => {
            let event = json!({"type": "ERROR", "object": status_of(410, "Expired")});
            return Ok(Response::new(full(format!("{event}\n"))));
        }
        Some(Fault::Hold { carried_out: false }) => hold(&shared).await,
        Some(Fault::Hold { carried_out: true } | Fault::DropAfter | Fault::CutBody(_)) | None => {}
    }
    let body = body.collect().await.map_err(|_| Dropped)?.to_bytes();
    let mut headers = head.headers;
    headers.remove("host");
    let answer = client
        .request(head.method, format!("{upstream}{}", head.uri))
        .headers(headers)
        .body(body)
        .send()
        .await
        .map_err(|_| Dropped)?;
    if matches!(fault, Some(Fault::DropAfter)) {
        return Err(Dropped);
    }
    if matches!(fault, Some(Fault::Hold { carried_out: true })) {
        hold(&shared).await;
    }
    let left = match fault {
        Some(Fault::CutBody(after)) => after,
        _ => usize::MAX,
    };
    let (head, body) = Response::<reqwest::Body>::from(answer).into_parts();
    let body = Cut { body, left }.boxed_unsync();
    Ok(Response::from_parts(head, body))
}

async fn hold(shared: &Mutex<Shared>) {
    let mut healed = {
        let mut shared = shared.lock().unwrap();
        shared.held += 1;
        shared.healed.subscribe()
    };
    healed.changed().await.ok();
}

fn status_of(code: u16, reason: &str) -> Value {
    json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "code": code, "reason": reason,
        "message": format!("the fault proxy answers {code} {reason}"),
    })
}

fn full(text: String) -> AnyBody {
    Full::new(Bytes::from(text))
        .map_err(|never: Infallible| match never {})
        .boxed_unsync()
}

fn own_answer(code: u16, reason: &str, retry_after: Option<u64>) -> Response<AnyBody> {
    let mut answer = Response::new(full(status_of(code, reason).to_string()));
    *answer.status_mut() = StatusCode::from_u16(code).unwrap();
    let headers = answer.headers_mut();
    headers.insert("content-type", "application/json".parse().unwrap());
    if let Some(seconds) = retry_after {
        headers.insert("retry-after", seconds.into());
    }
    answer
}

/// A body that passes `left` bytes and then breaks off.
struct Cut {
    body: reqwest::Body,
    left: usize,
}

impl Body for Cut {
    type Data = Bytes;
    type Error = Dropped;
    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Dropped>>> {
        if self.left == 0 {
            return Poll::Ready(Some(Err(Dropped)));
        }
        let frame = match Pin::new(&mut self.body).poll_frame(context) {
            Poll::Pending => return Poll::Pending,
            Poll::Ready(None) => return Poll::Ready(None),
            Poll::Ready(Some(Err(_))) => return Poll::Ready(Some(Err(Dropped))),
            Poll::Ready(Some(Ok(frame))) => frame,
        };
        let frame = frame.map_data(|data| {
            let kept = data.slice(..data.len().min(self.left));
            self.left -= kept.len();
            kept
        });
        Poll::Ready(Some(Ok(frame)))
    }
}

mod tests;
