//! An issuer of tokens on loopback: its two documents, and a key to sign with.

use std::{
    io::{BufRead as _, BufReader, Write as _},
    net::{TcpListener, TcpStream},
    thread,
    time::{SystemTime, UNIX_EPOCH},
};

use anyhow::{Context as _, Result};
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use jsonwebtoken::{Algorithm, EncodingKey, Header};
use rcgen::KeyPair;
use serde_json::{Value, json};

use super::credentials::groups;

/// Serves until the program ends.
pub(super) struct Issuer {
    pub(super) url: String,
    key: KeyPair,
}

impl Issuer {
    pub(super) fn start() -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let url = format!("http://{}", listener.local_addr()?);
        let key = KeyPair::generate()?;
        let discovery = json!({"issuer": url, "jwks_uri": format!("{url}/keys")});
        let keys = json!({"keys": [jwk(&key)?]});
        thread::spawn(move || {
            for socket in listener.incoming().flatten() {
                // A client that goes away is no reason to stop.
                drop(answer(&socket, &discovery, &keys));
            }
        });
        Ok(Self { url, key })
    }

    /// A token of a user, for an hour.
    pub(super) fn token(&self, user: &str) -> Result<String> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs();
        let claims = json!({
            "iss": self.url, "aud": "mctunnel", "sub": user, "iat": now, "exp": now + 3600, "jti": "bench",
            "groups": groups(""),
        });
        let mut header = Header::new(Algorithm::ES256);
        header.kid = Some(KEY_ID.to_owned());
        Ok(jsonwebtoken::encode(&header, &claims, &EncodingKey::from_ec_der(&self.key.serialize_der()))?)
    }
}

const KEY_ID: &str = "bench";

fn jwk(key: &KeyPair) -> Result<Value> {
    let point = key.public_key_raw();
    let part = |from: usize| point.get(from..from + 32).map(|bytes| URL_SAFE_NO_PAD.encode(bytes));
    let (x, y) = part(1).zip(part(33)).context("the key is a point of P-256")?;
    Ok(json!({"kty": "EC", "crv": "P-256", "alg": "ES256", "use": "sig", "kid": KEY_ID, "x": x, "y": y}))
}

fn answer(mut socket: &TcpStream, discovery: &Value, keys: &Value) -> Result<()> {
    let mut lines = BufReader::new(socket).lines();
    let first = lines.next().context("a request")??;
    while !lines.next().context("a head")??.is_empty() {}
    let body = if first.contains("/.well-known/openid-configuration") { discovery } else { keys }.to_string();
    write!(
        socket,
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    )?;
    Ok(())
}
