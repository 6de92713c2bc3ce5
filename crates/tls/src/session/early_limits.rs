//! Limits that a client remembers with its session for early data (RFC 9001 section 4.6.1, RFC 9114 section 7.2.4.2). A server that
//! has smaller limits since then must not take the early data.

use zeroize::Zeroizing;

/// The bit of a stored session's first byte that says that limits precede the session. The sessions of the library begin with the
/// version of TLS, which does not have it.
const LIMITS: u8 = 0x80;

/// The most limits.
const MOST: usize = LIMITS as usize - 1;

/// The session with the limits that its client remembers, as it is stored.
pub(super) fn with_limits(limits: &[u64], session: Vec<u8>) -> Vec<u8> {
    debug_assert!(limits.len() <= MOST, "there are few limits");
    if limits.is_empty() {
        return session;
    }
    let session = Zeroizing::new(session);
    let limits = &limits[..limits.len().min(MOST)];
    let mut stored = Vec::with_capacity(1 + size_of_val(limits) + session.len());
    stored.push(LIMITS | limits.len() as u8);
    limits.iter().for_each(|limit| stored.extend_from_slice(&limit.to_le_bytes()));
    stored.extend_from_slice(&session);
    stored
}

/// The session alone. `None` if its client remembers a limit that is larger than the present limit, or other limits.
pub(super) fn within_limits<'s>(now: &[u64], stored: &'s [u8]) -> Option<&'s [u8]> {
    let Some((first, rest)) = stored.split_first().filter(|(first, _)| **first & LIMITS != 0) else {
        return Some(stored);
    };
    let (limits, session) = rest.split_at_checked(usize::from(first & !LIMITS) * size_of::<u64>())?;
    let (limits, _) = limits.as_chunks();
    let holds = |(limit, now): (&[u8; 8], &u64)| u64::from_le_bytes(*limit) <= *now;
    // Sessions without limits bring no early data of their own.
    let hold = now.is_empty() || limits.len() == now.len() && limits.iter().zip(now).all(holds);
    hold.then_some(session)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_is_found_where_no_limit_has_become_smaller() {
        let session = b"\x03\x04 a session".to_vec();
        let stored = with_limits(&[10, 1 << 40], session.clone());
        assert!(stored.len() > session.len());
        for (now, found) in [
            (&[10, 1 << 40][..], true),
            (&[11, 1 << 41], true),
            (&[9, 1 << 41], false),
            (&[11, (1 << 40) - 1], false),
            (&[10], false),
            (&[10, 1 << 40, 0], false),
            (&[], true),
        ] {
            assert_eq!(within_limits(now, &stored), found.then_some(&session[..]), "{now:?}");
        }
        // One that was stored without limits.
        assert_eq!(with_limits(&[], session.clone()), session);
        assert_eq!(within_limits(&[1], &session), Some(&session[..]));
        assert_eq!(within_limits(&[1], &[]), Some(&[][..]));
        assert_eq!(within_limits(&[1], &stored[..7]), None, "one that was cut");
    }
}
