//! A line being written. Short pieces are written with one store of a fixed size, whose surplus the next piece
//! overwrites: calling `memcpy` costs more than storing a handful of bytes.

use freerun_proto::encode;

use super::escape::Escape;

/// The size of the part that is gathered before it is appended to the other lines.
const ROOM: usize = 256;

/// A line whose last part is gathered here.
pub struct LogLine<'o> {
    out: &'o mut Vec<u8>,
    text: [u8; ROOM],
    at: usize,
}

impl<'o> LogLine<'o> {
    /// A line that is appended to `out`.
    #[inline]
    pub fn new(out: &'o mut Vec<u8>) -> LogLine<'o> {
        LogLine { out, text: [0; ROOM], at: 0 }
    }

    /// Appends the gathered part, and returns the whole output.
    #[inline]
    pub fn flush(&mut self) -> &mut Vec<u8> {
        self.out.extend_from_slice(&self.text[..self.at]);
        self.at = 0;
        self.out
    }

    /// Makes room for `bytes` bytes, fewer than `ROOM`, and returns their position.
    #[inline(always)]
    fn room(&mut self, bytes: usize) -> usize {
        if self.at > ROOM - bytes {
            self.flush();
            return 0;
        }
        self.at
    }

    /// Appends the first `len` bytes.
    #[inline(always)]
    fn push_front<const N: usize>(&mut self, bytes: &[u8; N], len: usize) {
        let at = self.room(N);
        self.text[at..at + N].copy_from_slice(bytes);
        self.at = at + len;
    }

    /// Appends text without escaping.
    pub fn push(&mut self, text: &[u8]) {
        self.flush().extend_from_slice(text);
    }

    /// Appends one byte.
    #[inline(always)]
    pub fn push_byte(&mut self, byte: u8) {
        self.push_front(&[byte], 1);
    }

    /// Appends text of a fixed, small size.
    #[inline(always)]
    pub fn push_all<const N: usize>(&mut self, text: &[u8; N]) {
        self.push_front(text, N);
    }

    /// Appends a value that a client may have chosen.
    #[inline]
    pub fn push_value(&mut self, escape: Escape, value: &[u8]) {
        if value.len() > ROOM / 4 || !self.push_clean(escape, value) {
            escape.push(value, self.flush());
        }
    }

    /// Appends a short value, unless a byte of it has to be escaped. Bytes are checked and stored sixteen at a time;
    /// the last ones may be stored twice.
    #[inline]
    fn push_clean(&mut self, escape: Escape, value: &[u8]) -> bool {
        let at = self.room(ROOM / 4 + SHORT);
        let Some(last) = value.last_chunk::<SHORT>() else {
            let mut all = [b' '; SHORT];
            all[..value.len()].copy_from_slice(value);
            self.push_front(&all, value.len());
            return escape.is_clean(&all) || self.back_to(at);
        };
        let mut clean = escape.is_clean(last);
        let mut to = at;
        for chunk in value.as_chunks::<SHORT>().0 {
            clean &= escape.is_clean(chunk);
            self.text[to..to + SHORT].copy_from_slice(chunk);
            to += SHORT;
        }
        let end = at + value.len();
        self.text[end - SHORT..end].copy_from_slice(last);
        self.at = end;
        clean || self.back_to(at)
    }

    /// Removes the bytes behind `at`.
    fn back_to(&mut self, at: usize) -> bool {
        self.at = at;
        false
    }

    /// Appends a number.
    #[inline]
    pub fn push_number(&mut self, number: u64) {
        if number < 10_000 {
            self.push_four(number as usize);
        } else if number < 100_000_000 {
            self.push_four((number / 10_000) as usize);
            self.push_all(&four((number % 10_000) as usize));
        } else {
            encode::push_number(self.flush(), number);
        }
    }

    #[inline(always)]
    fn push_four(&mut self, number: usize) {
        let digits = 1 + usize::from(number >= 10) + usize::from(number >= 100) + usize::from(number >= 1000);
        let text = u32::from_be_bytes(four(number)) << (8 * (4 - digits));
        self.push_front(&text.to_be_bytes(), digits);
    }

    /// Appends a number below 1,000 with three digits.
    #[inline(always)]
    pub fn push_three(&mut self, number: u32) {
        let [_, a, b, c] = four(number as usize);
        self.push_all(&[a, b, c]);
    }

    /// Appends an IPv4 address.
    #[inline]
    pub fn push_ipv4(&mut self, octets: [u8; 4]) {
        for octet in octets {
            self.push_front(&OCTETS[usize::from(octet)], digits_of_octet(octet.into()) + 1);
        }
        // Removes the last dot.
        self.at -= 1;
    }
}

/// The largest size of a [`Short`].
const SHORT: usize = 16;

/// Text that is short enough for one store.
#[derive(Debug, Clone, Copy, Default)]
pub struct Short {
    bytes: [u8; SHORT],
    len: u8,
}

impl Short {
    /// The text as a [`Short`]; `None` if it is too long.
    pub fn of(text: &[u8]) -> Option<Short> {
        let mut bytes = [0; SHORT];
        bytes.get_mut(..text.len())?.copy_from_slice(text);
        Some(Short { bytes, len: u8::try_from(text.len()).ok()? })
    }

