//! Certificates of peers, revocation lists and OCSP responses: AWS-LC parses what others send.

use std::sync::OnceLock;

use freerun_tls::load::{Chain, check_dhparam};
use freerun_tls::verify::{
    CertificatePurpose, CertificateRequest, DEFAULT_LEVEL, PeerCertificate, Signer, TrustBuilder, TrustStore,
    VerifyResult, VerifyRules, ocsp_answer, ocsp_request,
};

use crate::choice;

/// Certificates and lists, each with its name in a line before it.
const BLOCKS: &str = include_str!("../../crates/sys/tests/fixtures/certificates.pem");

/// Two certificates, and responses of OCSP about the first.
const RESPONSES: &str = include_str!("../../crates/sys/tests/fixtures/ocsp.txt");

/// A day in 2030.
const NOW: i64 = 1_900_000_000;

/// The certificates and keys that all inputs are checked against.
struct Fixed {
    /// An authority is trusted, and there is a list of it.
    trust: TrustStore,
    /// A certificate of this authority, and a certificate of an authority below it with another key.
    chains: [Vec<Vec<u8>>; 2],
    /// A certificate and its issuer, for OCSP.
    ocsp: Vec<Vec<u8>>,
}

/// The text of one block.
pub(crate) fn block(name: &str) -> &'static str {
    let (_, rest) = BLOCKS.split_once(&format!("# {name}\n")).unwrap_or_default();
    rest.split("# ").next().unwrap_or_default()
}

/// The certificates of these blocks in DER.
pub(crate) fn ders(names: &[&str]) -> Vec<Vec<u8>> {
    let text: String = names.iter().map(|name| block(name)).collect();
    Chain::from_pem(text.as_bytes()).map(|chain| chain.to_der()).unwrap_or_default()
}

/// The responses in DER.
pub(crate) fn responses() -> Vec<Vec<u8>> {
    RESPONSES.lines().filter_map(|line| line.splitn(3, " | ").nth(2)).map(decode).collect()
}

fn fixed() -> &'static Fixed {
    static FIXED: OnceLock<Fixed> = OnceLock::new();
    FIXED.get_or_init(|| {
        let mut builder = TrustBuilder::default();
        let text = [block("root"), block("crl root"), block("crl int1")].concat();
        assert!(builder.add_lists(text.as_bytes()).is_ok(), "the texts of the tests cannot be read");
        let ocsp = Chain::from_pem(RESPONSES.as_bytes()).map(|chain| chain.to_der()).unwrap_or_default();
        Fixed { trust: builder.build(), chains: [ders(&["leaf of root"]), ders(&["leaf of int1", "int1"])], ocsp }
    })
}

/// Certificates, revocation lists and responses: no crash, and nothing is trusted because of what a stranger sends. The
/// first byte says what the others are.
pub fn certificates(data: &[u8]) {
    let (options, bytes) = choice(data);
    let rules = VerifyRules {
        purpose: if options & 0x80 == 0 { CertificatePurpose::Client } else { CertificatePurpose::Server },
        depth: u32::from(options >> 5 & 3),
        level: DEFAULT_LEVEL,
        now: NOW,
    };
    match options & 7 {
        0 => peer(bytes, &rules),
        1 => trusted(bytes, &rules),
        2 => trusted(pem("CERTIFICATE", bytes).as_bytes(), &rules),
        3 => trusted(pem("TRUSTED CERTIFICATE", bytes).as_bytes(), &rules),
        4 => trusted(pem("X509 CRL", bytes).as_bytes(), &rules),
        5 => response(bytes),
        6 => _ = check_dhparam(pem("DH PARAMETERS", bytes).as_bytes(), 2).map_err(|error| error.words("f")),
        _ => _ = check_dhparam(bytes, 2).map_err(|error| error.words("f")),
    }
}

fn verify(trust: &TrustStore, chain: &[&[u8]], rules: &VerifyRules) -> VerifyResult {
    let (verified, built) = trust.verify_and_build(chain.iter().copied(), rules);
    assert!(!verified.variable().is_empty());
    assert_eq!(verified.refusal(CertificateRequest::Required).is_none(), verified == VerifyResult::Success);
    assert_eq!(verified.upstream_error().is_none(), verified == VerifyResult::Success);
    assert_eq!(built.is_empty(), verified != VerifyResult::Success);
    assert!(built.len() <= rules.depth as usize + 2);
    verified
}

