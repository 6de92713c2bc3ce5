//! Lists of field names: hidden, passed and ignored fields.

use freerun_conf::{Cx, Node, Problem, Shape, Value, into_bytes, keyword_enum};
use freerun_proto::HeaderId;

use crate::settings::FamilySettings;

keyword_enum! {
    /// A field of a response that this server acts on, unless `ignore_headers` names it.
    pub enum Ignorable {
        /// The field for redirects inside the server.
        XAccelRedirect = "X-Accel-Redirect",
        /// The field for how long the response may be cached.
        XAccelExpires = "X-Accel-Expires",
        /// The field for how fast the response is sent to the client.
        XAccelLimitRate = "X-Accel-Limit-Rate",
        /// The field for whether the response is buffered.
        XAccelBuffering = "X-Accel-Buffering",
        /// The field for the character set of the response.
        XAccelCharset = "X-Accel-Charset",
        /// The field for the time at which the response expires.
        Expires = "Expires",
        /// The field for how the response may be cached.
        CacheControl = "Cache-Control",
        /// The field that prevents caching.
        SetCookie = "Set-Cookie",
        /// The field with the names that the response depends on.
        Vary = "Vary",
    }
}

/// The name of a field, in lower case.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeaderName(pub Box<[u8]>);

impl Value for HeaderName {
    const SHAPE: Shape = Shape::exactly(1, "field");

    fn parse(directive: &Node, _: &mut Cx) -> Result<HeaderName, Problem> {
        Ok(HeaderName(into_bytes(directive.args[0].text.to_ascii_lowercase()).into()))
    }
}

impl HeaderName {
    /// Whether it is this name, ignoring case.
    pub fn is(&self, name: &[u8]) -> bool {
        self.0.eq_ignore_ascii_case(name)
    }
}

/// The fields that are hidden by default.
#[derive(Debug)]
pub struct HiddenFields {
    /// The fields with known names, a bit each.
    pub known: KnownFields,
    /// The names of the others.
    pub others: &'static [&'static [u8]],
}

/// A set of known names of fields.
#[derive(Debug, Clone, Copy, Default)]
pub struct KnownFields(u64);

impl KnownFields {
    /// The set of these names.
    pub const fn of(ids: &[HeaderId]) -> KnownFields {
        let mut bits = 0;
        let mut index = 0;
        while index < ids.len() {
            bits |= 1 << ids[index] as u8;
            index += 1;
        }
        KnownFields(bits)
    }

    /// Whether the name is in the set.
    #[inline]
    pub const fn has(self, id: HeaderId) -> bool {
        self.0 >> id as u8 & 1 != 0
    }

    /// Puts the name into the set. Returns whether it was not in it.
    #[inline]
    pub fn insert(&mut self, id: HeaderId) -> bool {
        let before = self.0;
        self.0 |= 1 << id as u8;
        self.0 != before
    }
}

impl HiddenFields {
    /// No fields.
    pub const NOTHING: HiddenFields = HiddenFields { known: KnownFields(0), others: &[] };

    #[inline]
    fn has(&self, id: HeaderId, name: &[u8]) -> bool {
        match id {
            HeaderId::Other => self.others.iter().any(|hidden| hidden.eq_ignore_ascii_case(name)),
            id => self.known.has(id),
        }
    }
}

impl FamilySettings {
    /// Whether any field is hidden or passed by its name.
    pub fn names_fields(&self) -> bool {
        self.proxy_hide_header.iter().next().is_some() || self.proxy_pass_header.iter().next().is_some()
    }

    /// Whether a field of a response is hidden from the client. `always` names the fields hidden by default.
    #[inline]
    pub fn hides(&self, id: HeaderId, name: &[u8], always: &HiddenFields) -> bool {
        let hidden = always.has(id, name) || self.proxy_hide_header.iter().any(|hidden| hidden.is(name));
        hidden && !self.proxy_pass_header.iter().any(|passed| passed.is(name))
    }

    /// Whether this server does not act on a field.
    pub fn ignores(&self, field: Ignorable) -> bool {
        self.proxy_ignore_headers.contains(field)
    }
}
