//! Reading JSON without building more values than are used.
//!
//! A short body can stand for much: a list of a million numbers has two bytes for each of them, and thirty as values.
//! Values that are only refused are not built, lists are bounded, and nothing is kept to be read twice.

use std::fmt;
use std::marker::PhantomData;

use omni_core::error::excerpt;
use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer};
use serde::de::{Error as _, MapAccess, SeqAccess, Unexpected, Visitor};
use serde::{Deserialize, Deserializer};

/// `true` for a value other than null, an empty list or an empty object. Its content counts as read: it is not among
/// the [unknown](super::unknown) fields.
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
                while list.next_element::<Self::Value>()?.is_some() {
                    given = true;
                }
                Ok(IsSet(given))
            }

            fn visit_map<A: MapAccess<'de>>(self, mut object: A) -> Result<IsSet, A::Error> {
                let mut given = false;
                while object.next_entry::<Self::Value, Self::Value>()?.is_some() {
                    given = true;
                }
                Ok(IsSet(given))
            }
        }
        deserializer.deserialize_any(Look)
    }
}

/// A number or a truth value as clients write it: `1`, `1.0` or `"1.0"`, `true` or `"true"`.
///
/// As `#[serde(default, deserialize_with = "scalar")]`, for a field that may be null or missing.
pub(super) fn scalar<'de, T: Scalar, D: Deserializer<'de>>(deserializer: D) -> Result<Option<T>, D::Error> {
    struct Written<T>(PhantomData<T>);
    impl<'de, T: Scalar> Visitor<'de> for Written<T> {
        type Value = Option<T>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str(T::EXPECTED)
        }

        fn visit_none<E>(self) -> Result<Option<T>, E> {
            Ok(None)
        }

        fn visit_unit<E>(self) -> Result<Option<T>, E> {
            Ok(None)
        }

        fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Option<T>, D::Error> {
            deserializer.deserialize_any(self)
        }

        fn visit_bool<E: serde::de::Error>(self, value: bool) -> Result<Option<T>, E> {
            let read = T::flag(value).map(Some);
            read.ok_or_else(|| E::invalid_type(Unexpected::Bool(value), &self))
        }

        fn visit_u64<E: serde::de::Error>(self, value: u64) -> Result<Option<T>, E> {
            let read = T::whole(value.into()).map(Some);
            read.ok_or_else(|| E::invalid_value(Unexpected::Unsigned(value), &self))
        }

        fn visit_i64<E: serde::de::Error>(self, value: i64) -> Result<Option<T>, E> {
            let read = T::whole(value.into()).map(Some);
            read.ok_or_else(|| E::invalid_value(Unexpected::Signed(value), &self))
        }

        fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<Option<T>, E> {
            let read = T::real(value).map(Some);
            read.ok_or_else(|| E::invalid_value(Unexpected::Float(value), &self))
        }

        fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Option<T>, E> {
            let word = text.trim().to_ascii_lowercase();
            let read = match word.parse::<i128>() {
                Ok(whole) => T::whole(whole),
                Err(_) => match word.parse::<f64>() {
                    Ok(real) => T::real(real),
                    Err(_) => word.parse().ok().and_then(T::flag),
                },
            };
            let read = read.map(Some);
            read.ok_or_else(|| E::invalid_value(Unexpected::Str(&excerpt(text)), &self))
        }
    }
    deserializer.deserialize_option(Written(PhantomData))
}

/// A type that [`scalar`] reads. Each function returns `None` for a value that is not of it.
pub(super) trait Scalar: Sized {
    const EXPECTED: &'static str;

    fn whole(value: i128) -> Option<Self>;

    fn real(value: f64) -> Option<Self>;

    fn flag(_value: bool) -> Option<Self> {
        None
    }
}

impl Scalar for bool {
    const EXPECTED: &'static str = "true or false";

    fn whole(_: i128) -> Option<Self> {
        None
    }

    fn real(_: f64) -> Option<Self> {
        None
    }

    fn flag(value: bool) -> Option<Self> {
        Some(value)
    }
}

/// Seed of random numbers: any whole number, as long as the same number means the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Seed(pub(super) u64);

