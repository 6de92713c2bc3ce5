//! Replies of the engine, taken apart.

use redis::Value;

use super::EngineError;

/// The error for a reply of another shape than the command has.
pub(super) fn odd(what: &'static str) -> EngineError {
    EngineError::Odd(what)
}

/// The bytes of a reply. `None`: it is nil, or has no bytes.
pub(super) fn bytes(value: Value) -> Option<Vec<u8>> {
    match value {
        Value::BulkString(bytes) => Some(bytes),
        Value::SimpleString(text) => Some(text.into_bytes()),
        Value::VerbatimString { text, .. } => Some(text.into_bytes()),
        Value::Okay => Some(b"OK".to_vec()),
        Value::Int(number) => Some(number.to_string().into_bytes()),
        _ => None,
    }
}

/// The text of a reply.
pub(super) fn text(value: Value) -> Option<String> {
    String::from_utf8(bytes(value)?).ok()
}

/// The number of a reply.
pub(super) fn number(value: Value) -> Option<i64> {
    match value {
        Value::Int(number) => Some(number),
        other => text(other)?.parse().ok(),
    }
}

/// The members of a reply that is a list.
pub(super) fn list(value: Value) -> Option<Vec<Value>> {
    match value {
        Value::Array(values) | Value::Set(values) => Some(values),
        // RESP3 has maps where RESP2 has lists of names and values in turn.
        Value::Map(pairs) => Some(pairs.into_iter().flat_map(|(name, value)| [name, value]).collect()),
        Value::Nil => Some(Vec::new()),
        _ => None,
    }
}

/// The members of a reply that is a list of names and values in turn.
pub(super) fn pairs(value: Value) -> Option<Vec<(Value, Value)>> {
    if let Value::Map(pairs) = value {
        return Some(pairs);
    }
    let mut values = list(value)?.into_iter();
    let mut all = Vec::new();
    while let Some(name) = values.next() {
        all.push((name, values.next()?));
    }
    Some(all)
}

/// The members of a reply that is a list of streams with their entries: a map in RESP3, a list of lists in RESP2.
pub(super) fn streams(value: Value) -> Option<Vec<(Value, Value)>> {
    if let Value::Map(pairs) = value {
        return Some(pairs);
    }
    let each = |stream| {
        let mut parts = list(stream)?.into_iter();
        Some((parts.next()?, parts.next()?))
    };
    list(value)?.into_iter().map(each).collect()
}
