//! `$acme_certificate` and `$acme_certificate_key`.

use std::borrow::Cow;

use freerun_acme::{Host, Pair};
use freerun_http::request::Request;
use freerun_http::settings::acme::AcmeSettings;
use freerun_http::variables::{Variable, VariableValue};

use super::client::Client;

/// The variables. Where `ssl_certificate` and `ssl_certificate_key` name them, handshakes use the certificate itself.
pub(super) const VARIABLES: &[Variable] = &[
    Variable::named(
        "acme_certificate",
        "The certificate of the server that `acme_certificate` ordered, for `ssl_certificate`.",
        |request, _| value(request, |pair| &pair.chain),
    ),
    Variable::named(
        "acme_certificate_key",
        "The key of the certificate that `acme_certificate` ordered, for `ssl_certificate_key`.",
        |request, _| value(request, |pair| &pair.key),
    ),
];

/// A text of the server's certificate, once that has come.
fn value<'r>(request: &'r Request, text: impl FnOnce(&Pair) -> &str) -> VariableValue<'r> {
    let wanted = request.settings().get::<AcmeSettings>().acme_certificate.as_ref()?.wanted()?;
    let pair = request.generation.parts.get::<Client>()?.server.held(wanted)?;
    Some(Cow::Owned([b"data:", text(&pair).as_bytes()].concat()))
}
