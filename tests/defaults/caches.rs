//! Caches without `use_temp_path`, and what a configuration turns on with one word.

use freerun_testkit::http2::Http2;
use freerun_testkit::{Client, Tls, certificates, eventually};

use crate::applications::{self, Protocol};
use crate::machine::{Machine, port};

#[test]
fn caches_of_all_protocols_store_with_the_default_folders() {
    let Some(machine) = Machine::debian() else { return };
    let port = port();
    let of = |protocol| applications::start(protocol, 100_000);
    let site = format!(
        "proxy_cache_path /var/lib/nginx/cache levels=1:2 keys_zone=proxy:1m;
        fastcgi_cache_path /var/lib/nginx/fastcgi-cache keys_zone=fastcgi:1m;
        scgi_cache_path /var/lib/nginx/scgi-cache keys_zone=scgi:1m;
        uwsgi_cache_path /var/lib/nginx/uwsgi-cache keys_zone=uwsgi:1m;
        server {{ listen 127.0.0.1:{port}; add_header X-Cache $upstream_cache_status;
            location /proxy {{ proxy_pass http://{}; proxy_cache proxy; proxy_cache_valid 1h; }}
            location /fastcgi {{ fastcgi_pass {}; fastcgi_cache fastcgi; fastcgi_cache_valid 1h;
                fastcgi_cache_key $uri; include fastcgi_params; }}
            location /scgi {{ scgi_pass {}; scgi_cache scgi; scgi_cache_valid 1h; scgi_cache_key $uri; include scgi_params; }}
            location /uwsgi {{ uwsgi_pass {}; uwsgi_cache uwsgi; uwsgi_cache_valid 1h; uwsgi_cache_key $uri;
                include uwsgi_params; }} }}",
        of(Protocol::Http),
        of(Protocol::FastCgi),
        of(Protocol::Scgi),
        of(Protocol::Uwsgi)
    );
    let server = machine.site(&site).serve(port);
    for (member, folder) in
        [("proxy", "cache"), ("fastcgi", "fastcgi-cache"), ("scgi", "scgi-cache"), ("uwsgi", "uwsgi-cache")]
    {
        let get = || server.connect().get(&format!("/{member}"));
        let first = get();
        assert_eq!((first.status, first.header("X-Cache")), (200, Some("MISS")), "{member}");
        eventually("it is a hit", || get().header("X-Cache") == Some("HIT"));
        assert_eq!(get().body, first.body);
        let command = format!("find /var/lib/nginx/{folder} -type f -size +90k | grep -c .");
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
    let through = |client: Client| Http2::tls(client, &Tls::new(), &[]).post("/", vec![b'x'; 40_000]);
    let address = std::net::SocketAddr::from(([127, 0, 0, 1], tls));
    let answer = through(Client::connect(address));
    assert_eq!((answer.status, answer.text()), (200, "40000\n".to_owned()));
    server.logs("a client request body is buffered to a temporary file /var/lib/nginx/body/#");
    let address = std::net::SocketAddr::from(([127, 0, 0, 1], stream));
    assert_eq!(Client::connect(address).get("/").status, 200);
}
