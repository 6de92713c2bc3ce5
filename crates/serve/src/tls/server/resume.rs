//! Resumption of the sessions of a server.

use std::time::Duration;

use freerun_conf::{Cx, Problem};
use freerun_runtime::log::clock;
use freerun_tls::session::{SessionCache, SessionSettings, SessionStore, TicketFigures, TicketKeys};

use super::ServerSpec;
use crate::configuration::zones::ZoneTable;
use crate::tls::files::Secret;
use crate::tls::objects::read;
use crate::tls::values::{FileName, OwnCache, SessionTickets, SharedTickets, with_arrived};
use crate::tls::words::{problem, unreadable};

/// Store and keys that the directives about sessions name. Files of `ssl_session_ticket_key` are read even where there
/// are no tickets. The store of the running configuration is kept over a reload.
pub(super) struct ResumptionFiles {
    cache: SessionCache,
    file_keys: Option<TicketKeys>,
}

/// Finds what the directives about sessions name.
pub(super) fn named(spec: &ServerSpec, cx: &mut Cx) -> Result<ResumptionFiles, Problem> {
    let cache = match spec.cache.place() {
        Ok(store) => SessionCache::Kept(store.clone()),
        Err(OwnCache::Off) => SessionCache::Off,
        Err(OwnCache::None) => SessionCache::None,
        Err(OwnCache::Builtin(size)) => {
            let zones = cx.extensions.get_or_default::<ZoneTable>();
            let name = format!("builtin {size}");
            let arrived = zones.arrived(&name);
            let store = zones.keep(&name, || with_arrived(SessionStore::for_sessions(size), arrived));
            zones.carry(&name, &store, |store| Some(store.save()));
            SessionCache::Kept((*store).clone())
        }
    };
    let file_keys = if spec.ticket_keys.is_empty() { None } else { Some(ticket_keys(&spec.ticket_keys, cx)?) };
    Ok(ResumptionFiles { cache, file_keys })
}

/// Settings for resuming sessions, with tickets or without. Keys that no file has are kept over a reload.
pub(super) fn sessions(
    named: ResumptionFiles,
    tickets: SessionTickets,
    timeout: Duration,
    cx: &mut Cx,
) -> SessionSettings {
    let ResumptionFiles { cache, file_keys } = named;
    let period = timeout.max(Duration::from_secs(1));
    let tickets = match (tickets, file_keys) {
        (SessionTickets::Off, _) => None,
        (_, Some(keys)) => Some(keys),
        (SessionTickets::Shared, None) => shared_keys(period, cx),
        (SessionTickets::On, None) => {
            let zones = cx.extensions.get_or_default::<ZoneTable>();
            let now = clock::since_1970();
            let key = format!("tickets {}", period.as_secs());
            let arrived = zones.arrived(&key);
            let restored = || arrived.and_then(|saved| TicketKeys::restored(period, &saved));
            let keys = zones.keep(&key, || restored().or_else(|| TicketKeys::random(period, now).ok()));
            zones.carry(&key, &keys, |keys| keys.as_ref()?.save());
            (*keys).clone()
        }
    };
    // The counts go on over a reload, and all servers have the same.
    let figures = cx.extensions.get_or_default::<ZoneTable>().keep("tickets", TicketFigures::default);
    SessionSettings { cache, tickets, timeout, figures }
}

/// The interval in which a machine asks the engine for new keys of a period.
pub fn poll_interval(period: Duration) -> Duration {
    (period / 10).clamp(Duration::from_secs(1), LONGEST_POLL)
}

/// The longest interval between two questions for new keys.
const LONGEST_POLL: Duration = Duration::from_secs(60);

/// Keys that several machines share. They are kept over a reload; another process gets them from the engine.
fn shared_keys(period: Duration, cx: &mut Cx) -> Option<TicketKeys> {
    let zones = cx.extensions.get_or_default::<ZoneTable>();
    let (now, settling) = (clock::since_1970(), 2 * poll_interval(period));
    let name = format!("shared tickets {}", period.as_secs());
    let keys = zones.keep(&name, || TicketKeys::shared(period, settling, now).ok());
    let keys = (*keys).clone()?;
    cx.extensions.get_or_default::<SharedTickets>().0.insert(period.as_secs(), keys.clone());
    Some(keys)
}

fn ticket_keys(files: &[FileName], cx: &mut Cx) -> Result<TicketKeys, Problem> {
    let mut contents = Vec::new();
    for file in files {
        let path = &file.path;
        let secret = read(file, cx);
        let secret =
            secret.map_err(|error| file.spot.shown(unreadable(&format!("open() \"{path}\" failed"), &error)))?;
        if !matches!(secret.bytes().len(), 48 | 80) {
            return Err(file.spot.shown(Problem::new(format!("\"{path}\" must be 48 or 80 bytes"))));
        }
        contents.push(secret);
    }
    let bytes: Vec<&[u8]> = contents.iter().map(Secret::bytes).collect();
    TicketKeys::from_files(&bytes).map_err(problem)
}
