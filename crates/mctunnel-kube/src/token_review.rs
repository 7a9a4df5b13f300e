//! Asks a cluster whose token it is, by `TokenReview`. The token is in question and answer, so neither is ever logged: the client's
//! own readers, which log what they cannot read, are not used.

use crate::{ClusterAccess, KubeError};
use http::{Request, StatusCode, header};
use http_body_util::{BodyExt, Limited};
use kube::client::Body;
use mctunnel_authn::{Review, ReviewToken, ReviewedUser, Reviewing};
use mctunnel_core::Secret;
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, fmt};

const PATH: &str = "/apis/authentication.k8s.io/v1/tokenreviews";

/// A longer answer is not read.
const LONGEST: usize = 1 << 20;

/// Reviews tokens at the kube-apiserver of a cluster. The credentials need the verb `create` on
/// `tokenreviews.authentication.k8s.io`, as the cluster role `system:auth-delegator` has it.
#[derive(Clone)]
pub struct ClusterTokenReview {
    client: kube::Client,
}

impl ClusterTokenReview {
    /// With the credentials of `access`. Must be called inside a tokio runtime.
    pub fn new(access: &ClusterAccess) -> Result<Self, KubeError> {
        Ok(Self { client: access.client()? })
    }

    async fn ask(&self, token: &Secret, audiences: &[String]) -> Result<Review, String> {
        let question = Question {
            api_version: "authentication.k8s.io/v1",
            kind: "TokenReview",
            spec: Spec { token: token.expose(), audiences },
        };
        let question = serde_json::to_vec(&question).map_err(|_| "the question cannot be written".to_owned())?;
        let request = Request::post(PATH)
            .header(header::CONTENT_TYPE, "application/json")
            .body(Body::from(question))
            .map_err(|_| "the question cannot be sent".to_owned())?;
        let answer = self.client.send(request).await.map_err(|error| format!("the request failed: {error}"))?;
        match answer.status() {
            StatusCode::OK | StatusCode::CREATED => {}
            StatusCode::FORBIDDEN => {
                return Err("the answer is 403: the hub may not create tokenreviews.authentication.k8s.io".to_owned());
            }
            status => return Err(format!("the answer is {}", status.as_u16())),
        }
        let body = Limited::new(answer.into_body(), LONGEST).collect().await;
        let body = body.map_err(|_| "the answer cannot be read".to_owned())?.to_bytes();
        let answer: Answer = serde_json::from_slice(&body).map_err(|_| "the answer is no TokenReview".to_owned())?;
        answer.review()
    }
}

impl ReviewToken for ClusterTokenReview {
    fn review<'a>(&'a self, token: &'a Secret, audiences: &'a [String]) -> Reviewing<'a> {
        Box::pin(self.ask(token, audiences))
    }
}

impl fmt::Debug for ClusterTokenReview {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ClusterTokenReview")
    }
}

// === the two halves of a TokenReview ===

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Question<'a> {
    api_version: &'static str,
    kind: &'static str,
    spec: Spec<'a>,
}

#[derive(Serialize)]
struct Spec<'a> {
    token: &'a str,
    audiences: &'a [String],
}

#[derive(Deserialize)]
struct Answer {
    status: Status,
}

#[derive(Deserialize)]
struct Status {
    #[serde(default)]
    authenticated: bool,
    #[serde(default)]
    user: UserOfCluster,
    #[serde(default)]
    audiences: Vec<String>,
}

#[derive(Default, Deserialize)]
struct UserOfCluster {
    #[serde(default)]
    username: String,
    uid: Option<String>,
    #[serde(default)]
    groups: Vec<String>,
    #[serde(default)]
    extra: BTreeMap<String, Vec<String>>,
}

impl Answer {
    /// `status.error` is not looked at: a cluster fills it for tokens it does not know, too, and whoever is not authenticated is not.
    fn review(self) -> Result<Review, String> {
        let Status { authenticated, user, audiences } = self.status;
        if !authenticated {
            return Ok(Review::NotAuthenticated);
        }
        let UserOfCluster { username: name, uid, groups, extra } = user;
        if name.is_empty() {
            return Err("the answer names no user".to_owned());
        }
        Ok(Review::Authenticated(ReviewedUser { name, uid, groups, extra, audiences }))
    }
}
