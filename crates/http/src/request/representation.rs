//! The fields that describe a response's content, and what becomes of them when the content is changed or replaced.
//! [`Change`] is the table for filters that change a body; [`Response::replace_content`] and [`CarriedHead`] are for responses
//! that stand in another one's place.

use std::sync::Arc;

use freerun_proto::Status;

use super::response::{AsWritten, Response};
use crate::message::Field;
use crate::message::response_state::CarriedHead;

/// The fate of a field that belongs to the bytes from before a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    /// The field stays as it is.
    Stays,
    /// The field stays, and says that it stands for bytes that mean the same (RFC 9110 section 8.8.1). Only `ETag` can
    /// do so.
    Weakened,
    /// The field is dropped.
    Dropped,
}

/// A change of a body's bytes. The fields with digests of the bytes are dropped by every change ([`DIGESTS`]).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Change {
    etag: Fate,
    last_modified: Fate,
    /// The fate of this server's own offer of ranges.
    ranges: Fate,
    /// The fate of the `Accept-Ranges` of another server.
    others_ranges: Fate,
}

/// The change that weakens a tag and ends ranges.
const WEAKENED: Change =
    Change { etag: Fate::Weakened, last_modified: Fate::Stays, ranges: Fate::Dropped, others_ranges: Fate::Dropped };

impl Change {
    /// A content coding was put on (`gzip`, `brotli`, `zstd`) or taken off (`gunzip`).
    pub const CODING: Change = WEAKENED;
    /// Other content was put around the body (`add_before_body`, `add_after_body`).
    pub const ADDITION: Change = WEAKENED;
    /// The commands of `ssi` were carried out, so that the content depends on more than the resource: its validators say
    /// nothing about it.
    pub const COMMANDS: Change = Change { etag: Fate::Dropped, last_modified: Fate::Dropped, ..WEAKENED };
    /// The same, where the validators are said to hold nevertheless (`ssi_last_modified`).
    pub const COMMANDS_DATED: Change = WEAKENED;
    /// Strings were replaced by `sub_filter`. As in nginx the other server's `Accept-Ranges` stays: a range is passed on to it,
    /// and the part that it answers with is changed in the same way.
    pub const STRINGS: Change = Change { others_ranges: Fate::Stays, ..Change::COMMANDS };
    /// The same, where the validators are said to hold nevertheless (`sub_filter_last_modified`).
    pub const STRINGS_DATED: Change = Change { others_ranges: Fate::Stays, ..WEAKENED };
    /// Lines were replaced by `subs_filter`, which leaves the tag as it is, as its module for nginx does.
    pub const LINES: Change =
        Change { etag: Fate::Stays, last_modified: Fate::Dropped, others_ranges: Fate::Stays, ..WEAKENED };
    /// Lines were put around the body by `echo_before_body` and `echo_after_body`, whose module for nginx leaves the tag as
    /// it is.
    pub const AROUND: Change = Change { etag: Fate::Stays, ..WEAKENED };
    /// The character set is another one. As in nginx the tag stays strong, because the content is what it was, and the other
    /// server's `Accept-Ranges` stays.
    pub const CHARSET: Change = Change { etag: Fate::Stays, others_ranges: Fate::Stays, ..WEAKENED };
    /// The same, where each byte became one byte, so that ranges of both are the same text.
    pub const CHARSET_OF_BYTES: Change = Change { ranges: Fate::Stays, ..Change::CHARSET };
}

/// The fields with digests of a message's content or of a representation (RFC 9530, RFC 3230, and RFC 1864).
pub const DIGESTS: [&[u8]; 4] = [b"Content-Digest", b"Repr-Digest", b"Digest", b"Content-MD5"];

/// The digests that are about the bytes of the message, so that they differ for each part of a representation.
const DIGESTS_OF_MESSAGE: [&[u8]; 2] = [b"Content-Digest", b"Content-MD5"];

/// Further fields that describe a response's content, beside the digests, and not the request's outcome.
const DESCRIBING: [&[u8]; 5] =
    [b"Content-Encoding", b"Content-Language", b"Content-Location", b"Content-Range", b"Accept-Ranges"];

impl Response {
    /// Adapts the fields that describe the content to a change of its bytes.
    pub fn content_changes(&mut self, change: Change) {
        match change.etag {
            Fate::Stays => {}
            Fate::Weakened => {
                if let Some(etag) = self.etag.take_if(|etag| !etag.starts_with(b"W/")) {
                    let strong = etag.starts_with(b"\"");
                    self.etag = strong.then(|| [&b"W/"[..], &etag].concat().into());
                }
            }
            Fate::Dropped => self.etag = None,
        }
        if change.last_modified == Fate::Dropped {
            self.drop_last_modified();
        }
        self.ranges &= change.ranges != Fate::Dropped;
        if change.others_ranges == Fate::Dropped {
            self.drop_others_ranges();
        }
        self.drop_digests(&DIGESTS);
    }

    /// Drops what is true only of the whole content, or of another part of it, before a part is sent, or before the whole is
    /// put together of parts.
    pub fn content_is_cut(&mut self) {
        self.remove(b"Content-Range");
        self.drop_digests(&DIGESTS_OF_MESSAGE);
    }

