//! What is served over TLS is what is served without it, and it ends as it has to.

use super::{secure, secure_with};
use freerun_testkit::{
    ConnectionEnd, Setup, Site, TestClient, TestUpstream, Tls, TlsVersion, certificates, eventually, ok, on_time,
    require,
};
use std::time::Duration;

/// Bytes that differ everywhere.
fn content(length: usize) -> Vec<u8> {
    (0..length).map(|place| (place * 31 + place / 253) as u8).collect()
}

#[test]
fn files_of_all_sizes_arrive_whole() {
    let site = Site::new();
    let sizes = [0, 1, 1000, 16_383, 16_384, 16_385, 65_537, 1_000_000, 4 << 20];
    for size in sizes {
        site.file(&format!("{size}"), content(size));
    }
    for sendfile in ["on", "off"] {
        for certificate in ["rsa", "ec"] {
            let server = secure_with(&site, certificate, &format!("sendfile {sendfile};")).run();
            for version in TlsVersion::ALL {
                let mut client = server.connect_tls(&Tls::new().only(version));
                for size in sizes {
                    let response = client.get(&format!("/{size}"));
                    assert_eq!(response.status, 200);
                    assert!(
                        response.body == content(size),
                        "{version} {certificate} sendfile {sendfile}: {size} bytes"
                    );
                }
                let agreed = client.agreed();
                assert_eq!(agreed.version, version.to_string());
                assert_eq!(agreed.certificates, [certificates().der(&format!("{certificate}.crt"))]);
            }
        }
    }
}

