//! What OCSP responders say about the server's certificate and about those of clients.

use std::fs;
use std::process::Command;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Arc, Mutex};

use super::secure;
use super::watched::Renewals;
use freerun_testkit::{AnsweringUpstream, Response, Setup, Site, TempDir, TestServer, TestUpstream, Tls, TlsVersion};
use freerun_testkit::{Kind, certificates, check, eventually, ok, require};

/// What a responder says.
#[derive(Clone, Copy, PartialEq)]
enum Said {
    Good,
    Revoked,
    Unknown,
}

/// The response of an authority about a certificate, in DER.
fn response(name: &str, issuer: &str, said: Said) -> Vec<u8> {
    let dir = TempDir::new("ocsp");
    let at = |file: &str| dir.path().join(file).display().to_string();
    let of = |file: String| certificates().path(&file).display().to_string();
    let serial = certificates().says(&format!("{name}.crt"), &["-serial"]);
    let line = match said {
        Said::Good => format!("V\t491231000000Z\t\t{serial}\tunknown\t/CN={name}\n"),
        Said::Revoked => format!("R\t491231000000Z\t250101000000Z\t{serial}\tunknown\t/CN={name}\n"),
        Said::Unknown => String::new(),
    };
    fs::write(at("index.txt"), line).expect("a file");
    let (crt, key, own) = (of(format!("{issuer}.crt")), of(format!("{issuer}.key")), of(format!("{name}.crt")));
    let run = |arguments: &[&str]| {
        let done = Command::new("openssl").arg("ocsp").args(arguments).output().expect("openssl");
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    };
    run(&["-issuer", &crt, "-cert", &own, "-no_nonce", "-reqout", &at("request")]);
    let database = ["-index", &at("index.txt"), "-CA", &crt, "-rsigner", &crt, "-rkey", &key, "-ndays", "1"];
    run(&[&database[..], &["-reqin", &at("request"), "-respout", &at("response")]].concat());
    fs::read(at("response")).expect("a response")
}

/// What is answered, by the name that the request's path begins with.
type Answers = Arc<Mutex<Vec<(String, Vec<u8>)>>>;

/// A responder that answers requests for `/NAME/…` with what is set for the name; a request for another one is not answered.
#[derive(Clone)]
struct Responder {
    answers: Answers,
    server: Arc<AnsweringUpstream>,
}

impl Responder {
    fn new() -> Responder {
        let answers = Answers::default();
        let set = answers.clone();
        let server = TestUpstream::answering(move |request| {
            assert!(request.line().starts_with("GET ") && request.line().ends_with(" HTTP/1.0"), "{}", request.line());
            let set = set.lock().expect("a lock");
            let asked = set.iter().find(|(name, _)| request.target().starts_with(&format!("/{name}/")));
            asked.map(|(_, answer)| answer.clone()).unwrap_or_default()
        });
        Responder { answers, server: Arc::new(server) }
    }

    fn set(&self, name: &str, response: impl AsRef<[u8]>) {
        let mut answers = self.answers.lock().expect("a lock");
        answers.retain(|(other, _)| other != name);
        // nginx waits for the end of the connection, whatever length is told.
        let head = "HTTP/1.1 200 OK\r\nContent-Type: application/ocsp-response\r\nConnection: close\r\n\r\n";
        answers.push((name.to_owned(), [head.as_bytes(), response.as_ref()].concat()));
    }

    fn url(&self, name: &str) -> String {
        format!("http://{}/{name}", self.server.address())
    }

    fn requests(&self) -> usize {
        self.server.connections()
    }
}

/// A server that staples to the certificate `ec` what the responder says of `name`.
fn stapling(responder: &Responder, name: &str, lines: &str) -> Setup {
    let url = responder.url(name);
    secure(
        &Site::new(),
        &format!(
            "ssl_stapling on; ssl_trusted_certificate @CERTS@/ca.crt; ssl_stapling_responder {url}; {lines}
             location / {{ return 200 yes; }}"
        ),
    )
}

