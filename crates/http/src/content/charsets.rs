//! The character sets that a configuration names. The filter that recodes responses gathers them, and other servers may
//! name only these (`X-Accel-Charset`).

use bytes::Bytes;

use crate::request::Request;

/// The names of character sets in the spelling of their first use, which is shown everywhere.
#[derive(Debug, Default, Clone)]
pub struct CharsetNames(Vec<Bytes>);

impl CharsetNames {
    /// The first spelling of a name.
    pub fn spelling(&mut self, name: &str) -> Bytes {
        if let Some(known) = self.0.iter().find(|known| known.eq_ignore_ascii_case(name.as_bytes())) {
            return known.clone();
        }
        self.0.push(Bytes::copy_from_slice(name.as_bytes()));
        Bytes::copy_from_slice(name.as_bytes())
    }

    /// Whether the configuration names this character set.
    pub fn has(&self, name: &[u8]) -> bool {
        self.0.iter().any(|known| known.eq_ignore_ascii_case(name))
    }
}

/// Whether the configuration names this character set at any level: only then another server may name it.
pub fn is_known(request: &Request, name: &[u8]) -> bool {
    request.generation.parts.get::<CharsetNames>().is_some_and(|names| names.has(name))
}
