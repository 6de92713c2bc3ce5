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
pub(crate) enum Name {
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
pub(crate) const RULES: &[(Sort, Name)] = &[
    (Sort::Files, Name::Functions("std::fs", &[])),
    (Sort::Files, Name::Some("std::fs::File", &["open", "create", "create_new", "options"])),
    (Sort::Files, Name::Below("std::fs::OpenOptions")),
    (Sort::Files, Name::Below("std::fs::DirBuilder")),
    (Sort::Files, Name::Below("std::fs::ReadDir")),
    (Sort::Files, Name::Below("std::fs::*")),
    (Sort::Files, Name::Functions("std::os::unix::fs", &[])),
    (Sort::Files, Name::Below("std::os::unix::fs::FileExt")),
    (
        Sort::Files,
        Name::Functions("rustix::fs", &["memfd_create", "fcntl_getfl", "fcntl_setfl", "major", "minor", "makedev"]),
    ),
    (Sort::Files, Name::Below("rustix::fs::*")),
    (Sort::Files, Name::Some("rustix::io", &["pread", "preadv", "preadv2", "pwrite", "pwritev", "pwritev2"])),
    (Sort::Files, Name::Below("tokio::fs")),
    (Sort::Files, Name::Below("glob::glob")),
    (Sort::Files, Name::Below("glob::glob_with")),
    (Sort::Files, Name::Method("canonicalize")),
    (Sort::Files, Name::Method("read_dir")),
    (Sort::Files, Name::Method("read_link")),
    (Sort::Files, Name::Method("symlink_metadata")),
    (Sort::Files, Name::Method("try_exists")),
    (Sort::Files, Name::PathMethod("exists")),
    (Sort::Files, Name::PathMethod("is_dir")),
    (Sort::Files, Name::PathMethod("is_file")),
    (Sort::Files, Name::PathMethod("metadata")),
    (Sort::Console, Name::Some("std::io", &["stdin", "stdout", "stderr"])),
    (Sort::Console, Name::Macro("print")),
    (Sort::Console, Name::Macro("println")),
    (Sort::Console, Name::Macro("eprint")),
    (Sort::Console, Name::Macro("eprintln")),
    (Sort::Names, Name::Below("std::net::ToSocketAddrs")),
    (Sort::Names, Name::Method("to_socket_addrs")),
    (Sort::Names, Name::Below("tokio::net::lookup_host")),
    (Sort::Process, Name::Below("std::process::Command")),
    (Sort::Process, Name::Below("tokio::process")),
    (Sort::Process, Name::Some("rustix::process", &["wait", "waitpid", "waitid", "waitpgid"])),
    (Sort::Sleep, Name::Some("std::thread", &["sleep", "sleep_ms", "sleep_until", "park", "park_timeout"])),
    (Sort::Sleep, Name::Below("rustix::thread::nanosleep")),
    (Sort::Sleep, Name::Below("rustix::thread::clock_nanosleep")),
    (Sort::Sleep, Name::Below("rustix::thread::futex::wait")),
    (Sort::Sleep, Name::Below("rustix::event::pause")),
    (Sort::Sleep, Name::BareMethod("join")),
    (Sort::Connect, Name::Some("std::net::TcpStream", &["connect", "connect_timeout"])),
    (Sort::Connect, Name::Some("std::os::unix::net::UnixStream", &["connect", "connect_addr"])),
    (Sort::Connect, Name::Some("rustix::event", &["poll", "select"])),
    (Sort::Connect, Name::Below("rustix::event::epoll::wait")),
    (Sort::Paths, Name::Some("rustix::net::SocketAddrUnix", &["new"])),
    (Sort::Paths, Name::Some("socket2::SockAddr", &["unix"])),
    (Sort::Paths, Name::Some("std::os::unix::net::SocketAddr", &["from_pathname"])),
    (Sort::Paths, Name::Some("std::os::unix::net::UnixListener", &["bind", "bind_addr"])),
    (Sort::Paths, Name::Some("std::os::unix::net::UnixDatagram", &["bind", "bind_addr"])),
    (Sort::Paths, Name::Some("tokio::net::UnixStream", &["connect"])),
    (Sort::Paths, Name::Some("tokio::net::UnixListener", &["bind"])),
    (Sort::Paths, Name::Some("tokio::net::UnixDatagram", &["bind"])),
    (Sort::Paths, Name::Below("rustix::fs::inotify::add_watch")),
    (Sort::Paths, Name::Below("rustix::thread::chdir")),
    (Sort::Paths, Name::Some("rustix::process", &["chdir", "chroot"])),
    (Sort::Paths, Name::Some("std::env", &["set_current_dir", "current_exe"])),
    (Sort::Locks, Name::Below("std::sync::Mutex")),
    (Sort::Locks, Name::Below("std::sync::RwLock")),
    (Sort::Locks, Name::Below("std::sync::Condvar")),
    (Sort::Locks, Name::Below("std::sync::Barrier")),
    (Sort::Locks, Name::Below("std::sync::mpsc")),
    (Sort::Locks, Name::Below("std::sync::*")),
    (Sort::Locks, Name::Below("parking_lot")),
    (Sort::Locks, Name::Method("blocking_lock")),
    (Sort::Locks, Name::Method("blocking_recv")),
    (Sort::Locks, Name::Method("blocking_send")),
    (Sort::Threads, Name::Some("std::thread", &["spawn", "scope"])),
    (Sort::Threads, Name::Below("std::thread::Builder")),
    (Sort::Threads, Name::Some("tokio::task", &["spawn_blocking", "block_in_place"])),
    (Sort::Threads, Name::Method("spawn_blocking")),
    (Sort::Threads, Name::Method("block_on")),
    (Sort::Clock, Name::Below("std::time::Instant::now")),
    (Sort::Clock, Name::Below("std::time::SystemTime::now")),
];

/// The folders where reading the clock is forbidden: protocol code and the language take the time as an argument.
pub(crate) const CLOCKLESS: &[&str] = &["crates/proto/", "crates/conf/"];
