//! Tables of the rules of RFC 9111.

use super::*;
use crate::rules::control::RequestControl;
use crate::rules::{IgnoredFields, Valid};
use bytes::Bytes;
use freerun_proto::date::imf_fixdate;
use proptest::prelude::*;

const NOW: u64 = 1_800_000_000;

/// Makes fields of `Name: value|…`, where `{-5}` is a date five seconds ago.
fn fields(text: &str) -> Vec<Field> {
    let value = |value: &str| match value.strip_prefix('{').and_then(|v| v.strip_suffix('}')) {
        Some(offset) => Bytes::from(imf_fixdate(NOW as i64 + offset.parse::<i64>().expect("an offset")).to_vec()),
        None => Bytes::from(value.to_owned()),
    };
    let pair = |line: &str| line.split_once(':').map(|(name, v)| (Bytes::from(name.to_owned()), value(v.trim())));
    text.split('|').filter_map(pair).collect()
}

fn judged(asked: &RequestFacts, status: u16, text: &str, rules: &Rules<'_>) -> Result<Lifetime, NotStoredReason> {
    let fields = fields(text);
    match judge(asked, &Answer { status, fields: &fields }, rules, NOW) {
        Verdict::Store { lifetime, .. } => Ok(lifetime),
        Verdict::DoNot(why) => Err(why),
    }
}

fn asked() -> RequestFacts {
    RequestFacts { sent: NOW, ..RequestFacts::default() }
}

/// The seconds for which a response stays fresh, counted as RFC 9111 does: 0 for a response that is stored stale.
fn seconds(status: u16, text: &str) -> Result<i64, NotStoredReason> {
    let lifetime = judged(&asked(), status, text, &Rules::default())?;
    Ok(if lifetime.no_cache { -1 } else { lifetime.fresh_until as i64 + 1 - NOW as i64 })
}

#[test]
fn lifetimes() {
    use NotStoredReason::{Expired, NoCache, NoLifetime, NoStore, Private, Unreadable};
    for (status, text, expected) in [
        (200, "", Err(NoLifetime)),
        (200, "Cache-Control: max-age=100", Ok(100)),
        (599, "Cache-Control: max-age=100", Ok(100)),
        (200, "Cache-Control: max-age=\"100\"", Ok(100)),
        (200, "Cache-Control: s-maxage=50, max-age=100", Ok(50)),
        (200, "Cache-Control: max-age=100|Cache-Control: s-maxage=50", Ok(50)),
        (200, "Cache-Control: max-age=1800|Cache-Control: max-age=1", Ok(1800)),
        (200, "Cache-Control: max-age=0", Err(Expired)),
        (200, "Cache-Control: max-age=0|ETag: x", Ok(0)),
        (200, "Cache-Control: max-age=0, stale-if-error=5", Ok(0)),
        (200, "Cache-Control: max-age=x", Err(Unreadable)),
        (200, "Cache-Control: max-age=x|Last-Modified: {-100}", Ok(0)),
        (200, "Cache-Control: s-maxage=x, max-age=100", Err(Unreadable)),
        (200, "Cache-Control: max-age=99999999999", Ok(1 << 31)),
        // Expires
        (200, "Expires: {100}", Ok(100)),
        (200, "Expires: {100}|Date: {-50}", Ok(100)),
        (200, "Expires: {100}|Date: {50}", Ok(50)),
        (200, "Expires: {-100}", Err(Expired)),
        (200, "Expires: {0}", Err(Expired)),
        (200, "Expires: 0", Err(Unreadable)),
        (200, "Expires: {-100}|Cache-Control: max-age=5", Ok(5)),
        (200, "Expires: 0|Cache-Control: max-age=5", Ok(5)),
        (200, "Expires: {100}|Cache-Control: max-age=0", Err(Expired)),
        (200, "Expires: {100}|Expires: {5}", Ok(100)),
        // Age
        (200, "Cache-Control: max-age=100|Age: 30", Ok(70)),
        (200, "Cache-Control: max-age=100|Age: 300", Err(Expired)),
        (200, "Cache-Control: max-age=100|Date: {-30}", Ok(70)),
        (200, "Cache-Control: max-age=100|Date: {-30}|Age: 40", Ok(60)),
        (200, "Cache-Control: max-age=100|Date: {30}", Ok(100)),
        (200, "Cache-Control: max-age=100|Date: x", Ok(100)),
        (200, "Cache-Control: max-age=100|Age: x", Err(Expired)),
        (200, "Cache-Control: max-age=100|Age: -1", Err(Expired)),
        (200, "Cache-Control: max-age=100|Age: 0, 0", Err(Expired)),
        (200, "Cache-Control: max-age=100|Age: 0|Age: 0", Err(Expired)),
        (200, "Cache-Control: max-age=100|Age: 1.0", Err(Expired)),
        (200, "Cache-Control: max-age=100|Age:", Err(Expired)),
        (200, "Cache-Control: max-age=9999999|Age: 99999999999999999999", Err(Expired)),
        // heuristics
        (200, "Last-Modified: {-1000}", Ok(100)),
        (200, "Last-Modified: {-1000}|Date: {-10}", Ok(89)),
        (200, "Last-Modified: {-100000000}", Ok(86_400)),
        (200, "Last-Modified: {0}", Ok(0)),
        (200, "Last-Modified: {100}", Err(NoLifetime)),
        (200, "Last-Modified: x", Err(NoLifetime)),
        (200, "ETag: x", Err(NoLifetime)),
        (404, "Last-Modified: {-1000}", Ok(100)),
        (308, "Last-Modified: {-1000}", Ok(100)),
        (201, "Last-Modified: {-1000}", Err(NoLifetime)),
        (503, "Last-Modified: {-1000}", Err(NoLifetime)),
        (599, "Last-Modified: {-1000}", Err(NoLifetime)),
        (599, "Last-Modified: {-1000}|Cache-Control: public", Ok(100)),
        (302, "Last-Modified: {-1000}", Err(NoLifetime)),
        // reasons not to store
        (200, "Cache-Control: no-store, max-age=100", Err(NoStore)),
        (200, "Cache-Control: private, max-age=100", Err(Private)),
        (200, "Cache-Control: private=\"a\", max-age=100", Ok(100)),
        (200, "Cache-Control: no-cache, max-age=100", Err(NoCache)),
        (200, "Cache-Control: no-cache, max-age=100|ETag: x", Ok(-1)),
        (200, "Cache-Control: no-cache|ETag: x", Ok(-1)),
        (200, "Cache-Control: no-cache=\"a\", max-age=100", Ok(100)),
        (200, "Cache-Control: no-storex, max-age=100", Ok(100)),
        (200, "Cache-Control: must-understand, no-store, max-age=100", Ok(100)),
        (599, "Cache-Control: must-understand, max-age=100", Err(NotStoredReason::Status)),
        (206, "Cache-Control: max-age=100", Err(NotStoredReason::Status)),
        (304, "Cache-Control: max-age=100", Err(NotStoredReason::Status)),
        (101, "Cache-Control: max-age=100", Err(NotStoredReason::Status)),
        (200, "Cache-Control: max-age=100|Set-Cookie: a", Err(NotStoredReason::SetCookie)),
        (200, "Cache-Control: max-age=100|Vary: a, *", Err(NotStoredReason::Vary)),
        (200, "Cache-Control: max-age=100|Vary: a", Ok(100)),
        // nginx's field is in front of everything
        (200, "X-Accel-Expires: 10|Cache-Control: no-store, private|Age: 99|Expires: 0", Ok(11)),
        (200, "X-Accel-Expires: 0|Cache-Control: max-age=5|ETag: x", Err(Expired)),
        (200, "X-Accel-Expires: x|Cache-Control: max-age=5", Ok(5)),
    ] {
        assert_eq!(seconds(status, text), expected, "{status} {text}");
    }
}

