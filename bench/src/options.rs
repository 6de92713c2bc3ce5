//! The command line.

use std::path::PathBuf;

use lexopt::prelude::*;

use crate::error::{Error, Result};

/// The benchmarks, in the order in which `all` runs them.
pub const BENCHMARKS: [&str; 20] = [
    "warm",
    "connections",
    "tls",
    "http2",
    "http3",
    "wan",
    "compress",
    "status-cost",
    "reload",
    "metadata",
    "mixed",
    "mixed-http3",
    "log",
    "proxy",
    "tunnels",
    "streams",
    "cache-hits",
    "cache-node",
    "floor",
    "growth",
];

/// The options of the command line.
#[derive(Debug, Clone, PartialEq)]
pub struct Options {
    /// The benchmarks to run.
    pub benchmarks: Vec<&'static str>,
    /// Short runs and small data: to see that everything works, not for figures.
    pub quick: bool,
    /// Servers to run, by name or by their first word; empty for all.
    pub only: Vec<String>,
    /// The number of times that each figure is measured; `None` for the benchmark's own number.
    pub runs: Option<usize>,
    /// Seconds of one measurement; `None` for the benchmark's own.
    pub seconds: Option<f64>,
    /// Folder for data and configurations.
    pub scratch: Option<PathBuf>,
    /// Leave the scratch folder's content for the next run.
    pub keep: bool,
    /// Write the tables into `bench/RESULTS.md`.
    pub record: bool,
    /// The freerun binary; `None` builds it.
    pub freerun: Option<PathBuf>,
    /// The nginx binary; `None` for the one of the path.
    pub nginx: Option<PathBuf>,
    /// Congestion control of a network of the run's own; `None` for the machine's network as it is.
    pub congestion: Option<String>,
    /// The user the servers' workers run as, when started by root; `root` keeps them root.
    pub user: String,
}

/// The text of `--help`.
pub const USAGE: &str = "\
usage: freerun-bench BENCHMARK… [OPTIONS]

