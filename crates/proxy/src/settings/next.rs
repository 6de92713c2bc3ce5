//! `next_upstream`: after what a request is tried with the next server, and `cache_use_stale`: after what a stale response is
//! used.

use freerun_conf::{Cx, Flags, Node, Problem, Setting, Shape, keyword_enum, unknown_keyword};

keyword_enum! {
    /// When a request goes to the next server: `proxy_next_upstream`.
    pub enum NextUpstream {
        /// The connection failed, or broke before there was a head.
        Error = "error",
        /// It took too long.
        Timeout = "timeout",
        /// An empty or an invalid head.
        InvalidHeader = "invalid_header",
        /// Requests that are not idempotent are sent again, too.
        NonIdempotent = "non_idempotent",
        /// 500
        Http500 = "http_500",
        /// 502
        Http502 = "http_502",
        /// 503
        Http503 = "http_503",
        /// 504
        Http504 = "http_504",
        /// 403
        Http403 = "http_403",
        /// 404
        Http404 = "http_404",
        /// 429
        Http429 = "http_429",
        /// The server may not be asked: `proxy_allow_upstream`.
        Denied = "denied",
        /// Only for what is cached: somebody else is asking already.
        Updating = "updating",
        /// Never.
        Off = "off",
    }
}

impl NextUpstream {
    /// The condition that a status is.
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

/// The causes of one level. With `off` there is nothing else in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Causes(pub Flags<NextUpstream>);

/// The words that members differ in; they all have `error`, `timeout` and `off`.
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
/// nginx takes it here, too, but it means something only for what is cached.
const UPDATING: &str = "updating";
const MEMCACHED: &[&str] = &["error", "timeout", "denied", "invalid_response", "not_found", "off"];

/// The words that a member takes, told by the directive's name.
fn words(directive: &str) -> Vec<&'static str> {
    match directive.split('_').next() {
        Some("memcached") => MEMCACHED.to_vec(),
        Some("proxy" | "grpc") => [COMMON, HTTP, &[UPDATING, "off"]].concat(),
        _ => [COMMON, &[UPDATING, "off"]].concat(),
    }
}

/// What a word means. memcached has its own for an invalid header, and for the status that stands for the lack of a value.
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
        assert_eq!(
            words("memcached_next_upstream"),
            ["error", "timeout", "denied", "invalid_response", "not_found", "off"]
        );
    }

    #[test]
    fn every_word_has_a_meaning() {
        for word in ["proxy_", "uwsgi_", "memcached_"].iter().flat_map(|prefix| words(prefix)) {
            assert!(meaning(word).is_some(), "{word}");
        }
    }
}