/// What the server staples to its certificate for a new client.
fn stapled(server: &TestServer, version: TlsVersion) -> Vec<u8> {
    let tls = Tls::new().only(version);
    assert_eq!(server.connect_tls(&tls).get("/").text(), "yes");
    tls.stapled()
}

#[test]
fn a_response_is_fetched_once_and_stapled_for_all() {
    let responder = Responder::new();
    let good = response("ec", "ca", Said::Good);
    responder.set("ec", &good);
    let server = stapling(&responder, "ec", "ssl_stapling_verify on;").run();
    assert!(stapled(&server, TlsVersion::V13).is_empty(), "the first client does not wait for it");
    eventually("a stapled response", || stapled(&server, TlsVersion::V13) == good);
    for version in TlsVersion::ALL {
        assert!(stapled(&server, version) == good, "{version}");
    }
    assert_eq!(responder.requests(), 1);
}

#[test]
fn what_was_fetched_outlives_a_configuration() {
    let responder = Responder::new();
    let good = response("ec", "ca", Said::Good);
    responder.set("ec", &good);
    let server = stapling(&responder, "ec", "").freerun();
    eventually("a stapled response", || stapled(&server, TlsVersion::V13) == good);
    server.edit("return 200 yes;", "add_header X-New 1; return 200 yes;");
    server.reload();
    let tls = Tls::new();
    assert_eq!(server.connect_tls(&tls).get("/").header("x-new"), Some("1"));
    assert!(tls.stapled() == good);
    assert_eq!(responder.requests(), 1);
}

#[test]
fn a_renewed_certificate_has_no_response_but_its_own() {
    if !require::freerun() {
        return;
    }
    let (old, new) = (response("ec", "ca", Said::Good), response("other", "ca", Said::Good));
    // In a file there is no response for a certificate that comes later.
    let beside = "ssl_certificate @CERTS@/$rsa.crt; ssl_certificate_key @CERTS@/$rsa.key;";
    for (in_file, others) in [(false, ""), (true, ""), (false, beside), (true, beside)] {
        let (responder, renewals) = (Responder::new(), Renewals::of("ec"));
        responder.set("all", &old);
        fs::write(renewals.path("response"), &old).expect("a file");
        let (url, file) = (responder.url("all"), renewals.path("response").display().to_string());
        let from =
            if in_file { format!("ssl_stapling_file {file};") } else { format!("ssl_stapling_responder {url};") };
        let lines = format!("ssl_stapling on; ssl_trusted_certificate @CERTS@/ca.crt; {from} {others}");
        let server = renewals.setup(&lines).http("map $ssl_server_name $rsa { default rsa; }").run();
        let shown = || {
            let tls = Tls::new();
            let certificate = server.connect_tls(&tls).agreed().certificates[0].clone();
            (certificate, tls.stapled())
        };
        eventually("a stapled response", || shown() == (certificates().der("ec.crt"), old.clone()));
        responder.set("all", &new);
        renewals.switch("other");
        let mut kinds = Vec::new();
        eventually("the new certificate", || {
            let (certificate, stapled) = shown();
            let is_new = certificate == certificates().der("other.crt");
            kinds.push((is_new, stapled.clone()));
            is_new && (in_file || stapled == new)
        });
        let fitting = |(is_new, stapled): &(bool, Vec<u8>)| {
            if *is_new { stapled.is_empty() || !in_file && *stapled == new } else { *stapled == old }
        };
        assert!(kinds.iter().all(fitting), "in a file: {in_file}, beside: {others}");
    }
}

