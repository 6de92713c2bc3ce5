//! `next_upstream` and `cache_use_stale`: the failures after which a request is tried with the next server, or a stale
//! response is used.

use freerun_conf::{Cx, Flags, Node, Problem, Setting, Shape, keyword_enum, unknown_keyword};

keyword_enum! {
    /// A condition of `proxy_next_upstream`, on which a request goes to the next server.
    pub enum NextUpstream {
        /// The connection failed, or broke before the head was complete.
        Error = "error",
        /// A timeout expired.
        Timeout = "timeout",
        /// The head was empty or invalid.
        InvalidHeader = "invalid_header",
        /// Requests that are not idempotent are sent again, too.
        NonIdempotent = "non_idempotent",
        /// The status was 500.
        Http500 = "http_500",
        /// The status was 502.
        Http502 = "http_502",
        /// The status was 503.
        Http503 = "http_503",
        /// The status was 504.
        Http504 = "http_504",
        /// The status was 403.
        Http403 = "http_403",
        /// The status was 404.
        Http404 = "http_404",
        /// The status was 429.
        Http429 = "http_429",
        /// The server may not be asked: `proxy_allow_upstream`.
        Denied = "denied",
        /// Only for caching: another request is updating the response already.
        Updating = "updating",
        /// Never.
        Off = "off",
    }
}

impl NextUpstream {
    /// The condition that a status meets.
    pub fn of_status(status: u16) -> Option<NextUpstream> {
        Some(match status {
            500 => NextUpstream::Http500,
            502 => NextUpstream::Http502,
            503 => NextUpstream::Http503,
            504 => NextUpstream::Http504,
            403 => NextUpstream::Http403,
            404 => NextUpstream::Http404,
            429 => NextUpstream::Http429,
            _ => return None,
        })
    }
}

/// The conditions of one level. With `off` there are no others in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Causes(pub Flags<NextUpstream>);

/// The words in which members differ; they all have `error`, `timeout` and `off`.
const COMMON: &[&str] = &[
    "error",
    "timeout",
    "denied",
    "invalid_header",
    "non_idempotent",
    "http_500",
    "http_503",
    "http_403",
    "http_404",
    "http_429",
];
const HTTP: &[&str] = &["http_502", "http_504"];
/// nginx accepts it here, too, but it has a meaning only for caching.
const UPDATING: &str = "updating";
const TUNNEL: &[&str] = &["error", "timeout", "denied", "off"];
const MEMCACHED: &[&str] = &["error", "timeout", "denied", "invalid_response", "not_found", "off"];

/// The words that a member accepts, derived from the directive's name.
fn words(directive: &str) -> Vec<&'static str> {
    match directive.split('_').next() {
        Some("memcached") => MEMCACHED.to_vec(),
        Some("tunnel") => TUNNEL.to_vec(),
        Some("proxy") => [COMMON, HTTP, &[UPDATING, "off"]].concat(),
        Some("grpc") => [COMMON, HTTP, &["off"]].concat(),
        _ => [COMMON, &[UPDATING, "off"]].concat(),
    }
}

/// The meaning of a word. memcached has its own words for an invalid header, and for the status of a missing value.
fn meaning(word: &str) -> Option<NextUpstream> {
    NextUpstream::from_word(match word {
        "invalid_response" => "invalid_header",
        "not_found" => "http_404",
        word => word,
    })
}

impl Setting for Causes {
    const SHAPE: Shape = Shape::at_least(1, "cause … | off");

    /// Several directives of one level add up, as in nginx.
    fn set(previous: Option<Causes>, directive: &Node, cx: &mut Cx) -> Result<Causes, Problem> {
        let words = words(&directive.name.text);
        let mut causes = previous.unwrap_or_default().0;
        let mut seen: Vec<&str> = Vec::new();
        for word in &directive.args {
            let Some(known) = words.iter().find(|known| known.eq_ignore_ascii_case(&word.text)) else {
                return Err(unknown_keyword(directive, word, &words));
            };
            if seen.contains(known) {
                let message = format!("duplicate value \"{}\"", word.text);
                cx.warn(Problem::warning(message).at_node(directive).at(word.place));
            }
            seen.push(known);
            if let Some(cause) = meaning(known) {
                causes.insert(cause);
            }
        }
        if causes.contains(NextUpstream::Off) {
            causes = Flags::default();
            causes.insert(NextUpstream::Off);
        }
        Ok(Causes(causes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_take_different_words() {
        let has = |directive, word| words(directive).contains(&word);
        assert!(has("proxy_next_upstream", "http_502") && !has("proxy_next_upstream", "not_found"));
        assert!(has("scgi_next_upstream", "http_503") && !has("scgi_next_upstream", "http_504"));
        assert!(has("grpc_next_upstream", "http_502") && !has("grpc_next_upstream", "updating"));
        assert_eq!(
            words("memcached_next_upstream"),
            ["error", "timeout", "denied", "invalid_response", "not_found", "off"]
        );
    }

    #[test]
    fn every_word_has_a_meaning() {
        for word in ["proxy_", "uwsgi_", "memcached_", "tunnel_"].iter().flat_map(|prefix| words(prefix)) {
            assert!(meaning(word).is_some(), "{word}");
        }
    }
}
