//! Benchmarks against other servers, side by side in one run. See `bench/README.md`.

mod bench;
mod cache_herd;
mod cache_hits;
mod cache_node;
mod cache_ratio;
mod cache_restart;
mod canned;
mod certificates;
mod cgroup;
mod checked;
mod client;
mod compress;
mod configs;
mod connections;
mod disks;
mod dynamic;
mod error;
mod fixture;
mod grid;
mod grpc;
mod h2load;
mod http2;
mod interrupt;
mod late_loop;
mod limits;
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
mod reload;
mod report;
mod scratch;
mod servers;
mod sharding;
mod slow;
mod spec;
mod stats;
mod status;
mod status_cost;
mod streams;
mod summary;
mod tls;
mod tunnels;
mod udp;
mod user;
mod warm;
mod wrk;

use std::process::ExitCode;

use bench::Bench;
use error::{Error, Result};
use options::Options;
use report::Report;

fn main() -> ExitCode {
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
            match bench.options.record {
                true => {
                    let results = bench::repository().join("bench/RESULTS.md");
                    report::record(&results, report.name, &section)
                }
                false => Ok(()),
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
        "metadata" => metadata::run(bench),
        "warm" => warm::run(bench),
        "connections" => connections::run(bench),
        "http2" => http2::run(bench),
        "http2-upload" => http2::upload::run(bench),
        "http2-fairness" => http2::fairness::run(bench),
        "http2-urgent" => http2::urgent::run(bench),
        "http2-memory" => http2::idle::run(bench),
        "compress" => compress::run(bench),
        "sharding" => sharding::run(bench),
        "late-loop" => late_loop::run(bench),
        "reload" => reload::run(bench),
        "dynamic" => dynamic::run(bench),
        "status-cost" => status_cost::run(bench),
        "log" => log::run(bench),
        "limits" => limits::run(bench),
        "tls" => tls::run(bench),
        "tls-handshakes" => tls::flood::run(bench),
        "tls-names" => tls::names::run(bench),
        "tls-slow-certificates" => tls::slow_certificates::run(bench),
        "proxy" => proxy::run(bench),
        "grpc" => grpc::run(bench),
        "tunnels" => tunnels::run(bench),
        "streams" => streams::run(bench),
        "udp" => udp::run(bench),
        "udp-flood" => udp::flood::run(bench),
        "slow" => slow::run(bench),
        "cache-hits" => cache_hits::run(bench),
        "cache-node" => cache_node::run(bench),
        "cache-herd" => cache_herd::run(bench),
        "cache-restart" => cache_restart::run(bench),
        "cache-ratio" => cache_ratio::run(bench),
        _ => Err(Error::Setup(format!("no benchmark is called {name}"))),
    }
}