benchmarks: warm connections tls http2 http3 wan compress reload metadata mixed
            mixed-http3 log proxy tunnels streams cache-hits cache-node floor
            growth status-cost all

  --quick            short runs, small data: a check that everything works
  --only NAME,…      only these servers (nginx, freerun, h2o, lighttpd, or a full name such as \"nginx threads\")
  --runs N           measure everything N times, servers in turn
  --seconds S        length of one measurement
  --scratch DIR      where data and configurations go (default target/bench; not on tmpfs)
  --keep             leave them there, and use what a former run left
  --record           write the tables into bench/RESULTS.md
  --freerun PATH     this binary instead of building one
  --nginx PATH       this nginx instead of Debian's; one with HTTP/3 for http3, wan, mixed-http3
  --congestion NAME  in a network namespace of its own with this congestion control (root; \"reno\" does not pace)
  --user NAME        user of the servers' workers when started by root (default nobody)
";

impl Options {
    /// Reads the arguments after the program's name.
    pub fn parse(args: impl IntoIterator<Item = std::ffi::OsString>) -> Result<Option<Options>> {
        parse(lexopt::Parser::from_args(args)).map_err(|error| Error::Setup(format!("{error}\n\n{USAGE}")))
    }

    /// Whether `--only` lets the server `name` run: its full name or its first word is listed.
    pub fn wants(&self, name: &str) -> bool {
        let first = name.split(' ').next().unwrap_or(name);
        self.only.is_empty() || self.only.iter().any(|only| only == name || only == first)
    }

    /// Number of runs: what was asked, else 1 with `--quick`, else `usual`.
    pub fn runs(&self, usual: usize) -> usize {
        self.runs.unwrap_or(if self.quick { 1 } else { usual })
    }

    /// Seconds of one measurement: what was asked, else `quick` or `usual`.
    pub fn seconds(&self, quick: f64, usual: f64) -> f64 {
        self.seconds.unwrap_or(if self.quick { quick } else { usual })
    }

    /// The command that measures `benchmark` alone in the same way. Paths of this machine are left out.
    pub fn command(&self, benchmark: &str) -> String {
        let mut command = format!("cargo run --release -p freerun-bench -- {benchmark}");
        if self.quick {
            command += " --quick";
        }
        if !self.only.is_empty() {
            command += &format!(" --only '{}'", self.only.join(","));
        }
        for (option, value) in
            [("--runs", self.runs.map(|runs| runs.to_string())), ("--seconds", self.seconds.map(|s| s.to_string()))]
        {
            if let Some(value) = value {
                command += &format!(" {option} {value}");
            }
        }
        if let Some(name) = &self.congestion {
            command += &format!(" --congestion {name}");
        }
        command
    }
}

fn parse(mut parser: lexopt::Parser) -> std::result::Result<Option<Options>, lexopt::Error> {
    let mut options = Options {
        benchmarks: Vec::new(),
        quick: false,
        only: Vec::new(),
        runs: None,
        seconds: None,
        scratch: None,
        keep: false,
        record: false,
        freerun: None,
        nginx: None,
        congestion: None,
        user: "nobody".into(),
    };
    while let Some(arg) = parser.next()? {
        match arg {
            Long("quick") => options.quick = true,
            Long("keep") => options.keep = true,
            Long("record") => options.record = true,
            Long("only") => {
                options.only.extend(parser.value()?.string()?.split(',').map(|name| name.trim().to_owned()));
            }
            Long("runs") => {
                options.runs = Some(parser.value()?.parse_with(|text| bounded(text, 1.0, 100.0))? as usize);
            }
            Long("seconds") => options.seconds = Some(parser.value()?.parse_with(|text| bounded(text, 0.2, 600.0))?),
            Long("scratch") => options.scratch = Some(parser.value()?.into()),
            Long("freerun") => options.freerun = Some(parser.value()?.into()),
            Long("nginx") => options.nginx = Some(parser.value()?.into()),
            Long("congestion") => options.congestion = Some(parser.value()?.parse_with(word)?),
            Long("user") => options.user = parser.value()?.string()?,
            Short('h') | Long("help") => return Ok(None),
            Value(name) => {
                let name = name.string()?;
                match BENCHMARKS.iter().find(|known| **known == name) {
                    Some(known) => options.benchmarks.push(known),
                    None if name == "all" => options.benchmarks.extend(BENCHMARKS),
                    None => return Err(format!("no benchmark is called {name:?}").into()),
                }
            }
            other => return Err(other.unexpected()),
        }
    }
    if options.benchmarks.is_empty() {
        return Err("which benchmark?".into());
    }
    Ok(Some(options))
}

fn bounded(text: &str, min: f64, max: f64) -> std::result::Result<f64, String> {
    match text.parse::<f64>() {
        Ok(value) if (min..=max).contains(&value) => Ok(value),
        _ => Err(format!("not a number between {min} and {max}")),
    }
}

/// The name of a congestion control: it stands in a command line that others copy.
fn word(text: &str) -> std::result::Result<String, String> {
    if text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') && !text.is_empty() {
        Ok(text.to_owned())
    } else {
        Err("not the name of a congestion control".into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(line: &str) -> Result<Option<Options>> {
        Options::parse(line.split(' ').map(Into::into))
    }

    #[test]
    fn all_means_every_benchmark() {
        assert_eq!(options("all --quick").unwrap().unwrap().benchmarks, BENCHMARKS);
        assert!(options("--quick").is_err());
        assert!(options("mixd").is_err());
        assert!(options("mixed --runs 0").is_err());
        assert!(options("mixed --congestion ;").is_err());
        assert!(options("--help").unwrap().is_none());
    }

    #[test]
    fn the_command_of_a_section_measures_that_benchmark_alone() {
        let options = options("warm mixed --only nginx,h2o --runs 2 --congestion reno --record --keep --scratch /x")
            .unwrap()
            .unwrap();
        assert_eq!(
            options.command("mixed"),
            "cargo run --release -p freerun-bench -- mixed --only 'nginx,h2o' --runs 2 --congestion reno"
        );
    }

    #[test]
    fn only_takes_full_names_and_first_words() {
        let options = options("warm --only nginx,h2o").unwrap().unwrap();
        assert!(options.wants("nginx threads") && options.wants("h2o") && !options.wants("lighttpd"));
    }
}
