//! JSON passed on as text: fields stay in the order in which they came, and no value is built.

use std::fmt;

use serde::de::{DeserializeSeed, Error as _, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

/// A value as text, printed as Python prints it: models were trained to read it so.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct JsonText(pub(super) String);

impl<'de> Deserialize<'de> for JsonText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut text = String::new();
        Printer(&mut text).deserialize(deserializer)?;
        Ok(Self(text))
    }
}

/// Prints the value that is read.
struct Printer<'t>(&'t mut String);

impl<'de> DeserializeSeed<'de> for Printer<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl Printer<'_> {
    fn print<E: serde::de::Error>(self, value: &(impl serde::Serialize + ?Sized)) -> Result<(), E> {
        let text = serde_json::to_string(value).map_err(E::custom)?;
        self.0.push_str(&text);
        Ok(())
    }
}

impl<'de> Visitor<'de> for Printer<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any value")
    }

    fn visit_unit<E: serde::de::Error>(self) -> Result<(), E> {
        self.print(&())
    }

    fn visit_bool<E: serde::de::Error>(self, value: bool) -> Result<(), E> {
        self.print(&value)
    }

    fn visit_i64<E: serde::de::Error>(self, value: i64) -> Result<(), E> {
        self.print(&value)
    }

    fn visit_u64<E: serde::de::Error>(self, value: u64) -> Result<(), E> {
        self.print(&value)
    }

    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<(), E> {
        self.print(&value)
    }

    fn visit_str<E: serde::de::Error>(self, value: &str) -> Result<(), E> {
        self.print(value)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        self.0.push('[');
        let begin = self.0.len();
        loop {
            let end = self.0.len();
            if end > begin {
                self.0.push_str(", ");
            }
            if list.next_element_seed(Printer(self.0))?.is_none() {
                self.0.truncate(end);
                break;
            }
        }
        self.0.push(']');
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut object: A) -> Result<(), A::Error> {
        self.0.push('{');
        let begin = self.0.len();
        while let Some(key) = object.next_key::<String>()? {
            if self.0.len() > begin {
                self.0.push_str(", ");
            }
            let key = serde_json::to_string(&key).map_err(A::Error::custom)?;
            self.0.push_str(&key);
            self.0.push_str(": ");
            object.next_value_seed(Printer(self.0))?;
        }
        self.0.push('}');
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_keep_their_order_and_are_printed_as_python_does() {
        for (json, printed) in [
            (
                r#"{"b":[1,-2,3.5,[]],"a":{"x":null,"y":true}}"#,
                r#"{"b": [1, -2, 3.5, []], "a": {"x": null, "y": true}}"#,
            ),
            (r#" { "t" : "a\"\u00e4<" } "#, r#"{"t": "a\"ä<"}"#),
            ("[]", "[]"),
            ("{}", "{}"),
            ("7", "7"),
        ] {
            let text: JsonText = serde_json::from_str(json).unwrap();
            assert_eq!(text.0, printed);
        }
    }
}
