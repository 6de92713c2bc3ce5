//! The distance of servers from the cost of the kernel and of cryptography alone. Each workload is also measured with a
//! program that knows no HTTP, on the same core and in the same rounds.

mod answers;
mod datagrams;
mod handshakes;
mod load;
mod poll;
pub mod program;
mod records;
mod relay;

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::path::PathBuf;
use std::thread;

use self::answers::sealed_size;
use self::handshakes::FloorKey;
use self::load::{BytesLoad, DatagramLoad, FloorLoad};
use crate::bench::Bench;
use crate::canned::{self, Pieces};
use crate::certificates::{self, Key};
use crate::configs::{OK_PATH, load_stream};
use crate::error::{ErrorContext, Result};
use crate::grid::{Grid, Sample};
use crate::process::{Placement, on_cores};
use crate::report::{Goal, Report, Table};
use crate::servers::{Server, start_all};
use crate::spec::{Kind, Spec};
use crate::stats::short_or_nothing;
use crate::streams;
use crate::streams::load::{SessionLoad, Use};
use crate::tls::client::{self, SessionUse, TlsVersion};
use crate::tls::handshakes::{HandshakeLoad, LoadEnd};
use crate::wrk::{Target, WrkLoad};

/// A kind of load, and of the program that is its floor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Workload {
    /// `return 200` on kept connections.
    Return,
    /// A file on kept connections: its name, and wrk's connections.
    File(&'static str, usize),
    /// The same over TLS 1.3 with AES-256-GCM.
    Sealed(&'static str, usize),
    /// 1 KB through `proxy_pass` of http.
    Proxied,
    /// Sessions through `proxy_pass` of stream.
    Sessions(Use, usize),
    /// Full handshakes.
    Handshake(Key),
    /// Datagrams through `proxy_pass` of stream.
    Datagrams,
}

/// Name, workload, and the largest CPU time as a multiple of the floor's.
const WORKLOADS: [(&str, Workload, f64); 14] = [
    ("return 200", Workload::Return, 1.5),
    ("1 KB", Workload::File("1k.bin", 32), 1.5),
    ("100 KB", Workload::File("100k.bin", 16), 1.1),
    ("4 MB", Workload::File("4m.bin", 8), 1.1),
    ("1 KB proxied", Workload::Proxied, 1.25),
    ("stream, 64 bytes to and fro, 1,000 sessions", Workload::Sessions(Use::PingPong, 1_000), 1.25),
    ("stream, a connection for each 64 bytes", Workload::Sessions(Use::Short, 1), 1.25),
    ("stream, bulk (MiB)", Workload::Sessions(Use::Bulk, 1), 1.1),
    ("TLS, 1 KB", Workload::Sealed("1k.bin", 32), 1.5),
    ("TLS, 100 KB", Workload::Sealed("100k.bin", 16), 1.1),
    ("TLS, 4 MB", Workload::Sealed("4m.bin", 8), 1.1),
    ("handshake, RSA-2048", Workload::Handshake(Key::Rsa2048), 1.1),
    ("handshake, ECDSA P-256", Workload::Handshake(Key::EcdsaP256), 1.1),
    ("datagrams of 64 bytes to and fro", Workload::Datagrams, 1.25),
];

/// The files and their sizes.
const FILES: [(&str, u64); 3] = [("1k.bin", 1_000), ("100k.bin", 100_000), ("4m.bin", 4_000_000)];

/// The body of `return 200`.
const OK_FILE: &str = "ok.bin";

/// Bytes of the proxied answer.
const PROXIED: usize = 1_000;

/// Handshakes at a time.
const AT_A_TIME: usize = 32;

/// nginx's and freerun's proxy of TCP and UDP at one address.
const STREAM: &str = "@MODULE@worker_processes 1;\nevents { worker_connections 20000; }\nstream {
    server { listen @ADDRESS@; proxy_pass @TCP@; }\n    server { listen @ADDRESS@ udp; proxy_pass @UDP@; }\n}\n";

/// The servers behind the proxies.
struct Backs {
    http: SocketAddr,
    tcp: SocketAddr,
    udp: SocketAddr,
}

