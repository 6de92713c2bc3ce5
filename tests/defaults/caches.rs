//! Caches without `use_temp_path`, and what a configuration turns on with one word.

use freerun_testkit::http2::Http2;
use freerun_testkit::{TestClient, Tls, certificates, eventually};

use crate::applications::{self, MEMBERS, Protocol};
use crate::machine::{Layout, Machine, port};

#[test]
fn caches_of_all_protocols_store_with_the_default_folders() {
    for machine in Machine::each() {
        caches_store(&machine);
    }
}

fn caches_store(machine: &Machine) {
    let port = port();
    let folder = match machine.layout() {
        Layout::Debian => "/var/lib/nginx",
        Layout::Container => "/var/cache/nginx",
    };
    let paths = MEMBERS
        .map(|member| format!("{member}_cache_path {folder}/{member}-cache levels=1:2 keys_zone={member}:1m;\n"));
    let caching = |member: &str| {
        // The others have no key by default.
        let key = if member == "proxy" { String::new() } else { format!("{member}_cache_key $uri;") };
        format!("{member}_cache {member}; {member}_cache_valid 1h; {key}")
    };
    let site = format!(
        "{} server {{ listen 127.0.0.1:{port}; add_header X-Cache $upstream_cache_status; {} }}",
        paths.concat(),
        applications::locations(100_000, caching)
    );
    let server = machine.site(&site).serve(port);
    for member in MEMBERS {
        let get = || server.connect().get(&format!("/{member}"));
        let first = get();
        assert_eq!((first.status, first.header("X-Cache")), (200, Some("MISS")), "{member}");
        eventually("it is a hit", || get().header("X-Cache") == Some("HIT"));
        assert_eq!(get().body, first.body);
        let command = format!("find {folder}/{member}-cache -type f -size +90k | grep -c .");
        eventually("the file is there", || machine.run(&[], &["sh", "-c", &command]).status.success());
    }
}

#[test]
fn gzip_tls_http2_and_stream_work_with_their_defaults() {
    let Some(machine) = Machine::debian() else { return };
    let (port, tls, stream) = (port(), port(), port());
    let certificates = certificates().folder().display();
    let site = format!(
        "error_log /var/log/nginx/error.log warn;
        server {{ listen 127.0.0.1:{port}; listen 127.0.0.1:{tls} ssl; http2 on;
            ssl_certificate {certificates}/ec.crt; ssl_certificate_key {certificates}/ec.key;
            location / {{ proxy_pass http://{}; }}
            location /text {{ gzip_min_length 1; default_type text/html; return 200 \"{}\"; }} }}",
        applications::start(Protocol::Http, 0),
        "abcdefgh".repeat(100)
    );
    machine.site(&site);
    let main = machine.path("/etc/nginx/nginx.conf");
    let text = std::fs::read_to_string(&main).expect("nginx.conf");
    let added = format!("stream {{ server {{ listen 127.0.0.1:{stream}; proxy_pass 127.0.0.1:{port}; }} }}\n");
    std::fs::write(&main, text + &added).expect("nginx.conf");
    let server = machine.serve(port);
    let packed = server.connect().send("GET /text HTTP/1.1\r\nHost: a\r\nAccept-Encoding: gzip\r\n\r\n").response();
    assert_eq!(packed.header("Content-Encoding"), Some("gzip"));
    let through = |client: TestClient| Http2::tls(client, &Tls::new(), &[]).post("/", vec![b'x'; 40_000]);
    let address = std::net::SocketAddr::from(([127, 0, 0, 1], tls));
    let answer = through(TestClient::connect(address));
    assert_eq!((answer.status, answer.text()), (200, "40000\n".to_owned()));
    server.logs("a client request body is buffered to a temporary file /var/lib/nginx/body/#");
    let address = std::net::SocketAddr::from(([127, 0, 0, 1], stream));
    assert_eq!(TestClient::connect(address).get("/").status, 200);
}
