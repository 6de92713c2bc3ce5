//! Bodies of requests that go to files in compiled-in folders.

use freerun_testkit::{Setup, Site, TestUpstream, eventually, ok};

#[test]
fn a_body_that_goes_to_a_file_is_logged_with_its_path() {
    let upstream = TestUpstream::answering(|_| ok("ok"));
    let lines = format!(
        "location / {{ proxy_pass http://{0}; }}
        location /clean {{ client_body_in_file_only clean; proxy_pass http://{0}; }}
        location /dav {{ client_body_temp_path @DIR@/body; dav_methods PUT; create_full_put_path on; }}",
        upstream.address()
    );
    let server = Setup::server(&Site::new(), &lines).main("user root;").run();
    let send = |method: &str, path: &str, size: usize| {
        let head = format!("{method} {path} HTTP/1.1\r\nHost: a\r\nContent-Length: {size}\r\n\r\n");
        server.send([head.into_bytes(), vec![b'x'; size]].concat()).status
    };
    const TEXT: &str = "a client request body is buffered to a temporary file /var/lib/nginx/body/";
    let lines = || server.error_log().lines().filter(|line| line.contains(TEXT)).map(str::to_owned).collect::<Vec<_>>();
    // What is stored as a file in any case is not worth a line, nor is what fits the buffer.
    assert_eq!((send("PUT", "/dav/f", 40_000), send("POST", "/", 10_000)), (201, 200));
    assert_eq!((send("POST", "/", 40_000), send("POST", "/clean", 1)), (200, 200));
    eventually("two lines", || lines().len() == 2);
    let lines = lines();
    assert!(lines[0].contains("[warn]") && lines[0].contains("\"POST / HTTP/1.1\""), "{}", lines[0]);
    assert!(lines[1].contains("[notice]") && lines[1].contains("\"POST /clean HTTP/1.1\""), "{}", lines[1]);
}
