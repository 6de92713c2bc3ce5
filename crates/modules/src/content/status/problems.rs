//! The problems that an operator should look at first, each as a sentence, found in the figures of one moment.

use super::acme::AcmeCertificate;
use super::caches::CacheFigures;
use super::figures::{Figures, Log, Mount, Pool};
use super::tls::LoadedCertificate;
use super::upstreams::{Upstream, UpstreamServer};
use crate::content::described::described;

/// The most problems that are told. With more, the last one says how many there are.
const MAX_PROBLEMS: usize = 100;

/// Microseconds without the end of any operation on a mount, from which on the mount is a problem.
const STUCK_US: u64 = 1_000_000;

/// Seconds before the end of a certificate in which that is a problem: a week. ACME renews earlier.
const CERTIFICATE_SECONDS: i64 = 7 * 86_400;

/// Seconds after a failure of the only server of a group in which that is a problem: such a server is never left out.
const RECENT_SECONDS: f64 = 10.0;

/// The share of a pool's queue in use from which on the pool is a problem, in per cent.
const FULL_PERCENT: usize = 80;

described! {
    /// Something that an operator should look at.
    #[schema = "Problem"]
    pub struct StatusProblem {
        /// The section of the page that has its details: `upstreams`, `pools`, `caches`, `tls` or `logs`.
        pub section: &'static str,
        /// The name of the group, mount, pool, cache, certificate or file.
        pub subject: String,
        /// The problem as a sentence without the name.
        pub text: String,
    }
}

/// Problems while they are collected.
#[derive(Default)]
struct FoundProblems(Vec<StatusProblem>);

impl FoundProblems {
    fn add(&mut self, section: &'static str, subject: &str, text: String) {
        self.0.push(StatusProblem { section, subject: subject.to_owned(), text });
    }

    /// The first ones; a last one counts the others.
    fn limited(mut self) -> Vec<StatusProblem> {
        if let Some(more) = self.0.len().checked_sub(MAX_PROBLEMS).filter(|more| *more > 0) {
            self.0.truncate(MAX_PROBLEMS);
            let section = self.0.last().map_or("upstreams", |last| last.section);
            self.add(section, "", format!("There are {more} more problems."));
        }
        self.0
    }
}

/// The problems that these figures show at a time in seconds since 1970; those that concern most requests first.
pub fn of(figures: &Figures, now: i64) -> Vec<StatusProblem> {
    let mut found = FoundProblems::default();
    for group in figures.upstreams.iter().chain(&figures.stream.upstreams) {
        upstream(group, &mut found);
    }
    figures.mounts.iter().for_each(|one| mount(one, &mut found));
    figures.pools.iter().for_each(|one| pool(one, &mut found));
    figures.caches.iter().for_each(|one| cache(one, &mut found));
    figures.tls.certificates.iter().for_each(|one| certificate(one, now, &mut found));
    figures.acme.iter().for_each(|one| ordered_certificate(one, &mut found));
    figures.logs.iter().for_each(|one| log(one, &mut found));
    for path in &figures.unsaved_states {
        found.add(
            "logs",
            path,
            "The state could not be written to this file. It is tried again each second.".to_owned(),
        );
    }
    found.limited()
}

/// A server that nobody has taken out takes no requests.
fn is_out(server: &UpstreamServer) -> bool {
    matches!(server.state, "unavail" | "unhealthy")
}

fn upstream(group: &Upstream, found: &mut FoundProblems) {
    let all = group.servers.len();
    let out = group.servers.iter().filter(|server| is_out(server)).count();
    let able = group.servers.iter().filter(|server| matches!(server.state, "up" | "checking")).count();
    if out > 0 && able == 0 {
        let text = if all == 1 {
            "The only server cannot be asked.".into()
        } else {
            format!("None of {all} servers can be asked.")
        };
        found.add("upstreams", &group.name, text);
    }
    for server in group.servers.iter().filter(|server| is_out(server)) {
        let share = if able > 0 { format!(" Requests go to {able} of {all} servers.") } else { String::new() };
        found.add("upstreams", &group.name, format!("{}{share}", reason(server)));
    }
    if let ([only], 0) = (&group.servers[..], out)
        && let Some(last) = only.last_failure.as_ref().filter(|last| last.seconds_ago < RECENT_SECONDS)
    {
        let text = format!("{}, the only server, has failed just now ({}).", only.address, last.kind);
        found.add("upstreams", &group.name, text);
    }
    for name in &group.unresolved {
        found.add("upstreams", &group.name, format!("The name {name} has no address."));
    }
    if group.waiting > 0 {
        found.add("upstreams", &group.name, format!("{} requests wait for a server.", group.waiting));
    }
}

/// The reason why a server takes no requests.
fn reason(server: &UpstreamServer) -> String {
    let (address, checks) = (&server.address, &server.checks);
    let last = server.last_failure.as_ref().map(|last| {
        let ago = duration(last.seconds_ago as i64);
        format!(" Its last failure ({}) was {ago} ago.", last.kind)
    });
    let last = last.unwrap_or_default();
    if server.state == "unhealthy" {
        format!("{address} fails its health checks ({} of {}).{last}", checks.failed, checks.done)
    } else {
        format!("{address} is left out after failures.{last}")
    }
}

fn mount(mount: &Mount, found: &mut FoundProblems) {
    if mount.stuck_us >= STUCK_US {
        let time = duration((mount.stuck_us / 1_000_000).cast_signed());
        found.add("pools", &mount.mount, format!("No operation on this mount has ended for {time}."));
    }
}

fn pool(pool: &Pool, found: &mut FoundProblems) {
    if pool.max_queue > 0 && pool.waiting.saturating_mul(100) / pool.max_queue >= FULL_PERCENT {
        let text = format!("{} tasks of at most {} wait for a thread.", pool.waiting, pool.max_queue);
        found.add("pools", &pool.name, text);
    }
}

fn cache(cache: &CacheFigures, found: &mut FoundProblems) {
    if cache.disk.health != "in" {
        let why = cache.disk.error.as_ref().map_or(cache.disk.health, |error| error);
        found.add("caches", &cache.name, format!("The cache is not used, because of its disk: {why}."));
    }
}

fn certificate(certificate: &LoadedCertificate, now: i64, found: &mut FoundProblems) {
    let left = certificate.expires.saturating_sub(now);
    if left >= CERTIFICATE_SECONDS {
        return;
    }
    let subject = certificate.names.first().unwrap_or(&certificate.subject);
    let time = duration(left.abs());
    let text = if left > 0 {
        format!("The certificate {} ends in {time}.", certificate.file)
    } else {
        format!("The certificate {} has ended {time} ago.", certificate.file)
    };
    found.add("tls", subject, text);
}

fn ordered_certificate(certificate: &AcmeCertificate, found: &mut FoundProblems) {
    if let Some(error) = &certificate.last_error {
        let names = certificate.names.join(", ");
        found.add("tls", &names, format!("Its certificate cannot be ordered: {error}"));
    }
}

fn log(log: &Log, found: &mut FoundProblems) {
    if log.held_up {
        found.add("logs", &log.name, format!("The file takes no lines; {} bytes wait.", log.waiting_bytes));
    }
}

/// A duration in the largest unit that it has two of.
fn duration(seconds: i64) -> String {
    match seconds {
        172_800.. => format!("{} d", seconds / 86_400),
        7_200.. => format!("{} h", seconds / 3_600),
        120.. => format!("{} min", seconds / 60),
        _ => format!("{seconds} s"),
    }
}
