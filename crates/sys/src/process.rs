//! Processes and users: fork, the identity of a process, the user and group databases.

use std::ffi::{CStr, CString};
use std::io;
use std::mem::MaybeUninit;
use std::ptr;

/// The most supplementary groups that are taken from the group database; NGROUPS_MAX of Linux is 65536.
const MAX_GROUPS: usize = 65_536;

/// The largest buffer for getpwnam_r(3) and getgrnam_r(3).
const MAX_ENTRY: usize = 1024 * 1024;

/// The process that [`fork`] has returned in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fork {
    /// The calling process; the value is the child's id.
    Parent(i32),
    /// The new process.
    Child,
}

/// fork(2), for processes with one thread only: with more, the child could find locks held by threads it lacks.
///
/// # Errors
/// `Unsupported` if the process has other threads (or `/proc` cannot be read to find out); the error of fork(2).
pub fn fork() -> io::Result<Fork> {
    if std::fs::read_dir("/proc/self/task")?.count() != 1 {
        return Err(io::Error::new(io::ErrorKind::Unsupported, "fork() with several threads"));
    }
    // SAFETY: the process has this one thread, so the child has the whole process's state. No lock is held by a thread
    // that does not exist in it, and it may do whatever the parent might have done.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        0 => Ok(Fork::Child),
        child => Ok(Fork::Parent(child)),
    }
}

/// An entry of the user database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct User {
    /// User id.
    pub uid: u32,
    /// The user's primary group.
    pub gid: u32,
}

/// Calls one of the `get…nam_r` functions with a buffer that grows until the entry fits.
fn lookup<T: Copy, R>(
    mut call: impl FnMut(*mut T, &mut [u8], *mut *mut T) -> i32,
    take: impl Fn(&T) -> R,
) -> io::Result<Option<R>> {
    let mut buffer = vec![0_u8; 4096];
    loop {
        let mut entry = MaybeUninit::<T>::zeroed();
        let mut result: *mut T = ptr::null_mut();
        match call(entry.as_mut_ptr(), &mut buffer, &mut result) {
            0 if result.is_null() => return Ok(None),
            // SAFETY: on success with a non-null result the function has filled `entry`.
            0 => return Ok(Some(take(unsafe { entry.assume_init_ref() }))),
            libc::ERANGE if buffer.len() < MAX_ENTRY => buffer.resize(buffer.len() * 4, 0),
            libc::EINTR => {}
            // getpwnam(3) lists the errors that may mean an absent name.
            libc::ENOENT | libc::ESRCH | libc::EBADF | libc::EPERM => return Ok(None),
            error => return Err(io::Error::from_raw_os_error(error)),
        }
    }
}

/// getpwnam(3): the user of this name; `None` if there is no such user. May read files and ask the network: for the
/// master only.
pub fn user(name: &CStr) -> io::Result<Option<User>> {
    lookup(
        |entry: *mut libc::passwd, buffer, result| {
            // SAFETY: the name is a C string, the other pointers are to live locals, the length is the buffer's.
            unsafe { libc::getpwnam_r(name.as_ptr(), entry, buffer.as_mut_ptr().cast(), buffer.len(), result) }
        },
        |entry| User { uid: entry.pw_uid, gid: entry.pw_gid },
    )
}

/// getgrnam(3): the group's id; `None` if there is no such group. For the master only.
pub fn group(name: &CStr) -> io::Result<Option<u32>> {
    lookup(
        |entry: *mut libc::group, buffer, result| {
            // SAFETY: the name is a C string, the other pointers are to live locals, the length is the buffer's.
            unsafe { libc::getgrnam_r(name.as_ptr(), entry, buffer.as_mut_ptr().cast(), buffer.len(), result) }
        },
        |entry| entry.gr_gid,
    )
}

/// getgrouplist(3): the groups that `name` is a member of, including `gid`. For the master only.
pub fn groups(name: &CStr, gid: u32) -> io::Result<Vec<u32>> {
    let mut list = vec![0 as libc::gid_t; 64];
    loop {
        let mut count = list.len() as libc::c_int;
        // SAFETY: the name is a C string and `count` is the room in `list`.
        let answer = unsafe { libc::getgrouplist(name.as_ptr(), gid, list.as_mut_ptr(), &mut count) };
        let count = usize::try_from(count).unwrap_or(0);
        if answer >= 0 {
            list.truncate(count);
            return Ok(list);
        }
        if list.len() >= MAX_GROUPS {
            return Err(io::Error::from_raw_os_error(libc::EINVAL));
        }
        list.resize(count.max(list.len() * 2).min(MAX_GROUPS), 0);
    }
}

/// The error of a step of [`become_user`].
#[derive(Debug)]
pub struct IdentityError {
    /// The step: `setgroups`, `setgid` or `setuid`.
    pub step: &'static str,
    /// The system's error.
    pub error: io::Error,
}

/// Changes to this identity, permanently and for all threads: setgroups(2), setgid(2), setuid(2), in an order in which
/// each step still has the permission for the next. Call it before threads start, so that none was ever privileged.
pub fn become_user(uid: u32, gid: u32, groups: &[u32]) -> Result<(), IdentityError> {
    let check = |step, answer: libc::c_int| {
        if answer == 0 { Ok(()) } else { Err(IdentityError { step, error: io::Error::last_os_error() }) }
    };
    // SAFETY: the pointer and the length come from one slice.
    check("setgroups", unsafe { libc::setgroups(groups.len(), groups.as_ptr()) })?;
    // SAFETY: setgid takes a number and touches no memory of this program.
    check("setgid", unsafe { libc::setgid(gid) })?;
    // SAFETY: setuid takes a number and touches no memory of this program.
    check("setuid", unsafe { libc::setuid(uid) })
}

/// `name` in the form that the C functions of this module need; `None` if it contains a NUL.
pub fn c_name(name: &str) -> Option<CString> {
    CString::new(name).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn root_is_user_and_group_0() {
        assert_eq!(user(c"root").unwrap(), Some(User { uid: 0, gid: 0 }));
        assert_eq!(group(c"root").unwrap(), Some(0));
        assert!(groups(c"root", 0).unwrap().contains(&0));
    }

    #[test]
    fn absent_names_are_no_error() {
        assert_eq!(user(c"no-such-user-here").unwrap(), None);
        assert_eq!(group(c"no-such-group-here").unwrap(), None);
        assert_eq!(c_name("a\0b"), None);
    }

    #[test]
    fn fork_refuses_with_several_threads() {
        // The test harness has a main thread and this one.
        let (stop, wait) = std::sync::mpsc::channel::<()>();
        let other = std::thread::spawn(move || wait.recv());
        assert_eq!(fork().unwrap_err().kind(), io::ErrorKind::Unsupported);
        drop(stop);
        assert!(other.join().unwrap().is_err());
    }

    #[test]
    fn an_unprivileged_process_cannot_become_root_again() {
        let me = rustix::process::geteuid().as_raw();
        if me == 0 {
            return; // The step would succeed and change the test process for good.
        }
        let error = become_user(0, 0, &[0]).unwrap_err();
        assert_eq!(error.step, "setgroups");
        assert_eq!(error.error.raw_os_error(), Some(libc::EPERM));
    }
}
