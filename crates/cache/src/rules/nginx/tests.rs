//! Cases of nginx's rules that need no comparison, or in which nginx 1.31 differs from the version that
//! `tests/differential/t15_cache/cache_rules/mod.rs` compares with; see the table there for all others.

use super::*;
use crate::rules::{IgnoredFields, Valid};

const NOW: u64 = 1_800_000_000;

fn judged(text: &str, rules: &Rules<'_>) -> Result<(i64, u32, u32), NotStoredReason> {
    let pair = |line: &str| line.split_once(": ").map(|(name, v)| (name.to_owned().into(), v.to_owned().into()));
    let fields: Vec<Field> = text.split('|').filter_map(pair).collect();
    match judge(&Answer { status: 200, fields: &fields }, rules, NOW) {
        Verdict::Store { lifetime: l, .. } => {
            assert!(l.born == NOW && !l.must_revalidate && !l.no_cache);
            Ok((l.fresh_until as i64 - NOW as i64, l.stale_while_revalidate, l.stale_if_error))
        }
        Verdict::DoNot(why) => Err(why),
    }
}

#[test]
fn the_order_of_fields_does_not_matter() {
    let past = "Expires: Thu, 01 Jan 1970 00:00:01 GMT";
    for (text, expected) in [
        ("Cache-Control: no-cache|X-Accel-Expires: 100", Ok((100, 0, 0))),
        ("Cache-Control: private|X-Accel-Expires: 100", Ok((100, 0, 0))),
        ("Cache-Control: max-age=5|X-Accel-Expires: 100", Ok((100, 0, 0))),
        ("Cache-Control: stale-while-revalidate=3, stale-if-error=4|X-Accel-Expires: 100", Ok((100, 3, 4))),
        (&format!("{past}|Cache-Control: max-age=50"), Ok((50, 0, 0))),
        (&format!("{past}|X-Accel-Expires: 100"), Ok((100, 0, 0))),
        (&format!("{past}|Cache-Control: no-cache"), Err(NotStoredReason::NoCache)),
        (&format!("{past}|Cache-Control: public"), Err(NotStoredReason::Expired)),
        ("X-Accel-Expires: 0|Cache-Control: max-age=5", Err(NotStoredReason::Expired)),
        ("X-Accel-Expires: 100|Set-Cookie: a", Err(NotStoredReason::SetCookie)),
    ] {
        assert_eq!(judged(text, &Rules::default()), expected, "{text}");
        let turned: Vec<&str> = text.rsplit('|').collect();
        assert_eq!(judged(&turned.join("|"), &Rules::default()), expected, "{text} turned");
    }
}

#[test]
fn the_first_of_several_counts() {
    let (near, far) = ("Expires: Fri, 15 Jan 2027 08:01:40 GMT", "Expires: Fri, 15 Jan 2027 08:03:20 GMT");
    for (text, expected) in [
        ("X-Accel-Expires: 100|x-accel-expires: 50", Ok((100, 0, 0))),
        ("X-Accel-Expires: 100|X-Accel-Expires: 0", Ok((100, 0, 0))),
        ("X-Accel-Expires: x|X-Accel-Expires: 100", Err(NotStoredReason::NoLifetime)),
        (&format!("{near}|{far}"), Ok((100, 0, 0))),
        (&format!("{far}|{near}"), Ok((200, 0, 0))),
        (&format!("Expires: x|{far}"), Err(NotStoredReason::Expired)),
    ] {
        assert_eq!(judged(text, &Rules::default()), expected, "{text}");
    }
}

#[test]
fn fields_are_ignored_one_by_one() {
    let mut valid = Valid::default();
    valid.push(&[], 1000);
    for (text, ignored) in [
        ("X-Accel-Expires: 0", IgnoredFields { accel_expires: true, ..IgnoredFields::default() }),
        ("Expires: x", IgnoredFields { expires: true, ..IgnoredFields::default() }),
        ("Cache-Control: no-store", IgnoredFields { cache_control: true, ..IgnoredFields::default() }),
        ("Set-Cookie: a", IgnoredFields { set_cookie: true, ..IgnoredFields::default() }),
        ("Vary: *", IgnoredFields { vary: true, ..IgnoredFields::default() }),
    ] {
        let rules = Rules { valid: Some(&valid), ..Rules::default() };
        assert!(judged(text, &rules).is_err(), "{text}");
        assert_eq!(judged(text, &Rules { ignored, ..rules }), Ok((1000, 0, 0)), "{text}");
    }
}

#[test]
fn a_304_renews() {
    let fields = |text: &str| -> Vec<Field> {
        let pair = |line: &str| line.split_once(": ").map(|(name, v)| (name.to_owned().into(), v.to_owned().into()));
        text.split('|').filter_map(pair).collect()
    };
    let mut valid = Valid::default();
    valid.push(&[], 77);
    let over = "Expires: Thu, 01 Jan 1970 00:00:01 GMT";
    // Results of the nginx that is compared with: the stored fields, the fields of the 304, and the outcome without and
    // with *_cache_valid.
    for (stored, not_modified, without, with) in [
        ("Cache-Control: max-age=1", "", Some((1, 0)), Some((1, 0))),
        ("Cache-Control: max-age=1", "Cache-Control: max-age=50", Some((50, 0)), Some((50, 0))),
        ("Cache-Control: max-age=1", "Cache-Control: no-cache", Some((1, 0)), Some((1, 0))),
        ("Cache-Control: max-age=1", "Cache-Control: max-age=0", Some((1, 0)), Some((1, 0))),
        ("Cache-Control: max-age=1", "Cache-Control: no-store, max-age=50", Some((1, 0)), Some((1, 0))),
        ("Cache-Control: max-age=1", "Set-Cookie: a=b|Cache-Control: max-age=50", Some((50, 0)), Some((50, 0))),
        ("Cache-Control: max-age=1", "Vary: *|Cache-Control: max-age=50", Some((50, 0)), Some((50, 0))),
        ("Cache-Control: max-age=1, stale-if-error=5", "", Some((1, 5)), Some((1, 5))),
        ("Cache-Control: max-age=1, stale-if-error=5", "Cache-Control: max-age=50", Some((50, 0)), Some((50, 0))),
        ("Cache-Control: max-age=1, stale-if-error=5", "Cache-Control: stale-if-error=50", Some((1, 5)), Some((1, 5))),
        ("X-Accel-Expires: @1", "X-Accel-Expires: 0", Some((1 - NOW as i64, 0)), Some((1 - NOW as i64, 0))),
        (over, "", None, None),
        ("A: b", "", None, Some((77, 0))),
        ("A: b", "Cache-Control: no-cache", None, Some((77, 0))),
    ] {
        let (stored_fields, new) = (fields(stored), fields(not_modified));
        let renewed = |valid| {
            let stored = Answer { status: 200, fields: &stored_fields };
            match revalidated(&stored, &new, &Rules { valid, ..Rules::default() }, NOW) {
                Revalidation::Until(l) => Some((l.fresh_until as i64 - NOW as i64, l.stale_if_error)),
                Revalidation::Stays => None,
                Revalidation::Goes(why) => panic!("{why:?}"),
            }
        };
        assert_eq!((renewed(None), renewed(Some(&valid))), (without, with), "{stored}, {not_modified}");
    }
}
