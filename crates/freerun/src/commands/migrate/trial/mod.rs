//! `freerun migrate --run`: a trial of the configuration beside the running nginx.
//!
//! | file | holds |
//! |---|---|
//! | `addresses.rs` | the free addresses that stand for those of the configuration |
//! | `texts.rs` | the texts of the configuration, changed for the trial |
//! | `server.rs` | the process that serves with them, and its folder |
//! | `sites.rs` | the servers of `http` as a client sees them |
//! | `request_list.rs` | the requests, from logs or a list |
//! | `replay.rs` | the sending of requests to both servers |
//! | `comparison.rs` | the differences between two answers |
//! | `summary.rs` | the differences in groups, and the figures |
//! | `report.rs` | the result for a person |

mod addresses;
mod comparison;
mod replay;
mod report;
mod request_list;
mod server;
mod sites;
mod summary;
mod texts;

use std::fs::File;
use std::io::{BufRead, BufReader, Read as _, Seek as _, SeekFrom};
use std::net::{SocketAddr, ToSocketAddrs as _};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use freerun_conf::path_of;
use freerun_serve::logs::access_log::{COMBINED, Escape, LineFormat};
use signal_hook::consts::{SIGINT, SIGTERM};

use super::survey::{Survey, Verdict};
use crate::cli::{Migrate, MigrateRun};
use crate::commands::explain::{address_of, host_and_port};
use crate::console;
use crate::source::Input;
use crate::source::loader::Recorder;
use addresses::TrialAddresses;
use replay::ReplayLimits;
use request_list::{ListRules, RequestList};
use server::TrialFolder;
use sites::Sites;
use summary::{TrialOutcome, TrialSummary};

pub use server::TrialServer;

/// The most bytes of a log that are read: of a longer one, its end.
const MAX_LOG: u64 = 64 << 20;

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
    mut server: TrialServer,
    input: &Input,
    survey: &Survey,
) -> Result<TrialSummary, String> {
    let mut loader = Recorder::default();
    let tree = freerun_conf::parse(&input.conf, input.globals.as_deref(), &input.conf_prefix, &mut loader);
    let mut addresses = TrialAddresses::default();
    let folder = TrialFolder::make()?;
    let places = (folder.text(), input.prefix.as_str());
    let texts = texts::change(&tree, &loader.recorded, (&places.0, places.1), &mut addresses)?;
    let trial = Input {
        globals: Some(texts.globals.clone()),
        error_log: format!("{}/error.log", folder.text()),
        ..input.clone()
    };
    server::check(&trial, &texts, &addresses, &folder.text())?;
    let mut sites = Sites::of(&tree, &addresses, &input.prefix);
    for url in &run.against {
        against(&mut sites, url)?;
    }
    let (list, sources) = requests(run, &sites)?;
    let (requests, lines) = (Arc::new(list.requests), list.counts);
    if requests.is_empty() {
        return Err(format!("{}: nothing of it can be replayed\n{}", sources.join(", "), why_nothing(&lines)));
    }
    let used = |place: &usize| requests.iter().any(|request| request.listener == *place);
    let silent: Vec<SocketAddr> = (0..sites.listeners.len())
        .filter(used)
        .map(|place| sites.listeners[place].nginx)
        .filter(|address| !replay::answers(*address))
        .collect();
    if let Some(address) = silent.first() {
        return Err(format!(
            "nginx does not answer at {address}\nhelp: start it, or say with --against URL where it is"
        ));
    }
    let notes = texts.notes.clone();
    addresses.release();
    // From here on a signal ends the trial and not the process, which has a folder to remove.
    let is_ended = Arc::new(AtomicBool::new(false));
    server.start(trial, texts, &folder)?;
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register(signal, is_ended.clone()).map_err(|error| format!("sigaction(): {error}"))?;
    }
    let limits = ReplayLimits {
        rate: run.rate,
        concurrency: run.concurrency,
        timeout: Duration::from_secs(run.timeout),
        total: Duration::from_secs(run.time),
    };
    let results = replay::replay(&requests, &sites.listeners, limits, &is_ended)?;
    // The server uses the folder until its end.
    drop(server);
    drop(folder);
    let mut summary = TrialSummary {
        configuration: input.conf.clone(),
        sources,
        lines,
        left_out: sites.left_out.clone(),
        notes,
        differing_directives: survey.differs.iter().map(|used| used.name.clone()).collect(),
        ..TrialSummary::default()
    };
    summary.add(results, &requests, &sites.listeners, &migrate.options);
    Ok(summary)
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

