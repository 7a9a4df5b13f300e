//! T26: a CA that the whole system believes is not the hub's. At the hub's address answers somebody with a valid certificate of such a CA,
//! for the right name: agents tell it nothing, whatever they have to show.

use crate::{
    enrolment,
    rig::{Hub, Role, mctunnel, ran, run, until},
    service_accounts::{CANARY, jwt},
    tls_clients::Ca,
};
use parking_lot::Mutex;
use rustls::{ServerConfig, ServerConnection, StreamOwned, crypto::aws_lc_rs};
use serde_json::Value;
use std::{
    fs,
    io::{self, Read, Write},
    net::{TcpListener, TcpStream},
    os::unix::fs::PermissionsExt,
    sync::Arc,
    thread,
};

/// What somebody said.
#[derive(Clone, Debug, Default)]
struct Seen {
    /// On the wire.
    raw: Vec<u8>,
    /// Inside TLS.
    application: Vec<u8>,
    /// How often they hung up.
    ended: usize,
}

/// Takes down what comes in.
struct Recording {
    socket: TcpStream,
    seen: Arc<Mutex<Seen>>,
}

impl Read for Recording {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let read = self.socket.read(bytes)?;
        self.seen.lock().raw.extend_from_slice(&bytes[..read]);
        Ok(read)
    }
}

impl Write for Recording {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.socket.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.socket.flush()
    }
}

/// Answers at the hub's address, with a certificate of a CA that everybody believes.
struct Somebody {
    address: String,
    ca: String,
    seen: Arc<Mutex<Seen>>,
}

impl Somebody {
    fn start() -> Self {
        let ca = Ca::new("a public CA");
        let (chain, key) = ca.server(&["mctunnel-hub", "localhost", "127.0.0.1"]);
        let mut config = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
            .with_safe_default_protocol_versions()
            .expect("versions")
            .with_no_client_auth()
            .with_single_cert(chain, key)
            .expect("a key that fits");
        config.alpn_protocols = ["mctunnel-enrol", "h2", "http/1.1"].map(|name| name.as_bytes().to_vec()).into();
        let (config, seen) = (Arc::new(config), Arc::new(Mutex::new(Seen::default())));
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address").to_string();
        let shared = Arc::clone(&seen);
        thread::spawn(move || {
            for socket in listener.incoming().flatten() {
                let (config, seen) = (Arc::clone(&config), Arc::clone(&shared));
                thread::spawn(move || {
                    let server = ServerConnection::new(config).expect("a server");
                    let io = Recording { socket, seen: Arc::clone(&seen) };
                    let (mut tls, mut bytes) = (StreamOwned::new(server, io), [0; 4096]);
                    // To the end, or to the alert.
                    while let Ok(read @ 1..) = tls.read(&mut bytes) {
                        let mut seen = seen.lock();
                        seen.application.extend_from_slice(&bytes[..read]);
                        if seen.application.ends_with(b"\r\n\r\n") {
                            break;
                        }
                    }
                    seen.lock().ended += 1;
                });
            }
        });
        Self { address, ca: ca.pem, seen }
    }

    /// What was said since this was asked before.
    fn take(&self) -> Seen {
        std::mem::take(&mut self.seen.lock())
    }
}

fn contains(bytes: &[u8], part: &str) -> bool {
    bytes.windows(part.len()).any(|window| window == part.as_bytes())
}

/// A file that nobody else may read.
fn write(hub: &Hub, name: &str, text: &str) -> String {
    let path = hub.path(name);
    fs::write(&path, text).expect("a file");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("a mode");
    path
}

#[test]
fn t26_t36_a_certificate_of_a_public_ca_is_not_the_hubs() {
    let (hub, somebody) = (Hub::start(&[]), Somebody::start());
    let believed = write(&hub, "public.pem", &somebody.ca);
    let system = [("SSL_CERT_FILE", believed.as_str())];
    let address = somebody.address.as_str();

    // The system does believe it: a client that goes by the system's CAs tells it its token.
    let person = write(&hub, "person", "canary-of-a-person\n");
    let client = ["clusters", "--hub", &format!("https://{address}"), "--token-file", &person];
    let asked = ran(mctunnel(&client).envs(system));
    assert_ne!(asked.status, Some(0), "it is no hub: {asked:?}");
    let told = somebody.take().application;
    assert!(contains(&told, "authorization: Bearer canary-of-a-person"), "{}", String::from_utf8_lossy(&told));

    let (bundle, token) = (hub.add("c1"), enrolment::token(&hub, "c2", &[]));
    let own: Value = serde_json::from_str(&fs::read_to_string(&bundle).expect("a bundle")).expect("JSON");
    let part = |name: &str, key: &str| write(&hub, name, own[key].as_str().expect("text"));
    let (certificate, key, hub_ca) =
        (part("tls.crt", "certificate_pem"), part("tls.key", "key_pem"), part("hub-ca.pem", "ca_pem"));
    let (account, homes) = (write(&hub, "account", &jwt(CANARY)), ["one", "two"].map(|name| hub.path(name)));
    for (what, arguments) in [
        ("a join token", vec!["--join-token", &token, "--data-dir", &homes[0]]),
        ("an account", vec!["--enrol-service-account-token", &account, "--hub-ca", &hub_ca, "--data-dir", &homes[1]]),
        ("a bundle", vec!["--join", &bundle]),
        ("a certificate", vec!["--certificate", &certificate, "--key", &key, "--hub-ca", &hub_ca]),
    ] {
        let arguments = [&["agent", "--hub", address], &arguments[..]].concat();
        let agent = Role::start(hub.dir.path(), "agent", &arguments, &system);
        until("the agent to hang up", || (somebody.seen.lock().ended > 0).then_some(()));
        let doubts = ["invalid peer certificate", "MCT-AGENT-ENROL-WRONG-HUB"];
        until("its doubts", || doubts.iter().any(|doubt| agent.log().contains(doubt)).then_some(()));
        drop(agent);
        let seen = somebody.take();
        assert!(seen.application.is_empty(), "{what}: {}", String::from_utf8_lossy(&seen.application));
        assert!(!seen.raw.is_empty(), "{what}: it was there");
        for secret in [&token[20..50], CANARY] {
            assert!(!contains(&seen.raw, secret), "{what} was told");
        }
    }
    let tokens = run(&["join-token", "list", "--data-dir", &hub.path("data"), "-o", "json"]).out;
    let tokens: Value = serde_json::from_str(&tokens).expect("JSON");
    assert_eq!((&tokens[0]["state"], &tokens[0]["used"]), (&"open".into(), &0.into()), "nobody used it: {tokens}");
}
