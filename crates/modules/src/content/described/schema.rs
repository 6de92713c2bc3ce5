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
    {"type": "integer"} for i64;
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

impl<K, T: HasSchema> HasSchema for BTreeMap<K, T> {
    fn schema(named: &mut Schemas) -> Value {
        json!({ "type": "object", "additionalProperties": T::schema(named) })
    }
}

/// A field of an object.
pub struct ObjectField {
    /// The name in JSON.
    pub name: &'static str,
    /// The documentation.
    pub docs: &'static str,
    /// The schema of its values.
    pub schema: Value,
    /// Whether it is always present.
    pub required: bool,
}

/// The schema of an object with these fields.
pub fn object<const N: usize>(docs: &str, fields: [ObjectField; N]) -> Value {
    let required: Vec<&str> = fields.iter().filter(|field| field.required).map(|field| field.name).collect();
    let mut properties = Map::new();
    for ObjectField { name, docs, mut schema, .. } in fields {
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
