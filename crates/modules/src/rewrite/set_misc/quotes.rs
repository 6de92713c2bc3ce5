//! Texts of SQL and JSON.

/// A text of MySQL.
pub(super) fn sql(value: &[u8]) -> Vec<u8> {
    let mut out = vec![b'\''];
    value.iter().for_each(|byte| push_sql(*byte, &mut out));
    out.push(b'\'');
    out
}

/// A text of PostgreSQL with escapes. Of a value that is no UTF-8, the bytes beyond ASCII are written as numbers, as for
/// `bytea`.
pub(super) fn postgresql(value: &[u8]) -> Vec<u8> {
    if value.is_empty() {
        return b"''".to_vec();
    }
    let is_text = std::str::from_utf8(value).is_ok();
    let mut out = b"E'".to_vec();
    for &byte in value {
        if byte >= 0x80 && !is_text {
            out.extend_from_slice(format!("\\\\{byte:o}").as_bytes());
        } else {
            push_sql(byte, &mut out);
        }
    }
    out.push(b'\'');
    out
}

fn push_sql(byte: u8, out: &mut Vec<u8>) {
    let letter = match byte {
        0 => b'0',
        8 => b'b',
        b'\t' => b't',
        b'\n' => b'n',
        b'\r' => b'r',
        0x1a => b'Z',
        b'\'' | b'"' | b'\\' | b'$' => byte,
        _ => return out.push(byte),
    };
    out.extend([b'\\', letter]);
}

/// A string of JSON (RFC 8259 section 7).
pub(super) fn json(value: &[u8]) -> Vec<u8> {
    if value.is_empty() {
        return b"null".to_vec();
    }
    let mut out = vec![b'"'];
    for &byte in value {
        match byte {
            8 => out.extend_from_slice(b"\\b"),
            b'\t' => out.extend_from_slice(b"\\t"),
            b'\n' => out.extend_from_slice(b"\\n"),
            0x0c => out.extend_from_slice(b"\\f"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'"' | b'\\' => out.extend([b'\\', byte]),
            0..0x20 => out.extend_from_slice(format!("\\u{byte:04x}").as_bytes()),
            _ => out.push(byte),
        }
    }
    out.push(b'"');
    out
}
