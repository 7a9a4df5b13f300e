//! Paths of a rule: exact, everything below one (`/apis/*`), or all (`*`).

use super::Sense;

/// A list of paths.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Paths(Vec<PathPattern>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum PathPattern {
    Any,
    Exactly(Box<str>),
    /// With the `/` at its end.
    Below(Box<str>),
}

impl Paths {
    /// Reads a list.
    pub(crate) fn parse(list: &[String]) -> Result<Self, String> {
        let paths: Vec<_> = list.iter().map(|text| PathPattern::parse(text)).collect::<Result<_, _>>()?;
        if paths.len() > 1 && paths.contains(&PathPattern::Any) {
            return Err("'*' stands alone: it has every path already".to_owned());
        }
        Ok(Self(paths))
    }

    /// Whether the path is one of them. To deny, a path with a slash at its end is the same as without.
    pub(crate) fn covers(&self, path: &str, sense: Sense) -> bool {
        self.0.iter().any(|pattern| pattern.covers(path, sense))
    }

    /// Whether it has all that the other one has.
    pub(crate) fn includes(&self, other: &Self) -> bool {
        other.0.iter().all(|theirs| self.0.iter().any(|own| own.includes(theirs)))
    }
}

impl PathPattern {
    fn parse(text: &str) -> Result<Self, String> {
        let bad = |why: &str| Err(format!("the path {text:?} {why}"));
        if text == "*" {
            return Ok(Self::Any);
        }
        if !text.starts_with('/') {
            return bad("does not begin with '/'");
        }
        if text.contains("//") || text.split('/').any(|segment| matches!(segment, "." | "..")) {
            return bad("has an empty segment, '.' or '..'");
        }
        if text.chars().any(|letter| letter.is_control() || matches!(letter, '?' | '#' | '%' | '\\')) {
            return bad("has a character that no path is compared with: write it decoded and without a query");
        }
        match text.strip_suffix("/*") {
            Some(above) if !above.contains('*') => Ok(Self::Below(format!("{above}/").into())),
            None if !text.contains('*') => Ok(Self::Exactly(text.into())),
            _ => bad("has a '*' elsewhere than at its end, as in /apis/*"),
        }
    }

    fn covers(&self, path: &str, sense: Sense) -> bool {
        match self {
            Self::Any => true,
            Self::Below(above) => path.starts_with(&**above),
            Self::Exactly(own) => match sense {
                Sense::Certainly => **own == *path,
                Sense::Possibly => own.trim_end_matches('/') == path.trim_end_matches('/'),
            },
        }
    }

    fn includes(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Any, _) => true,
            (Self::Exactly(own), Self::Exactly(theirs)) => own == theirs,
            (Self::Below(above), Self::Exactly(theirs) | Self::Below(theirs)) => theirs.starts_with(&**above),
            (Self::Exactly(_), Self::Any | Self::Below(_)) | (Self::Below(_), Self::Any) => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths(list: &[&str]) -> Result<Paths, String> {
        Paths::parse(&list.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn a_path_is_exact_or_below_or_any() {
        for (pattern, path, certainly, possibly) in [
            ("/version", "/version", true, true),
            ("/version", "/version/", false, true),
            ("/version", "/versions", false, false),
            ("/version", "/version/x", false, false),
            ("/apis/*", "/apis/apps", true, true),
            ("/apis/*", "/apis/apps/v1", true, true),
            ("/apis/*", "/apis/", true, true),
            ("/apis/*", "/apis", false, false),
            ("/apis/*", "/apisx", false, false),
            ("/*", "/", true, true),
            ("/*", "/anything", true, true),
            ("/", "/", true, true),
            ("/", "/a", false, false),
            ("*", "/a/b", true, true),
        ] {
            let paths = paths(&[pattern]).unwrap();
            assert_eq!(paths.covers(path, Sense::Certainly), certainly, "{pattern} {path}");
            assert_eq!(paths.covers(path, Sense::Possibly), possibly, "{pattern} {path}");
        }
    }

    #[test]
    fn other_patterns_are_errors() {
        for bad in [
            "", "a", "/a*", "/*/a", "/a/*/b", "/*/*", "/a*/*", "/a//b", "/./a", "/a/.", "/a/../b", "/..", "/a?b",
            "/a#b", "/a\\b", "/a%20b", "**", "/**", "/a\n",
        ] {
            assert!(paths(&[bad]).is_err(), "{bad:?}");
        }
        assert!(paths(&["/.well-known/x", "/a.b", "/..."]).is_ok());
        assert!(paths(&["*", "/a"]).is_err());
    }

    #[test]
    fn a_wider_list_includes_a_narrower() {
        for (wide, narrow, expected) in [
            (&["*"][..], &["/a", "/b/*"][..], true),
            (&["/b/*"], &["/b/c", "/b/c/*"], true),
            (&["/b/*"], &["/b"], false),
            (&["/a"], &["/a", "/b"], false),
            (&["/a"], &["/a"], true),
            (&["/a"], &["/b"], false),
            (&["/a", "/b"], &["/b"], true),
            (&["/a", "/b/*"], &["/b/c", "/a"], true),
            (&["/a"], &["/a/*"], false),
            (&["/a/*"], &["*"], false),
        ] {
            assert_eq!(paths(wide).unwrap().includes(&paths(narrow).unwrap()), expected, "{wide:?} {narrow:?}");
        }
    }
}
