//! Chains of certificates against a store.

use super::certificate::IssuerCheck;
use super::findings::{CheckStage, Findings};
use super::run::VerifyRun;
use super::stack::CertificateStack;
use super::trust::PurposeTrust;
use super::words::{CA_KEY_TOO_SMALL, CA_MD_TOO_WEAK, EE_KEY_TOO_SMALL};
use super::{Certificate, CertificatePurpose, CertificateStore, Chain, ChainRules, Errors, VerifyError, lc, strength};

/// The error that stands for every failure of the library itself.
const UNSPECIFIED: VerifyError = VerifyError { code: lc::X509_V_ERR_UNSPECIFIED, depth: 0 };

impl CertificateStore {
    /// Verifies what a peer has sent: its own certificate, and then others in any order. Nothing is trusted but what is
    /// in the store: a certificate that is its own issuer, or a certificate that a `TRUSTED CERTIFICATE` block calls
    /// trusted.
    ///
    /// As nginx has OpenSSL do it, the verification goes on when it has found something, and the last thing found is
    /// the result.
    ///
    /// What it gives is the chain that has been built, the peer's own certificate first and a trusted one last.
    pub fn verify(&self, sent: &[Certificate], rules: &ChainRules) -> Result<Chain, VerifyError> {
        let own = sent.first().ok_or(UNSPECIFIED)?;
        drop(Errors::take());
        let result = self.judge(own, sent, rules);
        drop(Errors::take());
        result
    }

    fn judge(&self, own: &Certificate, sent: &[Certificate], rules: &ChainRules) -> Result<Chain, VerifyError> {
        let mut findings = Findings::default();
        // If the key usage of a certificate does not allow to sign certificates, the library does not take it for its
        // own issuer either. OpenSSL does: such a certificate is trusted if it is in the store.
        let alone = own.issued(own) == IssuerCheck::NotAllowed;
        if alone && self.rejects(own, rules.purpose) {
            findings.note(VerifyError { code: lc::X509_V_ERR_CERT_REJECTED, depth: 0 });
        }
        let sent = if alone { &[] } else { sent };
        let (list, nothing) =
            (CertificateStack::new(sent).ok_or(UNSPECIFIED)?, CertificateStack::new(&[]).ok_or(UNSPECIFIED)?);
        let mut run = VerifyRun::new(self, own, &list, rules).ok_or(UNSPECIFIED)?;
        if alone {
            run.trust_exactly(&nothing);
        }
        let verified = run.verify(&mut findings);
        let chain = run.chain();
        if alone {
            if findings.remove(lc::X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY) {
                let unknown = VerifyError { code: lc::X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT, depth: 0 };
                findings.add(CheckStage::Chain, unknown);
            }
        } else {
            self.complete(&mut findings, &chain, sent, rules.now);
        }
        weaknesses(&mut findings, own, &chain, strength::needed(rules.level));
        match findings.last() {
            None if verified => Ok(chain),
            finding => Err(finding.unwrap_or(UNSPECIFIED)),
        }
    }

    /// The issuer of a certificate: one of the others, or a certificate of the store. In the store, certificates whose
    /// time it is come first. `now` is in seconds since 1970.
    pub fn issuer(&self, certificate: &Certificate, others: &[Certificate], now: i64) -> Option<Certificate> {
        if let Some(issuer) = others.iter().find(|other| other.issued(certificate) == IssuerCheck::Yes) {
            return Some(issuer.clone());
        }
        let nothing = CertificateStack::new(&[])?;
        let rules = ChainRules { purpose: CertificatePurpose::Server, depth: 0, lists: false, level: 0, now };
        let issuer = VerifyRun::new(self, certificate, &nothing, &rules)?.issuer(certificate);
        drop(Errors::take());
        issuer
    }

    /// Whether the store has this certificate, which may not sign others, and it is said that it may not be used.
    fn rejects(&self, own: &Certificate, purpose: CertificatePurpose) -> bool {
        self.unsigning().iter().any(|known| known.same(own) && known.said(purpose) == PurposeTrust::Rejected)
    }

    /// Adds what OpenSSL finds where this library has no issuer and looks no further.
    fn complete(&self, findings: &mut Findings, chain: &[Certificate], sent: &[Certificate], now: i64) {
        let (Some(own), Some(top)) = (chain.first(), chain.last()) else { return };
        // OpenSSL takes those for issuers that are not allowed to be, and says so when it looks at the signatures.
        let incomplete = [lc::X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY, lc::X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT];
        let mut others = sent.iter().chain(self.unsigning());
        let not_allowed = incomplete.into_iter().any(|code| findings.has(code))
            && others.any(|other| other.issued(top) == IssuerCheck::NotAllowed);
        let without_issuer = findings.has(lc::X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE);
        if not_allowed {
            findings.remove(lc::X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE);
            let depth = u32::try_from(chain.len()).unwrap_or(0);
            findings
                .add_first(CheckStage::Signatures, VerifyError { code: lc::X509_V_ERR_KEYUSAGE_NO_CERTSIGN, depth });
        }
        if let (true, Some(code)) = (without_issuer, own.outside_its_time(now)) {
            findings.add(CheckStage::Signatures, VerifyError { code, depth: 0 });
        }
    }
}

/// Adds what is too weak for a security level, which this library does not know.
fn weaknesses(findings: &mut Findings, own: &Certificate, chain: &[Certificate], needed: u32) {
    if own.key_strength() < needed {
        findings.add(CheckStage::OwnKey, VerifyError { code: EE_KEY_TOO_SMALL, depth: 0 });
    }
    for (depth, certificate) in (0..).zip(chain) {
        if depth > 0 && certificate.key_strength() < needed {
            findings.add(CheckStage::Strength, VerifyError { code: CA_KEY_TOO_SMALL, depth });
        }
        // Nobody asks for the signer of the last one.
        if depth as usize + 1 < chain.len() && certificate.signature_strength() < needed {
            findings.add(CheckStage::Strength, VerifyError { code: CA_MD_TOO_WEAK, depth });
            if certificate.signature_strength() == strength::MD5 {
                // This library cannot verify it, and OpenSSL can.
                findings.remove_one(VerifyError { code: lc::X509_V_ERR_CERT_SIGNATURE_FAILURE, depth });
            }
        }
    }
}

impl Certificate {
    /// The number of what OpenSSL says about its time: it has not come, it is over, or it cannot be read.
    fn outside_its_time(&self, now: i64) -> Option<i32> {
        // SAFETY: the certificate is alive; the times are borrowed from it.
        let (begin, end) = unsafe {
            let (begin, end) = (lc::X509_get0_notBefore(self.as_ptr()), lc::X509_get0_notAfter(self.as_ptr()));
            (lc::X509_cmp_time_posix(begin, now), lc::X509_cmp_time_posix(end, now))
        };
        match (begin, end) {
            (_, 0) => Some(lc::X509_V_ERR_ERROR_IN_CERT_NOT_AFTER_FIELD),
            (_, ..0) => Some(lc::X509_V_ERR_CERT_HAS_EXPIRED),
            (0, _) => Some(lc::X509_V_ERR_ERROR_IN_CERT_NOT_BEFORE_FIELD),
            (1.., _) => Some(lc::X509_V_ERR_CERT_NOT_YET_VALID),
            _ => None,
        }
    }
}
