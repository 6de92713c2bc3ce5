//! The names that encoders know, and what becomes of their fields.

/// Treatment of a field.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Policy {
    /// There are few values, and one of them comes with most messages: it goes into the table at once.
    Common,
    /// As [`Policy::Common`], and once there is a new value, the old ones do not come again.
    Latest,
    /// Often there is a value for each message, often always the same one: it goes into the table when it comes for the
    /// second time.
    Repeated,
    /// The field hardly comes again, or is so short that it is not worth the room.
    Passing,
    /// The field is secret: it goes into no table, so that nobody finds out by guesses whether it is in one (RFC 7541
    /// section 7.1). It is not marked as a field that others may not index either: nginx marks none, and there are
    /// peers that do not know the mark.
    Secret,
}

/// A name that the encoder knows.
pub(crate) struct NameRule {
    /// In lower case.
    pub name: &'static str,
    /// The index of the first entry of HPACK's static table with this name, or 0.
    pub hpack_index: u8,
    pub policy: Policy,
    /// See [`outer`].
    outer: u64,
    /// The first eight bytes, and the last eight, if there are that many.
    ends: [u64; 2],
}

const fn entry(name: &'static str, hpack_index: u8, policy: Policy) -> NameRule {
    let bytes = name.as_bytes();
    let ends = match (bytes.first_chunk::<8>(), bytes.last_chunk::<8>()) {
        (Some(first), Some(last)) => [u64::from_le_bytes(*first), u64::from_le_bytes(*last)],
        _ => [0, 0],
    };
    NameRule { name, hpack_index, policy, outer: outer(bytes), ends }
}

macro_rules! known {
    ($($policy:ident: $($name:literal $index:literal,)*;)*) => {
        /// The names; the place in this list is a name's id. The first one stands for those that are not known.
        pub(crate) static KNOWN: &[NameRule] = &[
            entry("", 0, Policy::Repeated),
            $($(entry($name, $index, Policy::$policy),)*)*
        ];
    };
}

// What changes with each response of a file (length, tag, time) is often asked for again on one connection, or is the
// same for many files. What is in no list comes under `Repeated`.
known! {
    Common:
        ":authority" 1, ":method" 2, ":scheme" 6, ":protocol" 0,
        "accept-encoding" 16, "accept-ranges" 18, "access-control-allow-credentials" 0,
        "access-control-allow-headers" 0, "access-control-allow-methods" 0, "access-control-allow-origin" 20,
        "access-control-expose-headers" 0, "access-control-max-age" 0, "allow" 22, "alt-svc" 0, "cache-control" 24,
        "content-encoding" 26, "content-language" 27, "content-type" 31, "cross-origin-opener-policy" 0,
        "cross-origin-resource-policy" 0, "grpc-accept-encoding" 0, "grpc-encoding" 0, "grpc-status" 0,
        "permissions-policy" 0, "referrer-policy" 0, "server" 54, "strict-transport-security" 56, "te" 0, "vary" 59,
        "via" 60, "x-cache" 0, "x-cache-status" 0, "x-content-type-options" 0, "x-forwarded-proto" 0,
        "x-frame-options" 0, "x-powered-by" 0, "x-xss-protection" 0,
    ;
    Latest:
        "date" 33,
    ;
    Repeated:
        ":path" 4, ":status" 8,
        "accept" 19, "accept-charset" 15, "accept-language" 17, "content-disposition" 25, "content-location" 29,
        "content-security-policy" 0, "etag" 34, "expires" 36, "from" 37, "host" 38, "last-modified" 44, "link" 45,
        "location" 46, "proxy-authenticate" 48, "referer" 51, "user-agent" 58, "www-authenticate" 61,
        "x-forwarded-for" 0, "x-forwarded-host" 0, "x-real-ip" 0,
    ;
    Passing:
        "age" 21, "content-length" 28, "content-range" 30, "expect" 35, "if-match" 39, "if-modified-since" 40,
        "if-none-match" 41, "if-range" 42, "if-unmodified-since" 43, "max-forwards" 47, "range" 50, "refresh" 52,
        "retry-after" 53, "transfer-encoding" 57,
    ;
    Secret:
        "authorization" 23, "cookie" 32, "proxy-authorization" 49, "set-cookie" 55,
    ;
}

/// The id of a known name; 0 stands for a name that is not known.
pub(crate) type Id = u8;

