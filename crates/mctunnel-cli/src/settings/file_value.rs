//! A value in the configuration file: what YAML takes for a number or a boolean is text like any other here.

use serde::{Deserialize, Deserializer, de};
use std::fmt;

/// A scalar or a list of scalars.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum FileValue {
    /// The same as if the key were not there.
    Null,
    Scalar(String),
    List(Vec<String>),
}

impl<'de> Deserialize<'de> for FileValue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Visitor)
    }
}

struct Visitor;

impl<'de> de::Visitor<'de> for Visitor {
    type Value = FileValue;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value or a list of values")
    }

    fn visit_unit<E>(self) -> Result<FileValue, E> {
        Ok(FileValue::Null)
    }

    fn visit_none<E>(self) -> Result<FileValue, E> {
        Ok(FileValue::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<FileValue, E> {
        Ok(FileValue::Scalar(value.to_string()))
    }

    fn visit_i64<E>(self, value: i64) -> Result<FileValue, E> {
        Ok(FileValue::Scalar(value.to_string()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<FileValue, E> {
        Ok(FileValue::Scalar(value.to_string()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<FileValue, E> {
        Ok(FileValue::Scalar(value.to_string()))
    }

    fn visit_str<E>(self, value: &str) -> Result<FileValue, E> {
        Ok(FileValue::Scalar(value.to_owned()))
    }

    fn visit_seq<A: de::SeqAccess<'de>>(self, mut list: A) -> Result<FileValue, A::Error> {
        let mut texts = Vec::new();
        while let Some(item) = list.next_element()? {
            let FileValue::Scalar(text) = item else {
                return Err(de::Error::custom("a list must not hold lists or empty values"));
            };
            texts.push(text);
        }
        Ok(FileValue::List(texts))
    }
}
