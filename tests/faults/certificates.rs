//! Certificates on a disk that hangs.

use crate::{Disk, goes_on};
use freerun_testkit::fuse::{Mirror, Op};
use freerun_testkit::{Setup, Site, TestClient, TestUpstream, Tls, TlsServer, certificates, eventually, ok, require};

#[test]
fn a_certificate_for_an_upstream_server_is_waited_for_as_long_as_for_the_server() {
    if !require::fuse() {
        return;
    }
    let disk = Disk::new();
    let upstream = TestUpstream::tls(TlsServer::new("ec")).answer(|_| ok("hello"));
    let lines = format!(
        "location = /text {{ return 200 text; }}
         location = /slow {{ proxy_pass https://{0}; proxy_connect_timeout 1s;
             proxy_ssl_certificate @ROOT@/slow/$arg_f; proxy_ssl_certificate_key @ROOT@/slow/$arg_f; }}
         location = /quick {{ proxy_pass https://{0};
             proxy_ssl_certificate @CERTS@/$arg_f.crt; proxy_ssl_certificate_key @CERTS@/$arg_f.key; }}",
        upstream.address()
    );
    let server = Setup::server(&disk.site, &lines).freerun();
    disk.fixture.control().hang(Op::Open, "");
    let mut client = server.connect();
    client.send("GET /slow?f=f1 HTTP/1.1\r\nHost: localhost\r\n\r\n");
    eventually("it hangs", || disk.fixture.control().waiting() > 0);
    goes_on(&server);
    assert_eq!(server.get("/quick?f=client").text(), "hello");
    assert_eq!(client.response().status, 504);
    assert!(disk.fixture.control().waiting() > 0, "it still hangs");
    server.logs("upstream timed out (110: Connection timed out) while SSL handshaking to upstream");
    disk.fixture.control().clear();
}

#[test]
fn a_certificate_on_a_disk_that_hangs_from_the_start_on_is_waited_for_by_those_who_ask_for_it() {
    if !require::fuse() {
        return;
    }
    let site = Site::new();
    site.file("fast", "fast file").folder("of").folder("hung").mode("of", 0o777);
    for kind in ["crt", "key"] {
        site.file(&format!("of/localhost.{kind}"), certificates().text(&format!("ec.{kind}")));
    }
    let disk = Mirror::mount(&site.at("of"), &site.at("hung")).expect("mounting");
    let pair =
        "ssl_certificate @ROOT@/hung/$ssl_server_name.crt; ssl_certificate_key @ROOT@/hung/$ssl_server_name.key;";
    let setup = Setup::server(&site, "location = /text { return 200 text; }")
        .http(&format!("server {{ listen 127.0.0.1:@PORT2@ ssl; {pair} }}"))
        .main("worker_processes 1;");
    disk.control().hang(Op::Lookup, "");
    let server = setup.freerun();
    let greeting = |_| {
        let mut client = TestClient::connect(server.address_number(2));
        client.send(Tls::new().hello());
        client
    };
    let mut clients: Vec<TestClient> = (0..3).map(greeting).collect();
    eventually("a lookup hangs", || disk.control().waiting() > 0);
    goes_on(&server);
    disk.control().clear();
    for client in &mut clients {
        // A record of the handshake: they have their certificate.
        assert_eq!(client.at_least(1)[0], 22);
    }
}