#[test]
fn what_is_not_good_is_not_stapled_and_not_asked_for_at_once() {
    let responder = Responder::new();
    responder.set("revoked", response("ec", "ca", Said::Revoked));
    responder.set("unknown", response("ec", "ca", Said::Unknown));
    responder.set("other", response("rsa", "ca", Said::Good));
    responder.set("garbage", "hello");
    responder.set("later", b"\x30\x03\x0a\x01\x03");
    for (name, said) in [
        ("revoked", "certificate status \"revoked\" in the OCSP response"),
        ("unknown", "certificate status \"unknown\" in the OCSP response"),
        ("other", "certificate status not found in the OCSP response"),
        ("garbage", "d2i_OCSP_RESPONSE() failed"),
        ("later", "OCSP response not successful (3: trylater)"),
        ("nobody", "OCSP responder prematurely closed connection"),
    ] {
        let before = responder.requests();
        let server = stapling(&responder, name, "").run();
        stapled(&server, TlsVersion::V13);
        server.logs(said);
        server.logs(" while requesting certificate status, responder: 127.0.0.1, peer: 127.0.0.1:");
        let stays = stapled(&server, TlsVersion::V13);
        assert!(stays.is_empty() && responder.requests() == before + 1, "{name}");
    }
}

#[test]
fn a_response_of_a_file_is_that_of_its_server_alone() {
    let dir = TempDir::new("staple");
    let revoked = response("ec", "ca", Said::Revoked);
    let file = dir.path().join("response.der");
    fs::write(&file, &revoked).expect("a file");
    let lines = "listen 127.0.0.1:@PORT@ ssl; ssl_certificate @CERTS@/ec.crt; ssl_certificate_key @CERTS@/ec.key;
                 location / { return 200 yes; }";
    let server = Setup::new()
        .http(&format!(
            "server {{ server_name a; {lines} ssl_stapling on; ssl_stapling_file {}; }}
             server {{ server_name b; {lines} }}",
            file.display()
        ))
        .run();
    for (name, expected) in [("a", &revoked[..]), ("b", &[])] {
        let tls = Tls::new().name(name);
        assert_eq!(server.connect_tls(&tls).get("/").text(), "yes");
        assert!(tls.stapled() == expected, "{name}");
    }
}

#[test]
fn stapling_that_cannot_be_is_told_once_for_each_certificate() {
    let folder = certificates().folder().display().to_string();
    let server = |name: &str, certificate: &str| {
        format!(
            "server {{ listen 127.0.0.1:@PORT@ ssl; server_name {name}; ssl_session_timeout {name}m;
             ssl_certificate {folder}/{certificate}.crt; ssl_certificate_key {folder}/{certificate}.key; }}"
        )
    };
    let text = format!(
        "events {{}} http {{ ssl_stapling on; ssl_trusted_certificate {folder}/ca.crt; {} {} {} }}",
        server("1", "ec"),
        server("2", "ec"),
        server("3", "foreign")
    );
    // nginx tells it for each server.
    let checked = check(Kind::Freerun, &text).expect("a check");
    assert_eq!(checked.code, Some(0), "{}", checked.stderr);
    let words = [
        format!("\"ssl_stapling\" ignored, no OCSP responder URL in the certificate \"{folder}/ec.crt\""),
        format!("\"ssl_stapling\" ignored, issuer certificate not found for certificate \"{folder}/foreign.crt\""),
    ];
    for words in words {
        assert_eq!(checked.stderr.matches(&words).count(), 1, "{}", checked.stderr);
    }
}

/// A server that asks clients for certificates.
fn asking(lines: &str) -> Setup {
    secure(
        &Site::new(),
        &format!(
            "ssl_verify_client on; ssl_verify_depth 2; ssl_client_certificate @CERTS@/ca.crt; {lines}
             location / {{ return 200 $ssl_client_verify; }}
             error_page 495 /refused; location = /refused {{ return 200 $ssl_client_verify; }}"
        ),
    )
}

/// The answer to a client that shows this certificate.
fn visit(server: &TestServer, name: &str) -> Response {
    let chain = if name.ends_with("below") { format!("{name}-chain") } else { name.to_owned() };
    server.connect_tls(&Tls::new().chain(&chain, name)).get("/")
}

