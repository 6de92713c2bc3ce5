//! The part of a cipher string that freerun can do.

use super::{CipherList, Suite};
use crate::openssl::protocols::{Protocols, SslProtocol};
use crate::openssl::{Remark, ValueError};

/// Suites that result from a server's cipher string and its versions of the protocol.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AllowedSuites {
    /// The suites of TLS 1.2 that are offered or accepted, the most preferred first. It is empty when TLS 1.2 is off.
    pub suites: Vec<&'static Suite>,
    /// The versions that are left: without TLS 1.2 if none of its suites is.
    pub protocols: Protocols,
    /// The number of suites that OpenSSL would have had besides these.
    pub dropped: usize,
    /// The remark about it for the administrator.
    pub remark: Option<Remark>,
}

/// Takes those suites of a list that freerun has. `text` is the string that the list was made of, `protocols` are the versions
/// that freerun has and the server allows. It is an error if no suite is left, and TLS 1.3 is not allowed either.
///
/// A security level of 4 or 5 takes out suites whose encryption is too weak for it; lower levels are met by all of these.
pub fn settle(text: &str, list: &CipherList, protocols: Protocols) -> Result<AllowedSuites, ValueError> {
    if !protocols.has(SslProtocol::Tls12) {
        return Ok(AllowedSuites { suites: Vec::new(), protocols, dropped: 0, remark: None });
    }
    let needed = match list.security_level {
        Some(5..) => 256,
        Some(4) => 192,
        _ => 0,
    };
    let usable = |suite: &&'static Suite| suite.usable() && suite.strength_bits() >= needed;
    let suites: Vec<_> = list.suites.iter().copied().filter(usable).collect();
    let all = list.suites.len();
    let dropped = all - suites.len();
    if suites.is_empty() {
        let protocols = protocols.without(SslProtocol::Tls12);
        if protocols == Protocols::NONE {
            return Err(ValueError::ours(format!(
                "none of the {all} ciphers in \"{text}\" is supported, and TLSv1.3 is not enabled"
            )));
        }
        let said = format!("none of the {all} ciphers in \"{text}\" is supported, TLSv1.2 is off");
        return Ok(AllowedSuites { suites, protocols, dropped, remark: Some(Remark::warn(said)) });
    }
    let said = || Remark::notice(format!("{dropped} of the {all} ciphers in \"{text}\" are not supported, ignored"));
    let remark = (dropped > 0).then(said);
    Ok(AllowedSuites { suites, protocols, dropped, remark })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::openssl::RemarkLevel;
    use crate::openssl::ciphers::evaluate;

    fn settled(text: &str, protocols: Protocols) -> Result<AllowedSuites, ValueError> {
        settle(text, &evaluate(text).expect("OpenSSL accepts it"), protocols)
    }

    fn names(settled: &AllowedSuites) -> String {
        settled.suites.iter().map(|suite| suite.name).collect::<Vec<_>>().join(":")
    }

    #[test]
    fn verdicts() {
        let only_12 = Protocols::NONE.with(SslProtocol::Tls12);
        let only_13 = Protocols::NONE.with(SslProtocol::Tls13);

        let all = settled("ECDHE+CHACHA20:!PSK", only_12).expect("two are left");
        assert_eq!((all.dropped, &all.remark), (0, &None));
        assert_eq!(names(&all), "ECDHE-ECDSA-CHACHA20-POLY1305:ECDHE-RSA-CHACHA20-POLY1305");

        let some = settled("ECDHE-RSA-AES128-GCM-SHA256:AES128-SHA:ECDHE-ECDSA-AES128-SHA", Protocols::DEFAULT)
            .expect("one is left");
        assert_eq!((names(&some).as_str(), some.dropped), ("ECDHE-RSA-AES128-GCM-SHA256", 2));
        assert_eq!(some.protocols, Protocols::DEFAULT);
        assert!(
            some.remark.is_some_and(
                |remark| remark.level == RemarkLevel::Notice && remark.text.starts_with("2 of the 3 ciphers")
            )
        );

        let none = settled("AES128-SHA", Protocols::DEFAULT).expect("TLS 1.3 is left");
        assert_eq!((none.protocols, none.suites.len()), (only_13, 0));
        let remark = none.remark.expect("a warning");
        assert_eq!(remark.level, RemarkLevel::Warn);
        assert_eq!(remark.text, "none of the 1 ciphers in \"AES128-SHA\" is supported, TLSv1.2 is off");

        let refused = settled("AES128-SHA", only_12).expect_err("nothing is left").to_string();
        assert_eq!(refused, "none of the 1 ciphers in \"AES128-SHA\" is supported, and TLSv1.3 is not enabled");

        let not_asked = settled("AES128-SHA", only_13).expect("TLS 1.3 has its own suites");
        assert_eq!((not_asked.protocols, not_asked.remark), (only_13, None));
    }

    #[test]
    fn high_security_levels_take_out_weak_suites() {
        for (level, count) in [("0", 6), ("3", 6), ("4", 4), ("5", 4)] {
            let settled = settled(&format!("HIGH:@SECLEVEL={level}"), Protocols::DEFAULT).expect("some are left");
            assert_eq!(settled.suites.len(), count, "level {level}");
        }
    }
}
