//! Resources of a rule, in the grammar of Kubernetes' webhooks: `pods`, `pods/log`, `pods/*`, `*/scale`, `*` for every resource without
//! its subresources, `*/*` for everything. `pods` is never `pods/exec`.

/// A list of resources.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Resources(Vec<Pattern>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct Pattern {
    /// None for all.
    resource: Option<Box<str>>,
    subresource: Subresource,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Subresource {
    /// The resource itself.
    None,
    One(Box<str>),
    /// `pods/*`: all of them, and not the resource itself.
    All,
    /// `*/*`.
    AllAndNone,
}

impl Resources {
    /// Reads a list.
    pub(crate) fn parse(list: &[String]) -> Result<Self, String> {
        let patterns: Vec<_> = list.iter().map(|text| Pattern::parse(text)).collect::<Result<_, _>>()?;
        if patterns.len() > 1 && patterns.iter().any(|pattern| pattern.subresource == Subresource::AllAndNone) {
            return Err("'*/*' stands alone: it has everything already".to_owned());
        }
        let plain = || patterns.iter().filter(|pattern| pattern.subresource == Subresource::None);
        if plain().count() > 1 && plain().any(|pattern| pattern.resource.is_none()) {
            return Err("'*' has every resource already; subresources may stand beside it".to_owned());
        }
        Ok(Self(patterns))
    }

    /// Whether the resource, or its subresource, is one of them.
    pub(crate) fn covers(&self, resource: &str, subresource: Option<&str>) -> bool {
        self.0.iter().any(|pattern| pattern.covers(resource, subresource))
    }

    /// Whether it has all that the other one has.
    pub(crate) fn includes(&self, other: &Self) -> bool {
        other.0.iter().all(|theirs| self.0.iter().any(|own| own.includes(theirs)))
    }

    /// Each pattern as resource and subresource; `None` for a resource is all, `None` for a subresource is the resource itself.
    pub(crate) fn parts(&self) -> impl Iterator<Item = (Option<&str>, Option<&str>)> {
        self.0.iter().map(|pattern| {
            let subresource = match &pattern.subresource {
                Subresource::None => None,
                Subresource::One(name) => Some(&**name),
                Subresource::All | Subresource::AllAndNone => Some("*"),
            };
            (pattern.resource.as_deref(), subresource)
        })
    }
}

impl Pattern {
    fn parse(text: &str) -> Result<Self, String> {
        let (resource, subresource) = match text.split_once('/') {
            None => (text, None),
            Some((resource, subresource)) => (resource, Some(subresource)),
        };
        let subresource = match (resource, subresource) {
            (_, None) => Subresource::None,
            ("*", Some("*")) => Subresource::AllAndNone,
            (_, Some("*")) => Subresource::All,
            (_, Some(name)) => Subresource::One(checked(text, name)?),
        };
        let resource = if resource == "*" { None } else { Some(checked(text, resource)?) };
        Ok(Self { resource, subresource })
    }

    fn covers(&self, resource: &str, subresource: Option<&str>) -> bool {
        let subresource = match (&self.subresource, subresource) {
            (Subresource::AllAndNone, _) | (Subresource::None, None) | (Subresource::All, Some(_)) => true,
            (Subresource::One(own), Some(asked)) => **own == *asked,
            (Subresource::None, Some(_)) | (Subresource::One(_) | Subresource::All, None) => false,
        };
        subresource && self.resource.as_ref().is_none_or(|own| **own == *resource)
    }

    fn includes(&self, other: &Self) -> bool {
        let subresource = match (&self.subresource, &other.subresource) {
            (Subresource::AllAndNone, _) | (Subresource::All, Subresource::One(_) | Subresource::All) => true,
            (own, theirs) => own == theirs,
        };
        subresource && (self.resource.is_none() || self.resource == other.resource)
    }
}

/// A part of a resource's name.
fn checked(text: &str, part: &str) -> Result<Box<str>, String> {
    let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'-' | b'.');
    if part.is_empty() || part.len() > 253 || !part.bytes().all(is_plain) {
        return Err(format!(
            "{text:?} is not a resource: write its plural in lower case, as in pods, pods/log, pods/*, * or */*; the API group \
             has a list of its own"
        ));
    }
    Ok(part.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resources(list: &[&str]) -> Result<Resources, String> {
        Resources::parse(&list.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn a_resource_is_never_its_subresource() {
        for (pattern, covered) in [
            ("pods", &["pods"][..]),
            ("pods/log", &["pods/log"]),
            ("pods/*", &["pods/log", "pods/exec"]),
            ("*", &["pods", "secrets"]),
            ("*/log", &["pods/log"]),
            ("*/*", &["pods", "pods/log", "pods/exec", "secrets"]),
        ] {
            let rule = resources(&[pattern]).unwrap();
            for asked in ["pods", "pods/log", "pods/exec", "secrets"] {
                let (resource, subresource) =
                    asked.split_once('/').map_or((asked, None), |(resource, sub)| (resource, Some(sub)));
                assert_eq!(rule.covers(resource, subresource), covered.contains(&asked), "{pattern} {asked}");
            }
        }
    }

    #[test]
    fn other_spellings_are_errors() {
        for bad in ["", "Pods", "po*", "pods/", "/log", "pods/log/x", "pods/l*", "**", "*/", "pods ", "pods/*/x"] {
            assert!(resources(&[bad]).is_err(), "{bad:?}");
        }
        assert!(resources(&["*/*", "pods"]).is_err() && resources(&["*", "pods"]).is_err());
        assert!(resources(&["*", "pods/log"]).is_ok());
    }

    #[test]
    fn a_wider_list_includes_a_narrower() {
        for (wide, narrow, expected) in [
            (&["*/*"][..], &["*", "pods/log", "*/scale", "pods/*"][..], true),
            (&["*"], &["pods", "secrets"], true),
            (&["*"], &["pods/log"], false),
            (&["pods/*"], &["pods/log"], true),
            (&["pods/*"], &["pods"], false),
            (&["*/log"], &["pods/log"], true),
            (&["pods"], &["*"], false),
            (&["pods"], &["pods", "secrets"], false),
            (&["pods", "secrets"], &["secrets"], true),
        ] {
            assert_eq!(resources(wide).unwrap().includes(&resources(narrow).unwrap()), expected, "{wide:?} {narrow:?}");
        }
    }
}
