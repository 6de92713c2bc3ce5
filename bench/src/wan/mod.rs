//! HTTP/3 beside HTTP/2 over a path of 100 ms: downloads and uploads on new connections, and downloads with losses.

mod device;
mod path;

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use device::{FAR_SERVER, PathDevice, SERVER};
use path::{MILLION, PathSettings};

use crate::bench::Bench;
use crate::certificates::{self, Key};
use crate::error::{Error, ErrorContext, Result};
use crate::grid::{Grid, Sample, Work};
use crate::h2load::{H2Load, HttpVersion};
use crate::http3::client::ClientSettings;
use crate::http3::load::{self, H3Load, RequestCount};
use crate::interrupt;
use crate::process::Placement;
use crate::report::{Goal, Report, Table};
use crate::servers::{Server, start_all};
use crate::spec::{Kind, Spec};
use crate::stats::short_or_nothing;
use crate::wrk::WrkOutcome;

/// The file that is loaded, and the size of it and of uploads.
const FILE: (&str, u64) = ("/8m.bin", 8_000_000);

/// The file that is loaded where packets are lost: many of them are whole in the time.
const SMALLER_FILE: (&str, u64) = ("/1m.bin", 1_000_000);

/// The path of uploads, and the empty file that answers them.
const UPLOAD: &str = "/upload";
const EMPTY: &str = "/empty.bin";

/// 100 Mbit/s, 100 ms to and fro, and a queue that holds what is under way in that time, as access networks have it.
const PATH: PathSettings = PathSettings { rate: 12_500_000, delay: Duration::from_millis(50), queue: 1_250_000 };

/// Packets in a million that are dropped where there are losses: 1 %.
const LOSSES: u64 = MILLION / 100;

/// The congestion control of TCP, the kernel's default. QUIC has the same.
const CONGESTION: &str = "cubic";

/// The windows of the clients: they are never the limit.
const WINDOW: u32 = 64 << 20;

/// The longest time for the files of a connection.
const LIMIT: Duration = Duration::from_secs(60);

/// The time in which the path becomes empty.
const REST: Duration = Duration::from_millis(400);

/// The versions of HTTP, as cases name them.
const HTTP2: &str = "HTTP/2";
const HTTP3: &str = "HTTP/3";

/// The load of clients.
#[derive(Debug, Clone, Copy)]
struct WanCase {
    name: &'static str,
    connections: usize,
    /// Files at a time on each connection.
    streams: usize,
    is_upload: bool,
    /// Whether packets are lost. Files follow each other then, and all that has come in the time counts.
    has_losses: bool,
    /// HTTP/3 has to have at least this part of HTTP/2's rate.
    goal: f64,
}

const CASES: [WanCase; 5] = [
    WanCase { name: "one file", connections: 1, streams: 1, is_upload: false, has_losses: false, goal: 0.8 },
    WanCase { name: "four files at once", connections: 1, streams: 4, is_upload: false, has_losses: false, goal: 0.8 },
    WanCase { name: "one upload", connections: 1, streams: 1, is_upload: true, has_losses: false, goal: 0.8 },
    WanCase { name: "four uploads at once", connections: 1, streams: 4, is_upload: true, has_losses: false, goal: 0.8 },
    WanCase { name: "losses of 1 %", connections: 8, streams: 2, is_upload: false, has_losses: true, goal: 1.0 },
];

impl WanCase {
    /// The file, and its size; uploads have the same.
    fn file(&self) -> (&'static str, u64) {
        if self.has_losses { SMALLER_FILE } else { FILE }
    }

    /// The name of the case in one version of HTTP.
    fn of(&self, version: &str) -> String {
        format!("{}, {version}", self.name)
    }
}

/// A case in one version of HTTP.
struct WanLoad<'d> {
    device: &'d PathDevice,
    case: WanCase,
    load: CaseLoad,
}

/// The load of one version of HTTP.
enum CaseLoad {
    Http3(H3Load),
    Http2(H2Load, SocketAddr),
}

