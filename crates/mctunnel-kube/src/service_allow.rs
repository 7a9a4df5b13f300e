//! Which services may be reached. Pure; default deny: an empty list denies everything.

use mctunnel_core::{ErrorCode, ServicePort, ServiceTarget, target::Label};
use std::{fmt, sync::Arc};

/// The services a client may reach through the agent. Cheap to clone.
///
/// Rules are written `NAMESPACE/NAME[:PORT]`:
///
/// | part | forms |
/// |---|---|
/// | NAMESPACE | `monitoring`, or `*` for all |
/// | NAME | `prometheus`, or `*` for all |
/// | PORT | `9090` or `web`; without one, every port |
///
/// A port is compared as it is asked for: a rule with a number does not open the port by its name, nor the other way round, and
/// a rule with a port does not open a target without one.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct ServiceAllowList {
    rules: Arc<[Rule]>,
}

impl ServiceAllowList {
    /// Parses a list of rules; the first bad one is the error.
    pub fn parse<I, S>(rules: I) -> Result<Self, InvalidServiceRule>
    where
        I: IntoIterator<Item = S>,
        S: AsRef<str>,
    {
        let rules = rules.into_iter().map(|text| Rule::parse(text.as_ref())).collect::<Result<_, _>>()?;
        Ok(Self { rules })
    }

    /// Whether a rule has the service.
    #[must_use]
    pub fn permits(&self, target: &ServiceTarget) -> bool {
        self.rules.iter().any(|rule| rule.permits(target))
    }

    /// Whether the list has no rules and so denies everything.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// How many rules there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.rules.len()
    }
}

/// The rules, in their order, separated by `, `; `(none)` for the empty list.
impl fmt::Display for ServiceAllowList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.rules.is_empty() {
            return f.write_str("(none)");
        }
        for (position, rule) in self.rules.iter().enumerate() {
            let separator = if position == 0 { "" } else { ", " };
            write!(f, "{separator}{rule}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for ServiceAllowList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ServiceAllowList({self})")
    }
}

// === Rule ===

#[derive(Debug, Clone, PartialEq, Eq)]
struct Rule {
    namespace: Part,
    name: Part,
    /// Every port when it is [`ServicePort::Only`].
    port: ServicePort,
}

impl Rule {
    fn parse(text: &str) -> Result<Self, InvalidServiceRule> {
        let bad = |problem| InvalidServiceRule { rule: text.to_owned(), problem };
        let (namespace, rest) = text.split_once('/').ok_or_else(|| bad(ServiceRuleProblem::NoNamespace))?;
        let (name, port) = match rest.split_once(':') {
            // A colon with nothing behind it is a port forgotten, not every port.
            Some((_, "")) => return Err(bad(ServiceRuleProblem::Port)),
            Some((name, port)) => (name, port),
            None => (rest, ""),
        };
        let namespace = Part::parse(namespace).ok_or_else(|| bad(ServiceRuleProblem::Namespace))?;
        let name = Part::parse(name).ok_or_else(|| bad(ServiceRuleProblem::Name))?;
        let port = ServicePort::parse(port).map_err(|_| bad(ServiceRuleProblem::Port))?;
        // Port names have a letter in Kubernetes; `80-90` was meant as something we do not have.
        if matches!(&port, ServicePort::Name(name) if !name.as_str().bytes().any(|b| b.is_ascii_lowercase())) {
            return Err(bad(ServiceRuleProblem::Port));
        }
        Ok(Self { namespace, name, port })
    }

    fn permits(&self, target: &ServiceTarget) -> bool {
        let port = self.port == ServicePort::Only || self.port == target.port;
        port && self.namespace.covers(&target.namespace) && self.name.covers(&target.name)
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)?;
        match &self.port {
            ServicePort::Only => Ok(()),
            ServicePort::Number(port) => write!(f, ":{port}"),
            ServicePort::Name(name) => write!(f, ":{name}"),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    Any,
    One(Label),
}

impl Part {
    fn parse(text: &str) -> Option<Self> {
        if text == "*" { Some(Self::Any) } else { Label::parse(text).ok().map(Self::One) }
    }

    fn covers(&self, label: &Label) -> bool {
        match self {
            Self::Any => true,
            Self::One(own) => own == label,
        }
    }
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Any => f.write_str("*"),
            Self::One(label) => label.fmt(f),
        }
    }
}

// === InvalidServiceRule ===

/// A rule cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the rule {rule:?} cannot be read: {problem}")]
pub struct InvalidServiceRule {
    /// The rule as it was given.
    pub rule: String,
    /// What is wrong with it.
    pub problem: ServiceRuleProblem,
}

