//! Socket options that are plain numbers and that neither std, rustix nor socket2 has.

use std::io;
use std::os::fd::{AsFd, AsRawFd};

pub(crate) fn set(fd: impl AsFd, level: libc::c_int, name: libc::c_int, value: libc::c_int) -> io::Result<()> {
    // SAFETY: the pointer and length describe `value`, which lives through the call; the descriptor is open.
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

/// `IP_BIND_ADDRESS_NO_PORT` (ip(7)): binding to port 0 takes no port yet; `connect` chooses a port that is free for
/// the address that it connects to.
pub fn set_bind_address_no_port(fd: impl AsFd) -> io::Result<()> {
    set(fd, libc::IPPROTO_IP, libc::IP_BIND_ADDRESS_NO_PORT, 1)
}

/// The kernel's figures of a TCP connection: a part of `TCP_INFO` (tcp(7)).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TcpInfo {
    /// The smoothed round-trip time in microseconds.
    pub rtt: u32,
    /// The variation of the round-trip time in microseconds.
    pub rttvar: u32,
    /// The congestion window in segments.
    pub snd_cwnd: u32,
    /// The receive window that the kernel aims at, in bytes.
    pub rcv_space: u32,
}

/// Asks for `TCP_INFO`.
///
/// # Errors
/// `ENOTSUP` or another error if the socket is not a TCP socket.
pub fn tcp_info(fd: impl AsFd) -> io::Result<TcpInfo> {
    let mut info = std::mem::MaybeUninit::<libc::tcp_info>::zeroed();
    let mut len = size_of::<libc::tcp_info>() as libc::socklen_t;
    // SAFETY: the kernel writes at most `len` bytes, which is the size of `info`; the descriptor is open.
    let answer = unsafe {
        libc::getsockopt(
            fd.as_fd().as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            info.as_mut_ptr().cast(),
            &raw mut len,
        )
    };
    if answer != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the structure consists of integers, for which zeroes are valid, so that it is initialised however much
    // was written.
    let info = unsafe { info.assume_init() };
    let (rtt, rttvar) = (info.tcpi_rtt, info.tcpi_rttvar);
    Ok(TcpInfo { rtt, rttvar, snd_cwnd: info.tcpi_snd_cwnd, rcv_space: info.tcpi_rcv_space })
}

/// `SO_MEMINFO` (`linux/sock_diag.h` names the values).
const SO_MEMINFO: libc::c_int = 55;

/// The number of bytes of memory that the socket's send queue may still take (`SO_MEMINFO`). It is somewhat more than
/// the bytes that a write would take, since the kernel's own data about them counts too.
///
/// # Errors
/// The error of `getsockopt(2)`.
pub fn send_room(fd: impl AsFd) -> io::Result<usize> {
    let mut numbers = [0u32; libc::SK_MEMINFO_DROPS as usize + 1];
    let mut len = size_of_val(&numbers) as libc::socklen_t;
    // SAFETY: the kernel writes at most `len` bytes, which is the size of `numbers`. Any bits are valid for its
    // elements. The descriptor is open.
    let answer = unsafe {
        libc::getsockopt(
            fd.as_fd().as_raw_fd(),
            libc::SOL_SOCKET,
            SO_MEMINFO,
            numbers.as_mut_ptr().cast(),
            &raw mut len,
        )
    };
    if answer != 0 {
        return Err(io::Error::last_os_error());
    }
    let number = |index: libc::c_int| numbers[index as usize];
    // TCP counts the bytes that it has queued; other sockets count the memory that was allocated for them.
    let taken = number(libc::SK_MEMINFO_WMEM_QUEUED).max(number(libc::SK_MEMINFO_WMEM_ALLOC));
    Ok(number(libc::SK_MEMINFO_SNDBUF).saturating_sub(taken) as usize)
}

/// The process at the other end of a Unix socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PeerProcess {
    /// The process that has connected, or listened; 0 if it is not in this process's namespace.
    pub pid: i32,
    /// Its effective user then.
    pub uid: u32,
}

/// Asks for `SO_PEERCRED` (unix(7)). rustix has it, too, but knows no process with the id 0.
///
/// # Errors
/// The error of `getsockopt(2)`.
pub fn peer(fd: impl AsFd) -> io::Result<PeerProcess> {
    let mut peer = libc::ucred { pid: 0, uid: u32::MAX, gid: u32::MAX };
    let mut len = size_of::<libc::ucred>() as libc::socklen_t;
    // SAFETY: the kernel writes at most `len` bytes, which is the size of `peer`. Any bits are valid for its integers.
    // The descriptor is open.
    let answer = unsafe {
        libc::getsockopt(
            fd.as_fd().as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERCRED,
            (&raw mut peer).cast(),
            &raw mut len,
        )
    };
    if answer != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(PeerProcess { pid: peer.pid, uid: peer.uid })
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

    #[test]
    fn a_socket_knows_what_it_would_still_take() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let tcp = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let _peer = listener.accept().unwrap();
        let (unix, _other) = std::os::unix::net::UnixStream::pair().unwrap();
        tcp.set_nonblocking(true).unwrap();
        unix.set_nonblocking(true).unwrap();
        for fd in [tcp.as_fd(), unix.as_fd()] {
            let before = send_room(fd).unwrap();
            let mut sent = 0;
            // As long as there is room for a piece by this figure, the whole piece is taken.
            while send_room(fd).unwrap() >= 8192 {
                let flags = rustix::net::SendFlags::NOSIGNAL;
                assert_eq!(rustix::net::send(fd, &[0; 4096], flags).unwrap(), 4096);
                sent += 4096;
            }
            assert!(before > 8192 && sent > 0, "{before} {sent}");
        }
        let (pipe, _end) = io::pipe().unwrap();
        assert_eq!(send_room(&pipe).unwrap_err().raw_os_error(), Some(libc::ENOTSOCK));
    }

    #[test]
    fn a_unix_socket_knows_who_is_there() {
        let (unix, _other) = std::os::unix::net::UnixStream::pair().unwrap();
        let own = PeerProcess { pid: std::process::id().cast_signed(), uid: rustix::process::geteuid().as_raw() };
        assert_eq!(peer(&unix).unwrap(), own);
        let (pipe, _end) = io::pipe().unwrap();
        assert_eq!(peer(&pipe).unwrap_err().raw_os_error(), Some(libc::ENOTSOCK));
    }

    #[test]
    fn a_connection_knows_itself_and_a_unix_socket_does_not() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let info = tcp_info(&client).unwrap();
        assert!(info.snd_cwnd > 0 && info.rcv_space > 0, "{info:?}");
        let (unix, _other) = std::os::unix::net::UnixStream::pair().unwrap();
        assert!(tcp_info(&unix).is_err());
    }
}