#[test]
fn parts_heads_and_old_versions_of_http() {
    let site = Site::new();
    site.file("file", content(100_000));
    let server = secure(&site, "").run();
    for version in TlsVersion::ALL {
        let mut client = server.connect_tls(&Tls::new().only(version));
        client.send("GET /file HTTP/1.1\r\nHost: localhost\r\nRange: bytes=20000-59999\r\n\r\n");
        let response = client.response();
        assert_eq!((response.status, &response.body[..]), (206, &content(100_000)[20_000..60_000]));
        client.send("HEAD /file HTTP/1.1\r\nHost: localhost\r\n\r\n");
        assert_eq!(client.response_to("HEAD").header("content-length"), Some("100000"));
        client.send("GET /file HTTP/1.0\r\n\r\n");
        assert_eq!(client.response().body, content(100_000));
        assert_eq!((client.ending(), client.is_notified()), (ConnectionEnd::Closed, true));
        let mut client = server.connect_tls(&Tls::new().only(version));
        client.send("GET /file HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
        assert_eq!(client.response().header("connection"), Some("keep-alive"));
        client.send("GET /file\r\n");
        let (bytes, ending) = client.rest();
        assert_eq!((bytes, ending, client.is_notified()), (content(100_000), ConnectionEnd::Closed, true));
    }
}

#[test]
fn requests_in_a_pipeline_and_in_pieces() {
    let site = Site::new();
    site.file("a", "one").file("b", content(200_000));
    let server = secure(&site, "").run();
    for version in TlsVersion::ALL {
        let mut client = server.connect_tls(&Tls::new().only(version));
        let get = |path: &str| format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n");
        client.send((get("/a") + &get("/b")).repeat(20));
        for _ in 0..20 {
            assert_eq!(client.response().text(), "one");
            assert!(client.response().body == content(200_000));
        }
        for byte in get("/a").bytes() {
            client.send([byte]);
        }
        assert_eq!(client.response().text(), "one");
    }
}

#[test]
fn bodies_go_up_with_a_length_and_in_chunks() {
    let backend = TestUpstream::answering(|request| freerun_testkit::ok(&request.body));
    let site = Site::new();
    for buffering in ["on", "off"] {
        let lines = format!(
            "client_max_body_size 20m;
             location / {{ proxy_http_version 1.1; proxy_request_buffering {buffering}; proxy_pass http://{}; }}",
            backend.address()
        );
        let server = secure(&site, &lines).run();
        for version in TlsVersion::ALL {
            let mut client = server.connect_tls(&Tls::new().only(version));
            for size in [1, 100, 16_384, 100_000, 3_000_000] {
                let body = content(size);
                client.send(format!("PUT / HTTP/1.1\r\nHost: localhost\r\nContent-Length: {size}\r\n\r\n"));
                let sending = client.send_meanwhile(body.clone());
                assert!(client.response().body == body, "{version} {buffering}: {size} bytes");
                sending.join().expect("sent");
                client.send("PUT / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n");
                let mut chunks = Vec::new();
                for part in body.chunks(7777) {
                    chunks.extend(format!("{:x}\r\n", part.len()).bytes());
                    chunks.extend(part);
                    chunks.extend(b"\r\n");
                }
                chunks.extend(b"0\r\n\r\n");
                let sending = client.send_meanwhile(chunks);
                assert!(client.response().body == body, "{version} {buffering}: {size} bytes in chunks");
                sending.join().expect("sent");
            }
        }
    }
}

#[test]
fn a_body_that_is_not_read_ends_the_connection_in_order() {
    let site = Site::new();
    site.file("a", "one");
    let server = secure(&site, "client_max_body_size 1k; location = /gone { return 410; }").run();
    for version in TlsVersion::ALL {
        let mut client = server.connect_tls(&Tls::new().only(version));
        client.send("PUT /a HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3000000\r\n\r\n");
        // The server may close before it has all; what it has said arrives all the same.
        let _ = client.try_send(content(3_000_000));
        assert_eq!(client.response().status, 413);
        assert_ne!(client.ending(), ConnectionEnd::Silent);
        assert!(client.is_notified(), "{version}: no close_notify before the lingering close");
    }
}

/// The time without bytes begins anew with each of them, as it does without TLS.
#[test]
fn a_client_that_goes_on_sending_is_not_cut_off_by_lingering_timeout() {
    let site = Site::new();
    let lines = "client_max_body_size 1k; lingering_timeout 2s; lingering_time 1h;";
    let server = secure(&site, lines).run();
    for version in TlsVersion::ALL {
        on_time(Duration::from_secs(1), |steps| {
            let mut client = server.connect_tls(&Tls::new().only(version));
            client.send("PUT /a HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3000000\r\n\r\n");
            assert_eq!(client.response().status, 413);
            for _ in 0..60 {
                steps.rest(Duration::from_millis(50));
                client.send("x");
            }
        });
    }
}

#[test]
fn a_slow_client_gets_all_of_a_large_file() {
    let site = Site::new();
    site.file("large", content(4 << 20)).file("small", "small");
    let server = secure(&site, "").run();
    for version in TlsVersion::ALL {
        let client = TestClient::try_connect_narrow(server.address(), 4096).expect("connecting");
        let mut client = client.tls(&Tls::new().only(version));
        client.send("GET /large HTTP/1.1\r\nHost: localhost\r\n\r\n");
        client.at_least(1000);
        // Others are served meanwhile.
        for _ in 0..5 {
            assert_eq!(server.connect_tls(&Tls::new()).get("/small").text(), "small");
        }
        assert!(client.response().body == content(4 << 20));
        assert_eq!(client.get("/small").text(), "small");
    }
}

/// The connection's end is all that tells the client where such a response ends, so it must not look cut, even if the last bytes
/// have filled the socket.
#[test]
fn a_slow_client_is_told_the_end_of_a_response_without_a_length() {
    // nginx does not wait for room.
    if !require::freerun() {
        return;
    }
    let site = Site::new();
    let sizes: Vec<usize> = (20..=80).map(|number| number * 5000).collect();
    for size in &sizes {
        site.file(&format!("{size}"), content(*size));
    }
    let server = Setup::new().root(&site).http(
        "server { listen 127.0.0.1:@PORT@ ssl; listen unix:@DIR@/socket ssl; root @ROOT@; lingering_timeout 1m; lingering_time 1m;
                  ssl_certificate @CERTS@/ec.crt; ssl_certificate_key @CERTS@/ec.key;
                  sub_filter_types *; sub_filter 'what is not there' ''; }",
    );
    let server = server.run();
    for version in TlsVersion::ALL {
        let ask = |size: &usize| {
            let client = TestClient::try_connect_unix(&server.path("socket")).expect("connecting");
            let mut client = client.tls(&Tls::new().only(version));
            client.send(format!("GET /{size} HTTP/1.0\r\n\r\n"));
            client
        };
        let clients: Vec<TestClient> = sizes.iter().map(ask).collect();
        // When these are answered, the server has written to the others what their sockets take.
        for _ in 0..5 {
            assert_eq!(server.connect_tls(&Tls::new()).get("/100000").status, 200);
        }
        for (mut client, size) in clients.into_iter().zip(&sizes) {
            let (bytes, _) = client.rest();
            assert!(bytes.ends_with(&content(*size)), "{version}: {size} bytes");
            assert!(client.is_notified(), "{version}: no close_notify behind {size} bytes");
        }
    }
}

#[test]
fn a_file_that_is_cut_while_it_is_sent_ends_without_close_notify() {
    let site = Site::new();
    let server = secure(&site, "sendfile_max_chunk 64k; output_buffers 1 32k;").run();
    for version in TlsVersion::ALL {
        site.file("large", content(16 << 20));
        let client = TestClient::try_connect_narrow(server.address(), 4096).expect("connecting");
        let mut client = client.tls(&Tls::new().only(version));
        client.send("GET /large HTTP/1.1\r\nHost: localhost\r\n\r\n");
        client.at_least(1000);
        let file = std::fs::File::options().write(true).open(site.at("large")).expect("the file");
        file.set_len(1000).expect("cut");
        let (bytes, ending) = client.rest();
        assert!(bytes.len() < 16 << 20 && ending != ConnectionEnd::Silent);
        assert!(!client.is_notified(), "{version}: the response looks whole");
    }
}

#[test]
fn a_response_that_is_cut_by_the_server_behind_does_not_look_whole() {
    // nginx sends close_notify where the response has a length.
    if !require::freerun() {
        return;
    }
    let site = Site::new();
    let backend = TestUpstream::new();
    let server =
        secure(&site, &format!("location / {{ proxy_buffering off; proxy_pass http://{}; }}", backend.address())).run();
    for version in TlsVersion::ALL {
        for head in ["Content-Length: 100\r\n", "Transfer-Encoding: chunked\r\n"] {
            let mut client = server.connect_tls(&Tls::new().only(version));
            client.send("GET / HTTP/1.0\r\n\r\n");
            let mut peer = backend.accept();
            peer.request();
            peer.send(format!("HTTP/1.1 200 OK\r\n{head}\r\n5\r\nabcde\r\n"));
            client.until(|bytes| bytes.windows(5).any(|five| five == b"abcde"));
            drop(peer);
            // Without a length, the end of the connection is all that tells this client.
            let reset = head.starts_with("Transfer");
            assert_eq!(
                client.ending(),
                if reset { ConnectionEnd::Reset } else { ConnectionEnd::Closed },
                "{version} {head:?}"
            );
            assert!(!client.is_notified(), "{version} {head:?}: the response looks whole");
        }
    }
}

#[test]
fn the_end_of_keep_alive_is_told() {
    let site = Site::new();
    site.file("a", "one");
    let server = secure(&site, "keepalive_timeout 1s;").run();
    for version in TlsVersion::ALL {
        let mut client = server.connect_tls(&Tls::new().only(version));
        assert_eq!(client.get("/a").text(), "one");
        assert_eq!((client.ending(), client.is_notified()), (ConnectionEnd::Closed, true), "{version}: after the time");
        let mut client = server.connect_tls(&Tls::new().only(version));
        client.send("GET /a HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
        assert_eq!(client.response().text(), "one");
        assert_eq!((client.ending(), client.is_notified()), (ConnectionEnd::Closed, true), "{version}: when asked");
        // A client that says that it has nothing more to say gets what it has asked for.
        let mut client = server.connect_tls(&Tls::new().only(version));
        client.send("GET /a HTTP/1.1\r\nHost: localhost\r\n\r\n");
        client.half_close();
        assert_eq!(client.response().text(), "one");
        assert_eq!(client.ending(), ConnectionEnd::Closed, "{version}: after the client's");
    }
}

#[test]
fn records_have_the_configured_size() {
    let site = Site::new();
    site.file("large", content(1 << 20));
    for (lines, most) in [("ssl_buffer_size 1400;", 1400), ("ssl_buffer_size 4k;", 4096), ("", 16_384)] {
        let server = secure(&site, lines).run();
        for version in TlsVersion::ALL {
            let mut client = server.connect_tls(&Tls::new().only(version));
            assert!(client.get("/large").body == content(1 << 20));
            let longest = client.records().iter().max().copied().unwrap_or_default();
            // What encryption adds: at most 8 + 16 (RFC 5288), 1 + 16 (RFC 8446).
            assert!((most..=most + 24).contains(&longest), "{version} {lines}: {longest}");
        }
    }
}

#[test]
fn clients_that_leave_in_the_middle_leave_nothing_behind() {
    let site = Site::new();
    site.file("large", content(4 << 20));
    let server = secure(&site, "").freerun();
    let sockets = || {
        let open = std::fs::read_dir(format!("/proc/{}/fd", server.worker())).into_iter().flatten().flatten();
        let links = open.filter_map(|entry| std::fs::read_link(entry.path()).ok());
        links.filter(|to| to.to_string_lossy().starts_with("socket:")).count()
    };
    let before = sockets();
    for version in TlsVersion::ALL {
        for number in 0..20 {
            let client = TestClient::try_connect_narrow(server.address(), 4096).expect("connecting");
            let mut client = client.tls(&Tls::new().only(version));
            client.send("GET /large HTTP/1.1\r\nHost: localhost\r\n\r\n");
            client.at_least(1000);
            match number % 2 {
                0 => client.reset(),
                _ => drop(client),
            }
        }
    }
    eventually("all connections are closed", || sockets() <= before);
    assert_eq!(server.connect_tls(&Tls::new()).get("/large").body.len(), 4 << 20);
}

#[test]
fn a_handshake_has_to_be_done_in_time() {
    let site = Site::new();
    site.file("a", "one");
    let server = secure(&site, "client_header_timeout 1s;").run();
    // A client that says nothing, and one that says only the beginning of a ClientHello.
    for bytes in [&b""[..], &[22, 3, 1, 2, 0, 1, 0, 1, 252, 3, 3]] {
        let mut client = server.connect();
        client.send(bytes);
        assert_eq!(client.rest(), (Vec::new(), ConnectionEnd::Closed), "{bytes:?}");
    }
    server.logs(
        "client timed out (110: Connection timed out) while SSL handshaking, client: 127.0.0.1, server: 127.0.0.1:",
    );
    assert_eq!(server.connect_tls(&Tls::new()).get("/a").text(), "one");
}

#[test]
fn clients_that_wait_for_100_are_told_to_go_on() {
    let upstream = TestUpstream::answering(|request| ok(&request.body));
    let site = Site::new();
    let server = secure(&site, &format!("location /up {{ proxy_pass http://{}; }}", upstream.address())).run();
    let body = "0123456789".repeat(3000);
    for version in TlsVersion::ALL {
        let mut client = server.connect_tls(&Tls::new().only(version));
        for _ in 0..2 {
            client.send(format!(
                "POST /up HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\nExpect: 100-continue\r\n\r\n",
                body.len()
            ));
            let told = b"HTTP/1.1 100 Continue\r\n\r\n";
            assert_eq!(client.at_least(told.len()), told);
            client.take();
            client.send(&body);
            assert_eq!(client.response().text(), body);
        }
    }
}
