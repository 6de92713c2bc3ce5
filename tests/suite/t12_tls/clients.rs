//! Clients that show certificates, and what variables tell of clients.

use super::secure;
use freerun_testkit::{Response, Site, TestClient, TestServer, Tls, TlsVersion, certificates, require};

const TELL: &str = "location = /verify { return 200 '$ssl_client_verify'; }";

fn asking(site: &Site, lines: &str) -> TestServer {
    secure(site, &format!("{TELL} {lines}")).run()
}

fn verify(server: &TestServer, tls: &Tls) -> Response {
    server.connect_tls(tls).get("/verify")
}

/// The status and the text, or the beginning of a page of nginx's own.
fn told(response: &Response) -> (u16, String) {
    let text = response.text();
    let title = text.split_once("<center>").map(|(_, rest)| rest);
    let own = title.and_then(|rest| rest.split_once("</center>")).map(|(title, _)| title.to_owned());
    (response.status, own.unwrap_or(text))
}

#[test]
fn a_certificate_is_demanded() {
    let site = Site::new();
    site.file("495.html", "bad").file("496.html", "none");
    let server = asking(&site, "ssl_verify_client on; ssl_client_certificate @CERTS@/ca.crt;");
    for version in TlsVersion::ALL {
        let tls = Tls::new().only(version);
        assert_eq!(told(&verify(&server, &tls.clone().certificate("client"))), (200, "SUCCESS".to_owned()));
        assert_eq!(told(&verify(&server, &tls.clone().certificate("client-rsa"))), (200, "SUCCESS".to_owned()));
        assert_eq!(verify(&server, &tls).status, 400);
        for bad in ["client-other", "client-stale", "self", "client-below"] {
            let mut client = server.connect_tls(&tls.clone().certificate(bad));
            let response = client.get("/verify");
            assert!(response.status == 400 && response.says_close(), "{bad}: {response:?}");
            assert!(response.text().contains("The SSL certificate error"), "{bad}: {}", response.text());
        }
    }
    server
        .logs("client SSL certificate verify error: (10:certificate has expired) while reading client request headers");
    server
        .logs("client SSL certificate verify error: (18:self-signed certificate) while reading client request headers");
    // OpenSSL names the first certificate: its issuer was not sent.
    server.logs("client SSL certificate verify error: (21:unable to verify the first certificate)");
    server.logs("client sent no required SSL certificate while reading client request headers");
    let lines = "ssl_verify_client on; ssl_client_certificate @CERTS@/ca.crt; error_page 495 /495.html; error_page 496 =403 /496.html;";
    let server = asking(&site, lines);
    for version in TlsVersion::ALL {
        let tls = Tls::new().only(version);
        assert_eq!(told(&verify(&server, &tls)), (403, "none".to_owned()));
        assert_eq!(told(&verify(&server, &tls.certificate("client-other"))), (400, "bad".to_owned()));
    }
}

#[test]
fn a_certificate_is_optional() {
    let site = Site::new();
    for (kind, stranger, stale) in [
        ("optional", 400, 400),
        // Errors that come from an unknown authority are forgiven, others are not.
        ("optional_no_ca", 200, 400),
    ] {
        let server = asking(&site, &format!("ssl_verify_client {kind}; ssl_client_certificate @CERTS@/ca.crt;"));
        for version in TlsVersion::ALL {
            let tls = Tls::new().only(version);
            assert_eq!(told(&verify(&server, &tls)), (200, "NONE".to_owned()));
            assert_eq!(told(&verify(&server, &tls.clone().certificate("client"))), (200, "SUCCESS".to_owned()));
            for name in ["client-other", "self"] {
                let response = verify(&server, &tls.clone().certificate(name));
                assert_eq!(response.status, stranger, "{kind} {name}");
                assert!(stranger == 400 || response.text().starts_with("FAILED:"), "{}", response.text());
            }
            assert_eq!(verify(&server, &tls.certificate("client-stale")).status, stale, "{kind}");
        }
    }
    let server = asking(&site, "ssl_verify_client optional_no_ca;");
    let response = verify(&server, &Tls::new().certificate("client"));
    assert_eq!(told(&response), (200, "FAILED:unable to verify the first certificate".to_owned()));
}

#[test]
fn chains_have_a_depth() {
    let site = Site::new();
    let ca = "ssl_verify_client on; ssl_client_certificate @CERTS@/ca.crt;";
    for (lines, alone, chain) in
        [("ssl_verify_depth 1;", 400, 200), ("ssl_verify_depth 0;", 400, 400), ("ssl_verify_depth 2;", 400, 200)]
    {
        let server = asking(&site, &format!("{ca} {lines}"));
        for version in TlsVersion::ALL {
            let tls = Tls::new().only(version);
            assert_eq!(verify(&server, &tls.clone().certificate("client-below")).status, alone, "{lines}");
            let with_chain = tls.chain("client-below-chain", "client-below");
            assert_eq!(verify(&server, &with_chain).status, chain, "{lines}");
        }
    }
    // What is trusted and not told to clients can be in the middle of the chain.
    let server = asking(
        &site,
        "ssl_verify_client on; ssl_client_certificate @CERTS@/ca.crt; ssl_trusted_certificate @CERTS@/middle.crt;",
    );
    assert_eq!(told(&verify(&server, &Tls::new().certificate("client-below"))), (200, "SUCCESS".to_owned()));
}

