//! Certificates for upstream servers on a disk that hangs.

use crate::{Disk, goes_on};
use freerun_testkit::fuse::Op;
use freerun_testkit::{Setup, TlsServer, Upstream, eventually, ok, require};

#[test]
fn a_certificate_for_an_upstream_server_is_waited_for_as_long_as_for_the_server() {
    if !require::fuse() {
        return;
    }
    let disk = Disk::new();
    let upstream = Upstream::tls(TlsServer::new("ec")).answer(|_| ok("hello"));
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
