//! The memory of streams whose clients take nothing, over HTTP/3 and over HTTP/2.

use std::any::Any;
use std::io::{self, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustls::{ClientConnection, StreamOwned};

use super::client::{ClientSettings, H3Connection, LoadProgress};
use super::wire::Wire;
use super::{FREERUN, GSO_NGINX, LARGE};
use crate::bench::Bench;
use crate::connections::{Growth, settled};
use crate::error::{Error, ErrorContext, Result};
use crate::interrupt;
use crate::process::Placement;
use crate::report::{Goal, Report, Table};
use crate::servers::Server;
use crate::spec::Spec;
use crate::stats::{Series, short_or_nothing};
use crate::tls::client::{self, SessionUse, TlsVersion};

/// Connections, and streams on each.
const CONNECTIONS: usize = 40;
const STREAMS: usize = 128;

/// The time that the clients of HTTP/3 go on for.
const TIME: Duration = Duration::from_secs(2);

/// The preface of HTTP/2, SETTINGS with windows of 0, and the acknowledgement of the server's (RFC 9113 sections 3.4 and 6.5).
const BEGINNING: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\
                           \0\0\x06\x04\0\0\0\0\0\0\x04\0\0\0\0\
                           \0\0\0\x04\x01\0\0\0\0";

/// A version of HTTP whose clients keep their windows closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum WindowCase {
    Http2,
    Http3,
}

/// Clients that take nothing, until they are dropped.
type Clients = Vec<Box<dyn Any>>;

/// Adds the table and the goal to `report`.
pub fn run(bench: &Bench, report: &mut Report) -> Result<()> {
    let rounds = bench.options.runs(3).min(3);
    report.method += &format!(
        "Closed windows: each of {CONNECTIONS} connections asks for the 4 MB file on {STREAMS} streams and gives them windows of 0; \
         growth of private memory of each stream. "
    );
    let title = format!("{STREAMS} streams at closed windows on each of {CONNECTIONS} connections");
    let mut table = Table::new(title, &["server", "HTTP/3, KiB/stream", "HTTP/2, KiB/stream"]);
    let mut ratio = None;
    for spec in super::specs(bench)?.iter().filter(|spec| spec.name != GSO_NGINX && bench.options.wants(&spec.name)) {
        let mut found = [Series::default(), Series::default()];
        for _ in 0..rounds {
            for (series, version) in found.iter_mut().zip([WindowCase::Http3, WindowCase::Http2]) {
                match grow(bench, spec, version) {
                    Ok(growth) => series.push(growth.each(|memory| memory.private_dirty) / 1024.0),
                    Err(Error::Interrupted) => return Err(Error::Interrupted),
                    Err(error) => report.notes.push(format!("{}, closed windows: {error}", spec.name)),
                }
            }
        }
        let [http3, http2] = found;
        if spec.name == FREERUN {
            ratio = http3.median().zip(http2.median()).map(|(http3, http2)| http3 / http2);
        }
        bench.say(&format!(
            "{:12} closed windows: {} and {} KiB",
            spec.name,
            http3.cell(),
            short_or_nothing(http2.median())
        ));
        table.row(vec![spec.name.clone(), http3.cell(), http2.cell()]);
    }
    let text = "streams at closed windows: memory at most 1.2 times that of freerun's own HTTP/2";
    report.goals.push(Goal::at_most(text, ratio, 1.2));
    report.tables.push(table);
    Ok(())
}

fn grow(bench: &Bench, spec: &Spec, version: WindowCase) -> Result<Growth> {
    let (cores, _) = bench.machine.pair();
    let server = Server::start(bench, spec, &Placement { cores, cgroups: Vec::new() })?;
    drop(open(server.address, version, 1)?);
    let before = settled(&server)?;
    let clients = open(server.address, version, CONNECTIONS)?;
    let with = settled(&server)?;
    drop(clients);
    server.stop();
    Ok(Growth { before, with, count: CONNECTIONS * STREAMS })
}

fn open(server: SocketAddr, version: WindowCase, count: usize) -> Result<Clients> {
    match version {
        WindowCase::Http2 => (0..count).map(|_| Ok(Box::new(http2(server)?) as Box<dyn Any>)).collect(),
        WindowCase::Http3 => {
            Ok(http3(server, count)?.into_iter().map(|client| Box::new(client) as Box<dyn Any>).collect())
        }
    }
}

fn http2(server: SocketAddr) -> Result<StreamOwned<ClientConnection, TcpStream>> {
    let mut tls = (*client::settings(TlsVersion::Tls13, SessionUse::Never)?).clone();
    tls.alpn_protocols = vec![b"h2".to_vec()];
    let begin = || -> io::Result<_> {
        let session = ClientConnection::new(Arc::new(tls), client::name()).map_err(io::Error::other)?;
        let mut stream = StreamOwned::new(session, TcpStream::connect(server)?);
        stream.write_all(&requests())?;
        stream.flush()?;
        Ok(stream)
    };
    begin().doing("requests over HTTP/2")
}

/// The beginning of a connection of HTTP/2, and its requests.
fn requests() -> Vec<u8> {
    let mut bytes = BEGINNING.to_vec();
    // GET, https, and the path and the authority, which are not to be kept in a table (RFC 7541).
    let mut section = vec![0x82, 0x87];
    for (index, value) in [(4, LARGE.0), (1, "bench")] {
        section.extend([index, value.len() as u8]);
        section.extend_from_slice(value.as_bytes());
    }
    for stream in 0..STREAMS as u32 {
        // HEADERS that end both the head and the request.
        bytes.extend([0, 0, section.len() as u8, 0x01, 0x05]);
        bytes.extend_from_slice(&(2 * stream + 1).to_be_bytes());
        bytes.extend_from_slice(&section);
    }
    bytes
}

fn http3(server: SocketAddr, count: usize) -> Result<Vec<H3Connection>> {
    let settings = ClientSettings::new(LARGE.0, LARGE.1, 0)?;
    let (mut wire, mut progress) = (Wire::new(), LoadProgress::default());
    let begin = |_| H3Connection::begin(server, None, &settings, (STREAMS, STREAMS));
    let mut all = (0..count).map(begin).collect::<io::Result<Vec<_>>>().doing("connect")?;
    let end = Instant::now() + TIME;
    while Instant::now() < end {
        for connection in &mut all {
            connection.advance(&mut wire, &mut progress).doing("requests over HTTP/3")?;
        }
        interrupt::pause(Duration::from_millis(1))?;
    }
    if all.iter().any(|connection| !connection.has_asked()) {
        return Err(Error::Failed("not all requests could be sent".into()));
    }
    Ok(all)
}