impl Scalar for Seed {
    const EXPECTED: &'static str = "a whole number of 64 bits";

    fn whole(value: i128) -> Option<Self> {
        let signed = || i64::try_from(value).ok().map(i64::cast_unsigned);
        u64::try_from(value).ok().or_else(signed).map(Self)
    }

    fn real(value: f64) -> Option<Self> {
        exact(value).and_then(Self::whole)
    }
}

macro_rules! whole_numbers {
    ($($type:ty),*) => {$(
        impl Scalar for $type {
            const EXPECTED: &'static str = concat!("a whole number (", stringify!($type), ")");

            fn whole(value: i128) -> Option<Self> {
                Self::try_from(value).ok()
            }

            fn real(value: f64) -> Option<Self> {
                exact(value).and_then(Self::whole)
            }
        }
    )*};
}

whole_numbers!(i32, u32);

/// Exact whole number of a float. Beyond 2^53 it names none exactly.
fn exact(value: f64) -> Option<i128> {
    const LARGEST: f64 = 9_007_199_254_740_992.0;
    (value.fract() == 0.0 && value.abs() <= LARGEST).then_some(value as i128)
}

macro_rules! real_numbers {
    ($($type:ty),*) => {$(
        impl Scalar for $type {
            const EXPECTED: &'static str = "a number";

            fn whole(value: i128) -> Option<Self> {
                Some(value as Self)
            }

            fn real(value: f64) -> Option<Self> {
                Some(value as Self).filter(|value| value.is_finite())
            }
        }
    )*};
}

real_numbers!(f32, f64);

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

    #[derive(Debug, PartialEq, Deserialize)]
    struct Scalars {
        #[serde(default, deserialize_with = "scalar")]
        real: Option<f64>,
        #[serde(default, deserialize_with = "scalar")]
        seed: Option<Seed>,
        #[serde(default, deserialize_with = "scalar")]
        most: Option<u32>,
        #[serde(default, deserialize_with = "scalar")]
        flag: Option<bool>,
    }

    #[test]
    fn numbers_and_flags_are_read_as_clients_write_them() {
        let scalars = |real, seed: Option<u64>, most, flag| {
            let seed = seed.map(Seed);
            Ok(Scalars {
                real,
                seed,
                most,
                flag,
            })
        };
        let all = || scalars(Some(2.0), Some(7), Some(100), Some(true));
        for (json, expected) in [
            ("{}", scalars(None, None, None, None)),
            (
                r#"{"real": null, "seed": null, "most": null, "flag": null}"#,
                scalars(None, None, None, None),
            ),
            (r#"{"real": 2, "seed": 7, "most": 100, "flag": true}"#, all()),
            (
                r#"{"real": "2", "seed": "7", "most": "100", "flag": "true"}"#,
                all(),
            ),
            (
                r#"{"real": " 2.0 ", "seed": 7.0, "most": "100.0", "flag": "True"}"#,
                all(),
            ),
            (r#"{"seed": -1}"#, scalars(None, Some(u64::MAX), None, None)),
            (
                r#"{"seed": 18446744073709551615}"#,
                scalars(None, Some(u64::MAX), None, None),
            ),
            (
                r#"{"seed": "9007199254740993"}"#,
                scalars(None, Some(9_007_199_254_740_993), None, None),
            ),
        ] {
            assert_eq!(read::<Scalars>(json), expected, "{json}");
        }
        for json in [
            r#"{"real": "fast"}"#,
            r#"{"real": "NaN"}"#,
            r#"{"real": true}"#,
            r#"{"real": [1]}"#,
            r#"{"seed": 1.5}"#,
            r#"{"seed": "1e300"}"#,
            r#"{"most": -1}"#,
            r#"{"most": 1e300}"#,
            r#"{"flag": "yes"}"#,
            r#"{"flag": 1}"#,
        ] {
            assert!(read::<Scalars>(json).is_err(), "{json}");
        }
    }

    #[test]
    fn a_list_ends_where_it_may_not_be_longer() {
        assert_eq!(read::<BoundedVec<u8, 2>>("[1, 2]").unwrap().0, [1, 2]);
        // Nothing behind the bound is parsed.
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
