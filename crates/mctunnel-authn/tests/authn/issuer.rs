//! An OpenID Connect issuer: keys, tokens signed with them, and a web server, or only the documents where time stands still.

use aws_lc_rs::{
    rand::SystemRandom,
    rsa::KeySize,
    signature::{self, EcdsaKeyPair, Ed25519KeyPair, KeyPair as _, RsaKeyPair},
};
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use bytes::Bytes;
use http_body_util::Full;
use hyper::{Request, Response, body::Incoming, service::service_fn};
use hyper_util::rt::TokioIo;
use mctunnel_authn::{ClaimRules, Clock, FetchDocument, Fetching, NameRules, Oidc, OidcSettings, SigningAlgorithm};
use parking_lot::Mutex;
use serde_json::{Value, json};
use std::{
    collections::BTreeMap,
    convert::Infallible,
    sync::{Arc, OnceLock},
    time::{SystemTime, UNIX_EPOCH},
};
use tokio::{net::TcpListener, sync::Semaphore, task::JoinSet};

/// For whom the tokens are.
pub(crate) const AUDIENCE: &str = "mctunnel";

// === SigningKey ===

/// A key of an issuer.
pub(crate) enum SigningKey {
    Rsa(Box<RsaKeyPair>),
    P256(EcdsaKeyPair),
    P384(EcdsaKeyPair),
    Ed25519(Ed25519KeyPair),
}

impl SigningKey {
    pub(crate) fn rsa() -> Self {
        Self::Rsa(Box::new(RsaKeyPair::generate(KeySize::Rsa2048).unwrap()))
    }

    pub(crate) fn p256() -> Self {
        Self::P256(EcdsaKeyPair::generate(&signature::ECDSA_P256_SHA256_FIXED_SIGNING).unwrap())
    }

    pub(crate) fn p384() -> Self {
        Self::P384(EcdsaKeyPair::generate(&signature::ECDSA_P384_SHA384_FIXED_SIGNING).unwrap())
    }

    pub(crate) fn ed25519() -> Self {
        Self::Ed25519(Ed25519KeyPair::generate().unwrap())
    }

    /// The public half as a JWK.
    pub(crate) fn jwk(&self, id: &str) -> Value {
        let b64 = |bytes: &[u8]| URL_SAFE_NO_PAD.encode(bytes);
        let point = |curve: &str, key: &EcdsaKeyPair| {
            let (x, y) = key.public_key().as_ref()[1..].split_at((key.public_key().as_ref().len() - 1) / 2);
            json!({"kty": "EC", "crv": curve, "kid": id, "use": "sig", "x": b64(x), "y": b64(y)})
        };
        match self {
            Self::Rsa(key) => {
                let public = signature::RsaPublicKeyComponents::<Vec<u8>>::from(key.public_key());
                json!({"kty": "RSA", "kid": id, "use": "sig", "n": b64(&public.n), "e": b64(&public.e)})
            }
            Self::P256(key) => point("P-256", key),
            Self::P384(key) => point("P-384", key),
            Self::Ed25519(key) => {
                json!({"kty": "OKP", "crv": "Ed25519", "kid": id, "x": b64(key.public_key().as_ref())})
            }
        }
    }

    pub(crate) fn sign(&self, algorithm: &str, message: &[u8]) -> Vec<u8> {
        let random = SystemRandom::new();
        match self {
            Self::Rsa(key) => {
                let encoding: &'static dyn signature::RsaEncoding = match algorithm {
                    "RS384" => &signature::RSA_PKCS1_SHA384,
                    "RS512" => &signature::RSA_PKCS1_SHA512,
                    "PS256" => &signature::RSA_PSS_SHA256,
                    "PS384" => &signature::RSA_PSS_SHA384,
                    "PS512" => &signature::RSA_PSS_SHA512,
                    _ => &signature::RSA_PKCS1_SHA256,
                };
                let mut signed = vec![0; key.public_modulus_len()];
                key.sign(encoding, &random, message, &mut signed).unwrap();
                signed
            }
            Self::P256(key) | Self::P384(key) => key.sign(&random, message).unwrap().as_ref().to_vec(),
            Self::Ed25519(key) => key.sign(message).as_ref().to_vec(),
        }
    }
}

/// The RSA key most tests share: making one takes a while.
pub(crate) fn shared_rsa() -> &'static SigningKey {
    static KEY: OnceLock<SigningKey> = OnceLock::new();
    KEY.get_or_init(SigningKey::rsa)
}

// === tokens ===

/// A token with these texts as they are, signed by the key.
pub(crate) fn signed(key: &SigningKey, algorithm: &str, header: &str, claims: &str) -> String {
    let message = format!("{}.{}", URL_SAFE_NO_PAD.encode(header), URL_SAFE_NO_PAD.encode(claims));
    format!("{message}.{}", URL_SAFE_NO_PAD.encode(key.sign(algorithm, message.as_bytes())))
}

/// A token as an honest issuer makes it.
pub(crate) fn token(key: &SigningKey, algorithm: &str, id: &str, claims: &Value) -> String {
    let header = json!({"alg": algorithm, "typ": "JWT", "kid": id});
    signed(key, algorithm, &header.to_string(), &claims.to_string())
}

/// Claims of Alice that are good for an hour.
pub(crate) fn claims_of(issuer: &str) -> Value {
    let now = unix_now();
    json!({
        "iss": issuer, "aud": AUDIENCE, "sub": "alice", "exp": now + 3600, "iat": now, "nbf": now, "jti": "t-1",
        "email": "alice@example.com", "groups": ["dev", "ops"],
    })
}

