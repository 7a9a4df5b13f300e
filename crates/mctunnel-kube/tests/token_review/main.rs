//! T29: a TokenReview against a kube-apiserver of the test's own, seen as the bytes on its socket.

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use http_body_util::{BodyExt, Full};
    use hyper::{Request, Response, body::Incoming, service::service_fn};
    use hyper_util::rt::TokioIo;
    use mctunnel_authn::{Chain, Clock, Review, ReviewToken, TokenReviewSettings, TokenReviews};
    use mctunnel_core::{Authenticate, Authorization, Evidence, Identity, Secret, Unauthenticated};
    use mctunnel_kube::{ClusterAccess, ClusterTokenReview};
    use parking_lot::Mutex;
    use serde_json::{Value, json};
    use std::{convert::Infallible, io, sync::Arc};
    use tokio::{net::TcpListener, task::JoinSet};

    const AUDIENCE: &str = "mctunnel";

    /// What was asked: method and path, the credential, the body.
    type Asked = Arc<Mutex<Vec<(String, String, Value)>>>;

    struct Api {
        reviews: Arc<ClusterTokenReview>,
        asked: Asked,
        answer: Arc<Mutex<(u16, String)>>,
        _serving: JoinSet<()>,
    }

    impl Api {
        async fn start() -> Self {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let address = listener.local_addr().unwrap();
            let (asked, answer) = (Asked::default(), Arc::new(Mutex::new((500, String::new()))));
            let mut serving = JoinSet::new();
            let shared = (Arc::clone(&asked), Arc::clone(&answer));
            serving.spawn(async move {
                let mut connections = JoinSet::new();
                loop {
                    let (socket, _) = listener.accept().await.unwrap();
                    let shared = shared.clone();
                    let serve = service_fn(move |request| respond(shared.clone(), request));
                    connections.spawn(async move {
                        let socket = TokioIo::new(socket);
                        let _ = hyper::server::conn::http1::Builder::new().serve_connection(socket, serve).await;
                    });
                }
            });
            let reviews = Arc::new(ClusterTokenReview::new(&access(&format!("http://{address}")).await).unwrap());
            Self { reviews, asked, answer, _serving: serving }
        }

        fn answers(&self, code: u16, answer: &str) {
            *self.answer.lock() = (code, answer.to_owned());
        }

        async fn review(&self) -> Result<Review, String> {
            self.reviews.review(&Secret::new("canary"), &[AUDIENCE.to_owned()]).await
        }

        async fn authenticate(&self) -> Result<Identity, Unauthenticated> {
            let settings = TokenReviewSettings::new(vec![AUDIENCE.to_owned()]);
            let provider = TokenReviews::new("hub", settings, self.reviews.clone(), Clock::system()).unwrap();
            let bearer = Some(Authorization::new("Bearer canary"));
            let evidence = Evidence { authorization: bearer, ..Evidence::default() };
            Chain::new(vec![Arc::new(provider)]).unwrap().authenticate(&evidence).await
        }
    }

    async fn respond(
        (asked, answer): (Asked, Arc<Mutex<(u16, String)>>),
        request: Request<Incoming>,
    ) -> Result<Response<Full<Bytes>>, Infallible> {
        let what = format!("{} {}", request.method(), request.uri());
        let by = request.headers().get("authorization").map_or("", |value| value.to_str().unwrap()).to_owned();
        let body = request.into_body().collect().await.unwrap().to_bytes();
        asked.lock().push((what, by, serde_json::from_slice(&body).unwrap()));
        let (code, text) = answer.lock().clone();
        Ok(Response::builder().status(code).body(Full::from(text)).unwrap())
    }

    async fn access(server: &str) -> ClusterAccess {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("kubeconfig");
        let config = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "c",
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
            "clusters": [{"name": "c", "cluster": {"server": server}}],
            "users": [{"name": "u", "user": {"token": "hub-token"}}],
        });
        std::fs::write(&path, config.to_string()).unwrap();
        ClusterAccess::from_kubeconfig(&path, None).await.unwrap()
    }

    fn reviewed(status: &Value) -> String {
        let spec = json!({"token": "canary", "audiences": [AUDIENCE]});
        json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": spec, "status": status})
            .to_string()
    }

    fn account() -> Value {
        json!({
            "authenticated": true,
            "audiences": [AUDIENCE],
            "user": {
                "username": "system:serviceaccount:ci:runner", "uid": "u-1", "groups": ["system:serviceaccounts"],
                "extra": {"authentication.kubernetes.io/credential-id": ["JTI=1"]},
            },
        })
    }

    #[tokio::test]
    async fn t29_the_question_has_the_token_the_audiences_and_the_hubs_own_credential() {
        let api = Api::start().await;
        api.answers(201, &reviewed(&account()));
        let Ok(Review::Authenticated(user)) = api.review().await else { panic!("not authenticated") };
        assert_eq!((user.name.as_str(), user.uid.as_deref()), ("system:serviceaccount:ci:runner", Some("u-1")));
        assert_eq!((user.audiences, user.groups.len(), user.extra.len()), (vec![AUDIENCE.to_owned()], 1, 1));
        let asked = api.asked.lock().clone();
        let body = json!({
            "apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview",
            "spec": {"token": "canary", "audiences": [AUDIENCE]},
        });
        let what = "POST /apis/authentication.k8s.io/v1/tokenreviews".to_owned();
        assert_eq!(asked, [(what, "Bearer hub-token".to_owned(), body)]);
    }

    #[tokio::test]
    async fn t29_through_the_provider_it_is_a_user_of_the_hub() {
        let api = Api::start().await;
        api.answers(201, &reviewed(&account()));
        let identity = api.authenticate().await.unwrap();
        let user = identity.user().unwrap();
        assert_eq!(user.name.as_ref(), "cluster:hub:system:serviceaccount:ci:runner");
        assert_eq!(user.credential.as_ref(), "JTI=1");
    }

    #[tokio::test]
    async fn t29_whoever_is_not_authenticated_or_not_for_us_is_refused() {
        let api = Api::start().await;
        let mut for_others = account();
        for_others["audiences"] = json!(["https://kubernetes.default.svc"]);
        let mut for_nobody = account();
        for_nobody.as_object_mut().unwrap().remove("audiences");
        for status in [
            json!({}),
            json!({"authenticated": false}),
            json!({"error": "[invalid bearer token, token lookup failed]"}),
            json!({"authenticated": false, "user": account()["user"], "audiences": [AUDIENCE]}),
            for_others,
            for_nobody,
        ] {
            api.answers(201, &reviewed(&status));
            let answer = api.authenticate().await;
            assert!(matches!(answer, Err(Unauthenticated::Rejected(_))), "{status}: {answer:?}");
        }
    }

    #[tokio::test]
    async fn t29_an_error_is_unavailable_and_says_nothing_of_the_token() {
        let api = Api::start().await;
        let mut nameless = account();
        nameless["user"] = json!({});
        let endless = " ".repeat((1 << 20) + 1);
        for (code, text) in [
            (500, "canary".to_owned()),
            (503, String::new()),
            (401, "canary".to_owned()),
            (403, r#"{"kind":"Status","message":"canary"}"#.to_owned()),
            (404, String::new()),
            (302, String::new()),
            (201, "canary".to_owned()),
            (201, "{}".to_owned()),
            (201, reviewed(&json!({"authenticated": "yes"}))),
            (201, reviewed(&nameless)),
            (201, endless),
        ] {
            api.answers(code, &text);
            let answer = api.authenticate().await;
            let Err(Unauthenticated::Unavailable(reason)) = &answer else { panic!("{code}: {answer:?}") };
            assert!(!reason.contains("canary"), "t36: {reason}");
        }
    }

    /// Everything that is logged.
    #[derive(Clone, Default)]
    struct Log(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Log {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[tokio::test]
    async fn t36_no_token_is_logged_whatever_the_answer_is() {
        let log = Log::default();
        let writer = log.clone();
        let subscriber =
            tracing_subscriber::fmt().with_max_level(tracing::Level::TRACE).with_writer(move || writer.clone());
        // For the whole process: a subscriber of one thread misses what others made known before it came.
        tracing::subscriber::set_global_default(subscriber.finish()).unwrap();
        let api = Api::start().await;
        for (code, text) in [
            (201, reviewed(&account())),
            (201, "canary".to_owned()),
            (201, r#"{"spec":{"token":"canary"},"status":{"authenticated":"canary"}}"#.to_owned()),
            (500, "canary".to_owned()),
            (403, r#"{"kind":"Status","message":"canary","code":403}"#.to_owned()),
        ] {
            api.answers(code, &text);
            let _ = api.authenticate().await;
        }
        assert_eq!(api.asked.lock().len(), 5);
        let log = String::from_utf8(log.0.lock().clone()).unwrap();
        assert!(log.contains("tokenreviews"), "the log was not seen: {log}");
        assert!(!log.contains("canary") && !log.contains("hub-token"), "{log}");
    }

    #[tokio::test]
    async fn t29_nobody_there_is_unavailable() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let gone = listener.local_addr().unwrap();
        drop(listener);
        let reviews = ClusterTokenReview::new(&access(&format!("http://{gone}")).await).unwrap();
        let answer = reviews.review(&Secret::new("canary"), &[AUDIENCE.to_owned()]).await;
        assert!(answer.is_err_and(|reason| !reason.contains("canary")));
    }
}
