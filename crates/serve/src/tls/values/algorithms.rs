//! Values that name versions, suites and groups in OpenSSL's language.

use freerun_conf::{Cx, Node, Problem, Setting, Shape, Value};
use freerun_tls::openssl::protocols::{Protocols, SslProtocol};

use super::Spot;

/// The versions that `ssl_protocols` allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ProtocolSet {
    /// The versions, among which may be some that are not there.
    pub protocols: Protocols,
    /// Place in the configuration.
    pub spot: Spot,
}

impl ProtocolSet {
    /// Whether TLS 1.3 is among them.
    pub fn has_tls13(&self) -> bool {
        self.protocols.has(SslProtocol::Tls13)
    }
}

impl Setting for ProtocolSet {
    const SHAPE: Shape = Shape::at_least(1, "[SSLv2] [SSLv3] [TLSv1] [TLSv1.1] [TLSv1.2] [TLSv1.3]");

    fn set(previous: Option<ProtocolSet>, directive: &Node, cx: &mut Cx) -> Result<ProtocolSet, Problem> {
        let mut protocols = previous.map_or(Protocols::NONE, |previous| previous.protocols);
        for word in &directive.args {
            let Some(protocol) = SslProtocol::named(&word.text) else {
                return Err(Problem::new(format!("invalid value \"{}\"", word.text)).at(word.place));
            };
            if protocols.has(protocol) {
                cx.warn(Problem::warning(format!("duplicate value \"{}\"", word.text)).at(word.place));
            }
            protocols = protocols.with(protocol);
        }
        Ok(ProtocolSet { protocols, spot: Spot::of(&directive.args[0], directive) })
    }
}

/// A list in OpenSSL's language, such as a cipher string. What it means is found out where it is used: a list that no server
/// with TLS has may say anything.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct AlgorithmList {
    /// The list.
    pub text: String,
    /// Place in the configuration.
    pub spot: Spot,
}

impl Value for AlgorithmList {
    const SHAPE: Shape = Shape::exactly(1, "list");

    fn parse(directive: &Node, _: &mut Cx) -> Result<AlgorithmList, Problem> {
        let word = &directive.args[0];
        Ok(AlgorithmList { text: word.text.clone(), spot: Spot::of(word, directive) })
    }
}

/// The value of `ssl_conf_command`: a pair that OpenSSL's configuration could have. What it means is found out where it is
/// used.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ConfCommand {
    /// The command.
    pub name: String,
    /// Its value.
    pub value: String,
    /// Place in the configuration.
    pub spot: Spot,
}

impl Value for ConfCommand {
    const SHAPE: Shape = Shape::exactly(2, "name value");

    fn parse(directive: &Node, _: &mut Cx) -> Result<ConfCommand, Problem> {
        let [name, value] = [&directive.args[0], &directive.args[1]];
        let spot = Spot::of(name, directive);
        Ok(ConfCommand { name: name.text.clone(), value: value.text.clone(), spot })
    }
}
