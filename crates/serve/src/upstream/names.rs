//! Servers that are written as names: looked up outside of the loops, when a configuration is installed and whenever an
//! answer expires.

use std::net::SocketAddr;
use std::sync::mpsc::Sender;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use freerun_conf::{Place, Problem};
use freerun_runtime::log::{ErrorLog, Level};
use freerun_upstream::place::{HostName, ServerPlace as Where};
use freerun_upstream::resolve::{MAX_ADDRESSES, ResolveError, report, system, thread};

use super::SubjectProtocol;
use super::entries::EntryName;
use super::group::Upstream;
use super::known_addresses::{KnownAddress, KnownAddresses, ServiceHosts};
use super::registry::Upstreams;
use super::server::ServerSetting;
use crate::configuration::generation::Generation;
use crate::loops::shared::SharedState;
use crate::upstream::resolver::NamedServers;

/// Time for which a configuration waits for names without known addresses, before it is installed without them.
const PATIENCE: Duration = Duration::from_secs(1);

/// The pause before a name that did not resolve is tried again. It doubles each time.
const FIRST_PAUSE: Duration = Duration::from_secs(1);

/// The longest pause, and the longest with `resolve`, where it decides how soon a name server that works again is
/// noticed.
const PAUSES: [Duration; 2] = [Duration::from_secs(60), Duration::from_secs(5)];

/// The longest sleep in one piece, so that the task of a name that the group does not have any more ends soon.
const STEP: Duration = Duration::from_secs(10);

/// The most addresses that all services of one name have together: each is a server of its own.
const MAX_SERVICE_ADDRESSES: usize = 1024;

const _: () = assert!(MAX_ADDRESSES <= MAX_SERVICE_ADDRESSES, "a service may have all addresses of a name");
const _: () =
    assert!(FIRST_PAUSE.as_secs() < PAUSES[1].as_secs() && PAUSES[1].as_secs() < PAUSES[0].as_secs(), "pauses grow");

/// Looks up the names in the generation's groups before it takes subjects: what the module with the groups prepares.
pub fn prepare<P: SubjectProtocol>(generation: &Arc<Generation>, _: &Arc<SharedState>) {
    report::report_to(generation.error_log.clone());
    if let Some(upstreams) = generation.parts.get::<Upstreams<P>>() {
        look_up_all(&upstreams, &generation.error_log);
    }
}

/// Looks up the names of the groups, and waits a bounded time for names without known addresses.
pub fn look_up_all<P: SubjectProtocol>(upstreams: &Upstreams<P>, log: &ErrorLog) {
    let (sender, tried) = std::sync::mpsc::channel();
    let mut awaited = 0;
    for upstream in upstreams.all() {
        for (name, _) in upstream.named() {
            let first = name.known.targets().is_none().then(|| sender.clone());
            let is_awaited = first.is_some();
            if !look_up_one(upstream, name, log, first) {
                return;
            }
            awaited += usize::from(is_awaited);
        }
    }
    let deadline = Instant::now() + PATIENCE;
    for _ in 0..awaited {
        if tried.recv_timeout(deadline.saturating_duration_since(Instant::now())).is_err() {
            return;
        }
    }
}

/// Has a server's name looked up, and again whenever the answer expires. Returns whether that is possible.
pub(super) fn look_up_one<P: SubjectProtocol>(
    upstream: &Arc<Upstream<P>>,
    name: EntryName,
    log: &ErrorLog,
    first: Option<Sender<()>>,
) -> bool {
    let (upstream, told) = (Arc::downgrade(upstream), log.clone());
    let watched = thread::run(move || {
        tokio::task::spawn_local(watch(upstream, name, told, first));
    });
    if let Err(error) = &watched {
        log.write(Level::Alert, None, format_args!("names of servers cannot be looked up: {error}"));
    }
    watched.is_ok()
}

/// A name in the configuration that the system has to know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SystemName {
    host: Box<str>,
    /// The problem if the system does not know the name, in nginx's words.
    problem: String,
    written: Place,
    /// A group with a similar name, which may be meant.
    near: Option<Box<str>>,
}

impl SystemName {
    /// The name.
    pub fn host(&self) -> &str {
        &self.host
    }

    fn new(host: &str, of: &str, text: &str, written: Place) -> SystemName {
        SystemName { host: host.into(), problem: format!("host not found in {of} \"{text}\""), written, near: None }
    }
}

