//! The values of a database as text.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, Visitor};

/// A text, a number, a boolean or bytes, as text. Floating-point numbers have five digits behind the point, numbers of
/// more than 64 bits are in hexadecimal, and booleans are 0 or 1.
pub struct Scalar(pub Vec<u8>);

impl<'de> Deserialize<'de> for Scalar {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Scalar, D::Error> {
        deserializer.deserialize_any(AsText)
    }
}

struct AsText;

fn shown<E>(value: impl fmt::Display) -> Result<Scalar, E> {
    Ok(Scalar(value.to_string().into_bytes()))
}

impl Visitor<'_> for AsText {
    type Value = Scalar;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a single value")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Scalar, E> {
        Ok(Scalar(text.as_bytes().to_vec()))
    }

    fn visit_bytes<E: Error>(self, bytes: &[u8]) -> Result<Scalar, E> {
        Ok(Scalar(bytes.to_vec()))
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Scalar, E> {
        shown(u8::from(value))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Scalar, E> {
        shown(value)
    }

    fn visit_u128<E: Error>(self, value: u128) -> Result<Scalar, E> {
        shown(format_args!("0x{value:032x}"))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Scalar, E> {
        shown(value)
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Scalar, E> {
        shown(format_args!("{value:.5}"))
    }
}
