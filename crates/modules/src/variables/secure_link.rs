//! `secure_link`: whether a link was made with a secret, and how long it is valid.

use std::borrow::Cow;
use std::cell::Cell;

use freerun_conf::{Cx, Node, Problem, Setting, SettingsSet, Shape, group, settings};
use freerun_http::log_error;
use freerun_http::module::Module;
use freerun_http::request::Request;
use freerun_http::template::Template;
use freerun_http::variables::{Variable, VariableValue};
use freerun_runtime::log::clock;
use md5::{Digest, Md5};

settings! {
    /// Links with a checksum.
    ///
    /// There are two kinds of links: a level that has directives of one kind has nothing of the other kind from the levels
    /// outside.
    #[module = "secure_link"]
    pub struct SecureLinkSettings {
        /// The checksum of a link (MD5 in Base64 for URLs), and after a comma its expiry time, in seconds since 1970.
        #[name = "secure_link"]
        links: Links, in HTTP | SERVER | LOCATION;
    }
    also {
        /// The text from which the checksum is computed.
        "secure_link_md5" => links: Template::SHAPE, in HTTP | SERVER | LOCATION;
        /// The secret word of links of the form `/prefix/checksum/link`, whose checksum is the MD5 of link and word, in
        /// hexadecimal.
        "secure_link_secret" => links: String::SHAPE, in LOCATION;
    }
}

/// The links of a level: those that `secure_link` and `secure_link_md5` describe, or those with a secret word.
#[derive(Debug, Clone, Default)]
pub struct Links {
    link: Option<Template>,
    md5: Option<Template>,
    secret: Option<String>,
}

impl Links {
    /// Whether there are directives of both kinds.
    fn is_mixed(&self) -> bool {
        self.secret.is_some() && (self.link.is_some() || self.md5.is_some())
    }
}

impl Setting for Links {
    const SHAPE: Shape = Template::SHAPE;

    fn set(previous: Option<Links>, directive: &Node, cx: &mut Cx) -> Result<Links, Problem> {
        let mut links = previous.unwrap_or_default();
        match directive.name.text.as_str() {
            "secure_link_secret" => links.secret = Setting::set(links.secret.map(Some), directive, cx)?,
            "secure_link_md5" => links.md5 = Setting::set(links.md5.map(Some), directive, cx)?,
            _ => links.link = Setting::set(links.link.map(Some), directive, cx)?,
        }
        Ok(links)
    }

    fn merge(level: Option<Links>, outer: &Links) -> Links {
        let Some(level) = level else { return outer.clone() };
        if level.secret.is_some() {
            return level;
        }
        Links {
            link: level.link.or_else(|| outer.link.clone()),
            md5: level.md5.or_else(|| outer.md5.clone()),
            secret: None,
        }
    }
}

/// The module `secure_link`.
pub static MODULE: Module = Module {
    name: "secure_link",
    groups: &[group::<SecureLinkSettings>()],
    variables: &[
        Variable::named(
            "secure_link",
            "The result of checking a link: empty if its hash is wrong, `0` if its time is over, `1` if it is \
             good; with `secure_link_secret` the link itself.",
            secure_link,
        ),
        Variable::named(
            "secure_link_expires",
            "The time in the link until which it is good, in seconds since 1970.",
            expires,
        ),
    ],
    settle: Some(settle),
    ..Module::EMPTY
};

fn settle(settings: &SettingsSet, _: &mut Cx) -> Result<(), Problem> {
    if settings.get::<SecureLinkSettings>().links.is_mixed() {
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
fn link<'r>(request: &'r Request, links: &'r Links) -> Option<Link<'r>> {
    let value = links.link.as_ref()?.render(request);
    let Some(comma) = memchr::memchr(b',', &value) else { return Some(Link { checksum: value, expires: None }) };
    let text = value[comma + 1..].to_vec();
    let digits = text.iter().all(u8::is_ascii_digit);
    let time = std::str::from_utf8(&text).ok().filter(|_| digits)?.parse().ok().filter(|time| *time > 0)?;
    Some(Link { checksum: value[..comma].to_vec().into(), expires: Some((time, text)) })
}

/// The variables that are being evaluated.
#[derive(Default)]
struct LinkParts {
    link: Cell<bool>,
    expires: Cell<bool>,
}

/// Evaluates a variable whose parts may name it: no value if it would need itself.
fn once<'r>(
    request: &'r Request,
    pending: fn(&LinkParts) -> &Cell<bool>,
    find: impl FnOnce(&'r Request) -> VariableValue<'r>,
) -> VariableValue<'r> {
    let state = request.own.get::<LinkParts>();
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
fn secure_link<'r>(request: &'r Request, _: &str) -> VariableValue<'r> {
    once(request, |pending| &pending.link, check)
}

fn check(request: &Request) -> VariableValue<'_> {
    let links = &request.settings().get::<SecureLinkSettings>().links;
    if let Some(secret) = &links.secret {
        return with_secret(request, secret).map(Cow::Borrowed);
    }
    let text = links.md5.as_ref()?;
    let Link { checksum, expires } = link(request, links)?;
    if !same(&decode(&checksum)?, &Md5::digest(text.render(request))) {
        return None;
    }
    let over = expires.is_some_and(|(time, _)| time < clock::now().secs);
    Some(Cow::Borrowed(if over { b"0" } else { b"1" }))
}

fn expires<'r>(request: &'r Request, _: &str) -> VariableValue<'r> {
    once(request, |pending| &pending.expires, time)
}

fn time(request: &Request) -> VariableValue<'_> {
    let links = &request.settings().get::<SecureLinkSettings>().links;
    links.md5.as_ref()?;
    let (_, text) = link(request, links)?.expires?;
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
