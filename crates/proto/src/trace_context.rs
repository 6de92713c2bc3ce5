//! The context of a distributed trace in the fields `traceparent` and `tracestate` (W3C Trace Context, level 1).
//!
//! <https://www.w3.org/TR/trace-context/>

/// The length of `traceparent` of version 00 in bytes.
pub const TRACE_PARENT_LEN: usize = 55;

/// The longest `tracestate` that is kept, in bytes. Section 3.3.1.5 asks for 512 at least.
pub const MAX_TRACE_STATE: usize = 512;

/// The identifier of a trace. It is not all zeros.
pub type TraceId = [u8; 16];

/// The identifier of a span. It is not all zeros.
pub type SpanId = [u8; 8];

/// The flag `sampled` (section 3.2.2.5.1).
const SAMPLED: u8 = 1;

/// The value of `traceparent`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TraceParent {
    /// The trace.
    pub trace_id: TraceId,
    /// The span that made the request.
    pub parent_id: SpanId,
    /// Whether the sender may have recorded the trace.
    pub is_sampled: bool,
}

impl TraceParent {
    /// Reads a value. `None`: it is invalid, and a new trace begins (section 3.2.2).
    pub fn parse(value: &[u8]) -> Option<TraceParent> {
        let fixed = value.first_chunk::<TRACE_PARENT_LEN>()?;
        let [version] = lower_hex::<1>(&fixed[..2])?;
        let is_long = value.len() > TRACE_PARENT_LEN;
        // A later version may have further fields behind a dash.
        if version == 0xff || is_long && (version == 0 || value[TRACE_PARENT_LEN] != b'-') {
            return None;
        }
        if fixed[2] != b'-' || fixed[35] != b'-' || fixed[52] != b'-' {
            return None;
        }
        let trace_id = lower_hex::<16>(&fixed[3..35])?;
        let parent_id = lower_hex::<8>(&fixed[36..52])?;
        let [flags] = lower_hex::<1>(&fixed[53..])?;
        if trace_id == [0; 16] || parent_id == [0; 8] {
            return None;
        }
        Some(TraceParent { trace_id, parent_id, is_sampled: flags & SAMPLED != 0 })
    }

    /// The value of the field, of version 00.
    pub fn text(&self) -> [u8; TRACE_PARENT_LEN] {
        let mut out = *b"00-................................-................-00";
        write_hex(&self.trace_id, &mut out[3..35]);
        write_hex(&self.parent_id, &mut out[36..52]);
        out[54] = if self.is_sampled { b'1' } else { b'0' };
        out
    }
}

/// Reads lower-case hexadecimal digits, two for each byte.
fn lower_hex<const N: usize>(digits: &[u8]) -> Option<[u8; N]> {
    debug_assert_eq!(digits.len(), 2 * N, "a byte has two digits");
    let mut out = [0; N];
    for (byte, pair) in out.iter_mut().zip(digits.chunks_exact(2)) {
        *byte = digit(pair[0])? << 4 | digit(pair[1])?;
    }
    Some(out)
}

fn digit(byte: u8) -> Option<u8> {
    match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    }
}

/// Writes bytes as lower-case hexadecimal digits; `out` is twice as long.
pub fn write_hex(bytes: &[u8], out: &mut [u8]) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    debug_assert_eq!(out.len(), 2 * bytes.len(), "a byte has two digits");
    for (byte, pair) in bytes.iter().zip(out.chunks_exact_mut(2)) {
        pair[0] = DIGITS[usize::from(byte >> 4)];
        pair[1] = DIGITS[usize::from(byte & 15)];
    }
}

/// The value of `tracestate`, made of all fields with that name. `None`: there is none, or it is longer than
/// [`MAX_TRACE_STATE`] or has bytes that no such field has. Its members are the business of those who have set them.
pub fn trace_state<'v>(fields: impl Iterator<Item = &'v [u8]>) -> Option<String> {
    let mut out = String::new();
    for field in fields {
        let text = std::str::from_utf8(field).ok().filter(|_| field.iter().all(is_visible_or_blank))?.trim_ascii();
        if text.is_empty() {
            continue;
        }
        if !out.is_empty() {
            out.push(',');
        }
        if out.len() + text.len() > MAX_TRACE_STATE {
            return None;
        }
        out.push_str(text);
    }
    (!out.is_empty()).then_some(out)
}

fn is_visible_or_blank(byte: &u8) -> bool {
    byte.is_ascii_graphic() || matches!(byte, b' ' | b'\t')
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &[u8] = b"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    #[test]
    fn a_value_is_read_and_written_as_it_was() {
        let parent = TraceParent::parse(GOOD).unwrap();
        assert!(parent.is_sampled && parent.trace_id[0] == 0x4b && parent.parent_id[7] == 0xb7);
        assert_eq!(parent.text(), GOOD);
        let unsampled = TraceParent { is_sampled: false, ..parent };
        assert!(unsampled.text().ends_with(b"-00"));
        assert_eq!(TraceParent::parse(&unsampled.text()), Some(unsampled));
        // Flags that this version does not know are left out.
        let flags = [&GOOD[..53], b"fe"].concat();
        assert!(!TraceParent::parse(&flags).unwrap().is_sampled);
    }

    #[test]
    fn later_versions_may_be_longer() {
        let version = |version: &str, behind: &str| [version.as_bytes(), &GOOD[2..], behind.as_bytes()].concat();
        assert!(TraceParent::parse(&version("01", "")).is_some());
        assert!(TraceParent::parse(&version("cc", "-what-comes")).is_some());
        assert!(TraceParent::parse(&version("cc", "-")).is_some());
        assert!(TraceParent::parse(&version("cc", ".what")).is_none());
        assert!(TraceParent::parse(&version("00", "-more")).is_none());
        assert!(TraceParent::parse(&version("ff", "")).is_none());
    }

    #[test]
    fn invalid_values_begin_a_new_trace() {
        assert!(TraceParent::parse(b"").is_none());
        for end in 0..GOOD.len() {
            assert!(TraceParent::parse(&GOOD[..end]).is_none());
        }
        for at in 0..GOOD.len() {
            for byte in [b'G', b'A', b' ', 0, 0xff] {
                let mut wrong = GOOD.to_vec();
                wrong[at] = byte;
                assert!(TraceParent::parse(&wrong).is_none(), "{}", wrong.escape_ascii());
            }
        }
        for zeros in [3..35, 36..52] {
            let mut wrong = GOOD.to_vec();
            wrong[zeros].fill(b'0');
            assert!(TraceParent::parse(&wrong).is_none());
        }
    }

    #[test]
    fn fields_of_a_state_are_joined_within_a_bound() {
        let of = |fields: &[&[u8]]| trace_state(fields.iter().copied());
        assert_eq!(of(&[]), None);
        assert_eq!(of(&[b" ", b""]), None);
        assert_eq!(of(&[b"a=1", b" b=2\t"]).as_deref(), Some("a=1,b=2"));
        assert_eq!(of(&[b"a=1", b"\x80"]), None);
        assert_eq!(of(&[b"a=\n"]), None);
        let long = vec![b'a'; MAX_TRACE_STATE];
        assert_eq!(of(&[&long]).map(|text| text.len()), Some(MAX_TRACE_STATE));
        assert_eq!(of(&[&long[1..], b"b"]), None);
    }
}