/// The claims with another value, or without one if it is null.
pub(crate) fn with(mut claims: Value, name: &str, value: Value) -> Value {
    let object = claims.as_object_mut().unwrap();
    if value.is_null() {
        object.remove(name);
    } else {
        object.insert(name.to_owned(), value);
    }
    claims
}

pub(crate) fn unix_now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs()
}

/// Settings for an issuer as most tests want them.
pub(crate) fn settings(issuer: &str) -> OidcSettings {
    OidcSettings {
        issuer: issuer.to_owned(),
        algorithms: vec![SigningAlgorithm::Rs256, SigningAlgorithm::Es256],
        claims: ClaimRules {
            audiences: vec![AUDIENCE.to_owned()],
            other_audiences: Vec::new(),
            user: "sub".to_owned(),
            groups: Some("groups".to_owned()),
            facts: BTreeMap::new(),
            required: BTreeMap::new(),
            names: NameRules::default(),
        },
        ca_pem: None,
        plain_loopback: true,
    }
}

// === Documents ===

/// The documents of issuers, by URL, without a network: for tests in which time stands still.
#[derive(Default)]
pub(crate) struct Documents {
    at: Mutex<BTreeMap<String, String>>,
    /// What was fetched, in order.
    fetched: Mutex<Vec<String>>,
    /// A fetch waits here if it is told to.
    gate: Mutex<Option<Arc<Semaphore>>>,
}

impl Documents {
    /// The issuer has these keys from now on.
    pub(crate) fn publish(&self, issuer: &str, keys: &[Value]) {
        let jwks = format!("{issuer}/keys");
        let discovery = json!({"issuer": issuer, "jwks_uri": jwks, "x": 1});
        let mut at = self.at.lock();
        at.insert(format!("{issuer}/.well-known/openid-configuration"), discovery.to_string());
        at.insert(jwks, json!({ "keys": keys }).to_string());
    }

    /// What is at this URL from now on.
    pub(crate) fn put(&self, url: &str, document: &str) {
        self.at.lock().insert(url.to_owned(), document.to_owned());
    }

    /// Nobody is there any more.
    pub(crate) fn go_away(&self) {
        self.at.lock().clear();
    }

    /// Nothing is answered until a permit is given.
    pub(crate) fn hold(&self) -> Arc<Semaphore> {
        let gate = Arc::new(Semaphore::new(0));
        *self.gate.lock() = Some(Arc::clone(&gate));
        gate
    }

    /// How often keys were asked for.
    pub(crate) fn fetches(&self) -> usize {
        self.fetched.lock().iter().filter(|url| url.ends_with("openid-configuration")).count()
    }
}

impl FetchDocument for Documents {
    fn fetch<'a>(&'a self, url: &'a str) -> Fetching<'a> {
        Box::pin(async move {
            self.fetched.lock().push(url.to_owned());
            let gate = self.gate.lock().clone();
            if let Some(gate) = gate {
                gate.acquire().await.unwrap().forget();
            }
            self.at.lock().get(url).map(|text| text.clone().into_bytes()).ok_or_else(|| "nobody is there".to_owned())
        })
    }
}

/// An issuer without a network.
pub(crate) fn offline(name: &str, settings: OidcSettings, clock: Clock, documents: &Arc<Documents>) -> Oidc {
    Oidc::with_fetch(name, settings, clock, Arc::clone(documents) as Arc<dyn FetchDocument>).unwrap()
}

// === Server ===

/// A web server with documents. Dropping it closes every connection.
pub(crate) struct Server {
    pub(crate) url: String,
    answers: Arc<Mutex<BTreeMap<String, (u16, String)>>>,
    /// What was asked for, in order.
    pub(crate) asked: Arc<Mutex<Vec<String>>>,
    _serving: JoinSet<()>,
}

impl Server {
    pub(crate) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let answers: Arc<Mutex<BTreeMap<String, (u16, String)>>> = Arc::default();
        let asked: Arc<Mutex<Vec<String>>> = Arc::default();
        let mut serving = JoinSet::new();
        let shared = (Arc::clone(&answers), Arc::clone(&asked));
        serving.spawn(async move {
            let mut connections = JoinSet::new();
            loop {
                let (socket, _) = listener.accept().await.unwrap();
                let (answers, asked) = shared.clone();
                let serve = service_fn(move |request: Request<Incoming>| {
                    let path = request.uri().path().to_owned();
                    asked.lock().push(path.clone());
                    let (code, text) = answers.lock().get(&path).cloned().unwrap_or((404, String::new()));
                    let answer = Response::builder().status(code).header("location", "/elsewhere");
                    let answer = answer.body(Full::new(Bytes::from(text))).unwrap();
                    std::future::ready(Ok::<_, Infallible>(answer))
                });
                connections.spawn(async move {
                    let socket = TokioIo::new(socket);
                    let _ = hyper::server::conn::http1::Builder::new().serve_connection(socket, serve).await;
                });
            }
        });
        Self { url, answers, asked, _serving: serving }
    }

    pub(crate) fn answer(&self, path: &str, code: u16, text: &str) {
        self.answers.lock().insert(path.to_owned(), (code, text.to_owned()));
    }

    /// The issuer has these keys from now on.
    pub(crate) fn publish(&self, keys: &[Value]) {
        let discovery = json!({"issuer": self.url, "jwks_uri": format!("{}/keys", self.url)});
        self.answer("/.well-known/openid-configuration", 200, &discovery.to_string());
        self.answer("/keys", 200, &json!({ "keys": keys }).to_string());
    }
}
