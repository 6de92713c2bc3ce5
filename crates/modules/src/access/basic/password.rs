//! Compares a password with its stored form.

use std::ffi::CString;

use freerun_proto::credentials::decode_base64;
use md5::{Digest, Md5};
use sha1::Sha1;

/// The result of a comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PasswordVerdict {
    /// The password is right.
    Right,
    /// The password is wrong, or the stored form is not valid.
    Wrong,
    /// The comparison would take too much time or memory, and was not made.
    TooCostly,
}

impl From<bool> for PasswordVerdict {
    fn from(right: bool) -> PasswordVerdict {
        if right { PasswordVerdict::Right } else { PasswordVerdict::Wrong }
    }
}

/// Compares forms that cost no more than reading the password: `{PLAIN}`, `{SHA}` and `{SSHA}`. `None` for other forms.
pub fn quick(stored: &[u8], password: &[u8]) -> Option<PasswordVerdict> {
    let right = if let Some(plain) = stored.strip_prefix(b"{PLAIN}") {
        equal(before_nul(plain), password)
    } else if let Some(salted) = stored.strip_prefix(b"{SSHA}") {
        match decode_base64(salted).as_deref().and_then(|bytes| bytes.split_at_checked(SHA1_LEN)) {
            Some((hash, salt)) => equal(&Sha1::new().chain_update(password).chain_update(salt).finalize(), hash),
            None => false,
        }
    } else if let Some(hash) = stored.strip_prefix(b"{SHA}") {
        // The only form that 20 bytes have in Base64.
        let whole = hash.len() == 28 && hash.ends_with(b"=");
        whole && decode_base64(hash).is_some_and(|hash| equal(&Sha1::digest(password), &hash))
    } else {
        return None;
    };
    Some(right.into())
}

const SHA1_LEN: usize = 20;

/// Compares all other forms. It uses the processor for up to seconds, so it must not run on an event loop.
pub fn slow(stored: &[u8], password: &[u8]) -> PasswordVerdict {
    if let Some(rest) = stored.strip_prefix(b"$apr1$") {
        let salt = &rest[..memchr::memchr(b'$', rest).unwrap_or(rest.len()).min(8)];
        return equal(&apr1(password, salt), stored).into();
    }
    if cost::is_too_high(stored) {
        return PasswordVerdict::TooCostly;
    }
    let (Ok(phrase), Ok(setting)) = (CString::new(password), CString::new(stored)) else {
        return PasswordVerdict::Wrong;
    };
    freerun_sys::crypt::crypt(&phrase, &setting).is_some_and(|hash| equal(&hash, stored)).into()
}

fn before_nul(text: &[u8]) -> &[u8] {
    &text[..memchr::memchr(0, text).unwrap_or(text.len())]
}

/// Compares in a time that depends only on the lengths.
fn equal(one: &[u8], other: &[u8]) -> bool {
    let differences = one.iter().zip(other).fold(0, |differences, (one, other)| differences | (one ^ other));
    one.len() == other.len() && std::hint::black_box(differences) == 0
}

/// The password hash of Apache's `htpasswd -m`: the MD5 crypt of FreeBSD with another name.
fn apr1(password: &[u8], salt: &[u8]) -> Vec<u8> {
    const NAME: &[u8] = b"$apr1$";
    let inner = Md5::new().chain_update(password).chain_update(salt).chain_update(password).finalize();
    let mut outer = Md5::new().chain_update(password).chain_update(NAME).chain_update(salt);
    outer.update(inner.iter().copied().cycle().take(password.len()).collect::<Vec<u8>>());
    let mut bits = password.len();
    while bits != 0 {
        outer.update(if bits & 1 == 1 { &[0][..] } else { &password[..1] });
        bits >>= 1;
    }
    let mut hash = outer.finalize();
    for round in 0..1000 {
        let odd = round % 2 == 1;
        let mut next = Md5::new();
        next.update(if odd { password } else { &hash[..] });
        if round % 3 != 0 {
            next.update(salt);
        }
        if round % 7 != 0 {
            next.update(password);
        }
        next.update(if odd { &hash[..] } else { password });
        hash = next.finalize();
    }
    let mut out = [NAME, salt, b"$"].concat();
    for [high, middle, low] in [[0, 6, 12], [1, 7, 13], [2, 8, 14], [3, 9, 15], [4, 10, 5]] {
        let group = u32::from(hash[high]) << 16 | u32::from(hash[middle]) << 8 | u32::from(hash[low]);
        push_base64(&mut out, group, 4);
    }
    push_base64(&mut out, u32::from(hash[11]), 2);
    out
}