impl Work for WanLoad<'_> {
    fn prepare(&self) -> Result<()> {
        self.device.set_losses(if self.case.has_losses { LOSSES } else { 0 });
        interrupt::pause(REST)
    }

    fn run(&self, bench: &Bench, _: &Server) -> Result<WrkOutcome> {
        let mut outcome = match &self.load {
            CaseLoad::Http3(load) => load::run(load)?,
            CaseLoad::Http2(load, address) => load.start(bench, *address)?.finish()?,
        };
        let (_, size) = self.case.file();
        if self.case.is_upload {
            outcome.bytes = outcome.requests * size as f64;
        }
        // Of files, parts count.
        outcome.requests = outcome.bytes / size as f64;
        let wanted = (self.case.connections * self.case.streams) as f64;
        if !self.case.has_losses && outcome.requests != wanted {
            return Err(Error::Failed(format!("{} files instead of {wanted}", outcome.requests)));
        }
        Ok(outcome)
    }
}

/// Runs the benchmark.
pub fn run(bench: &Bench) -> Result<Report> {
    // The namespace belongs to a thread, and to all that it starts.
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| device::enter_namespace().and_then(|()| measure(bench)));
        thread.join().map_err(|_| Error::Failed("the benchmark panicked".into()))?
    })
}

fn measure(bench: &Bench) -> Result<Report> {
    let (rounds, seconds) = (bench.options.runs(5), bench.options.seconds(5.0, 20.0).ceil());
    let file = |(path, size): (&str, u64)| bench.scratch.file(path.trim_start_matches('/'), size);
    let (data, _) = (file(FILE)?, file(SMALLER_FILE)?);
    let root = bench.scratch.folder("data")?;
    let empty = root.join(EMPTY.trim_start_matches('/'));
    fs::write(&empty, "").doing(empty.display())?;
    let (server_cores, client_cores) = bench.machine.pair();
    let congestion = bench.options.congestion.as_deref().unwrap_or(CONGESTION);
    let device = PathDevice::start(PATH, congestion, &client_cores)?;
    let placement = Placement { cores: server_cores, cgroups: Vec::new() };
    let specs = [Kind::Nginx, Kind::Freerun].map(|kind| spec(bench, kind, &root));
    let specs = specs.into_iter().collect::<Result<Vec<_>>>()?;
    let (servers, mut notes) = start_all(bench, &specs, &placement)?;
    let grid = Grid::fill(bench, &servers, rounds, &mut notes, |server| {
        let versions = CASES.iter().flat_map(|case| [(case, HTTP2), (case, HTTP3)]);
        versions
            .filter_map(|(case, version)| match load(server, case, version, (seconds, &data, &client_cores)) {
                Ok(load) => Some((case.of(version), WanLoad { device: &device, case: *case, load })),
                Err(error) => {
                    bench.say(&format!("{}: {error}", server.spec.name));
                    None
                }
            })
            .collect()
    })?;
    drop(servers);
    let [up, down] = device.finish()?;
    bench.say(&format!("packets to the server: {up:?}, to the client: {down:?}"));
    Ok(Report {
        name: "wan",
        method: format!(
            "A TUN device leads all packets over a path of {} Mbit/s and {} ms to and fro, with a queue of {} KB in each direction that \
             drops what finds no room; {congestion} for TCP. Files and uploads of 8 MB on a new connection, from its first packet to the \
             last byte; with losses, {} connections load files of 1 MB, two at a time each, for {seconds} s, and 1 % of all packets are dropped in \
             each direction, by a generator with a seed. TLS 1.3; for HTTP/2 h2load, for HTTP/3 a client of our own (quinn-proto, CUBIC) \
             with windows of {} MiB. Uploads go to a proxy that buffers them. {rounds} rounds, servers in turn; median (min–max), ratios \
             are medians of each round's.",
            PATH.rate * 8 / MILLION,
            PATH.delay.as_millis() * 2,
            PATH.queue / 1000,
            CASES[4].connections,
            WINDOW >> 20,
        ),
        tables: CASES.iter().map(|case| table(&grid, &servers_of(&specs), case)).collect(),
        goals: CASES.iter().map(|case| goal(&grid, case)).collect(),
        notes,
    })
}

/// The names of the servers.
fn servers_of(specs: &[Spec]) -> Vec<&str> {
    specs.iter().map(|spec| spec.name.as_str()).collect()
}

