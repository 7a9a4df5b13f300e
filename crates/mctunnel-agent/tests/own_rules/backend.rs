//! What the kube-apiserver and all services are: it speaks HTTP/1.1 and HTTP/2, and remembers each head.

use bytes::Bytes;
use h2::{RecvStream, server::SendResponse};
use http::{HeaderMap, Request, Response};
use parking_lot::Mutex;
use std::{
    io::ErrorKind,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::{mpsc, watch},
    task::JoinSet,
};

#[derive(Clone)]
pub(super) struct Backend {
    /// The head of each request, in lower case, in the form of HTTP/1.1.
    pub(super) heads: Arc<Mutex<Vec<String>>>,
    /// The trailers of requests over HTTP/2, if they came.
    pub(super) trailers: Arc<Mutex<Vec<HeaderMap>>>,
    pub(super) dialled: Arc<AtomicUsize>,
    /// Makes each answer that is held open a piece longer.
    pub(super) more: watch::Sender<()>,
    /// How upgraded connections end; `None` is a clean end.
    pub(super) ends: mpsc::Sender<Option<ErrorKind>>,
}

impl Backend {
    pub(super) async fn serve(self, listener: TcpListener) {
        let mut visitors = JoinSet::new();
        while let Ok((socket, _)) = listener.accept().await {
            self.dialled.fetch_add(1, Ordering::SeqCst);
            let backend = self.clone();
            visitors.spawn(async move {
                let mut first = [0];
                match socket.peek(&mut first).await {
                    // The preface of HTTP/2; no method that is sent here begins like that.
                    Ok(1..) if first == *b"P" => backend.answer_http2(socket).await,
                    _ => backend.answer(socket).await,
                }
            });
        }
    }

    /// One answer for each connection.
    async fn answer(self, mut socket: TcpStream) {
        let mut more = self.more.subscribe();
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let Ok(byte) = socket.read_u8().await else { return };
            head.push(byte);
        }
        let head = String::from_utf8_lossy(&head).to_ascii_lowercase();
        self.heads.lock().push(head.clone());
        // Whoever went away needs no answer.
        if head.starts_with("get /held ") {
            let mut sent =
                socket.write_all(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nfirst\r\n").await;
            while sent.is_ok() && more.changed().await.is_ok() {
                sent = socket.write_all(b"4\r\nmore\r\n").await;
            }
        } else if head.starts_with("get /silent ") {
            let _ = socket.read_u8().await;
        } else if head.starts_with("get /shell ") {
            let _ = socket
                .write_all(b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: shell\r\n\r\n$ ")
                .await;
            let end = socket.read_u8().await.err().map(|error| error.kind());
            let _ = self.ends.send(end.filter(|kind| *kind != ErrorKind::UnexpectedEof)).await;
        } else {
            let _ = socket.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok").await;
        }
    }

    /// All answers of a connection are the same one.
    async fn answer_http2(self, socket: TcpStream) {
        let Ok(mut connection) = h2::server::handshake(socket).await else { return };
        let mut answers = JoinSet::new();
        while let Some(Ok((request, respond))) = connection.accept().await {
            self.heads.lock().push(written(&request));
            answers.spawn(self.clone().answer_whole(request.into_body(), respond));
        }
    }

    /// Answers a request that is whole.
    async fn answer_whole(self, mut body: RecvStream, mut respond: SendResponse<Bytes>) {
        while let Some(data) = body.data().await {
            let Ok(data) = data else { return };
            let _ = body.flow_control().release_capacity(data.len());
        }
        match body.trailers().await {
            Ok(trailers) => self.trailers.lock().extend(trailers),
            Err(_) => return,
        }
        // Whoever went away needs no answer.
        if let Ok(mut answer) = respond.send_response(Response::new(()), false) {
            let _ = answer.send_data(Bytes::from_static(b"ok"), true);
        }
    }
}

fn written(request: &Request<RecvStream>) -> String {
    let mut head = format!("{} {} http/2\r\n", request.method(), request.uri().path());
    for (name, value) in request.headers() {
        head.push_str(&format!("{name}: {}\r\n", String::from_utf8_lossy(value.as_bytes())));
    }
    head.to_ascii_lowercase()
}
