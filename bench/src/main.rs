//! Benchmarks against other servers, side by side in one run. See `bench/README.md`.

mod bench;
mod cache_hits;
mod cache_node;
mod canned;
mod certificates;
mod cgroup;
mod checked;
mod client;
mod compress;
mod configs;
mod connections;
mod disks;
mod error;
mod fixture;
mod floor;
mod grid;
mod growth;
mod h2load;
mod http2;
mod http3;
mod interrupt;
mod log;
mod machine;
mod metadata;
mod mixed;
mod network;
mod options;
mod origin;
mod probe;
mod process;
mod proxy;
mod random;
mod reload;
mod report;
mod scratch;
mod servers;
mod spec;
mod stats;
mod status;
mod status_cost;
mod streams;
mod summary;
mod tls;
mod tunnels;
mod user;
mod wan;
mod warm;
mod wrk;

use std::process::ExitCode;

use bench::Bench;
use error::{Error, Result};
use options::Options;
use report::Report;

fn main() -> ExitCode {
    let mut arguments = std::env::args_os().skip(1);
    if arguments.next().is_some_and(|first| first == configs::FLOOR_ARGUMENT) {
        return match floor::program::run(arguments) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                eprintln!("{error}");
                ExitCode::FAILURE
            }
        };
    }
    match Options::parse(std::env::args_os().skip(1)) {
        Ok(Some(options)) => run(options),
        Ok(None) => {
            print!("{}", options::USAGE);
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::from(2)
        }
    }
}

fn run(options: Options) -> ExitCode {
    let network = options.congestion.as_deref().map_or(Ok(()), network::enter);
    let bench = match network.and_then(|()| interrupt::install()).and_then(|()| Bench::prepare(options)) {
        Ok(bench) => bench,
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::FAILURE;
        }
    };
    let mut failed = false;
    for name in &bench.options.benchmarks {
        bench.say(&format!("== {name}"));
        let facts = bench.machine.facts(bench.freerun());
        let recorded = benchmark(&bench, name).and_then(|report| {
            let section = report.markdown(&command(&bench, name), &facts);
            println!("{section}");
            if bench.options.record {
                let results = bench::repository().join("bench/RESULTS.md");
                report::record(&results, report.name, &section)
            } else {
                Ok(())
            }
        });
        if let Err(error) = recorded {
            eprintln!("{name}: {error}");
            failed = true;
            if matches!(error, Error::Interrupted) {
                break;
            }
        }
    }
    if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

fn is_profile_guided(bench: &Bench) -> bool {
    bench.freerun().is_some_and(machine::is_profile_guided)
}

/// The command that measures `name` alone in the same way.
fn command(bench: &Bench, name: &str) -> String {
    bench.options.command(name) + if is_profile_guided(bench) { " --freerun \"$(cargo xtask release)\"" } else { "" }
}

fn benchmark(bench: &Bench, name: &str) -> Result<Report> {
    match name {
        "mixed" => mixed::run(bench),
        "mixed-http3" => mixed::http3::run(bench),
        "metadata" => metadata::run(bench),
        "warm" => warm::run(bench),
        "connections" => connections::run(bench),
        "http2" => http2::run(bench),
        "http3" => http3::run(bench),
        "wan" => wan::run(bench),
        "compress" => compress::run(bench),
        "status-cost" => status_cost::run(bench),
        "reload" => reload::run(bench),
        "log" => log::run(bench),
        "tls" => tls::run(bench),
        "proxy" => proxy::run(bench),
        "tunnels" => tunnels::run(bench),
        "streams" => streams::run(bench),
        "cache-hits" => cache_hits::run(bench),
        "cache-node" => cache_node::run(bench),
        "floor" => floor::run(bench),
        "growth" => growth::run(bench),
        _ => Err(Error::Setup(format!("no benchmark is called {name}"))),
    }
}
