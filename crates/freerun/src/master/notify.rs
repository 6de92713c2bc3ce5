//! Messages to the service manager (sd_notify(3)): the server serves, reloads, ends, lives, and which process it is.
//!
//! The few lines are here and not in a crate because `sd-notify` (0.5) knows no abstract sockets, and waits when the service
//! manager does not read.

use std::env;
use std::ffi::OsStr;
use std::io;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

/// The variables of the service manager. A new binary gets the first and the last one, too.
pub const SOCKET: &str = "NOTIFY_SOCKET";
const WATCHDOG_PID: &str = "WATCHDOG_PID";
pub const WATCHDOG: &str = "WATCHDOG_USEC";

/// Number of looks at the loops in the time after which the service manager takes the server for dead. A look shows
/// what happened before it, so it takes two to see that a loop stands still.
const LOOKS: u32 = 4;

/// The longest piece of the master's work during which it says to the service manager that the server lives. A name
/// whose name servers are silent takes the system half a minute and more, and a configuration may have many such names;
/// work that takes longer than this hangs.
const LONGEST_WORK: Duration = Duration::from_secs(600);

/// The message that the server lives.
const ALIVE: &str = "WATCHDOG=1\n";

/// The service manager, if there is one. Messages that it does not take are lost: nothing here waits.
#[derive(Default)]
pub struct ServiceManager {
    socket: Option<(UnixDatagram, SocketAddr)>,
    watchdog: Option<Watchdog>,
}

struct Watchdog {
    every: Duration,
    next: Instant,
}

impl ServiceManager {
    /// The service manager that the environment names.
    pub fn of_environment() -> ServiceManager {
        let Some(path) = env::var_os(SOCKET) else { return ServiceManager::default() };
        let socket = address(&path).and_then(|address| {
            let socket = UnixDatagram::unbound()?;
            socket.set_nonblocking(true)?;
            Ok((socket, address))
        });
        let number = |name| env::var(name).ok()?.parse::<u64>().ok();
        let watchdog = watchdog(number(WATCHDOG), number(WATCHDOG_PID));
        let watchdog = watchdog.map(|every| Watchdog { every, next: Instant::now() });
        // A service manager that cannot be reached counts as none: the server serves.
        match socket {
            Ok(socket) => ServiceManager { socket: Some(socket), watchdog },
            Err(_) => ServiceManager::default(),
        }
    }

    fn tell(&self, message: &str) {
        if let Some((socket, address)) = &self.socket {
            // The service manager may be gone, or have much to read.
            let _ = socket.send_to_addr(message.as_bytes(), address);
        }
    }

    /// The server serves, by the configuration of this number, or a reload has ended.
    pub fn ready(&self, number: u64) {
        self.tell(&format!("READY=1\nSTATUS=configuration {number} is in use\n"));
    }

    /// A reload has ended without a new configuration.
    pub fn refused(&self, number: u64) {
        self.tell(&format!("READY=1\nSTATUS=a configuration was refused, {number} is in use\n"));
    }

    /// A reload begins.
    pub fn reloading(&self) {
        let now = clock_gettime(ClockId::Monotonic);
        let microseconds = i128::from(now.tv_sec) * 1_000_000 + i128::from(now.tv_nsec) / 1000;
        self.tell(&format!("RELOADING=1\nMONOTONIC_USEC={microseconds}\nSTATUS=reading the configuration\n"));
    }

    /// The server ends.
    pub fn stopping(&self) {
        self.tell("STOPPING=1\nSTATUS=shutting down\n");
    }

    /// Another process is the server's main one from now on.
    pub fn main_process(&self, pid: u32) {
        self.tell(&format!("MAINPID={pid}\n"));
    }

    /// The server lives.
    pub fn alive(&self) {
        self.tell(ALIVE);
    }

    /// Says that the server lives until the returned value is dropped, from a thread. It is for work that keeps the
    /// master from looking at the loops, because it waits for names or for a disk. `None` if nobody wants to know, or
    /// there can be no thread.
    pub fn while_working(&self) -> Option<WatchdogThread> {
        let (Some((socket, address)), Some(watchdog)) = (&self.socket, &self.watchdog) else { return None };
        let (socket, address, every) = (socket.try_clone().ok()?, address.clone(), watchdog.every);
        let (end, ended) = mpsc::channel();
        let end_of_patience = Instant::now() + LONGEST_WORK;
        let tell = move || {
            while Instant::now() < end_of_patience && ended.recv_timeout(every) == Err(RecvTimeoutError::Timeout) {
                let _ = socket.send_to_addr(ALIVE.as_bytes(), &address);
            }
        };
        let thread = thread::Builder::new().name("watchdog".to_owned()).spawn(tell).ok()?;
        Some(WatchdogThread { end: Some(end), thread: Some(thread) })
    }

    /// The time of the next look at the loops for [`ServiceManager::alive`].
    pub fn next_look(&self) -> Option<Instant> {
        self.watchdog.as_ref().map(|watchdog| watchdog.next)
    }

