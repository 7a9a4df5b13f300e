//! Servers of a test, with TLS or without.

use crate::tls_clients::Ca;
use rustls::{ServerConfig, ServerConnection, StreamOwned, crypto::aws_lc_rs};
use std::{
    io::{Read, Write},
    net::{IpAddr, Ipv4Addr, TcpListener},
    sync::Arc,
    thread,
};

/// What a server says TLS with.
#[derive(Clone)]
pub(crate) struct Tls {
    config: Arc<ServerConfig>,
    /// The CA of its certificate.
    pub(crate) ca: String,
}

impl Tls {
    /// A server on loopback which, as a service, is `default/web`, with a CA of its own.
    pub(crate) fn new() -> Self {
        let ca = Ca::new("servers");
        let (chain, key) = ca.server(&["127.0.0.1", "web.default.svc"]);
        let config = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
            .with_safe_default_protocol_versions()
            .expect("versions")
            .with_no_client_auth()
            .with_single_cert(chain, key)
            .expect("a key that fits");
        Self { config: Arc::new(config), ca: ca.pem }
    }
}

/// One end of a connection.
pub(crate) trait Connection: Read + Write {}

impl<C: Read + Write> Connection for C {}

/// Serves each connection by a thread of its own until the test ends; gives the address.
pub(crate) fn serve(tls: Option<&Tls>, serve: impl Fn(&mut dyn Connection) + Clone + Send + 'static) -> String {
    serve_at(IpAddr::V4(Ipv4Addr::LOCALHOST), tls, serve)
}

/// The same at this address of the machine.
pub(crate) fn serve_at(
    ip: IpAddr,
    tls: Option<&Tls>,
    serve: impl Fn(&mut dyn Connection) + Clone + Send + 'static,
) -> String {
    let listener = TcpListener::bind((ip, 0)).expect("a port");
    let address = listener.local_addr().expect("an address").to_string();
    let tls = tls.map(|tls| Arc::clone(&tls.config));
    thread::spawn(move || {
        for mut socket in listener.incoming().flatten() {
            let (tls, serve) = (tls.clone(), serve.clone());
            thread::spawn(move || match tls {
                None => serve(&mut socket),
                Some(tls) => {
                    let mut stream = StreamOwned::new(ServerConnection::new(tls).expect("a server"), &mut socket);
                    serve(&mut stream);
                    stream.conn.send_close_notify();
                    // Whoever went away needs no end.
                    let _ = stream.flush();
                }
            });
        }
    });
    address
}
