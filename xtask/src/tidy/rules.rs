//! Calls that may wait, by name: the table behind the `blocking` check.
//!
//! The check works on names, so it finds calls, not every possible wait: a method of a trait on a blocking `File`
//! (`file.read(…)`) looks like any other `read`. That is why the ways to *get* such a file are listed instead.

/// A sort of waiting; the word stands in `xtask/tidy.toml`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Sort {
    /// A call that may wait for a disk.
    Files,
    /// The terminal or a pipe that nobody reads.
    Console,
    /// Name lookup through the C library.
    Names,
    /// Other processes.
    Process,
    /// Sleeping, and waiting for other threads.
    Sleep,
    /// Connecting and polling on blocking sockets.
    Connect,
    /// Calls of sockets and of inotify that walk a path, which is looked up on a disk even if the socket does not block.
    Paths,
    /// Locks and channels that block the thread.
    Locks,
    /// Making threads; only loops and pools have them.
    Threads,
    /// Reading the clock, in crates that must not have one.
    Clock,
}

impl Sort {
    /// Every sort.
    pub(crate) const ALL: [Self; 10] = [
        Self::Files,
        Self::Console,
        Self::Names,
        Self::Process,
        Self::Sleep,
        Self::Connect,
        Self::Paths,
        Self::Locks,
        Self::Threads,
        Self::Clock,
    ];

    /// The word for it in `xtask/tidy.toml`.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Files => "files",
            Self::Console => "console",
            Self::Names => "names",
            Self::Process => "process",
            Self::Sleep => "sleep",
            Self::Connect => "connect",
            Self::Paths => "paths",
            Self::Locks => "locks",
            Self::Threads => "threads",
            Self::Clock => "clock",
        }
    }

    /// The reason that it is not allowed, after the name of the call.
    pub(crate) fn why(self) -> &'static str {
        match self {
            Self::Files => "may wait for a disk",
            Self::Console => "may wait for a terminal or a full pipe",
            Self::Names => "may wait for name servers",
            Self::Process => "waits for, or copies, a process",
            Self::Sleep => "stops the thread",
            Self::Connect => "may wait for a peer",
            Self::Paths => "may wait for the disk of a socket's folder",
            Self::Locks => "may wait for another thread",
            Self::Threads => "makes or occupies a thread",
            Self::Clock => "reads the clock in a crate that has none",
        }
    }

    /// The remedy.
    pub(crate) fn remedy(self) -> &'static str {
        match self {
            Self::Files => "use the file operations of freerun_runtime (probe first, then a thread pool)",
            Self::Console => "write through the log of freerun_runtime",
            Self::Names => "resolve names before the loops run, or with an asynchronous resolver",
            Self::Process => "start processes in the master only",
            Self::Sleep => "use a timer of the loop, or wait in a thread pool",
            Self::Connect => "use the sockets of freerun_runtime",
            Self::Paths => "use SocketPaths of freerun_runtime (probe first, then a thread pool)",
            Self::Locks => "use atomics, arc-swap, data of one loop, or a channel of tokio",
            Self::Threads => "hand the work to a loop or a thread pool of freerun_runtime",
            Self::Clock => "take the time as an argument",
        }
    }
}

