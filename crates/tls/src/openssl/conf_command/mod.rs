//! `ssl_conf_command`: names and values as `man SSL_CONF_cmd` has them.

use super::ciphers::{self, CipherList};
use super::ciphersuites::{self, Ciphersuite};
use super::groups::{self, Group};
use super::protocols::{Protocols, SslProtocol};
use super::signature_algorithms::{self, SignatureAlgorithm};
use super::{Remark, ValueError};

/// Meaning of a pair of name and value. A list is what OpenSSL makes of the value; the module of the list says which of
/// its entries freerun has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CommandMeaning {
    /// `SslProtocol`: versions that are allowed and forbidden besides what `ssl_protocols` says.
    Protocol(Vec<ProtocolChange>),
    /// `MinProtocol`: the oldest version; `None` is no bound.
    MinProtocol(Option<SslProtocol>),
    /// `MaxProtocol`: the newest version; `None` is no bound.
    MaxProtocol(Option<SslProtocol>),
    /// `CipherString`: the suites of TLS 1.2.
    CipherString(CipherList),
    /// `Ciphersuites`: the suites of TLS 1.3. None of them: TLS 1.3 is off.
    Ciphersuites(Vec<Ciphersuite>),
    /// `Groups`, `Curves`, `ECDHParameters`. Where `ECDHParameters` says `auto`, this is what `ssl_ecdh_curve auto` gives.
    Groups(Vec<&'static Group>),
    /// `Certificate`: the path of a chain.
    Certificate(String),
    /// `PrivateKey`: the path of a key.
    PrivateKey(String),
    /// `VerifyMode`. `ssl_verify_client` decides; a warning is due where this one contradicts it.
    VerifyMode(VerifyMode),
    /// `Options`.
    Options(Vec<OptionChange>),
    /// `NumTickets`: how many session tickets follow on a handshake of TLS 1.3.
    NumTickets(u32),
    /// `SignatureAlgorithms`: how the server may sign.
    SignatureAlgorithms(Vec<&'static SignatureAlgorithm>),
    /// `ClientSignatureAlgorithms`: how a client may sign.
    ClientSignatureAlgorithms(Vec<&'static SignatureAlgorithm>),
    /// OpenSSL knows it, freerun does not have it, and it is said so.
    Ignored,
}

/// A word of `SslProtocol`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProtocolChange {
    /// Whether the versions are allowed from now on.
    pub allowed: bool,
    /// The versions.
    pub protocols: Protocols,
}

impl ProtocolChange {
    /// The set as it is after the change.
    #[must_use]
    pub fn apply(self, set: Protocols) -> Protocols {
        let change = if self.allowed { Protocols::with } else { Protocols::without };
        SslProtocol::ALL.into_iter().filter(|&one| self.protocols.has(one)).fold(set, change)
    }
}

/// Demands of `VerifyMode` on the client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct VerifyMode {
    /// `Peer` or `Request`: the server requests a certificate.
    pub asked: bool,
    /// `Require`: it has to send one.
    pub required: bool,
}

/// An option that makes a difference in freerun.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SslOption {
    /// `ServerPreference`: the server's order of suites counts, as with `ssl_prefer_server_ciphers on`.
    ServerPreference,
    /// `SessionTicket`: sessions are kept in tickets, as with `ssl_session_tickets on`.
    SessionTicket,
    /// `PrioritizeChaCha`: where the client prefers ChaCha20, so does the server.
    PrioritizeChaCha,
}

/// A word of `Options`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OptionChange {
    /// Whether it is switched on.
    pub on: bool,
    /// The option.
    pub option: SslOption,
}

/// A name that OpenSSL knows, and what is done with its value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CommandKind {
    Protocol,
    MinProtocol,
    MaxProtocol,
    CipherString,
    Ciphersuites,
    Groups,
    EcdhParameters,
    Certificate,
    PrivateKey,
    VerifyMode,
    Options,
    NumTickets,
    SignatureAlgorithms,
    ClientSignatureAlgorithms,
    RecordPadding,
    Ignored,
}

