//! Decides whether a response is stored, and which parts of it.

use bytes::{Bytes, BytesMut};
use freerun_cache::fill::{FillWriter, Follower};
use freerun_cache::key::Key;
use freerun_cache::record::{Head, Reason};
use freerun_cache::rules::control::RequestControl;
use freerun_cache::rules::{
    Answer, IgnoredFields, NotStoredReason, RequestFacts, Rules, Vary, Verdict, judge, tags, update,
};
use freerun_http::content::aio;
use freerun_http::request::Request;
use freerun_http::request::response::{Body, Field};
use freerun_proto::{HeaderId, Method};

use crate::cached::clock::unix_now;
use crate::cached::follower_body::FollowerBody;
use crate::client::tee::BodyTee;
use crate::exchange::UpstreamHead;
use crate::exchange::family::Family;
use crate::settings::FamilySettings;
use crate::settings::lists::Ignorable;
use crate::state::cache_status::{self, CacheStatus};

/// The cache's state of a request whose response it may store.
pub struct Keep {
    /// The fill that the response goes to.
    pub filling: FillWriter,
    /// The text of its key.
    pub text: Bytes,
    /// The main key, whichever variant is asked for.
    pub main: Key,
    /// Time when the server was asked, in unix seconds.
    pub sent: u64,
}

/// The decision about a response.
#[derive(Default)]
pub struct StoreDecision {
    /// The response to store, if it is stored.
    pub kept: Option<ResponseToStore>,
    /// Conditions and ranges are evaluated here, whether or not the response is stored, because they were not passed to
    /// the server; by the rules of RFC 9111 or not.
    pub offers: Option<bool>,
}

impl Keep {
    /// Decides, now that the head is there. Other requests stop waiting for a response that is not stored.
    pub fn judge(self, request: &Request, family: &dyn Family, head: &UpstreamHead) -> StoreDecision {
        let status = cache_status::of(request);
        let fill = self.filling.fill().clone();
        let judged = self.decide(request, family, head);
        // What is stored is counted as it comes.
        if let (None, Some(status)) = (&judged.kept, status) {
            fill.usage().add_bytes(status, head.length.unwrap_or(0));
        }
        judged
    }

    fn decide(self, request: &Request, family: &dyn Family, head: &UpstreamHead) -> StoreDecision {
        let Keep { filling, text, main, sent } = self;
        let Some(shared) = family.shared(request.settings()) else {
            filling.not_storable();
            return StoreDecision::default();
        };
        // 304 answers a client's condition, 101 is the end of HTTP: neither is a response to store, whatever the rules
        // say.
        if matches!(head.status, 101 | 304) {
            filling.not_storable();
            return StoreDecision::default();
        }
        let rfc9111 = shared.proxy_cache_rfc9111;
        let now = unix_now();
        let asked = asked(request, family, shared, sent);
        let fields = head.fields.to_list();
        let answer = Answer { status: head.status, fields: &fields };
        let verdict = judge(&asked, &answer, &rules(shared), now);
        // As in nginx: not for a response that the server forbids to store.
        let offers =
            matches!(verdict, Verdict::Store { .. } | Verdict::DoNot(NotStoredReason::NoLifetime)).then_some(rfc9111);
        let (lifetime, names) = match verdict {
            Verdict::Store { lifetime, vary } if !shared.proxy_no_cache.hold(request) => (lifetime, vary),
            _ => {
                filling.not_storable();
                return StoreDecision { kept: None, offers };
            }
        };
        let vary = names.map(|names| variant(request, names, main));
        let led = filling.fill().key();
        // A variant that was asked for is stored under its own key. If other fields choose now, the first response is
        // replaced.
        let key = if vary.as_ref().is_some_and(|vary| vary.variant == led) { led } else { main };
        let fields = compact(&update::stored(&fields, rfc9111, ignored(shared)));
        let head = Head {
            key: text,
            status: head.status,
            reason: Reason::Sent(Bytes::copy_from_slice(&head.reason)),
            tags: tags::tags(&fields),
            fields,
            created: now,
            lifetime,
            vary,
            body: 0,
        };
        let status = cache_status::of(request);
        StoreDecision {
            kept: Some(ResponseToStore { filling, head: Some((head, key)), status, stores: false }),
            offers,
        }
    }
}

