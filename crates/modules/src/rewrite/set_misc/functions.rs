//! Functions of the directives.

use std::fmt::Write;
use std::sync::atomic::Ordering;

use aws_lc_rs::hmac;
use data_encoding::HEXLOWER;
use freerun_conf::{bytes_of, into_bytes, text_of};
use freerun_http::request::Request;
use freerun_http::script::Calculate;
use freerun_runtime::log::clock;
use freerun_tls::random;
use md5::{Digest, Md5};
use sha1::Sha1;

use super::codes;
use super::quotes;
use super::{LastNumber, NEVER, SetMiscSettings};
use crate::dates;

/// The most random characters.
const MAX_RANDOM: usize = 64;

type FunctionResult = Result<Option<Vec<u8>>, String>;

/// The function of a directive.
pub(super) fn of(directive: &str, last: &LastNumber) -> Option<Box<Calculate<Request>>> {
    let boxed: Box<Calculate<Request>> = match directive {
        "set_md5" => simple(|value| HEXLOWER.encode(&Md5::digest(value)).into_bytes()),
        "set_sha1" => simple(|value| HEXLOWER.encode(&Sha1::digest(value)).into_bytes()),
        "set_hmac_sha1" => Box::new(|_, values| mac(hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY, values)),
        "set_hmac_sha256" => Box::new(|_, values| mac(hmac::HMAC_SHA256, values)),
        "set_if_empty" => Box::new(|_, values| if_empty(values)),
        "set_escape_uri" => simple(codes::escape),
        "set_unescape_uri" => simple(codes::unescape),
        "set_quote_sql_str" => simple(quotes::sql),
        "set_quote_pgsql_str" => simple(quotes::postgresql),
        "set_quote_json_str" => simple(quotes::json),
        "set_encode_base32" => Box::new(|request, values| {
            let settings = request.settings().get::<SetMiscSettings>();
            let alphabet = &settings.set_base32_alphabet.0;
            Ok(values.first().map(|value| codes::encode_base32(value, alphabet, settings.set_base32_padding)))
        }),
        "set_decode_base32" => Box::new(|request, values| {
            let settings = request.settings().get::<SetMiscSettings>();
            Ok(values.first().map(|value| codes::decode_base32(value, &settings.set_base32_alphabet.0)))
        }),
        "set_encode_base64" => simple(|value| data_encoding::BASE64.encode(value).into_bytes()),
        "set_encode_base64url" => simple(|value| data_encoding::BASE64URL_NOPAD.encode(value).into_bytes()),
        "set_encode_hex" => simple(|value| HEXLOWER.encode(value).into_bytes()),
        "set_decode_base64" => fallible("set_decode_base64", |value| codes::decode_base64(value, false)),
        "set_decode_base64url" => fallible("set_decode_base64url", |value| codes::decode_base64(value, true)),
        "set_decode_hex" => fallible("set_decode_hex", |value| data_encoding::HEXLOWER_PERMISSIVE.decode(value).ok()),
        "set_random" => with_randomness(random_number),
        "set_secure_random_alphanum" => with_randomness(|values| {
            random_text(values, b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789")
        }),
        "set_secure_random_lcalpha" => with_randomness(|values| random_text(values, b"abcdefghijklmnopqrstuvwxyz")),
        "set_rotate" => {
            let last = last.clone();
            Box::new(move |_, values| rotate(values, &last))
        }
        "set_local_today" => Box::new(|_, _| Ok(Some(local_time(b"%Y-%m-%d")))),
        "set_formatted_gmt_time" => simple(|format| into_bytes(dates::gmt(&text_of(format), clock::second()))),
        "set_formatted_local_time" => simple(local_time),
        "set_hashed_upstream" => Box::new(hashed_upstream),
        _ => return None,
    };
    Some(boxed)
}

/// A function whose result nobody can guess.
fn with_randomness(function: fn(&[Vec<u8>]) -> FunctionResult) -> Box<Calculate<Request>> {
    random::prepare();
    Box::new(move |_, values| function(values))
}

/// A function of the last argument.
fn simple(function: fn(&[u8]) -> Vec<u8>) -> Box<Calculate<Request>> {
    Box::new(move |_, values| Ok(values.last().map(|value| function(value))))
}

/// A function that has no result for some values.
fn fallible(name: &'static str, function: fn(&[u8]) -> Option<Vec<u8>>) -> Box<Calculate<Request>> {
    Box::new(move |_, values| match values.last().map(|value| function(value)) {
        Some(None) => Err(format!("{name}: invalid value")),
        found => Ok(found.flatten()),
    })
}

fn if_empty(values: &[Vec<u8>]) -> FunctionResult {
    Ok(match values {
        [own, value] if own.is_empty() => Some(value.clone()),
        _ => None,
    })
}

fn mac(algorithm: hmac::Algorithm, values: &[Vec<u8>]) -> FunctionResult {
    Ok(match values {
        [key, value] => Some(hmac::sign(&hmac::Key::new(algorithm, key), value).as_ref().to_vec()),
        _ => None,
    })
}

fn local_time(format: &[u8]) -> Vec<u8> {
    into_bytes(dates::local(&text_of(format), clock::second()))
}

/// A number of decimal digits alone.
fn number(text: &[u8]) -> Option<u64> {
    let digits = std::str::from_utf8(text).ok().filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()))?;
    digits.parse().ok().filter(|number| i64::try_from(*number).is_ok())
}

