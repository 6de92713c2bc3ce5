//! Certificates of clients.

use super::{Visit, compare, visit};
use freerun_testkit::{Setup, Tls, TlsVersion};

// Not `$ssl_client_v_remain`: certificates of a second ago have 30 or 29 whole days left, and the servers are not asked at
// the same moment. The suite looks at it.
const TELL: &str = "return 200 '$ssl_client_verify|$ssl_client_s_dn|$ssl_client_i_dn|$ssl_client_s_dn_legacy|$ssl_client_i_dn_legacy|$ssl_client_serial|$ssl_client_fingerprint|$ssl_client_v_start|$ssl_client_v_end';";
const PEMS: &str = "return 200 '$ssl_client_cert|$ssl_client_raw_cert|$ssl_client_escaped_cert';";

fn asking(lines: &str) -> Setup {
    Setup::new().http(&format!(
        "server {{ listen 127.0.0.1:@PORT@ ssl; server_name localhost; ssl_protocols TLSv1.2 TLSv1.3;
                   ssl_certificate @CERTS@/ec.crt; ssl_certificate_key @CERTS@/ec.key; {lines}
                   location / {{ {TELL} }} location /pem {{ {PEMS} }} location /bad {{ internal; return 200 \"bad $ssl_client_verify\"; }} }}"
    ))
}

/// Clients with all certificates, and with none.
fn all_kinds() -> Vec<Visit> {
    let mut visits = Vec::new();
    for version in TlsVersion::ALL {
        let tls = Tls::new().only(version);
        visits.push(visit(format!("{version} none"), tls.clone()));
        for name in
            ["client", "client-rsa", "client-other", "client-below", "client-stale", "client-withdrawn", "self", "rsa"]
        {
            visits.push(visit(format!("{version} {name}"), tls.clone().certificate(name)));
        }
        visits.push(visit(format!("{version} a chain"), tls.clone().chain("client-below-chain", "client-below")));
        visits.push(visit(format!("{version} in PEM"), tls.certificate("client")).asks("/pem", "localhost"));
    }
    visits
}

#[test]
fn all_certificates_with_all_settings() {
    for lines in [
        "ssl_verify_client off;",
        "ssl_verify_client on; ssl_client_certificate @CERTS@/ca.crt;",
        "ssl_verify_client optional; ssl_client_certificate @CERTS@/ca.crt;",
        "ssl_verify_client optional_no_ca; ssl_client_certificate @CERTS@/ca.crt;",
        "ssl_verify_client optional_no_ca; ssl_client_certificate @CERTS@/strangers.crt;",
        "ssl_verify_client on; ssl_client_certificate @CERTS@/ca.crt; ssl_verify_depth 0;",
        "ssl_verify_client on; ssl_client_certificate @CERTS@/ca.crt; ssl_verify_depth 2;",
        "ssl_verify_client on; ssl_client_certificate @CERTS@/ca.crt; ssl_crl @CERTS@/ca.crl;",
        "ssl_verify_client optional; ssl_client_certificate @CERTS@/strangers.crt; ssl_trusted_certificate @CERTS@/middle.crt;",
        "ssl_verify_client on; ssl_client_certificate @CERTS@/middle.crt;",
        "ssl_verify_client on; ssl_client_certificate @CERTS@/ca.crt; error_page 495 /bad; error_page 496 =200 /bad;",
        "ssl_verify_client on; ssl_client_certificate @CERTS@/ca.crt; error_page 400 /bad;",
        "ssl_verify_client on; ssl_client_certificate @CERTS@/ca.crt; error_page 495 496 =403 /bad;",
    ] {
        compare(&asking(lines), all_kinds());
    }
}
