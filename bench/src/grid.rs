//! Measurements of several servers in several cases, in turn, and their ratios to nginx in the same round.

use std::collections::BTreeMap;

use crate::bench::Bench;
use crate::error::{Error, Result};
use crate::process::Watch;
use crate::servers::Server;
use crate::stats::{Series, short_or_nothing};
use crate::wrk::{self, WrkLoad, WrkOutcome};

/// A measurement.
#[derive(Debug, Clone, Copy)]
pub struct Sample {
    /// The client's figures.
    pub outcome: WrkOutcome,
    /// CPU time of the server's processes per completed request, in microseconds.
    pub cpu_us: f64,
    /// Part of the machine's CPU time that went to processes other than the server and the clients, in percent.
    pub strangers: f64,
}

/// The load that a server is measured under.
pub trait Work {
    /// Does before each measurement what is not to be measured.
    fn prepare(&self) -> Result<()> {
        Ok(())
    }

    /// Has `server` do it, from beginning to end.
    fn run(&self, bench: &Bench, server: &Server) -> Result<WrkOutcome>;
}

impl Work for WrkLoad {
    fn run(&self, bench: &Bench, server: &Server) -> Result<WrkOutcome> {
        wrk::run(bench.wrk()?, &bench.scratch.folder("servers")?, server.address, self)
    }
}

/// Above this part, in percent, other processes have disturbed a measurement.
const DISTURBED: f64 = 5.0;

/// The number of times that a disturbed measurement is tried again.
const RETRIES: usize = 2;

/// Measures `server` under `work`. A measurement that other processes disturbed is tried again a few times (not with
/// `--quick`); the least disturbed one counts.
pub fn measure(bench: &Bench, server: &Server, work: &impl Work) -> Result<Sample> {
    let mut best = measure_once(bench, server, work)?;
    for _ in 0..if bench.options.quick { 0 } else { RETRIES } {
        if best.strangers <= DISTURBED {
            break;
        }
        let again = measure_once(bench, server, work)?;
        if again.strangers < best.strangers {
            best = again;
        }
    }
    Ok(best)
}

fn measure_once(bench: &Bench, server: &Server, work: &impl Work) -> Result<Sample> {
    work.prepare()?;
    let (watch, before) = (Watch::start(), server.process.cpu());
    let outcome = work.run(bench, server)?;
    let cpu = server.process.cpu().saturating_sub(before);
    Ok(Sample { outcome, cpu_us: cpu.as_secs_f64() * 1e6 / outcome.requests, strangers: watch.strangers() })
}

/// A note on `strangers`, the parts of the machine that other processes used in several measurements.
pub fn disturbance(strangers: &[f64]) -> Option<String> {
    let many = strangers.iter().filter(|part| **part > DISTURBED).count();
    let most = strangers.iter().copied().fold(0.0, f64::max);
    (many > 0).then(|| {
        format!(
            "disturbed: in {many} of {} measurements other processes used more than {DISTURBED} % of the machine's CPU time \
             (at most {most:.0} %)",
            strangers.len()
        )
    })
}

/// A server in one case of a round; a failure is a note.
fn grid_sample(
    bench: &Bench,
    server: &Server,
    (round, case, work): (usize, &str, &impl Work),
    notes: &mut Vec<String>,
) -> Result<Option<Sample>> {
    let name = &server.spec.name;
    let sample = match measure(bench, server, work) {
        Err(Error::Interrupted) => return Err(Error::Interrupted),
        Err(error) => {
            notes.push(format!("{name}, {case}: {error}"));
            return Ok(None);
        }
        Ok(sample) => sample,
    };
    let Sample { outcome, cpu_us, strangers } = sample;
    let rate = outcome.rate();
    bench.say(&format!("{round} {name:16} {case:28} {rate:9.0}/s {cpu_us:8.2} µs, others {strangers:.0} %"));
    if outcome.errors > 0.0 {
        notes.push(format!("{name}, {case}: {} errors in round {round}", outcome.errors));
    }
    Ok(Some(sample))
}

/// Samples by server and case, one a round; `None` where a round failed.
#[derive(Debug, Default)]
pub struct Grid(BTreeMap<(String, String), Vec<Option<Sample>>>);

impl Grid {
    /// Measures every server in every case, round after round; `cases` answers a server's cases. The servers are measured one
    /// after the other in each case, and their ratios are each round's: in half a minute the machine changes by more than they differ.
    pub fn fill<W: Work>(
        bench: &Bench,
        servers: &[Server],
        rounds: usize,
        notes: &mut Vec<String>,
        cases: impl Fn(&Server) -> Vec<(String, W)>,
    ) -> Result<Grid> {
        let mut grid = Grid::default();
        let cases: Vec<_> = servers.iter().map(|server| (server, cases(server))).collect();
        let most = cases.iter().map(|(_, cases)| cases.len()).max().unwrap_or_default();
        for round in 0..rounds {
            for index in 0..most {
                for (server, (case, work)) in cases.iter().filter_map(|(server, own)| Some((server, own.get(index)?))) {
                    let sample = grid_sample(bench, server, (round, case, work), notes)?;
                    grid.0.entry((server.spec.name.clone(), case.clone())).or_default().push(sample);
                }
            }
        }
        notes.extend(grid.disturbance());
        Ok(grid)
    }

    /// A note on the measurements that other processes disturbed.
    fn disturbance(&self) -> Option<String> {
        let samples: Vec<f64> = self.0.values().flatten().flatten().map(|sample| sample.strangers).collect();
        disturbance(&samples)
    }

    fn samples(&self, server: &str, case: &str) -> &[Option<Sample>] {
        self.0.get(&(server.to_owned(), case.to_owned())).map_or(&[], Vec::as_slice)
    }

    /// Whether `server` was measured in `case`.
    pub fn has(&self, server: &str, case: &str) -> bool {
        !self.samples(server, case).is_empty()
    }

    /// A figure of every round.
    pub fn series(&self, server: &str, case: &str, figure: impl Fn(&Sample) -> f64) -> Series {
        self.samples(server, case).iter().flatten().map(figure).collect()
    }

    /// The ratio of the figures of `server` and `other`, round by round; the median of the ratios.
    pub fn ratio(&self, server: &str, other: &str, case: &str, figure: impl Fn(&Sample) -> f64) -> Option<f64> {
        let pairs = self.samples(server, case).iter().zip(self.samples(other, case));
        let ratios = pairs.filter_map(|(one, other)| Some(figure(one.as_ref()?) / figure(other.as_ref()?)));
        ratios.collect::<Series>().median()
    }

    /// The ratio of a server's figures in two cases, round by round; the median of the ratios.
    pub fn ratio_of_cases(
        &self,
        server: &str,
        case: &str,
        other: &str,
        figure: impl Fn(&Sample) -> f64,
    ) -> Option<f64> {
        let pairs = self.samples(server, case).iter().zip(self.samples(server, other));
        let ratios = pairs.filter_map(|(one, other)| Some(figure(one.as_ref()?) / figure(other.as_ref()?)));
        ratios.collect::<Series>().median()
    }

    /// [`ratio`](Self::ratio) as a cell.
    pub fn ratio_cell(&self, server: &str, other: &str, case: &str, figure: impl Fn(&Sample) -> f64) -> String {
        short_or_nothing(self.ratio(server, other, case, figure))
    }
}