/// The requests of the logs or of the list, and where they come from.
///
/// # Errors
/// There is no log, or one cannot be read.
fn requests<'s>(run: &MigrateRun, sites: &'s Sites) -> Result<(RequestList<'s>, Vec<String>), String> {
    let rules = ListRules { count: run.count, all_methods: run.all_methods, host: run.host.clone() };
    let mut list = RequestList::new(sites, rules);
    let unread = |path: &str, error: std::io::Error| format!("\"{path}\" cannot be read: {error}");
    if let Some(path) = &run.requests {
        list.add_list(&mut *open(path).map_err(|error| unread(path, error))?).map_err(|error| unread(path, error))?;
        return Ok((list, vec![path.clone()]));
    }
    let known = sites.logs();
    let (logs, is_given) = match &run.logs[..] {
        [] => (known.iter().map(|(path, _)| path.clone()).collect(), false),
        given => (given.to_vec(), true),
    };
    let (mut sources, mut last) = (Vec::new(), None);
    for path in logs {
        let written: Vec<&String> = known.iter().filter(|(known, _)| *known == path).map(|(_, name)| name).collect();
        let format = match &run.log_format {
            Some(format) => named_format(format, sites),
            None => written.first().and_then(|name| sites.formats.get(*name)).cloned(),
        };
        let combined = || LineFormat::new(Escape::Default, COMBINED);
        let format = format.unwrap_or_else(combined);
        let writes = |server: &usize| sites.servers[*server].logs.iter().any(|(log, _)| *log == path);
        let all = || 0..sites.servers.len();
        let writers: Vec<usize> =
            if all().any(|server| writes(&server)) { all().filter(writes).collect() } else { all().collect() };
        match open(&path) {
            Ok(mut log) => list.add_log(&mut *log, &format, &writers).map_err(|error| unread(&path, error))?,
            // Of the logs of a configuration some may not be there yet.
            Err(error) if !is_given => {
                last = Some(unread(&path, error));
                continue;
            }
            Err(error) => return Err(unread(&path, error)),
        }
        if !sources.contains(&path) {
            sources.push(path);
        }
    }
    if sources.is_empty() {
        let why = last.map(|why| format!("{why}\n")).unwrap_or_default();
        return Err(format!(
            "{why}there is no access log to replay\nhelp: --log FILE names one, --requests FILE a list of requests"
        ));
    }
    Ok((list, sources))
}

/// The format that `--log-format` names, or is.
fn named_format(format: &str, sites: &Sites) -> Option<LineFormat> {
    match sites.formats.get(format) {
        Some(known) => Some(known.clone()),
        None => {
            let escape = if format.starts_with('{') { Escape::Json } else { Escape::Default };
            format.contains('$').then(|| LineFormat::new(escape, format))
        }
    }
}

/// Opens a log or a list; `-` is standard input. Of a file that is very long the end is read.
///
/// # Errors
/// The error of open(2) or lseek(2).
fn open(path: &str) -> std::io::Result<Box<dyn BufRead>> {
    if path == "-" {
        return Ok(Box::new(std::io::stdin().lock()));
    }
    let mut file = File::open(path_of(path))?;
    let metadata = file.metadata()?;
    if metadata.is_dir() {
        return Err(std::io::Error::from_raw_os_error(rustix::io::Errno::ISDIR.raw_os_error()));
    }
    let is_long = metadata.is_file() && metadata.len() > MAX_LOG;
    if is_long {
        file.seek(SeekFrom::End(-(MAX_LOG as i64)))?;
    }
    let mut lines = BufReader::with_capacity(256 << 10, file);
    if is_long {
        // The rest of the line in which the end begins; a line has a bound wherever it is read.
        let mut rest = Vec::new();
        lines.by_ref().take(1 << 20).read_until(b'\n', &mut rest)?;
    }
    Ok(Box::new(lines))
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
    for listener in sites.listeners.iter_mut().filter(|listener| listener.is_tls == is_tls) {
        listener.nginx = SocketAddr::new(ip, port.unwrap_or(listener.written.port()));
    }
    Ok(())
}
