//! Tests of trust, of what comes of it, and of what certificates say. How chains are judged is tested where the library
//! is wrapped, in `freerun_sys`.

use super::{
    CertificatePurpose, CertificateRequest, DEFAULT_LEVEL, MAX_OCSP_RESPONSE, MAX_TRUST, OcspError, OcspStatus,
    PeerCertificate, Refusal, Signer, TrustBuilder, TrustError, TrustSource, TrustStore, VerifyError, VerifyResult,
    VerifyRules, ocsp_answer, ocsp_request, status_word,
};
use crate::load::{Chain, Problem};
use std::io;

use freerun_proto::Status;

const CERTIFICATES: &str = include_str!("../../../sys/tests/fixtures/certificates.pem");
const FACTS: &str = include_str!("../../../sys/tests/fixtures/facts.txt");

/// A day in 2030.
const RULES: VerifyRules =
    VerifyRules { purpose: CertificatePurpose::Client, depth: 1, level: DEFAULT_LEVEL, now: 1_900_000_000 };

/// The blocks with these names, one after the other.
fn texts(names: &[&str]) -> String {
    let block = |name: &&str| {
        let (_, rest) = CERTIFICATES.split_once(&format!("# {name}\n")).expect("a block of this name");
        rest.split("# ").next().expect("its text")
    };
    names.iter().map(block).collect()
}

fn ders(names: &[&str]) -> Vec<Vec<u8>> {
    if names.is_empty() { Vec::new() } else { Chain::from_pem(texts(names).as_bytes()).expect("a chain").to_der() }
}

fn trust(names: &[&str]) -> TrustStore {
    let mut builder = TrustBuilder::default();
    builder.add_trusted_certificates(texts(names).as_bytes()).expect("certificates");
    builder.build()
}

fn verify(trust: &TrustStore, names: &[&str]) -> VerifyResult {
    trust.verify(ders(names).iter().map(Vec::as_slice), &RULES)
}

fn code(verified: VerifyResult) -> i32 {
    match verified {
        VerifyResult::Success => 0,
        VerifyResult::None => -1,
        VerifyResult::Failed(error) => error.code,
        VerifyResult::NotGood(_) => -2,
    }
}

#[test]
fn results_have_nginx_words() {
    let trust = trust(&["root"]);
    let success = verify(&trust, &["leaf of int1", "int1"]);
    assert_eq!((success, &*success.variable(), success.upstream_error()), (VerifyResult::Success, "SUCCESS", None));
    let none = verify(&trust, &[]);
    assert_eq!((none, &*none.variable()), (VerifyResult::None, "NONE"));
    assert!(none.upstream_error().is_some());
    let failed = verify(&trust, &["self plain"]);
    assert_eq!(&*failed.variable(), "FAILED:self-signed certificate");
    let line = "upstream SSL certificate verify error: (18:self-signed certificate)";
    assert_eq!(failed.upstream_error().as_deref(), Some(line));
}

#[test]
fn clients_are_refused_as_they_were_asked() {
    use CertificateRequest::{Optional, OptionalNoAuthority, Required};
    let failed = |code| VerifyResult::Failed(VerifyError { code, depth: 0 });
    let status = |verified: VerifyResult, asked| verified.refusal(asked).map(Refusal::status);
    for asked in [Required, Optional, OptionalNoAuthority] {
        assert_eq!(status(VerifyResult::Success, asked), None);
        assert_eq!(status(VerifyResult::None, asked), (asked == Required).then_some(Status::CERTIFICATE_REQUIRED));
        for code in 1..100 {
            let forgiven = asked == OptionalNoAuthority && [18, 19, 20, 21, 27].contains(&code);
            assert_eq!(
                status(failed(code), asked),
                (!forgiven).then_some(Status::CERTIFICATE_ERROR),
                "{asked:?} {code}"
            );
        }
    }
    let line = |verified: VerifyResult| verified.refusal(Required).expect("a refusal").to_string();
    assert_eq!(line(VerifyResult::None), "client sent no required SSL certificate");
    assert_eq!(line(failed(10)), "client SSL certificate verify error: (10:certificate has expired)");
}