/// The commands that OpenSSL 3 has for servers and clients in files, in whatever case.
const COMMANDS: &[(&str, CommandKind)] = &[
    ("Protocol", CommandKind::Protocol),
    ("MinProtocol", CommandKind::MinProtocol),
    ("MaxProtocol", CommandKind::MaxProtocol),
    ("CipherString", CommandKind::CipherString),
    ("Ciphersuites", CommandKind::Ciphersuites),
    ("Groups", CommandKind::Groups),
    ("Curves", CommandKind::Groups),
    ("ECDHParameters", CommandKind::EcdhParameters),
    ("Certificate", CommandKind::Certificate),
    ("PrivateKey", CommandKind::PrivateKey),
    ("VerifyMode", CommandKind::VerifyMode),
    ("Options", CommandKind::Options),
    ("NumTickets", CommandKind::NumTickets),
    ("SignatureAlgorithms", CommandKind::SignatureAlgorithms),
    ("ClientSignatureAlgorithms", CommandKind::ClientSignatureAlgorithms),
    ("RecordPadding", CommandKind::RecordPadding),
    ("DHParameters", CommandKind::Ignored),
    ("ServerInfoFile", CommandKind::Ignored),
    ("ChainCAFile", CommandKind::Ignored),
    ("ChainCAPath", CommandKind::Ignored),
    ("ChainCAStore", CommandKind::Ignored),
    ("VerifyCAFile", CommandKind::Ignored),
    ("VerifyCAPath", CommandKind::Ignored),
    ("VerifyCAStore", CommandKind::Ignored),
    ("RequestCAFile", CommandKind::Ignored),
    ("RequestCAPath", CommandKind::Ignored),
    ("RequestCAStore", CommandKind::Ignored),
    ("ClientCAFile", CommandKind::Ignored),
    ("ClientCAPath", CommandKind::Ignored),
    ("ClientCAStore", CommandKind::Ignored),
];

/// Effect of an option's name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum OptionKind {
    /// The option makes a difference.
    Acts(SslOption),
    /// The option describes how freerun is, and switching it on changes nothing. Switching it off is warned of.
    Always,
    /// freerun never does it, and switching it off changes nothing. Switching it on is warned of.
    Never,
    /// An observer sees no difference, however it is switched.
    Silent,
}

/// The options that OpenSSL 3 has, in whatever case.
const OPTIONS: &[(&str, OptionKind)] = &[
    ("ServerPreference", OptionKind::Acts(SslOption::ServerPreference)),
    ("SessionTicket", OptionKind::Acts(SslOption::SessionTicket)),
    ("PrioritizeChaCha", OptionKind::Acts(SslOption::PrioritizeChaCha)),
    ("NoRenegotiation", OptionKind::Always),
    ("NoResumptionOnRenegotiation", OptionKind::Always),
    ("ExtendedMasterSecret", OptionKind::Always),
    ("DHSingle", OptionKind::Always),
    ("ECDHSingle", OptionKind::Always),
    ("MiddleboxCompat", OptionKind::Always),
    ("CANames", OptionKind::Always),
    ("Compression", OptionKind::Never),
    ("UnsafeLegacyRenegotiation", OptionKind::Never),
    ("UnsafeLegacyServerConnect", OptionKind::Never),
    ("ClientRenegotiation", OptionKind::Never),
    ("AllowNoDHEKEX", OptionKind::Never),
    // Workarounds and protections of CBC suites, which there are none of.
    ("EncryptThenMac", OptionKind::Silent),
    ("EmptyFragments", OptionKind::Silent),
    ("Bugs", OptionKind::Silent),
    // nginx falls back silently where the kernel cannot do it.
    ("KTLS", OptionKind::Silent),
    ("AntiReplay", OptionKind::Silent),
];

