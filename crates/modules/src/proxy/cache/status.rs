//! `$upstream_cache_status`.

use std::cell::Cell;

use freerun_http::request::Request;

/// How a cache has answered a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    /// It had nothing.
    Miss,
    /// It was not asked (`cache_bypass`).
    Bypass,
    /// What it had was stale; the server has answered.
    Expired,
    /// What it had was stale, and was used.
    Stale,
    /// The same, while somebody else asks the server.
    Updating,
    /// What it had was stale, and the server said that it has not changed.
    Revalidated,
    /// From what it had.
    Hit,
}

impl Status {
    /// nginx's word.
    pub fn word(self) -> &'static [u8] {
        match self {
            Status::Miss => b"MISS",
            Status::Bypass => b"BYPASS",
            Status::Expired => b"EXPIRED",
            Status::Stale => b"STALE",
            Status::Updating => b"UPDATING",
            Status::Revalidated => b"REVALIDATED",
            Status::Hit => b"HIT",
        }
    }

    /// That of a request, if a cache had to do with it.
    pub fn of(request: &Request) -> Option<Status> {
        request.own.find::<Note>()?.0.get()
    }

    /// Notes it.
    pub fn note(self, request: &Request) {
        request.own.get::<Note>().0.set(Some(self));
    }

    /// No cache has to do with the request from here on.
    pub fn forget(request: &Request) {
        if let Some(note) = request.own.find::<Note>() {
            note.0.set(None);
        }
    }
}

#[derive(Default)]
struct Note(Cell<Option<Status>>);