/// Runs the benchmark.
pub fn run(bench: &Bench) -> Result<Report> {
    let (rounds, seconds) = (bench.options.runs(5), bench.options.seconds(1.0, 3.0).ceil());
    for (name, size) in FILES {
        bench.scratch.file(name, size)?;
    }
    bench.scratch.file(OK_FILE, 2)?;
    let (server_cores, client_cores) = bench.machine.pair();
    let backs = Backs {
        http: on_cores(&client_cores, || canned::start(PROXIED, Pieces::One))??,
        tcp: streams::upstream::start(&client_cores)?,
        udp: echo(&client_cores)?,
    };
    let placement = Placement { cores: server_cores, cgroups: Vec::new() };
    let head = [
        "workload",
        "floor µs",
        "nginx µs",
        "nginx × floor",
        "freerun µs",
        "freerun × floor",
        "× nginx",
        "goal × floor",
    ];
    let mut table = Table::new("CPU time of a request", &head);
    let mut report = Report { name: "floor", method: method(rounds, seconds), ..Report::default() };
    for (name, workload, limit) in WORKLOADS {
        let specs = workload.specs(bench, &backs)?;
        let (servers, mut notes) = start_all(bench, &specs, &placement)?;
        let grid = Grid::fill(bench, &servers, rounds, &mut notes, |server| {
            match workload.load(server, seconds, &client_cores) {
                Ok(load) => vec![(name.to_owned(), load)],
                Err(error) => {
                    bench.say(&format!("{}: {error}", server.spec.name));
                    Vec::new()
                }
            }
        })?;
        servers.into_iter().for_each(Server::stop);
        table.row(row(&grid, name, limit));
        let ratio = grid.ratio("freerun", "floor", name, cpu);
        report.goals.push(Goal::at_most(format!("{name}: at most {limit} times the floor's CPU time"), ratio, limit));
        report.notes.extend(notes.into_iter().map(|note| format!("{name}: {note}")));
    }
    report.tables.push(table);
    Ok(report)
}

fn method(rounds: usize, seconds: f64) -> String {
    format!(
        "The floor is a program of one thread that knows no HTTP: `epoll_wait`, `recv`, and `send` of head and body (1 KB), or `send` of \
         the head and `sendfile` (100 KB, 4 MB), as many bytes as the servers send; a relay of pieces of 64 KiB between a client's \
         connection and one to the server behind; `recvmmsg` and `sendmmsg` of datagrams with a socket for each client. TLS: the file \
         is read, made into records with AES-256-GCM of AWS-LC and sent, on connections without a handshake. Handshakes: a connection \
         with as many bytes each way, a key agreement (X25519) and a signature of AWS-LC. Server, floor and nginx have one core, \
         clients and servers behind the other; {rounds} rounds of {seconds} s each, in turn; median (min–max), ratios are medians of \
         each round's."
    )
}

fn cpu(sample: &Sample) -> f64 {
    sample.cpu_us
}

fn row(grid: &Grid, name: &str, limit: f64) -> Vec<String> {
    let time = |server| grid.series(server, name, cpu).cell();
    let ratio = |one, other| short_or_nothing(grid.ratio(one, other, name, cpu));
    vec![
        name.to_owned(),
        time("floor"),
        time("nginx"),
        ratio("nginx", "floor"),
        time("freerun"),
        ratio("freerun", "floor"),
        ratio("freerun", "nginx"),
        limit.to_string(),
    ]
}

/// A server that sends datagrams back. Its thread ends with this process.
fn echo(cores: &[usize]) -> Result<SocketAddr> {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).doing("make a socket")?;
    socket.set_nonblocking(true).doing("make a socket")?;
    let address = socket.local_addr().doing("make a socket")?;
    let serve = move || datagrams::echo(&socket).unwrap_or_else(|error| eprintln!("the echo has ended: {error}"));
    on_cores(cores, || thread::Builder::new().name("echo".into()).spawn(serve))?.doing("start a thread")?;
    Ok(address)
}

