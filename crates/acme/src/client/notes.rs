//! Facts in responses beside what the library reads: how long to wait, and where other chains are.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, LINK, RETRY_AFTER};
use http::{HeaderMap, HeaderValue, Response};

/// The longest `Retry-After` that is passed on, in seconds: 30 days.
const LONGEST: u64 = 30 * 86400;
/// The number of other chains of a certificate that are looked at.
const MAX_ALTERNATES: usize = 8;

/// Notes from the responses of one conversation. The lock is held for a look by the client's own thread, the only one.
#[derive(Default)]
pub(crate) struct Notes(Mutex<ResponseNotes>);

#[derive(Default)]
struct ResponseNotes {
    retry_after: Option<Duration>,
    chain: Option<Bytes>,
    alternates: Vec<String>,
}

impl Notes {
    /// Notes what a response says.
    pub(super) fn take(&self, response: &Response<Bytes>) {
        let mut noted = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        noted.retry_after = if response.status().is_success() { None } else { retry_after(response.headers()) };
        let kind = response.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
        if response.status().is_success() && kind.starts_with("application/pem-certificate-chain") {
            noted.chain = Some(response.body().clone());
            noted.alternates = alternates(response.headers());
        }
    }

    /// The time for which the CA wants to be left alone, if the last response was an error and said so.
    pub(crate) fn retry_after(&self) -> Option<Duration> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).retry_after
    }

    /// The URLs of other chains, of the chain that came last.
    pub(crate) fn alternates(&self) -> Vec<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).alternates.clone()
    }

    /// The chain that came last, once.
    pub(crate) fn chain(&self) -> Option<String> {
        let chain = self.0.lock().unwrap_or_else(PoisonError::into_inner).chain.take()?;
        String::from_utf8(chain.into()).ok()
    }
}

/// `Retry-After` in seconds (RFC 9110, section 10.2.3). CAs send seconds with errors; a date is not read.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    headers.get(RETRY_AFTER)?.to_str().ok()?.trim().parse().ok().map(Duration::from_secs)
}

/// Makes a `Retry-After` shorter that is longer than anybody would wait: the library adds it to the clock, which has an end.
pub(super) fn bound_retry_after(headers: &mut HeaderMap) {
    let Some(value) = headers.get(RETRY_AFTER).and_then(|value| value.to_str().ok()) else { return };
    let digits = value.trim();
    if digits.bytes().all(|byte| byte.is_ascii_digit()) && digits.parse().is_ok_and(|seconds: u64| seconds > LONGEST) {
        headers.insert(RETRY_AFTER, HeaderValue::from(LONGEST));
    }
}

/// The targets of `Link: <…>;rel="alternate"` (RFC 8555, section 7.4.2; RFC 8288).
fn alternates(headers: &HeaderMap) -> Vec<String> {
    let values = headers.get_all(LINK).iter().filter_map(|value| value.to_str().ok());
    let links = values.flat_map(|value| value.split(",").map(str::trim));
    let targets = links.filter_map(|link| {
        let (target, parameters) = link.strip_prefix('<')?.split_once('>')?;
        let alternate = parameters.split(';').any(|parameter| {
            let value = parameter.trim().strip_prefix("rel=").unwrap_or_default();
            value.trim_matches('"').eq_ignore_ascii_case("alternate")
        });
        alternate.then(|| target.to_owned())
    });
    targets.take(MAX_ALTERNATES).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_and_pauses_are_noted() {
        let notes = Notes::default();
        let response = Response::builder()
            .header("content-type", "application/pem-certificate-chain; charset=utf-8")
            .header("link", "<https://ca/dir>;rel=\"index\"")
            .header("link", "<https://ca/1/1>;rel=\"alternate\", <https://ca/1/2>; rel=alternate")
            .body(Bytes::from_static(b"PEM"))
            .expect("a response");
        notes.take(&response);
        assert_eq!(notes.alternates(), ["https://ca/1/1", "https://ca/1/2"]);
        assert_eq!((notes.chain().as_deref(), notes.chain()), (Some("PEM"), None));
        let refused = Response::builder().status(429).header("retry-after", "120").body(Bytes::new());
        notes.take(&refused.expect("a response"));
        assert_eq!(notes.retry_after(), Some(Duration::from_secs(120)));
        notes.take(&response);
        assert_eq!(notes.retry_after(), None);
    }

    #[test]
    fn a_pause_without_end_is_made_shorter() {
        let bounded = |value: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(RETRY_AFTER, HeaderValue::from_str(value).expect("a value"));
            bound_retry_after(&mut headers);
            headers[RETRY_AFTER].to_str().expect("text").to_owned()
        };
        assert_eq!(bounded("18446744073709551615"), "2592000");
        // Too large to be read at all, by the library either.
        assert_eq!(bounded("99999999999999999999"), "99999999999999999999");
        assert_eq!(bounded("60"), "60");
        assert_eq!(bounded("Fri, 31 Dec 1999 23:59:59 GMT"), "Fri, 31 Dec 1999 23:59:59 GMT");
    }
}
