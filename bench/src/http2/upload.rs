//! A large upload over a path with a long round trip: how fast do the windows let it be?

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

use freerun_testkit::relay::{Path, Relay};

use crate::bench::Bench;
use crate::error::{Doing, Error, Result};
use crate::grid::disturbance;
use crate::h2load::{Load, Until, Version};
use crate::process::{Placement, Watch};
use crate::report::{Goal, Report, Table};
use crate::servers::Server;
use crate::spec::{Kind, Spec};
use crate::stats::Series;

/// The round trip.
const ROUND_TRIP: Duration = Duration::from_millis(50);

/// The speed that it has to reach, as a multiple of nginx's.
const GOAL: f64 = 5.0;

/// Runs the benchmark.
pub fn run(bench: &Bench) -> Result<Report> {
    let size: u64 = if bench.options.quick { 10_000_000 } else { 100_000_000 };
    let rounds = bench.options.runs(3);
    let body = bench.scratch.file(&format!("upload-{size}.bin"), size)?;
    let sink = sink()?;
    let specs = [Kind::Nginx, Kind::Freerun].map(|kind| -> Result<Spec> {
        let spec = super::spec(bench, kind)?.proxy(sink);
        let passing = format!("{}proxy_request_buffering off;\n", spec.passing);
        Ok(Spec { passing, http: "client_max_body_size 0;\n".into(), ..spec })
    });
    let mut report = Report {
        name: "http2-upload",
        method: format!(
            "One POST of {} MB over HTTP/2 in the clear, passed on while it comes (`proxy_request_buffering off`), through a relay \
             with a round trip of {} ms and no other limit; h2load; {rounds} rounds, servers in turn.",
            size / 1_000_000,
            ROUND_TRIP.as_millis()
        ),
        ..Report::default()
    };
    let (mut found, mut disturbed) = (Vec::new(), Vec::new());
    for spec in specs.into_iter().collect::<Result<Vec<_>>>()? {
        if bench.options.wants(&spec.name) {
            found.push((spec, Series::default()));
        }
    }
    for _ in 0..rounds {
        for (spec, rates) in &mut found {
            let watch = Watch::start();
            let server = Server::start(bench, spec, &Placement::default())?;
            let relay = Relay::new(server.address, Path::round_trip(ROUND_TRIP));
            let load = Load {
                version: Version::Http2,
                secure: false,
                path: "/upload".into(),
                connections: 1,
                streams: 1,
                until: Until::Requests(1),
                body: Some(body.clone()),
                cores: Vec::new(),
            };
            match load.start(bench, relay.address()).and_then(crate::h2load::H2load::finish) {
                Err(Error::Interrupted) => return Err(Error::Interrupted),
                Err(error) => report.notes.push(format!("{}: {error}", spec.name)),
                Ok(outcome) => {
                    let rate = size as f64 / 1e6 / outcome.seconds;
                    bench.say(&format!("{:12} {rate:.1} MB/s", spec.name));
                    rates.push(rate);
                }
            }
            disturbed.push(watch.strangers());
            server.stop();
        }
    }
    report.notes.extend(disturbance(&disturbed));
    let mut table = Table::new("", &["server", "MB/s"]);
    for (spec, rates) in &found {
        table.row(vec![spec.name.clone(), rates.cell()]);
    }
    report.tables.push(table);
    let of = |name: &str| found.iter().find(|(spec, _)| spec.name == name)?.1.median();
    let ratio = of("freerun").zip(of("nginx")).map(|(freerun, nginx)| freerun / nginx);
    report.goals.push(Goal::at_least(format!("at least {GOAL} times as fast as nginx"), ratio, GOAL));
    Ok(report)
}

/// A server that reads what it gets and answers.
fn sink() -> Result<SocketAddr> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).doing("listen")?;
    let address = listener.local_addr().doing("listen")?;
    thread::spawn(move || {
        while let Ok((stream, _)) = listener.accept() {
            thread::spawn(move || {
                // Whatever ends the connection, the client sees it.
                let _ = swallow(stream);
            });
        }
    });
    Ok(address)
}

/// Answers one request after the other, when its body (with a length, or chunked and with `0` as the last chunk) is there.
fn swallow(mut stream: TcpStream) -> std::io::Result<()> {
    let mut buffer = vec![0; 256 << 10];
    loop {
        let (mut text, mut end) = (Vec::new(), None);
        while end.is_none() {
            let count = stream.read(&mut buffer)?;
            if count == 0 {
                return Ok(());
            }
            text.extend_from_slice(&buffer[..count]);
            end = text.windows(4).position(|part| part == b"\r\n\r\n");
        }
        let end = end.unwrap_or(0) + 4;
        let head = String::from_utf8_lossy(&text[..end]).to_ascii_lowercase();
        let length = head.lines().find_map(|line| line.strip_prefix("content-length:")?.trim().parse::<usize>().ok());
        let mut come = text.len() - end;
        let mut last = text[end..].to_vec();
        let is_whole = |come: usize, last: &[u8]| match length {
            Some(length) => come >= length,
            None => last.ends_with(b"\r\n0\r\n\r\n"),
        };
        while !is_whole(come, &last) {
            let count = stream.read(&mut buffer)?;
            if count == 0 {
                return Ok(());
            }
            come += count;
            last.extend_from_slice(&buffer[..count]);
            last.drain(..last.len().saturating_sub(16));
        }
        stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nOK")?;
    }
}
