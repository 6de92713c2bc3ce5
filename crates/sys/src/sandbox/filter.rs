//! The filter of system calls (seccomp(2)).

use std::collections::BTreeMap;
use std::io;

use libc::c_long;
use seccompiler::{
    BackendError, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
    TargetArch, apply_filter,
};

use super::calls::{ALLOWED, ALLOWED_HERE};
use super::denials;

/// The action at a call that is not in the list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strictness {
    /// The call fails, and [`super::Denials`] has it.
    Deny,
    /// The call does its work, and the kernel writes it to its log (audit, or dmesg(1)).
    Log,
}

/// Restricts this thread, and all threads that it starts, to the system calls of the list. It calls
/// `prctl(PR_SET_NO_NEW_PRIVS)`, too.
///
/// # Errors
/// `Unsupported` on a machine that the list is not made for. The error of seccomp(2): `ENOSYS` or `EINVAL` if the kernel
/// has none, `EACCES` or `EPERM` if a sandbox around this process forbids it.
pub fn filter_calls(strictness: Strictness) -> io::Result<()> {
    let unsupported = || io::Error::new(io::ErrorKind::Unsupported, "no filter is made for this machine");
    let arch = TargetArch::try_from(std::env::consts::ARCH).map_err(|_| unsupported())?;
    if !matches!(arch, TargetArch::x86_64 | TargetArch::aarch64) {
        return Err(unsupported());
    }
    let unmatched = match strictness {
        Strictness::Deny => SeccompAction::Trap,
        Strictness::Log => SeccompAction::Log,
    };
    let mut filters = Vec::new();
    if strictness == Strictness::Deny {
        // The kernel takes the strictest answer of all filters, and a trap is stricter than an error. So these calls
        // are in the list, and a filter of their own refuses them.
        filters.push(refusal(libc::SYS_clone3, Vec::new(), libc::ENOSYS, arch));
        filters.push(refusal(libc::SYS_clone, vec![no_thread()], libc::EPERM, arch));
        denials::listen()?;
    }
    // The first filter that is installed has to let seccomp(2) through for the next ones: the list comes last.
    filters.push(list().and_then(|rules| SeccompFilter::new(rules, unmatched, SeccompAction::Allow, arch)));
    for filter in filters {
        let program: seccompiler::BpfProgram = filter.and_then(TryInto::try_into).map_err(io::Error::other)?;
        apply_filter(&program).map_err(|error| match error {
            seccompiler::Error::Prctl(error) | seccompiler::Error::Seccomp(error) => error,
            other => io::Error::other(other),
        })?;
    }
    Ok(())
}

/// A filter that answers one call with this error, if one of the rules holds or there is none.
fn refusal(
    call: c_long,
    rules: Vec<Result<SeccompRule, BackendError>>,
    error: i32,
    arch: TargetArch,
) -> Result<SeccompFilter, BackendError> {
    let rules = rules.into_iter().collect::<Result<Vec<_>, _>>()?;
    let refused = SeccompAction::Errno(error.unsigned_abs());
    SeccompFilter::new(BTreeMap::from([(call, rules)]), SeccompAction::Allow, refused, arch)
}

/// Rules of a call: it is allowed if one of them holds, and always if there is none.
type Rules = BTreeMap<c_long, Vec<SeccompRule>>;

/// The list, with what it says about arguments.
fn list() -> Result<Rules, BackendError> {
    let mut rules: Rules = ALLOWED.iter().chain(ALLOWED_HERE).map(|call| (*call, Vec::new())).collect();
    let own = u64::from(std::process::id());
    // fork(2) is refused by a filter of its own.
    rules.insert(libc::SYS_clone, Vec::new());
    rules.insert(libc::SYS_socket, sockets()?);
    rules.insert(libc::SYS_socketpair, vec![rule(&[is(0, libc::AF_UNIX as u64)])?]);
    rules.insert(libc::SYS_mprotect, vec![rule(&[masked(2, libc::PROT_EXEC as u64, 0)])?]);
    rules.insert(libc::SYS_tgkill, vec![rule(&[is(0, own)])?]);
    rules.insert(libc::SYS_prlimit64, vec![rule(&[is(0, 0)])?, rule(&[is(0, own)])?]);
    rules.insert(libc::SYS_ioctl, any_of(1, REQUESTS)?);
    rules.insert(libc::SYS_prctl, any_of(0, OPTIONS)?);
    Ok(rules)
}

/// The requests of ioctl(2): about sockets, terminals (whether stderr is one) and copies of files.
#[allow(clippy::unnecessary_cast, reason = "requests are of another type with other libraries for C")]
const REQUESTS: &[u64] = &[
    libc::FIONREAD as u64,
    libc::FIONBIO as u64,
    libc::FIOCLEX as u64,
    libc::TIOCOUTQ as u64,
    libc::TCGETS as u64,
    libc::TIOCGWINSZ as u64,
    libc::FICLONE as u64,
    SIOCGIFNAME,
    SIOCGIFCONF,
    SIOCGIFFLAGS,
    SIOCGIFINDEX,
];

/// Requests of netdevice(7), for names and numbers of interfaces.
const SIOCGIFNAME: u64 = 0x8910;
const SIOCGIFCONF: u64 = 0x8912;
const SIOCGIFFLAGS: u64 = 0x8913;
const SIOCGIFINDEX: u64 = 0x8933;

