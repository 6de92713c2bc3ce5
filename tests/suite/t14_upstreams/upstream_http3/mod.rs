//! HTTP/3 to upstream servers (`proxy_http_version 3`), which nginx does not have. The upstream servers are freerun's own.

mod connections;
mod exchanges;
mod reachability;

use std::collections::HashSet;

use freerun_testkit::{AnsweringUpstream, Setup, Site};

/// The certificate of the upstream servers here.
const PAIR: &str = "ssl_certificate @CERTS@/ec.crt; ssl_certificate_key @CERTS@/ec.key;";

/// What the log of the upstream server has of a request.
const SEEN: &str = "log_format seen '$server_protocol|$request_method|$request_uri|$status|$connection|$remote_addr';";

/// A server that passes everything from `@PORT@` on to `@PORT2@` of itself, which speaks HTTP/3 and nothing else. The lines are
/// those of the upstream server and of the other one.
fn pair(site: &Site, upstream: &str, lines: &str) -> Setup {
    with_listen("listen 127.0.0.1:@PORT2@ quic;", site, upstream, lines)
}

/// As [`pair`], with an upstream server that listens as it is said here.
fn with_listen(listen: &str, site: &Site, upstream: &str, lines: &str) -> Setup {
    Setup::new().root(site).http(&format!(
        "{SEEN} upstream backend {{ server 127.0.0.1:@PORT2@; }}
         server {{ {listen} server_name localhost; root @ROOT@; {PAIR}
                   access_log @DIR@/access.log seen; {upstream} }}
         server {{ listen 127.0.0.1:@PORT@; server_name localhost; proxy_http_version 3; access_log off;
                   location = /status {{ status; }}
                   location / {{ proxy_pass https://backend; }} {lines} }}"
    ))
}

/// Bytes that differ everywhere.
fn content(length: usize) -> Vec<u8> {
    (0..length).map(|place| (place * 31 + place / 253) as u8).collect()
}

/// As [`pair`], with an upstream server that passes requests on to this one, over HTTP/1.
fn behind(answering: &AnsweringUpstream, upstream: &str, lines: &str) -> Setup {
    behind_address(answering.address(), upstream, lines)
}

/// As [`behind`], with the address of that server.
fn behind_address(address: &str, upstream: &str, lines: &str) -> Setup {
    pair(&Site::new(), &format!("location / {{ proxy_pass http://{address}; }} {upstream}"), lines)
}

/// The connections in these lines of the log.
fn connections(lines: &[String]) -> HashSet<&str> {
    lines.iter().filter_map(|line| line.split('|').nth(4)).collect()
}
