//! Socket options that are plain numbers and that neither std, rustix nor socket2 has.

use std::io;
use std::os::fd::{AsFd, AsRawFd};

fn set(fd: impl AsFd, level: libc::c_int, name: libc::c_int, value: libc::c_int) -> io::Result<()> {
    // SAFETY: the pointer and length are those of `value`, which lives through the call; the descriptor is open.
    let answer = unsafe {
        libc::setsockopt(
            fd.as_fd().as_raw_fd(),
            level,
            name,
            (&raw const value).cast(),
            size_of::<libc::c_int>() as libc::socklen_t,
        )
    };
    if answer == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// `TCP_DEFER_ACCEPT` (tcp(7)): a connection is accepted when its first data is there, or after about this many
/// seconds; 0 turns it off.
pub fn set_defer_accept(fd: impl AsFd, seconds: i32) -> io::Result<()> {
    set(fd, libc::IPPROTO_TCP, libc::TCP_DEFER_ACCEPT, seconds)
}

/// `TCP_FASTOPEN` (tcp(7)): how many connections may be half open with data; 0 turns it off.
pub fn set_fastopen(fd: impl AsFd, queue: i32) -> io::Result<()> {
    set(fd, libc::IPPROTO_TCP, libc::TCP_FASTOPEN, queue)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    #[test]
    fn a_tcp_listener_takes_them_and_a_pipe_does_not() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        set_defer_accept(&listener, 1).unwrap();
        set_defer_accept(&listener, 0).unwrap();
        set_fastopen(&listener, 16).unwrap();
        let (pipe, _end) = io::pipe().unwrap();
        assert_eq!(set_defer_accept(&pipe, 1).unwrap_err().raw_os_error(), Some(libc::ENOTSOCK));
    }
}
