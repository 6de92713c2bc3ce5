//! An urgent response beside large ones on one connection over a narrow path: how soon does it overtake them?

use std::thread;
use std::time::{Duration, Instant};

use freerun_testkit::Client;
use freerun_testkit::http2::{Http2, setting};
use freerun_testkit::relay::{Path, Relay};

use crate::bench::Bench;
use crate::configs::OK_PATH;
use crate::error::{Error, Result};
use crate::grid::disturbance;
use crate::process::{Placement, Watch};
use crate::report::{Goal, Report, Table};
use crate::servers::Server;
use crate::spec::Kind;
use crate::stats::{Latencies, Series};

/// The large streams.
const BULK: usize = 20;
/// The size of each of their responses.
const SIZE: u64 = 4_000_000;
/// The rate of the path in bytes a second: 20 Mbit/s.
const RATE: u64 = 2_500_000;
/// The time that the large responses flow before the first urgent request, and between two of them.
const BETWEEN: Duration = Duration::from_millis(200);
/// The longest time that bytes wait in front of the narrowest place.
const QUEUE: Duration = Duration::from_millis(5);
/// The largest median until the first byte of an urgent response, in milliseconds.
const GOAL_MS: f64 = 20.0;

/// Runs the benchmark.
pub fn run(bench: &Bench) -> Result<Report> {
    let (rounds, asked) = (bench.options.runs(3), if bench.options.quick { 5 } else { 20 });
    bench.scratch.file("4m.bin", SIZE)?;
    let mut report = Report {
        name: "http2-urgent",
        method: format!(
            "One connection of HTTP/2 in the clear, through a relay that passes {} Mbit/s on and has a queue of {} ms in front of that (and the kernel's buffers as much again); {BULK} streams of \
             {} MB are on their way, and `return 200` is asked for with `priority: u=0`, {asked} times, every {} ms; the time until its \
             head is there; {rounds} rounds, servers in turn.",
            RATE * 8 / 1_000_000,
            QUEUE.as_millis(),
            SIZE / 1_000_000,
            BETWEEN.as_millis()
        ),
        ..Report::default()
    };
    let (mut found, mut disturbed) = (Vec::new(), Vec::new());
    for kind in [Kind::Nginx, Kind::Freerun] {
        let spec = super::spec(bench, kind)?;
        if bench.options.wants(&spec.name) {
            found.push((spec, [(); 3].map(|()| Series::default())));
        }
    }
    for _ in 0..rounds {
        for (spec, series) in &mut found {
            let path = Path { delay: Duration::ZERO, rate: Some(RATE), queue: QUEUE };
            let watch = Watch::start();
            let server = Server::start(bench, spec, &Placement::default())?;
            let relay = Relay::new(server.address, path);
            let address = relay.address();
            let client = thread::spawn(move || ask(&mut Http2::with(Client::connect(address), &LARGE), asked));
            let latencies = client.join().map_err(|_| Error::Failed("a client failed".into()))?;
            bench.say(&format!("{:12} {latencies}", spec.name));
            for (series, percent) in series.iter_mut().zip([50.0, 90.0, 100.0]) {
                series.extend(latencies.percentile_ms(percent));
            }
            disturbed.push(watch.strangers());
            drop(relay);
            server.stop();
        }
    }
    report.notes.extend(disturbance(&disturbed));
    let mut table = Table::new("", &["server", "p50 ms", "p90 ms", "max ms"]);
    for (spec, series) in &found {
        table.row(std::iter::once(spec.name.clone()).chain(series.iter().map(Series::cell)).collect());
    }
    report.tables.push(table);
    let own = found.iter().find(|(spec, _)| spec.name == "freerun").and_then(|(_, series)| series[0].median());
    report.goals.push(Goal::at_most(format!("first byte after at most {GOAL_MS} ms"), own, GOAL_MS));
    Ok(report)
}

/// Windows that never hold a response back.
const LARGE: [(u16, u32); 1] = [(setting::INITIAL_WINDOW_SIZE, 64 << 20)];

fn ask(http2: &mut Http2, asked: usize) -> Latencies {
    http2.open_window(0, 1 << 30);
    for _ in 0..BULK {
        http2.ask_for("/4m.bin");
    }
    let mut latencies = Vec::with_capacity(asked);
    for _ in 0..asked {
        let pause = Instant::now() + BETWEEN;
        // Bytes come all the time, a frame of 8 KB every 3 ms.
        while Instant::now() < pause {
            http2.frame();
        }
        let begun = Instant::now();
        let block = http2.block("GET", OK_PATH).field("priority", "u=0");
        let stream = http2.ask(block);
        let status = http2.head(stream);
        latencies.push(begun.elapsed());
        assert_eq!(status, 200);
    }
    Latencies::new(latencies)
}
