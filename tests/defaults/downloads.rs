//! Large responses of applications to slow clients, with the default folders.

use std::time::Duration;

use freerun_testkit::Client;

use crate::applications::{self, Protocol};
use crate::machine::{Machine, port};

/// More than sockets hold.
const SIZE: usize = 32 << 20;

#[test]
fn a_slow_download_of_each_protocol_goes_to_the_folder_of_its_own() {
    let Some(machine) = Machine::debian() else { return };
    let port = port();
    let of = |protocol| applications::start(protocol, SIZE);
    let site = format!(
        "error_log /var/log/nginx/error.log warn;
        server {{ listen 127.0.0.1:{port};
            location /proxy {{ proxy_pass http://{}; }}
            location /fastcgi {{ fastcgi_pass {}; include fastcgi_params; }}
            location /scgi {{ scgi_pass {}; include scgi_params; }}
            location /uwsgi {{ uwsgi_pass {}; include uwsgi_params; }} }}",
        of(Protocol::Http),
        of(Protocol::FastCgi),
        of(Protocol::Scgi),
        of(Protocol::Uwsgi)
    );
    let server = machine.site(&site).serve(port);
    for member in ["proxy", "fastcgi", "scgi", "uwsgi"] {
        let mut client = Client::try_connect_narrow(server.address(), 16 * 1024).expect("a client");
        client.set_timeout(Duration::from_secs(60));
        client.send(format!("GET /{member} HTTP/1.1\r\nHost: a\r\n\r\n"));
        let place = format!("to a temporary file /var/lib/nginx/{member}/#");
        server.logs(&place);
        assert!(server.error_log().contains("[warn]") && server.error_log().contains(" while reading upstream"));
        let response = client.response();
        assert_eq!((response.status, response.body.len()), (200, SIZE + 2), "{member}");
    }
}
