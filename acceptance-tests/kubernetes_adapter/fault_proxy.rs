//! A TCP proxy before an API server that breaks connections on demand. TLS passes through it untouched.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::broadcast;

pub(super) struct FaultProxy {
    port: u16,
    faults: Arc<Faults>,
}

struct Faults {
    /// Bytes from the server after which a connection is cut.
    after: AtomicUsize,
    /// How many connections are still to be cut so.
    remaining: AtomicU32,
    cuts: AtomicU32,
    every: AtomicBool,
    cut_now: broadcast::Sender<()>,
}

impl FaultProxy {
    pub(super) async fn start(kubeconfig: &str) -> Self {
        let text = std::fs::read_to_string(kubeconfig).unwrap();
        let upstream = text
            .split("https://")
            .nth(1)
            .unwrap()
            .split(['"', '}', ',', '\n', '/'])
            .next()
            .unwrap()
            .trim()
            .to_owned();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let faults = Arc::new(Faults {
            after: AtomicUsize::new(usize::MAX),
            remaining: AtomicU32::new(0),
            cuts: AtomicU32::new(0),
            every: AtomicBool::new(false),
            cut_now: broadcast::channel(1).0,
        });
        let shared = Arc::clone(&faults);
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let (faults, upstream) = (Arc::clone(&shared), upstream.clone());
                tokio::spawn(async move {
                    if let Ok(server) = TcpStream::connect(upstream).await {
                        pass(client, server, &faults).await;
                    }
                });
            }
        });
        Self { port, faults }
    }

    pub(super) fn url(&self) -> String {
        format!("https://127.0.0.1:{}", self.port)
    }

    /// Cuts the next `count` connections that carry `bytes` from the server.
    pub(super) fn cut_after(&self, bytes: usize, count: u32) {
        self.faults.after.store(bytes, Ordering::SeqCst);
        self.faults.remaining.store(count, Ordering::SeqCst);
    }

    /// Cuts every open connection again and again, while the proxy lives.
    pub(super) fn cut_all_every(&self, period: Duration) {
        self.faults.every.store(true, Ordering::SeqCst);
        let faults = Arc::downgrade(&self.faults);
        tokio::spawn(async move {
            loop {
                tokio::time::sleep(period).await;
                let Some(faults) = faults
                    .upgrade()
                    .filter(|faults| faults.every.load(Ordering::SeqCst))
                else {
                    return;
                };
                let open = faults.cut_now.send(()).unwrap_or(0);
                faults
                    .cuts
                    .fetch_add(u32::try_from(open).unwrap(), Ordering::SeqCst);
            }
        });
    }

    pub(super) fn cuts(&self) -> u32 {
        self.faults.cuts.load(Ordering::SeqCst)
    }
}

impl Drop for FaultProxy {
    fn drop(&mut self) {
        self.faults.every.store(false, Ordering::SeqCst);
    }
}

async fn pass(client: TcpStream, server: TcpStream, faults: &Faults) {
    let mut cut_now = faults.cut_now.subscribe();
    let (mut from_client, mut to_client) = client.into_split();
    let (mut from_server, mut to_server) = server.into_split();
    let up = async {
        let _ = tokio::io::copy(&mut from_client, &mut to_server).await;
    };
    let down = async {
        let mut buffer = vec![0u8; 16 << 10];
        let mut sent = 0usize;
        while let Ok(count @ 1..) = from_server.read(&mut buffer).await {
            if to_client.write_all(&buffer[..count]).await.is_err() {
                return;
            }
            sent += count;
            if sent >= faults.after.load(Ordering::SeqCst)
                && faults
                    .remaining
                    .fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| {
                        left.checked_sub(1)
                    })
                    .is_ok()
            {
                faults.cuts.fetch_add(1, Ordering::SeqCst);
                return;
            }
        }
    };
    tokio::select! { () = up => {}, () = down => {}, _ = cut_now.recv() => {} }
}