#[test]
fn lists_are_needed_for_the_whole_chain_once_there_is_one() {
    let with = |lists: &[&str]| {
        let mut builder = TrustBuilder::default();
        builder.add_client_certificates(texts(&["root"]).as_bytes()).expect("certificates");
        if !lists.is_empty() {
            builder.add_lists(texts(lists).as_bytes()).expect("lists");
        }
        code(verify(&builder.build(), &["leaf of int1", "int1"]))
    };
    assert_eq!(with(&[]), 0);
    assert_eq!(with(&["crl root", "crl int1"]), 0);
    assert_eq!(with(&["crl int1"]), 3);
    assert_eq!(with(&["crl root", "crl int1 leaf"]), 23);
    assert_eq!(with(&["crl root int1", "crl int1"]), 23);
    // A text of certificates may have lists in it, but it does not ask for them.
    assert_eq!(code(verify(&trust(&["root", "crl root leaf"]), &["leaf of root"])), 0);
}

#[test]
fn clients_are_told_each_authority_once() {
    let mut builder = TrustBuilder::default();
    let names = ["int1", "root", "root again", "other root", "root"];
    builder.add_client_certificates(texts(&names).as_bytes()).expect("certificates");
    builder.add_trusted_certificates(texts(&["v1 root"]).as_bytes()).expect("certificates");
    let trust = builder.build();
    let expected: Vec<_> = ["int1", "root", "other root"]
        .iter()
        .map(|name| {
            let der = [&b"\x06\x03\x55\x04\x03\x0c"[..], &[name.len() as u8], name.as_bytes()].concat();
            let length = der.len() as u8;
            [&[0x30, length + 4, 0x31, length + 2, 0x30, length][..], &der].concat()
        })
        .collect();
    assert_eq!(trust.authority_names(), expected);
    assert_eq!(code(verify(&trust, &["leaf of v1 root"])), 0, "it is trusted all the same");
}

#[test]
fn what_a_peer_sends_is_limited() {
    let trust = trust(&["root"]);
    let own = ders(&["leaf of root"]).remove(0);
    let fit = crate::load::MAX_PEER_CHAIN / own.len();
    assert_eq!(trust.verify(std::iter::repeat_n(&own[..], fit), &RULES), VerifyResult::Success);
    assert_eq!(code(trust.verify(std::iter::repeat_n(&own[..], fit + 1), &RULES)), 22);
    assert_eq!(code(trust.verify([&own[..], b"\x30\0"], &RULES)), 1);
    assert_eq!(code(trust.verify([&b""[..]], &RULES)), 1);
    let large = vec![0; crate::load::MAX_PEER_CHAIN + 1];
    assert!(PeerCertificate::from_der(&large).is_none() && PeerCertificate::from_der(b"").is_none());
}

#[test]
fn nothing_is_trusted_by_itself() {
    assert_eq!(code(verify(&TrustBuilder::default().build(), &["self ca"])), 18);
}

#[test]
fn texts_that_cannot_be_used_are_named_in_nginx_words() {
    type Add = fn(&mut TrustBuilder, &[u8]) -> Result<(), TrustError>;
    let words = |add: Add, text: &str| add(&mut TrustBuilder::default(), text.as_bytes()).map_err(|e| e.words("/f"));
    let (client, trusted, lists): (Add, Add, Add) =
        (TrustBuilder::add_client_certificates, TrustBuilder::add_trusted_certificates, TrustBuilder::add_lists);
    let locations = "SSL_CTX_load_verify_locations(\"/f\")";
    let lookup = "X509_LOOKUP_load_file(\"/f\")";
    let nothing = "error:05800088:x509 certificate routines::no certificate or crl found";
    let bad_end = "error:04800066:PEM routines::bad end line error:05880009:x509 certificate routines::PEM lib";
    let bad_base64 = "error:04800064:PEM routines::bad base64 decode error:05880009:x509 certificate routines::PEM lib";
    let (one, list) = (texts(&["root"]), texts(&["crl root"]));
    let bad = one.replacen("\nMI", "\n!!", 1);
    for (call, adds) in [(locations, &[client, trusted][..]), (lookup, &[lists])] {
        for add in adds {
            for text in ["", "hello\n", "-----BEGIN FOO-----\nAAAA\n-----END FOO-----\n"] {
                assert_eq!(words(*add, text), Err(format!("{call} failed (SSL: {nothing})")), "{text}");
            }
            for text in [
                &one[..one.len() - 30],
                &format!("{one}-----BEGIN CERTIFICATE-----\n"),
                &format!("{one}{}", &list[..200]),
            ] {
                assert_eq!(words(*add, text), Err(format!("{call} failed (SSL: {bad_end})")), "{text}");
            }
            for text in [&bad, &format!("{one}{bad}")] {
                assert_eq!(words(*add, text), Err(format!("{call} failed (SSL: {bad_base64})")), "{text}");
            }
            assert_eq!(words(*add, &one), Ok(()));
            assert_eq!(words(*add, &format!("{list}{one}{list}{one}")), Ok(()));
        }
    }
    assert_eq!(words(trusted, &list), Ok(()));
    assert_eq!(words(lists, &list), Ok(()));
    assert_eq!(words(trusted, &texts(&["root trusted any"])), Ok(()));
    let no_names = "SSL_load_client_CA_file(\"/f\") failed (SSL: error:0480006C:PEM routines::no start line:Expecting: \
                    CERTIFICATE)";
    assert_eq!(words(client, &list), Err(no_names.to_owned()));
    assert_eq!(words(client, &texts(&["root trusted any"])), Ok(()), "nginx 1.22 refuses this, and 1.27 does not");
    let short: String = one.lines().enumerate().filter(|(at, _)| *at != 3).map(|(_, l)| format!("{l}\n")).collect();
    let malformed = words(trusted, &short).expect_err("it is too short");
    assert!(malformed.starts_with(&format!("{locations} failed (SSL: error:")), "{malformed}");
    assert!(malformed.ends_with(" error:05880009:x509 certificate routines::PEM lib)"), "{malformed}");
    let large = " ".repeat(MAX_TRUST + 1);
    let too_large = Err(TrustError::Unreadable(TrustSource::Lists, Problem::TooLarge));
    assert_eq!(TrustBuilder::default().add_lists(large.as_bytes()), too_large);
}

