//! Caching: what nginx's free edition lacks, and what must never go wrong. What nginx has is compared with it in
//! `tests/differential/t15_cache/caching`.

mod deleted_files;
mod filling;
pub mod gone_clients;
mod heads;
mod members;
mod poisoning;
mod purges;
mod rules;
mod slices;
mod stalled_fills;

use freerun_testkit::{
    AnsweringUpstream, ReceivedRequest, Response, Setup, Site, TestServer, TestUpstream, eventually,
};

/// A server with a cache, which has its status in each response, and with `/status`. The cache is open: without that, nothing is stored,
/// and requests are answered all the same when opening takes longer than a second.
pub fn serve(lines: &str, more: &str) -> TestServer {
    let lines = format!("location = /status {{ proxy_cache off; status; }} {lines}");
    let setup = Setup::server(&Site::new(), &lines).http(&format!(
        "proxy_cache_path @DIR@/cache levels=1:2 keys_zone=z:1m {more}; proxy_cache z;
         add_header X-Cache $upstream_cache_status always;"
    ));
    let server = setup.freerun();
    until_open(&server);
    server
}

/// Waits until its only cache is open; what an unclean end left may still be looked at.
pub fn until_open(server: &TestServer) {
    eventually("the cache is open", || {
        let status = server.status();
        let state = &status["caches"][0]["state"];
        state == "ready" || state == "walking"
    });
}

/// A server in front of this origin, whose cache is ready.
pub fn before(origin: &AnsweringUpstream, lines: &str) -> TestServer {
    serve(&format!("{lines}\nlocation / {{ proxy_pass http://{}; }}", origin.address()), "")
}

/// Waits until nothing is being fetched any more: all that was asked for is stored.
pub fn settled(server: &TestServer) {
    eventually("nothing is fetched", || server.status()["caches"][0]["fills"]["now"] == 0);
}

/// How a response came to be, and its text.
pub fn said(response: &Response) -> (String, String) {
    (response.header("x-cache").unwrap_or("-").to_owned(), response.text())
}

/// A response with these fields and this body.
pub fn ok(fields: &str, body: impl AsRef<[u8]>) -> Vec<u8> {
    let body = body.as_ref();
    let fields: String =
        fields.split('|').filter(|field| !field.is_empty()).map(|field| format!("{field}\r\n")).collect();
    [format!("HTTP/1.1 200 OK\r\n{fields}Content-Length: {}\r\n\r\n", body.len()).as_bytes(), body].concat()
}

/// An origin whose every answer is another one.
pub fn counting(fields: &'static str) -> AnsweringUpstream {
    let count = std::sync::atomic::AtomicUsize::new(0);
    TestUpstream::answering(move |request: &ReceivedRequest| {
        let number = count.fetch_add(1, std::sync::atomic::Ordering::SeqCst) + 1;
        ok(fields, format!("{} {number}", request.target()))
    })
}
