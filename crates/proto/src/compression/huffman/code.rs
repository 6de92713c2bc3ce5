//! The code of each symbol.

/// The symbol that stands for the end of a string, which no string may have in it.
pub(super) const EOS: usize = 256;

/// The length of the longest code, in bits.
pub(super) const LONGEST: usize = 30;

/// The number of bits in the code of each symbol: RFC 7541, appendix B.
#[rustfmt::skip]
pub(super) const LENGTHS: [u8; 257] = [
    13, 23, 28, 28, 28, 28, 28, 28, 28, 24, 30, 28, 28, 30, 28, 28,
    28, 28, 28, 28, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 28,
    6, 10, 10, 12, 13, 6, 8, 11, 10, 10, 8, 11, 8, 6, 6, 6,
    5, 5, 5, 6, 6, 6, 6, 6, 6, 6, 7, 8, 15, 6, 12, 10,
    13, 6, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7,
    7, 7, 7, 7, 7, 7, 7, 7, 8, 7, 8, 13, 19, 13, 14, 6,
    15, 5, 6, 5, 6, 5, 6, 6, 6, 5, 7, 7, 6, 6, 6, 5,
    6, 7, 6, 5, 5, 6, 7, 7, 7, 7, 7, 15, 11, 14, 13, 28,
    20, 22, 20, 20, 22, 22, 22, 23, 22, 23, 23, 23, 23, 23, 24, 23,
    24, 24, 22, 23, 24, 23, 23, 23, 23, 21, 22, 23, 22, 23, 23, 24,
    22, 21, 20, 22, 22, 23, 23, 21, 23, 22, 22, 24, 21, 22, 23, 23,
    21, 21, 22, 21, 23, 22, 23, 23, 20, 22, 22, 22, 23, 22, 22, 23,
    26, 26, 20, 19, 22, 23, 22, 25, 26, 26, 26, 27, 27, 26, 24, 25,
    19, 21, 26, 27, 27, 26, 27, 24, 21, 21, 26, 26, 28, 27, 27, 27,
    20, 24, 20, 21, 22, 21, 21, 23, 22, 22, 25, 25, 24, 24, 26, 23,
    26, 27, 26, 26, 27, 27, 27, 27, 27, 28, 27, 27, 27, 27, 27, 26,
    30,
];

/// The codes, in the low bits. They follow from their lengths: sorted by length, and codes of one length by symbol,
/// each code is the one before plus one.
pub(super) const CODES: [u32; 257] = {
    let mut codes = [0; 257];
    let mut code = 0;
    let mut length = 1;
    while length <= LONGEST {
        code <<= 1;
        let mut symbol = 0;
        while symbol < 257 {
            if LENGTHS[symbol] as usize == length {
                codes[symbol] = code;
                code += 1;
            }
            symbol += 1;
        }
        length += 1;
    }
    assert!(code == 1 << LONGEST, "the code leaves no sequence of bits without a meaning");
    codes
};

#[cfg(test)]
mod tests {
    use super::*;

    /// A few lines of RFC 7541, appendix B, of all lengths.
    #[test]
    fn codes_are_those_of_the_rfc() {
        for (symbol, code, length) in [
            (b'0'.into(), 0x0, 5),
            (b't'.into(), 0x9, 5),
            (b' '.into(), 0x14, 6),
            (b'u'.into(), 0x2d, 6),
            (b':'.into(), 0x5c, 7),
            (b'z'.into(), 0x7b, 7),
            (b'&'.into(), 0xf8, 8),
            (b'Z'.into(), 0xfd, 8),
            (b'!'.into(), 0x3f8, 10),
            (b'|'.into(), 0x7fc, 11),
            (b'>'.into(), 0xffb, 12),
            (0, 0x1ff8, 13),
            (b'}'.into(), 0x3ffd, 14),
            (b'{'.into(), 0x7ffe, 15),
            (b'\\'.into(), 0x7_fff0, 19),
            (224, 0xf_ffec, 20),
            (227, 0x1f_ffe6, 21),
            (199, 0x1ff_ffec, 25),
            (255, 0x3ff_ffee, 26),
            (254, 0x7ff_fff0, 27),
            (b'\n'.into(), 0x3fff_fffc, 30),
            (EOS, 0x3fff_ffff, 30),
        ] {
            assert_eq!((CODES[symbol], LENGTHS[symbol]), (code, length), "symbol {symbol}");
        }
    }
}