/// A server at the near end of the path.
fn spec(bench: &Bench, kind: Kind, root: &Path) -> Result<Spec> {
    let files = certificates::prepare(bench, Key::EcdsaP256)?;
    let whole = format!(
        "worker_processes 1;\nevents {{ worker_connections 1024; }}\nhttp {{\n@TEMPORARY@access_log off;\nsendfile on;\n\
         default_type application/octet-stream;\nclient_max_body_size 0;\n\
         server {{\nlisten unix:@DIR@/upload.sock;\nlocation / {{ root {root}; }}\n}}\n\
         server {{\nlisten @ADDRESS@ ssl;\nlisten {SERVER}:@PORT@ ssl;\nlisten {SERVER}:@PORT@ quic;\nhttp2 on;\nssl_protocols TLSv1.3;\n\
         ssl_certificate {};\nssl_certificate_key {};\nlocation / {{ root {root}; }}\n\
         location = {UPLOAD} {{\nproxy_pass http://unix:@DIR@/upload.sock:{EMPTY};\nproxy_method GET;\n\
         proxy_pass_request_body off;\nproxy_set_header Content-Length \"\";\n}}\n@STATUS@\n}}\n}}\n",
        files.certificate.display(),
        files.key.display(),
        root = root.display(),
    );
    Ok(Spec { whole: Some(whole), ..Spec::new(kind, "", root) })
}

fn load(
    server: &Server,
    case: &WanCase,
    version: &str,
    (seconds, data, cores): (f64, &Path, &[usize]),
) -> Result<CaseLoad> {
    let WanCase { connections, streams, is_upload, has_losses, .. } = *case;
    let address = SocketAddr::from((FAR_SERVER, server.address.port()));
    let (file, size) = case.file();
    let path = if is_upload { UPLOAD } else { file };
    if version == HTTP2 {
        // The windows of h2load are powers of two.
        let bits = WINDOW.ilog2();
        let mut arguments = vec![format!("-w{bits}"), format!("-W{bits}")];
        if is_upload {
            arguments.push(format!("-d{}", data.display()));
        }
        let load = H2Load {
            version: HttpVersion::Http2,
            secure: true,
            path: path.to_owned(),
            connections,
            streams,
            requests: (!has_losses).then_some(connections * streams),
            seconds,
            arguments,
            cores: cores.to_vec(),
        };
        return Ok(CaseLoad::Http2(load, address));
    }
    let settings = if is_upload {
        ClientSettings::uploading(path, size, WINDOW)?
    } else {
        ClientSettings::new(path, size, WINDOW)?
    };
    let (requests, length) = if has_losses {
        (RequestCount::Endless, Duration::from_secs_f64(seconds))
    } else {
        (RequestCount::Until(streams), LIMIT)
    };
    let cores = cores.to_vec();
    Ok(CaseLoad::Http3(H3Load { server: address, settings, size, connections, streams, requests, length, cores }))
}

/// Mbit/s of bodies.
fn rate(sample: &Sample) -> f64 {
    sample.outcome.bytes * 8.0 / sample.outcome.seconds / MILLION as f64
}

/// The rate of a server's HTTP/3 in proportion to the rate of its HTTP/2.
fn ratio(grid: &Grid, server: &str, case: &WanCase) -> Option<f64> {
    grid.ratio_of_cases(server, &case.of(HTTP3), &case.of(HTTP2), rate)
}

fn table(grid: &Grid, servers: &[&str], case: &WanCase) -> Table {
    let title = format!("{}: {} connections, {} streams each", case.name, case.connections, case.streams);
    let mut table = Table::new(title, &["server", "HTTP/2 Mbit/s", "HTTP/3 Mbit/s", "HTTP/3 ÷ HTTP/2"]);
    for name in servers {
        table.row(vec![
            (*name).to_owned(),
            grid.series(name, &case.of(HTTP2), rate).cell(),
            grid.series(name, &case.of(HTTP3), rate).cell(),
            short_or_nothing(ratio(grid, name, case)),
        ]);
    }
    table
}

fn goal(grid: &Grid, case: &WanCase) -> Goal {
    let text = format!("{}: HTTP/3 has at least {} times the rate of HTTP/2", case.name, case.goal);
    Goal::at_least(text, ratio(grid, "freerun", case), case.goal)
}
