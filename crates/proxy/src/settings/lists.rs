//! Names of fields: those that are hidden, passed and ignored.

use freerun_conf::{Cx, Node, Problem, Shape, Value, keyword_enum};
use freerun_proto::HeaderId;

use crate::settings::FamilySettings;

keyword_enum! {
    /// A field of a response that is acted on, unless `ignore_headers` names it.
    pub enum Ignorable {
        /// Redirects inside the server.
        XAccelRedirect = "X-Accel-Redirect",
        /// How long it may be cached.
        XAccelExpires = "X-Accel-Expires",
        /// How fast it is sent to the client.
        XAccelLimitRate = "X-Accel-Limit-Rate",
        /// Whether it is buffered.
        XAccelBuffering = "X-Accel-Buffering",
        /// Its character set.
        XAccelCharset = "X-Accel-Charset",
        /// How long it may be cached.
        Expires = "Expires",
        /// How long it may be cached.
        CacheControl = "Cache-Control",
        /// Not cached with it.
        SetCookie = "Set-Cookie",
        /// What it depends on.
        Vary = "Vary",
    }
}

/// The name of a field, in lower case.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeaderName(pub Box<[u8]>);

impl Value for HeaderName {
    const SHAPE: Shape = Shape::exactly(1, "field");

    fn parse(directive: &Node, _: &mut Cx) -> Result<HeaderName, Problem> {
        Ok(HeaderName(directive.args[0].text.to_ascii_lowercase().into_bytes().into()))
    }
}

impl HeaderName {
    /// Whether it is this name; case does not count.
    pub fn is(&self, name: &[u8]) -> bool {
        self.0.eq_ignore_ascii_case(name)
    }
}

/// Fields that are hidden by themselves.
#[derive(Debug)]
pub struct Hidden {
    /// Those with known names, a bit each.
    pub known: Known,
    /// The names of the others.
    pub others: &'static [&'static [u8]],
}

/// A set of known names of fields.
#[derive(Debug, Clone, Copy, Default)]
pub struct Known(u64);

impl Known {
    /// These names.
    pub const fn of(ids: &[HeaderId]) -> Known {
        let mut bits = 0;
        let mut index = 0;
        while index < ids.len() {
            bits |= 1 << ids[index] as u8;
            index += 1;
        }
        Known(bits)
    }

    /// Whether this is one of them.
    #[inline]
    pub const fn has(self, id: HeaderId) -> bool {
        self.0 >> id as u8 & 1 != 0
    }
}

impl Hidden {
    /// None is.
    pub const NOTHING: Hidden = Hidden { known: Known(0), others: &[] };

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

    /// Whether a field of a response is kept from the client. `always` names those that are by themselves.
    #[inline]
    pub fn hides(&self, id: HeaderId, name: &[u8], always: &Hidden) -> bool {
        let hidden = always.has(id, name) || self.proxy_hide_header.iter().any(|hidden| hidden.is(name));
        hidden && !self.proxy_pass_header.iter().any(|passed| passed.is(name))
    }

    /// Whether a field is not acted on.
    pub fn ignores(&self, field: Ignorable) -> bool {
        self.proxy_ignore_headers.contains(field)
    }
}
