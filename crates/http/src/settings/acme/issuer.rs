//! The block `acme_issuer`.

use freerun_acme::IssuerSettings;
use freerun_conf::{Contexts, Cx, Directive, Many, Node, Problem, SettingsSet, Shape, path_of, settings};
use freerun_serve::configuration::parts::Paths;

use super::account::{
    AccountKeySetting, ChallengeSetting, Contact, DirectoryUrl, ExternalKey, ProfileSetting, TrustedSetting,
};
use super::wanted_certificates::DeclaredIssuers;
use crate::values::switch::Switch;

/// The name of the block.
pub const BLOCK: &str = "acme_issuer";

/// The block.
pub const DIRECTIVE: Directive = Directive::structural(
    BLOCK,
    Contexts::HTTP,
    Shape::exactly(1, "name").with_block(Contexts::ACME_ISSUER),
    "A CA that certificates are ordered of by ACME (RFC 8555), and the account there.\n\
     \n\
     It may stand below the servers that name it. Its server's name is looked up by the `resolver` of `http`, or by the \
     system where there is none; nginx needs one. An account is made with the first order.",
);

settings! {
    /// The directives in `acme_issuer`.
    #[module = "acme_issuer"]
    pub struct IssuerDirectives {
        /// The URL of the CA's directory. It has to be there.
        uri: Option<DirectoryUrl>, in ACME_ISSUER;
        /// The key of the account: the kind of a key that is made and kept in `state_path`, or a file with a private
        /// key as PEM.
        ///
        /// nginx has `ecdsa:256`, `ecdsa:384`, `ecdsa:521`, `rsa:2048`, `rsa:3072` and `rsa:4096`, for the algorithms ES256, ES384,
        /// ES512 and RS256.
        account_key: Option<AccountKeySetting>, in ACME_ISSUER, fidelity = Differs("keys are of the kind `ecdsa:256` alone");
        /// The proof of control over a name: a page on port 80 (`http-01`, or `http`), or a certificate on port 443
        /// (`tls-alpn-01`, or `tls-alpn`).
        ///
        /// Pages of challenges are answered by every server, before its own directives.
        challenge: ChallengeSetting = "http-01", in ACME_ISSUER;
        /// A URL where the CA reaches the owner of the account; without a scheme it is an address of mail.
        ///
        /// It may be written several times.
        contact: Many<Contact>, in ACME_ISSUER;
        /// An account elsewhere that the CA binds this one to (RFC 8555, section 7.3.4): the identifier of its key, and
        /// the key in base64url. The key is in a file, or stands behind `data:`.
        external_account_key: Option<ExternalKey>, in ACME_ISSUER, fidelity = Differs("not together with an `account_key` from a file");
        /// Of several chains that the CA offers, the one is used whose topmost certificate was issued by this common name.
        preferred_chain: Option<String>, in ACME_ISSUER;
        /// The profile that certificates are ordered with. With `require` none is ordered where the CA does not have it.
        profile: Option<ProfileSetting>, in ACME_ISSUER;
        /// A file with the authorities that verify the CA's own server, instead of the system's.
        ssl_trusted_certificate: Option<TrustedSetting>, in ACME_ISSUER;
        /// Whether the certificate of the CA's own server is verified.
        ssl_verify: bool = "on", in ACME_ISSUER;
        /// The folder of the account and the certificates, `acme_` and the issuer's name by default; `off`: nothing is kept over
        /// a restart.
        ///
        /// Relative paths begin at the prefix. The folder is made if its parent is there, for the user that the worker runs
        /// as and for nobody else: it has private keys. Issuers of the same `uri` with different accounts need different folders.
        state_path: Option<String>, in ACME_ISSUER;
        /// Whether you agree to the terms of service of the CA.
        accept_terms_of_service: Switch, in ACME_ISSUER;
        /// Whether requests for certificates have the first identifier as the common name too.
        common_name_in_csr: bool = "off", in ACME_ISSUER;
    }
}

/// Takes a block with the settings inside.
///
/// # Errors
/// The name is taken, there is no `uri`, the client cannot do what is written, or another issuer's account would be replaced.
pub fn declare(node: &Node, settings: &SettingsSet, cx: &mut Cx) -> Result<(), Problem> {
    let word = &node.args[0];
    let name = word.text.as_str();
    let own = settings.get::<IssuerDirectives>();
    if name.is_empty() {
        return Err(Problem::new("empty name of \"acme_issuer\"").at_node(node).at(word.place));
    }
    let declared = cx.extensions.get_or_default::<DeclaredIssuers>();
    if declared.issuer(name).is_some() {
        return Err(Problem::new(format!("duplicate acme_issuer \"{name}\"")).at_node(node).at(word.place));
    }
    let state_path = match own.state_path.as_deref() {
        Some("off") => None,
        written => {
            let default = format!("acme_{name}");
            Some(cx.extensions.get_or_default::<Paths>().absolute(written.unwrap_or(&default)))
        }
    };
    let uri = own.uri.clone();
    let plain = IssuerSettings::new(name, uri.as_ref().map_or("", |uri| uri.0.as_str()));
    let issuer = IssuerSettings {
        account_key: own.account_key.as_ref().map_or(plain.account_key.clone(), |key| key.0.clone()),
        challenge: own.challenge.0,
        contacts: own.contact.iter().map(|contact| contact.0.clone()).collect(),
        external_account: own.external_account_key.as_ref().map(|key| key.0.clone()),
        preferred_chain: own.preferred_chain.clone(),
        profile: own.profile.as_ref().map(|profile| profile.0.clone()),
        trusted: own.ssl_trusted_certificate.as_ref().map(|trusted| trusted.0.clone()),
        verify: own.ssl_verify,
        state_path: state_path.map(|path| path_of(&path).into_owned()),
        accepts_terms: own.accept_terms_of_service.0,
        common_name_in_csr: own.common_name_in_csr,
        ..plain
    };
    let checked = issuer.check();
    let declared = cx.extensions.get_or_default::<DeclaredIssuers>();
    let replaced = declared.account_replaced_by(&issuer).map(|other| other.name.clone());
    declared.add_issuer(issuer);
    if uri.is_none() {
        // A `uri` that is there and wrong has its message already.
        if node.children().iter().any(|child| child.name.text == "uri") {
            return Ok(());
        }
        // nginx finds what is missing when it has read the block.
        let message = format!("\"uri\" is missing in acme_issuer \"{name}\"");
        return Err(Problem::new(message).at_node(node).at(word.place).reported_at(node.close));
    }
    if let Err((directive, why)) = checked {
        let culprit = node.children().iter().find(|child| child.name.text == directive).unwrap_or(node);
        return Err(Problem::new(format!("\"{directive}\" directive {why}")).at_node(culprit));
    }
    if let Some(other) = replaced {
        let culprit = node.children().iter().find(|child| child.name.text == "state_path").unwrap_or(node);
        let message = format!(
            "\"state_path\" of acme_issuer \"{name}\" is that of \"{other}\", which has another account with the same \"uri\""
        );
        return Err(Problem::new(message).at_node(culprit).hint("give one of them another folder"));
    }
    Ok(())
}
