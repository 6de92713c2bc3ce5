//! The versions, suites and groups that directives and `ssl_conf_command` ask for together.

use freerun_conf::{Cx, Problem};
use freerun_tls::openssl::ciphersuites::{self, Ciphersuite};
use freerun_tls::openssl::conf_command::{Command, SslOption};
use freerun_tls::openssl::protocols::{Protocol, Protocols};
use freerun_tls::openssl::{ciphers, groups};
use freerun_tls::session::Version;
use freerun_tls::verify::DEFAULT_LEVEL;

use super::words::{problem, tell};

/// What the directives and the commands together ask for.
pub(super) struct Wanted {
    /// Versions, without those that are not there.
    protocols: Protocols,
    cipher_text: String,
    ciphers: ciphers::CipherList,
    ciphersuites: Vec<Ciphersuite>,
    /// Groups, if a command says so.
    pub(super) groups: Option<Vec<&'static groups::Group>>,
    /// Whether the server's order of suites counts, if a command says so.
    pub(super) prefer_server_order: Option<bool>,
    /// How many tickets a client gets, if a command says so.
    pub(super) tickets: Option<usize>,
}

impl Wanted {
    /// What a cipher string, a set of versions, and commands ask for.
    pub(super) fn of(
        protocols: Protocols,
        cipher_string: &str,
        commands: &[Command],
        cx: &mut Cx,
    ) -> Result<Wanted, Problem> {
        let mut wanted = Wanted {
            protocols,
            cipher_text: cipher_string.to_owned(),
            ciphers: ciphers::ssl_ciphers(cipher_string).map_err(problem)?,
            ciphersuites: Ciphersuite::DEFAULT.to_vec(),
            groups: None,
            prefer_server_order: None,
            tickets: None,
        };
        let (mut oldest, mut newest) = (None, None);
        for command in commands {
            match command {
                Command::Protocol(changes) => {
                    wanted.protocols = changes.iter().fold(wanted.protocols, |set, change| change.apply(set));
                }
                Command::MinProtocol(bound) => oldest = *bound,
                Command::MaxProtocol(bound) => newest = *bound,
                Command::CipherString(list) => wanted.ciphers.clone_from(list),
                Command::Ciphersuites(suites) => wanted.ciphersuites.clone_from(suites),
                Command::Groups(groups) => wanted.groups = Some(groups.clone()),
                Command::NumTickets(number) => wanted.tickets = usize::try_from(*number).ok(),
                Command::Options(changes) => {
                    for change in changes.iter().filter(|change| change.option == SslOption::ServerPreference) {
                        wanted.prefer_server_order = Some(change.on);
                    }
                }
                _ => {}
            }
        }
        wanted.protocols = wanted.protocols.between(oldest, newest);
        let (protocols, remark) = wanted.protocols.usable().map_err(problem)?;
        wanted.protocols = protocols;
        tell(remark, cx);
        Ok(wanted)
    }

    /// The suites of both versions by number, and the versions that are left.
    pub(super) fn settle(&self, cx: &mut Cx) -> Result<(Vec<u16>, Vec<Version>), Problem> {
        let settled = ciphers::settle(&self.cipher_text, &self.ciphers, self.protocols).map_err(problem)?;
        tell(settled.remark, cx);
        let mut protocols = settled.protocols;
        let (newer, remark) = ciphersuites::usable(&self.ciphersuites);
        if protocols.has(Protocol::Tls13) {
            tell(remark, cx);
            if newer.is_empty() {
                protocols = protocols.without(Protocol::Tls13);
            }
        }
        let newer = newer.into_iter().map(Ciphersuite::id);
        let suites = newer.chain(settled.suites.iter().map(|suite| suite.id)).collect();
        let versions = [(Protocol::Tls12, Version::Tls12), (Protocol::Tls13, Version::Tls13)];
        let versions = versions.into_iter().filter(|(protocol, _)| protocols.has(*protocol)).map(|(_, version)| version);
        Ok((suites, versions.collect()))
    }

    /// OpenSSL's security level.
    pub(super) fn level(&self) -> u8 {
        self.ciphers.security_level.unwrap_or(DEFAULT_LEVEL)
    }
}