/// The versions that `MinProtocol` and `MaxProtocol` name, with their case. Versions of DTLS bound nothing.
const BOUNDS: &[(&str, Option<SslProtocol>)] = &[
    ("None", None),
    ("SSLv3", Some(SslProtocol::Ssl3)),
    ("TLSv1", Some(SslProtocol::Tls1)),
    ("TLSv1.1", Some(SslProtocol::Tls11)),
    ("TLSv1.2", Some(SslProtocol::Tls12)),
    ("TLSv1.3", Some(SslProtocol::Tls13)),
    ("DTLSv1", None),
    ("DTLSv1.2", None),
];

/// Largest value of `RecordPadding`.
const MAX_PADDING: u32 = 16384;

/// A value that OpenSSL refuses, with what it says before the line that is the same for all.
struct Bad(String);

impl Bad {
    fn because(error: impl std::fmt::Display) -> Bad {
        Bad(error.to_string())
    }
}

/// Reads a pair of name and value.
///
/// The remarks say what of it has no effect. Names and values that OpenSSL refuses are refused with nginx's line; the files
/// that values name are not opened here.
pub fn parse(name: &str, value: &str) -> Result<(CommandMeaning, Vec<Remark>), ValueError> {
    let refused = |cause: &str| ValueError::call("SSL_CONF_cmd", &[name, value], cause);
    let Some((_, kind)) = COMMANDS.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)) else {
        return Err(refused(&format!("error:0A000182:SSL routines::unknown cmd name:cmd={name}")));
    };
    let mut remarks = Vec::new();
    match of_kind(*kind, name, value, &mut remarks) {
        Ok(command) => Ok((command, remarks)),
        Err(Bad(mut cause)) => {
            if !cause.is_empty() {
                cause.push(' ');
            }
            cause.push_str(&format!("error:0A000180:SSL routines::bad value:cmd={name}, value={value}"));
            Err(refused(&cause))
        }
    }
}

fn of_kind(kind: CommandKind, name: &str, value: &str, remarks: &mut Vec<Remark>) -> Result<CommandMeaning, Bad> {
    let bad = || Bad(String::new());
    Ok(match kind {
        CommandKind::Protocol => CommandMeaning::Protocol(words(value, protocol).ok_or_else(bad)?),
        CommandKind::MinProtocol => CommandMeaning::MinProtocol(bound(value).ok_or_else(bad)?),
        CommandKind::MaxProtocol => CommandMeaning::MaxProtocol(bound(value).ok_or_else(bad)?),
        CommandKind::CipherString => CommandMeaning::CipherString(ciphers::evaluate(value).map_err(Bad::because)?),
        CommandKind::Ciphersuites => CommandMeaning::Ciphersuites(ciphersuites::parse(value).map_err(Bad::because)?),
        CommandKind::Groups => CommandMeaning::Groups(groups::parse(value).map_err(Bad::because)?),
        CommandKind::EcdhParameters => CommandMeaning::Groups(ecdh_parameters(value)?),
        CommandKind::Certificate => CommandMeaning::Certificate(value.to_owned()),
        CommandKind::PrivateKey => CommandMeaning::PrivateKey(value.to_owned()),
        CommandKind::VerifyMode => CommandMeaning::VerifyMode(verify_mode(value).ok_or_else(bad)?),
        CommandKind::Options => CommandMeaning::Options(options(value, remarks).ok_or_else(bad)?),
        CommandKind::NumTickets => CommandMeaning::NumTickets(number(value).ok_or_else(bad)?),
        CommandKind::SignatureAlgorithms => {
            CommandMeaning::SignatureAlgorithms(signature_algorithms::parse(value).map_err(Bad::because)?)
        }
        CommandKind::ClientSignatureAlgorithms => {
            CommandMeaning::ClientSignatureAlgorithms(signature_algorithms::parse(value).map_err(Bad::because)?)
        }
        CommandKind::RecordPadding => {
            let size = number(value).filter(|size| *size <= MAX_PADDING).ok_or_else(bad)?;
            if size > 1 {
                remarks.push(ignored(name, value));
            }
            CommandMeaning::Ignored
        }
        CommandKind::Ignored => {
            remarks.push(ignored(name, value));
            CommandMeaning::Ignored
        }
    })
}

