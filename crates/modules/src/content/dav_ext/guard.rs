//! Respecting locks: what changes files needs the tokens of the locks there.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::time::Instant;

use freerun_conf::text_of;
use freerun_http::content::{open, path};
use freerun_http::log_error;
use freerun_http::request::Request;
use freerun_http::request::handler::Outcome;
use freerun_http::request::response::Response;
use freerun_proto::uri::unescape;
use freerun_proto::{Method, Status};
use freerun_runtime::loops;

use super::conditions::{self, ConditionKind, ConditionList};
use super::locks::{Lock, Locks};
use super::{bare, key, zone};
use crate::content::dav;

/// The conditions that a client has sent.
pub(super) struct IfField(Vec<ConditionList>);

impl IfField {
    /// Reads the field `If`.
    ///
    /// # Errors
    /// The status: it is invalid.
    pub(super) fn of(request: &Request) -> Result<IfField, Status> {
        let Some(text) = request.head.values_named(b"If").next() else { return Ok(IfField(Vec::new())) };
        conditions::parse(text).map(IfField).ok_or_else(|| {
            log_error!(request, Error, "client sent invalid \"If\" header: \"{}\"", text_of(text));
            Status::BAD_REQUEST
        })
    }

    /// The tokens in it, which the client knows.
    pub(super) fn tokens(&self) -> impl Iterator<Item = Cow<'_, str>> {
        let conditions = self.0.iter().flat_map(|list| &list.conditions);
        conditions.filter_map(|condition| match &condition.state {
            ConditionKind::Token(token) => Some(text_of(token)),
            ConditionKind::Tag(_) => None,
        })
    }

    /// Whether one of the lists holds, or there are none.
    pub(super) async fn holds(&self, request: &Request, locks: &Locks) -> bool {
        for list in &self.0 {
            let file = match &list.resource {
                None => path::file_name(request),
                Some(url) => path::file_name_of(request, &path_of(url)),
            };
            if list_holds(list, request, locks, key(file)).await {
                return true;
            }
        }
        self.0.is_empty()
    }
}

/// The path of a URL.
fn path_of(url: &[u8]) -> Vec<u8> {
    let scheme = memchr::memmem::find(url, b"://").map(|at| at + 3).filter(|_| url.first() != Some(&b'/'));
    let rest = scheme.map_or(url, |at| &url[at..]);
    let path = scheme.map_or(rest, |_| memchr::memchr(b'/', rest).map_or(&b"/"[..], |slash| &rest[slash..]));
    unescape(path).into_owned()
}

async fn list_holds(list: &ConditionList, request: &Request, locks: &Locks, file: Vec<u8>) -> bool {
    let now = loops::now();
    for condition in &list.conditions {
        let is_so = match &condition.state {
            ConditionKind::Token(token) => {
                let token = text_of(token);
                locks.covering(&file, now).iter().any(|lock| *lock.token == *token)
            }
            ConditionKind::Tag(tag) => open::find(request, &file).await.is_ok_and(|found| *found.etag == **tag),
        };
        if is_so == condition.negated {
            return false;
        }
    }
    true
}

/// Refuses what would change locked files.
pub(super) async fn run(request: &mut Request) -> Outcome {
    let method = request.asked.method;
    let changes = matches!(method, Method::Put | Method::Delete | Method::Mkcol | Method::Copy | Method::Move);
    if !changes || request.is_subrequest() {
        return Outcome::Declined;
    }
    let Some(zone) = zone(request) else { return Outcome::Declined };
    let locks = zone.locks.clone();
    let sent = match IfField::of(request) {
        Ok(sent) => sent,
        Err(status) => return Outcome::Status(status),
    };
    let own = key(path::file_name(request));
    let destination = match method {
        // A wrong destination is refused by the method itself.
        Method::Copy | Method::Move => dav::destination(request).ok(),
        _ => None,
    };
    let destination = destination.map(|path| key(path::file_name_of(request, &path)));
    let mut needed = Vec::new();
    match method {
        Method::Put => needed.extend(for_file(request, &locks, &own, false).await),
        Method::Mkcol => needed.extend(for_file(request, &locks, &own, true).await),
        Method::Delete | Method::Move => needed.extend(for_tree(&locks, &own)),
        _ => {}
    }
    if let Some(destination) = destination {
        needed.extend(for_tree(&locks, &destination));
        needed.extend(for_file(request, &locks, &destination, false).await);
    }
    // Of several locks of one path, which are shared, one is enough.
    let tokens: HashSet<Cow<'_, str>> = sent.tokens().collect();
    let mut known: BTreeMap<&[u8], bool> = BTreeMap::new();
    for lock in &needed {
        *known.entry(&lock.path).or_default() |= tokens.contains(&*lock.token);
    }
    let is_locked = known.values().any(|known| !known);
    if !sent.holds(request, &locks).await {
        return Outcome::Status(Status::PRECONDITION_FAILED);
    }
    if is_locked {
        log_error!(request, Info, "\"{}\" is locked", text_of(&own));
        return bare(Status::LOCKED);
    }
    Outcome::Declined
}

/// The locks that a change of one file meets. A new one also changes its folder.
pub(super) async fn for_file(request: &Request, locks: &Locks, file: &[u8], is_new: bool) -> Vec<Arc<Lock>> {
    let is_new = is_new || open::stat(request, file).await.is_err();
    let now = loops::now();
    let mut met = locks.covering(file, now);
    if is_new {
        met.extend(of_folder(locks, file, now));
    }
    met
}

/// The locks that the removal of a file or folder meets.
fn for_tree(locks: &Locks, file: &[u8]) -> Vec<Arc<Lock>> {
    let now = loops::now();
    let mut met = locks.covering(file, now);
    met.extend(locks.below(file, now));
    met.extend(of_folder(locks, file, now));
    met
}

/// The locks of the folder of a file that do not cover what is in it.
fn of_folder(locks: &Locks, file: &[u8], now: Instant) -> impl Iterator<Item = Arc<Lock>> {
    let folder = memchr::memrchr(b'/', file).map(|slash| locks.exact(&file[..slash], now));
    folder.into_iter().flatten().filter(|lock| !lock.deep)
}

/// Removes the locks of what is no longer there.
pub(super) fn release(request: &mut Request, response: &mut Response) {
    let removes =
        matches!(request.asked.method, Method::Delete | Method::Move) && (200..300).contains(&response.status.code());
    if !removes || request.is_subrequest() {
        return;
    }
    let file = key(path::file_name(request));
    if let Some(zone) = zone(request) {
        zone.locks.remove_tree(&file, loops::now());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_of_urls() {
        for (url, wanted) in [
            ("/a%20b", "/a b"),
            ("http://h:80/a/b", "/a/b"),
            ("https://h", "/"),
            ("/a?x=http://h/b", "/a?x=http://h/b"),
        ] {
            assert_eq!(path_of(url.as_bytes()), wanted.as_bytes());
        }
    }
}
