//! Caches: their figures, what they know of a key, and purges.

use std::sync::Arc;

use bytes::Bytes;
use freerun_cache::cache::Cache;
use freerun_cache::purge::{MAX_TEXT, PurgeRefused};
use freerun_cluster::PurgeDelivery;
use freerun_conf::text_of;
use freerun_proto::Status;
use freerun_proxy::cached::clock::unix_now;
use freerun_proxy::cached::find::CacheRequest;
use freerun_proxy::cached::purge::{MAX_TAGS, purge_tags, tell_others, write_down};
use serde_json::{Value, json};

use super::endpoint_call::{EndpointAnswer, EndpointCall, EndpointFailure, EndpointFuture};
use super::refusal::{Code, Refusal};
use crate::content::api::change_log;
use crate::content::described::schema::Schemas;
use crate::content::status::caches::{self, CacheFigures};
use crate::content::status::key::{self, AskedKey};

/// All caches.
pub(super) fn all(asked: EndpointCall<'_>) -> EndpointFuture<'_> {
    Box::pin(asked.made(|source| caches::collect(&source.generation)))
}

/// A cache.
pub(super) fn one(asked: EndpointCall<'_>) -> EndpointFuture<'_> {
    Box::pin(async move {
        let cache = found(&asked)?;
        EndpointAnswer::value(&CacheFigures::of(&cache, unix_now()))
    })
}

/// The cache that the path names.
fn found(asked: &EndpointCall<'_>) -> Result<Arc<Cache>, Refusal> {
    caches::find(&asked.source.generation, asked.name().as_bytes()).ok_or_else(|| Code::CacheNotFound.into())
}

/// Explains a key.
pub(super) fn explain(asked: EndpointCall<'_>) -> EndpointFuture<'_> {
    Box::pin(async move {
        let cache = found(&asked)?;
        let key = AskedKey::new(asked.argument("key"), asked.argument("hash"));
        let key = key.ok_or_else(|| Refusal::new(Code::BadArgument, "\"key\" or \"hash\" is needed"))?;
        let explained = key::explain_to(asked.request, &cache, &key).await;
        EndpointAnswer::value(&explained.ok_or(EndpointFailure::Status(Status::INTERNAL_SERVER_ERROR))?)
    })
}

/// Removes what is stored for a key.
pub(super) fn remove(mut asked: EndpointCall<'_>) -> EndpointFuture<'_> {
    Box::pin(async move {
        let cache = found(&asked)?;
        let text = asked.argument("key").filter(|text| !text.is_empty());
        let text = text.ok_or_else(|| Refusal::new(Code::BadArgument, "\"key\" is needed"))?;
        asked.without_body()?;
        let wanted = CacheRequest::of(cache, text.into());
        let removed = wanted.remove();
        let what = vec![freerun_cache::purge::Purge::Key(wanted.text.clone())];
        purged(&asked, &wanted.cache, &wanted.text, what, removed).await
    })
}

/// The objects to purge.
#[derive(Debug, PartialEq, Eq)]
enum Purge {
    /// A key, or, with an asterisk at the end, all keys that begin so.
    Key(Bytes),
    /// All objects with one of these tags.
    Tags(Vec<Bytes>),
}

/// The schema of a purge.
pub fn purge_schema(_: &mut Schemas) -> Value {
    let text = |docs: &str| json!({ "type": "string", "minLength": 1, "maxLength": MAX_TEXT, "description": docs });
    json!({
        "type": "object",
        "properties": {
            "key": text("A key, or with an asterisk at its end all keys that begin so, as in a request for `proxy_cache_purge`."),
            "tags": {
                "type": "array",
                "description": "Tags of objects (`Surrogate-Key`, `Cache-Tag`).",
                "items": text("A tag."),
                "minItems": 1,
                "maxItems": MAX_TAGS,
            },
        },
        "oneOf": [{ "required": ["key"] }, { "required": ["tags"] }],
        "additionalProperties": false,
    })
}

/// Purges.
pub(super) fn purge(mut asked: EndpointCall<'_>) -> EndpointFuture<'_> {
    Box::pin(async move {
        let cache = found(&asked)?;
        let too_long = |PurgeRefused::TooLong| Refusal::from(Code::TooLong);
        match purge_of(&asked.body().await?)? {
            Purge::Key(text) => {
                let wanted = CacheRequest::of(cache, text);
                let removed = wanted.purge().map_err(too_long)?;
                let what = vec![wanted.as_purge()];
                purged(&asked, &wanted.cache, &wanted.text, what, removed).await
            }
            Purge::Tags(tags) => {
                let names = tags.join(&b" "[..]);
                let what = tags.iter().cloned().map(freerun_cache::purge::Purge::Tag).collect();
                purge_tags(&cache, tags).map_err(too_long)?;
                purged(&asked, &cache, &names, what, true).await
            }
        }
    })
}

/// Tells other machines of a purge, logs it, and waits until it is on the disk. `removed`: there was something to purge on this
/// machine.
async fn purged(
    asked: &EndpointCall<'_>,
    cache: &Cache,
    text: &[u8],
    what: Vec<freerun_cache::purge::Purge>,
    removed: bool,
) -> Result<EndpointAnswer, EndpointFailure> {
    let delivery = tell_others(asked.request, cache, what).await;
    if !removed && delivery.is_none() {
        return Err(Code::KeyNotFound.into());
    }
    let name = &cache.config().name;
    change_log::note(asked.request, format_args!("\"{}\" is purged from cache \"{name}\"", text_of(text)));
    write_down(asked.request, cache, text).await;
    match delivery {
        Some(PurgeDelivery::Failed) => Err(Code::ClusterAway.into()),
        Some(PurgeDelivery::Stored) => EndpointAnswer::accepted(),
        _ => EndpointAnswer::done(),
    }
}

/// The purge that a body requests.
fn purge_of(body: &Value) -> Result<Purge, Refusal> {
    let wrong = |text: &'static str| Refusal::new(Code::BadBody, text);
    let text = |value: &Value| value.as_str().filter(|text| !text.is_empty()).map(|text| Bytes::from(text.to_owned()));
    let members = body.as_object().filter(|members| members.len() == 1);
    let member = members.and_then(|members| members.iter().next());
    match member.map(|(name, value)| (name.as_str(), value)) {
        Some(("key", value)) => text(value).map(Purge::Key).ok_or_else(|| wrong("\"key\" is a text")),
        Some(("tags", Value::Array(tags))) if !tags.is_empty() && tags.len() <= MAX_TAGS => {
            let tags: Option<Vec<Bytes>> = tags.iter().map(text).collect();
            tags.map(Purge::Tags).ok_or_else(|| wrong("\"tags\" are texts"))
        }
        Some(("tags", _)) => Err(Refusal::new(Code::BadBody, format!("\"tags\" is a list of 1 to {MAX_TAGS} texts"))),
        _ => Err(wrong("{\"key\": TEXT}, {\"key\": \"BEGINNING*\"} or {\"tags\": [TEXT, …]} is expected")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_or_tags_are_purged() {
        assert_eq!(purge_of(&json!({"key": "/a*"})), Ok(Purge::Key("/a*".into())));
        assert_eq!(purge_of(&json!({"tags": ["a", "b"]})), Ok(Purge::Tags(vec!["a".into(), "b".into()])));
        assert!(purge_of(&json!({"tags": vec!["t"; MAX_TAGS]})).is_ok());
    }

    #[test]
    fn anything_else_is_refused() {
        for body in [
            json!("/a"),
            json!({}),
            json!({"key": ""}),
            json!({"key": ["/a"]}),
            json!({"key": "/a", "tags": ["a"]}),
            json!({"keys": "/a"}),
            json!({"tags": []}),
            json!({"tags": "a"}),
            json!({"tags": ["a", ""]}),
            json!({"tags": vec!["t"; MAX_TAGS + 1]}),
        ] {
            assert_eq!(purge_of(&body).map_err(|refusal| refusal.code), Err(Code::BadBody), "{body}");
        }
    }
}
