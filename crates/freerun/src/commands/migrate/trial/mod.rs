//! `freerun migrate --run`: a trial of the configuration beside the running nginx.
//!
//! | file | holds |
//! |---|---|
//! | `addresses.rs` | the free addresses that stand for those of the configuration |
//! | `texts.rs` | the texts of the configuration, changed for the trial |
//! | `server.rs` | the process that serves with them, and its folder |
//! | `sites.rs` | the servers of `http` as a client sees them |
//! | `logged_request.rs` | the request that a line of a log describes |
//! | `request_list.rs` | the requests, from logs or a list |
//! | `sources.rs` | the logs and lists themselves |
//! | `interruption.rs` | the signals that end a trial early |
//! | `replay.rs` | the sending of requests to both servers |
//! | `comparison.rs` | the differences between two answers |
//! | `summary.rs` | the differences in groups, and the figures |
//! | `report.rs` | the result for a person |

mod addresses;
mod comparison;
mod interruption;
mod logged_request;
mod replay;
mod report;
mod request_list;
mod server;
mod sites;
mod sources;
mod summary;
mod texts;

use std::collections::BTreeSet;
use std::net::{SocketAddr, ToSocketAddrs as _};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use super::survey::{Survey, Verdict};
use crate::cli::{Migrate, MigrateRun};
use crate::commands::explain::{address_of, host_and_port};
use crate::console;
use crate::source::Input;
use crate::source::loader::Recorder;
use addresses::TrialAddresses;
use interruption::TrialSignals;
use replay::ReplayLimits;
use request_list::ReplayedRequest;
use server::TrialFolder;
use sites::Sites;
use sources::GatheredRequests;
use summary::{TrialOutcome, TrialSummary};

pub use server::TrialServer;

/// The most addresses at which nginx does not answer that are looked for.
const MAX_SILENT: usize = 10;

/// The exit code if there was no trial.
const NO_TRIAL: u8 = 2;

/// Tries the configuration of a survey, and prints the result. `server` is the process for it. `None`: a server would not
/// start, which the survey says.
pub fn run(
    migrate: &Migrate,
    run: &MigrateRun,
    server: TrialServer,
    input: &Input,
    survey: &Survey,
) -> Option<ExitCode> {
    if survey.verdict() == Verdict::Missing {
        return None;
    }
    Some(match attempt(migrate, run, server, input, survey) {
        Ok(summary) => {
            if migrate.json {
                // Texts and numbers always have a form in JSON.
                console::output(&(serde_json::to_string_pretty(&summary).unwrap_or_default() + "\n"));
            } else {
                console::output(&report::text(&summary, &input.conf_prefix, migrate.quiet));
            }
            match (summary.outcome(), survey.verdict()) {
                (TrialOutcome::Nothing, _) => ExitCode::from(NO_TRIAL),
                (TrialOutcome::Same, Verdict::Works) => ExitCode::SUCCESS,
                _ => ExitCode::from(Verdict::Differs as u8),
            }
        }
        Err(told) => {
            console::print(&format!("freerun: migrate: {}\n", told.trim_end()));
            ExitCode::from(NO_TRIAL)
        }
    })
}

