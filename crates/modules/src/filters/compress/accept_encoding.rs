//! `Accept-Encoding`, parsed like in nginx.

use freerun_proto::quality::{FULL_QUALITY, parse_quality};

/// The quality, in thousandths, that an `Accept-Encoding` field gives to a coding; 0 means that it is not accepted.
///
/// nginx's rules are narrower than RFC 9110 section 12.5.3. The first mention of the name at the beginning or after a
/// comma or a space decides, and `*` is ignored. A malformed quality is 0, and so is a quality with further parameters.
pub fn quality(field: &[u8], coding: &str) -> u16 {
    let name = coding.as_bytes();
    let mut at = 0;
    while let Some(found) = field.get(at..at + name.len()) {
        if found.eq_ignore_ascii_case(name) && (at == 0 || matches!(field[at - 1], b',' | b' ')) {
            return parameters(&field[at + name.len()..]);
        }
        at += 1;
    }
    0
}

/// Parses the part after the name.
fn parameters(rest: &[u8]) -> u16 {
    match skip_spaces(rest) {
        [] | [b',', ..] => FULL_QUALITY,
        [b';', rest @ ..] => match skip_spaces(rest) {
            [] => FULL_QUALITY,
            [b'q' | b'Q', b'=', rest @ ..] => number(rest),
            _ => 0,
        },
        _ => 0,
    }
}

fn skip_spaces(text: &[u8]) -> &[u8] {
    let spaces = text.iter().take_while(|byte| **byte == b' ').count();
    &text[spaces..]
}

/// Parses a quality up to a comma, a space or the end.
fn number(text: &[u8]) -> u16 {
    let end = text.iter().position(|byte| matches!(byte, b',' | b' ')).unwrap_or(text.len());
    parse_quality(&text[..end]).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn qualities_as_nginx_reads_them() {
        let table: &[(&str, u16)] = &[
            ("gzip", 1000),
            ("GZIP", 1000),
            ("deflate, gzip", 1000),
            ("deflate,gzip", 1000),
            ("deflate gzip", 1000),
            ("deflate;gzip", 0),
            ("x; gzip", 1000),
            ("agzip", 0),
            ("agzip, gzip", 1000),
            ("x-gzip", 0),
            ("gzipx", 0),
            ("gzipx, gzip", 0),
            ("gzip-x, gzip", 0),
            ("gzgzip, gzip", 1000),
            ("gzip gzip", 0),
            ("gzip x", 0),
            ("gzip ,", 1000),
            ("*", 0),
            ("", 0),
            ("identity", 0),
            ("gzip;", 1000),
            ("gzip;  ", 1000),
            ("gzip ;", 1000),
            ("gzip;,", 0),
            ("gzip;x=1", 0),
            ("gzip;q", 0),
            ("gzip;q=", 0),
            ("gzip;q=0", 0),
            ("gzip;q=0.", 0),
            ("gzip;q=0.0", 0),
            ("gzip;q=0.001", 1),
            ("gzip;q=0.0001", 0),
            ("gzip;q=0.12", 120),
            ("gzip;q=0.5", 500),
            ("gzip; q=0.5", 500),
            ("gzip;Q=0.5", 500),
            ("gzip;q=.5", 0),
            ("gzip;q=0.5x", 0),
            ("gzip;q=0.5;x", 0),
            ("gzip;q=0.5,x", 500),
            ("gzip;q=0.5 ,x", 500),
            ("gzip;q =0.5", 0),
            ("gzip;q= 0.5", 0),
            ("gzip;q=1", 1000),
            ("gzip;q=1.", 1000),
            ("gzip;q=1.000", 1000),
            ("gzip;q=1.0000", 0),
            ("gzip;q=1.001", 0),
            ("gzip;q=1;", 0),
            ("gzip;q=2", 0),
            ("gzip;q=00", 0),
            ("gzip;q=-1", 0),
            ("gzip;q=0, gzip", 0),
            ("gzip\t", 0),
            ("deflate;q=1.0, gzip;q=0.5", 500),
        ];
        for (field, wanted) in table {
            assert_eq!(quality(field.as_bytes(), "gzip"), *wanted, "{field:?}");
        }
    }

    #[test]
    fn names_of_any_length() {
        assert_eq!(quality(b"br;q=0.25, zstd", "br"), 250);
        assert_eq!(quality(b"br;q=0.25, zstd", "zstd"), 1000);
        assert_eq!(quality(b"b", "br"), 0);
    }
}
