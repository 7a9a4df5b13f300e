//! Members of a JSON object, written one by one in printable ASCII. Nothing that a client sends can end a line, colour a terminal
//! or turn the reading direction: whatever is not printable ASCII is written as `\uXXXX`.

use std::fmt::{Display, Write as _};

/// The members of an object, without the braces.
#[derive(Debug, Clone, Default)]
pub(crate) struct Members(String);

impl Members {
    pub(crate) fn with_capacity(bytes: usize) -> Self {
        Self(String::with_capacity(bytes))
    }

    /// A member with text.
    pub(crate) fn text(&mut self, key: &'static str, value: &str) {
        self.key(key);
        quote(&mut self.0, value);
    }

    /// A member whose text needs no escaping by what it is: a name that was checked, an address, a date.
    pub(crate) fn plain(&mut self, key: &'static str, value: impl Display) {
        self.key(key);
        // Writing to a string does not fail.
        let _ = write!(self.0, "\"{value}\"");
    }

    /// A member with a number or a boolean.
    pub(crate) fn number(&mut self, key: &'static str, value: impl Display) {
        self.key(key);
        let _ = write!(self.0, "{value}");
    }

    /// A member with a list of texts.
    pub(crate) fn texts(&mut self, key: &'static str, values: &[&str]) {
        self.key(key);
        self.0.push('[');
        for (index, value) in values.iter().enumerate() {
            if index > 0 {
                self.0.push(',');
            }
            quote(&mut self.0, value);
        }
        self.0.push(']');
    }

    /// Members that were written elsewhere.
    pub(crate) fn append(&mut self, members: &Self) {
        if !self.0.is_empty() && !members.0.is_empty() {
            self.0.push(',');
        }
        self.0.push_str(&members.0);
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    fn key(&mut self, key: &'static str) {
        if !self.0.is_empty() {
            self.0.push(',');
        }
        let _ = write!(self.0, "\"{key}\":");
    }
}

fn quote(out: &mut String, text: &str) {
    out.push('"');
    if text.bytes().all(is_plain) {
        out.push_str(text);
    } else {
        text.chars().for_each(|letter| escape(out, letter));
    }
    out.push('"');
}

fn is_plain(byte: u8) -> bool {
    (b' '..=b'~').contains(&byte) && byte != b'"' && byte != b'\\'
}

fn escape(out: &mut String, letter: char) {
    match letter {
        '"' => out.push_str("\\\""),
        '\\' => out.push_str("\\\\"),
        ' '..='~' => out.push(letter),
        _ => {
            for unit in letter.encode_utf16(&mut [0; 2]) {
                let _ = write!(out, "\\u{unit:04x}");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    #[test]
    fn t37_whatever_the_text_it_is_one_line_of_printable_ascii_and_reads_back() {
        let every_control: String = (0..=0x9f).filter_map(char::from_u32).collect();
        for text in [
            "plain",
            "",
            "a\nb\r\n{\"seq\":1}",
            "\u{1b}[31mred\u{9b}2J",
            "\u{2028}\u{2029}\u{85}",
            "\u{202e}drowssap\u{2066}",
            "\u{feff}\u{200b}",
            "quote \" slash \\ both \\\"",
            "é 日本 \u{1f980}",
            &every_control,
        ] {
            let mut members = Members::default();
            members.text("a", text);
            members.texts("b", &[text, "x"]);
            let json = format!("{{{}}}", members.as_str());
            assert!(json.bytes().all(|byte| (b' '..=b'~').contains(&byte)), "{json}");
            let read: Value = serde_json::from_str(&json).unwrap();
            assert_eq!((read["a"].as_str(), read["b"][0].as_str()), (Some(text), Some(text)));
        }
    }

    #[test]
    fn members_are_set_apart() {
        let (mut all, mut first) = (Members::default(), Members::default());
        first.number("a", 1);
        first.plain("b", "x");
        all.append(&Members::default());
        all.append(&first);
        all.append(&Members::default());
        all.texts("c", &[]);
        assert_eq!(all.as_str(), r#""a":1,"b":"x","c":[]"#);
    }
}
