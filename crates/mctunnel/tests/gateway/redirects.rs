//! Redirects are passed on, never followed, and never lead a client to another host, cluster or service.

use crate::{
    held::Names,
    rig::{Rig, Target, get, ok},
};
use std::{io, net::TcpListener, sync::Arc};

const SERVICE: &str = "/cluster-a/api/v1/namespaces/default/services/web/proxy-service";

/// A target that redirects as `?STATUS&to=LOCATION` says, and answers everything else.
async fn redirecting() -> Target {
    Target::start(|request| {
        let asked = request.split(' ').nth(1).and_then(|target| target.split_once('?'));
        let Some((status, location)) = asked.and_then(|(_, query)| query.split_once("&to=")) else {
            return ok("there");
        };
        format!("HTTP/1.1 {status} Moved\r\nLocation: {location}\r\nContent-Length: 0\r\n\r\n").into_bytes()
    })
    .await
}

/// Where an answer leads, if it does.
fn location(answer: &str) -> Option<&str> {
    answer.lines().find_map(|line| line.strip_prefix("location: "))
}

/// Where a browser goes that asked for `path` and is told `location`.
fn followed(path: &str, location: &str) -> String {
    let whole = if location.starts_with('/') {
        location.to_owned()
    } else {
        format!("{}/{location}", path.rsplit_once('/').unwrap_or_default().0)
    };
    let mut kept: Vec<&str> = Vec::new();
    for segment in whole.split('/').skip(1) {
        match &*segment.to_ascii_lowercase().replace("%2e", ".") {
            "." => {}
            ".." => drop(kept.pop()),
            _ => kept.push(segment),
        }
    }
    format!("/{}", kept.join("/"))
}

#[tokio::test]
async fn t14_redirects_stay_inside_the_target() {
    let rig = Rig::start().await;
    let target = redirecting().await;
    let _agent = rig.agent("cluster-a", target.address).await;
    for (prefix, to, expected) in [
        ("/cluster-a", "/login", "/login"),
        (SERVICE, "/login?a=b", "/login?a=b"),
        (SERVICE, "next", "/next"),
        (SERVICE, "a/../next", "/next"),
    ] {
        let answer = rig.once(&get(&format!("{prefix}/go?302&to={to}"))).await;
        assert_eq!(location(&answer), Some(&*format!("{prefix}{expected}")), "{to}: {answer}");
    }
    let answer = rig.once(&get(&format!("{SERVICE}/user/go?302&to=../login"))).await;
    assert_eq!(location(&answer), Some(&*format!("{SERVICE}/login")), "{answer}");
    // Asked for without a slash behind it, the prefix is as long.
    for prefix in ["/cluster-a", SERVICE] {
        for to in ["/login", "login"] {
            let answer = rig.once(&get(&format!("{prefix}?302&to={to}"))).await;
            assert_eq!(location(&answer), Some(&*format!("{prefix}/login")), "{to}: {answer}");
        }
    }
    for to in ["//evil/", "http://127.0.0.1/", "https://hub/", "\\\\evil", "javascript:x"] {
        let answer = rig.once(&get(&format!("/cluster-a/go?302&to={to}"))).await;
        assert!(answer.starts_with("HTTP/1.1 502") && location(&answer).is_none(), "{to}: {answer}");
    }
    assert_eq!(target.seen.lock().len(), 14);
}

#[tokio::test]
async fn t14_redirects_never_lead_into_another_cluster() {
    let rig = Rig::start().await;
    let (target, other) = (redirecting().await, Target::named("other").await);
    let _agents = [rig.agent("cluster-a", target.address).await, rig.agent("cluster-b", other.address).await];
    let api = "/cluster-a/go";
    let service = &format!("{SERVICE}/go");
    for status in [301, 302, 303, 307, 308] {
        for (path, to) in [
            (api, "/../cluster-b/x"),
            (api, "/%2e%2e/cluster-b"),
            (api, "/.%2E/cluster-b/x"),
            (api, "/a/../../cluster-b/x"),
            (api, "../cluster-b/x"),
            (api, "../../cluster-b"),
            (api, "%2e%2e/cluster-b/x"),
            (api, ".."),
            (api, "//host"),
            (service, "/../../../../../../../../cluster-b/x"),
            (service, "/../../hidden/proxy-service/"),
            (service, "../../hidden/proxy-service/"),
            (service, "../../../secrets"),
            // Inside after all, if the client begins where the target believes it does.
            ("/cluster-a", "cluster-b/x"),
            (SERVICE, "../cluster-b/x"),
        ] {
            let answer = rig.once(&get(&format!("{path}?{status}&to={to}"))).await;
            if let Some(location) = location(&answer) {
                rig.once(&get(&followed(path, location))).await;
                assert!(followed(path, location).starts_with("/cluster-a/"), "{path} {to}: {answer}");
            } else {
                assert!(answer.starts_with("HTTP/1.1 502") && answer.contains("MCT-HTTP-BAD-ANSWER"), "{to}: {answer}");
            }
            assert_eq!(location(&answer).is_some(), to == "cluster-b/x", "{path} {to}: {answer}");
        }
    }
    assert_eq!(*other.seen.lock(), Vec::<String>::new());
}

/// A server that must never be asked for anything.
struct Trap(TcpListener);

impl Trap {
    fn set() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        Self(listener)
    }

    fn address(&self) -> String {
        self.0.local_addr().unwrap().to_string()
    }

    /// Whether anybody has connected since the last time. The system itself is asked, so nobody can be on the way.
    fn was_dialled(&self) -> bool {
        match self.0.accept() {
            Ok(_) => true,
            Err(error) => {
                assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
                false
            }
        }
    }
}

#[tokio::test]
async fn t14_where_a_redirect_leads_is_never_dialled() {
    // An agent that speaks for users has a token of its own, and adds it to each request: whoever followed would give it away.
    let rig = Rig::start_with(|adapter| adapter.authenticate(Arc::new(Names))).await;
    let (target, trap) = (redirecting().await, Trap::set());
    let _agent = rig.speaking_agent("cluster-a", target.address).await;
    let address = trap.address();
    for status in [301, 302, 303, 307, 308] {
        for prefix in ["/cluster-a", SERVICE] {
            for to in [format!("http://{address}/"), format!("//{address}/"), format!("http://x:y@{address}/a")] {
                let asks = get(&format!("{prefix}/go?{status}&to={to}"));
                let asks = asks.replace("Host: hub\r\n", "Host: hub\r\nAuthorization: Bearer alice\r\n");
                let answer = rig.once(&asks).await;
                assert!(answer.starts_with("HTTP/1.1 502 ") && location(&answer).is_none(), "{status} {to}: {answer}");
                assert!(answer.contains("MCT-HTTP-BAD-ANSWER"), "{status} {to}: {answer}");
                assert!(!trap.was_dialled(), "{status} {to}");
            }
        }
    }
    let seen = target.seen.lock().clone();
    assert_eq!(seen.len(), 30);
    let to_api =
        |request: &&String| request.starts_with("GET /go") && request.contains("authorization: Bearer agent-token");
    assert_eq!(seen.iter().filter(to_api).count(), 15, "the target itself was shown the agent's token");
    // It would have noticed.
    drop(std::net::TcpStream::connect(&address).unwrap());
    assert!(trap.was_dialled());
}
