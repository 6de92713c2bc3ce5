//! `acme_certificate`.

use std::sync::OnceLock;

use freerun_acme::{CertificateSettings, Identifier, KeyKind};
use freerun_conf::{Cx, Node, Problem, Shape, Value};
use freerun_serve::tls::values::Spot;

use super::WantedOnce;

/// The most identifiers of one certificate; CAs take 100 at most.
const MOST_IDENTIFIERS: usize = 100;

/// The value of `acme_certificate`.
#[derive(Debug, Clone)]
pub struct AcmeCertificate {
    /// The name of the issuer.
    pub issuer: String,
    /// The names that it is for; empty: the server's names.
    pub identifiers: Vec<Identifier>,
    /// The kind of its key.
    pub key: KeyKind,
    /// The place of the issuer's name.
    pub(super) spot: Spot,
    /// The certificate with its identifiers, when the server has been read.
    pub(super) wanted: WantedOnce,
}

impl AcmeCertificate {
    /// The certificate with its identifiers. `None` only while the configuration is being read.
    pub fn wanted(&self) -> Option<&CertificateSettings> {
        self.wanted.get()
    }
}

impl Value for AcmeCertificate {
    const SHAPE: Shape = Shape::at_least(1, "issuer [identifier …] [key=alg[:size]]");

    fn parse(directive: &Node, _cx: &mut Cx) -> Result<AcmeCertificate, Problem> {
        let issuer = &directive.args[0];
        let (mut identifiers, mut key) = (Vec::new(), None);
        for word in &directive.args[1..] {
            if let Some(kind) = word.text.strip_prefix("key=") {
                let kind = KeyKind::parse(kind).ok_or_else(|| {
                    let problem = Problem::new(format!("invalid key type \"{kind}\"")).at(word.place);
                    problem.hint("there are ecdsa:256, ecdsa:384, ecdsa:521, rsa:2048, rsa:3072 and rsa:4096")
                })?;
                if key.replace(kind).is_some() {
                    return Err(Problem::new("duplicate \"key\" parameter").at(word.place));
                }
                continue;
            }
            let identifier = Identifier::parse(&word.text)
                .map_err(|why| Problem::new(format!("invalid identifier \"{}\": {why}", word.text)).at(word.place))?;
            if !identifiers.contains(&identifier) {
                identifiers.push(identifier);
            }
        }
        if identifiers.len() > MOST_IDENTIFIERS {
            let message = format!("too many identifiers: a certificate has {MOST_IDENTIFIERS} at most");
            return Err(Problem::new(message).at_node(directive));
        }
        Ok(AcmeCertificate {
            issuer: issuer.text.clone(),
            identifiers,
            key: key.unwrap_or_default(),
            spot: Spot::of(issuer, directive),
            wanted: WantedOnce::new(OnceLock::new()),
        })
    }
}
