//! Users by the word of a proxy in front, which authenticated them itself. The proxy proves who it is with a certificate of a CA
//! that signs for nobody else, and only then its fields mean anything.

use crate::{
    AuthnError, Clock, Credential, NameRules, Provider, Shown, Verdict, Verifying, Wants, clock,
    pool::{Leaf, NotVerified, Pool},
};
use mctunnel_core::User;
use std::{collections::BTreeMap, sync::Arc};

/// Which proxy, and which fields it writes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FrontProxySettings {
    /// The CAs that sign for front proxies and for nobody else, PEM.
    pub ca_pem: Vec<u8>,
    /// The common names a front proxy may have; at least one.
    pub allowed_names: Vec<String>,
    /// The fields it writes.
    pub fields: FrontProxyFields,
    /// How users and groups are called.
    pub names: NameRules,
}

/// The fields of a front proxy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FrontProxyFields {
    /// The user, once.
    pub user: String,
    /// A group, any number of times.
    pub group: String,
    /// What tells two users of one name apart, at most once.
    pub uid: String,
    /// What stands before the name of a further fact; the rest of the name is percent-encoded.
    pub extra_prefix: String,
}

impl Default for FrontProxyFields {
    fn default() -> Self {
        Self {
            user: "x-remote-user".to_owned(),
            group: "x-remote-group".to_owned(),
            uid: "x-remote-uid".to_owned(),
            extra_prefix: "x-remote-extra-".to_owned(),
        }
    }
}

/// Takes the word of a front proxy.
#[derive(Debug)]
pub struct FrontProxy {
    name: Arc<str>,
    pool: Pool,
    allowed_names: Vec<String>,
    fields: FrontProxyFields,
    names: NameRules,
    clock: Clock,
}

impl FrontProxy {
    /// A provider with CAs of its own.
    pub fn new(name: &str, settings: FrontProxySettings, clock: Clock) -> Result<Self, AuthnError> {
        let FrontProxySettings { ca_pem, allowed_names, fields, names } = settings;
        let refuse = |reason: String| AuthnError::provider(name, reason);
        if let Some(problem) = names.problem() {
            return Err(refuse(problem));
        }
        if allowed_names.is_empty() || allowed_names.iter().any(String::is_empty) {
            return Err(refuse("say which common names the front proxy may have".to_owned()));
        }
        let pool = Pool::from_pem(&ca_pem).map_err(refuse)?;
        Ok(Self { name: name.into(), pool, allowed_names, fields: fields.checked().map_err(refuse)?, names, clock })
    }

    fn judge(&self, shown: &Shown<'_>) -> Verdict {
        let (certificate, fields) = match &shown.credential {
            Credential::Bearer(_) => return Verdict::NotMine,
            Credential::Certificate(certificate) => (*certificate, None),
            Credential::Forwarded { certificate, fields } => (*certificate, Some(*fields)),
        };
        let leaf = match self.pool.verify(certificate, self.clock.now()) {
            Ok(leaf) => leaf,
            Err(NotVerified::NotOurs) => return Verdict::NotMine,
            Err(NotVerified::Bad(reason)) => return Verdict::rejected(reason),
        };
        if !matches!(leaf.common_names.as_slice(), [one] if self.allowed_names.contains(one)) {
            return Verdict::rejected("the certificate is of the front proxy's CA, and not of a front proxy");
        }
        // The proxy's own certificate is never a user.
        let Some(fields) = fields else { return Verdict::rejected(NO_USER) };
        self.user(&leaf, fields).map_or_else(Verdict::rejected, |user| Verdict::Accepted(Arc::new(user)))
    }

    fn user(&self, leaf: &Leaf, fields: &[(String, String)]) -> Result<User, String> {
        // What the gateway could not read stands there as a replacement; two users must not become one by it.
        if fields.iter().any(|(_, value)| value.contains(|c: char| c.is_control() || c == '\u{fffd}')) {
            return Err("a field of the front proxy cannot be read".to_owned());
        }
        let bad = |what: &str, bad| format!("the front proxy's {what} cannot be used: {bad}");
        let mut users = values(fields, &self.fields.user);
        let (Some(found), None) = (users.next(), users.next()) else { return Err(NO_USER.to_owned()) };
        let mut user = User::new(self.names.user(found).map_err(|e| bad("user", e))?, Arc::clone(&self.name));
        for group in values(fields, &self.fields.group) {
            user.groups.push(self.names.group(group).map_err(|e| bad("group", e))?);
        }
        let mut uids = values(fields, &self.fields.uid);
        user.uid = uids.next().map(Into::into);
        if uids.next().is_some() {
            return Err("the front proxy wrote two uids".to_owned());
        }
        user.extra = self.extra(fields)?;
        user.credential = leaf.serial.as_str().into();
        user.expires = clock::moment(leaf.not_after);
        Ok(user)
    }

