//! JSON in which no name occurs twice. Of two values of one claim, two readers may take different ones.

use serde::{
    Deserialize, Deserializer,
    de::{Error, MapAccess, SeqAccess, Visitor},
};
use serde_json::{Map, Number, Value};
use std::fmt;

/// Reads an object; `None` if it is none, or if any object in it has a name twice.
pub(crate) fn object(bytes: &[u8]) -> Option<Map<String, Value>> {
    match serde_json::from_slice::<Strict>(bytes) {
        Ok(Strict(Value::Object(object))) => Some(object),
        Ok(_) | Err(_) => None,
    }
}

/// A value read strictly.
struct Strict(Value);

impl<'de> Deserialize<'de> for Strict {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(StrictVisitor).map(Self)
    }
}

struct StrictVisitor;

impl<'de> Visitor<'de> for StrictVisitor {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON without a name that occurs twice")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Value, E> {
        Number::from_f64(value).map(Value::Number).ok_or_else(|| E::custom("not a number"))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::String(value.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut values = Vec::new();
        while let Some(Strict(value)) = items.next_element()? {
            values.push(value);
        }
        Ok(Value::Array(values))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut object = Map::new();
        while let Some((name, Strict(value))) = entries.next_entry::<String, Strict>()? {
            if object.insert(name, value).is_some() {
                return Err(A::Error::custom("a name occurs twice"));
            }
        }
        Ok(Value::Object(object))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn t27_a_name_that_occurs_twice_is_refused_at_any_depth() {
        for bad in [
            r#"{"a":1,"a":1}"#,
            r#"{"a":1,"\u0061":2}"#,
            r#"{"x":{"a":1,"a":2}}"#,
            r#"{"x":[{"a":1,"a":2}]}"#,
            r#"{"a":1}x"#,
            r#"{"a":1"#,
            r#"{"a":1e999}"#,
            "[]",
            "1",
            "",
        ] {
            assert_eq!(object(bad.as_bytes()), None, "{bad}");
        }
        let deep = format!("{}1{}", r#"{"a":"#.repeat(1_000), "}".repeat(1_000));
        assert_eq!(object(deep.as_bytes()), None, "too deep");
    }

    #[test]
    fn everything_else_is_what_it_is() {
        let text = r#"{"a":[1,-2,1.5,"x",null,true,{"b":{"a":"a"}}],"c":{},"a2":"\u00e9"}"#;
        let expected: Value = serde_json::from_str(text).unwrap();
        assert_eq!(object(text.as_bytes()).map(Value::Object), Some(expected));
    }
}
