//! Files of `ssl_dhparam`. There are no suites here that use them, but a file that nginx does not take is a mistake.

use super::{MAX_PEM, Problem};
use freerun_sys::x509::pem_block;

/// Reason for which such a file is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DhparamError {
    /// The file cannot be read.
    Unreadable(Problem),
    /// Its prime is too small for OpenSSL's security level.
    TooSmall,
}

/// Checks that a PEM text has parameters of Diffie-Hellman's key exchange. They are in a block `DH PARAMETERS` (PKCS#3)
/// or `X9.42 DH PARAMETERS` (RFC 2631), in which a prime and a generator come first. The prime has to be as long as
/// OpenSSL's security level asks for. Whether the parameters are any good otherwise is not looked at.
pub fn check_dhparam(pem: &[u8], level: u8) -> Result<(), DhparamError> {
    if pem.len() > MAX_PEM {
        return Err(DhparamError::Unreadable(Problem::TooLarge));
    }
    let der = pem_block(pem, &[c"DH PARAMETERS", c"X9.42 DH PARAMETERS"]);
    let der = der.map_err(|errors| DhparamError::Unreadable(Problem::of(&errors)))?;
    let numbers = || {
        let (numbers, _) = element(&der, SEQUENCE)?;
        let (prime, rest) = element(numbers, INTEGER)?;
        element(rest, INTEGER)?;
        Some(prime)
    };
    // What SSL_CTX_set_security_level(3) says of each level; 1024 bits are asked for in any case.
    let least = match level {
        0 | 1 => 1024,
        2 => 2048,
        3 => 3072,
        4 => 7680,
        _ => 15360,
    };
    match numbers() {
        Some(prime) if bits(prime) < least => Err(DhparamError::TooSmall),
        Some(_) => Ok(()),
        None => {
            let said = "error:0488000D:PEM routines::ASN1 lib".to_owned();
            Err(DhparamError::Unreadable(Problem::Malformed(said)))
        }
    }
}

/// The number of bits of a positive number, without zeros in front.
fn bits(number: &[u8]) -> usize {
    let zeros = number.iter().take_while(|byte| **byte == 0).count();
    let number = &number[zeros..];
    number.first().map_or(0, |first| number.len() * 8 - first.leading_zeros() as usize)
}

impl DhparamError {
    /// The line that nginx logs, without its level and without what configuration it is about. `file` is the full path.
    pub fn words(&self, file: &str) -> String {
        let problem = match self {
            Self::Unreadable(problem) => problem,
            Self::TooSmall => {
                let said = "error:0A00018A:SSL routines::dh key too small";
                return format!("SSL_CTX_set_tmp_dh(\"{file}\") failed (SSL: {said})");
            }
        };
        let said = problem.openssl("error:0480006C:PEM routines::no start line:Expecting: DH PARAMETERS");
        let said = if said.is_empty() { String::new() } else { format!(" (SSL: {said})") };
        format!("PEM_read_bio_DHparams(\"{file}\") failed{said}")
    }
}

/// The tags in DER.
const INTEGER: u8 = 2;
const SEQUENCE: u8 = 0x30;

/// The contents of a non-empty element of DER with this tag, and the bytes behind it.
fn element(der: &[u8], tag: u8) -> Option<(&[u8], &[u8])> {
    let (own, rest) = der.split_first()?;
    let (&first, rest) = rest.split_first()?;
    // Above 127 it says how many bytes the length has.
    let (length, rest) = if first < 0x80 {
        (usize::from(first), rest)
    } else {
        let (bytes, rest) = rest.split_at_checked(usize::from(first & 0x7f))?;
        let add = |length: usize, byte: &u8| length.checked_mul(256)?.checked_add(usize::from(*byte));
        (bytes.iter().try_fold(0, add)?, rest)
    };
    let (contents, rest) = rest.split_at_checked(length)?;
    (*own == tag && !contents.is_empty()).then_some((contents, rest))
}

#[cfg(test)]
mod tests {
    use super::{DhparamError, check_dhparam};