#[test]
fn ages() {
    let age = |text, sent, later| {
        judged(&RequestFacts { sent, ..asked() }, 200, text, &Rules::default())
            .map(|lifetime| lifetime.age(NOW + later))
    };
    assert_eq!(age("Cache-Control: max-age=100", NOW, 0), Ok(0));
    assert_eq!(age("Cache-Control: max-age=100", NOW, 7), Ok(7));
    assert_eq!(age("Cache-Control: max-age=100|Age: 30", NOW, 7), Ok(37));
    assert_eq!(age("Cache-Control: max-age=100|Age: 30", NOW - 3, 7), Ok(40));
    assert_eq!(age("Cache-Control: max-age=100|Date: {-30}|Age: 20", NOW - 3, 7), Ok(37));
    assert_eq!(age("X-Accel-Expires: 9|Age: 30", NOW, 0), Ok(30));
}

#[test]
fn stale_use() {
    let of = |text: &str| {
        let l = judged(&asked(), 200, text, &Rules::default()).expect("stored");
        (l.stale_while_revalidate, l.stale_if_error, l.must_revalidate)
    };
    assert_eq!(of("Cache-Control: max-age=1"), (0, 0, false));
    assert_eq!(of("Cache-Control: max-age=1, stale-while-revalidate=5, stale-if-error=\"7\""), (5, 7, false));
    assert_eq!(of("Cache-Control: max-age=1, stale-while-revalidate=x"), (0, 0, false));
    for strict in ["must-revalidate", "proxy-revalidate", "s-maxage=1"] {
        let text = format!("Cache-Control: max-age=1, stale-if-error=7, {strict}");
        assert_eq!(of(&text), (0, 0, true), "{text}");
    }
}

