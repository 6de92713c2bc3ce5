//! The cost of HTTP/3: small and large responses, handshakes, idle connections, and clients that take nothing.

mod burst;
pub mod client;
mod closed;
mod idle;
pub mod load;
pub mod probe;
mod response;
mod table;
mod wire;

use std::time::Duration;

use client::ClientSettings;
use load::{H3Load, RequestCount};

use crate::bench::Bench;
use crate::certificates::{self, Key};
use crate::configs::STATUS_PATH;
use crate::error::Result;
use crate::grid::{Grid, Sample, Work};
use crate::h2load::{H2Load, HttpVersion};
use crate::process::Placement;
use crate::report::{Goal, Report, Table};
use crate::servers::{Server, start_all};
use crate::spec::{Kind, Spec};
use crate::stats::short_or_nothing;
use crate::warm;
use crate::wrk::WrkOutcome;

/// The small file and the large one: path and size.
const SMALL: (&str, u64) = ("/1k.bin", 1_000);
const LARGE: (&str, u64) = ("/4m.bin", 4_000_000);

/// The window of each stream of the clients.
const WINDOW: u32 = 8 << 20;

/// The cases by their names.
const KEPT: &str = "1 KB";
const KEPT_HTTP2: &str = "1 KB, HTTP/2 over TLS";
const FILES: &str = "4 MB";
const FILES_HTTP2: &str = "4 MB, HTTP/2 over TLS";
const EACH: &str = "1 KB, a connection for each";

/// Connections and streams of each case.
const CASES: [(&str, usize, usize); 5] =
    [(KEPT, 8, 10), (KEPT_HTTP2, 8, 10), (FILES, 4, 2), (FILES_HTTP2, 4, 2), (EACH, 32, 1)];

/// Names of the servers.
const PLAIN_NGINX: &str = "nginx";
const GSO_NGINX: &str = "nginx gso";
const FREERUN: &str = "freerun";

/// A load of one version of HTTP.
enum VersionLoad {
    Http3(H3Load),
    Http2(H2Load),
}

impl Work for VersionLoad {
    fn run(&self, bench: &Bench, server: &Server) -> Result<WrkOutcome> {
        match self {
            VersionLoad::Http3(load) => load::run(load),
            VersionLoad::Http2(load) => load.start(bench, server.address)?.finish(),
        }
    }
}

/// Runs the benchmark.
pub fn run(bench: &Bench) -> Result<Report> {
    let (rounds, seconds) = (bench.options.runs(5), bench.options.seconds(1.0, 3.0).ceil());
    for (path, size) in [SMALL, LARGE] {
        bench.scratch.file(path.trim_start_matches('/'), size)?;
    }
    let (server_cores, client_cores) = bench.machine.pair();
    let placement = Placement { cores: server_cores, cgroups: Vec::new() };
    let (servers, mut notes) = start_all(bench, &specs(bench)?, &placement)?;
    let grid = Grid::fill(bench, &servers, rounds, &mut notes, |server| {
        let cases = CASES.iter().filter(|(name, ..)| server.spec.name != GSO_NGINX || !name.contains("HTTP/2"));
        cases
            .filter_map(|case| match load(server, *case, seconds, &client_cores) {
                Ok(load) => Some((case.0.to_owned(), load)),
                Err(error) => {
                    bench.say(&format!("{}: {error}", server.spec.name));
                    None
                }
            })
            .collect()
    })?;
    let mut report = Report {
        name: "http3",
        method: format!(
            "One worker pinned to one core, the client with one thread pinned to the other: a client of our own (quinn-proto; it takes \
             and sends runs of datagrams with one call, and offers AES-128-GCM alone), for HTTP/2 h2load. Files in the page cache; TLS \
             1.3 with ECDSA P-256; {rounds} rounds of {seconds} s each, servers in turn; median (min–max), ratios are medians of each \
             round's. Parts of 4 MB files count as parts of requests. nginx gso is nginx with `quic_gso on`. "
        ),
        notes,
        ..Report::default()
    };
    for (case, connections, streams) in CASES {
        let title = format!("{case}: {connections} connections, {streams} streams each");
        report.tables.push(table(&grid, &servers, case, &title));
    }
    report.goals = goals(&grid);
    // Memory is measured with servers of their own.
    drop(servers);
    idle::run(bench, &mut report)?;
    closed::run(bench, &mut report)?;
    burst::run(bench, &mut report)?;
    Ok(report)
}

