//! Descriptions of answers: [`described!`] declares an object once, with the documentation of its fields. It makes the
//! object's JSON, its schema, its metrics for Prometheus, and its members in the API of NGINX Plus' shape.

pub mod histogram;
pub mod metric;
pub mod schema;

use serde_json::{Map, Value};

/// An object some of whose members the API in NGINX Plus' shape has as they are.
pub trait HasApiMembers {
    /// The members. A value that is missing is left out.
    fn api_members(&self) -> Map<String, Value>;
}

/// The value of a field in the API of NGINX Plus' shape.
pub fn api_value(value: impl serde::Serialize) -> Value {
    // Numbers, texts and maps of numbers can be shown.
    serde_json::to_value(value).unwrap_or_default()
}

/// Declares an object of an answer. The documentation of the object and of its fields becomes the descriptions of the
/// schema. The schema has the name of the type, or the name that `#[schema = "…"]` gives.
///
/// Behind its documentation and `serde`'s attribute, a field may have
///
/// - `#[metric(counter "NAME")]` (or `gauge`, `histogram`): the field is a metric, whose help is the documentation, or a
///   text behind a comma. `by "LABEL"` behind the name: the field has a number for each value of the label.
///   `by "LABEL" is "VALUE"`: it is the number of this value. `state of STATES`: it is one of these words.
///   `in seconds`: it is in microseconds. `from FUNCTION`: the function has the value of the object.
/// - `#[metric(inside)]`: the field is an object with metrics of its own.
/// - `#[api]`, `#[api = "NAME"]`: `api_members` has the field, by its own or this name.
macro_rules! described {
    (@name $field:ident) => { stringify!($field) };
    (@name $field:ident rename = $renamed:literal) => { $renamed };
    (@name $field:ident skip_serializing_if = $missing:literal) => { stringify!($field) };
    (@required) => { true };
    (@required rename = $renamed:literal) => { true };
    (@required skip_serializing_if = $missing:literal) => { false };
    (@api_name $field:ident) => { stringify!($field) };
    (@api_name $field:ident $name:literal) => { $name };
    (@or $default:expr) => { $default };
    (@or $default:expr, $given:expr) => { $given };
    (@label) => { None };
    (@label $label:literal) => { Some($label) };
    (@metrics $visit:ident $field:ident ($type:ty) ($docs:expr)) => {};
    (@metrics $visit:ident $field:ident ($type:ty) ($docs:expr) $([$($metric:tt)+])+) => {
        $($crate::content::described::described!(@metric $visit $field ($type) ($docs) $($metric)+);)+
    };
    (@metric $visit:ident $field:ident ($type:ty) ($docs:expr) inside) => {
        <$type as $crate::content::described::metric::HasMetrics>::each_metric(&mut |metric, value| {
            let inside = $crate::content::described::metric::metric_value(|object: &Self| value(&object.$field));
            $visit(metric, &inside);
        });
    };
    (@metric $visit:ident $field:ident ($type:ty) ($docs:expr)
        $kind:ident $name:literal state of $states:path $(, $help:literal)?) => {
        $crate::content::described::described!(@visit $visit ($docs) $kind $name (Some("state")) (None) ($($help)?)
            |object: &Self| $crate::content::described::metric::state_figure(&$states, object.$field));
    };
    (@metric $visit:ident $field:ident ($type:ty) ($docs:expr) $kind:ident $name:literal in seconds $(, $help:literal)?) => {
        $crate::content::described::described!(@visit $visit ($docs) $kind $name (None) (None) ($($help)?)
            |object: &Self| $crate::content::described::metric::Figure::Duration(object.$field));
    };
    (@metric $visit:ident $field:ident ($type:ty) ($docs:expr)
        $kind:ident $name:literal $(by $label:literal)? from $function:path $(, $help:literal)?) => {
        $crate::content::described::described!(@visit $visit ($docs) $kind $name
            ($crate::content::described::described!(@label $($label)?)) (None) ($($help)?) $function);
    };
    (@metric $visit:ident $field:ident ($type:ty) ($docs:expr)
        $kind:ident $name:literal $(by $label:literal)? $(is $value:literal)? $(, $help:literal)?) => {
        $crate::content::described::described!(@visit $visit ($docs) $kind $name
            ($crate::content::described::described!(@label $($label)?))
            ($crate::content::described::described!(@label $($value)?)) ($($help)?)
            |object: &Self| $crate::content::described::metric::FigureValue::figure(&object.$field));
    };
    (@visit $visit:ident ($docs:expr) $kind:ident $name:literal ($label:expr) ($label_value:expr) ($($help:literal)?)
        $value:expr) => {
        let value = $crate::content::described::metric::metric_value::<Self, _>($value);
        let metric = $crate::content::described::metric::Metric {
            kind: stringify!($kind),
            name: $name,
            help: $crate::content::described::described!(@or $docs $(, $help)?),
            label: $label,
            label_value: $label_value,
        };
        $visit(&metric, &value);
    };
    ($(
        $(#[doc = $docs:literal])*
        $(#[derive($($derive:ident),+)])?
        $(#[schema = $schema:literal])?
        pub struct $name:ident {
            $(
                $(#[doc = $doc:literal])*
                $(#[serde($($serde:tt)+)])?
                $(#[metric($($metric:tt)+)])*
                $(#[api $(= $api:literal)?])?
                pub $field:ident: $type:ty,
            )*
        }
    )+) => {$(
        $(#[doc = $docs])*
        #[derive(Debug, serde::Serialize $($(, $derive)+)?)]
        pub struct $name {
            $(
                $(#[doc = $doc])*
                $(#[serde($($serde)+)])?
                pub $field: $type,
            )*
        }

        impl $crate::content::described::schema::HasSchema for $name {
            fn schema(named: &mut $crate::content::described::schema::Schemas) -> serde_json::Value {
                use $crate::content::described::schema::{HasSchema, ObjectField, object, reference};
                let name = $crate::content::described::described!(@or stringify!($name) $(, $schema)?);
                if !named.contains_key(name) {
                    let fields = [
                        $(ObjectField {
                            name: $crate::content::described::described!(@name $field $($($serde)+)?),
                            docs: concat!($($doc),*),
                            schema: <$type as HasSchema>::schema(named),
                            required: $crate::content::described::described!(@required $($($serde)+)?),
                        }),*
                    ];
                    named.insert(name, object(concat!($($docs),*), fields));
                }
                reference(name)
            }
        }

        impl $crate::content::described::metric::HasMetrics for $name {
            fn each_metric(
                visit: &mut dyn FnMut(
                    &$crate::content::described::metric::Metric,
                    $crate::content::described::metric::MetricValue<'_, Self>,
                ),
            ) {
                let _ = &visit;
                $({
                    const DOCS: &str = concat!($($doc),*);
                    let _ = DOCS;
                    $crate::content::described::described!(@metrics visit $field ($type) (DOCS) $([$($metric)+])*);
                })*
            }
        }

        impl $crate::content::described::HasApiMembers for $name {
            fn api_members(&self) -> serde_json::Map<String, serde_json::Value> {
                let mut members = serde_json::Map::new();
                let mut _add = |name: &str, value: serde_json::Value| {
                    if !value.is_null() {
                        members.insert(name.to_owned(), value);
                    }
                };
                $($(_add(
                    $crate::content::described::described!(@api_name $field $($api)?),
                    $crate::content::described::api_value(&self.$field),
                );)?)*
                members
            }
        }
    )+};
}

pub(crate) use described;

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::json;

    use super::schema::{HasSchema, Schemas};

    described! {
        /// A thing
        /// of two lines.
        pub struct Thing {
            /// How many.
            pub count: u64,
            #[serde(rename = "type")]
            pub kind: Option<String>,
            pub inner: Vec<Inner>,
        }

        pub struct Inner {
            pub pairs: BTreeMap<String, (u16, bool)>,
        }
    }

    #[test]
    fn a_schema_is_as_the_type_is_told() {
        let mut named = Schemas::new();
        assert_eq!(Thing::schema(&mut named), json!({"$ref": "#/components/schemas/Thing"}));
        let number = json!({"type": "integer", "minimum": 0});
        let pair = json!({
            "type": "array", "prefixItems": [number, {"type": "boolean"}], "minItems": 2, "maxItems": 2
        });
        assert_eq!(
            json!(named),
            json!({
                "Thing": {
                    "type": "object",
                    "description": "A thing of two lines.",
                    "required": ["count", "type", "inner"],
                    "properties": {
                        "count": {"type": "integer", "minimum": 0, "description": "How many."},
                        "type": {"anyOf": [{"type": "string"}, {"type": "null"}]},
                        "inner": {"type": "array", "items": {"$ref": "#/components/schemas/Inner"}},
                    },
                },
                "Inner": {
                    "type": "object",
                    "required": ["pairs"],
                    "properties": {"pairs": {"type": "object", "additionalProperties": pair}},
                },
            })
        );
        let thing = Thing { count: 1, kind: None, inner: vec![Inner { pairs: BTreeMap::new() }] };
        assert_eq!(json!(thing), json!({"count": 1, "type": null, "inner": [{"pairs": {}}]}));
    }
}
