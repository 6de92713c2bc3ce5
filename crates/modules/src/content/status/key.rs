//! The state of one key in a cache: `?cache=NAME&key=TEXT`, or `&hash=` with the name of a file.
//!
//! The lookup changes no counters: neither uses nor the time of the last use.

use std::sync::Arc;

use freerun_cache::cache::{Cache, Entry, LoadState};
use freerun_cache::fill::Progress;
use freerun_cache::key::Key;
use freerun_cache::object::{ObjectBody, StoredObject};
use freerun_cache::record::Head;
use freerun_cache::rules::Lifetime;
use freerun_cache::rules::control::ResponseControl;
use freerun_cache::rules::headers::values;
use freerun_conf::{text_of, text_of_os};
use freerun_http::connection::client_gone::ClientGone;
use freerun_http::content::aio;
use freerun_http::log_error;
use freerun_http::request::Request;
use freerun_proto::date::parse_http_date;
use freerun_proxy::cached::clock::unix_now;
use freerun_runtime::files::Via;
use freerun_runtime::pool::Tag;

use crate::content::described::described;

/// The most variants that are told.
const MAX_VARIANTS: usize = 100;

described! {
    /// The whole answer about a key.
    #[schema = "Explained"]
    pub struct KeyExplanation {
        pub cache: String,
        pub key: Option<String>,
        pub hash: String,
        pub file: String,
        pub place: &'static str,
        pub why: String,
        pub uses: u32,
        pub fill: Option<&'static str>,
        pub entry: Option<EntryFigures>,
        pub response: Option<StoredResponse>,
        pub variants: Vec<Variant>,
    }

    /// A response for other values of the fields that `Vary` names.
    pub struct Variant {
        pub hash: String,
        pub size: u64,
        pub accessed: u64,
        pub fresh: bool,
        pub fresh_until: u64,
    }

    /// The data in the index.
    pub struct EntryFigures {
        pub size: u64,
        pub on_disk: u64,
        pub accessed: u64,
        pub verified: bool,
        pub foreign: bool,
        pub fresh: bool,
        pub fresh_until: u64,
        pub age: u64,
        pub stale_while_revalidate: u32,
        pub stale_if_error: u32,
        pub must_revalidate: bool,
    }

    /// The data in the file.
    pub struct StoredResponse {
        pub status: u16,
        pub created: u64,
        pub length: u64,
        pub fields: Vec<(String, String)>,
        pub vary: Option<String>,
        pub variant: Option<String>,
        pub tags: Vec<String>,
    }
}

fn text(bytes: &[u8]) -> String {
    text_of(bytes).into_owned()
}

fn hex(key: Key) -> String {
    text(&key.hex())
}

impl EntryFigures {
    fn new(entry: &Entry, now: u64) -> EntryFigures {
        let lifetime = entry.lifetime();
        EntryFigures {
            size: entry.size(),
            on_disk: entry.disk(),
            accessed: entry.accessed(),
            verified: entry.is_verified(),
            foreign: entry.is_foreign(),
            fresh: lifetime.is_fresh(now),
            fresh_until: lifetime.fresh_until,
            age: lifetime.age(now),
            stale_while_revalidate: lifetime.stale_while_revalidate,
            stale_if_error: lifetime.stale_if_error,
            must_revalidate: lifetime.must_revalidate,
        }
    }
}

impl Variant {
    fn new(entry: &Entry, now: u64) -> Variant {
        Variant {
            hash: hex(entry.key()),
            size: entry.size(),
            accessed: entry.accessed(),
            fresh: entry.is_fresh(now),
            fresh_until: entry.lifetime().fresh_until,
        }
    }
}

impl StoredResponse {
    fn new(head: &Head) -> StoredResponse {
        StoredResponse {
            status: head.status,
            created: head.created,
            length: head.body,
            fields: head.fields.iter().map(|(name, value)| (text(name), text(value))).collect(),
            vary: head.vary.as_ref().map(|vary| text(&vary.names)),
            variant: head.vary.as_ref().map(|vary| hex(vary.variant)),
            tags: head.tags.iter().map(|tag| text(tag)).collect(),
        }
    }
}

/// A key that is asked for.
pub struct AskedKey {
    key: Key,
    /// Its text, if that was named.
    text: Option<Vec<u8>>,
}