/// The servers: nginx as it is by default, nginx that lets the kernel cut datagrams, and freerun.
fn specs(bench: &Bench) -> Result<Vec<Spec>> {
    let names = [(Kind::Nginx, "", ""), (Kind::Nginx, "gso", "quic_gso on;"), (Kind::Freerun, "", "")];
    names.into_iter().map(|(kind, variant, lines)| spec(bench, kind, variant, lines)).collect()
}

/// A server that speaks HTTP/3 and, over TLS, HTTP/2 at its address.
fn spec(bench: &Bench, kind: Kind, variant: &str, lines: &str) -> Result<Spec> {
    let root = bench.scratch.folder("data")?;
    let files = certificates::prepare(bench, Key::EcdsaP256)?;
    let whole = format!(
        "worker_processes 1;\nevents {{ worker_connections 65536; }}\nhttp {{\n@TEMPORARY@access_log off;\nsendfile on;\n\
         default_type application/octet-stream;\nkeepalive_timeout 600s;\nkeepalive_requests 1000000000;\n\
         server {{\nlisten @ADDRESS@ ssl;\nlisten @ADDRESS@ quic;\nhttp2 on;\n{lines}\nssl_protocols TLSv1.3;\n\
         ssl_certificate {};\nssl_certificate_key {};\nlocation / {{ root {}; }}\n@STATUS@\n}}\n}}\n",
        files.certificate.display(),
        files.key.display(),
        root.display(),
    );
    debug_assert!(!whole.contains(STATUS_PATH), "freerun alone has figures of its own");
    Ok(Spec { whole: Some(whole), ..Spec::new(kind, variant, &root) })
}

fn load(
    server: &Server,
    (case, connections, streams): (&str, usize, usize),
    seconds: f64,
    cores: &[usize],
) -> Result<VersionLoad> {
    let (path, size) = if case == FILES || case == FILES_HTTP2 { LARGE } else { SMALL };
    if case == KEPT_HTTP2 || case == FILES_HTTP2 {
        return Ok(VersionLoad::Http2(H2Load {
            version: HttpVersion::Http2,
            secure: true,
            path: path.to_owned(),
            connections,
            streams,
            requests: None,
            seconds,
            arguments: Vec::new(),
            cores: cores.to_vec(),
        }));
    }
    Ok(VersionLoad::Http3(H3Load {
        server: server.address,
        settings: ClientSettings::new(path, size, WINDOW)?,
        size,
        connections,
        streams,
        requests: if case == EACH { RequestCount::OneEach } else { RequestCount::Endless },
        length: Duration::from_secs_f64(seconds),
        cores: cores.to_vec(),
    }))
}

fn table(grid: &Grid, servers: &[Server], case: &str, title: &str) -> Table {
    let times = if case == EACH { ["handshake p50 ms", "p99 ms"] } else { ["p50 ms", "p99 ms"] };
    let head = ["server", "CPU µs/request", "× nginx", "requests/s", "× nginx"];
    let head = [&head[..], &times, &["client's core %"]].concat();
    let mut table = Table::new(title, &head);
    for name in warm::names(grid, servers, case) {
        let mut row = warm::cells(grid, name, case);
        let busy = grid.series(name, case, |sample| sample.outcome.client.unwrap_or(f64::NAN)).median();
        row.push(short_or_nothing(busy));
        table.row(row);
    }
    table
}

fn cpu(sample: &Sample) -> f64 {
    sample.cpu_us
}

/// A figure in proportion to the bytes that a second of CPU time sends.
fn yielded(sample: &Sample) -> f64 {
    1.0 / sample.cpu_us
}

fn goals(grid: &Grid) -> Vec<Goal> {
    let own = grid.ratio_of_cases(FREERUN, KEPT, KEPT_HTTP2, cpu);
    vec![
        Goal::at_most(
            format!("{KEPT}: CPU per request at most 0.7 times that of nginx"),
            grid.ratio(FREERUN, PLAIN_NGINX, KEPT, cpu),
            0.7,
        ),
        Goal::at_most(format!("{KEPT}: CPU per request at most 1.5 times that of freerun's own HTTP/2"), own, 1.5),
        Goal::at_least(
            format!("{FILES}: bytes per CPU second at least 3 times those of nginx"),
            grid.ratio(FREERUN, PLAIN_NGINX, FILES, yielded),
            3.0,
        ),
        Goal::at_least(
            format!("{FILES}: bytes per CPU second at least 1.2 times those of nginx with quic_gso"),
            grid.ratio(FREERUN, GSO_NGINX, FILES, yielded),
            1.2,
        ),
        Goal::at_least(
            format!("{EACH}: at least nginx's rate"),
            grid.ratio(FREERUN, PLAIN_NGINX, EACH, |sample| sample.outcome.rate()),
            1.0,
        ),
    ]
}
