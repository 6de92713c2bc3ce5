//! Whether a value is what a schema of the API's description says, by the words of JSON Schema that this uses.

use serde_json::Value;

/// Where a value is not what the schema says; `document` has what is referred to. Members that the schema does not name are
/// faults, too.
pub fn faults(document: &Value, schema: &Value, value: &Value) -> Vec<String> {
    let mut faults = Vec::new();
    look(document, schema, value, "", &mut faults);
    faults
}

fn look(document: &Value, schema: &Value, value: &Value, at: &str, faults: &mut Vec<String>) {
    if let Some(reference) = schema["$ref"].as_str() {
        let pointer = reference.strip_prefix('#').expect("a reference within the document");
        let schema = document.pointer(pointer).unwrap_or_else(|| panic!("{reference} is missing"));
        return look(document, schema, value, at, faults);
    }
    if let Some(any) = schema["anyOf"].as_array() {
        let fits = |schema: &&Value| {
            let mut found = Vec::new();
            look(document, schema, value, at, &mut found);
            found.is_empty()
        };
        if !any.iter().any(|schema| fits(&schema)) {
            faults.push(format!("{at}: {value} is none of {any:?}"));
        }
        return;
    }
    let is_right = match schema["type"].as_str() {
        Some("null") => value.is_null(),
        Some("boolean") => value.is_boolean(),
        Some("string") => value.is_string(),
        Some("number") => value.is_number(),
        Some("integer") => value.is_u64() || value.is_i64(),
        Some("array") => value.is_array(),
        Some("object") => value.is_object(),
        other => panic!("{at}: a schema of type {other:?}"),
    };
    if !is_right {
        faults.push(format!("{at}: {value} is no {}", schema["type"]));
        return;
    }
    let parts = schema["prefixItems"].as_array();
    for (index, item) in value.as_array().into_iter().flatten().enumerate() {
        let schema = parts.map_or(&schema["items"], |parts| &parts[index]);
        look(document, schema, item, &format!("{at}/{index}"), faults);
    }
    let Some(members) = value.as_object() else { return };
    for name in schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        if !members.contains_key(name) {
            faults.push(format!("{at}: {name} is missing"));
        }
    }
    // An object of which nothing is said may have anything.
    if schema["properties"].is_null() && schema["additionalProperties"].is_null() {
        return;
    }
    for (name, member) in members {
        let at = format!("{at}/{name}");
        match (&schema["properties"][name], &schema["additionalProperties"]) {
            (Value::Null, Value::Object(_)) => look(document, &schema["additionalProperties"], member, &at, faults),
            (Value::Null, _) => faults.push(format!("{at} is not described")),
            (schema, _) => look(document, schema, member, &at, faults),
        }
    }
}

#[test]
fn faults_are_found() {
    use serde_json::json;
    let document = json!({"components": {"schemas": {"Inner": {
        "type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]
    }}}});
    let schema = json!({
        "type": "object",
        "properties": {
            "list": {"type": "array", "items": {"$ref": "#/components/schemas/Inner"}},
            "maybe": {"anyOf": [{"type": "string"}, {"type": "null"}]},
            "map": {"type": "object", "additionalProperties": {"type": "boolean"}},
        },
        "required": ["list"],
    });
    let count = |value: Value| faults(&document, &schema, &value).len();
    assert_eq!(count(json!({"list": [{"n": 1}], "maybe": null, "map": {"a": true}})), 0);
    for wrong in [
        json!({}),
        json!([]),
        json!({"list": {}}),
        json!({"list": [{"n": 1.5}]}),
        json!({"list": [{}]}),
        json!({"list": [], "more": 1}),
        json!({"list": [], "maybe": 1}),
        json!({"list": [], "map": {"a": 1}}),
    ] {
        assert_eq!(count(wrong.clone()), 1, "{wrong}");
    }
}
