//! HTTP/2 written by hand, frame by frame, so that it can be what no library sends.

use crate::rig::Rig;
use rustls::{ClientConfig, RootCertStore, crypto::aws_lc_rs};
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName, pem::PemObject};
use serde_json::Value;
use std::{path::Path, sync::Arc, time::Duration};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::{Instant, timeout},
};
use tokio_rustls::{TlsConnector, client::TlsStream};

pub(crate) const DATA: u8 = 0;
pub(crate) const HEADERS: u8 = 1;
pub(crate) const RST_STREAM: u8 = 3;
pub(crate) const SETTINGS: u8 = 4;
pub(crate) const PING: u8 = 6;
const GOAWAY: u8 = 7;
pub(crate) const WINDOW_UPDATE: u8 = 8;
pub(crate) const CONTINUATION: u8 = 9;

pub(crate) const END_STREAM: u8 = 1;
pub(crate) const END_HEADERS: u8 = 4;

/// What begins a connection: the preface and SETTINGS with this content.
pub(crate) fn hello(settings: &[u8]) -> Vec<u8> {
    [b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", &frame(SETTINGS, 0, 0, settings)[..]].concat()
}

pub(crate) fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).expect("short").to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// A head, encoded without any table but the static one.
pub(crate) fn head(method: &str, path: &str, more: &[(&str, &str)]) -> Vec<u8> {
    let mut block = vec![0x87];
    let text = |text: &str, block: &mut Vec<u8>| {
        block.push(u8::try_from(text.len()).ok().filter(|len| *len < 127).expect("short"));
        block.extend_from_slice(text.as_bytes());
    };
    block.push(0x02);
    text(method, &mut block);
    block.push(0x04);
    text(path, &mut block);
    block.push(0x01);
    text("localhost", &mut block);
    for (name, value) in more {
        block.push(0);
        text(name, &mut block);
        text(value, &mut block);
    }
    block
}

/// TLS to one of the hub's listeners.
pub(crate) async fn connect(
    rig: &Rig,
    address: &str,
    alpn: &str,
    name: &'static str,
    join: Option<&Path>,
) -> TlsStream<TcpStream> {
    let ca = std::fs::read(rig.dir.path().join("pki/ca.pem")).expect("the hub's CA");
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(&ca).expect("PEM")).expect("a root");
    let builder = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_root_certificates(roots);
    let mut config = match join {
        Some(join) => {
            let bundle: Value = serde_json::from_slice(&std::fs::read(join).expect("a bundle")).expect("JSON");
            let pem = |key: &str| bundle[key].as_str().expect("text").as_bytes().to_vec();
            let certificate = CertificateDer::from_pem_slice(&pem("certificate_pem")).expect("PEM");
            let key = PrivateKeyDer::from_pem_slice(&pem("key_pem")).expect("PEM");
            builder.with_client_auth_cert(vec![certificate], key).expect("a pair")
        }
        None => builder.with_no_client_auth(),
    };
    config.alpn_protocols = vec![alpn.as_bytes().to_vec()];
    let socket = TcpStream::connect(address).await.expect("connected");
    socket.set_nodelay(true).expect("an option");
    let name = ServerName::try_from(name).expect("a name");
    TlsConnector::from(Arc::new(config)).connect(name, socket).await.expect("TLS")
}

/// Sends `first`, then what `next` gives again and again, and reads meanwhile, until the other end has said GOAWAY or hung up. Gives how
/// long that took, or `None` if it did neither within `limit`.
pub(crate) async fn flood(
    tls: TlsStream<TcpStream>,
    first: Vec<u8>,
    mut next: impl FnMut() -> Option<Vec<u8>>,
    limit: Duration,
) -> Option<Duration> {
    let begin = Instant::now();
    let (mut read, mut write) = tokio::io::split(tls);
    let sending = async {
        if write.write_all(&first).await.is_err() || write.flush().await.is_err() {
            return;
        }
        while let Some(bytes) = next() {
            if write.write_all(&bytes).await.is_err() || write.flush().await.is_err() {
                return;
            }
        }
        // Nothing more to say; now it is the other end's turn.
        std::future::pending().await
    };
    let reading = async {
        let mut head = [0; 9];
        while read.read_exact(&mut head).await.is_ok() {
            let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
            let mut payload = vec![0; usize::try_from(length).expect("24 bits")];
            if head[3] == GOAWAY || read.read_exact(&mut payload).await.is_err() {
                return;
            }
        }
    };
    let both = async {
        tokio::select! {
            () = sending => {}
            () = reading => {}
        }
    };
    timeout(limit, both).await.ok().map(|()| begin.elapsed())
}
