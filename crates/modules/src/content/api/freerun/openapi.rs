//! The description of freerun's own API for programs (OpenAPI 3.1), and its page in the reference, made of the table of
//! endpoints.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use freerun_proto::Method;
use serde_json::{Map, Value, json};

use super::refusal::{Code, Error};
use super::table::{ENDPOINTS, Endpoint, Example, NAME, VERSION};
use crate::content::described::schema::{HasSchema, Schemas};

/// The description that holds for all endpoints.
const ABOUT: &str = "What freerun has beside nginx's API: event loops, thread pools, mounts, single keys of caches, levels \
of the error log for single clients. The fields of answers are those of `status`, which [status_fields.md](status_fields.md) explains.\n\n\
Who may use it is a matter of `allow`, `deny`, `auth_basic` and so on in the location. What changes something needs \
`write=on`, and is refused if a browser sends it for a page of another server, or by a name that is neither `localhost`, an \
IP address nor in `server_name`. What is refused changes nothing.";

/// The refusals that any endpoint may answer with.
fn refusals(endpoint: &Endpoint) -> BTreeSet<Code> {
    let of_writing = endpoint.writes().then_some([Code::OtherOrigin, Code::MethodDisabled]).into_iter().flatten();
    endpoint.refusals.iter().copied().chain(of_writing).collect()
}

/// The description; the paths of the API begin with `base`.
pub fn document(base: &str) -> Value {
    let mut schemas = Schemas::new();
    let error = Error::schema(&mut schemas);
    let mut paths: BTreeMap<&str, Map<String, Value>> = BTreeMap::new();
    for endpoint in ENDPOINTS {
        let method = endpoint.method_text().to_ascii_lowercase();
        paths.entry(endpoint.path).or_default().insert(method, operation(endpoint, &error, &mut schemas));
    }
    json!({
        "openapi": "3.1.0",
        "info": { "title": "freerun", "version": VERSION, "description": ABOUT },
        "servers": [{ "url": base }],
        "paths": paths,
        "components": { "schemas": schemas },
    })
}

fn operation(endpoint: &Endpoint, error: &Value, schemas: &mut Schemas) -> Value {
    let named = endpoint.names().map(|name| {
        let schema = if name == "index" { usize::schema(schemas) } else { String::schema(schemas) };
        json!({ "name": name, "in": "path", "required": true, "schema": schema })
    });
    let mut parameters: Vec<Value> = named.collect();
    parameters.extend(endpoint.arguments.iter().map(|(name, docs)| {
        // One of several is needed.
        let required = endpoint.arguments.len() == 1;
        json!({
            "name": name, "in": "query", "required": required, "description": docs, "schema": { "type": "string" }
        })
    }));
    let mut responses: BTreeMap<String, Value> = BTreeMap::new();
    match endpoint.answer {
        Some(schema) => responses.insert("200".to_owned(), with_schema("The answer.", &schema(schemas))),
        None => responses.insert("204".to_owned(), json!({ "description": "It is done." })),
    };
    let mut by_status: BTreeMap<u16, Vec<String>> = BTreeMap::new();
    for code in refusals(endpoint) {
        by_status.entry(code.status()).or_default().push(format!("`{}`: {}", code.name(), code.text()));
    }
    for (status, codes) in by_status {
        responses.insert(status.to_string(), with_schema(&codes.join("; "), error));
    }
    let mut operation = json!({
        "operationId": endpoint.id,
        "summary": endpoint.summary,
        "responses": responses,
    });
    if !endpoint.details.is_empty() {
        operation["description"] = endpoint.details.into();
    }
    if !parameters.is_empty() {
        operation["parameters"] = parameters.into();
    }
    if let Some(schema) = endpoint.body {
        let content = json!({ "application/json": { "schema": schema(schemas) } });
        operation["requestBody"] = json!({ "required": true, "content": content });
    }
    operation
}

fn with_schema(docs: &str, schema: &Value) -> Value {
    json!({ "description": docs, "content": { "application/json": { "schema": schema } } })
}