#[test]
fn revoked_certificates_are_refused() {
    let site = Site::new();
    let server = asking(
        &site,
        "ssl_verify_client on; ssl_client_certificate @CERTS@/ca.crt; ssl_crl @CERTS@/ca.crl; error_page 495 =200 /verify;",
    );
    for version in TlsVersion::ALL {
        let tls = Tls::new().only(version);
        assert_eq!(told(&verify(&server, &tls.clone().certificate("client"))), (200, "SUCCESS".to_owned()));
        let revoked = verify(&server, &tls.clone().certificate("client-withdrawn"));
        assert_eq!(told(&revoked), (200, "FAILED:certificate revoked".to_owned()));
        // There is no list of the authority in the middle.
        let below = verify(&server, &tls.chain("client-below-chain", "client-below"));
        assert_eq!(told(&below), (200, "FAILED:unable to get certificate CRL".to_owned()));
    }
}

#[test]
fn variables_tell_of_the_certificate() {
    let site = Site::new();
    let names = [
        "s_dn",
        "i_dn",
        "s_dn_legacy",
        "i_dn_legacy",
        "serial",
        "fingerprint",
        "v_start",
        "v_end",
        "v_remain",
        "verify",
        "raw_cert",
        "escaped_cert",
        "cert",
    ];
    let places: String =
        names.map(|name| format!("location = /{name} {{ return 200 '$ssl_client_{name}'; }}\n")).concat();
    let server =
        secure(&site, &format!("ssl_verify_client optional; ssl_client_certificate @CERTS@/ca.crt; {places}")).run();
    let made = certificates();
    let pem = made.text("client.crt");
    let time = |which: &str| made.says("client.crt", &[which]);
    for version in TlsVersion::ALL {
        let mut client = server.connect_tls(&Tls::new().only(version).certificate("client"));
        let mut is =
            |name: &str, value: &str| assert_eq!(client.get(&format!("/{name}")).text(), value, "{version} {name}");
        is("s_dn", "CN=Client\\, \\\"the first\\\",O=Tests");
        is("i_dn", "CN=Authority,O=Tests");
        is("s_dn_legacy", "/O=Tests/CN=Client, \"the first\"");
        is("i_dn_legacy", "/O=Tests/CN=Authority");
        is("serial", "1001");
        is("fingerprint", &made.says("client.crt", &["-fingerprint", "-sha1"]).replace(':', "").to_lowercase());
        is("v_start", &time("-startdate"));
        is("v_end", &time("-enddate"));
        is("verify", "SUCCESS");
        is("raw_cert", &pem);
        is("cert", &pem.trim_end().replace('\n', "\n\t"));
        let escaped = client.get("/escaped_cert").text();
        assert!(escaped.starts_with("-----BEGIN%20CERTIFICATE-----%0A"), "{escaped}");
        // The certificate is valid for 30 days; whole days are counted, and it was made when the first test asked for it.
        let remaining = client.get("/v_remain").text();
        assert!(["29", "30"].contains(&&remaining[..]), "{version} {remaining}");
        let mut client = server.connect_tls(&Tls::new().only(version));
        for name in names {
            assert_eq!(client.get(&format!("/{name}")).text(), if name == "verify" { "NONE" } else { "" }, "{name}");
        }
    }
}

#[test]
fn variables_tell_of_the_session() {
    let site = Site::new();
    let tell = "location = /s { return 200 '$ssl_protocol|$ssl_cipher|$ssl_curve|$ssl_server_name|$ssl_session_reused|$ssl_early_data|$https|$scheme'; }
        location = /offered { return 200 '$ssl_ciphers|$ssl_curves'; }";
    let server = secure(&site, tell).run();
    for (version, suite) in
        [(TlsVersion::V12, "ECDHE-ECDSA-AES128-GCM-SHA256"), (TlsVersion::V13, "TLS_AES_128_GCM_SHA256")]
    {
        let tls = Tls::new().only(version).suites(&[suite]).name("a.example.com");
        let mut client = server.connect_tls(&tls);
        let curve = "X25519";
        let said = client.get("/s").text();
        let wanted = format!("{version}|{suite}|{curve}|a.example.com|.||on|https");
        assert!(said == wanted || said == wanted.replace("X25519", "X25519MLKEM768"), "{said}");
        let empty = if version == TlsVersion::V12 { ":TLS_EMPTY_RENEGOTIATION_INFO_SCSV" } else { "" };
        assert_eq!(client.get("/offered").text().split('|').next(), Some(&format!("{suite}{empty}")[..]));
    }
}

#[test]
fn a_connection_that_is_kept_is_judged_by_the_rules_of_a_later_configuration() {
    // nginx closes such connections.
    if !require::freerun() {
        return;
    }
    let site = Site::new();
    let server = asking(&site, "ssl_verify_client on; ssl_client_certificate @CERTS@/ca.crt;");
    for version in TlsVersion::ALL {
        let mut client = server.connect_tls(&Tls::new().only(version).certificate("client"));
        assert_eq!(told(&client.get("/verify")), (200, "SUCCESS".to_owned()));
        server.reload();
        assert_eq!(told(&client.get("/verify")), (200, "SUCCESS".to_owned()), "nothing has changed");
        server.edit("/ca.crt", "/strangers.crt");
        server.reload();
        assert_eq!(told(&client.get("/verify")).0, 400, "{version}: it is of another authority");
        server.edit("/strangers.crt", "/ca.crt");
        server.reload();
    }
}

#[test]
fn certificates_are_not_asked_for_again_on_a_connection_that_is_kept() {
    let site = Site::new();
    let server = asking(&site, "ssl_verify_client on; ssl_client_certificate @CERTS@/ca.crt;");
    let mut client: TestClient = server.connect_tls(&Tls::new().certificate("client"));
    for _ in 0..3 {
        assert_eq!(told(&client.get("/verify")), (200, "SUCCESS".to_owned()));
    }
}
