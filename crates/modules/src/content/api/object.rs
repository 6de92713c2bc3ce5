//! The answers of the API: values, and which of their fields are wanted.

use freerun_conf::text_of;
use freerun_proto::date::time_iso8601;
use freerun_runtime::log::clock;
use freerun_upstream::Millis;
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::time::Duration;

/// An answer.
#[derive(Debug, PartialEq)]
pub struct Object {
    /// The value.
    pub value: Value,
    /// Of what the argument `fields` names the fields.
    pub fields: FieldsOf,
}

/// Of what the argument `fields` names the fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FieldsOf {
    /// Of nothing.
    Nothing,
    /// Of the value.
    Itself,
    /// Of the objects in the value, which are in a list or have names.
    Inside,
}

impl Object {
    /// A value that is shown as a whole.
    pub fn whole(value: Value) -> Object {
        Object { value, fields: FieldsOf::Nothing }
    }

    /// A value that may lack some fields.
    pub fn one(value: Value) -> Object {
        Object { value, fields: FieldsOf::Itself }
    }

    /// Several objects by their names.
    pub fn named(all: impl IntoIterator<Item = (String, Value)>) -> Object {
        Object { value: Value::Object(all.into_iter().collect()), fields: FieldsOf::Inside }
    }

    /// The value with the `wanted` fields; `None`: with all.
    pub fn with_fields(self, wanted: Option<&[&str]>) -> Value {
        let Object { mut value, fields } = self;
        let Some(wanted) = wanted else { return value };
        match fields {
            FieldsOf::Nothing => {}
            FieldsOf::Itself => keep(&mut value, wanted),
            FieldsOf::Inside => match &mut value {
                Value::Object(map) => map.values_mut().for_each(|value| keep(value, wanted)),
                Value::Array(list) => list.iter_mut().for_each(|value| keep(value, wanted)),
                _ => {}
            },
        }
        value
    }
}

fn keep(value: &mut Value, wanted: &[&str]) {
    if let Value::Object(map) = value {
        map.retain(|name, _| wanted.contains(&name.as_str()));
    }
}

/// A time since 1970 in the ISO 8601 format with milliseconds, in UTC.
pub fn timestamp(since_1970: Duration) -> Value {
    let text = time_iso8601(i64::try_from(since_1970.as_secs()).unwrap_or(i64::MAX), 0);
    // Behind the seconds stands the offset.
    let seconds = text_of(&text[..19]);
    format!("{seconds}.{:03}Z", since_1970.subsec_millis()).into()
}

/// A time of the clock that users of upstream servers share.
pub fn timestamp_of(time: Millis, now: Millis) -> Value {
    timestamp(clock::since_1970().saturating_sub(Duration::from_millis(now.saturating_sub(time))))
}

/// The counters of statuses: by class, in all, and by status.
pub fn responses(classes: &BTreeMap<&'static str, u64>, codes: &BTreeMap<u16, u64>) -> Value {
    let mut map: Map<String, Value> =
        classes.iter().map(|(class, count)| ((*class).to_owned(), (*count).into())).collect();
    let codes: Map<String, Value> = codes.iter().map(|(code, count)| (code.to_string(), (*count).into())).collect();
    map.insert("codes".to_owned(), codes.into());
    map.insert("total".to_owned(), classes.values().sum::<u64>().into());
    map.into()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn fields_are_chosen_at_their_level() {
        let inner = || json!({"a": 1, "b": {"a": 2}, "c": 3});
        let one = |wanted: &[&str]| Object::one(inner()).with_fields(Some(wanted));
        assert_eq!(one(&["a", "c", "x"]), json!({"a": 1, "c": 3}));
        assert_eq!(one(&[]), json!({}));
        let named = |wanted| Object::named([("z".to_owned(), inner())]).with_fields(wanted);
        assert_eq!(named(Some(&["b"])), json!({"z": {"b": {"a": 2}}}));
        assert_eq!(named(Some(&[])), json!({"z": {}}));
        assert_eq!(named(None), json!({"z": inner()}));
        let list = Object { value: json!([inner(), 7]), fields: FieldsOf::Inside };
        assert_eq!(list.with_fields(Some(&["c"])), json!([{"c": 3}, 7]));
        assert_eq!(Object::whole(inner()).with_fields(Some(&[])), inner());
    }

    #[test]
    fn times_have_milliseconds() {
        assert_eq!(timestamp(Duration::from_millis(1_656_414_944_067)), "2022-06-28T11:15:44.067Z");
    }

    #[test]
    fn statuses_are_told_by_class_and_one_by_one() {
        let classes = ["1xx", "2xx", "3xx", "4xx", "5xx"].into_iter().zip([0, 2, 0, 1, 0]).collect();
        let told = responses(&classes, &[(200, 2), (404, 1)].into());
        let expected = json!({
            "1xx": 0, "2xx": 2, "3xx": 0, "4xx": 1, "5xx": 0, "codes": {"200": 2, "404": 1}, "total": 3
        });
        assert_eq!(told, expected);
    }
}
