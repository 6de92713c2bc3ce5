//! The requests of a connection, until it waits for the next one.

use std::rc::Rc;
use std::task::Poll;

use freerun_runtime::timer::Timer;
use freerun_runtime::{buffers, era, loops};
use freerun_serve::tls::handshake::Speaks;

use crate::message::scratch::RequestScratch;
use crate::protocol::h1::one_request::{After, one_request};
use crate::protocol::h1::runner::Post;
use crate::protocol::h1::{Driver, Keep, linger};
use crate::protocol::h2;
use crate::protocol::proxy_header;
use crate::protocol::tls;
use crate::protocol::unanswered::{self, Awaited, End};
use crate::request::Connection;
use crate::settings::server::ServerSettings;

/// Serves one connection after the other, each until it has no request.
pub(super) async fn serve(post: Rc<Post>) {
    let mut scratch = RequestScratch::default();
    loop {
        let work = std::future::poll_fn(|_| match post.work.take() {
            Some(work) => Poll::Ready(work),
            None => Poll::Pending,
        });
        let (driver, connection) = work.await;
        let keep = requests(&driver, &connection, &post, &mut scratch).await;
        drop(connection);
        post.answer.set(Some((driver, keep)));
    }
}

/// Serves requests until there is none. Returns how long to wait for the next request, or `None` if the connection is
/// to be closed.
async fn requests(
    driver: &Driver,
    connection: &Rc<Connection>,
    post: &Post,
    scratch: &mut RequestScratch,
) -> Option<Keep> {
    let http = &*driver.http;
    let mut buffer = Vec::new();
    if !connection.was_polled.replace(true) {
        let first = &driver.first_reads;
        let read = if connection.was_passed_on() {
            buffer = connection.take_received();
            if buffer.is_empty() { Err(std::io::ErrorKind::WouldBlock.into()) } else { Ok(buffer.len()) }
        } else if first.pays() {
            buffer = buffers::take();
            let read = connection.transport.try_read(&mut buffer);
            first.came_out(matches!(read, Ok(1..)));
            read
        } else {
            Err(std::io::ErrorKind::WouldBlock.into())
        };
        match read {
            Ok(1..) => {}
            // A client that has sent nothing yet waits among the idle connections: without a buffer, and the first to
            // be closed when there are too many connections.
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                buffers::give_back(buffer);
                let (_, servers, _) = http.servers(connection)?;
                return Some(Keep::most(servers.entry.settings.get::<ServerSettings>().client_header_timeout));
            }
            ended => {
                buffers::give_back(buffer);
                let (_, servers, _) = http.servers(connection)?;
                let awaited = if servers.proxy_protocol { Awaited::ProxyHeader } else { Awaited::First };
                unanswered::log(http, connection, awaited, &ended.err().map_or(End::Closed, End::Broken));
                return None;
            }
        }
    }
    // An event has announced the first byte of a request that comes after a rest. In other cases bytes may have come since
    // the loop last looked for changes of files.
    let mut is_announced = connection.rested.take() && connection.transport.tls().is_none();
    let mut timer = Timer::default();
    if connection.requests.get() == 0 && connection.proxied().is_none() {
        let (_, servers, _) = http.servers(connection)?;
        if servers.proxy_protocol {
            is_announced = false;
            let timeout = servers.entry.settings.get::<ServerSettings>().client_header_timeout;
            let Some(header) = proxy_header::read(http, connection, &mut timer, timeout, &mut buffer).await else {
                buffers::give_back(buffer);
                return None;
            };
            connection.set_proxied(header);
            if buffer.is_empty() {
                buffers::give_back(buffer);
                return Some(Keep::most(timeout));
            }
        }
    }
    if connection.requests.get() == 0 && connection.transport.tls().is_some_and(|tls| !tls.is_established()) {
        let (_, servers, _) = http.servers(connection)?;
        if servers.tls {
            let timeout = servers.entry.settings.get::<ServerSettings>().client_header_timeout;
            match tls::open(http, connection, &mut timer, timeout, &mut buffer).await? {
                Speaks::Tls if tls::is_http2(connection) => {
                    post.http2.set(h2::Serve::new(&driver.h2, connection.clone(), buffer));
                    return None;
                }
                // Its first request is waited for as for that of any other connection, without a buffer.
                Speaks::Tls => return Some(Keep::most(timeout)),
                Speaks::Plain => {}
            }
        }
    }
    // Where another service has established the session, nobody has looked yet whether the client speaks HTTP/2.
    if connection.requests.get() == 0 && (connection.transport.tls().is_none() || connection.was_passed_on()) {
        let (_, servers, _) = http.servers(connection)?;
        if servers.accepts_preface() {
            let timeout = servers.entry.settings.get::<ServerSettings>().client_header_timeout;
            match h2::read_preface(connection, &mut timer, timeout, &mut buffer).await {
                h2::Seen::Http2 => {
                    post.http2.set(h2::Serve::new(&driver.h2, connection.clone(), buffer));
                    return None;
                }
                h2::Seen::Nothing(end) => {
                    buffers::give_back(buffer);
                    unanswered::log(http, connection, Awaited::First, &end);
                    return None;
                }
                h2::Seen::Other => {}
            }
        }
    }
    loop {
        // A client that always has its next request ready must not keep the others waiting.
        loops::consume_budget().await;
        if !std::mem::take(&mut is_announced) {
            era::begin();
        }
        let serial = connection.requests.get() + 1;
        connection.requests.set(serial);
        match one_request(http, connection, &mut timer, buffer, serial, scratch).await {
            After::Next(rest, keep) if rest.is_empty() => return Some(keep),
            After::Next(rest, _) => buffer = rest,
            After::Linger(pause, total) => {
                linger::linger(connection, &mut timer, pause, total).await;
                return None;
            }
            After::Upgraded(upgraded) => {
                post.upgraded.set(Some(upgraded));
                return None;
            }
            After::Close => return None,
        }
    }
}