/// The description as a file, for a location `/api`.
pub fn file() -> String {
    format!("{:#}\n", document(&format!("/api/{NAME}/{VERSION}")))
}

/// The example of an endpoint: a command, and some fields of what it prints.
fn example(endpoint: &Endpoint) -> String {
    let Example { path, body, answer } = endpoint.example;
    let method = match endpoint.method {
        Method::Get => String::new(),
        _ => format!(" -X {}", endpoint.method_text()),
    };
    let data = if body.is_empty() { String::new() } else { format!(" -d '{body}'") };
    let line = format!("$ curl -s{method}{data} 'http://127.0.0.1:8080/api/{NAME}/{VERSION}{path}'");
    let answer = if answer.is_empty() { String::new() } else { format!("{answer}\n") };
    format!("\n```console\n{line}\n{answer}```\n")
}

/// The page of the reference: Markdown.
pub fn page() -> String {
    let mut text = format!(
        "{ABOUT}\n\nWith `location /api {{ api write=on; … }}` the paths begin with `/api/{NAME}/{VERSION}`. \
         [freerun-api.json](freerun-api.json) describes them for programs (OpenAPI 3.1). The examples show some fields of \
         each answer; one that shows none has status 204.\n"
    );
    for endpoint in ENDPOINTS {
        let _ = write!(text, "\n## `{} {}`\n\n{}", endpoint.method_text(), endpoint.path, endpoint.summary);
        if !endpoint.details.is_empty() {
            let _ = write!(text, " {}", endpoint.details);
        }
        text.push('\n');
        if !endpoint.arguments.is_empty() {
            text.push('\n');
        }
        for (name, docs) in endpoint.arguments {
            let _ = writeln!(text, "- `{name}`: {docs}");
        }
        text.push_str(&example(endpoint));
        let codes: Vec<String> =
            refusals(endpoint).iter().map(|code| format!("{} `{}`", code.status(), code.name())).collect();
        if !codes.is_empty() {
            let _ = writeln!(text, "\nErrors: {}.", codes.join(", "));
        }
    }
    text.push_str(
        "\n## Errors\n\nAll errors have one form; `code` is for programs, `text` for people:\n\n```json\n\
         {\"error\": {\"status\": 404, \"code\": \"LoopNotFound\", \"text\": \"loop not found\"},\n \
         \"request_id\": \"…\", \"href\": \"…\"}\n\
         ```\n\nA method that cannot be used is answered with 405 and `Allow`. A body may have 64 KiB. Unknown members of a body \
         are an error.\n",
    );
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All references in a value.
    fn references(value: &Value, found: &mut BTreeSet<String>) {
        match value {
            Value::Object(members) => {
                found.extend(members.get("$ref").and_then(Value::as_str).map(str::to_owned));
                members.values().for_each(|value| references(value, found));
            }
            Value::Array(items) => items.iter().for_each(|value| references(value, found)),
            _ => {}
        }
    }

    #[test]
    fn everything_that_is_referred_to_is_described() {
        let document = document("/x");
        let mut all = BTreeSet::new();
        references(&document, &mut all);
        assert!(all.len() > 5, "{all:?}");
        for reference in all {
            let pointer = reference.strip_prefix('#').expect("within the document");
            assert!(document.pointer(pointer).is_some(), "{reference}");
        }
        assert_eq!(document["servers"][0]["url"], "/x");
    }

    #[test]
    fn every_endpoint_is_described() {
        let (document, page) = (document(""), page());
        for endpoint in ENDPOINTS {
            let operation = &document["paths"][endpoint.path][endpoint.method_text().to_ascii_lowercase()];
            assert_eq!(operation["operationId"], endpoint.id);
            let named = operation["parameters"].as_array().map_or(0, Vec::len);
            assert_eq!(named, endpoint.names().count() + endpoint.arguments.len(), "{}", endpoint.id);
            assert!(page.contains(&format!("## `{} {}`", endpoint.method_text(), endpoint.path)), "{}", endpoint.id);
        }
    }
}
