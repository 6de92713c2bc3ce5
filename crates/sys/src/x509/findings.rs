//! Findings of a verification, in OpenSSL's order.
//!
//! The last finding is the result, so the order matters; and OpenSSL 3 finds some things that AWS-LC does not.

use super::lc::{
    X509_V_ERR_CERT_CHAIN_TOO_LONG, X509_V_ERR_CERT_HAS_EXPIRED, X509_V_ERR_CERT_NOT_YET_VALID,
    X509_V_ERR_CERT_REJECTED, X509_V_ERR_CERT_SIGNATURE_FAILURE, X509_V_ERR_CERT_UNTRUSTED,
    X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT, X509_V_ERR_DIFFERENT_CRL_SCOPE, X509_V_ERR_ERROR_IN_CERT_NOT_AFTER_FIELD,
    X509_V_ERR_ERROR_IN_CERT_NOT_BEFORE_FIELD, X509_V_ERR_EXCLUDED_VIOLATION, X509_V_ERR_INVALID_EXTENSION,
    X509_V_ERR_INVALID_PURPOSE, X509_V_ERR_KEYUSAGE_NO_CERTSIGN, X509_V_ERR_PATH_LENGTH_EXCEEDED,
    X509_V_ERR_PERMITTED_VIOLATION, X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN, X509_V_ERR_SUBTREE_MINMAX,
    X509_V_ERR_UNABLE_TO_DECODE_ISSUER_PUBLIC_KEY, X509_V_ERR_UNABLE_TO_GET_CRL, X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT,
    X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY, X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE,
    X509_V_ERR_UNHANDLED_CRITICAL_EXTENSION, X509_V_ERR_UNSUPPORTED_CONSTRAINT_SYNTAX,
    X509_V_ERR_UNSUPPORTED_CONSTRAINT_TYPE, X509_V_ERR_UNSUPPORTED_NAME_SYNTAX,
};
use super::rules::VerifyError;
use super::words::{EC_KEY_EXPLICIT_PARAMS, INVALID_CA};

/// Checks of OpenSSL, one after the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum CheckStage {
    /// The chain, up to a certificate that is trusted.
    Chain,
    /// The key of the peer's own certificate. OpenSSL looks at it first, and then says it again in place of what is
    /// wrong with the chain.
    OwnKey,
    /// Extensions: authorities, purposes, lengths of paths.
    Extensions,
    /// The keys and hashes of authorities.
    Strength,
    /// Revocation lists.
    Lists,
    /// Signatures and times.
    Signatures,
    /// Constraints of names.
    Names,
}

/// Position of a finding in a stage: the certificate it is about if they are looked at one after the other, and then
/// the order in which they came.
type FindingPlace = (CheckStage, u32, usize);

/// Findings of a verification.
#[derive(Debug, Default)]
pub(super) struct Findings(Vec<(FindingPlace, VerifyError)>);

impl Findings {
    /// Adds what AWS-LC has found, and what OpenSSL would find after that.
    pub(super) fn note(&mut self, finding: VerifyError) {
        let stage = stage(finding.code);
        self.add(stage, finding);
        match finding.code {
            // A certificate that may not be used counts as a certificate without this purpose.
            X509_V_ERR_CERT_REJECTED => {
                self.add(CheckStage::Extensions, VerifyError { code: X509_V_ERR_INVALID_PURPOSE, ..finding });
            }
            // A list that is not for this certificate has been looked at, and then there is no other.
            X509_V_ERR_DIFFERENT_CRL_SCOPE => {
                let missing = VerifyError { code: X509_V_ERR_UNABLE_TO_GET_CRL, ..finding };
                self.0.push(((CheckStage::Lists, finding.depth, usize::MAX), missing));
            }
            _ => {}
        }
    }

    /// Adds a finding that is not AWS-LC's.
    pub(super) fn add(&mut self, stage: CheckStage, finding: VerifyError) {
        // The library goes through the lists by certificate; its other findings are in order.
        let depth = if stage == CheckStage::Lists { finding.depth } else { 0 };
        self.0.push(((stage, depth, self.0.len() + 1), finding));
    }

    /// Adds a finding that is not AWS-LC's, before the others of its stage.
    pub(super) fn add_first(&mut self, stage: CheckStage, finding: VerifyError) {
        self.0.push(((stage, 0, 0), finding));
    }

    /// Takes out the findings of this kind. Whether there were some.
    pub(super) fn remove(&mut self, code: i32) -> bool {
        let before = self.0.len();
        self.0.retain(|(_, finding)| finding.code != code);
        self.0.len() < before
    }

    /// Takes out this one.
    pub(super) fn remove_one(&mut self, unwanted: VerifyError) {
        self.0.retain(|(_, finding)| *finding != unwanted);
    }

    /// Whether something of this kind has been found.
    pub(super) fn has(&self, code: i32) -> bool {
        self.0.iter().any(|(_, finding)| finding.code == code)
    }

    /// The last of them, which is the result.
    pub(super) fn last(&self) -> Option<VerifyError> {
        self.0.iter().max_by_key(|(place, _)| *place).map(|(_, finding)| *finding)
    }
}

/// The stage at which OpenSSL finds something of this kind. All others are about revocation lists.
fn stage(code: i32) -> CheckStage {
    match code {
        X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT
        | X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY
        | X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT
        | X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN
        | X509_V_ERR_CERT_CHAIN_TOO_LONG
        | X509_V_ERR_CERT_UNTRUSTED
        | X509_V_ERR_CERT_REJECTED => CheckStage::Chain,
        X509_V_ERR_UNHANDLED_CRITICAL_EXTENSION
        | X509_V_ERR_INVALID_EXTENSION
        | X509_V_ERR_INVALID_PURPOSE
        | X509_V_ERR_PATH_LENGTH_EXCEEDED
        | INVALID_CA
        | EC_KEY_EXPLICIT_PARAMS => CheckStage::Extensions,
        X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE
        | X509_V_ERR_UNABLE_TO_DECODE_ISSUER_PUBLIC_KEY
        | X509_V_ERR_CERT_SIGNATURE_FAILURE
        | X509_V_ERR_KEYUSAGE_NO_CERTSIGN
        | X509_V_ERR_ERROR_IN_CERT_NOT_BEFORE_FIELD
        | X509_V_ERR_ERROR_IN_CERT_NOT_AFTER_FIELD
        | X509_V_ERR_CERT_NOT_YET_VALID
        | X509_V_ERR_CERT_HAS_EXPIRED => CheckStage::Signatures,
        X509_V_ERR_PERMITTED_VIOLATION
        | X509_V_ERR_EXCLUDED_VIOLATION
        | X509_V_ERR_SUBTREE_MINMAX
        | X509_V_ERR_UNSUPPORTED_CONSTRAINT_TYPE
        | X509_V_ERR_UNSUPPORTED_CONSTRAINT_SYNTAX
        | X509_V_ERR_UNSUPPORTED_NAME_SYNTAX => CheckStage::Names,
        _ => CheckStage::Lists,
    }
}