/// The names of a protocol's servers that are looked up in the system.
pub fn system_names<P: SubjectProtocol>(upstreams: &Upstreams<P>) -> Vec<SystemName> {
    let servers =
        upstreams.all().flat_map(|upstream| upstream.named().into_iter().map(move |(_, server)| (upstream, server)));
    let names = servers.filter(|(_, server)| !server.resolve).filter_map(|(upstream, server)| {
        let Where::Name(name) = &server.place else { return None };
        // A group often has the name of its only server: it is not meant by itself.
        let others = upstreams.all().filter(|group| group.declared && group.name() != upstream.name());
        let groups = others.map(|group| &**group.name());
        let near = freerun_conf::near(&name.host, groups).map(Box::from);
        Some(SystemName { near, ..SystemName::new(&name.host, "upstream", &server.text, server.written) })
    });
    names.collect()
}

/// The names of name servers, which are looked up in the system.
pub fn name_servers(servers: &NamedServers) -> Vec<SystemName> {
    servers.0.iter().map(|server| SystemName::new(&server.host, "resolver", &server.text, server.written)).collect()
}

/// The names that the system does not know, as warnings with nginx's words at the places where they are written, for `-t`.
/// Waits a bounded time.
pub fn unknown(names: impl IntoIterator<Item = SystemName>) -> Vec<Problem> {
    unknown_to(names, PATIENCE, async |host: Box<str>| system::lookup(&host).await.is_ok_and(|found| !found.is_empty()))
}

/// The names for which `knows` says no within `patience`.
fn unknown_to<K: Future<Output = bool> + 'static>(
    names: impl IntoIterator<Item = SystemName>,
    patience: Duration,
    knows: impl Fn(Box<str>) -> K + Copy + Send + 'static,
) -> Vec<Problem> {
    let (sender, found) = std::sync::mpsc::channel();
    for SystemName { host, problem, written, near } in names {
        let hint = near.map(|near| format!("did you mean the upstream \"{near}\"?"));
        let problem = Problem::warning(problem).at(written).hint_if(hint);
        let sender = sender.clone();
        // If the thread cannot be started, nothing is known of the name.
        let _ = thread::run(move || {
            tokio::task::spawn_local(async move {
                // The receiver may have stopped waiting.
                let _ = sender.send((problem, knows(host).await));
            });
        });
    }
    // From here on the lookups have the only senders: when all have ended, there is nothing to wait for.
    drop(sender);
    let deadline = Instant::now() + patience;
    let mut unknown = Vec::new();
    while let Ok((problem, known)) = found.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
        if !known {
            unknown.push(problem);
        }
    }
    unknown
}

/// The reason that a server has no addresses.
enum LookupFailure {
    /// The system does not know the name.
    System,
    Resolver(String, ResolveError),
}

/// Looks a server's name up until it is found (or, with `resolve`, for ever), as long as the group has the server by
/// it.
async fn watch<P: SubjectProtocol>(
    upstream: Weak<Upstream<P>>,
    entry: EntryName,
    log: ErrorLog,
    mut first: Option<Sender<()>>,
) {
    let known = &entry.known;
    let mut pause = FIRST_PAUSE;
    let mut failing = false;
    loop {
        let Some(group) = upstream.upgrade() else { return };
        let Some(server) = group.server(&entry) else { return };
        let Where::Name(name) = &server.place else { return };
        let next = match look_up(&group, &server, name, known).await {
            Ok(LookupResult { targets, hosts, expires }) => {
                if std::mem::take(&mut failing) {
                    log.write(Level::Notice, None, format_args!("\"{}\" is resolved now", server.text));
                }
                known.set(targets, hosts);
                group.rebuild();
                pause = FIRST_PAUSE;
                // Answers with a TTL of zero (`valid=0`) would be asked for without a pause.
                expires.map(|expires| expires.max(Instant::now() + FIRST_PAUSE))
            }
            Err(failed) => {
                // A failing name server does not change the known addresses; an answer that the name does not exist does.
                let gone = matches!(failed, LookupFailure::Resolver(_, ResolveError::NotFound)) && known.forget();
                group.rebuild();
                if gone || !std::mem::replace(&mut failing, true) {
                    match failed {
                        LookupFailure::System => {
                            let text = &server.text;
                            log.write(Level::Error, None, format_args!("host not found in upstream \"{text}\""));
                        }
                        LookupFailure::Resolver(host, why) => {
                            log.write(Level::Error, None, format_args!("{host} could not be resolved ({why})"));
                        }
                    }
                }
                let until = Instant::now() + pause;
                pause = (pause * 2).min(PAUSES[usize::from(server.resolve)]);
                Some(until)
            }
        };
        drop(group);
        if let Some(first) = first.take() {
            // The receiver may have gone on without waiting.
            let _ = first.send(());
        }
        let Some(until) = next else { return };
        while Instant::now() < until {
            tokio::time::sleep(until.saturating_duration_since(Instant::now()).min(STEP)).await;
            if upstream.upgrade().is_none_or(|group| group.server(&entry).is_none()) {
                return;
            }
        }
    }
}

