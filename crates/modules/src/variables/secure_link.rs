//! `secure_link`: whether a link was made with a secret, and how long it is valid.

use std::borrow::Cow;
use std::cell::Cell;

use freerun_conf::{Cx, Problem, SettingsSet, group, settings};
use freerun_http::log_error;
use freerun_http::module::Module;
use freerun_http::request::Request;
use freerun_http::template::Template;
use freerun_http::variables::{Value, Variable};
use freerun_runtime::log::clock;
use md5::{Digest, Md5};

settings! {
    /// Links with a checksum.
    #[module = "secure_link"]
    pub struct SecureLinkSettings {
        /// The checksum of a link (MD5 in Base64 for URLs), and after a comma its expiry time, in seconds since 1970.
        secure_link: Option<Template>, in HTTP | SERVER | LOCATION;
        /// The text from which the checksum is computed.
        secure_link_md5: Option<Template>, in HTTP | SERVER | LOCATION;
        /// The secret word of links of the form `/prefix/checksum/link`, whose checksum is that of link and word, in
        /// hexadecimal.
        secure_link_secret: Option<String>, in LOCATION;
    }
}

/// The module `secure_link`.
pub static MODULE: Module = Module {
    name: "secure_link",
    groups: &[group::<SecureLinkSettings>()],
    variables: &[Variable::named("secure_link", secure_link), Variable::named("secure_link_expires", expires)],
    settle: Some(settle),
    ..Module::EMPTY
};

fn settle(settings: &SettingsSet, _: &mut Cx) -> Result<(), Problem> {
    let settings = settings.get::<SecureLinkSettings>();
    let other = settings.secure_link.is_some() || settings.secure_link_md5.is_some();
    if settings.secure_link_secret.is_some() && other {
        let message = "\"secure_link_secret\" cannot be mixed with \"secure_link\" and \"secure_link_md5\"";
        return Err(Problem::new(message));
    }
    Ok(())
}

/// The checksum and the expiry time of a link.
struct Link<'r> {
    checksum: Cow<'r, [u8]>,
    expires: Option<(i64, Vec<u8>)>,
}

/// The parsed value of `secure_link`; `None` without it, and if the expiry time is not valid.
fn link<'r>(request: &'r Request, settings: &'r SecureLinkSettings) -> Option<Link<'r>> {
    let value = settings.secure_link.as_ref()?.render(request);
    let Some(comma) = memchr::memchr(b',', &value) else { return Some(Link { checksum: value, expires: None }) };
    let text = value[comma + 1..].to_vec();
    let digits = text.iter().all(u8::is_ascii_digit);
    let time = std::str::from_utf8(&text).ok().filter(|_| digits)?.parse().ok().filter(|time| *time > 0)?;
    Some(Link { checksum: value[..comma].to_vec().into(), expires: Some((time, text)) })
}

/// The variables that are being evaluated.
#[derive(Default)]
struct Pending {
    link: Cell<bool>,
    expires: Cell<bool>,
}

/// Evaluates a variable whose parts may name it: no value if it would need itself.
fn once<'r>(
    request: &'r Request,
    pending: fn(&Pending) -> &Cell<bool>,
    find: impl FnOnce(&'r Request) -> Value<'r>,
) -> Value<'r> {
    let state = request.own.get::<Pending>();
    if pending(&state).replace(true) {
        log_error!(request, Error, "cycle while evaluating variable \"secure_link\"");
        return None;
    }
    let value = find(request);
    pending(&state).set(false);
    value
}

/// The value: `1` for a valid link, `0` for an expired one; the link itself for one with a secret word; empty for a
/// wrong one.
fn secure_link<'r>(request: &'r Request, _: &str) -> Value<'r> {
    once(request, |pending| &pending.link, check)
}

fn check(request: &Request) -> Value<'_> {
    let settings = request.settings().get::<SecureLinkSettings>();
    if let Some(secret) = &settings.secure_link_secret {
        return with_secret(request, secret).map(Cow::Borrowed);
    }
    let text = settings.secure_link_md5.as_ref()?;
    let Link { checksum, expires } = link(request, settings)?;
    if !same(&decode(&checksum)?, &Md5::digest(text.render(request))) {
        return None;
    }
    let over = expires.is_some_and(|(time, _)| time < clock::now().secs);
    Some(Cow::Borrowed(if over { b"0" } else { b"1" }))
}

fn expires<'r>(request: &'r Request, _: &str) -> Value<'r> {
    once(request, |pending| &pending.expires, time)
}

fn time(request: &Request) -> Value<'_> {
    let settings = request.settings().get::<SecureLinkSettings>();
    settings.secure_link_md5.as_ref()?;
    let (_, text) = link(request, settings)?.expires?;
    Some(Cow::Owned(text))
}

/// The link of `/prefix/checksum/link`, as it came, arguments included.
fn with_secret<'r>(request: &'r Request, secret: &str) -> Option<&'r [u8]> {
    let uri = request.head.uri();
    let mut parts = uri.strip_prefix(b"/")?.splitn(3, |byte| *byte == b'/');
    let (_, checksum, link) = (parts.next()?, parts.next()?, parts.next()?);
    if checksum.len() != 32 || link.is_empty() {
        return None;
    }
    let wanted = Md5::new().chain_update(link).chain_update(secret).finalize();
    let mut given = [0; 16];
    for (byte, digits) in given.iter_mut().zip(checksum.chunks(2)) {
        let digits = std::str::from_utf8(digits).ok().filter(|digits| digits.bytes().all(|d| d.is_ascii_hexdigit()))?;
        *byte = u8::from_str_radix(digits, 16).ok()?;
    }
    same(&given, &wanted).then_some(link)
}

/// Whether two checksums are equal, in a time that does not depend on their contents, so that a client cannot guess one
/// byte by byte.
fn same(one: &[u8], other: &[u8]) -> bool {
    let differ = one.iter().zip(other).fold(0, |differ, (one, other)| std::hint::black_box(differ | (one ^ other)));
    one.len() == other.len() && differ == 0
}

/// The longest Base64 of 16 bytes, with its padding.
const MAX_CHECKSUM: usize = 24;

/// Decodes Base64 for URLs (RFC 4648 section 5) of 16 bytes.
fn decode(text: &[u8]) -> Option<[u8; 16]> {
    if text.len() > MAX_CHECKSUM || text.iter().any(|byte| matches!(byte, b'+' | b'/')) {
        return None;
    }
    let plain: Vec<u8> = text
        .iter()
        .map(|byte| match byte {
            b'-' => b'+',
            b'_' => b'/',
            byte => *byte,
        })
        .collect();
    freerun_proto::credentials::decode_base64(&plain)?.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_byte_that_differs_counts_wherever_it_is() {
        let checksum: [u8; 16] = std::array::from_fn(|at| at as u8 * 17);
        assert!(same(&checksum, &checksum));
        for at in 0..16 {
            for bit in 0..8 {
                let mut other = checksum;
                other[at] ^= 1 << bit;
                assert!(!same(&checksum, &other));
            }
        }
        assert!(!same(&checksum, &checksum[..15]) && !same(b"", &checksum));
    }
}
