//! Sockets that a process inherits: from an old binary that it replaces (`NGINX`, the variable of nginx), or from a
//! service manager (`LISTEN_FDS`, sd_listen_fds(3)). The socket to the old binary's worker comes the same way.

use std::env;
use std::os::fd::OwnedFd;

use freerun_runtime::log::{Errno, Level};
use freerun_serve::listen::ListenKey;
use freerun_serve::tls::files::Secret;
use freerun_sys::inherited::take_socket;
use freerun_sys::signals::unblock_all;
use rustix::process::{Pid, getppid};

use super::listeners::{Listeners, Origin};
use super::quic_boxes::QuicBoxes;
use super::quic_secret;

/// The variable with the numbers of the sockets that an old binary hands to a new one, each with a `;` behind it. nginx has it,
/// so either of the two can take the other's place.
pub const SOCKETS: &str = "NGINX";

/// The variable with the number of a socket that leads to the old worker, where both binaries are freerun.
pub const HAND_OVER: &str = "FREERUN_HAND_OVER";

/// The variable with the numbers of [`SOCKETS`] that belong to the service manager.
pub const OF_MANAGER: &str = "FREERUN_LISTEN_FDS";

/// The variables of a service manager that hands over sockets.
const LISTEN_PID: &str = "LISTEN_PID";
const LISTEN_FDS: &str = "LISTEN_FDS";
const LISTEN_FDNAMES: &str = "LISTEN_FDNAMES";

/// The number of a service manager's first socket (`SD_LISTEN_FDS_START`).
const FIRST: i32 = 3;

/// The most sockets that are taken; the log names the next one, and the rest is left alone.
const MAX_SOCKETS: usize = 65_536;

/// Sockets and other descriptors that this process inherited.
#[derive(Default)]
pub struct InheritedSockets {
    /// The sockets by their addresses.
    pub listeners: Listeners,
    /// The process of the old binary, which has started this one.
    pub old_binary: Option<Pid>,
    /// The way to the old binary's worker.
    pub hand_over: Option<OwnedFd>,
    /// The old binary's secret for tokens of QUIC.
    pub quic_secret: Option<Secret>,
    /// The message boxes of the old binary's workers.
    pub quic_boxes: Option<QuicBoxes>,
    /// The addresses of the service manager's sockets, with the names that it has for them.
    pub names: Vec<(ListenKey, String)>,
    /// The lines for the log, once there is one.
    pub told: Vec<(Level, String)>,
}

impl InheritedSockets {
    /// Takes what the environment names. To be called before this process opens anything.
    pub fn take() -> InheritedSockets {
        let mut inherited = InheritedSockets::default();
        let text = |name| env::var(name).ok();
        if let Some(sockets) = text(SOCKETS) {
            unblock_all();
            inherited.old_binary = getppid();
            inherited.told.push((Level::Notice, format!("using inherited sockets from \"{sockets}\"")));
            let (numbers, wrong) = numbers(&sockets);
            if let Some(wrong) = wrong {
                let told = format!("invalid socket number \"{wrong}\" in {SOCKETS} environment variable, ignoring");
                inherited.told.push((Level::Emerg, told + " the rest of the variable"));
            }
            let of_manager = text(OF_MANAGER).map(|text| self::numbers(&text).0).unwrap_or_default();
            for number in numbers {
                let origin = if of_manager.contains(&number) { Origin::Manager } else { Origin::OldBinary };
                inherited.socket(number, origin);
            }
            let hand_over = text(HAND_OVER).and_then(|number| number.parse().ok());
            inherited.hand_over = hand_over.and_then(|number| take_socket(number).ok());
            inherited.quic_secret = quic_secret::take();
            inherited.quic_boxes = QuicBoxes::take();
        } else if let Some(count) = for_this_process(text(LISTEN_PID).as_deref(), text(LISTEN_FDS).as_deref()) {
            let names = text(LISTEN_FDNAMES).unwrap_or_default();
            let mut names = names.split(':');
            for number in (FIRST..).take(count) {
                let key = inherited.socket(number, Origin::Manager);
                let name = names.next().unwrap_or_default();
                inherited.names.extend(key.map(|key| (key, name.to_owned())));
            }
            let names: Vec<String> = inherited.names.iter().map(|(key, _)| key.to_string()).collect();
            let names = names.join(" ");
            inherited.told.push((Level::Notice, format!("using the service manager's sockets: {names}")));
        }
        inherited
    }

    fn socket(&mut self, number: i32, origin: Origin) -> Option<ListenKey> {
        match take_socket(number).and_then(|socket| self.listeners.inherit(socket, origin)) {
            Ok(key) => Some(key),
            Err(error) => {
                let what = Errno(&error);
                let told = format!("getsockname() of the inherited socket #{number} failed ({what})");
                self.told.push((Level::Crit, told));
                None
            }
        }
    }

    /// The lines about sockets of the service manager that no `listen` directive names: these are closed.
    pub fn unused<'a>(&'a self, used: &'a Listeners) -> impl Iterator<Item = String> + 'a {
        self.names.iter().filter(|(key, _)| !used.has(key)).map(|(key, name)| {
            let named = if name.is_empty() { String::new() } else { format!(" \"{name}\"") };
            format!("the service manager's socket{named} is not used: no \"listen\" directive names {key}")
        })
    }
}

/// The numbers of `NGINX`, and the first part of it that is none: what follows is not looked at.
pub(super) fn numbers(text: &str) -> (Vec<i32>, Option<String>) {
    let mut numbers = Vec::new();
    for part in text.split_inclusive([';', ':']) {
        let number = part.strip_suffix([';', ':']).filter(|part| part.bytes().all(|byte| byte.is_ascii_digit()));
        match number.and_then(|number| number.parse().ok()) {
            Some(number) if numbers.len() < MAX_SOCKETS => numbers.push(number),
            _ => return (numbers, Some(part.to_owned())),
        }
    }
    (numbers, None)
}

/// Number of sockets that the service manager has for this process.
fn for_this_process(pid: Option<&str>, count: Option<&str>) -> Option<usize> {
    let pid: u32 = pid?.parse().ok()?;
    let count: usize = count?.parse().ok()?;
    (pid == std::process::id() && count <= MAX_SOCKETS).then_some(count)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_variable_is_read_as_nginx_reads_it() {
        assert_eq!(numbers("5;6;"), (vec![5, 6], None));
        assert_eq!(numbers("5:77;"), (vec![5, 77], None));
        assert_eq!(numbers(""), (vec![], None));
        for (text, before, wrong) in [
            ("abc", vec![], "abc"),
            ("5;x;6;", vec![5], "x;"),
            ("5;6", vec![5], "6"),
            (";", vec![], ";"),
            ("-5;", vec![], "-5;"),
            ("+5;", vec![], "+5;"),
            ("99999999999;", vec![], "99999999999;"),
        ] {
            assert_eq!(numbers(text), (before, Some(wrong.to_owned())), "{text}");
        }
        let many = "7;".repeat(MAX_SOCKETS + 1);
        assert_eq!(numbers(&many).0.len(), MAX_SOCKETS);
    }

    #[test]
    fn sockets_for_another_process_are_left_alone() {
        let own = std::process::id().to_string();
        assert_eq!(for_this_process(Some(&own), Some("2")), Some(2));
        for (pid, count) in [
            (Some("1"), Some("2")),
            (None, Some("2")),
            (Some(own.as_str()), None),
            (Some(own.as_str()), Some("-1")),
            (Some(own.as_str()), Some("70000")),
        ] {
            assert_eq!(for_this_process(pid, count), None);
        }
    }
}
