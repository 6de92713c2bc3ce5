//! The page that shows the state in a browser.
//!
//! It is one document with its style and its script inside, and loads nothing else. So it works from the binary alone,
//! and the policy that is sent with it forbids anything more. The script asks for the same address as JSON.

use std::sync::LazyLock;

use aws_lc_rs::digest::{SHA256, digest};
use bytes::Bytes;
use data_encoding::BASE64;
use freerun_http::request::response::Response;

use crate::filters::compress::accept_encoding;
use crate::html;

/// The document, with places for the style and the script.
const DOCUMENT: &str = include_str!("page.html");
/// The beginning of the document's element, which may have attributes.
const BEGIN: &[u8] = b"<html lang=\"en\"";
const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = concat!(
    include_str!("page.js"),
    include_str!("actions.js"),
    include_str!("routes.js"),
    include_str!("views.js"),
    include_str!("ask.js")
);

/// The document as it is sent.
static PAGE: LazyLock<Bytes> = LazyLock::new(|| DOCUMENT.replace("{css}", STYLE).replace("{js}", SCRIPT).into());

/// The value of `Content-Security-Policy`: only this style and this script, named by their hashes, and requests to this server.
/// A name that came from a client and was shown as HTML by mistake would do nothing.
static POLICY: LazyLock<Bytes> = LazyLock::new(|| {
    let hash = |text: &str| BASE64.encode(digest(&SHA256, text.as_bytes()).as_ref());
    let (style, script) = (hash(STYLE), hash(SCRIPT));
    format!(
        "default-src 'none'; style-src 'sha256-{style}'; script-src 'sha256-{script}'; connect-src 'self'; img-src data:; \
         base-uri 'none'; form-action 'none'; frame-ancestors 'self'"
    )
    .into()
});

/// Whether a client that sends this `Accept` is a browser: it names `text/html`, and likes it no less than JSON. Programs that
/// send no `Accept`, or `*/*`, get JSON.
pub fn preferred(accept: &[u8]) -> bool {
    let html = accept_encoding::quality(accept, "text/html");
    html > 0 && html >= accept_encoding::quality(accept, "application/json")
}

/// The type of the document.
pub const CONTENT_TYPE: &str = "text/html; charset=utf-8";

/// The document. It knows the path of an API that may change something, if there is one.
pub fn text(api: Option<&str>) -> Bytes {
    let Some(api) = api else { return PAGE.clone() };
    let mut attribute = b" data-api=\"".to_vec();
    html::escape(api.as_bytes(), &mut attribute);
    attribute.push(b'"');
    let begin = memchr::memmem::find(&PAGE, BEGIN).map_or(0, |at| at + BEGIN.len());
    [&PAGE[..begin], &attribute, &PAGE[begin..]].concat().into()
}

/// Adds the fields that keep a browser from doing anything with the page but showing it.
pub fn protect(response: &mut Response) {
    response.add(Bytes::from_static(b"Content-Security-Policy"), POLICY.clone());
    response.add(Bytes::from_static(b"Referrer-Policy"), Bytes::from_static(b"no-referrer"));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn browsers_get_the_page_and_programs_do_not() {
        for (accept, html) in [
            ("text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,*/*;q=0.8", true),
            ("text/html", true),
            ("application/json, text/html", true),
            ("application/json, text/html;q=0.9", false),
            ("text/html;q=0", false),
            ("", false),
            ("*/*", false),
            ("application/json", false),
            ("text/plain;version=0.0.4", false),
        ] {
            assert_eq!(preferred(accept.as_bytes()), html, "{accept}");
        }
    }

    #[test]
    fn the_page_is_small_and_loads_nothing() {
        let page = std::str::from_utf8(&PAGE).unwrap();
        // Its parts contain no place for another, which would be replaced.
        assert!(page.contains(STYLE) && page.contains(SCRIPT));
        assert!(page.len() <= 72 * 1024, "{}", page.len());
        for way in ["src=", "import ", "@import", "innerHTML", "insertAdjacentHTML", "document.write", "style="] {
            assert!(!page.contains(way), "{way}");
        }
        let known = text(Some("/a\"b"));
        assert!(std::str::from_utf8(&known).unwrap().contains("<html lang=\"en\" data-api=\"/a&quot;b\">"));
        let addresses: Vec<&str> =
            page.match_indices("http").map(|(at, _)| &page[at..page.len().min(at + 26)]).collect();
        // The name of the vocabulary of SVG is no address that is loaded; other words that begin so have no "://".
        assert!(
            addresses.iter().all(|text| !text.contains("://") || text.contains("www.w3.org/2000")),
            "{addresses:?}"
        );
    }
}