#[test]
fn authorization_and_what_the_client_says() {
    let authorized = RequestFacts { authorization: true, ..asked() };
    let judged_for = |asked: &RequestFacts, text: &str| judged(asked, 200, text, &Rules::default()).map(|_| ());
    assert_eq!(judged_for(&authorized, "Cache-Control: max-age=1"), Err(NotStoredReason::Authorization));
    assert_eq!(judged_for(&authorized, "Expires: {100}"), Err(NotStoredReason::Authorization));
    assert_eq!(
        judged_for(&authorized, "Cache-Control: max-age=1, proxy-revalidate"),
        Err(NotStoredReason::Authorization)
    );
    for allowed in ["public", "must-revalidate", "s-maxage=5"] {
        assert_eq!(judged_for(&authorized, &format!("Cache-Control: max-age=1, {allowed}")), Ok(()), "{allowed}");
    }
    assert_eq!(judged_for(&authorized, "X-Accel-Expires: 5"), Ok(()));
    let secret = RequestFacts { control: RequestControl { no_store: true, ..RequestControl::default() }, ..asked() };
    assert_eq!(judged_for(&secret, "Cache-Control: max-age=1"), Err(NotStoredReason::NoStore));
    let ranged = RequestFacts { ranged: true, ..asked() };
    assert!(judged(&ranged, 206, "Cache-Control: max-age=1", &Rules::default()).is_ok());
}

#[test]
fn what_is_configured() {
    let mut valid = Valid::default();
    valid.push(&[], 30);
    let rules = Rules { valid: Some(&valid), ..Rules::default() };
    let until = |status, text| judged(&asked(), status, text, &rules).map(|l| l.fresh_until + 1 - NOW);
    assert_eq!(until(200, ""), Ok(30));
    assert_eq!(until(200, "Last-Modified: {-100000}"), Ok(30));
    assert_eq!(until(200, "Cache-Control: max-age=5"), Ok(5));
    assert_eq!(until(302, ""), Ok(30));
    assert_eq!(until(500, ""), Err(NotStoredReason::NoLifetime));
    assert_eq!(until(200, "Cache-Control: no-store"), Err(NotStoredReason::NoStore));
    let all = IgnoredFields { accel_expires: true, expires: true, cache_control: true, set_cookie: true, vary: true };
    let rules = Rules { valid: Some(&valid), ignored: all, ..Rules::default() };
    let text = "Cache-Control: no-store|Expires: 0|X-Accel-Expires: 0|Set-Cookie: a|Vary: *";
    assert_eq!(judged(&asked(), 200, text, &rules).map(|l| l.fresh_until + 1 - NOW), Ok(30));
}

#[test]
fn a_304_renews() {
    for (stored, not_modified, expected) in [
        ("Cache-Control: max-age=5|ETag: x|Date: {-100}|Age: 90", "Date: {0}", Some(5)),
        ("Cache-Control: max-age=5|ETag: x|Date: {-100}|Age: 90", "", Some(5)),
        ("Cache-Control: max-age=5|ETag: x", "Cache-Control: max-age=50|Age: 10", Some(40)),
        ("Cache-Control: max-age=5|ETag: x", "Cache-Control: max-age=0", Some(0)),
        ("Cache-Control: max-age=5|ETag: x", "Cache-Control: public", None),
        ("Expires: {10}|ETag: x", "Expires: {20}|Date: {0}", Some(20)),
        ("Last-Modified: {-1000}|Date: {-100}", "Date: {0}", Some(100)),
        ("Cache-Control: max-age=5|ETag: x", "Set-Cookie: a", Some(5)),
    ] {
        let (old, new) = (fields(stored), fields(not_modified));
        let stored_answer = Answer { status: 200, fields: &old };
        let seconds = match revalidated(&asked(), &stored_answer, &new, &Rules::default(), NOW) {
            Revalidation::Until(lifetime) => Some(lifetime.fresh_until + 1 - NOW),
            Revalidation::Stays => None,
            Revalidation::Goes(why) => panic!("{why:?}"),
        };
        assert_eq!(seconds, expected, "{stored}, {not_modified}");
    }
    for (not_modified, why) in
        [("Cache-Control: no-store", NotStoredReason::NoStore), ("Vary: *", NotStoredReason::Vary)]
    {
        let (old, new) = (fields("Cache-Control: max-age=5|ETag: x"), fields(not_modified));
        let stored_answer = Answer { status: 200, fields: &old };
        assert_eq!(revalidated(&asked(), &stored_answer, &new, &Rules::default(), NOW), Revalidation::Goes(why));
    }
}

proptest! {
    #[test]
    fn whatever_a_response_says_nothing_overflows(
        status in 0u16..1000,
        lines in proptest::collection::vec(("(Cache-Control|Age|Expires|Date|Last-Modified|X-Accel-Expires|Vary)",
            "(max-age=|s-maxage=|stale-if-error=|@)?[0-9]{0,25}|[ -~]{0,12}"), 0..6),
        now in prop_oneof![Just(1u64), Just(NOW), Just(1u64 << 40)],
        sent in prop_oneof![Just(0u64), Just(NOW)],
    ) {
        let fields: Vec<Field> = lines.into_iter().map(|(name, value)| (name.into(), value.into())).collect();
        let answer = Answer { status, fields: &fields };
        for rfc9111 in [false, true] {
            let rules = Rules { rfc9111, ..Rules::default() };
            if let Verdict::Store { lifetime, .. } = crate::rules::judge(&RequestFacts { sent, ..RequestFacts::default() }, &answer, &rules, now) {
                prop_assert!(lifetime.born <= now);
                prop_assert!(lifetime.fresh_until <= now + (1 << 31) + 1);
            }
        }
    }
}