/// The name that a rule looks for.
#[derive(Debug, Clone, Copy)]
pub(crate) enum NamePattern {
    /// A path and everything below it.
    Below(&'static str),
    /// The free functions of a module (names in lower case), except those listed.
    Functions(&'static str, &'static [&'static str]),
    /// Some functions of a type or module.
    Some(&'static str, &'static [&'static str]),
    /// A method call on anything.
    Method(&'static str),
    /// A method call with no argument.
    BareMethod(&'static str),
    /// A method call on anything, in files that import from `std::path`.
    PathMethod(&'static str),
    /// A macro.
    Macro(&'static str),
}

/// The rules. A method is listed where its name alone is telling.
pub(crate) const RULES: &[(Sort, NamePattern)] = &[
    (Sort::Files, NamePattern::Functions("std::fs", &[])),
    (Sort::Files, NamePattern::Some("std::fs::File", &["open", "create", "create_new", "options"])),
    (Sort::Files, NamePattern::Below("std::fs::OpenOptions")),
    (Sort::Files, NamePattern::Below("std::fs::DirBuilder")),
    (Sort::Files, NamePattern::Below("std::fs::ReadDir")),
    (Sort::Files, NamePattern::Below("std::fs::*")),
    (Sort::Files, NamePattern::Functions("std::os::unix::fs", &[])),
    (Sort::Files, NamePattern::Below("std::os::unix::fs::FileExt")),
    (
        Sort::Files,
        NamePattern::Functions(
            "rustix::fs",
            &["memfd_create", "fcntl_getfl", "fcntl_setfl", "major", "minor", "makedev"],
        ),
    ),
    (Sort::Files, NamePattern::Below("rustix::fs::*")),
    (Sort::Files, NamePattern::Some("rustix::io", &["pread", "preadv", "preadv2", "pwrite", "pwritev", "pwritev2"])),
    (Sort::Files, NamePattern::Below("tokio::fs")),
    (Sort::Files, NamePattern::Below("glob::glob")),
    (Sort::Files, NamePattern::Below("glob::glob_with")),
    (Sort::Files, NamePattern::Method("canonicalize")),
    (Sort::Files, NamePattern::Method("read_dir")),
    (Sort::Files, NamePattern::Method("read_link")),
    (Sort::Files, NamePattern::Method("symlink_metadata")),
    (Sort::Files, NamePattern::Method("try_exists")),
    (Sort::Files, NamePattern::PathMethod("exists")),
    (Sort::Files, NamePattern::PathMethod("is_dir")),
    (Sort::Files, NamePattern::PathMethod("is_file")),
    (Sort::Files, NamePattern::PathMethod("metadata")),
    (Sort::Console, NamePattern::Some("std::io", &["stdin", "stdout", "stderr"])),
    (Sort::Console, NamePattern::Macro("print")),
    (Sort::Console, NamePattern::Macro("println")),
    (Sort::Console, NamePattern::Macro("eprint")),
    (Sort::Console, NamePattern::Macro("eprintln")),
    (Sort::Names, NamePattern::Below("std::net::ToSocketAddrs")),
    (Sort::Names, NamePattern::Method("to_socket_addrs")),
    (Sort::Names, NamePattern::Below("tokio::net::lookup_host")),
    (Sort::Process, NamePattern::Below("std::process::Command")),
    (Sort::Process, NamePattern::Below("tokio::process")),
    (Sort::Process, NamePattern::Some("rustix::process", &["wait", "waitpid", "waitid", "waitpgid"])),
    (Sort::Sleep, NamePattern::Some("std::thread", &["sleep", "sleep_ms", "sleep_until", "park", "park_timeout"])),
    (Sort::Sleep, NamePattern::Below("rustix::thread::nanosleep")),
    (Sort::Sleep, NamePattern::Below("rustix::thread::clock_nanosleep")),
    (Sort::Sleep, NamePattern::Below("rustix::thread::futex::wait")),
    (Sort::Sleep, NamePattern::Below("rustix::event::pause")),
    (Sort::Sleep, NamePattern::BareMethod("join")),
    (Sort::Connect, NamePattern::Some("std::net::TcpStream", &["connect", "connect_timeout"])),
    (Sort::Connect, NamePattern::Some("std::os::unix::net::UnixStream", &["connect", "connect_addr"])),
    (Sort::Connect, NamePattern::Some("rustix::event", &["poll", "select"])),
    (Sort::Connect, NamePattern::Below("rustix::event::epoll::wait")),
    (Sort::Paths, NamePattern::Some("rustix::net::SocketAddrUnix", &["new"])),
    (Sort::Paths, NamePattern::Some("socket2::SockAddr", &["unix"])),
    (Sort::Paths, NamePattern::Some("std::os::unix::net::SocketAddr", &["from_pathname"])),
    (Sort::Paths, NamePattern::Some("std::os::unix::net::UnixListener", &["bind", "bind_addr"])),
    (Sort::Paths, NamePattern::Some("std::os::unix::net::UnixDatagram", &["bind", "bind_addr"])),
    (Sort::Paths, NamePattern::Some("tokio::net::UnixStream", &["connect"])),
    (Sort::Paths, NamePattern::Some("tokio::net::UnixListener", &["bind"])),
    (Sort::Paths, NamePattern::Some("tokio::net::UnixDatagram", &["bind"])),
    (Sort::Paths, NamePattern::Below("rustix::fs::inotify::add_watch")),
    (Sort::Paths, NamePattern::Below("rustix::thread::chdir")),
    (Sort::Paths, NamePattern::Some("rustix::process", &["chdir", "chroot"])),
    (Sort::Paths, NamePattern::Some("std::env", &["set_current_dir", "current_exe"])),
    (Sort::Locks, NamePattern::Below("std::sync::Mutex")),
    (Sort::Locks, NamePattern::Below("std::sync::RwLock")),
    (Sort::Locks, NamePattern::Below("std::sync::Condvar")),
    (Sort::Locks, NamePattern::Below("std::sync::Barrier")),
    (Sort::Locks, NamePattern::Below("std::sync::mpsc")),
    (Sort::Locks, NamePattern::Below("std::sync::*")),
    (Sort::Locks, NamePattern::Below("parking_lot")),
    (Sort::Locks, NamePattern::Method("blocking_lock")),
    (Sort::Locks, NamePattern::Method("blocking_recv")),
    (Sort::Locks, NamePattern::Method("blocking_send")),
    (Sort::Threads, NamePattern::Some("std::thread", &["spawn", "scope"])),
    (Sort::Threads, NamePattern::Below("std::thread::Builder")),
    (Sort::Threads, NamePattern::Some("tokio::task", &["spawn_blocking", "block_in_place"])),
    (Sort::Threads, NamePattern::Method("spawn_blocking")),
    (Sort::Threads, NamePattern::Method("block_on")),
    (Sort::Clock, NamePattern::Below("std::time::Instant::now")),
    (Sort::Clock, NamePattern::Below("std::time::SystemTime::now")),
];

/// The folders where reading the clock is forbidden: protocol code and the language take the time as an argument.
pub(crate) const CLOCKLESS: &[&str] = &["crates/proto/", "crates/conf/"];