/// A certificate that a peer sends as its own, and with others.
fn peer(der: &[u8], rules: &VerifyRules) {
    let Fixed { trust, chains, ocsp } = fixed();
    let verified = verify(trust, &[der], rules);
    for chain in chains {
        let mut longer: Vec<&[u8]> = chain.iter().map(Vec::as_slice).collect();
        let alone = verify(trust, &longer, rules);
        longer.insert(1, der);
        let with = verify(trust, &longer, rules);
        assert!(alone == VerifyResult::Success || with != VerifyResult::Success, "nobody is trusted because of more");
    }
    let Some(peer) = PeerCertificate::from_der(der) else {
        assert_ne!(verified, VerifyResult::Success);
        return;
    };
    if verified == VerifyResult::Success {
        // A holder of the authority's key has signed it.
        let known = |chain: &Vec<Vec<u8>>| {
            let own = chain.first().and_then(|der| PeerCertificate::from_der(der));
            own.is_some_and(|own| own.public_key_der() == peer.public_key_der())
        };
        assert!(chains.iter().any(known) || peer.issuer() == "CN=root");
    }
    for text in [peer.subject(), peer.issuer(), peer.subject_legacy(), peer.issuer_legacy()] {
        assert!(text.bytes().all(|byte| matches!(byte, b' '..=b'~')), "{text:?} in a header");
    }
    assert!(peer.serial().bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-'), "{}", peer.serial());
    assert_eq!(peer.fingerprint().len(), 40);
    let _ = (peer.begin_text(), peer.end_text(), peer.key_kind(), peer.public_key_der(), peer.ocsp_responders());
    assert_eq!(peer.end().is_some(), peer.remaining_days(NOW).is_some());
    for host in ["a.example.com", "leaf of root", "127.0.0.1", ".example.com", "*", ""] {
        let _ = peer.matches_host(host);
    }
    let text = peer.pem();
    assert!(text.ends_with("-----END CERTIFICATE-----\n"));
    assert!(!peer.pem_with_tabs().ends_with('\n') && !peer.pem_escaped().contains('\n'));
    let again = Chain::from_pem(text.as_bytes()).map(|chain| chain.to_der());
    assert!(again.is_ok_and(|again| again == [der]), "what is written is what was read");
    if let Some(issuer) = ocsp.get(1) {
        let _ = (ocsp_request(der, issuer), ocsp_request(issuer, der), trust.issuer(der, [issuer.as_slice()], NOW));
    }
}

/// A text that an administrator trusts.
fn trusted(text: &[u8], rules: &VerifyRules) {
    let mut builder = TrustBuilder::default();
    let added = [
        builder.add_client_certificates(text).map_err(|error| error.words("f")),
        builder.add_trusted_certificates(text).map_err(|error| error.words("f")),
        builder.add_lists(text).map_err(|error| error.words("f")),
    ];
    assert!(added.iter().all(|added| added.as_ref().err().is_none_or(|words| words.contains("(\"f\") failed"))));
    let trust = builder.build();
    assert!(added[0].is_err() || !trust.authority_names().is_empty());
    for chain in &fixed().chains {
        let chain: Vec<&[u8]> = chain.iter().map(Vec::as_slice).collect();
        let _ = verify(&trust, &chain, rules);
        let _ = chain.first().and_then(|own| trust.issuer(own, chain.iter().copied(), NOW));
    }
}

/// A response of OCSP.
fn response(bytes: &[u8]) {
    let [own, issuer] = fixed().ocsp.as_slice() else { panic!("the certificates of the tests cannot be read") };
    let [strict, any] = [Signer::Authorised, Signer::Anybody].map(|signer| {
        ocsp_answer(bytes, own, issuer, signer, NOW).inspect_err(|error| assert!(!error.to_string().is_empty()))
    });
    assert!(strict.is_err() || strict == any, "who trusts anybody trusts the issuer");
}

const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// A block of PEM, so that an input need not be base64.
fn pem(label: &str, der: &[u8]) -> String {
    let mut text = format!("-----BEGIN {label}-----\n");
    for line in der.chunks(48) {
        for group in line.chunks(3) {
            let byte = |at: usize| u32::from(group.get(at).copied().unwrap_or(0));
            let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
            for at in 0..4 {
                let digit = char::from(DIGITS[(bits >> (18 - 6 * at) & 63) as usize]);
                text.push(if at > group.len() { '=' } else { digit });
            }
        }
        text.push('\n');
    }
    text + &format!("-----END {label}-----\n")
}

/// The bytes that base64 stands for; anything else in it is left out.
fn decode(base64: &str) -> Vec<u8> {
    let (mut bytes, mut bits, mut count) = (Vec::new(), 0u32, 0);
    for digit in base64.bytes().filter_map(|byte| DIGITS.iter().position(|digit| *digit == byte)) {
        (bits, count) = (bits << 6 | digit as u32, count + 6);
        if count >= 8 {
            count -= 8;
            bytes.push((bits >> count) as u8);
            bits &= (1 << count) - 1;
        }
    }
    bytes
}
