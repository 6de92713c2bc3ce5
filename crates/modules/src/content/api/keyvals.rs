//! Changes of key-value pairs, as bodies of requests describe them.

use std::time::Duration;

use freerun_serve::values::keyvals::{New, PairChange};
use serde_json::{Map, Value};

use super::error::ApiError;

/// The value of a key in a body.
enum WrittenPair {
    /// The pair goes.
    Nothing,
    /// Its value, its time, or both.
    Pair { value: Option<String>, lasts: Option<Duration> },
}

fn written_pair(value: &Value) -> Result<WrittenPair, ApiError> {
    const INVALID: ApiError = ApiError::KeyvalFormat("invalid value");
    match value {
        Value::Null => Ok(WrittenPair::Nothing),
        Value::String(text) => Ok(WrittenPair::Pair { value: Some(text.clone()), lasts: None }),
        Value::Object(parts) => {
            let (mut value, mut lasts) = (None, None);
            for (name, part) in parts {
                match (name.as_str(), part) {
                    ("value", Value::String(text)) => value = Some(text.clone()),
                    ("expire", Value::Number(ms)) => lasts = Some(Duration::from_millis(ms.as_u64().ok_or(INVALID)?)),
                    _ => return Err(INVALID),
                }
            }
            Ok(WrittenPair::Pair { value, lasts })
        }
        Value::Bool(_) | Value::Number(_) | Value::Array(_) => Err(INVALID),
    }
}

/// A time of its own is for pairs of a zone with `timeout`.
fn check_time(lasts: Option<Duration>, has_timeout: bool) -> Result<(), ApiError> {
    if lasts.is_some() && !has_timeout { Err(ApiError::KeyvalFormat("keyval timeout is not enabled")) } else { Ok(()) }
}

fn pairs(body: &Value) -> Result<&Map<String, Value>, ApiError> {
    let pairs = body.as_object().ok_or(ApiError::KeyvalFormat("an object is required"))?;
    if pairs.is_empty() { Err(ApiError::KeyvalFormat("key required")) } else { Ok(pairs) }
}

/// The change of `POST`: pairs are added.
///
/// # Errors
/// The body is wrong.
pub fn added(body: &Value, has_timeout: bool) -> Result<PairChange, ApiError> {
    let mut all = Vec::new();
    for (key, value) in pairs(body)? {
        let WrittenPair::Pair { value: Some(value), lasts } = written_pair(value)? else {
            return Err(ApiError::KeyvalFormat("value required"));
        };
        check_time(lasts, has_timeout)?;
        all.push(New { key: key.clone(), value, lasts });
    }
    Ok(PairChange::Add(all))
}

/// The change of `PATCH`: a pair gets another value or another end, or goes.
///
/// # Errors
/// The body is wrong.
pub fn patched(body: &Value, has_timeout: bool) -> Result<PairChange, ApiError> {
    let mut pairs = pairs(body)?.iter();
    let (Some((key, value)), None) = (pairs.next(), pairs.next()) else {
        return Err(ApiError::KeyvalFormat("only one key can be updated"));
    };
    match written_pair(value)? {
        WrittenPair::Nothing => Ok(PairChange::Remove(key.clone())),
        WrittenPair::Pair { value: None, lasts: None } => Err(ApiError::KeyvalFormat("value required")),
        WrittenPair::Pair { value, lasts } => {
            check_time(lasts, has_timeout)?;
            Ok(PairChange::Set { key: key.clone(), value, lasts })
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn bodies_say_what_is_changed() {
        let minute = Some(Duration::from_secs(60));
        let new = |key: &str, value: &str, lasts| New { key: key.into(), value: value.into(), lasts };
        let all = added(&json!({"a": "1", "b": {"value": "2", "expire": 60000}}), true);
        assert_eq!(all, Ok(PairChange::Add(vec![new("a", "1", None), new("b", "2", minute)])));
        let set =
            |value: Option<&str>, lasts| PairChange::Set { key: "a".into(), value: value.map(str::to_owned), lasts };
        assert_eq!(patched(&json!({"a": "2"}), false), Ok(set(Some("2"), None)));
        assert_eq!(patched(&json!({"a": {"expire": 60000}}), true), Ok(set(None, minute)));
        assert_eq!(patched(&json!({"a": null}), false), Ok(PairChange::Remove("a".into())));
    }

    #[test]
    fn what_is_wrong_is_told() {
        for (body, why) in [
            (json!([]), "an object is required"),
            (json!({}), "key required"),
            (json!({"a": null}), "value required"),
            (json!({"a": 1}), "invalid value"),
            (json!({"a": {"value": "1", "x": 2}}), "invalid value"),
            (json!({"a": {"value": "1", "expire": -1}}), "invalid value"),
            (json!({"a": {"value": "1", "expire": 1}}), "keyval timeout is not enabled"),
        ] {
            assert_eq!(added(&body, false), Err(ApiError::KeyvalFormat(why)), "{body}");
        }
        for (body, why) in [
            (json!({"a": "1", "b": "2"}), "only one key can be updated"),
            (json!({"a": {}}), "value required"),
            (json!({"a": {"expire": 1}}), "keyval timeout is not enabled"),
        ] {
            assert_eq!(patched(&body, false), Err(ApiError::KeyvalFormat(why)), "{body}");
        }
    }
}