/// Appends digits in the alphabet of crypt(3), lowest first.
fn push_base64(out: &mut Vec<u8>, mut bits: u32, digits: usize) {
    for _ in 0..digits {
        out.push(cost::DIGITS[(bits & 63) as usize]);
        bits >>= 6;
    }
}

mod cost {
    //! The costs that a form of crypt(3) asks for, as crypt(5) describes them.

    /// The 64 digits of crypt(3).
    pub const DIGITS: &[u8; 64] = b"./0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    /// The most rounds of the forms that count them (`$5$`, `$6$`, `$sha1$`, `$md5`): about ten seconds.
    const MAX_ROUNDS: u64 = 10_000_000;
    /// The largest logarithm of bcrypt's rounds: about ten seconds.
    const MAX_BCRYPT: u64 = 17;
    /// The largest logarithm of the memory of yescrypt and scrypt in bytes: 256 MB.
    const MAX_MEMORY: u32 = 28;

    fn digit(byte: u8) -> Option<u32> {
        DIGITS.iter().position(|digit| *digit == byte).and_then(|value| u32::try_from(value).ok())
    }

    fn number(text: &[u8]) -> u64 {
        let digits = &text[..text.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(text.len())];
        // Without digits the form is not valid, and crypt(3) reports that.
        if digits.is_empty() {
            return 0;
        }
        std::str::from_utf8(digits).ok().and_then(|digits| digits.parse().ok()).unwrap_or(u64::MAX)
    }

    /// Whether the cost is too high.
    pub fn is_too_high(stored: &[u8]) -> bool {
        let mut fields = stored.split(|byte| *byte == b'$').skip(1);
        let (Some(form), parameters) = (fields.next(), fields.next().unwrap_or_default()) else { return false };
        match form {
            b"2a" | b"2b" | b"2x" | b"2y" => number(parameters) > MAX_BCRYPT,
            b"5" | b"6" => parameters.strip_prefix(b"rounds=").is_some_and(|rounds| number(rounds) > MAX_ROUNDS),
            b"sha1" => number(parameters) > MAX_ROUNDS,
            b"y" | b"gy" => yescrypt(parameters),
            b"7" => scrypt(parameters),
            _ => form.strip_prefix(b"md5,rounds=").is_some_and(|rounds| number(rounds) > MAX_ROUNDS),
        }
    }

    /// Whether a hash with these parameters is too dear for this server: flavour, N and r in one digit each. Forms with
    /// others (long numbers, parallelism, more time) are refused.
    fn yescrypt(parameters: &[u8]) -> bool {
        let [_, n, r] = parameters else { return !parameters.is_empty() };
        let (Some(n), Some(r)) = (digit(*n), digit(*r)) else { return false };
        n + 1 + 7 + (r + 1).ilog2() > MAX_MEMORY
    }

