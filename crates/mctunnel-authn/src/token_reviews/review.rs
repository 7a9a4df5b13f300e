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

impl Review {
    /// The user of a token that counts and is for one of these audiences; `Err` says why there is none.
    pub fn of_audience(&self, ours: &[String]) -> Result<&ReviewedUser, &'static str> {
        let Self::Authenticated(reviewed) = self else {
            return Err("the cluster does not know the token, or it is not for this hub");
        };
        // A cluster that does not understand audiences says nothing of them, and then nothing is known.
        if !reviewed.audiences.iter().any(|one| ours.contains(one)) {
            return Err("the token is not for this hub");
        }
        Ok(reviewed)
    }
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
