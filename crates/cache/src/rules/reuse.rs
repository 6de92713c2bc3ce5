//! Whether a stored response may be used for a request: RFC 9111 sections 4.2 and 5.2.1 (`*_cache_rfc9111 on`).

use super::Lifetime;
use super::control::{MaxStale, RequestControl};

/// The way in which a stored response is used for a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Use {
    /// The response is used.
    Fresh,
    /// The response is stale, and used, because the client accepts that (`max-stale`).
    Stale,
    /// The upstream is asked first.
    Validate,
    /// The upstream would have to be asked, and the client has forbidden that (`only-if-cached`): 504.
    Refuse,
}

/// Whether a stored response may be used, by a client's `Cache-Control`.
pub fn reuse(lifetime: &Lifetime, control: &RequestControl, now: u64) -> Use {
    let validate = if control.only_if_cached { Use::Refuse } else { Use::Validate };
    // max-age=0 asks for validation, within the first second, too.
    let too_old = control.max_age.is_some_and(|max| max == 0 || lifetime.age(now) > max);
    if control.no_cache || lifetime.no_cache || too_old {
        return validate;
    }
    if now <= lifetime.fresh_until {
        return match control.min_fresh {
            Some(seconds) if lifetime.remaining(now) < seconds => validate,
            _ => Use::Fresh,
        };
    }
    let allowed = match control.max_stale {
        MaxStale::No => false,
        MaxStale::Seconds(seconds) => now - lifetime.fresh_until <= seconds,
        MaxStale::Any => true,
    };
    if allowed && !lifetime.must_revalidate && control.min_fresh.is_none() { Use::Stale } else { validate }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_ask_for_less_or_for_more() {
        use Use::{Fresh, Refuse, Stale, Validate};
        // The response was born at 1000 and is fresh up to 1100.
        for (control, now, expected) in [
            ("", 1000, Fresh),
            ("", 1100, Fresh),
            ("", 1101, Validate),
            ("no-cache", 1000, Validate),
            ("no-cache, only-if-cached", 1000, Refuse),
            ("only-if-cached", 1100, Fresh),
            ("only-if-cached", 1101, Refuse),
            ("max-age=50", 1050, Fresh),
            ("max-age=50", 1051, Validate),
            ("max-age=0", 1000, Validate),
            ("max-age=x", 1000, Validate),
            ("min-fresh=50", 1050, Fresh),
            ("min-fresh=50", 1051, Validate),
            ("min-fresh", 1000, Validate),
            ("max-stale", 9999, Stale),
            ("max-stale=10", 1110, Stale),
            ("max-stale=10", 1111, Validate),
            ("max-stale=10, max-age=110", 1110, Stale),
            ("max-stale=10, max-age=109", 1110, Validate),
            ("max-stale, min-fresh=1", 1110, Validate),
            ("max-stale, only-if-cached", 1110, Stale),
            ("no-store", 1000, Fresh),
        ] {
            let lifetime = Lifetime { born: 1000, fresh_until: 1100, ..Lifetime::default() };
            let control = RequestControl::of([control.as_bytes()].into_iter(), std::iter::empty());
            assert_eq!(reuse(&lifetime, &control, now), expected, "{control:?} {now}");
            let strict = Lifetime { must_revalidate: true, ..lifetime };
            assert_ne!(reuse(&strict, &control, now), Stale, "{control:?} {now}");
            let never = Lifetime { no_cache: true, ..lifetime };
            assert!(matches!(reuse(&never, &control, now), Validate | Refuse), "{control:?} {now}");
        }
    }
}
