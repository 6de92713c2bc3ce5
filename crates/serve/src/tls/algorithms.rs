//! The versions, suites and groups that directives and `ssl_conf_command` ask for together.

use std::collections::HashMap;

use freerun_conf::{Cx, Problem};
use freerun_tls::openssl::ciphers::CipherList;
use freerun_tls::openssl::ciphersuites::{self, Ciphersuite};
use freerun_tls::openssl::conf_command::{self, CommandMeaning, SslOption, VerifyMode};
use freerun_tls::openssl::protocols::SslProtocol;
use freerun_tls::openssl::signature_algorithms::{self, SignatureAlgorithm};
use freerun_tls::openssl::{ciphers, groups};
use freerun_tls::session::{Schemes, TlsVersion};
use freerun_tls::verify::DEFAULT_LEVEL;

use super::values::{AlgorithmList, ConfCommand, FileName, ProtocolSet, Spot};
use super::words::{problem, tell};

/// Algorithms and options that the directives and the commands together request.
pub(super) struct WantedAlgorithms {
    protocols: ProtocolSet,
    cipher_text: String,
    ciphers: CipherList,
    /// Place of the cipher string in the configuration.
    ciphers_at: Spot,
    ciphersuites: Vec<Ciphersuite>,
    /// Groups, if a command says so, and where it is written.
    groups: Option<(Vec<&'static groups::Group>, Spot)>,
    /// Whether the server's order of suites counts, if a command says so.
    pub(super) prefer_server_order: Option<bool>,
    /// Whether clients that prefer ChaCha20 get it, whatever the server's order.
    pub(super) prioritize_chacha: bool,
    /// Signature schemes that servers may use, if a command says so.
    schemes: Option<Schemes>,
    /// Signature schemes that clients may use, if a command says so.
    client_schemes: Option<Schemes>,
    /// Number of session tickets for each client, if a command says so.
    pub(super) tickets: Option<usize>,
    /// Whether there are tickets at all, if a command says so.
    pub(super) has_tickets: Option<bool>,
    /// Verification of peers, if a command says so, and the command's place in the configuration.
    pub(super) verify_mode: Option<(VerifyMode, Spot)>,
    /// A certificate that a command adds to the certificates of the directives.
    pub(super) certificate: Option<FileName>,
    /// A key that a command adds to the keys of the directives.
    pub(super) key: Option<FileName>,
}

/// Algorithms that are requested and supported.
pub(super) struct SettledAlgorithms {
    /// The suites of both versions by number.
    pub(super) suites: Vec<u16>,
    /// The versions that are left.
    pub(super) versions: Vec<TlsVersion>,
    /// OpenSSL's security level.
    pub(super) level: u8,
}

/// The cipher strings that were evaluated for this configuration already: thousands of servers have the same one.
#[derive(Default)]
struct CipherLists(HashMap<String, CipherList>);

/// Evaluates a cipher string, or finds its list among the strings that were evaluated before.
fn evaluate(AlgorithmList { text, spot }: &AlgorithmList, cx: &mut Cx) -> Result<CipherList, Problem> {
    let CipherLists(known) = cx.extensions.get_or_default::<CipherLists>();
    if let Some(list) = known.get(text) {
        return Ok(list.clone());
    }
    let list = ciphers::ssl_ciphers(text).map_err(|refused| spot.blamed(problem(refused)))?;
    known.insert(text.clone(), list.clone());
    Ok(list)
}

impl WantedAlgorithms {
    /// Begins with the cipher string and the versions of the directives.
    ///
    /// # Errors
    /// OpenSSL refuses the cipher string.
    pub(super) fn of(
        protocols: ProtocolSet,
        cipher_string: &AlgorithmList,
        cx: &mut Cx,
    ) -> Result<WantedAlgorithms, Problem> {
        let AlgorithmList { text, spot } = cipher_string;
        Ok(WantedAlgorithms {
            protocols,
            cipher_text: text.clone(),
            ciphers: evaluate(cipher_string, cx)?,
            ciphers_at: *spot,
            ciphersuites: Ciphersuite::DEFAULT.to_vec(),
            groups: None,
            prefer_server_order: None,
            prioritize_chacha: false,
            schemes: None,
            client_schemes: None,
            tickets: None,
            has_tickets: None,
            verify_mode: None,
            certificate: None,
            key: None,
        })
    }