fn ignored(name: &str, value: &str) -> Remark {
    Remark::warn(format!("\"{name} {value}\" not supported, ignored"))
}

/// Words with commas between them, each with a sign before it or none, which is `+`. An empty word is an error.
fn words<T>(value: &str, read: impl Fn(bool, &str) -> Option<T>) -> Option<Vec<T>> {
    let one = |word: &str| {
        let word = word.trim();
        match word.strip_prefix('-') {
            Some(word) => read(false, word),
            None => read(true, word.strip_prefix('+').unwrap_or(word)),
        }
    };
    value.split(',').map(one).collect()
}

fn protocol(allowed: bool, word: &str) -> Option<ProtocolChange> {
    let is = |name: &str| word.eq_ignore_ascii_case(name);
    let protocols = match SslProtocol::named(word) {
        Some(protocol) => Protocols::NONE.with(protocol),
        None if is("ALL") => SslProtocol::ALL.into_iter().fold(Protocols::NONE, Protocols::with),
        None if is("DTLSv1") || is("DTLSv1.2") => Protocols::NONE,
        None => return None,
    };
    Some(ProtocolChange { allowed, protocols })
}

fn bound(value: &str) -> Option<Option<SslProtocol>> {
    BOUNDS.iter().find(|(name, _)| *name == value).map(|(_, protocol)| *protocol)
}

/// A single group, or a word that asks for OpenSSL's own choice.
fn ecdh_parameters(value: &str) -> Result<Vec<&'static Group>, Bad> {
    let automatic = ["+automatic", "automatic"].iter().any(|word| word.eq_ignore_ascii_case(value));
    if value.contains(':') {
        return Err(Bad(String::new()));
    }
    groups::parse(if automatic { groups::AUTO } else { value }).map_err(Bad::because)
}

fn verify_mode(value: &str) -> Option<VerifyMode> {
    // Asking for a certificate after the handshake is accepted, though nginx never does.
    const WORDS: [(&str, bool, bool); 6] = [
        ("Peer", true, false),
        ("Request", true, false),
        ("Require", true, true),
        ("Once", true, false),
        ("RequestPostHandshake", false, false),
        ("RequirePostHandshake", false, false),
    ];
    let word = |on: bool, word: &str| {
        WORDS
            .iter()
            .find(|(name, ..)| name.eq_ignore_ascii_case(word))
            .map(|(_, asked, required)| (on, *asked, *required))
    };
    let modes = words(value, word)?;
    Some(modes.into_iter().fold(VerifyMode::default(), |mode, (on, asked, required)| VerifyMode {
        asked: if asked { on } else { mode.asked },
        required: if required { on } else { mode.required },
    }))
}

fn options(value: &str, remarks: &mut Vec<Remark>) -> Option<Vec<OptionChange>> {
    let word = |on: bool, word: &str| {
        OPTIONS.iter().find(|(name, _)| name.eq_ignore_ascii_case(word)).map(|(name, kind)| (on, *name, *kind))
    };
    let mut changes = Vec::new();
    for (on, name, kind) in words(value, word)? {
        match kind {
            OptionKind::Acts(option) => changes.push(OptionChange { on, option }),
            OptionKind::Always if !on => remarks.push(ignored("Options", &format!("-{name}"))),
            OptionKind::Never if on => remarks.push(ignored("Options", name)),
            OptionKind::Always | OptionKind::Never | OptionKind::Silent => {}
        }
    }
    Some(changes)
}

/// A number as C's `atoi` reads it, which OpenSSL uses: what is no digit ends it, and without digits it is 0. `None`: it is
/// negative.
fn number(value: &str) -> Option<u32> {
    let value = value.trim_start();
    let (negative, digits) = match value.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, value.strip_prefix('+').unwrap_or(value)),
    };
    let digits = &digits[..digits.bytes().position(|byte| !byte.is_ascii_digit()).unwrap_or(digits.len())];
    let number = digits.parse().unwrap_or(if digits.is_empty() { 0 } else { u32::MAX });
    (!negative || number == 0).then_some(number)
}

#[cfg(test)]
mod tests;
