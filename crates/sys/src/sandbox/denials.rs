//! The calls that the filter has refused: the kernel sends `SIGSYS`, and the handler here notes the call and has it fail.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd};
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::{AcqRel, Relaxed};

use libc::{c_int, c_long, c_void};
use rustix::event::{EventfdFlags, eventfd};

use super::calls::{HIGHEST_KNOWN, name};

/// The number of counters. Calls with higher numbers share the last one.
const COUNTERS: usize = 512;

const _: () = assert!((HIGHEST_KNOWN as usize) < COUNTERS - 1);

/// The number of refusals of each call since the last [`Denials::take`], by the number of the call.
static REFUSED: [AtomicU32; COUNTERS] = [const { AtomicU32::new(0) }; COUNTERS];

/// The descriptor that becomes readable at a refusal.
static WAKE: OnceLock<OwnedFd> = OnceLock::new();

/// The value of `si_code` for a call that a filter has refused (sigaction(2)).
const SYS_SECCOMP: c_int = 1;

/// A system call that was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeniedCall {
    /// Its number on this machine.
    pub number: c_long,
    /// Its name, if it is one of those that a worker should never make.
    pub name: Option<&'static str>,
    /// The number of refusals.
    pub count: u32,
}

/// The calls that were refused in this process. It can be polled.
#[derive(Clone, Copy, Debug)]
pub struct Denials(BorrowedFd<'static>);

impl Denials {
    /// The refusals of this process; `None` if no filter refuses anything.
    pub fn of_process() -> Option<Denials> {
        WAKE.get().map(|wake| Denials(wake.as_fd()))
    }

    /// The calls that were refused since this was asked before.
    pub fn take(self) -> Vec<DeniedCall> {
        let mut number = [0; 8];
        // There is nothing to read if nobody was refused.
        let _ = rustix::io::read(self.0, &mut number);
        let counts = REFUSED.iter().zip(0..).map(|(counter, number)| (number, counter.swap(0, AcqRel)));
        let counts = counts.filter(|(_, count)| *count > 0);
        counts.map(|(number, count)| DeniedCall { number, name: name(number), count }).collect()
    }
}

impl AsFd for Denials {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0
    }
}

/// Handles `SIGSYS` from now on, in place of its handler before.
pub(super) fn listen() -> io::Result<()> {
    if WAKE.get().is_none() {
        let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        // Nobody else sets it: a process has one thread when it restricts itself.
        let _ = WAKE.set(wake);
    }
    // SAFETY: all fields of the structure are integers, pointers and sets, for which zeroes are valid. `sigfillset` and
    // `sigaction` get pointers to live locals. `refuse` has the signature that `SA_SIGINFO` asks for, and calls only
    // functions that signal-safety(7) lists.
    let answer = unsafe {
        let mut action = MaybeUninit::<libc::sigaction>::zeroed().assume_init();
        action.sa_sigaction = refuse as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_RESTART;
        libc::sigfillset(&raw mut action.sa_mask);
        libc::sigaction(libc::SIGSYS, &raw const action, ptr::null_mut())
    };
    if answer == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// The handler: has the call return an error, and notes it. A signal that somebody has sent is ignored.
extern "C" fn refuse(_: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: the kernel gives a handler with `SA_SIGINFO` a valid `siginfo_t` and a valid `ucontext_t`, which is the
    // handler's alone while it runs.
    let (info, context) = unsafe { (&*info, &mut *context.cast::<libc::ucontext_t>()) };
    if info.si_code != SYS_SECCOMP {
        return;
    }
    let number = call_of(context);
    let error = if number > HIGHEST_KNOWN { libc::ENOSYS } else { libc::EPERM };
    set_result(context, -i64::from(error));
    let place = usize::try_from(number).unwrap_or(usize::MAX).min(COUNTERS - 1);
    REFUSED[place].fetch_add(1, Relaxed);
    if let Some(wake) = WAKE.get() {
        let one = 1_u64.to_ne_bytes();
        // SAFETY: the pointer and the length belong to the same live array. write(2) may be called in a handler; if the
        // counter is full, a reader has been woken already.
        unsafe { libc::write(wake.as_raw_fd(), one.as_ptr().cast(), one.len()) };
    }
}

/// The number of the call that was interrupted. The kernel has put the registers back as they were before the call.
#[cfg(target_arch = "x86_64")]
fn call_of(context: &libc::ucontext_t) -> c_long {
    context.uc_mcontext.gregs[libc::REG_RAX as usize]
}

#[cfg(target_arch = "x86_64")]
fn set_result(context: &mut libc::ucontext_t, result: i64) {
    context.uc_mcontext.gregs[libc::REG_RAX as usize] = result;
}

#[cfg(target_arch = "aarch64")]
fn call_of(context: &libc::ucontext_t) -> c_long {
    context.uc_mcontext.regs[8] as c_long
}

#[cfg(target_arch = "aarch64")]
fn set_result(context: &mut libc::ucontext_t, result: i64) {
    context.uc_mcontext.regs[0] = result as u64;
}

/// No filter is made for other machines, so that nothing is refused there.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn call_of(_: &libc::ucontext_t) -> c_long {
    HIGHEST_KNOWN
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn set_result(_: &mut libc::ucontext_t, _: i64) {}