#[test]
fn files_that_cannot_be_opened_are_named_in_nginx_words() {
    let words = |source: TrustSource, number| source.unopened("/f", &io::Error::from_raw_os_error(number));
    assert_eq!(
        words(TrustSource::Certificates, 2),
        "SSL_CTX_load_verify_locations(\"/f\") failed (SSL: error:80000002:system library::No such file or \
         directory:calling fopen(/f, r) error:10000080:BIO routines::no such file error:05880002:x509 certificate \
         routines::system lib)"
    );
    assert_eq!(
        words(TrustSource::Lists, 13),
        "X509_LOOKUP_load_file(\"/f\") failed (SSL: error:8000000D:system library::Permission denied:calling fopen(/f, \
         r) error:10080002:BIO routines::system lib error:05880002:x509 certificate routines::system lib)"
    );
}

#[test]
fn variables_have_nginx_form() {
    let (_, usual) = FACTS.split_once("# usual\n").expect("the certificate");
    let at = usual.find("-----BEGIN").expect("its text");
    let end = "-----END CERTIFICATE-----\n";
    let pem = &usual[at..usual.find(end).expect("its end") + end.len()];
    let der = Chain::from_pem(pem.as_bytes()).expect("a certificate").to_der().remove(0);
    let peer = PeerCertificate::from_der(&der).expect("a certificate");
    assert_eq!(peer.pem(), pem);
    assert_eq!(peer.pem_with_tabs(), pem.trim_end().lines().collect::<Vec<_>>().join("\n\t"));
    let escaped = peer.pem_escaped();
    assert!(escaped.starts_with("-----BEGIN%20CERTIFICATE-----%0AMII") && escaped.ends_with("-----%0A"), "{escaped}");
    let unescaped = ["%20 ", "%0A\n", "%2B+", "%2F/", "%3D="].iter().fold(escaped, |text, pair| {
        let (from, to) = pair.split_at(3);
        text.replace(from, to)
    });
    assert_eq!(unescaped, pem);
    assert_eq!(
        peer.subject(),
        "emailAddress=a@example.com,CN=client.example.com,OU=x,O=Internet Widgits Pty Ltd,ST=Some-State,C=DE"
    );
    assert_eq!(peer.issuer_legacy(), "/O=Acme, Inc./CN=Acme \"root\" CA");
    assert_eq!(peer.fingerprint(), "bc7b570ddcb76d037710067d3764d2d830d8bb36");
    let end = peer.end().expect("a time");
    assert_eq!(peer.remaining_days(end - 86_400), Some(1));
    assert_eq!(peer.remaining_days(end - 86_399), Some(0));
    assert_eq!(peer.remaining_days(end), Some(0));
    assert_eq!(peer.remaining_days(end + 86_400), Some(0));
    assert_eq!(peer.remaining_days(i64::MAX), Some(0));
    assert!(peer.remaining_days(i64::MIN).is_some());
    assert!(peer.matches_host("client.example.com") && !peer.matches_host("example.com"));
}