/// Starts the server, asks both, and ends it.
///
/// # Errors
/// It would reach outside of its folder, it does not start, nginx does not answer, or there is nothing to send.
fn attempt(
    migrate: &Migrate,
    run: &MigrateRun,
    server: TrialServer,
    input: &Input,
    survey: &Survey,
) -> Result<TrialSummary, String> {
    // From here on a signal ends the trial and not the process, which has a folder to remove.
    let signals = TrialSignals::register()?;
    let mut loader = Recorder::default();
    let tree = freerun_conf::parse(&input.conf, input.globals.as_deref(), &input.conf_prefix, &mut loader);
    let mut addresses = TrialAddresses::default();
    let folder = TrialFolder::make()?;
    // What is declared last ends first: the server, which uses the folder until its end.
    let mut server = server;
    let places = (folder.text(), input.prefix.as_str());
    let texts = texts::change(&tree, &loader.recorded, (&places.0, places.1), &mut addresses)?;
    let trial = Input {
        globals: Some(texts.globals.clone()),
        error_log: format!("{}/error.log", folder.text()),
        ..input.clone()
    };
    let owner = server::check(&trial, &texts, &addresses, &folder.text())?;
    folder.give_to(owner.as_ref())?;
    let mut sites = Sites::of(&tree, &addresses, &input.prefix);
    for url in &run.against {
        against(&mut sites, url)?;
    }
    signals.check()?;
    let gathered = sources::gather(run, &sites, signals.mark());
    signals.check()?;
    let GatheredRequests { requests, lines, sources, unused, ends } = gathered?;
    let requests = Arc::new(requests);
    if requests.is_empty() {
        let paths: Vec<&str> = unused.iter().map(|(path, _)| path.as_str()).collect();
        return Err(format!("{}: nothing of it can be replayed\n{}", paths.join(", "), why_nothing(&lines)));
    }
    check_answers(&requests, &sites, &signals)?;
    let notes = texts.notes.clone();
    addresses.release();
    let started = server.start(trial, texts, &folder, &signals);
    signals.check()?;
    started?;
    let limits = ReplayLimits {
        rate: run.rate,
        concurrency: run.concurrency,
        timeout: Duration::from_secs(run.timeout),
        total: Duration::from_secs(run.time),
    };
    let results = replay::replay(&requests, &sites.listeners, limits, signals.mark())?;
    drop(server);
    drop(folder);
    drop(signals);
    let mut summary = TrialSummary {
        configuration: input.conf.clone(),
        sources,
        unused,
        ends,
        lines,
        left_out: sites.left_out.clone(),
        notes,
        differing_directives: survey.differs.iter().map(|used| used.name.clone()).collect(),
        ..TrialSummary::default()
    };
    summary.add(results, &requests, &sites.listeners, &migrate.options);
    Ok(summary)
}

/// Checks that nginx accepts connections at each address that requests are for.
///
/// # Errors
/// It does not, or a signal came.
fn check_answers(requests: &[ReplayedRequest], sites: &Sites, signals: &TrialSignals) -> Result<(), String> {
    // Several listeners may have one address, if --against says it.
    let used: BTreeSet<SocketAddr> = requests.iter().map(|request| sites.listeners[request.listener].nginx).collect();
    let mut silent = Vec::new();
    for address in used {
        signals.check()?;
        if !replay::answers(address) {
            silent.push(address.to_string());
        }
        if silent.len() >= MAX_SILENT {
            break;
        }
    }
    match &silent[..] {
        [] => Ok(()),
        silent => Err(format!(
            "nginx does not answer at {}\nhelp: start it, or say with --against URL where it is",
            silent.join(", ")
        )),
    }
}

/// Says why a log or a list has no request that can be sent.
fn why_nothing(lines: &request_list::LineCounts) -> String {
    let why = match lines {
        lines if lines.lines == 0 => "it is empty",
        lines if lines.unreadable == lines.lines => "its lines have another format; --log-format names it",
        lines if lines.without_address > 0 => {
            "its requests are for servers and addresses that the configuration does not have"
        }
        lines if !lines.unsafe_methods.is_empty() => "--all-methods sends requests that may change something, too",
        _ => "--requests FILE gives a list of requests",
    };
    format!("help: {why}")
}

/// Has the requests to nginx go to the address of a URL: those with TLS if it is one of https, or else those without.
///
/// # Errors
/// It is no such URL, or its host has no address.
fn against(sites: &mut Sites, url: &str) -> Result<(), String> {
    let wrong = || format!("--against {url}: write a URL as http://192.0.2.1:8080");
    let (is_tls, rest) = match (url.strip_prefix("https://"), url.strip_prefix("http://")) {
        (Some(rest), _) => (true, rest),
        (_, Some(rest)) => (false, rest),
        _ => return Err(wrong()),
    };
    let authority = rest.trim_end_matches('/');
    if authority.is_empty() || authority.contains(['/', '?', '@']) {
        return Err(wrong());
    }
    let (host, port) = host_and_port(authority).ok_or_else(wrong)?;
    let ip = match address_of(&host) {
        Some(ip) => ip,
        None => {
            let mut found = (host.as_str(), 0).to_socket_addrs().map_err(|error| format!("{}: {error}", wrong()))?;
            found.next().ok_or_else(wrong)?.ip()
        }
    };
    sites.ask_at(ip, port, is_tls);
    Ok(())
}
