//! Large responses of applications to slow clients, with the default folders.

use std::time::Duration;

use freerun_testkit::TestClient;

use crate::applications::{self, MEMBERS};
use crate::machine::{Machine, port};

/// More than sockets hold.
const SIZE: usize = 32 << 20;

#[test]
fn a_slow_download_of_each_protocol_goes_to_the_folder_of_its_own() {
    for machine in Machine::each() {
        slow_downloads(&machine);
    }
}

fn slow_downloads(machine: &Machine) {
    let port = port();
    let site = format!(
        "error_log /var/log/nginx/error.log warn; server {{ listen 127.0.0.1:{port}; {} }}",
        applications::locations(SIZE, |_| String::new())
    );
    let server = machine.site(&site).serve(port);
    for member in MEMBERS {
        let mut client = TestClient::try_connect_narrow(server.address(), 16 * 1024).expect("a client");
        client.set_timeout(Duration::from_secs(60));
        client.send(format!("GET /{member} HTTP/1.1\r\nHost: a\r\n\r\n"));
        let place = format!("to a temporary file /var/lib/nginx/{member}/#");
        server.logs(&place);
        assert!(server.error_log().contains("[warn]") && server.error_log().contains(" while reading upstream"));
        let response = client.response();
        assert_eq!((response.status, response.body.len()), (200, SIZE + 2), "{member}");
    }
}
