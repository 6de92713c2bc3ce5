//! Schemas of JSON answers, made from the types of the answers: JSON Schema 2020-12, as OpenAPI 3.1 has it.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

/// The schemas of objects, by the names of their types.
pub type Schemas = BTreeMap<&'static str, Value>;

/// A type of JSON answers that has a schema.
pub trait HasSchema {
    /// The schema of its values. Schemas of objects stand in `named`, and are referred to.
    fn schema(named: &mut Schemas) -> Value;
}

macro_rules! simple {
    ($($schema:tt for $($type:ty)+;)+) => {
        $($(impl HasSchema for $type {
            fn schema(_: &mut Schemas) -> Value {
                json!($schema)
            }
        })+)+
    };
}

simple! {
    {"type": "boolean"} for bool;
    {"type": "string"} for String &'static str;
    {"type": "number"} for f64;
    {"type": "integer", "minimum": 0} for u16 u32 u64 usize;
}

impl<T: HasSchema> HasSchema for Option<T> {
    fn schema(named: &mut Schemas) -> Value {
        json!({ "anyOf": [T::schema(named), { "type": "null" }] })
    }
}

impl<T: HasSchema> HasSchema for Vec<T> {
    fn schema(named: &mut Schemas) -> Value {
        json!({ "type": "array", "items": T::schema(named) })
    }
}

impl<T: HasSchema + 'static> HasSchema for &'static [T] {
    fn schema(named: &mut Schemas) -> Value {
        Vec::<T>::schema(named)
    }
}

impl<T: HasSchema, const N: usize> HasSchema for [T; N] {
    fn schema(named: &mut Schemas) -> Value {
        Vec::<T>::schema(named)
    }
}

impl<A: HasSchema, B: HasSchema> HasSchema for (A, B) {
    fn schema(named: &mut Schemas) -> Value {
        let parts = [A::schema(named), B::schema(named)];
        json!({ "type": "array", "prefixItems": parts, "minItems": 2, "maxItems": 2 })
    }
}

impl<T: HasSchema> HasSchema for BTreeMap<String, T> {
    fn schema(named: &mut Schemas) -> Value {
        json!({ "type": "object", "additionalProperties": T::schema(named) })
    }
}

/// The schema of an object with these fields (name, documentation, schema). All of them are always present.
pub fn object<const N: usize>(docs: &str, fields: [(&'static str, &str, Value); N]) -> Value {
    let required: Vec<&str> = fields.iter().map(|(name, ..)| *name).collect();
    let mut properties = Map::new();
    for (name, docs, mut schema) in fields {
        describe(&mut schema, docs);
        properties.insert(name.to_owned(), schema);
    }
    let mut schema = json!({ "type": "object", "properties": properties, "required": required });
    describe(&mut schema, docs);
    schema
}

fn describe(schema: &mut Value, docs: &str) {
    if !docs.trim().is_empty() {
        schema["description"] = docs.trim().into();
    }
}

/// A reference to the schema of an object in `named`.
pub fn reference(name: &str) -> Value {
    json!({ "$ref": format!("#/components/schemas/{name}") })
}

/// Declares an object of an answer, with its schema: the documentation of the object and of its fields becomes
/// descriptions. The schema has the name of the type, or the name that `#[schema = "…"]` gives.
macro_rules! described {
    (@name $field:ident) => { stringify!($field) };
    (@name $field:ident $renamed:literal) => { $renamed };
    ($(
        $(#[doc = $docs:literal])*
        $(#[schema = $schema:literal])?
        pub struct $name:ident {
            $(
                $(#[doc = $doc:literal])*
                $(#[serde(rename = $renamed:literal)])?
                pub $field:ident: $type:ty,
            )*
        }
    )+) => {$(
        $(#[doc = $docs])*
        #[derive(Debug, serde::Serialize)]
        pub struct $name {
            $(
                $(#[doc = $doc])*
                $(#[serde(rename = $renamed)])?
                pub $field: $type,
            )*
        }

        impl $crate::content::described::HasSchema for $name {
            fn schema(named: &mut $crate::content::described::Schemas) -> serde_json::Value {
                use $crate::content::described::{HasSchema, object, reference};
                let name = $crate::content::described::described!(@name $name $($schema)?);
                if !named.contains_key(name) {
                    let fields = [
                        $((
                            $crate::content::described::described!(@name $field $($renamed)?),
                            concat!($($doc),*),
                            <$type as HasSchema>::schema(named),
                        )),*
                    ];
                    named.insert(name, object(concat!($($docs),*), fields));
                }
                reference(name)
            }
        }
    )+};
}

pub(crate) use described;

#[cfg(test)]
mod tests {
    use super::*;

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