impl AskedKey {
    /// The key that is named by its text, or by the hash that its file is named by. `None`: neither of them, or both.
    pub fn new(text: Option<Vec<u8>>, hash: Option<Vec<u8>>) -> Option<AskedKey> {
        match (text, hash) {
            (Some(text), None) => Some(AskedKey { key: Key::of(&text), text: Some(text) }),
            (None, Some(hash)) => Some(AskedKey { key: Key::from_hex(&hash)?, text: None }),
            _ => None,
        }
    }
}

/// Looks a key up for a request, whose `aio` says how files are read. `None`: it names a pool that is not there, which is
/// logged.
pub async fn explain_to(request: &Request, cache: &Arc<Cache>, asked: &AskedKey) -> Option<KeyExplanation> {
    let aio = aio::resolve(request)?;
    let gone = ClientGone::of(&request.client);
    let via = Via { aio: &aio, client: request.client_key(), gone: Some(&gone) };
    let mut explained = explain(cache, asked.key, asked.text.as_deref(), via, unix_now()).await;
    if explained.response.as_ref().is_some_and(|response| response.vary.is_some()) {
        let (cache, key) = (cache.clone(), asked.key);
        let walk = move || cache.variants(key, MAX_VARIANTS);
        match request.generation.pools.default().run(Tag::client(request.client_key()), walk).await {
            Ok(found) => explained.variants = found.iter().map(|entry| Variant::new(entry, unix_now())).collect(),
            Err(error) => log_error!(request, Error, "variants are not looked for: {error}"),
        }
    }
    Some(explained)
}

/// Looks a key up. `known`: the text of the key, if the request named it.
async fn explain(cache: &Arc<Cache>, key: Key, known: Option<&[u8]>, via: Via<'_>, now: u64) -> KeyExplanation {
    let mut out = KeyExplanation {
        cache: cache.config().name.to_string(),
        key: known.map(text),
        hash: hex(key),
        file: text_of_os(&cache.path_of(key)).into_owned(),
        place: "nowhere",
        why: "nothing is stored for this key".to_owned(),
        uses: cache.uses(key),
        fill: cache.fill_of(key).map(|fill| match fill.progress() {
            Progress::Asked => "asked",
            Progress::Known(_) => "coming",
            Progress::Never => "ending",
        }),
        entry: None,
        response: None,
        variants: Vec::new(),
    };
    let Some(entry) = cache.peek(key) else {
        if out.fill.is_some() {
            out.place = "being fetched";
            out.why = "the server was asked for it just now".to_owned();
        } else if out.uses > 0 {
            out.why = format!("asked for {} times, not often enough to be stored (cache_min_uses)", out.uses);
        } else if matches!(cache.figures().state, LoadState::Starting | LoadState::Loading | LoadState::Walking) {
            out.why = "the index does not know it, and is still being read: there may be a file".to_owned();
        }
        return out;
    };
    out.entry = Some(EntryFigures::new(&entry, now));
    out.place = "disk";
    if entry.is_foreign() {
        out.why = "the file was stored by another program: it takes up room until it is asked for".to_owned();
        return out;
    }
    // This is read before the file is opened, which may put the object into memory.
    let in_memory = cache.in_memory(key).filter(|object| Arc::ptr_eq(&object.entry, &entry));
    if matches!(in_memory.as_deref(), Some(StoredObject { body: ObjectBody::Bytes(_), .. })) {
        out.place = "memory";
    }
    let object = match cache.object(&entry, now, via).await {
        Ok(object) => object,
        Err(unreadable) => {
            out.why = format!("it cannot be used: {unreadable}");
            return out;
        }
    };
    let head = &object.head;
    out.response = Some(StoredResponse::new(head));
    out.key.get_or_insert_with(|| text(&head.key));
    out.why = if known.is_some_and(|known| *known != *head.key) {
        "another text with the same sum is stored".to_owned()
    } else if cache.is_purged(&entry, &head.key, &head.tags) {
        "a purge means it: it is not used, and its file goes".to_owned()
    } else {
        why(head, &entry.lifetime(), now)
    };
    out
}

/// The reason why the response may be used, or may not.
fn why(head: &Head, lifetime: &Lifetime, now: u64) -> String {
    let by = source(head, lifetime);
    if lifetime.no_cache {
        return format!("stored, but the server is asked each time: no-cache; {by}");
    }
    if lifetime.is_fresh(now) {
        return format!("fresh for {} more seconds: {by}", lifetime.remaining(now));
    }
    let since = now.saturating_sub(lifetime.fresh_until);
    let mut out = format!("stale for {since} seconds: {by}");
    if lifetime.must_revalidate {
        out += "; it may not be used without asking the server (must-revalidate)";
        return out;
    }
    if lifetime.may_refresh_behind(now) {
        out += "; it is used while a new one is fetched (stale-while-revalidate)";
    }
    if lifetime.may_cover_errors(now) {
        out += "; it is used if the server fails (stale-if-error)";
    }
    out
}

