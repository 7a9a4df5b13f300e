//! Port: asking a Kubernetes cluster whose token it is. Implemented by `mctunnel-kube`.

use mctunnel_core::Secret;
use std::{collections::BTreeMap, fmt, pin::Pin};

/// Asks whose token it is.
///
/// Obligations: 1. the audiences are sent with each question; 2. an error of any kind is `Err`, never an answer; 3. the token appears
/// in no message and no log.
pub trait ReviewToken: Send + Sync + 'static {
    /// Asks once; `Err` says why there is no answer.
    fn review<'a>(&'a self, token: &'a Secret, audiences: &'a [String]) -> Reviewing<'a>;
}

/// An answer under way.
pub type Reviewing<'a> = Pin<Box<dyn Future<Output = Result<Review, String>> + Send + 'a>>;

/// What the cluster says of a token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Review {
    /// It does not count there.
    NotAuthenticated,
    /// It is this user's.
    Authenticated(ReviewedUser),
}

/// A user as the cluster knows it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ReviewedUser {
    /// The name.
    pub name: String,
    /// What tells two of one name apart.
    pub uid: Option<String>,
    /// The groups.
    pub groups: Vec<String>,
    /// Further facts.
    pub extra: BTreeMap<String, Vec<String>>,
    /// Those of the audiences asked for that the token is for.
    pub audiences: Vec<String>,
}

impl fmt::Debug for dyn ReviewToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ReviewToken")
    }
}
