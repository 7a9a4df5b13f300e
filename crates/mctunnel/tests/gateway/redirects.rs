//! Redirects are passed on, never followed, and never lead a client to another host.

use crate::rig::{Rig, Target, get};

#[tokio::test]
async fn t14_redirects_stay_inside_the_target() {
    let rig = Rig::start().await;
    let target = Target::start(|request| {
        let location = request.split("?to=").nth(1).and_then(|rest| rest.split(' ').next()).unwrap_or_default();
        format!("HTTP/1.1 302 Found\r\nLocation: {location}\r\nContent-Length: 0\r\n\r\n").into_bytes()
    })
    .await;
    let _agent = rig.agent("cluster-a", target.address).await;
    let service = "/cluster-a/api/v1/namespaces/default/services/web/proxy-service";
    for (prefix, to, expected) in [
        ("/cluster-a", "/login", "/cluster-a/login"),
        (service, "/login?a=b", "/cluster-a/api/v1/namespaces/default/services/web/proxy-service/login?a=b"),
        (service, "next", "next"),
    ] {
        let answer = rig.once(&get(&format!("{prefix}/go?to={to}"))).await;
        assert!(answer.contains(&format!("location: {expected}\r\n")), "{to}: {answer}");
    }
    // Asked for without a slash behind it, the prefix is as long.
    for prefix in ["/cluster-a", service] {
        let answer = rig.once(&get(&format!("{prefix}?to=/login"))).await;
        assert!(answer.contains(&format!("location: {prefix}/login\r\n")), "{prefix}: {answer}");
    }
    for to in ["//evil/", "http://127.0.0.1/", "https://hub/", "\\\\evil", "javascript:x"] {
        let answer = rig.once(&get(&format!("/cluster-a/go?to={to}"))).await;
        assert!(answer.starts_with("HTTP/1.1 502") && !answer.contains("location:"), "{to}: {answer}");
    }
    assert_eq!(target.seen.lock().len(), 10);
}
