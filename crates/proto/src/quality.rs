//! The weights of what a client accepts, in `Accept` and its kin (RFC 9110 section 12.4.2).

/// The weight 1, in thousandths. What a client names without a weight has it.
pub const FULL_QUALITY: u16 = 1000;

/// Reads the value of `q`, in thousandths. `None`: it is no `qvalue`.
pub fn parse_quality(text: &[u8]) -> Option<u16> {
    let (whole, fraction) = match text {
        [whole @ (b'0' | b'1')] => (*whole, &[][..]),
        [whole @ (b'0' | b'1'), b'.', fraction @ ..] if fraction.len() <= 3 => (*whole, fraction),
        _ => return None,
    };
    if !fraction.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let scale = [100, 10, 1];
    let thousandths: u16 = fraction.iter().zip(scale).map(|(digit, scale)| u16::from(digit - b'0') * scale).sum();
    match (whole, thousandths) {
        (b'0', thousandths) => Some(thousandths),
        (_, 0) => Some(FULL_QUALITY),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_have_three_digits_at_most_and_are_never_above_one() {
        for (text, quality) in [
            ("0", Some(0)),
            ("0.", Some(0)),
            ("0.5", Some(500)),
            ("0.29", Some(290)),
            ("0.001", Some(1)),
            ("1", Some(1000)),
            ("1.", Some(1000)),
            ("1.000", Some(1000)),
            ("0.0001", None),
            ("1.001", None),
            ("1.0000", None),
            ("2", None),
            ("00", None),
            (".5", None),
            ("-1", None),
            ("0.5x", None),
            ("1e0", None),
            ("nan", None),
            ("", None),
        ] {
            assert_eq!(parse_quality(text.as_bytes()), quality, "{text:?}");
        }
    }
}