    /// Moves the fields that do not describe the content to a response that takes this one's place.
    pub fn replace_content(&mut self, by: &mut Response) {
        by.vary = self.vary;
        by.late_trailers = self.late_trailers;
        by.location = self.location.take();
        by.fields = std::mem::take(&mut self.fields);
        by.fields.retain(|field| !describes_content(field));
    }

    /// Whether the type that an application has given for this URI (`X-Accel-Redirect`) is better than the response's
    /// own. It is better if the own type is only what the URI suggests, or is missing though there is content.
    pub fn takes_given_type(&self) -> bool {
        let is_untyped = self.as_written.as_ref().is_some_and(|written| written.content_type.is_empty());
        (self.type_by_uri || is_untyped) && !matches!(self.status, Status::NO_CONTENT | Status::NOT_MODIFIED)
    }

    /// Drops the other server's offer of ranges. A field that the configuration has added behind it stays.
    fn drop_others_ranges(&mut self) {
        let Some(written) = self.as_written.as_mut().filter(|written| written.accept_ranges) else { return };
        Arc::<AsWritten>::make_mut(written).accept_ranges = false;
        let mut was_found = false;
        self.fields.retain(|(name, _)| {
            let is_it = !was_found && name.eq_ignore_ascii_case(b"Accept-Ranges");
            was_found |= is_it;
            !is_it
        });
    }

    /// Drops digests that another server has made; digests of the configuration are its own business.
    fn drop_digests(&mut self, names: &[&[u8]]) {
        if self.as_written.is_some() {
            names.iter().for_each(|name| self.remove(name));
        }
    }
}

impl CarriedHead {
    /// Drops what describes the content that an application wanted to be sent: an error or a redirect of this server takes
    /// its place.
    pub fn drop_description(&mut self) {
        self.content_type = None;
        if !self.fields.is_empty() {
            self.fields.retain(|field| !describes_content(field));
        }
    }
}

fn describes_content((name, _): &Field) -> bool {
    DESCRIBING.iter().chain(&DIGESTS).any(|known| name.eq_ignore_ascii_case(known))
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::request::response::Body;

    /// A response of another server, with everything that describes its content.
    fn described() -> Box<Response> {
        let mut response = Response::new(Status::OK, &b"text/html"[..], Body::Empty);
        response.etag = Some(Bytes::from_static(b"\"tag\""));
        response.last_modified = Some(1);
        response.ranges = true;
        response.as_written = Some(Arc::new(AsWritten { accept_ranges: true, ..AsWritten::default() }));
        for name in DESCRIBING.iter().chain(&DIGESTS).chain([&&b"Set-Cookie"[..], &&b"Vary"[..]]) {
            response.add(*name, &b"x"[..]);
        }
        response
    }

    #[test]
    fn each_change_drops_what_it_makes_untrue() {
        for (change, etag, dated, ranges, others) in [
            (Change::CODING, Some("W/\"tag\""), true, false, false),
            (Change::ADDITION, Some("W/\"tag\""), true, false, false),
            (Change::COMMANDS, None, false, false, false),
            (Change::COMMANDS_DATED, Some("W/\"tag\""), true, false, false),
            (Change::STRINGS, None, false, false, true),
            (Change::STRINGS_DATED, Some("W/\"tag\""), true, false, true),
            (Change::LINES, Some("\"tag\""), false, false, true),
            (Change::AROUND, Some("\"tag\""), true, false, false),
            (Change::CHARSET, Some("\"tag\""), true, false, true),
            (Change::CHARSET_OF_BYTES, Some("\"tag\""), true, true, true),
        ] {
            let mut response = described();
            response.content_changes(change);
            assert_eq!(response.etag.as_deref(), etag.map(str::as_bytes), "{change:?}");
            assert_eq!(response.last_modified.is_some(), dated, "{change:?}");
            assert_eq!(response.ranges, ranges, "{change:?}");
            assert_eq!(response.field(b"Accept-Ranges").is_some(), others, "{change:?}");
            assert!(DIGESTS.iter().all(|name| response.field(name).is_none()), "{change:?}");
            assert!(response.field(b"Content-Language").is_some(), "{change:?}");
        }
    }

    #[test]
    fn a_part_keeps_the_digest_of_the_whole_representation_only() {
        let mut response = described();
        response.content_is_cut();
        for (name, stays) in [("Content-Range", false), ("Content-MD5", false), ("Repr-Digest", true), ("Digest", true)]
        {
            assert_eq!(response.field(name.as_bytes()).is_some(), stays, "{name}");
        }
    }

    #[test]
    fn a_response_in_anothers_place_has_none_of_its_description() {
        let mut page = Response::new(Status::RANGE_NOT_SATISFIABLE, &b"text/html"[..], Body::Empty);
        described().replace_content(&mut page);
        let names: Vec<_> = page.fields.iter().map(|(name, _)| name.clone()).collect();
        assert_eq!(names, ["Set-Cookie", "Vary"]);
        assert_eq!((page.etag.as_ref(), page.last_modified), (None, None));
    }
}
