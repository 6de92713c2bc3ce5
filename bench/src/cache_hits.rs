//! Responses from the cache, keep-alive, one core for the server and one for the client: what does a hit cost?

use std::time::Duration;

use crate::bench::Bench;
use crate::client::Client;
use crate::error::{Error, ErrorContext, Result};
use crate::grid::{Grid, Sample};
use crate::interrupt::pause;
use crate::origin::Origin;
use crate::process::Placement;
use crate::report::{Goal, Report};
use crate::servers::{Server, start_all};
use crate::spec::{Kind, Spec};
use crate::warm;
use crate::wrk::{Target, WrkLoad};

/// Name of a case, its path, the object's size, wrk's connections.
const CASES: [(&str, &str, u64, usize); 3] =
    [("1 KB", "/1k.bin", 1_000, 32), ("100 KB", "/100k.bin", 100_000, 16), ("4 MB", "/4m.bin", 4_000_000, 8)];

/// The time that an answer may take.
const LIMIT: Duration = Duration::from_secs(20);

/// The number of times that everything is requested before it is measured.
const WARM_UP: usize = 5;

/// Runs the benchmark.
pub fn run(bench: &Bench) -> Result<Report> {
    let (rounds, seconds) = (bench.options.runs(5), bench.options.seconds(1.0, 3.0).ceil());
    for (_, path, size, _) in CASES {
        bench.scratch.file(path.trim_start_matches('/'), size)?;
    }
    let (server_cores, client_cores) = bench.machine.pair();
    let origin = Origin::start(bench, &client_cores, "")?;
    let root = bench.scratch.folder("data")?;
    let specs = [
        cached(Spec::new(Kind::Nginx, "", &root), ""),
        cached(Spec::new(Kind::Freerun, "", &root), ""),
        cached(Spec::new(Kind::Freerun, "disk", &root), "memory=0"),
        Spec::new(Kind::Varnish, "", &root),
    ]
    .map(|spec| spec.proxy(origin.address()));
    let (servers, mut notes) = start_all(bench, &specs, &Placement { cores: server_cores, cgroups: Vec::new() })?;
    for server in &servers {
        warm_up(server)?;
    }
    let (grid, asked) = origin.during(|| {
        Grid::fill(bench, &servers, rounds, &mut notes, |_| {
            let load = |path: &str, connections| WrkLoad {
                threads: 1,
                connections,
                seconds,
                target: Target::Path(path.to_owned()),
                close: false,
                cores: client_cores.clone(),
            };
            CASES.iter().map(|(case, path, _, connections)| ((*case).to_owned(), load(path, *connections))).collect()
        })
    })?;
    notes.push(format!("requests that reached the origin while hits were measured: {asked}"));
    let mut report = Report {
        name: "cache-hits",
        method: format!(
            "Objects that every server has in its cache (`proxy_cache`, one worker; `freerun disk`: with `memory=0`, so without its memory tier; \
             Varnish: `malloc`, its usual threads), keep-alive; the server pinned to one core, wrk with one thread to the other; {rounds} rounds of \
             {seconds} s each, servers in turn; median (min–max), ratios are medians of each round's."
        ),
        notes,
        ..Report::default()
    };
    for (case, _, _, connections) in CASES {
        report.tables.push(warm::table(&grid, &servers, case, &format!("{case}, {connections} connections")));
    }
    report.goals = goals(&grid);
    servers.into_iter().for_each(Server::stop);
    Ok(report)
}

/// A server like `spec` with a cache, which has these `parameters` of its path.
pub fn cached(spec: Spec, parameters: &str) -> Spec {
    let path = format!(
        "proxy_cache_path @DIR@/cache levels=1:2 keys_zone=bench:10m max_size=1g use_temp_path=off {parameters};\n"
    );
    let passing = format!("{}proxy_cache bench;\nproxy_cache_valid 200 1h;\nproxy_cache_lock on;\n", spec.passing);
    Spec { http: path, passing, ..spec }
}

fn warm_up(server: &Server) -> Result<()> {
    for _ in 0..WARM_UP {
        for (case, path, size, _) in CASES {
            let reply = Client::connect(server.address, None, LIMIT).and_then(|mut client| client.get(path));
            let reply = reply.doing(format!("ask {} for {case}", server.spec.name))?;
            if reply.status != 200 || reply.body.len() as u64 != size {
                return Err(Error::Failed(format!("{}, {case}: answered {}", server.spec.name, reply.status)));
            }
        }
        // What is stored behind the answer gets the time for it.
        pause(Duration::from_millis(100))?;
    }
    Ok(())
}

fn goals(grid: &Grid) -> Vec<Goal> {
    let cpu = |sample: &Sample| sample.cpu_us;
    let rate = |sample: &Sample| sample.outcome.rate();
    let mut goals = Vec::new();
    for (case, limit) in [("1 KB", 0.5), ("100 KB", 1.0), ("4 MB", 1.0)] {
        let text = format!("{case}: CPU per request at most {limit} times nginx's");
        goals.push(Goal::at_most(text, grid.ratio("freerun", "nginx", case, cpu), limit));
    }
    let text = "1 KB: at least 1.5 times nginx's rate";
    goals.push(Goal::at_least(text, grid.ratio("freerun", "nginx", "1 KB", rate), 1.5));
    goals
}