impl Workload {
    /// The floor, nginx and freerun.
    fn specs(self, bench: &Bench, backs: &Backs) -> Result<[Spec; 3]> {
        let root = bench.scratch.folder("data")?;
        let mut floor = Spec::new(Kind::Floor, "", &root);
        floor.whole = Some(self.floor(bench, backs)?);
        let server = |kind| -> Result<Spec> {
            let spec = Spec::new(kind, "", &root);
            Ok(match self {
                Workload::Return | Workload::File(..) => spec,
                Workload::Proxied => spec.proxy(backs.http),
                Workload::Sealed(..) => Spec { secure: vec![certificates::prepare(bench, Key::EcdsaP256)?], ..spec },
                Workload::Handshake(key) => Spec { secure: vec![certificates::prepare(bench, key)?], ..spec },
                Workload::Sessions(..) | Workload::Datagrams => {
                    let text = STREAM.replace("@MODULE@", &load_stream(kind)?);
                    let text = text.replace("@TCP@", &backs.tcp.to_string()).replace("@UDP@", &backs.udp.to_string());
                    Spec { whole: Some(text), ..spec }
                }
            })
        };
        Ok([floor, server(Kind::Nginx)?, server(Kind::Freerun)?])
    }

    /// The arguments of the floor's program, one a line.
    fn floor(self, bench: &Bench, backs: &Backs) -> Result<String> {
        let answer = |source: &str, name: &str, sealed: bool| -> Result<String> {
            let (size, file) = body(bench, name)?;
            let head = bench.scratch.folder("data")?.join(format!("{source}-{name}.head"));
            std::fs::write(&head, canned::head(if sealed { sealed_size(size) } else { size })).doing(head.display())?;
            Ok(format!("{source}\n@ADDRESS@\n{}\n{}", head.display(), file.display()))
        };
        match self {
            Workload::Return => answer("memory", OK_FILE, false),
            Workload::File("1k.bin", _) => answer("memory", "1k.bin", false),
            Workload::File(name, _) => answer("file", name, false),
            Workload::Sealed(name, _) => answer("sealed", name, true),
            Workload::Proxied => Ok(format!("relay\n@ADDRESS@\n{}", backs.http)),
            Workload::Sessions(..) => Ok(format!("relay\n@ADDRESS@\n{}", backs.tcp)),
            Workload::Handshake(key) => Ok(format!("{}\n@ADDRESS@", if key == Key::Rsa2048 { "rsa" } else { "ecdsa" })),
            Workload::Datagrams => Ok(format!("datagrams\n@ADDRESS@\n{}", backs.udp)),
        }
    }

    /// The load on a server or the floor.
    fn load(self, server: &Server, seconds: f64, cores: &[usize]) -> Result<FloorLoad> {
        let is_floor = server.spec.kind == Kind::Floor;
        let cores = cores.to_vec();
        let requests = |connections, target| {
            FloorLoad::Requests(WrkLoad {
                threads: 1,
                connections,
                seconds,
                target,
                close: false,
                cores: cores.clone(),
            })
        };
        let secure =
            |path: String| server.secure.first().map_or(Target::Path(path.clone()), |at| Target::Secure(*at, path));
        Ok(match self {
            Workload::Return => requests(32, Target::Path(OK_PATH.to_owned())),
            Workload::Proxied => requests(32, Target::Path("/1k.text".to_owned())),
            Workload::File(name, connections) => requests(connections, Target::Path(format!("/{name}"))),
            Workload::Sealed(name, connections) => requests(connections, secure(format!("/{name}"))),
            Workload::Sessions(what, sessions) => FloorLoad::Sessions(SessionLoad { what, sessions, seconds, cores }),
            Workload::Datagrams => FloorLoad::Datagrams(DatagramLoad { seconds, cores }),
            Workload::Handshake(key) if is_floor => FloorLoad::Bytes(BytesLoad {
                key: if key == Key::Rsa2048 { FloorKey::Rsa } else { FloorKey::Ecdsa },
                at_a_time: AT_A_TIME,
                seconds,
                cores,
            }),
            Workload::Handshake(_) => FloorLoad::Tls(HandshakeLoad {
                server: server.secure[0],
                tls: client::settings(TlsVersion::Tls13, SessionUse::Never)?,
                path: OK_PATH.to_owned(),
                at_a_time: AT_A_TIME,
                until: LoadEnd::Time(std::time::Duration::from_secs_f64(seconds)),
                threads: 1,
                cores,
            }),
        })
    }
}

/// A file and its size.
fn body(bench: &Bench, name: &str) -> Result<(u64, PathBuf)> {
    let path = bench.scratch.folder("data")?.join(name);
    let size = std::fs::metadata(&path).doing(path.display())?.len();
    Ok((size, path))
}
