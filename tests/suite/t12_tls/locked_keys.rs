//! Encrypted keys whose names have variables: the passwords that open them, and the caches that keep them.

use freerun_testkit::{Setup, TestClient, Tls, require};

/// A certificate and its key, which is encrypted, by a name with a variable that is empty. They are kept in a cache.
fn pair(prefix: &str) -> String {
    format!(
        "{prefix}ssl_certificate @CERTS@/${{empty}}ec.crt; {prefix}ssl_certificate_key @CERTS@/${{empty}}locked.key;
         {prefix}ssl_certificate_cache max=10;"
    )
}

const EMPTY: &str = "map $pid $empty { default ''; }";

/// Places with the password and without it, in the order in which they are asked: whoever comes first, and again.
const ORDERS: [[&str; 4]; 2] = [["with", "without", "with", "without"], ["without", "with", "without", "with"]];

#[test]
fn a_key_that_is_shown_to_upstream_servers_is_opened_by_the_passwords_of_the_place() {
    if !require::freerun() {
        return;
    }
    for order in ORDERS {
        let family = |prefix: &str, pass: &str| {
            let lines = format!("{} {prefix}ssl_session_reuse off; {pass}://127.0.0.1:@PORT2@;", pair(prefix));
            format!(
                "location /with/{prefix} {{ {prefix}ssl_password_file @CERTS@/secret.txt; {lines} }}
                 location /without/{prefix} {{ {lines} }}"
            )
        };
        let server = Setup::new()
            .http(&format!(
                "{EMPTY}
                 server {{ listen 127.0.0.1:@PORT@; {} {} {} }}
                 server {{ listen 127.0.0.1:@PORT2@ ssl; http2 on; ssl_verify_client optional_no_ca; return 200 x;
                           ssl_certificate @CERTS@/ec.crt; ssl_certificate_key @CERTS@/ec.key; }}",
                family("proxy_", "proxy_pass https"),
                family("grpc_", "grpc_pass grpcs"),
                family("uwsgi_", "uwsgi_pass suwsgi"),
            ))
            .run();
        for prefix in ["proxy_", "grpc_", "uwsgi_"] {
            for place in order {
                let status = server.get(&format!("/{place}/{prefix}")).status;
                // What answers to uwsgi is no application, but there is a session with it.
                assert_eq!(status != 500, place == "with", "{prefix} {place} in {order:?}: {}", server.error_log());
            }
        }
    }
}

#[test]
fn a_key_that_sessions_show_to_servers_is_opened_by_the_passwords_of_the_session() {
    if !require::freerun() {
        return;
    }
    for order in ORDERS {
        let passes =
            format!("proxy_ssl on; proxy_ssl_session_reuse off; {} proxy_pass 127.0.0.1:@PORT2@;", pair("proxy_"));
        let server = Setup::new()
            .stream(&format!(
                "{EMPTY}
                 server {{ listen 127.0.0.1:@PORT2@ ssl; return ok;
                           ssl_certificate @CERTS@/ec.crt; ssl_certificate_key @CERTS@/ec.key; }}
                 server {{ listen 127.0.0.1:@PORT3@; proxy_ssl_password_file @CERTS@/secret.txt; {passes} }}
                 server {{ listen 127.0.0.1:@PORT4@; {passes} }}"
            ))
            .http("server { listen 127.0.0.1:@PORT@; }")
            .run();
        for place in order {
            let (number, wanted) = if place == "with" { (3, &b"ok"[..]) } else { (4, &b""[..]) };
            let mut client = TestClient::connect(server.address_number(number));
            assert_eq!(client.rest().0, wanted, "{place} in {order:?}: {}", server.error_log());
        }
    }
}

#[test]
fn a_key_that_is_shown_to_clients_is_opened_by_the_passwords_of_the_server() {
    if !require::freerun() {
        return;
    }
    for order in ORDERS {
        let servers = |port: &str| {
            format!(
                "{EMPTY} {pair}
                 server {{ listen 127.0.0.1:{port} ssl; server_name without; return 200; }}
                 server {{ listen 127.0.0.1:{port} ssl; server_name with; ssl_password_file @CERTS@/secret.txt;
                           return 200; }}",
                pair = pair("")
            )
        };
        let server = Setup::new().http(&servers("@PORT@")).stream(&servers("@PORT2@")).run();
        for number in [1, 2] {
            for name in order {
                let tls = Tls::new().name(name);
                let opened = TestClient::connect(server.address_number(number)).try_tls(&tls).is_ok();
                assert_eq!(opened, name == "with", "{name} in {order:?} at {number}: {}", server.error_log());
            }
        }
    }
}