#[test]
fn clients_are_what_the_responder_says_of_them() {
    let responder = Responder::new();
    responder.set("good", response("client", "ca", Said::Good));
    responder.set("revoked", response("client", "ca", Said::Revoked));
    responder.set("unknown", response("client", "ca", Said::Unknown));
    responder.set("other", response("client-rsa", "ca", Said::Good));
    for (name, verify, said) in [
        ("good", "SUCCESS", None),
        (
            "revoked",
            "FAILED:certificate revoked",
            Some("client SSL certificate verify error: certificate revoked while"),
        ),
        ("unknown", "FAILED:certificate status unknown", None),
        (
            "other",
            "FAILED:certificate status request failed",
            Some(
                "certificate status not found in the OCSP response while requesting certificate status, responder: 127.0.0.1",
            ),
        ),
        ("nobody", "FAILED:certificate status request failed", Some("OCSP responder prematurely closed connection")),
    ] {
        let server = asking(&format!("ssl_ocsp leaf; ssl_ocsp_responder {};", responder.url(name))).run();
        assert_eq!(visit(&server, "client").text(), verify, "{name}");
        if let Some(said) = said {
            server.logs(said);
        }
    }
    let server = asking("ssl_ocsp leaf;").run();
    assert_eq!(visit(&server, "client").text(), "FAILED:certificate status request failed");
    server.logs("no OCSP responder URL in certificate while SSL handshaking, client: 127.0.0.1, server: 127.0.0.1:");
}

#[test]
fn all_of_a_chain_is_asked_about_unless_it_is_the_leaf_alone() {
    let responder = Responder::new();
    responder.set("leaf", response("client-below", "middle", Said::Good));
    let url = responder.url("leaf");
    let server = asking(&format!("ssl_ocsp leaf; ssl_ocsp_responder {url};")).run();
    assert_eq!(visit(&server, "client-below").text(), "SUCCESS");
    assert_eq!(responder.requests(), 1);
    // The second question is about the authority in between, and the answer is not.
    let server = asking(&format!("ssl_ocsp on; ssl_ocsp_responder {url};")).run();
    assert_eq!(visit(&server, "client-below").text(), "FAILED:certificate status request failed");
    assert_eq!(responder.requests(), 3);
}

#[test]
fn answers_are_kept_in_the_cache_over_a_reload() {
    let responder = Responder::new();
    responder.set("it", response("client", "ca", Said::Good));
    let lines = format!("ssl_ocsp leaf; ssl_ocsp_responder {}; ssl_ocsp_cache shared:ocsp:1m;", responder.url("it"));
    let server = asking(&lines).run();
    for _ in 0..3 {
        assert_eq!(visit(&server, "client").text(), "SUCCESS");
    }
    assert_eq!(responder.requests(), 1);
    responder.set("it", response("client", "ca", Said::Revoked));
    server.edit("return 200 $ssl_client_verify; }", "return 200 \"still $ssl_client_verify\"; }");
    server.reload();
    eventually("the new configuration", || visit(&server, "client").text() == "still SUCCESS");
    assert_eq!(responder.requests(), 1);
    assert!(visit(&server, "client-rsa").text().ends_with("FAILED:certificate status request failed"));
    assert_eq!(responder.requests(), 2);
}

#[test]
fn a_responder_that_does_not_answer_holds_up_its_client_alone() {
    let silent = TestUpstream::new();
    let server = asking(&format!("ssl_ocsp leaf; ssl_ocsp_responder http://{}/;", silent.address())).freerun();
    let is_done = Arc::new(AtomicBool::new(false));
    std::thread::scope(|scope| {
        let mut waiting = server.connect_tls(&Tls::new().certificate("client"));
        waiting.send("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n");
        let mut asked = silent.accept();
        let done = is_done.clone();
        let answer = scope.spawn(move || {
            let response = waiting.response();
            done.store(true, SeqCst);
            response
        });
        // A client without a certificate is served by the same loop meanwhile.
        assert_eq!(server.connect_tls(&Tls::new()).get("/").status, 400);
        assert!(!is_done.load(SeqCst));
        asked.request();
        // The connection stays open.
        asked.send(ok(response("client", "ca", Said::Good)));
        assert_eq!(answer.join().expect("a response").text(), "SUCCESS");
    });
    // A client that goes is not asked about any more.
    let left = server.connect_tls(&Tls::new().certificate("client"));
    let mut asked = silent.accept();
    asked.request();
    drop(left);
    assert!(asked.rest().is_empty());
}