/// The options of prctl(2): names of threads and of memory, and questions.
const OPTIONS: &[u64] = &[
    libc::PR_SET_NAME as u64,
    libc::PR_GET_NAME as u64,
    libc::PR_SET_VMA as u64,
    libc::PR_GET_DUMPABLE as u64,
    libc::PR_CAPBSET_READ as u64,
    libc::PR_SET_TIMERSLACK as u64,
    libc::PR_GET_SECCOMP as u64,
    libc::PR_SET_THP_DISABLE as u64,
    libc::PR_GET_THP_DISABLE as u64,
];

/// Sockets of streams, of datagrams and (local) of packets. Libraries ask for the addresses of this machine by another
/// socket, of the family netlink. Raw sockets and other families are left out.
fn sockets() -> Result<Vec<SeccompRule>, BackendError> {
    /// The bits of the type: the others are `SOCK_CLOEXEC` and `SOCK_NONBLOCK`.
    const KIND: u64 = 0xf;
    let mut rules = Vec::new();
    for family in [libc::AF_UNIX, libc::AF_INET, libc::AF_INET6] {
        for kind in [libc::SOCK_STREAM, libc::SOCK_DGRAM] {
            rules.push(rule(&[is(0, family as u64), masked(1, KIND, kind as u64)])?);
        }
    }
    rules.push(rule(&[is(0, libc::AF_UNIX as u64), masked(1, KIND, libc::SOCK_SEQPACKET as u64)])?);
    rules.push(rule(&[is(0, libc::AF_NETLINK as u64), is(2, libc::NETLINK_ROUTE as u64)])?);
    Ok(rules)
}

/// A condition of clone(2): the result is a process, not a thread.
fn no_thread() -> Result<SeccompRule, BackendError> {
    rule(&[masked(0, libc::CLONE_THREAD as u64, 0)])
}

/// A condition as it is written here: the argument, the bits that count, their value.
type Condition = (u8, SeccompCmpOp, u64);

fn is(argument: u8, value: u64) -> Condition {
    (argument, SeccompCmpOp::Eq, value)
}

fn masked(argument: u8, mask: u64, value: u64) -> Condition {
    (argument, SeccompCmpOp::MaskedEq(mask), value)
}

fn rule(conditions: &[Condition]) -> Result<SeccompRule, BackendError> {
    let conditions = conditions.iter().map(|(argument, operator, value)| {
        // The arguments that are compared are of type int; the upper half of their registers says nothing.
        SeccompCondition::new(*argument, SeccompCmpArgLen::Dword, operator.clone(), *value)
    });
    SeccompRule::new(conditions.collect::<Result<_, _>>()?)
}

fn any_of(argument: u8, values: &[u64]) -> Result<Vec<SeccompRule>, BackendError> {
    values.iter().map(|value| rule(&[is(argument, *value)])).collect()
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};
    use std::process::Command;

    use super::super::Denials;
    use super::super::calls::HIGHEST_KNOWN;
    use super::*;

    /// A call by its number: what nothing in this program calls otherwise.
    fn call(number: c_long, argument: usize) -> Result<c_long, i32> {
        // SAFETY: the calls of the tests below are refused. If one was not, its pointers, which are null, would have it
        // fail.
        let answer = unsafe { libc::syscall(number, argument, 0_usize, 0_usize, 0_usize, 0_usize, 0_usize) };
        if answer == -1 { Err(io::Error::last_os_error().raw_os_error().unwrap_or_default()) } else { Ok(answer) }
    }

    /// What a server does works, and what an attacker would do fails. A filter holds for its thread and those that it
    /// starts: the other tests of this process go on without.
    #[test]
    fn a_thread_with_the_filter_serves_and_does_no_harm() {
        let thread = std::thread::spawn(|| {
            filter_calls(Strictness::Deny).unwrap();
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let address = listener.local_addr().unwrap();
            std::thread::spawn(move || TcpStream::connect(address).unwrap()).join().unwrap();
            std::fs::read("/proc/self/status").unwrap();

            for denied in [libc::SYS_execve, libc::SYS_ptrace, libc::SYS_finit_module, libc::SYS_mount, libc::SYS_kill]
            {
                assert_eq!(call(denied, 0), Err(libc::EPERM), "{denied}");
            }
            assert_eq!(call(libc::SYS_clock_settime, libc::CLOCK_REALTIME as usize), Err(libc::EPERM));
            assert_eq!(call(libc::SYS_clone, libc::SIGCHLD as usize), Err(libc::EPERM));
            assert_eq!(call(libc::SYS_socket, libc::AF_PACKET as usize), Err(libc::EPERM));
            assert_eq!(call(HIGHEST_KNOWN + 1, 0), Err(libc::ENOSYS), "a newer library falls back");
            assert!(Command::new("/bin/true").spawn().is_err());
            let raw = rustix::net::socket(rustix::net::AddressFamily::INET, rustix::net::SocketType::RAW, None);
            assert_eq!(raw.unwrap_err(), rustix::io::Errno::PERM);

            let names: Vec<_> = Denials::of_process().unwrap().take().iter().filter_map(|call| call.name).collect();
            for name in ["execve", "ptrace", "finit_module", "mount", "kill", "clock_settime", "socket"] {
                assert!(names.contains(&name), "{name} in {names:?}");
            }
            assert!(Denials::of_process().unwrap().take().is_empty());
        });
        thread.join().unwrap();
        Command::new("/bin/true").status().expect("other threads are as before");
    }

    #[test]
    fn what_is_only_logged_does_its_work() {
        let thread = std::thread::spawn(|| {
            filter_calls(Strictness::Log).unwrap();
            assert!(Command::new("/bin/true").status().unwrap().success());
        });
        thread.join().unwrap();
    }
}