/// A response that is going to be stored: its body goes to the fill of its object, which this client follows like all
/// others.
pub struct ResponseToStore {
    filling: FillWriter,
    /// The stored part of its head, and its key, until its body begins.
    head: Option<(Head, Key)>,
    /// The status of the request that leads it.
    status: Option<CacheStatus>,
    /// Whether it is going to be stored.
    stores: bool,
}

impl ResponseToStore {
    /// Counts bytes of the body, and with `ends` that there are no more.
    fn count(&self, bytes: usize, ends: bool) {
        let Some(status) = self.status else { return };
        let usage = self.filling.fill().usage();
        usage.add_bytes(status, bytes as u64);
        if self.stores {
            usage.add_stored_bytes(status, bytes as u64);
            if ends {
                usage.store(status);
            }
        }
    }
}

impl BodyTee for ResponseToStore {
    fn give_up(self) {
        self.filling.not_storable();
    }

    fn begin(&mut self, length: Option<u64>) {
        if let Some((head, key)) = self.head.take() {
            self.stores = self.filling.head(head, length, key);
        }
    }

    fn whole(self, body: Bytes) {
        self.count(body.len(), true);
        self.filling.whole(body);
    }

    fn follow(&self, request: &Request, family: &'static dyn Family) -> Option<Body> {
        let follower: Follower = self.filling.follow(aio::resolve(request)?, request.client_key())?;
        Some(Body::Source(Box::new(FollowerBody::new(request, family, follower, None))))
    }

    async fn push(&mut self, piece: Bytes) -> bool {
        self.count(piece.len(), false);
        self.filling.push(piece).await.is_ok()
    }

    fn end(self) {
        self.count(0, true);
        self.filling.end();
    }
}

/// The rules from `cache_valid`, `ignore_headers` and so on.
pub fn rules(shared: &FamilySettings) -> Rules<'_> {
    Rules {
        rfc9111: shared.proxy_cache_rfc9111,
        ignored: ignored(shared),
        valid: Some(shared.proxy_cache_valid.rules()),
    }
}

/// The properties of the request that storing depends on.
pub fn asked(request: &Request, family: &dyn Family, shared: &FamilySettings, sent: u64) -> RequestFacts {
    if !shared.proxy_cache_rfc9111 {
        return RequestFacts { sent, ..RequestFacts::default() };
    }
    RequestFacts {
        head: request.asked.method == Method::Head && !family.converts_head(request),
        authorization: request.head.has(HeaderId::Authorization),
        ranged: family.asks_for_part(request),
        control: control(request),
        sent,
    }
}

/// The client's `Cache-Control`.
pub fn control(request: &Request) -> RequestControl {
    let values = |name: &'static [u8]| request.head.values_named(name);
    RequestControl::of(values(b"Cache-Control"), values(b"Pragma"))
}

/// The fields named by `ignore_headers`.
pub fn ignored(shared: &FamilySettings) -> IgnoredFields {
    IgnoredFields {
        accel_expires: shared.ignores(Ignorable::XAccelExpires),
        expires: shared.ignores(Ignorable::Expires),
        cache_control: shared.ignores(Ignorable::CacheControl),
        set_cookie: shared.ignores(Ignorable::SetCookie),
        vary: shared.ignores(Ignorable::Vary),
    }
}

/// The request's variant, by the names that a response of its key has in `Vary`.
pub fn variant(request: &Request, names: Bytes, main: Key) -> Vary {
    Vary::new(names, main, |name, add| {
        request.head.values_named(name).for_each(add);
    })
}

/// Copies fields out of the larger buffer that they came in. Usual names take no memory.
fn compact(fields: &[Field]) -> Vec<Field> {
    let usual = |name: &Bytes| {
        let usual = HeaderId::of(name).name().as_bytes();
        (!usual.is_empty() && *usual == **name).then(|| Bytes::from_static(usual))
    };
    let mut all = BytesMut::with_capacity(fields.iter().map(|(name, value)| name.len() + value.len()).sum());
    let mut taken = |bytes: &Bytes| {
        all.extend_from_slice(bytes);
        all.split().freeze()
    };
    fields.iter().map(|(name, value)| (usual(name).unwrap_or_else(|| taken(name)), taken(value))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_the_same_without_their_buffer() {
        let field = |name: &'static str, value: &'static str| (Bytes::from(name), Bytes::from(value));
        let fields = [field("ETag", "\"a\""), field("etag", "b"), field("X-Other", ""), field("", "c")];
        assert_eq!(compact(&fields), fields);
    }
}