    /// Whether a hash with these parameters is too dear for this server: N in one digit, then r and p in five each, lowest
    /// first.
    fn scrypt(parameters: &[u8]) -> bool {
        let five = |range: std::ops::Range<usize>| {
            let digits = parameters.get(range)?;
            digits.iter().rev().try_fold(0u64, |value, byte| Some(value << 6 | u64::from(digit(*byte)?)))
        };
        let n = parameters.first().and_then(|n| digit(*n));
        let (Some(n), Some(r), Some(p)) = (n, five(1..6), five(6..11)) else { return false };
        let work = r.saturating_mul(p).max(1);
        n + 7 + work.ilog2() > MAX_MEMORY
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(stored: &[u8], password: &[u8]) -> PasswordVerdict {
        quick(stored, password).unwrap_or_else(|| slow(stored, password))
    }

    #[test]
    fn every_form_knows_its_password() {
        for stored in [
            "{PLAIN}secret",
            "{SHA}5en6G6MezRroT3XKqkdPOmY/BfQ=",
            "{SSHA}CDuiWnWDBXv9ypb9MCZlCz5DJCBzYWx0MQ==",
            "abNANd1rDfiNc",
            "_J9..saltLXKE4peqNCg",
            "$1$saltsalt$9xy1btjgzLYfb7hivXtC//",
            "$apr1$saltsalt$LrttParrLPdxvgutaSXWJ0",
            "$2a$04$abcdefghijklmnopqrstuu2r9OfJnfCsdneAXAGHnS4UpFFP8WIrW",
            "$2b$04$abcdefghijklmnopqrstuu2r9OfJnfCsdneAXAGHnS4UpFFP8WIrW",
            "$2y$04$abcdefghijklmnopqrstuu2r9OfJnfCsdneAXAGHnS4UpFFP8WIrW",
            "$5$rounds=1000$saltsalt$eKLZU9t9OoPWrqOQsoTIKG0aYkZ5rGOoOQhiIvoSWX2",
            "$6$saltsalt$TVLlQcbpFVof5W3Yz4DTP6gRstiNuHwwTt6GLc1E5n0U0aDehy0S5knV8wiOQSpT0Y77vwPZN.Pq.H91p5hVO1",
            "$y$j75$saltsalt$0gBD67sgmJgRX3RZ6wHHO7sHimQEWGCWN85o4Twogh2",
        ] {
            assert_eq!(check(stored.as_bytes(), b"secret"), PasswordVerdict::Right, "{stored}");
            for wrong in [&b""[..], b"Secret", b"secret1", b"secre", &[b's'; 600]] {
                assert_eq!(check(stored.as_bytes(), wrong), PasswordVerdict::Wrong, "{stored}");
            }
        }
    }

    #[test]
    fn apr1_is_that_of_openssl() {
        // openssl passwd -apr1 -salt …
        for (password, salt, hash) in [
            (&b""[..], &b"12345678"[..], &b"$apr1$12345678$sHuPAw7VA9xjRbJz7zKV7/"[..]),
            (b"a longer passphrase, longer than one block of sixteen", b"ab", b"$apr1$ab$6NNJR3nmaZN/mRjPoMOay."),
        ] {
            assert_eq!(apr1(password, salt).escape_ascii().to_string(), hash.escape_ascii().to_string());
        }
    }

    #[test]
    fn what_is_no_hash_matches_nothing() {
        for stored in [
            "",
            "secret",
            "x",
            "*",
            "!",
            "$",
            "$apr1$",
            "$apr1$$x",
            "$9$x$y",
            "{SHA}",
            "{SHA}abc",
            "{SSHA}!!!!",
            "{SSHA}AAAA",
            "{sha}5en6G6MezRroT3XKqkdPOmY/BfQ=",
            "{SHA}5en6G6MezRroT3XKqkdPOmY/BfQ",
            "$2y$",
            "$2y$04$",
            "$y$",
            "$7$",
            "$5$rounds=",
        ] {
            for password in [&b""[..], b"secret"] {
                assert_eq!(check(stored.as_bytes(), password), PasswordVerdict::Wrong, "{stored}");
            }
        }
    }

    #[test]
    fn forms_that_cost_too_much_are_not_tried() {
        for stored in [
            "$2y$31$abcdefghijklmnopqrstuu2r9OfJnfCsdneAXAGHnS4UpFFP8WIrW",
            "$5$rounds=999999999$saltsalt$x",
            "$6$rounds=99999999999999999999999$saltsalt$x",
            "$sha1$4000000000$salt$x",
            "$md5,rounds=4000000000$salt$x",
            "$y$jXT$salt$x",
            "$y$jzzzzz$salt$x",
            "$7$zU..../....salt$x",
            "$7$Czzzzzzzzzzsalt$x",
        ] {
            assert_eq!(check(stored.as_bytes(), b"secret"), PasswordVerdict::TooCostly, "{stored}");
        }
    }
}
