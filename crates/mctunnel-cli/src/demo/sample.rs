//! A sample API to reach: answers every HTTP request with the name of its cluster and what was asked for.

use crate::process;
use std::io;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    task::JoinSet,
};
use tokio_util::task::AbortOnDropHandle;

/// A service that runs until dropped.
pub(super) struct Sample {
    pub(super) cluster: &'static str,
    pub(super) address: String,
    _serving: AbortOnDropHandle<()>,
}

/// More than a request that we answer is long.
const LONGEST_HEAD: usize = 8192;

impl Sample {
    pub(super) async fn start(cluster: &'static str) -> io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?.to_string();
        let _serving = process::owned(async move {
            let mut visitors = JoinSet::new();
            while let Ok((socket, _)) = listener.accept().await {
                visitors.spawn(greet(socket, cluster));
                while visitors.try_join_next().is_some() {}
            }
        });
        Ok(Self { cluster, address, _serving })
    }
}

/// A visitor that goes away in the middle is none of our business.
async fn greet(mut socket: TcpStream, cluster: &'static str) {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") && head.len() < LONGEST_HEAD {
        match socket.read_buf(&mut head).await {
            Ok(0) | Err(_) => return,
            Ok(_) => {}
        }
    }
    let head = String::from_utf8_lossy(&head);
    let asked = head.split(' ').nth(1).unwrap_or("/");
    let body = format!("hello from {cluster}, for {asked}\n");
    let answer = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    );
    let _ = socket.write_all(answer.as_bytes()).await;
    let _ = socket.shutdown().await;
}
