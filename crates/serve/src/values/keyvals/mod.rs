//! Key-value pairs that are changed while the server runs (`keyval`, `keyval_zone`): variables look values up in them.

mod directives;
mod keys;
mod store;

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use freerun_conf::{Cx, path_of};
use freerun_runtime::log::{Errno, ErrorLog, Level};

use crate::configuration::parts::Parts;
use crate::configuration::state_file::StateFile;

pub use directives::{KeyvalVariables, KeyvalZones};
pub use keys::KeyvalType;
pub use store::{Keyvals, New, PairChange, PairRefusal};

/// A zone as a configuration defines it.
#[derive(Debug, Clone)]
pub struct KeyvalZone {
    /// The pairs.
    pub pairs: Arc<Keyvals>,
    /// The lifetime of a pair that has none of its own; `None`: for ever, and no pair has one.
    pub timeout: Option<Duration>,
    /// The file that keeps the pairs.
    pub state: Option<Arc<StateFile>>,
    /// The way in which other nodes have the same pairs; `None`: they have not.
    pub sync: Option<PairSync>,
}

/// The way in which the nodes of a cluster share the pairs of a zone (`sync`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PairSync {
    /// The answer to changes while the engine is away.
    pub alone: PairsAlone,
}

/// The answer to changes of shared pairs while the engine is away (`alone=`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum PairsAlone {
    /// `refuse`: they are refused, so that no node has what others do not have.
    #[default]
    Refuse,
    /// `local`: they are made here, and told to others when the engine is there again.
    Local,
}

impl PairsAlone {
    /// All rules, by their names.
    pub const ALL: [(&'static str, PairsAlone); 2] = [("refuse", PairsAlone::Refuse), ("local", PairsAlone::Local)];
}

/// Zones by their names.
pub type KeyvalsByName = BTreeMap<Arc<str>, KeyvalZone>;

/// The zones of a configuration. It lives in its context, and is a part of its generation then.
#[derive(Debug, Clone, Default)]
pub struct AllKeyvals {
    /// Zones of `http`.
    pub http: KeyvalsByName,
    /// Zones of `stream`.
    pub stream: KeyvalsByName,
}

/// Gives the generation the zones that have been read so far. Each protocol calls this when all of its configuration has been
/// read; after the last one the generation has the zones of all.
pub fn finish(cx: &mut Cx) {
    let all = cx.extensions.get_or_default::<AllKeyvals>().clone();
    cx.extensions.get_or_default::<Parts>().insert(Arc::new(all));
}

/// Reads the state files of zones that are new. It waits for the disk, so only the control thread calls it.
pub fn load(zones: &KeyvalsByName, log: &ErrorLog) {
    for (name, zone) in zones {
        let Some(state) = zone.state.as_ref().filter(|_| zone.pairs.begin_loading()) else { continue };
        let path = state.path();
        match fs::read(path_of(path)) {
            Ok(saved) => match zone.pairs.restore(&saved) {
                Some(0) => {}
                Some(left_out) => {
                    let message =
                        format_args!("{left_out} pairs in \"{path}\" have no place in keyval zone \"{name}\"");
                    log.write(Level::Warn, None, message);
                }
                None => {
                    state.note_unused();
                    log.write(Level::Error, None, format_args!("\"{path}\" is no state of a keyval zone"));
                }
            },
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => {
                state.note_unused();
                log.write(Level::Error, None, format_args!("open() \"{path}\" failed ({})", Errno(&error)));
            }
        }
    }
}
