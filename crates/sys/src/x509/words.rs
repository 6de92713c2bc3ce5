//! OpenSSL's words for the results of verifications.

use super::lc;

/// The words of OpenSSL 3 for a result, which nginx logs and has in `$ssl_client_verify`. AWS-LC has words and numbers
/// of its own for some of them.
pub fn verify_words(code: i32) -> &'static str {
    let at = usize::try_from(code).unwrap_or(usize::MAX);
    WORDS.get(at).copied().unwrap_or("unknown certificate verification error")
}

/// OpenSSL's number for a result of AWS-LC. The first 64 are the same, except for one whose meaning has changed.
pub(super) fn openssl_code(code: i32) -> i32 {
    match code {
        lc::X509_V_ERR_INVALID_CA => INVALID_CA,
        lc::X509_V_ERR_INVALID_CALL => 69,
        lc::X509_V_ERR_STORE_LOOKUP => 70,
        lc::X509_V_ERR_NAME_CONSTRAINTS_WITHOUT_SANS => lc::X509_V_ERR_UNSUPPORTED_NAME_SYNTAX,
        lc::X509_V_ERR_EE_KEY_TOO_SMALL | lc::X509_V_UNABLE_TO_GET_CERTS_PUBLIC_KEY => EE_KEY_TOO_SMALL,
        lc::X509_V_ERR_CA_KEY_TOO_SMALL => CA_KEY_TOO_SMALL,
        lc::X509_V_ERR_CA_MD_TOO_WEAK => CA_MD_TOO_WEAK,
        lc::X509_V_ERR_EC_KEY_EXPLICIT_PARAMS => EC_KEY_EXPLICIT_PARAMS,
        code => code,
    }
}

/// The key of a peer's certificate is too weak.
pub(super) const EE_KEY_TOO_SMALL: i32 = 66;
/// The key of an authority's certificate is too weak.
pub(super) const CA_KEY_TOO_SMALL: i32 = 67;
/// The hash of an authority's signature is too weak.
pub(super) const CA_MD_TOO_WEAK: i32 = 68;
/// A certificate that is no authority's has signed another.
pub(super) const INVALID_CA: i32 = 79;
/// A key's curve is written out and not named.
pub(super) const EC_KEY_EXPLICIT_PARAMS: i32 = 94;

/// By number, from 0.
static WORDS: [&str; 95] = [
    "ok",
    "unspecified certificate verification error",
    "unable to get issuer certificate",
    "unable to get certificate CRL",
    "unable to decrypt certificate's signature",
    "unable to decrypt CRL's signature",
    "unable to decode issuer public key",
    "certificate signature failure",
    "CRL signature failure",
    "certificate is not yet valid",
    "certificate has expired",
    "CRL is not yet valid",
    "CRL has expired",
    "format error in certificate's notBefore field",
    "format error in certificate's notAfter field",
    "format error in CRL's lastUpdate field",
    "format error in CRL's nextUpdate field",
    "out of memory",
    "self-signed certificate",
    "self-signed certificate in certificate chain",
    "unable to get local issuer certificate",
    "unable to verify the first certificate",
    "certificate chain too long",
    "certificate revoked",
    "issuer certificate doesn't have a public key",
    "path length constraint exceeded",
    "unsuitable certificate purpose",
    "certificate not trusted",
    "certificate rejected",
    "subject issuer mismatch",
    "authority and subject key identifier mismatch",
    "authority and issuer serial number mismatch",
    "key usage does not include certificate signing",
    "unable to get CRL issuer certificate",
    "unhandled critical extension",
    "key usage does not include CRL signing",
    "unhandled critical CRL extension",
    "invalid non-CA certificate (has CA markings)",
    "proxy path length constraint exceeded",
    "key usage does not include digital signature",
    "proxy certificates not allowed, please set the appropriate flag",
    "invalid or inconsistent certificate extension",
    "invalid or inconsistent certificate policy extension",
    "no explicit policy",
    "different CRL scope",
    "unsupported extension feature",
    "RFC 3779 resource not subset of parent's resources",
    "permitted subtree violation",
    "excluded subtree violation",
    "name constraints minimum and maximum not supported",
    "application verification failure",
    "unsupported name constraint type",
    "unsupported or invalid name constraint syntax",
    "unsupported or invalid name syntax",
    "CRL path validation error",
    "path loop",
    "Suite B: certificate version invalid",
    "Suite B: invalid public key algorithm",
    "Suite B: invalid ECC curve",
    "Suite B: invalid signature algorithm",
    "Suite B: curve not allowed for this LOS",
    "Suite B: cannot sign P-384 with P-256",
    "hostname mismatch",
    "email address mismatch",
    "IP address mismatch",
    "no matching DANE TLSA records",
    "EE certificate key too weak",
    "CA certificate key too weak",
    "CA signature digest algorithm too weak",
    "invalid certificate verification context",
    "issuer certificate lookup error",
    "Certificate Transparency required, but no valid SCTs found",
    "proxy subject name violation",
    "OCSP verification needed",
    "OCSP verification failed",
    "OCSP unknown cert",
    "Cannot find certificate signature algorithm",
    "subject signature algorithm and issuer public key algorithm mismatch",
    "cert info signature and signature algorithm mismatch",
    "invalid CA certificate",
    "Path length invalid for non-CA cert",
    "Path length given without key usage keyCertSign",
    "Key usage keyCertSign invalid for non-CA cert",
    "Issuer name empty",
    "Subject name empty",
    "Missing Authority Key Identifier",
    "Missing Subject Key Identifier",
    "Empty Subject Alternative Name extension",
    "Subject empty and Subject Alt Name extension not critical",
    "Basic Constraints of CA cert not marked critical",
    "Authority Key Identifier marked critical",
    "Subject Key Identifier marked critical",
    "CA cert does not include key usage extension",
    "Using cert extension requires at least X509v3",
    "Certificate public key has explicit ECC parameters",
];
