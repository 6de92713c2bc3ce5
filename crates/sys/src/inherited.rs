//! Descriptors that the process was started with.

use std::io;
use std::os::fd::{FromRawFd as _, OwnedFd};

/// The numbers of stdin, stdout and stderr, which std has.
const STANDARD: i32 = 2;

/// Takes the socket with this number, which the process that started this one has left open for it: a number of `NGINX`, or of
/// `LISTEN_FDS` (sd_listen_fds(3)). It is closed by `execve` from then on.
///
/// # Errors
/// `EBADF`: there is no such descriptor, or this process has opened it itself. `ENOTSOCK`: it is no socket.
pub fn take_socket(number: i32) -> io::Result<OwnedFd> {
    let error = |code| Err(io::Error::from_raw_os_error(code));
    // SAFETY: F_GETFD takes a number, which need not be an open descriptor's, and touches no memory of this program.
    let flags = unsafe { libc::fcntl(number, libc::F_GETFD) };
    if flags < 0 {
        return Err(io::Error::last_os_error());
    }
    if number <= STANDARD || flags & libc::FD_CLOEXEC != 0 {
        return error(libc::EBADF);
    }
    let mut kind: libc::c_int = 0;
    let mut len = size_of::<libc::c_int>() as libc::socklen_t;
    // SAFETY: the kernel writes at most `len` bytes, which is the size of `kind`; the number belongs to an open
    // descriptor.
    let answer =
        unsafe { libc::getsockopt(number, libc::SOL_SOCKET, libc::SO_TYPE, (&raw mut kind).cast(), &raw mut len) };
    if answer != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: F_SETFD takes numbers, and touches no memory of this program.
    if unsafe { libc::fcntl(number, libc::F_SETFD, flags | libc::FD_CLOEXEC) } < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor is open, and no other value owns it: everything that this program opens has FD_CLOEXEC from the
    // start, and this descriptor did not have it. It has it now, so that it is taken once.
    Ok(unsafe { OwnedFd::from_raw_fd(number) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;
    use std::os::fd::{AsRawFd as _, IntoRawFd as _};

    fn code(taken: io::Result<OwnedFd>) -> Option<i32> {
        taken.err().and_then(|error| error.raw_os_error())
    }

    #[test]
    fn a_socket_is_taken_once_and_nothing_else_is() {
        let own = TcpListener::bind("127.0.0.1:0").unwrap();
        assert_eq!(code(take_socket(own.as_raw_fd())), Some(libc::EBADF), "it has an owner");
        // `dup` makes descriptors as a process inherits them.
        let inherited = rustix::io::dup(&own).unwrap().into_raw_fd();
        let taken = TcpListener::from(take_socket(inherited).unwrap());
        assert_eq!(taken.local_addr().unwrap(), own.local_addr().unwrap());
        assert_eq!(code(take_socket(inherited)), Some(libc::EBADF), "it was taken");
        let (pipe, _end) = io::pipe().unwrap();
        let no_socket = rustix::io::dup(&pipe).unwrap();
        assert_eq!(code(take_socket(no_socket.as_raw_fd())), Some(libc::ENOTSOCK));
        for number in [-1, 0, 2, i32::MAX] {
            assert_eq!(code(take_socket(number)), Some(libc::EBADF), "{number}");
        }
    }
}