    /// Whether the loops have to be looked at now. The next look follows after a while.
    pub fn has_to_look(&mut self, now: Instant) -> bool {
        let Some(watchdog) = self.watchdog.as_mut().filter(|watchdog| watchdog.next <= now) else { return false };
        watchdog.next = now + watchdog.every;
        true
    }
}

/// A thread that says to the service manager during the master's work that the server lives; see
/// [`ServiceManager::while_working`].
pub struct WatchdogThread {
    /// The thread ends when this is gone.
    end: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for WatchdogThread {
    fn drop(&mut self) {
        self.end.take();
        // It is woken at once, and waits for nothing else.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

/// The address of `NOTIFY_SOCKET`: a path, or with `@` in front a name of the abstract namespace.
fn address(name: &OsStr) -> io::Result<SocketAddr> {
    match name.as_bytes() {
        [b'@', name @ ..] => SocketAddr::from_abstract_name(name),
        [b'/', ..] => SocketAddr::from_pathname(name),
        _ => Err(io::ErrorKind::Unsupported.into()),
    }
}

/// The time between two looks, if the service manager wants to be told that this process lives (sd_watchdog_enabled(3)).
fn watchdog(microseconds: Option<u64>, pid: Option<u64>) -> Option<Duration> {
    let time = Duration::from_micros(microseconds.filter(|time| *time > 0)?);
    pid.is_none_or(|pid| pid == u64::from(std::process::id())).then_some(time / LOOKS)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn receive(socket: &UnixDatagram) -> String {
        let mut message = [0; 256];
        let length = socket.recv(&mut message).unwrap();
        String::from_utf8_lossy(&message[..length]).into_owned()
    }

    fn manager(address: SocketAddr) -> ServiceManager {
        let socket = UnixDatagram::unbound().unwrap();
        socket.set_nonblocking(true).unwrap();
        ServiceManager { socket: Some((socket, address)), watchdog: None }
    }

    #[test]
    fn messages_arrive_at_both_kinds_of_names_and_a_full_queue_is_not_waited_for() {
        let name = format!("freerun-notify-{}", std::process::id());
        let hidden = UnixDatagram::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap();
        let told = manager(address(OsStr::new(&format!("@{name}"))).unwrap());
        told.ready(3);
        assert_eq!(receive(&hidden), "READY=1\nSTATUS=configuration 3 is in use\n");
        told.reloading();
        let reloading = receive(&hidden);
        assert!(reloading.starts_with("RELOADING=1\nMONOTONIC_USEC="), "{reloading}");
        for _ in 0..10_000 {
            told.alive();
        }
        assert_eq!(receive(&hidden), "WATCHDOG=1\n");

        let path = std::env::temp_dir().join(&name);
        let _ = std::fs::remove_file(&path);
        let visible = UnixDatagram::bind(&path).unwrap();
        manager(address(path.as_os_str()).unwrap()).main_process(7);
        assert_eq!(receive(&visible), "MAINPID=7\n");
        std::fs::remove_file(&path).unwrap();
        assert!(address(OsStr::new("vsock:2:1234")).is_err());
        ServiceManager::default().stopping();
    }

    #[test]
    fn long_work_is_told_of_until_it_ends() {
        let name = format!("freerun-working-{}", std::process::id());
        let at = SocketAddr::from_abstract_name(&name).unwrap();
        let theirs = UnixDatagram::bind_addr(&at).unwrap();
        let mut told = manager(at);
        assert!(told.while_working().is_none(), "nobody wants to know");
        let every = Duration::from_millis(1);
        told.watchdog = Some(Watchdog { every, next: Instant::now() });
        let working = told.while_working().unwrap();
        for _ in 0..3 {
            assert_eq!(receive(&theirs), ALIVE);
        }
        drop(working);
        theirs.set_nonblocking(true).unwrap();
        while theirs.recv(&mut [0; 16]).is_ok() {}
        // The thread has ended, so nothing can come any more.
        assert!(theirs.recv(&mut [0; 16]).is_err());
    }

    #[test]
    fn the_watchdog_is_for_this_process() {
        let own = u64::from(std::process::id());
        assert_eq!(watchdog(Some(4_000_000), None), Some(Duration::from_secs(1)));
        assert_eq!(watchdog(Some(4_000_000), Some(own)), Some(Duration::from_secs(1)));
        assert_eq!(watchdog(Some(4_000_000), Some(own + 1)), None);
        assert_eq!((watchdog(Some(0), None), watchdog(None, None)), (None, None));
    }

    #[test]
    fn looks_come_one_at_a_time() {
        let now = Instant::now();
        let every = Duration::from_secs(1);
        let mut manager = ServiceManager { socket: None, watchdog: Some(Watchdog { every, next: now }) };
        assert!(manager.has_to_look(now));
        assert!(!manager.has_to_look(now));
        assert_eq!(manager.next_look(), Some(now + every));
        assert!(manager.has_to_look(now + every));
        assert!(!ServiceManager::default().has_to_look(now));
    }
}
