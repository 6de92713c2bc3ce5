//! Attempts that a sandbox refuses, for tests. Only builds with debug assertions have them.

use std::io;
use std::path::Path;
use std::ptr;

use libc::c_long;
use rustix::net::{AddressFamily, SocketType, socket};

/// An attempt and its result.
pub type Attempt = (&'static str, io::Result<()>);

/// Makes the attempts of a client that has taken over a worker. `key` is a file that it should not read, `outside` a file
/// in no folder that it writes to. Nothing that succeeds is undone.
pub fn try_all(key: &Path, outside: &Path) -> Vec<Attempt> {
    let own = c_long::from(std::process::id());
    let time = libc::timespec { tv_sec: 1, tv_nsec: 0 };
    vec![
        ("read /etc/shadow", std::fs::read("/etc/shadow").map(drop)),
        ("read the key", std::fs::read(key).map(drop)),
        ("write outside", std::fs::write(outside, "here")),
        ("start a program", std::process::Command::new("/bin/true").spawn().map(drop)),
        ("execve", call(libc::SYS_execve, [c"/bin/true".as_ptr() as c_long, 0, 0])),
        ("ptrace", call(libc::SYS_ptrace, [c_long::from(libc::PTRACE_ATTACH), own, 0])),
        ("kill the master", call(libc::SYS_kill, [parent(), 0, 0])),
        ("raw socket", socket(AddressFamily::INET, SocketType::RAW, None).map(drop).map_err(io::Error::from)),
        ("packet socket", socket(AddressFamily::PACKET, SocketType::DGRAM, None).map(drop).map_err(io::Error::from)),
        ("load a module", call(libc::SYS_finit_module, [-1, 0, 0])),
        ("mount", call(libc::SYS_mount, [0, 0, 0])),
        ("unshare", call(libc::SYS_unshare, [c_long::from(libc::CLONE_NEWUSER), 0, 0])),
        ("bpf", call(libc::SYS_bpf, [0, 0, 0])),
        ("io_uring", call(libc::SYS_io_uring_setup, [1, 0, 0])),
        ("change the clock", set_clock(&time)),
        ("executable memory", make_executable()),
    ]
}

fn parent() -> c_long {
    rustix::process::getppid().map_or(0, |parent| c_long::from(parent.as_raw_nonzero().get()))
}

fn call(number: c_long, arguments: [c_long; 3]) -> io::Result<()> {
    let [first, second, third] = arguments;
    // SAFETY: a pointer among the arguments is null or leads to a C string that is never freed, and no call writes to it. A
    // program that is executed here is the end of a test that fails.
    let answer = unsafe { libc::syscall(number, first, second, third, 0 as c_long, 0 as c_long) };
    if answer == -1 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

fn set_clock(time: &libc::timespec) -> io::Result<()> {
    // The clock of processor time cannot be set by anybody, so that a filter that lets the call through changes nothing: then
    // the error is EINVAL.
    call(libc::SYS_clock_settime, [c_long::from(libc::CLOCK_MONOTONIC), ptr::from_ref(time) as c_long, 0])
}

fn make_executable() -> io::Result<()> {
    use rustix::mm::{MapFlags, MprotectFlags, ProtFlags, mmap_anonymous, mprotect, munmap};
    const LENGTH: usize = 4096;
    // SAFETY: the mapping is new, and nobody else knows it.
    let page =
        unsafe { mmap_anonymous(ptr::null_mut(), LENGTH, ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE) }?;
    // SAFETY: the range is the mapping that was just made.
    let made = unsafe { mprotect(page, LENGTH, MprotectFlags::READ | MprotectFlags::EXEC) };
    // SAFETY: nothing refers to the mapping.
    unsafe { munmap(page, LENGTH) }?;
    made.map_err(io::Error::from)
}
