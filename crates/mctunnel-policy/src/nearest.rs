//! Finds what a misspelt word was probably meant to be.

/// `; did you mean X?`, or nothing when no candidate is near.
pub(crate) fn suggestion<S: AsRef<str>>(word: &str, candidates: impl IntoIterator<Item = S>) -> String {
    let near = candidates.into_iter().map(|candidate| (distance(word, candidate.as_ref()), candidate));
    let best = near.min_by_key(|(edits, _)| *edits).filter(|(edits, best)| edits * 2 <= best.as_ref().len());
    best.map(|(_, best)| format!("; did you mean {}?", best.as_ref())).unwrap_or_default()
}

/// How many letters to insert, delete or replace.
fn distance(from: &str, to: &str) -> usize {
    let to: Vec<char> = to.chars().collect();
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (line, letter) in from.chars().take(64).enumerate() {
        let mut next = Vec::with_capacity(row.len());
        next.push(line + 1);
        for ((above, diagonal), other) in row.iter().skip(1).zip(&row).zip(&to) {
            let left = next.last().copied().unwrap_or_default();
            let replaced = diagonal + usize::from(letter != *other);
            next.push(replaced.min(above + 1).min(left + 1));
        }
        row = next;
    }
    row.last().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_near_is_suggested() {
        let verbs = ["get", "list", "watch"];
        assert_eq!(suggestion("lst", verbs), "; did you mean list?");
        assert_eq!(suggestion("wach", verbs), "; did you mean watch?");
        assert_eq!(suggestion("impersonate", verbs), "");
    }
}
