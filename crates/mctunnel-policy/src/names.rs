//! A set of names in a rule: some, or all by an explicit `*`. There are no patterns in between.

/// Names a rule is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Names {
    /// `["*"]`.
    Any,
    /// These, sorted.
    Only(Vec<Box<str>>),
}

impl Names {
    /// Reads a list whose items were checked, one by one, by `check`; the first bad one is the error.
    pub(crate) fn parse(list: &[String], check: impl Fn(&str) -> Result<(), String>) -> Result<Self, String> {
        if list.iter().any(|item| item == "*") {
            return match list {
                [_] => Ok(Self::Any),
                _ => Err("'*' stands alone: it has everything else already".to_owned()),
            };
        }
        for item in list {
            if item.contains('*') {
                return Err(format!("{item:?}: '*' stands alone; there are no patterns"));
            }
            check(item)?;
        }
        let mut names: Vec<Box<str>> = list.iter().map(|item| item.as_str().into()).collect();
        names.sort_unstable();
        names.dedup();
        Ok(Self::Only(names))
    }

    /// Whether it has the name.
    pub(crate) fn covers(&self, name: &str) -> bool {
        match self {
            Self::Any => true,
            // Most lists have one name or two.
            Self::Only(names) if names.len() <= 4 => names.iter().any(|own| **own == *name),
            Self::Only(names) => names.binary_search_by(|own| (**own).cmp(name)).is_ok(),
        }
    }

    /// Whether it has all that the other one has.
    pub(crate) fn includes(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Any, _) => true,
            (Self::Only(_), Self::Any) => false,
            (Self::Only(_), Self::Only(names)) => names.iter().all(|name| self.covers(name)),
        }
    }

    /// The names, unless it is all of them.
    pub(crate) fn listed(&self) -> &[Box<str>] {
        match self {
            Self::Any => &[],
            Self::Only(names) => names,
        }
    }
}

/// Takes anything that a person could have meant as one word.
pub(crate) fn is_word(text: &str) -> Result<(), String> {
    if text.is_empty() {
        return Err("a name is empty".to_owned());
    }
    if text.len() > 512 || text.chars().any(char::is_control) || text.trim() != text {
        return Err(format!("{text:?} has control characters, or spaces around it, or is longer than 512 bytes"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(list: &[&str]) -> Result<Names, String> {
        let list: Vec<String> = list.iter().map(|item| (*item).to_owned()).collect();
        Names::parse(&list, is_word)
    }

    #[test]
    fn all_is_one_explicit_star() {
        assert_eq!(names(&["*"]), Ok(Names::Any));
        for bad in [&["*", "a"][..], &["a*"], &["*a"], &["a", "b*c"], &["**"], &[""], &[" a"], &["a\n"]] {
            assert!(names(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn a_set_has_what_it_lists() {
        for size in [1, 4, 5, 100] {
            let list: Vec<String> = (0..size).map(|number| format!("n{number}")).collect();
            let set = Names::parse(&list, is_word).unwrap();
            assert!(
                list.iter().all(|name| set.covers(name)) && !set.covers("n") && !set.covers("") && !set.covers("*")
            );
            assert!(Names::Any.includes(&set) && set.includes(&set) && !set.includes(&Names::Any));
        }
        assert!(!names(&["a", "b"]).unwrap().includes(&names(&["a", "c"]).unwrap()));
    }

    #[test]
    fn a_word_has_no_control_characters_and_an_end() {
        let longest = "x".repeat(512);
        assert!(is_word(&longest).is_ok() && is_word("a b").is_ok());
        for bad in [format!("{longest}x"), "a\nb".to_owned(), "a\u{85}b".to_owned(), "b ".to_owned()] {
            assert!(is_word(&bad).is_err(), "{bad:?}");
        }
    }
}