impl InvalidServiceRule {
    /// The stable code and its remedy.
    #[must_use]
    pub fn code(&self) -> ErrorCode {
        ErrorCode {
            code: "MCT-KUBE-SERVICE-RULE",
            remedy: "write each rule as namespace/name or namespace/name:port, for example monitoring/prometheus:9090 or monitoring/*",
        }
    }
}

/// What is wrong with a rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ServiceRuleProblem {
    /// No `/`.
    #[error("it has no namespace, as in default/web")]
    NoNamespace,
    /// Neither a name nor `*`.
    #[error("its namespace is neither a name in lower case nor a single *")]
    Namespace,
    /// Neither a name nor `*`.
    #[error("its name is neither a name in lower case nor a single *")]
    Name,
    /// Neither a number nor a name.
    #[error(
        "its port is neither a number from 1 to 65535 nor a name in lower case; leave the colon out for every port"
    )]
    Port,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn permits(rules: &[&str], namespace: &str, spec: &str) -> bool {
        let list = ServiceAllowList::parse(rules).unwrap();
        list.permits(&ServiceTarget::parse(namespace, spec).unwrap())
    }

    #[test]
    fn an_empty_list_denies_everything() {
        assert!(!permits(&[], "default", "web"));
        assert!(!permits(&[], "default", "web:80"));
        assert!(ServiceAllowList::default().is_empty());
    }

    #[test]
    fn rules_open_what_they_name_and_nothing_else() {
        for (rule, namespace, spec, expected) in [
            ("default/web", "default", "web", true),
            ("default/web", "default", "web:80", true),
            ("default/web", "default", "https:web:http", true),
            ("default/web", "default", "web2", false),
            ("default/web", "default", "we", false),
            ("default/web", "other", "web", false),
            ("default/web:80", "default", "web:80", true),
            ("default/web:80", "default", "https:web:80", true),
            ("default/web:80", "default", "web:8", false),
            ("default/web:80", "default", "web:8080", false),
            ("default/web:80", "default", "web:http", false),
            ("default/web:80", "default", "web", false),
            ("default/web:http", "default", "web:http", true),
            ("default/web:http", "default", "web:80", false),
            ("monitoring/*", "monitoring", "prometheus:9090", true),
            ("monitoring/*", "default", "prometheus:9090", false),
            ("monitoring/*:9090", "monitoring", "prometheus:9091", false),
            ("*/web", "anything", "web", true),
            ("*/web", "anything", "db", false),
            ("*/*", "anything", "at-all:1", true),
        ] {
            assert_eq!(permits(&[rule], namespace, spec), expected, "{rule} {namespace} {spec}");
        }
        assert!(permits(&["a/b", "default/web:80"], "default", "web:80"));
        assert!(permits(&["default/web:http2"], "default", "web:http2"));
        for rules in [&[][..], &["a/b"], &["a/b", "*/*"]] {
            let list = ServiceAllowList::parse(rules).unwrap();
            assert_eq!((list.len(), list.is_empty()), (rules.len(), rules.is_empty()), "{list}");
        }
    }

    #[test]
    fn a_misspelt_rule_says_how_to_write_it() {
        use ServiceRuleProblem::{Name, Namespace, NoNamespace, Port};
        for (rule, problem) in [
            ("", NoNamespace),
            ("web", NoNamespace),
            ("*", NoNamespace),
            ("web:80", NoNamespace),
            ("/web", Namespace),
            ("Default/web", Namespace),
            ("de*/web", Namespace),
            ("**/web", Namespace),
            (" default/web", Namespace),
            ("http://default/web", Namespace),
            ("default/", Name),
            ("default/web*", Name),
            ("default/*web", Name),
            ("default/we b", Name),
            ("default/web/x", Name),
            ("default/web.svc", Name),
            ("default/web ", Name),
            ("default/web:", Port),
            ("default/web:0", Port),
            ("default/web:080", Port),
            ("default/web:65536", Port),
            ("default/web:*", Port),
            ("default/web:80:81", Port),
            ("default/web:80-90", Port),
        ] {
            let error = ServiceAllowList::parse(["a/b", rule]).unwrap_err();
            assert_eq!((error.rule.as_str(), error.problem), (rule, problem), "{rule}");
            assert!(error.code().remedy.contains("namespace/name:port"));
        }
    }

    #[test]
    fn rules_print_as_they_are_written() {
        let rules = ["default/web", "monitoring/*:9090", "*/db:pg", "*/*"];
        assert_eq!(ServiceAllowList::parse(rules).unwrap().to_string(), rules.join(", "));
        assert_eq!(ServiceAllowList::default().to_string(), "(none)");
    }
}
