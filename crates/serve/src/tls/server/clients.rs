//! How clients are asked for certificates, and what becomes of those that they show.

use std::time::Duration;

use freerun_conf::{Cx, Problem};
use freerun_tls::verify::{Asked, Purpose, Rules, Source, Trust, TrustBuilder, Verified};

use super::ServerSpec;
use crate::tls::objects::add;
use crate::tls::values::{FileName, VerifyClient};

/// How clients are asked for certificates (`ssl_verify_client`).
#[derive(Debug, Clone)]
pub struct ClientVerification {
    /// What is asked of them.
    pub asked: Asked,
    pub(super) trust: Trust,
    pub(super) depth: u32,
    pub(super) level: u8,
}

impl ClientVerification {
    /// Verifies what a client has sent, in DER: its own certificate first. `now` is the time since 1970. This takes up to some
    /// milliseconds, so it is not for a loop.
    pub fn verify(&self, sent: &[Vec<u8>], now: Duration) -> Verified {
        let now = i64::try_from(now.as_secs()).unwrap_or(i64::MAX);
        let ClientVerification { trust, depth, level, .. } = self;
        let rules = Rules { purpose: Purpose::Client, depth: *depth, level: *level, now };
        trust.verify(sent.iter().map(Vec::as_slice), &rules)
    }
}

/// What is asked of clients; `None` if nothing is.
///
/// # Errors
/// There is nobody to vouch for them.
pub(super) fn asked(spec: &ServerSpec) -> Result<Option<Asked>, Problem> {
    let asked = match spec.verify {
        VerifyClient::Off => return Ok(None),
        VerifyClient::On => Asked::Required,
        VerifyClient::Optional => Asked::Optional,
        VerifyClient::OptionalNoCa => Asked::OptionalNoAuthority,
    };
    if named(&spec.client_certificates).or(named(&spec.trusted)).is_none() && asked != Asked::OptionalNoAuthority {
        return Err(Problem::new("no ssl_client_certificate or ssl_trusted_certificate for ssl_verify_client"));
    }
    Ok(Some(asked))
}

/// Whom the server trusts. Files of the last two directives are read whether or not clients are asked for certificates, because
/// they vouch for the server's own certificate, too.
pub(super) fn trust(spec: &ServerSpec, asked: Option<Asked>, cx: &mut Cx) -> Result<Trust, Problem> {
    let mut builder = TrustBuilder::default();
    if let Some(file) = named(&spec.client_certificates).filter(|_| asked.is_some()) {
        add(file, Source::Certificates, cx, |pem| builder.add_client_certificates(pem))?;
    }
    if let Some(file) = named(&spec.trusted) {
        add(file, Source::Certificates, cx, |pem| builder.add_trusted_certificates(pem))?;
    }
    if let Some(file) = named(&spec.lists) {
        add(file, Source::Lists, cx, |pem| builder.add_lists(pem))?;
    }
    Ok(builder.build())
}

/// A file, unless the directive has an empty value.
pub(super) fn named(file: &Option<FileName>) -> Option<&FileName> {
    file.as_ref().filter(|file| !file.is_empty())
}