/// The smaller and the larger one of two numbers.
fn range(name: &str, from: &[u8], to: &[u8]) -> Result<(u64, u64), String> {
    let parse = |which, text: &[u8]| {
        number(text).ok_or_else(|| {
            let text = text_of(text);
            format!("{name}: bad \"{which}\" argument: {text}")
        })
    };
    let (from, to) = (parse("from", from)?, parse("to", to)?);
    Ok((from.min(to), from.max(to)))
}

fn random_number(values: &[Vec<u8>]) -> FunctionResult {
    let [from, to] = values else { return Ok(None) };
    let (from, to) = range("set_random", from, to)?;
    let mut bytes = [0; 8];
    random::fill(&mut bytes).map_err(|_| "set_random: no random number".to_owned())?;
    let found = from + u64::from_le_bytes(bytes) % (to - from + 1);
    Ok(Some(found.to_string().into_bytes()))
}

fn random_text(values: &[Vec<u8>], alphabet: &[u8]) -> FunctionResult {
    let [length] = values else { return Ok(None) };
    let wanted = number(length).and_then(|length| usize::try_from(length).ok());
    let Some(length) = wanted.filter(|length| (1..=MAX_RANDOM).contains(length)) else {
        let length = text_of(length);
        return Err(format!("set_random: bad \"length\" argument: {length}"));
    };
    // Bytes beyond the last multiple of the alphabet are left out, or the first characters would be more frequent.
    let usable = 256 / alphabet.len() * alphabet.len();
    let mut out = Vec::with_capacity(length);
    while out.len() < length {
        let mut bytes = [0; MAX_RANDOM];
        random::fill(&mut bytes).map_err(|_| "set_secure_random: no random bytes".to_owned())?;
        let fits = bytes.iter().map(|byte| usize::from(*byte)).filter(|byte| *byte < usable);
        out.extend(fits.map(|byte| alphabet[byte % alphabet.len()]).take(length - out.len()));
    }
    Ok(Some(out))
}

fn rotate(values: &[Vec<u8>], last: &LastNumber) -> FunctionResult {
    let [own, from, to] = values else { return Ok(None) };
    let (from, to) = range("set_rotate", from, to)?;
    let current = Some(own).filter(|own| !own.is_empty()).and_then(|own| number(own));
    let before = current.or_else(|| Some(last.load(Ordering::Relaxed)).filter(|last| *last != NEVER));
    let next = before.map_or(from, |before| before + 1);
    let next = if (from..=to).contains(&next) { next } else { from };
    last.store(next, Ordering::Relaxed);
    let mut out = String::new();
    let _ = write!(out, "{next}");
    Ok(Some(out.into_bytes()))
}

fn hashed_upstream(request: &Request, values: &[Vec<u8>]) -> FunctionResult {
    let [list, key] = values else { return Ok(None) };
    let list = request.settings().get::<SetMiscSettings>().upstream_list.get(&text_of(list))?;
    Ok(list.get(hash(key) as usize % list.len().max(1)).map(|name| bytes_of(name).into_owned()))
}

/// The hash of the module that people know: the lower-case bytes as digits to the base of 31.
fn hash(key: &[u8]) -> u32 {
    key.iter().fold(0, |hash: u32, byte| hash.wrapping_mul(31).wrapping_add(u32::from(byte.to_ascii_lowercase())))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(values: &[&str]) -> Vec<Vec<u8>> {
        values.iter().map(|value| value.as_bytes().to_vec()).collect()
    }

    #[test]
    fn random_results_stay_within_their_bounds() {
        for _ in 0..200 {
            let found = random_number(&texts(&["7", "3"])).unwrap().unwrap();
            assert!((b"3"[0]..=b"7"[0]).contains(&found[0]) && found.len() == 1);
            let letters = random_text(&texts(&["64"]), b"abc").unwrap().unwrap();
            assert!(letters.len() == 64 && letters.iter().all(|letter| b"abc".contains(letter)));
        }
        for wrong in ["0", "65", "x", "", "-1"] {
            assert!(random_text(&texts(&[wrong]), b"abc").is_err(), "{wrong}");
        }
    }
}
