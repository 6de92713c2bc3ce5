//! `ssl_protocols`: the versions of the protocol that are allowed.

use super::Remark;

/// A version of the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum SslProtocol {
    /// SSL 2, which is nowhere any more.
    Ssl2,
    /// SSL 3.
    Ssl3,
    /// TLS 1.0.
    Tls1,
    /// TLS 1.1.
    Tls11,
    /// TLS 1.2.
    Tls12,
    /// TLS 1.3.
    Tls13,
}

impl SslProtocol {
    /// All versions, the oldest first.
    pub const ALL: [SslProtocol; 6] = [
        SslProtocol::Ssl2,
        SslProtocol::Ssl3,
        SslProtocol::Tls1,
        SslProtocol::Tls11,
        SslProtocol::Tls12,
        SslProtocol::Tls13,
    ];

    /// The name that nginx and OpenSSL have for it.
    pub const fn name(self) -> &'static str {
        match self {
            SslProtocol::Ssl2 => "SSLv2",
            SslProtocol::Ssl3 => "SSLv3",
            SslProtocol::Tls1 => "TLSv1",
            SslProtocol::Tls11 => "TLSv1.1",
            SslProtocol::Tls12 => "TLSv1.2",
            SslProtocol::Tls13 => "TLSv1.3",
        }
    }

    /// The version with this name, in whatever case, as nginx reads it.
    pub fn named(name: &str) -> Option<SslProtocol> {
        SslProtocol::ALL.into_iter().find(|protocol| protocol.name().eq_ignore_ascii_case(name))
    }
}

/// A set of versions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Protocols(u8);

/// Reason for which a set of versions cannot be served.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProtocolsError {
    /// nginx knows no such version.
    #[error("invalid value \"{0}\"")]
    Unknown(String),
    /// freerun has none of the versions that are named.
    #[error("no protocol is left: {0} not supported, only TLSv1.2 and TLSv1.3 are")]
    NoneLeft(String),
}

impl Protocols {
    /// Versions that both nginx's listening and upstream sides allow without a directive: TLS 1.2 and 1.3.
    pub const DEFAULT: Protocols = Protocols(1 << SslProtocol::Tls12 as u8 | 1 << SslProtocol::Tls13 as u8);
    /// No version.
    pub const NONE: Protocols = Protocols(0);

    /// Reads the arguments of `ssl_protocols`, of all such directives at one place together. The remarks are nginx's about
    /// versions that are named twice.
    pub fn parse<'w>(words: impl IntoIterator<Item = &'w str>) -> Result<(Protocols, Vec<Remark>), ProtocolsError> {
        let (mut set, mut remarks) = (Protocols::NONE, Vec::new());
        for word in words {
            let protocol = SslProtocol::named(word).ok_or_else(|| ProtocolsError::Unknown(word.to_owned()))?;
            if set.has(protocol) {
                remarks.push(Remark::warn(format!("duplicate value \"{word}\"")));
            }
            set = set.with(protocol);
        }
        Ok((set, remarks))
    }

    /// Whether a version is in the set.
    pub const fn has(self, protocol: SslProtocol) -> bool {
        self.0 & 1 << protocol as u8 != 0
    }

    /// The set with this version.
    #[must_use]
    pub const fn with(self, protocol: SslProtocol) -> Protocols {
        Protocols(self.0 | 1 << protocol as u8)
    }

    /// The set without this version.
    #[must_use]
    pub const fn without(self, protocol: SslProtocol) -> Protocols {
        Protocols(self.0 & !(1 << protocol as u8))
    }

    /// The versions of the set that are not older, and not newer, than these.
    #[must_use]
    pub fn between(self, oldest: Option<SslProtocol>, newest: Option<SslProtocol>) -> Protocols {
        let outside = |protocol: &SslProtocol| {
            oldest.is_some_and(|oldest| *protocol < oldest) || newest.is_some_and(|newest| *protocol > newest)
        };
        SslProtocol::ALL.into_iter().filter(outside).fold(self, Protocols::without)
    }

    /// The versions of the set that freerun has: TLS 1.2, TLS 1.3 or both. There is one remark if others are named; it is said
    /// once for each server, whatever the number of its directives.
    pub fn usable(self) -> Result<(Protocols, Option<Remark>), ProtocolsError> {
        let usable = Protocols(self.0 & Protocols::DEFAULT.0);
        let others: Vec<_> = SslProtocol::ALL
            .into_iter()
            .filter(|&one| self.has(one) && !usable.has(one))
            .map(SslProtocol::name)
            .collect();
        if usable == Protocols::NONE {
            let others = if others.is_empty() { "none".to_owned() } else { others.join(" ") };
            return Err(ProtocolsError::NoneLeft(others));
        }
        let remark = (!others.is_empty()).then(|| Remark::warn(format!("{} not supported, ignored", others.join(" "))));
        Ok((usable, remark))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The versions and what is said of them, or the refusal.
    type Expected = Result<(Protocols, &'static [&'static str]), &'static str>;

    fn said(words: &str) -> Result<(Protocols, Vec<String>), String> {
        let told = |error: ProtocolsError| error.to_string();
        let (set, mut remarks) = Protocols::parse(words.split_whitespace()).map_err(told)?;
        let (usable, remark) = set.usable().map_err(told)?;
        remarks.extend(remark);
        Ok((usable, remarks.into_iter().map(|remark| remark.text).collect()))
    }

    #[test]
    fn words_and_verdicts() {
        let (only_12, only_13) = (Protocols::NONE.with(SslProtocol::Tls12), Protocols::NONE.with(SslProtocol::Tls13));
        let cases: &[(&str, Expected)] = &[
            ("TLSv1.2 TLSv1.3", Ok((Protocols::DEFAULT, &[]))),
            ("TLSv1.2", Ok((only_12, &[]))),
            ("tlsv1.3", Ok((only_13, &[]))),
            ("TLSv1 TLSv1.1 TLSv1.2", Ok((only_12, &["TLSv1 TLSv1.1 not supported, ignored"]))),
            (
                "TLSv1.3 SSLv3 SSLv2 TLSv1.3",
                Ok((only_13, &["duplicate value \"TLSv1.3\"", "SSLv2 SSLv3 not supported, ignored"])),
            ),
            ("TLSv1.4", Err("invalid value \"TLSv1.4\"")),
            ("SSLv3 TLSv1", Err("no protocol is left: SSLv3 TLSv1 not supported, only TLSv1.2 and TLSv1.3 are")),
        ];
        for (words, expected) in cases {
            let expected = expected
                .map(|(set, remarks)| (set, remarks.iter().map(|&text| text.to_owned()).collect::<Vec<_>>()))
                .map_err(str::to_owned);
            assert_eq!(said(words), expected, "{words}");
        }
    }

    #[test]
    fn bounds_cut_off_what_is_outside() {
        let all = SslProtocol::ALL.into_iter().fold(Protocols::NONE, Protocols::with);
        assert_eq!(all.between(Some(SslProtocol::Tls12), None), Protocols::DEFAULT);
        assert_eq!(
            all.between(Some(SslProtocol::Tls12), Some(SslProtocol::Tls12)),
            Protocols::NONE.with(SslProtocol::Tls12)
        );
        assert_eq!(
            all.between(None, Some(SslProtocol::Tls1)).usable().map_err(|error| error.to_string()).err().as_deref(),
            Some("no protocol is left: SSLv2 SSLv3 TLSv1 not supported, only TLSv1.2 and TLSv1.3 are")
        );
    }
}
