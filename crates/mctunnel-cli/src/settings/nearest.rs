//! Finds what a misspelt word was probably meant to be.

/// The candidate that takes the fewest edits to reach, if that is few for its length.
pub(crate) fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let near = candidates.into_iter().map(|candidate| (distance(word, candidate), candidate));
    near.min_by_key(|(edits, _)| *edits).filter(|(edits, best)| edits * 2 <= best.len()).map(|(_, best)| best)
}

/// How many letters to insert, delete or replace.
fn distance(from: &str, to: &str) -> usize {
    let to: Vec<char> = to.chars().collect();
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (line, letter) in from.chars().enumerate() {
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
    fn edits_are_counted() {
        for (from, to, edits) in
            [("", "", 0), ("a", "", 1), ("", "ab", 2), ("kitten", "sitting", 3), ("grace", "grcae", 2)]
        {
            assert_eq!(distance(from, to), edits, "{from} {to}");
        }
    }

    #[test]
    fn only_what_is_near_is_suggested() {
        let keys = ["data_dir", "grace", "tunnel_listen"];
        assert_eq!(nearest("datadir", keys), Some("data_dir"));
        assert_eq!(nearest("tunel_listn", keys), Some("tunnel_listen"));
        assert_eq!(nearest("colour", keys), None);
    }
}
