//! What certificates say is printed as nginx prints it.

use freerun_sys::x509::{Certificate, KeyKind};

/// Certificates, each with its name before it and what nginx says of it.
const FACTS: &str = include_str!("fixtures/facts.txt");

/// When nginx said it, in seconds since 1970.
const THEN: i64 = 1_795_622_400;

/// Its serial number has 51 bytes.
const LONG_SERIAL: &str = include_str!("fixtures/long-serial.pem");

fn facts() -> impl Iterator<Item = (&'static str, &'static str, Vec<Certificate>)> {
    FACTS.split("# ").skip(2).map(|part| {
        let (name, rest) = part.split_once('\n').expect("a name");
        let (lines, _) = rest.split_once("-----BEGIN").expect("a certificate");
        (name, lines, Certificate::chain_from_pem(part.as_bytes()).unwrap_or_default())
    })
}

#[test]
fn nginx_prints_the_same() {
    let mut wrong = Vec::new();
    for (name, lines, chain) in facts() {
        let Some(certificate) = chain.first() else {
            wrong.push(format!("{name}: it is not read"));
            continue;
        };
        for line in lines.lines() {
            let (variable, expected) = line.split_once(": ").unwrap_or((line.trim_end_matches(':'), ""));
            let said = match variable {
                "s_dn" => certificate.subject(),
                "i_dn" => certificate.issuer(),
                "s_dn_legacy" => certificate.subject_legacy(),
                "i_dn_legacy" => certificate.issuer_legacy(),
                "serial" => certificate.serial(),
                "fingerprint" => certificate.sha1().iter().map(|byte| format!("{byte:02x}")).collect(),
                "v_start" => certificate.begin_text(),
                "v_end" => certificate.end_text(),
                "v_remain" => {
                    certificate.end().map(|end| ((end - THEN) / 86_400).max(0).to_string()).unwrap_or_default()
                }
                _ => panic!("{variable}"),
            };
            if said != expected {
                wrong.push(format!("{name}: {variable}: {said} not {expected}"));
            }
        }
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

fn named(wanted: &str) -> Certificate {
    let (_, _, mut chain) = facts().find(|(name, ..)| *name == wanted).expect("a certificate of this name");
    chain.remove(0)
}

#[test]
fn encodings_are_those_that_were_read() {
    let mut compared = 0;
    for (name, _, chain) in facts() {
        let der = chain[0].to_der();
        let again = Certificate::from_der(&der).expect(name);
        assert_eq!(again.to_der(), der, "{name}");
        let [subject, key] = [again.subject_der(), again.public_key_der()];
        for part in [&subject, &key] {
            // Each is a sequence, and a part of the certificate as it was read.
            assert_eq!(part.first(), Some(&0x30), "{name}");
            assert!(der.windows(part.len()).any(|window| window == part), "{name}");
        }
        assert_eq!(key.len(), 91, "{name}: a key of P-256");
        let pem = again.to_pem();
        assert!(FACTS.contains(&pem), "{name}: {pem}");
        compared += 1;
    }
    assert!(compared > 10, "{compared}");
    assert_eq!(named("empty").subject_der(), [0x30, 0]);
}

#[test]
fn times_are_seconds() {
    let certificate = named("usual");
    assert_eq!((certificate.begin(), certificate.end()), (Some(1_609_459_200), Some(4_733_510_400)));
    let certificate = named("time gen");
    assert_eq!((certificate.begin(), certificate.end()), (Some(-631_054_555), Some(253_402_300_799)));
}

#[test]
fn extensions_have_names_and_responders() {
    let certificate = named("aia");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("a text");
    let names: Vec<_> = certificate.dns_names().into_iter().map(text).collect();
    assert_eq!(names, ["a.example.com", "*.example.com"]);
    let responders: Vec<_> = certificate.ocsp_responders().into_iter().map(text).collect();
    assert_eq!(responders, ["http://ocsp.example.com/", "http://second.example.com:8080/a?b"]);
    assert_eq!(certificate.ip_addresses(), [std::net::IpAddr::from([127, 0, 0, 1])]);
    let certificate = named("usual");
    assert!(certificate.dns_names().is_empty() && certificate.ip_addresses().is_empty());
    assert!(certificate.ocsp_responders().is_empty());
    assert_eq!(certificate.key_kind(), KeyKind::P256);
}

#[test]
fn a_long_serial_number_is_in_one_line() {
    let certificate = &Certificate::chain_from_pem(LONG_SERIAL.as_bytes()).expect("a certificate")[0];
    assert_eq!(certificate.serial(), format!("{}D", "F".repeat(99)));
}

#[test]
fn a_reference_keeps_its_certificate() {
    let certificate = named("usual");
    let other = certificate.clone();
    drop(certificate);
    assert_eq!(other.serial(), "1000");
}
