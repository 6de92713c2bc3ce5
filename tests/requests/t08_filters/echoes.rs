//! `echo_sleep`: a pause keeps nobody waiting.

use crate::worker::InProcess;
use freerun_testkit::{Setup, Site};

#[test]
fn a_pause_keeps_nobody_waiting() {
    let site = Site::new();
    let lines = "location /long { echo before; echo_flush; echo_sleep 100000; echo after; }
        location /blocking { echo_blocking_sleep 100000; echo after; }
        location /slow { echo_location_async /long; echo_location_async /quick; }
        location /quick { echo quick; }";
    let server = Setup::server(&site, lines).in_process();
    // There is one loop: who waits for it is not answered.
    let mut long = server.connect();
    long.send("GET /long HTTP/1.1\r\nHost: localhost\r\n\r\n");
    long.until(|bytes| bytes.ends_with(b"before\n\r\n"));
    for target in ["/blocking", "/slow"] {
        server.connect().send(format!("GET {target} HTTP/1.1\r\nHost: localhost\r\n\r\n"));
        assert_eq!(server.get("/quick").text(), "quick\n");
    }
}
