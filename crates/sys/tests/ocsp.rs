//! OCSP: requests are those that nginx sends, and responses are judged as it judges them.

use freerun_sys::x509::{
    Certificate, Chain, OcspAnswer, OcspError, OcspStatus, check_ocsp_response, ocsp_answer, ocsp_request, pem_block,
};

const RESPONSES: &str = include_str!("fixtures/ocsp.txt");

/// A day in 2030.
const NOW: i64 = 1_900_000_000;

/// What nginx asks about the certificate.
const REQUEST: &str = "MEMwQTA/MD0wOzAJBgUrDgMCGgUABBS1lJYUB32a01S6eZJ7M/8/kAaUFwQUOk8QlNYYaESmv/j+Xy1PZsMmKvACAhAD";

fn chain() -> Chain {
    Certificate::chain_from_pem(RESPONSES.as_bytes()).expect("two certificates")
}

/// Base64 as the library reads it.
fn bytes(base64: &str) -> Vec<u8> {
    let lines: Vec<_> = base64.as_bytes().chunks(64).map(|line| String::from_utf8_lossy(line)).collect();
    let block = format!("-----BEGIN A-----\n{}\n-----END A-----\n", lines.join("\n"));
    pem_block(block.as_bytes(), &[c"A"]).unwrap_or_default()
}

/// The responses by name, with what is expected.
fn responses() -> impl Iterator<Item = (&'static str, &'static str, Vec<u8>)> {
    RESPONSES.lines().filter_map(|line| {
        let [name, expected, base64] = line.splitn(3, " | ").collect::<Vec<_>>().try_into().ok()?;
        Some((name, expected, bytes(base64)))
    })
}

fn response(wanted: &str) -> Vec<u8> {
    responses().find(|(name, ..)| *name == wanted).expect("a response of this name").2
}

fn words(answer: Result<OcspAnswer, OcspError>) -> String {
    match answer.map(|answer| answer.status) {
        Ok(OcspStatus::Good) => "good".into(),
        Ok(OcspStatus::Revoked) => "revoked".into(),
        Ok(OcspStatus::Unknown) => "unknown".into(),
        Err(OcspError::Malformed(_)) => "malformed".into(),
        Err(OcspError::NotSuccessful(number)) => format!("not successful {number}"),
        Err(OcspError::NoAnswer(_)) => "no answer".into(),
        Err(OcspError::NotVerified(_)) => "not verified".into(),
        Err(OcspError::NotFound) => "not found".into(),
        Err(OcspError::NotYetValid) => "not yet valid".into(),
        Err(OcspError::Expired) => "expired".into(),
        Err(OcspError::BadTime) => "bad time".into(),
    }
}

#[test]
fn nginx_asks_the_same() {
    let chain = chain();
    assert_eq!(ocsp_request(&chain[0], &chain[1]), Some(bytes(REQUEST)));
}

#[test]
fn nginx_understands_the_same() {
    let chain = chain();
    let mut compared = 0;
    for (name, expected, response) in responses() {
        assert_eq!(words(ocsp_answer(&response, &chain[0], &chain[1], false, NOW)), expected, "{name}");
        compared += 1;
    }
    assert!(compared > 30, "{compared}");
}

#[test]
fn answers_hold_for_a_time() {
    let chain = chain();
    let good = response("good");
    let at = |now| ocsp_answer(&good, &chain[0], &chain[1], false, now);
    let answer = at(NOW).expect("an answer");
    // From 2026 to 2120.
    assert_eq!((answer.this_update, answer.next_update), (1_767_225_600, Some(4_733_510_400)));
    assert_eq!(words(at(answer.this_update - 300)), "good");
    assert_eq!(words(at(answer.this_update - 301)), "not yet valid");
    assert_eq!(words(at(4_733_510_400 + 300)), "good");
    assert_eq!(words(at(4_733_510_400 + 301)), "expired");
    assert_eq!(words(at(i64::MIN)), "not yet valid");
    assert_eq!(words(at(i64::MAX)), "expired");
    assert_eq!(ocsp_answer(&response("no next"), &chain[0], &chain[1], false, NOW).map(|a| a.next_update), Ok(None));
}

#[test]
fn anybody_may_sign_if_that_is_allowed() {
    let chain = chain();
    let any = |name: &str| words(ocsp_answer(&response(name), &chain[0], &chain[1], true, NOW));
    assert_eq!(any("stranger"), "good");
    assert_eq!(any("delegated without usage"), "good");
    // A signature has to be somebody's.
    assert_eq!(any("forged"), "not verified");
    assert_eq!(any("changed"), "not verified");
    assert_eq!(any("delegated not sent"), "not verified");
}

#[test]
fn an_answer_is_about_one_certificate_of_one_issuer() {
    let mut chain = chain();
    let good = response("good");
    assert_eq!(words(ocsp_answer(&good, &chain[1], &chain[1], false, NOW)), "not found");
    chain.reverse();
    assert_eq!(words(ocsp_answer(&good, &chain[0], &chain[1], false, NOW)), "not verified");
}

#[test]
fn any_damage_to_a_response_is_an_error() {
    let chain = chain();
    for name in ["good", "delegated"] {
        let response = response(name);
        for at in 0..response.len() {
            let mut damaged = response.clone();
            damaged[at] ^= 0x55;
            let answer = ocsp_answer(&damaged, &chain[0], &chain[1], false, NOW);
            // The certificate of a delegated responder has its own signature's unused bits, and the like.
            assert!(name == "delegated" || answer.is_err(), "{name} {at} {answer:?}");
            assert!(ocsp_answer(&response[..at], &chain[0], &chain[1], false, NOW).is_err(), "{name} {at}");
        }
    }
}

#[test]
fn a_response_is_one_whatever_it_says() {
    for name in ["good", "revoked", "expired", "forged", "internal", "trailing", "ok without bytes"] {
        assert!(check_ocsp_response(&response(name)).is_ok(), "{name}");
    }
    for name in ["empty", "garbage", "cut"] {
        let errors = check_ocsp_response(&response(name)).expect_err(name);
        assert!(errors.to_string().contains("asn1") || errors.to_string().contains("ASN.1"), "{name}: {errors}");
    }
}