pub(crate) const AUTHORITY: Id = id(":authority");
pub(crate) const METHOD: Id = id(":method");
pub(crate) const PATH: Id = id(":path");
pub(crate) const PROTOCOL: Id = id(":protocol");
pub(crate) const SCHEME: Id = id(":scheme");
pub(crate) const STATUS: Id = id(":status");
pub(crate) const ACCEPT_ENCODING: Id = id("accept-encoding");

const fn id(name: &str) -> Id {
    SLOTS[bucket(outer(name.as_bytes()), name.len())]
}

/// The facts about the name with this id.
#[inline(always)]
pub(crate) fn known(id: Id) -> &'static NameRule {
    KNOWN.get(usize::from(id)).unwrap_or(&KNOWN[0])
}

/// The value of `:status`, which has three digits.
#[inline]
pub(crate) fn status_value(status: u16) -> [u8; 3] {
    [100, 10, 1].map(|place| b'0' + (status / place % 10) as u8)
}

/// The shortest known name.
const SHORTEST: usize = 2;
/// The longest known name.
const LONGEST: usize = 32;

/// The bit that tells upper case from lower case in each byte. It is set in all bytes that known names are made of. No
/// name has control characters; one of them would be taken for `-` with it.
const LOWER: u64 = 0x2020_2020_2020_2020;

/// The id of a name in any case; 0 if it is not known.
#[inline]
pub(crate) fn look_up(name: &[u8]) -> Id {
    let outer = outer(name);
    let id = SLOTS[bucket(outer, name.len())];
    let known = known(id);
    if known.outer != outer || known.name.len() != name.len() {
        return 0;
    }
    // Of a longer name, there are bytes between its first and its last four.
    if name.len() > 8
        && let (Some(first), Some(last)) = (name.first_chunk(), name.last_chunk())
    {
        let ends = [u64::from_le_bytes(*first) | LOWER, u64::from_le_bytes(*last) | LOWER];
        if ends != known.ends || name.len() > 16 && !known.name.as_bytes().eq_ignore_ascii_case(name) {
            return 0;
        }
    }
    id
}

/// The first and the last four bytes of a name, in lower case; of a shorter one, all of it.
#[inline(always)]
const fn outer(name: &[u8]) -> u64 {
    match (name.first_chunk::<4>(), name.last_chunk::<4>()) {
        (Some(first), Some(last)) => {
            u32::from_le_bytes(*first) as u64 | (u32::from_le_bytes(*last) as u64) << 32 | LOWER
        }
        _ => short(name),
    }
}

#[inline(never)]
const fn short(name: &[u8]) -> u64 {
    match *name {
        [first, last] => first as u64 | (last as u64) << 8 | LOWER,
        [first, middle, last] => first as u64 | (middle as u64) << 8 | (last as u64) << 16 | LOWER,
        _ => 0,
    }
}

/// The number of buckets of the table of names.
const BUCKETS: usize = 256;

/// The bucket of a name, by what [`outer`] has of it and by its length. The factor is such that each known name has a
/// bucket for itself.
#[inline(always)]
const fn bucket(outer: u64, len: usize) -> usize {
    ((outer ^ len as u64).wrapping_mul(0x2774_40f4_bdaf_4dd7) >> 56) as usize
}

/// The table, made at compile time; two names in one bucket fail the build.
static SLOTS: [Id; BUCKETS] = {
    let mut slots = [0; BUCKETS];
    let mut id = 1;
    while id < KNOWN.len() {
        let len = KNOWN[id].name.len();
        assert!(SHORTEST <= len && len <= LONGEST);
        let bucket = bucket(KNOWN[id].outer, len);
        assert!(slots[bucket] == 0, "another factor has to be found");
        slots[bucket] = id as Id;
        id += 1;
    }
    slots
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_found_in_any_case() {
        for (id, known) in (0..).zip(KNOWN).skip(1) {
            assert_eq!(look_up(known.name.as_bytes()), id);
            assert_eq!(look_up(known.name.to_ascii_uppercase().as_bytes()), id);
            assert_eq!(known.name, known.name.to_ascii_lowercase());
            let mut other = known.name.as_bytes().to_vec();
            for place in 0..other.len() {
                other[place] ^= 1;
                assert_eq!(look_up(&other), 0, "{}", other.escape_ascii());
                other[place] ^= 1;
            }
        }
        for name in [&b""[..], b"x", b"x-other", b"content_length", &[b'a'; 100]] {
            assert_eq!(look_up(name), 0);
        }
    }
}
