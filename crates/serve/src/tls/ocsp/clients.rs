//! Verification of clients' certificates by OCSP responders (`ssl_ocsp`).

use std::fmt;

use freerun_conf::{Cx, Problem};
use freerun_runtime::files::SocketPaths;
use freerun_runtime::log::{ErrorLog, Level, clock};
use freerun_tls::verify::{OcspStatus, PeerCertificate, Signer, Statuses, VerifyResult, ocsp_answer, ocsp_request};

use super::ask::OcspQuestion;
use super::responder::Responder;
use super::spec::{OcspResolver, OcspSpec, written};
use crate::tls::handshake::HandshakeHelpers;
use crate::tls::values::Ocsp;
use crate::tls::words::problem;

/// A client whose certificate is verified, and the facts that lines of the log about it name.
#[derive(Clone, Copy)]
pub struct Visit<'v> {
    /// The pool that verifies, and its figures.
    pub helpers: HandshakeHelpers<'v>,
    /// Lookup of the path of a responder's Unix socket.
    pub paths: SocketPaths<'v>,
    /// The error log.
    pub log: &'v ErrorLog,
    /// The number of the client's connection.
    pub connection: u64,
    /// The end of a line of the log: what is being done, and for whom.
    pub context: &'v dyn fmt::Display,
}

/// Rules for questions to responders about clients' certificates.
#[derive(Debug, Clone)]
pub(in crate::tls) struct ClientOcsp {
    /// Whether they are asked about the client's own certificate alone.
    is_leaf_only: bool,
    /// The responder to ask, instead of the responder that a certificate names.
    responder: Option<Responder>,
    resolving: Option<OcspResolver>,
    known: Option<Statuses>,
}

/// A certificate that a responder is asked about.
#[derive(Debug)]
pub(in crate::tls) struct Question {
    certificate: Vec<u8>,
    issuer: Vec<u8>,
    request: Option<Vec<u8>>,
    /// The URL of the responder that the certificate names, if it names one.
    url: Option<Vec<u8>>,
}

impl ClientOcsp {
    /// Makes it of a server's directives; `None` if nobody is asked.
    ///
    /// # Errors
    /// The responder cannot be used, in nginx's words.
    pub(in crate::tls) fn of(spec: &OcspSpec, cx: &mut Cx) -> Result<Option<ClientOcsp>, Problem> {
        let is_leaf_only = match spec.clients {
            Ocsp::Off => return Ok(None),
            Ocsp::On => false,
            Ocsp::Leaf => true,
        };
        let responder = match written(&spec.responder) {
            None => None,
            Some(url) => {
                let bad = |bad| url.spot.blamed(problem(format!("{bad} in \"ssl_ocsp_responder\"")));
                Some(Responder::of_directive(&url.text, cx).map_err(bad)?)
            }
        };
        let (resolving, known) = (spec.resolving.clone(), spec.cache.statuses().cloned());
        Ok(Some(ClientOcsp { is_leaf_only, responder, resolving, known }))
    }

    /// Prepares the questions about a chain of certificates in DER that is trusted, the client's own first. Nobody is
    /// asked about the last one, which is trusted in itself. This is not for a loop, because it reads certificates.
    pub(in crate::tls) fn questions(&self, chain: &[Vec<u8>]) -> Vec<Question> {
        let most = if self.is_leaf_only { 1 } else { usize::MAX };
        let pairs = chain.windows(2).take(most).filter_map(|pair| match pair {
            [certificate, issuer] => Some((certificate, issuer)),
            _ => None,
        });
        let question = |(certificate, issuer): (&Vec<u8>, &Vec<u8>)| Question {
            request: ocsp_request(certificate, issuer),
            url: PeerCertificate::from_der(certificate).and_then(|read| read.ocsp_responders().into_iter().next()),
            certificate: certificate.clone(),
            issuer: issuer.clone(),
        };
        pairs.map(question).collect()
    }

    /// Asks about a client's certificates, one after the other, and returns the result of the verification.
    pub(in crate::tls) async fn check(&self, questions: Vec<Question>, visit: &Visit<'_>) -> VerifyResult {
        for question in questions {
            let status = match self
                .known
                .as_ref()
                .and_then(|known| known.get(&question.certificate, &question.issuer, clock::now().secs))
            {
                Some(known) => Some(known),
                // On the heap: every handshake has room for what is part of its future, and few ask.
                None => Box::pin(self.ask(question, visit)).await,
            };
            let verified = VerifyResult::of_answer(status);
            if verified != VerifyResult::Success {
                return verified;
            }
        }
        VerifyResult::Success
    }

    /// Asks a responder for the status of a certificate. `None` if there is no useful response; the reason is in the
    /// log already.
    async fn ask(&self, question: Question, visit: &Visit<'_>) -> Option<OcspStatus> {
        let Question { certificate, issuer, request, url } = question;
        let refuse = |why: fmt::Arguments<'_>| {
            visit.log.write(Level::Error, Some(visit.connection), format_args!("{why}{}", visit.context));
        };
        let named;
        let responder = match (&self.responder, url) {
            (Some(responder), _) => responder,
            (None, None) => {
                refuse(format_args!("no OCSP responder URL in certificate"));
                return None;
            }
            (None, Some(url)) => match Responder::of_client_certificate(&url) {
                Ok(responder) => {
                    named = responder;
                    &named
                }
                Err(bad) => {
                    refuse(format_args!("{bad} in certificate"));
                    return None;
                }
            },
        };
        let (log, connection, resolving) = (visit.log, Some(visit.connection), self.resolving.as_ref());
        let asking = OcspQuestion { responder, resolving, paths: visit.paths, log, connection, file: None };
        let Some(request) = request else {
            refuse(format_args!("no OCSP request can be made for the certificate"));
            return None;
        };
        let (response, address) = asking.ask(&request).await?;
        let known = self.known.clone();
        let judge = move || {
            let now = clock::now().secs;
            let answer = ocsp_answer(&response, &certificate, &issuer, Signer::Authorised, now);
            if let (Some(known), Ok(answer)) = (known, &answer) {
                known.put(&certificate, &issuer, answer, now);
            }
            answer
        };
        let HandshakeHelpers { pool, lane, .. } = visit.helpers;
        match pool.run_in_lane(lane, std::future::pending(), judge).await.ok()? {
            Ok(answer) => Some(answer.status),
            Err(error) => {
                asking.tell(Level::Error, Some(&address), error);
                None
            }
        }
    }
}
