//! JSON that is read without building more than is used of it.
//!
//! A short body can stand for much: a list of a million numbers is two bytes for each of them, and thirty as values. What is only
//! refused is not built, lists have an end, and nothing is kept to be read twice.

use std::fmt;
use std::marker::PhantomData;

use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer};
use serde::de::{Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

/// Whether something is there, and is more than null, an empty list or an empty object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct IsSet(pub(super) bool);

impl<'de> Deserialize<'de> for IsSet {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Look;
        impl<'de> Visitor<'de> for Look {
            type Value = IsSet;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("any value")
            }

            fn visit_unit<E>(self) -> Result<IsSet, E> {
                Ok(IsSet(false))
            }

            fn visit_bool<E>(self, _: bool) -> Result<IsSet, E> {
                Ok(IsSet(true))
            }

            fn visit_i64<E>(self, _: i64) -> Result<IsSet, E> {
                Ok(IsSet(true))
            }

            fn visit_u64<E>(self, _: u64) -> Result<IsSet, E> {
                Ok(IsSet(true))
            }

            fn visit_f64<E>(self, _: f64) -> Result<IsSet, E> {
                Ok(IsSet(true))
            }

            fn visit_str<E>(self, _: &str) -> Result<IsSet, E> {
                Ok(IsSet(true))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<IsSet, A::Error> {
                let mut given = false;
                while list.next_element::<IgnoredAny>()?.is_some() {
                    given = true;
                }
                Ok(IsSet(given))
            }

            fn visit_map<A: MapAccess<'de>>(self, mut object: A) -> Result<IsSet, A::Error> {
                let mut given = false;
                while object.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {
                    given = true;
                }
                Ok(IsSet(given))
            }
        }
        deserializer.deserialize_any(Look)
    }
}

/// A list of at most `MOST`.
#[derive(Debug)]
pub(super) struct BoundedVec<T, const MOST: usize>(pub(super) Vec<T>);

impl<T, const MOST: usize> Default for BoundedVec<T, MOST> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<'de, T: Deserialize<'de>, const MOST: usize> Deserialize<'de> for BoundedVec<T, MOST> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Count<T, const MOST: usize>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>, const MOST: usize> Visitor<'de> for Count<T, MOST> {
            type Value = BoundedVec<T, MOST>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "a list of at most {MOST}")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
                let mut few = Vec::new();
                while let Some(one) = list.next_element()? {
                    if few.len() == MOST {
                        return Err(A::Error::invalid_length(MOST + 1, &self));
                    }
                    few.push(one);
                }
                Ok(BoundedVec(few))
            }
        }
        deserializer.deserialize_seq(Count(PhantomData))
    }
}

/// A text, or a list or an object in its place.
#[derive(Debug)]
pub(super) enum TextOr<T> {
    Text(String),
    Other(T),
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for TextOr<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Either<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for Either<T> {
            type Value = TextOr<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a text, or a list or an object in its place")
            }

            fn visit_str<E>(self, text: &str) -> Result<TextOr<T>, E> {
                Ok(TextOr::Text(text.to_owned()))
            }

            fn visit_string<E>(self, text: String) -> Result<TextOr<T>, E> {
                Ok(TextOr::Text(text))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<TextOr<T>, A::Error> {
                T::deserialize(SeqAccessDeserializer::new(list)).map(TextOr::Other)
            }

            fn visit_map<A: MapAccess<'de>>(self, object: A) -> Result<TextOr<T>, A::Error> {
                T::deserialize(MapAccessDeserializer::new(object)).map(TextOr::Other)
            }
        }
        deserializer.deserialize_any(Either(PhantomData))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read<'a, T: Deserialize<'a>>(json: &'a str) -> Result<T, String> {
        serde_json::from_str(json).map_err(|error| error.to_string())
    }

    #[test]
    fn what_is_empty_is_not_given() {
        for (json, given) in [
            ("null", false),
            ("[]", false),
            ("{}", false),
            ("[null]", true),
            (r#"{"a": [1, {"b": 2}]}"#, true),
            ("0", true),
            ("-1.5", true),
            ("false", true),
            (r#""""#, true),
        ] {
            assert_eq!(read::<IsSet>(json), Ok(IsSet(given)), "{json}");
        }
    }

    #[test]
    fn a_list_ends_where_it_may_not_be_longer() {
        assert_eq!(read::<BoundedVec<u8, 2>>("[1, 2]").unwrap().0, [1, 2]);
        // What is behind that is not even looked at.
        let error = read::<BoundedVec<u8, 2>>("[1, 2, 3, nonsense").unwrap_err();
        assert!(error.contains("expected a list of at most 2"), "{error}");
    }

    #[test]
    fn a_text_may_stand_for_a_list_or_an_object() {
        type Texts = TextOr<BoundedVec<String, 9>>;
        assert!(matches!(read::<Texts>(r#""a""#), Ok(TextOr::Text(text)) if text == "a"));
        assert!(matches!(read::<Texts>(r#"["a"]"#), Ok(TextOr::Other(BoundedVec(list))) if list == ["a"]));
        assert!(read::<Texts>("1").is_err() && read::<Texts>("[1]").is_err());
    }
}