    /// Appends the text to a line.
    #[inline(always)]
    pub fn push(&self, line: &mut LogLine<'_>) {
        line.push_front(&self.bytes, self.len.into());
    }
}

/// The numbers `00` to `99`.
const PAIRS: [[u8; 2]; 100] = {
    let mut pairs = [[b'0'; 2]; 100];
    let mut number = 0;
    while number < 100 {
        pairs[number] = [b'0' + (number / 10) as u8, b'0' + (number % 10) as u8];
        number += 1;
    }
    pairs
};

/// A number below 10,000 with all its four digits.
#[inline]
fn four(number: usize) -> [u8; 4] {
    let ([a, b], [c, d]) = (PAIRS[number / 100 % 100], PAIRS[number % 100]);
    [a, b, c, d]
}

/// The numbers of an IPv4 address, each with the dot that follows.
const OCTETS: [[u8; 4]; 256] = {
    let mut octets = [[b'.'; 4]; 256];
    let mut number = 0;
    while number < 256 {
        let (mut at, mut part) = (digits_of_octet(number), number);
        while at > 0 {
            at -= 1;
            octets[number][at] = b'0' + (part % 10) as u8;
            part /= 10;
        }
        number += 1;
    }
    octets
};

const fn digits_of_octet(number: usize) -> usize {
    1 + (number >= 10) as usize + (number >= 100) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The text that `push` writes behind `before` other bytes.
    fn written(before: usize, push: impl FnOnce(&mut LogLine<'_>)) -> String {
        let mut out = b">".to_vec();
        let mut line = LogLine::new(&mut out);
        for _ in 0..before {
            line.push_byte(b'.');
        }
        push(&mut line);
        line.push_byte(b'<');
        line.flush();
        let text = String::from_utf8(out).unwrap();
        text.strip_prefix(&format!(">{}", ".".repeat(before))).unwrap().strip_suffix('<').unwrap().to_owned()
    }

    const PLACES: [usize; 6] = [0, 1, ROOM - 17, ROOM - 3, ROOM, 3 * ROOM + 7];

    #[test]
    fn short_text() {
        for text in ["", "a", "] \"", "sixteen letters!"] {
            for before in PLACES {
                assert_eq!(written(before, |line| Short::of(text.as_bytes()).unwrap().push(line)), text);
            }
        }
        assert!(Short::of(b"seventeen letters").is_none());
    }

    #[test]
    fn numbers() {
        let powers = (0..20).map(|power| 10_u64.pow(power)).flat_map(|power| [power - 1, power, power + 1]);
        for number in (0..12_000).chain(powers).chain([u64::MAX, 99_990_000, 90_009_009]) {
            assert_eq!(written(0, |line| line.push_number(number)), number.to_string());
        }
        for before in PLACES {
            assert_eq!(written(before, |line| line.push_number(12_345_678)), "12345678");
        }
        for number in 0..1000 {
            assert_eq!(written(0, |line| line.push_three(number)), format!("{number:03}"));
        }
    }

    #[test]
    fn addresses() {
        for octet in 0..=255 {
            for octets in [[octet, 1, 22, 255], [255, octet, octet, octet], [10, 0, 255, octet]] {
                let wanted = std::net::Ipv4Addr::from(octets).to_string();
                for before in [0, ROOM - 2, ROOM - 8] {
                    assert_eq!(written(before, |line| line.push_ipv4(octets)), wanted);
                }
            }
        }
    }

    #[test]
    fn values_of_all_lengths_are_escaped_where_they_have_to_be() {
        for len in 0..2 * ROOM {
            let plain: String = (b'a'..=b'z').cycle().take(len).map(char::from).collect();
            for before in PLACES {
                assert_eq!(written(before, |line| line.push_value(Escape::Default, plain.as_bytes())), plain);
            }
            for at in [0, len / 2, len.saturating_sub(1)].into_iter().filter(|_| len > 0) {
                let odd = format!("{}\"{}", &plain[..at], &plain[at + 1..]);
                for (escape, wanted) in [(Escape::Default, "\\x22"), (Escape::Json, "\\\""), (Escape::None, "\"")] {
                    let wanted = odd.replace('"', wanted);
                    assert_eq!(written(0, |line| line.push_value(escape, odd.as_bytes())), wanted, "{len} {at}");
                }
            }
        }
    }
}