    /// Carries out commands.
    ///
    /// # Errors
    /// OpenSSL refuses one of them.
    pub(super) fn command(&mut self, commands: &[ConfCommand], cx: &mut Cx) -> Result<(), Problem> {
        let (mut oldest, mut newest) = (None, None);
        for ConfCommand { name, value, spot } in commands {
            let (command, remarks) =
                conf_command::parse(name, value).map_err(|refused| spot.blamed(problem(refused)))?;
            for remark in remarks {
                tell(Some(remark), *spot, cx);
            }
            match command {
                CommandMeaning::Protocol(changes) => {
                    let set = &mut self.protocols.protocols;
                    *set = changes.iter().fold(*set, |set, change| change.apply(set));
                }
                CommandMeaning::MinProtocol(bound) => oldest = bound,
                CommandMeaning::MaxProtocol(bound) => newest = bound,
                CommandMeaning::CipherString(list) => {
                    (self.cipher_text, self.ciphers, self.ciphers_at) = (value.clone(), list, *spot);
                }
                CommandMeaning::Ciphersuites(suites) => {
                    self.ciphersuites = suites;
                    self.ciphersuites_told(*spot, cx);
                }
                CommandMeaning::Groups(groups) => self.groups = Some((groups, *spot)),
                CommandMeaning::NumTickets(number) => self.tickets = usize::try_from(number).ok(),
                CommandMeaning::Options(changes) => {
                    for change in changes {
                        match change.option {
                            SslOption::ServerPreference => self.prefer_server_order = Some(change.on),
                            SslOption::SessionTicket => self.has_tickets = Some(change.on),
                            SslOption::PrioritizeChaCha => self.prioritize_chacha = change.on,
                        }
                    }
                }
                CommandMeaning::VerifyMode(mode) => self.verify_mode = Some((mode, *spot)),
                CommandMeaning::Certificate(path) => self.certificate = Some(FileName::new(&path, *spot, cx)),
                CommandMeaning::PrivateKey(path) => self.key = Some(FileName::new(&path, *spot, cx)),
                CommandMeaning::SignatureAlgorithms(list) => self.schemes = Some(schemes(&list, *spot, cx)?),
                CommandMeaning::ClientSignatureAlgorithms(list) => {
                    self.client_schemes = Some(schemes(&list, *spot, cx)?)
                }
                CommandMeaning::Ignored => {}
            }
        }
        self.protocols.protocols = self.protocols.protocols.between(oldest, newest);
        Ok(())
    }

    /// Signature schemes that servers may use.
    pub(super) fn schemes(&self) -> Schemes {
        self.schemes.clone().unwrap_or_default()
    }

    /// Signature schemes that clients may use: as for servers unless a command says something else.
    pub(super) fn client_schemes(&self) -> Schemes {
        self.client_schemes.clone().unwrap_or_else(|| self.schemes())
    }

    fn ciphersuites_told(&self, spot: Spot, cx: &mut Cx) {
        tell(ciphersuites::usable(&self.ciphersuites).1, spot, cx);
    }

    /// Reduces the request to what is supported.
    ///
    /// # Errors
    /// Nothing is left.
    pub(super) fn settle(&self, cx: &mut Cx) -> Result<SettledAlgorithms, Problem> {
        let ProtocolSet { protocols, spot } = self.protocols;
        let (protocols, remark) = protocols.usable().map_err(|none| spot.blamed(problem(none)))?;
        tell(remark, spot, cx);
        let settled = ciphers::settle(&self.cipher_text, &self.ciphers, protocols);
        let settled = settled.map_err(|refused| self.ciphers_at.blamed(problem(refused)))?;
        tell(settled.remark, self.ciphers_at, cx);
        let mut protocols = settled.protocols;
        let (newer, _) = ciphersuites::usable(&self.ciphersuites);
        if newer.is_empty() {
            protocols = protocols.without(SslProtocol::Tls13);
        }
        let newer = newer.into_iter().map(Ciphersuite::id);
        let suites = newer.chain(settled.suites.iter().map(|suite| suite.id)).collect();
        let versions = [(SslProtocol::Tls12, TlsVersion::Tls12), (SslProtocol::Tls13, TlsVersion::Tls13)];
        let versions =
            versions.into_iter().filter(|(protocol, _)| protocols.has(*protocol)).map(|(_, version)| version);
        Ok(SettledAlgorithms { suites, versions: versions.collect(), level: self.level() })
    }

    /// OpenSSL's security level, as far as it is known yet.
    pub(super) fn level(&self) -> u8 {
        self.ciphers.security_level.unwrap_or(DEFAULT_LEVEL)
    }

    /// The groups by number: those that a command names, or else `named`.
    ///
    /// # Errors
    /// None of them is there.
    pub(super) fn groups(&self, named: Vec<u16>, cx: &mut Cx) -> Result<Vec<u16>, Problem> {
        let Some((groups, spot)) = &self.groups else { return Ok(named) };
        let text = groups.iter().map(|group| group.name()).collect::<Vec<_>>().join(":");
        let (groups, remark) = groups::usable(&text, groups).map_err(|refused| spot.blamed(problem(refused)))?;
        tell(remark, *spot, cx);
        Ok(groups.iter().map(|group| group.id).collect())
    }
}

/// The schemes of a list.
///
/// # Errors
/// None of them is there.
fn schemes(list: &[&'static SignatureAlgorithm], spot: Spot, cx: &mut Cx) -> Result<Schemes, Problem> {
    let Some((usable, remark)) = signature_algorithms::usable(list) else {
        return Err(spot.blamed(Problem::new("none of the signature algorithms is supported")));
    };
    tell(remark, spot, cx);
    Ok(Schemes::only(usable.iter().map(|algorithm| algorithm.id)))
}