/// The result of looking up a server's name.
struct LookupResult {
    targets: Vec<KnownAddress>,
    hosts: ServiceHosts,
    /// The time until which it is valid; `None` if it is valid as long as the configuration.
    expires: Option<Instant>,
}

/// Looks up the addresses of a server. If the addresses of a host cannot be found now, the known ones are used.
async fn look_up<P: SubjectProtocol>(
    group: &Upstream<P>,
    server: &ServerSetting,
    name: &HostName,
    known: &KnownAddresses,
) -> Result<LookupResult, LookupFailure> {
    let target = |address, weight, later| KnownAddress { address, weight, later };
    let Some((resolver, timeout)) = group.resolver().filter(|_| server.resolve) else {
        let found = system::lookup(&name.host).await.map_err(|_| LookupFailure::System)?;
        if found.is_empty() {
            return Err(LookupFailure::System);
        }
        let targets = once(found.into_iter().map(|ip| target(SocketAddr::new(ip, name.port), 1, false)));
        return Ok(LookupResult { targets, hosts: ServiceHosts::new(), expires: None });
    };
    let Some(service) = &server.service else {
        let found = resolver.addresses(&name.host, timeout).await;
        let found = found.map_err(|why| LookupFailure::Resolver(name.host.to_string(), why))?;
        let targets = once(found.addresses.iter().map(|ip| target(SocketAddr::new(*ip, name.port), 1, false)));
        return Ok(LookupResult { targets, hosts: ServiceHosts::new(), expires: Some(found.expires) });
    };
    let found =
        resolver.services(service, timeout).await.map_err(|why| LookupFailure::Resolver(service.to_string(), why))?;
    let best = found.services.first().map(|service| service.priority);
    let before = known.hosts();
    let mut targets = Vec::new();
    let mut hosts = ServiceHosts::new();
    let mut expires = found.expires;
    let mut failed = None;
    for service in found.services.iter() {
        if targets.len() >= MAX_SERVICE_ADDRESSES {
            break;
        }
        let addresses = match resolver.addresses(&service.target, timeout).await {
            Ok(found) => {
                expires = expires.min(found.expires);
                Some(found.addresses)
            }
            Err(why) => {
                failed = Some(LookupFailure::Resolver(service.target.to_string(), why));
                before
                    .as_ref()
                    .filter(|_| why != ResolveError::NotFound)
                    .and_then(|before| before.get(&service.target).cloned())
            }
        };
        let Some(addresses) = addresses else { continue };
        let later = best.is_some_and(|best| service.priority > best);
        let weight = u32::from(service.weight).max(1);
        targets.extend(addresses.iter().map(|ip| target(SocketAddr::new(*ip, service.port), weight, later)));
        hosts.insert(service.target.clone(), addresses);
    }
    targets.truncate(MAX_SERVICE_ADDRESSES);
    let expires = match failed {
        Some(failed) if targets.is_empty() => return Err(failed),
        // Addresses that are missing, or may have changed, are asked for again soon.
        Some(_) => expires.min(Instant::now() + FIRST_PAUSE),
        None => expires,
    };
    Ok(LookupResult { targets, hosts, expires: Some(expires) })
}

/// Each of the addresses once. Services that are equal are servers of their own, as in nginx; addresses are not.
fn once(targets: impl Iterator<Item = KnownAddress>) -> Vec<KnownAddress> {
    let mut all: Vec<KnownAddress> = targets.collect();
    all.sort_unstable();
    all.dedup();
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_the_system_does_not_know_are_told() {
        let names = ["there.test", "nowhere.test"];
        let names = names.map(|host| SystemName::new(host, "upstream", &format!("{host}:7"), Place::NONE));
        let unknown = unknown_to(names, Duration::from_secs(60), async |host: Box<str>| &*host == "there.test");
        let messages: Vec<&str> = unknown.iter().map(|problem| problem.message.as_str()).collect();
        assert_eq!(messages, ["host not found in upstream \"nowhere.test:7\""]);
    }
}
