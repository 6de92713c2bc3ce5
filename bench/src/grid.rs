//! Measurements of several servers in several cases, in turn, and their ratios to nginx in the same round.

use std::collections::BTreeMap;

use crate::bench::Bench;
use crate::error::{Error, Result};
use crate::servers::Server;
use crate::stats::{Series, short_or_nothing};
use crate::wrk::{self, Load, Outcome};

/// One measurement.
#[derive(Debug, Clone, Copy)]
pub struct Sample {
    /// What wrk found.
    pub outcome: Outcome,
    /// CPU time of the server's processes per completed request, in microseconds.
    pub cpu_us: f64,
}

/// Measures `server` under `load`.
pub fn measure(bench: &Bench, server: &Server, load: &Load) -> Result<Sample> {
    let folder = bench.scratch.folder("servers")?;
    let before = server.process.cpu();
    let outcome = wrk::run(bench.wrk()?, &folder, server.address, load)?;
    let cpu = server.process.cpu().saturating_sub(before);
    Ok(Sample { outcome, cpu_us: cpu.as_secs_f64() * 1e6 / outcome.requests })
}

/// Samples by server and case, one a round; `None` where a round failed.
#[derive(Debug, Default)]
pub struct Grid(BTreeMap<(String, String), Vec<Option<Sample>>>);

impl Grid {
    /// Measures every server in every case, round after round, servers in turn; `cases` answers a server's cases.
    pub fn fill(
        bench: &Bench,
        servers: &[Server],
        rounds: usize,
        notes: &mut Vec<String>,
        cases: impl Fn(&Server) -> Vec<(String, Load)>,
    ) -> Result<Grid> {
        let mut grid = Grid::default();
        for round in 0..rounds {
            for server in servers {
                for (case, load) in cases(server) {
                    let sample = match measure(bench, server, &load) {
                        Err(Error::Interrupted) => return Err(Error::Interrupted),
                        Err(error) => {
                            notes.push(format!("{}, {case}: {error}", server.spec.name));
                            None
                        }
                        Ok(sample) => Some(sample),
                    };
                    if let Some(Sample { outcome, cpu_us }) = sample {
                        let rate = outcome.rate();
                        bench.say(&format!("{round} {:24} {case:24} {rate:9.0}/s {cpu_us:8.2} µs", server.spec.name));
                        if outcome.errors > 0.0 {
                            notes.push(format!(
                                "{}, {case}: {} errors in round {round}",
                                server.spec.name, outcome.errors
                            ));
                        }
                    }
                    grid.0.entry((server.spec.name.clone(), case)).or_default().push(sample);
                }
            }
        }
        Ok(grid)
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

    /// The figure of `server` over that of `other`, round by round; the median of those.
    pub fn ratio(&self, server: &str, other: &str, case: &str, figure: impl Fn(&Sample) -> f64) -> Option<f64> {
        let pairs = self.samples(server, case).iter().zip(self.samples(other, case));
        let ratios = pairs.filter_map(|(one, other)| Some(figure(one.as_ref()?) / figure(other.as_ref()?)));
        ratios.collect::<Series>().median()
    }

    /// [`ratio`](Self::ratio) as a cell.
    pub fn ratio_cell(&self, server: &str, other: &str, case: &str, figure: impl Fn(&Sample) -> f64) -> String {
        short_or_nothing(self.ratio(server, other, case, figure))
    }
}