    fn extra(&self, fields: &[(String, String)]) -> Result<BTreeMap<String, Vec<String>>, String> {
        let mut extra: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for (name, value) in fields {
            let Some(key) = name.strip_prefix(&self.fields.extra_prefix) else { continue };
            let proper = |key: &String| !key.is_empty() && !key.contains(char::is_control);
            let key = decoded(key).filter(proper).ok_or("a fact of the front proxy has no proper name")?;
            extra.entry(key.to_lowercase()).or_default().push(value.clone());
        }
        Ok(extra)
    }
}

fn values<'a>(fields: &'a [(String, String)], name: &'a str) -> impl Iterator<Item = &'a str> {
    fields.iter().filter(move |(one, _)| one == name).map(|(_, value)| value.as_str())
}

const NO_USER: &str = "the front proxy did not name exactly one user";

impl Provider for FrontProxy {
    fn name(&self) -> &Arc<str> {
        &self.name
    }

    fn verify<'a>(&'a self, shown: &'a Shown<'a>) -> Verifying<'a> {
        Box::pin(std::future::ready(self.judge(shown)))
    }

    fn wants(&self) -> Wants {
        let FrontProxyFields { user, group, uid, extra_prefix } = self.fields.clone();
        Wants {
            authorities: self.pool.authorities(),
            fields: vec![user, group, uid],
            field_prefixes: vec![extra_prefix],
        }
    }
}

/// Fields that mean something else already.
const TAKEN: [&str; 9] = [
    "authorization",
    "connection",
    "content-length",
    "cookie",
    "host",
    "proxy-authorization",
    "sec-websocket-protocol",
    "transfer-encoding",
    "upgrade",
];

impl FrontProxyFields {
    /// In lower case, each a name that a field can have, and each another.
    fn checked(self) -> Result<Self, String> {
        let [user, group, uid, extra_prefix] =
            [self.user, self.group, self.uid, self.extra_prefix].map(|name| name.to_ascii_lowercase());
        for name in [&user, &group, &uid, &extra_prefix] {
            let meant_otherwise = name.starts_with("impersonate-") || TAKEN.contains(&name.as_str());
            if meant_otherwise || http::HeaderName::from_bytes(name.as_bytes()).is_err() {
                return Err(format!("'{}' cannot be the name of a front proxy's field", name.escape_debug()));
            }
        }
        let mixed = [&user, &group, &uid].iter().any(|name| name.starts_with(&extra_prefix));
        if mixed || user == group || user == uid || group == uid {
            return Err("each field of the front proxy must have a name of its own".to_owned());
        }
        Ok(Self { user, group, uid, extra_prefix })
    }
}

/// Takes percent codes for what they are; `None` if one is none.
fn decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let mut digit = || rest.next().and_then(|byte| char::from(byte).to_digit(16));
        let (high, low) = (digit()?, digit()?);
        bytes.push(u8::try_from(high * 16 + low).ok()?);
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percent_codes_are_decoded_or_refused() {
        for (text, expected) in [
            ("scopes", Some("scopes")),
            ("example.com%2fproject", Some("example.com/project")),
            ("a%20b", Some("a b")),
            ("%", None),
            ("%4", None),
            ("%zz", None),
            ("%4g", None),
            ("%g4", None),
            ("%ff", None),
        ] {
            assert_eq!(decoded(text).as_deref(), expected, "{text}");
        }
    }

    #[test]
    fn fields_have_names_of_their_own() {
        let named = |user: &str| FrontProxyFields { user: user.to_owned(), ..FrontProxyFields::default() };
        assert_eq!(named("X-User").checked().unwrap().user, "x-user");
        for bad in [
            "",
            "a b",
            "x-remote-group",
            "X-Remote-Uid",
            "x-remote-extra-user",
            "Impersonate-User",
            "Authorization",
            "Host",
        ] {
            assert!(named(bad).checked().is_err(), "{bad}");
        }
    }
}
