//! The header of the PROXY protocol that connections to upstream servers begin with: `proxy_protocol` and
//! `proxy_protocol_tlv`.

use std::fmt;

use freerun_conf::{Cx, Node, Problem, Shape, Value};
use freerun_proto::proxy_protocol::write::{
    Carrier, ConnectionEnds, HeaderV2, LOCAL, TlsFields, TooLarge, own_field, write_v1,
};
use freerun_tls::verify::PeerCertificate;

use crate::listen::address::Address;
use crate::values::Template;
use crate::values::subject::{Subject, TlsSubject};

/// The types of the fields that a header has by itself for a client with TLS.
const ALPN: u8 = 0x01;
const AUTHORITY: u8 = 0x02;

/// The value of `proxy_protocol`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ProxyProtocol {
    /// There is no header.
    #[default]
    Off,
    /// A header of version 1: a line of text.
    V1,
    /// A header of version 2, which has fields.
    V2,
}

impl Value for ProxyProtocol {
    const SHAPE: Shape = Shape::exactly(1, "off | on | 1 | 2");

    fn parse(directive: &Node, _: &mut Cx) -> Result<ProxyProtocol, Problem> {
        let word = &directive.args[0];
        match word.text.to_ascii_lowercase().as_str() {
            "off" => Ok(ProxyProtocol::Off),
            "on" | "1" => Ok(ProxyProtocol::V1),
            "2" => Ok(ProxyProtocol::V2),
            _ => Err(Problem::invalid_value(directive, word)),
        }
    }
}

/// The value of `proxy_protocol_tlv`: a field of headers of version 2.
pub struct OwnTlv<S> {
    number: u8,
    value: Template<S>,
}

// Not derived, because that would demand the trait of the subject.
impl<S> Clone for OwnTlv<S> {
    fn clone(&self) -> OwnTlv<S> {
        OwnTlv { number: self.number, value: self.value.clone() }
    }
}

impl<S> fmt::Debug for OwnTlv<S> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:#04x} {:?}", self.number, self.value)
    }
}

impl<S: Subject> Value for OwnTlv<S> {
    const SHAPE: Shape = Shape::exactly(2, "type value");

    fn parse(directive: &Node, cx: &mut Cx) -> Result<OwnTlv<S>, Problem> {
        let word = &directive.args[0];
        let number = own_field(&word.text).ok_or_else(|| {
            let problem = Problem::new(format!("invalid TLV type \"{}\"", word.text)).at(word.place);
            problem.hint("it is \"alpn\", \"authority\", \"unique_id\", \"netns\" or a number such as 0xe0; those of the checksum and of TLS are written by themselves")
        })?;
        Ok(OwnTlv { number, value: Template::parse(&directive.args[1], cx)? })
    }
}

impl ProxyProtocol {
    /// Appends the header about the client of a subject, if there is to be one.
    ///
    /// # Errors
    /// Fields of the configuration are too long for a header.
    pub fn write<S: TlsSubject>(
        self,
        subject: &S,
        own: &[OwnTlv<S>],
        carrier: Carrier,
        out: &mut Vec<u8>,
    ) -> Result<(), TooLarge> {
        match self {
            ProxyProtocol::Off => {}
            ProxyProtocol::V1 => write_v1(ends(subject), out),
            ProxyProtocol::V2 => {
                let mut header = HeaderV2::new(ends(subject), carrier);
                fields(&mut header, subject, own)?;
                out.extend_from_slice(&header.finish()?);
            }
        }
        Ok(())
    }
}

impl ProxyProtocol {
    /// The header of a connection that is made for no client: a health check.
    pub fn of_nobody(self) -> Vec<u8> {
        let mut header = Vec::new();
        match self {
            ProxyProtocol::Off => {}
            ProxyProtocol::V1 => write_v1(None, &mut header),
            ProxyProtocol::V2 => header.extend_from_slice(&LOCAL),
        }
        header
    }
}

/// Both ends of the client's connection; `None` if one of them is a Unix socket.
fn ends<S: Subject>(subject: &S) -> Option<ConnectionEnds> {
    match (subject.peer(), subject.local()) {
        (Address::Ip(client), Address::Ip(server)) => Some((*client, server)),
        _ => None,
    }
}

fn fields<S: TlsSubject>(header: &mut HeaderV2, subject: &S, own: &[OwnTlv<S>]) -> Result<(), TooLarge> {
    let is_own = |number| own.iter().any(|field| field.number == number);
    // The values of variables look at the facts, too: nothing that is agreed on is borrowed meanwhile.
    let facts = subject.tls_facts().filter(|facts| facts.agreed().is_some());
    let alpn = facts.and_then(|facts| facts.agreed()?.alpn.clone());
    if let Some(alpn) = alpn.filter(|_| !is_own(ALPN)) {
        header.field(ALPN, &alpn)?;
    }
    if let Some(name) = facts.and_then(|facts| facts.asked_for.as_deref()).filter(|_| !is_own(AUTHORITY)) {
        header.field(AUTHORITY, name)?;
    }
    for OwnTlv { number, value } in own {
        let value = value.render(subject);
        if !value.is_empty() {
            header.field(*number, &value)?;
        }
    }
    let Some(facts) = facts else { return Ok(()) };
    let Some(agreed) = facts.agreed() else { return Ok(()) };
    let own = agreed.own_certificate();
    let common_name = own.and_then(|own| PeerCertificate::from_der(own)?.common_name());
    let key = agreed.shown.map(|shown| shown.key_name());
    header.tls(&TlsFields {
        has_certificate: own.is_some(),
        is_verified: facts.verified().is_success(),
        version: agreed.version.name().as_bytes(),
        common_name: common_name.as_deref(),
        cipher: Some(agreed.cipher.as_bytes()),
        signature: agreed.shown.and_then(|shown| shown.signature.name()).map(str::as_bytes),
        key: key.as_deref().map(str::as_bytes),
    })
}