    /// The group ffdhe2048 of RFC 7919.
    const FFDHE2048: &str = "\
-----BEGIN DH PARAMETERS-----
MIIBCAKCAQEA//////////+t+FRYortKmq/cViAnPTzx2LnFg84tNpWp4TZBFGQz
+8yTnc4kmz75fS/jY2MMddj2gbICrsRhetPfHtXV/WVhJDP1H18GbtCFY2VVPe0a
87VXE15/V8k1mE8McODmi3fipona8+/och3xWKE2rec1MKzKT0g6eXq8CrGCsyT7
YdEIqUuyyOP7uWrat2DX9GgdT0Kj3jlN9K5W7edjcrsZCwenyO4KbXCeAvzhzffi
7MA0BM0oNC9hkXL+nOmFg/+OTxIy7vKBg8P+OxtMb61zO7X8vC7CIAXFjvGDfRaD
ssbzSibBsu/6iGtCOGEoXJf//////////wIBAg==
-----END DH PARAMETERS-----
";
    /// A group of RFC 5114 in the form of X9.42.
    const X942: &str = "\
-----BEGIN X9.42 DH PARAMETERS-----
MIIBHwKBgQCxC4+WoIDgHd6S3l6uXVTsUsmfvPsGo8aaap3KUtI7YWBz4oZ1oj0Y
mDjvHi7mUsAT7LSuqQYRIySXXDzUm4O/rMvdfZDEvXCYSI6cIZpzck7/1vrlZEc4
+qMaT/VbzMChUa9fDci0vUW/N982XBpl5oz9p21NpwjfH7K8LkpDcQKBgQCk0cvV
w/00EmdlpELvuZkF+BBN0lisUH/WQGz/FCZtMSZv6h5cQVZLd35pD1UE8hMWAhe0
sBuIal6RVH+eJ0n01/vX07mpLuGQnQ0iY/gKdqaiTAh6CR9THb8KAWm2oorWYqTR
jnOvoy13nVkY0IvIhY9Nzvl8KiSFXm7rIrOy5QIVAPUYqoeBqN8nirpOfWS3y51J
RiNT
-----END X9.42 DH PARAMETERS-----
";

    #[test]
    fn parameters_are_taken_and_nothing_else() {
        for text in
            [FFDHE2048, X942, &format!("words\n{X942}words"), &format!("{}{FFDHE2048}", crate::fixtures::RSA_CRT)]
        {
            assert_eq!(check_dhparam(text.as_bytes(), 1), Ok(()), "{text}");
        }
        for (text, level, good) in
            [(FFDHE2048, 2, true), (FFDHE2048, 3, false), (FFDHE2048, 5, false), (X942, 2, false), (X942, 1, true)]
        {
            let checked = check_dhparam(text.as_bytes(), level);
            assert_eq!(checked, if good { Ok(()) } else { Err(DhparamError::TooSmall) }, "{level}");
        }
        let small = "SSL_CTX_set_tmp_dh(\"/f\") failed (SSL: error:0A00018A:SSL routines::dh key too small)";
        assert_eq!(DhparamError::TooSmall.words("/f"), small);
        let words = |text: &str| check_dhparam(text.as_bytes(), 0).expect_err("it is refused").words("/f");
        let line = |said: &str| format!("PEM_read_bio_DHparams(\"/f\") failed (SSL: {said})");
        let nothing = line("error:0480006C:PEM routines::no start line:Expecting: DH PARAMETERS");
        for text in ["", "words", crate::fixtures::RSA_CRT, crate::fixtures::RSA_KEY] {
            assert_eq!(words(text), nothing, "{text}");
        }
        assert_eq!(words(&X942[..X942.len() - 20]), line("error:04800066:PEM routines::bad end line"));
        let damaged = FFDHE2048.replacen("\nMII", "\n!!!", 1);
        assert_eq!(words(&damaged), line("error:04800064:PEM routines::bad base64 decode"));
        let short: String =
            X942.lines().enumerate().filter(|(at, _)| *at != 3).map(|(_, line)| format!("{line}\n")).collect();
        let malformed = line("error:0488000D:PEM routines::ASN1 lib");
        assert_eq!(words(&short), malformed);
        let block = |base64| format!("-----BEGIN DH PARAMETERS-----\n{base64}\n-----END DH PARAMETERS-----\n");
        assert_eq!(words(&block("")), "PEM_read_bio_DHparams(\"/f\") failed");
        for base64 in ["MAA=", "MAMCAQU=", "MAYCAQUEAQU=", "MP8CAQUCAQU=", "MIn/////////////AgEF", "AgEF"] {
            assert_eq!(words(&block(base64)), malformed, "{base64}");
        }
        let large = " ".repeat(super::MAX_PEM) + X942;
        assert!(check_dhparam(large.as_bytes(), 0).is_err());
    }
}
