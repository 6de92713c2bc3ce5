//! Requests for clients' certificates, and the verification of the certificates that clients show.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use freerun_conf::{Cx, Problem};
use freerun_runtime::log::clock;
use freerun_tls::verify::{
    CertificatePurpose, CertificateRequest, TrustBuilder, TrustSource, TrustStore, VerifyResult, VerifyRules,
};

use super::ServerSpec;
use crate::tls::handshake::HandshakeHelpers;
use crate::tls::objects::add;
use crate::tls::ocsp::{ClientOcsp, Visit};
use crate::tls::values::{FileName, Ocsp, VerifyClient};

/// Rules for clients' certificates (`ssl_verify_client`).
#[derive(Debug, Clone)]
pub struct ClientVerification {
    /// The request to clients: whether a certificate is optional, and whether it must be trusted.
    pub asked: CertificateRequest,
    pub(super) trust: TrustStore,
    pub(super) depth: u32,
    pub(super) level: u8,
    /// Rules for questions to responders about the certificates (`ssl_ocsp`); `None` if nobody is asked.
    pub(super) ocsp: Option<ClientOcsp>,
}

impl ClientVerification {
    /// Verifies the certificates that a client has shown in its handshake, on a thread of a pool, and asks responders about
    /// them. `None` if the client has gone meanwhile, or is not verified because the server is shut down.
    pub(in crate::tls) async fn verify<G: Future<Output = ()>>(
        &self,
        certificates: Option<Arc<[Vec<u8>]>>,
        gone: impl Fn() -> G,
        visit: &Visit<'_>,
    ) -> Option<VerifyResult> {
        let Some(sent) = certificates else { return Some(VerifyResult::None) };
        let now = clock::now().secs;
        let rules = VerifyRules { purpose: CertificatePurpose::Client, depth: self.depth, level: self.level, now };
        let (trust, ocsp) = (self.trust.clone(), self.ocsp.clone());
        let verify = move || {
            let sent = sent.iter().map(Vec::as_slice);
            let Some(ocsp) = ocsp else { return (trust.verify(sent, &rules), Vec::new()) };
            let (verified, chain) = trust.verify_and_build(sent, &rules);
            (verified, ocsp.questions(&chain))
        };
        let HandshakeHelpers { pool, lane, .. } = visit.helpers;
        let (verified, questions) = pool.run_in_lane(lane, gone(), verify).await.ok()?;
        match &self.ocsp {
            Some(ocsp) if verified == VerifyResult::Success => unless(gone(), ocsp.check(questions, visit)).await,
            _ => Some(verified),
        }
    }
}

/// Does a work unless `gone` comes first.
async fn unless<T>(gone: impl Future<Output = ()>, work: impl Future<Output = T>) -> Option<T> {
    let (mut gone, mut work) = (pin!(gone), pin!(work));
    poll_fn(|context| match work.as_mut().poll(context) {
        Poll::Ready(done) => Poll::Ready(Some(done)),
        Poll::Pending => gone.as_mut().poll(context).map(|()| None),
    })
    .await
}

/// Rules for questions to responders about the certificates that clients show upon this request.
///
/// # Errors
/// Nobody may be asked, or the responder cannot be used.
pub(super) fn ocsp(
    spec: &ServerSpec,
    asked: Option<CertificateRequest>,
    cx: &mut Cx,
) -> Result<Option<ClientOcsp>, Problem> {
    if asked == Some(CertificateRequest::OptionalNoAuthority) && spec.ocsp.clients != Ocsp::Off {
        return Err(Problem::new("\"ssl_ocsp\" is incompatible with \"ssl_verify_client optional_no_ca\""));
    }
    ClientOcsp::of(&spec.ocsp, cx)
}

/// The request to clients that a value of `ssl_verify_client` stands for; `None` if there is none.
pub(super) fn wanted(verify: VerifyClient) -> Option<CertificateRequest> {
    match verify {
        VerifyClient::Off => None,
        VerifyClient::On => Some(CertificateRequest::Required),
        VerifyClient::Optional => Some(CertificateRequest::Optional),
        VerifyClient::OptionalNoCa => Some(CertificateRequest::OptionalNoAuthority),
    }
}

/// The request to clients; `None` if there is none.
///
/// # Errors
/// No directive names the CAs that vouch for clients.
pub(super) fn asked(spec: &ServerSpec) -> Result<Option<CertificateRequest>, Problem> {
    let Some(asked) = wanted(spec.verify) else { return Ok(None) };
    if named(&spec.client_certificates).or(named(&spec.trusted)).is_none()
        && asked != CertificateRequest::OptionalNoAuthority
    {
        return Err(Problem::new("no ssl_client_certificate or ssl_trusted_certificate for ssl_verify_client"));
    }
    Ok(Some(asked))
}

/// Certificates that the server trusts. Files of the last two directives are read whether or not clients are asked for
/// certificates, because they vouch for the server's own certificate, too.
pub(super) fn trust(spec: &ServerSpec, asked: Option<CertificateRequest>, cx: &mut Cx) -> Result<TrustStore, Problem> {
    let mut builder = TrustBuilder::default();
    if let Some(file) = named(&spec.client_certificates).filter(|_| asked.is_some()) {
        add(file, TrustSource::Certificates, cx, |pem| builder.add_client_certificates(pem))?;
    }
    if let Some(file) = named(&spec.trusted) {
        add(file, TrustSource::Certificates, cx, |pem| builder.add_trusted_certificates(pem))?;
    }
    if let Some(file) = named(&spec.lists) {
        add(file, TrustSource::Lists, cx, |pem| builder.add_lists(pem))?;
    }
    Ok(builder.build())
}

/// A file, unless the directive has an empty value.
pub(super) fn named(file: &Option<FileName>) -> Option<&FileName> {
    file.as_ref().filter(|file| !file.is_empty())
}