/// The source of the time until which it is fresh: the field that gives this time, counted from when it was stored.
fn source(head: &Head, lifetime: &Lifetime) -> String {
    if *lifetime != head.lifetime {
        return "the server has said since then that it has not changed (304)".to_owned();
    }
    let until = lifetime.fresh_until;
    let is = |seconds: u64| head.created.saturating_add(seconds).abs_diff(until) <= 1;
    let number = |value: &[u8]| std::str::from_utf8(value).ok()?.trim().parse::<u64>().ok();
    for value in values(&head.fields, b"x-accel-expires") {
        let at = value.strip_prefix(b"@").and_then(number);
        if at == Some(until) || number(value).is_some_and(is) {
            return format!("X-Accel-Expires: {}", text(value));
        }
    }
    let control = ResponseControl::of(values(&head.fields, b"cache-control"));
    for (name, time) in [("s-maxage", control.s_maxage), ("max-age", control.max_age)] {
        // A response that was old when it came is fresh for a shorter time.
        if let Some(seconds) = time.seconds()
            && (is(seconds) || lifetime.born.saturating_add(seconds).abs_diff(until) <= 1)
        {
            return format!("Cache-Control: {name}={seconds}");
        }
    }
    for value in values(&head.fields, b"expires") {
        if parse_http_date(value).and_then(|time| u64::try_from(time).ok()) == Some(until) {
            return format!("Expires: {}", text(value));
        }
    }
    format!("the configuration keeps responses with status {} so long (cache_valid)", head.status)
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;

    const NOW: u64 = 1_900_000_000;

    fn head(fresh_until: u64, fields: &[(&'static str, &'static str)]) -> Head {
        let bytes = |text: &'static str| Bytes::from_static(text.as_bytes());
        Head {
            status: 200,
            created: NOW,
            lifetime: Lifetime { fresh_until, born: NOW, ..Lifetime::default() },
            fields: fields.iter().map(|(name, value)| (bytes(name), bytes(value))).collect(),
            ..Head::default()
        }
    }

    #[test]
    fn the_field_that_decides_is_found() {
        for (until, fields, want) in [
            (NOW + 10, &[("X-Accel-Expires", "10"), ("Cache-Control", "max-age=20")][..], "X-Accel-Expires: 10"),
            (NOW - 7, &[("X-Accel-Expires", "@1899999993")], "X-Accel-Expires: @1899999993"),
            (NOW + 20, &[("Cache-Control", "public, max-age=20"), ("Expires", "x")], "Cache-Control: max-age=20"),
            (NOW + 30, &[("Cache-Control", "max-age=20, s-maxage=30")], "Cache-Control: s-maxage=30"),
            (784_111_777, &[("Expires", "Sun, 06 Nov 1994 08:49:37 GMT")], "Expires: Sun, 06 Nov 1994 08:49:37 GMT"),
            (
                NOW + 60,
                &[("Cache-Control", "max-age=20")],
                "the configuration keeps responses with status 200 so long (cache_valid)",
            ),
        ] {
            let head = head(until, fields);
            assert_eq!(source(&head, &head.lifetime), want);
        }
        let head = head(NOW + 20, &[("Cache-Control", "max-age=20")]);
        let renewed = Lifetime { fresh_until: NOW + 50, ..head.lifetime };
        assert!(source(&head, &renewed).contains("304"));
    }

    #[test]
    fn what_may_be_done_with_it_is_said() {
        let mut head = head(NOW + 20, &[("Cache-Control", "max-age=20")]);
        assert_eq!(why(&head, &head.lifetime, NOW + 5), "fresh for 15 more seconds: Cache-Control: max-age=20");
        assert_eq!(why(&head, &head.lifetime, NOW + 25), "stale for 5 seconds: Cache-Control: max-age=20");
        head.lifetime.stale_while_revalidate = 10;
        head.lifetime.stale_if_error = 3;
        let said = why(&head, &head.lifetime, NOW + 25);
        assert!(said.contains("while a new one is fetched") && !said.contains("if the server fails"), "{said}");
        head.lifetime.must_revalidate = true;
        assert!(why(&head, &head.lifetime, NOW + 25).ends_with("(must-revalidate)"));
    }
}