#[test]
fn a_pool_may_verify_and_a_loop_may_look_at_certificates() {
    fn shared<T: Clone + Send + Sync>() {}
    fn handed_over<T: Send>() {}
    shared::<TrustStore>();
    handed_over::<PeerCertificate>();
    handed_over::<VerifyResult>();
}

#[test]
fn the_chain_that_was_built_names_the_issuer() {
    let trust = trust(&["root", "int1"]);
    let sent = ders(&["leaf of int1"]);
    let (verified, built) = trust.verify_and_build(sent.iter().map(Vec::as_slice), &RULES);
    assert_eq!((verified, built), (VerifyResult::Success, ders(&["leaf of int1", "int1", "root"])));
    let strange = ders(&["self ca"]);
    assert!(trust.verify_and_build(strange.iter().map(Vec::as_slice), &RULES).1.is_empty());
    let issuer = Some(ders(&["int1"]).remove(0));
    assert_eq!(trust.issuer(&sent[0], [], RULES.now), issuer);
    let chain = ders(&["self ca", "int1"]);
    assert_eq!(self::trust(&["root"]).issuer(&sent[0], chain.iter().map(Vec::as_slice), RULES.now), issuer);
    assert_eq!(self::trust(&["root"]).issuer(&sent[0], [], RULES.now), None);
    assert_eq!(trust.issuer(b"", [], RULES.now), None);
}

#[test]
fn a_certificate_that_a_responder_does_not_call_good_is_refused() {
    assert_eq!(VerifyResult::of_answer(Some(OcspStatus::Good)), VerifyResult::Success);
    for (status, words) in [
        (Some(OcspStatus::Revoked), "certificate revoked"),
        (Some(OcspStatus::Unknown), "certificate status unknown"),
        (None, "certificate status request failed"),
    ] {
        let verified = VerifyResult::of_answer(status);
        assert_eq!(&*verified.variable(), format!("FAILED:{words}"));
        for asked in
            [CertificateRequest::Required, CertificateRequest::Optional, CertificateRequest::OptionalNoAuthority]
        {
            let refusal = verified.refusal(asked).expect("a refusal");
            let line = format!("client SSL certificate verify error: {words}");
            assert_eq!((refusal.status().code(), refusal.to_string()), (495, line));
        }
    }
}

#[test]
fn responses_are_refused_in_nginx_words() {
    const RESPONSES: &str = include_str!("../../../sys/tests/fixtures/ocsp.txt");
    let chain = Chain::from_pem(RESPONSES.as_bytes()).expect("two certificates").to_der();
    let (own, issuer) = (&chain[0], &chain[1]);
    assert!(ocsp_request(own, issuer).is_some_and(|request| request.len() == 69));
    assert!(ocsp_request(own, b"").is_none() && ocsp_request(b"", issuer).is_none());
    let words = |response: &[u8]| {
        ocsp_answer(response, own, issuer, Signer::Authorised, RULES.now).expect_err("it is refused").to_string()
    };
    assert_eq!(words(b"hello"), "d2i_OCSP_RESPONSE() failed");
    assert_eq!(words(&vec![0; MAX_OCSP_RESPONSE + 1]), "d2i_OCSP_RESPONSE() failed");
    assert_eq!(words(b"\x30\x03\x0a\x01\x06"), "OCSP response not successful (6: unauthorized)");
    assert_eq!(words(b"\x30\x03\x0a\x01\x04"), "OCSP response not successful (4: (UNKNOWN))");
    let no_data = "OCSP_response_get1_basic() failed (SSL: error:1380006C:OCSP routines::no response data)";
    assert_eq!(words(b"\x30\x03\x0a\x01\x00"), no_data);
    let answer = ocsp_answer(b"", b"", issuer, Signer::Anybody, RULES.now);
    assert_eq!(answer, Err(OcspError::Certificate));
    let expired = "OCSP_check_validity() failed (SSL: error:1380007D:OCSP routines::status expired)";
    assert_eq!(OcspError::Expired.to_string(), expired);
    assert_eq!(
        [OcspStatus::Good, OcspStatus::Revoked, OcspStatus::Unknown].map(status_word),
        ["good", "revoked", "unknown"]
    );
}
