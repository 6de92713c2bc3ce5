//! Connecting to a peer without blocking in a system call.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;
use std::sync::Arc;

use freerun_runtime::files::SocketPaths;
use freerun_runtime::log::Level;
use freerun_runtime::net::Socket;
use freerun_runtime::net::udp::Datagrams;
use freerun_transport::Transport;
use rustix::io::Errno;
use rustix::net::{AddressFamily, Protocol, SocketFlags, SocketType, ipproto, sockopt};
use socket2::SockRef;

use crate::address::UpstreamAddress;

/// The settings of a connection: `proxy_bind`, `proxy_socket_*` and the corresponding directives of the other modules.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ConnectOptions {
    /// The local address to connect from; port 0 leaves the port to the kernel. It has no meaning for a Unix socket.
    pub bind: Option<SocketAddr>,
    /// Whether the local address need not be one of this machine (`IP_TRANSPARENT`, ip(7), which takes a privilege).
    pub transparent: bool,
    /// `SO_SNDBUF` in bytes.
    pub sndbuf: Option<usize>,
    /// `SO_RCVBUF` in bytes.
    pub rcvbuf: Option<usize>,
    /// Whether the socket has `SO_KEEPALIVE`.
    pub keepalive: bool,
    /// Whether the socket has `TCP_NODELAY`.
    pub nodelay: bool,
}

/// The reason why there is no connection. It says which system call failed, for the text of the log.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// No socket could be made: there are too many descriptors, or the system lacks the address family.
    #[error("socket() failed")]
    Socket(#[source] io::Error),
    /// The socket did not accept an option.
    #[error("{0} failed")]
    Option(&'static str, #[source] io::Error),
    /// The socket could not be bound to the local address.
    #[error("bind({0}) failed")]
    Bind(SocketAddr, #[source] io::Error),
    /// `connect(2)` itself failed: there is no route, no such Unix socket, or no local port.
    #[error("connect() to {0} failed")]
    Refused(UpstreamAddress, #[source] io::Error),
    /// The path of a Unix socket had to be looked up in a thread pool, which took no task.
    #[error("connect() to {0} failed")]
    NoThread(UpstreamAddress, #[source] io::Error),
    /// The peer, or the network on the way to it, reported an error later.
    #[error("connect() failed")]
    Failed(#[source] io::Error),
}

impl ConnectError {
    /// The error of the system call.
    pub fn io(&self) -> &io::Error {
        match self {
            ConnectError::Socket(error)
            | ConnectError::Option(_, error)
            | ConnectError::Bind(_, error)
            | ConnectError::Refused(_, error)
            | ConnectError::NoThread(_, error)
            | ConnectError::Failed(error) => error,
        }
    }

    /// The level that nginx logs the error with.
    pub fn level(&self) -> Level {
        let usual = [
            Errno::CONNREFUSED,
            Errno::CONNRESET,
            Errno::NETDOWN,
            Errno::NETUNREACH,
            Errno::HOSTDOWN,
            Errno::HOSTUNREACH,
            Errno::TIMEDOUT,
        ];
        match self {
            ConnectError::Socket(_) | ConnectError::Option(..) | ConnectError::NoThread(..) => Level::Alert,
            error if Errno::from_io_error(error.io()).is_some_and(|code| usual.contains(&code)) => Level::Error,
            _ => Level::Crit,
        }
    }

    /// Whether the peer is to blame: it, or the network on the way to it, did not accept the connection.
    pub fn is_of_peer(&self) -> bool {
        matches!(self, ConnectError::Refused(..) | ConnectError::Failed(_))
    }
}

/// Connects to an address. The caller bounds the time by dropping the future.
///
/// A connection that is established at once, as on the loopback and with Unix sockets, is not registered with the loop
/// yet. It costs no poll of the loop's events, and its first write can be tried right away.
///
/// # Errors
/// [`ConnectError`].
pub async fn connect(
    address: &UpstreamAddress,
    options: &ConnectOptions,
    paths: SocketPaths<'_>,
) -> Result<Transport, ConnectError> {
    let (socket, pending) = open(address, options, paths, (SocketType::STREAM, ipproto::TCP)).await?;
    let socket = Socket::new(socket);
    if pending {
        socket.connected().await.map_err(ConnectError::Failed)?;
    }
    Ok(socket.into())
}

/// Makes a socket for datagrams to and from one address. Nothing is sent by it, so only the path of a Unix socket may have
/// to be waited for, and the peer need not be there.
///
/// # Errors
/// [`ConnectError`].
pub async fn connect_datagrams(
    address: &UpstreamAddress,
    options: &ConnectOptions,
    paths: SocketPaths<'_>,
) -> Result<Datagrams, ConnectError> {
    let options = ConnectOptions { keepalive: false, nodelay: false, ..*options };
    let (socket, _) = open(address, &options, paths, (SocketType::DGRAM, ipproto::UDP)).await?;
    Ok(Datagrams::connected(Arc::new(socket)))
}

/// Makes a socket of a kind, and connects it. The socket has the protocol unless the address names a Unix socket.
/// Returns it and whether the connection has to be waited for.
async fn open(
    address: &UpstreamAddress,
    options: &ConnectOptions,
    paths: SocketPaths<'_>,
    (kind, protocol): (SocketType, Protocol),
) -> Result<(OwnedFd, bool), ConnectError> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let (family, protocol) = match address {
        UpstreamAddress::Ip(SocketAddr::V4(_)) => (AddressFamily::INET, Some(protocol)),
        UpstreamAddress::Ip(SocketAddr::V6(_)) => (AddressFamily::INET6, Some(protocol)),
        UpstreamAddress::Unix(_) => (AddressFamily::UNIX, None),
    };
    let socket =
        rustix::net::socket_with(family, kind, flags, protocol).map_err(|error| ConnectError::Socket(error.into()))?;
    prepare(&socket, address, options, kind == SocketType::STREAM)?;
    let refused = |error| ConnectError::Refused(address.clone(), error);
    match address {
        UpstreamAddress::Ip(ip) => match rustix::net::connect(&socket, ip) {
            Ok(()) => Ok((socket, false)),
            Err(Errno::INPROGRESS) => Ok((socket, true)),
            Err(error) => Err(refused(error.into())),
        },
        UpstreamAddress::Unix(path) => match paths.connect(socket, path).await {
            Ok(socket) => Ok((socket, false)),
            Err(error) if error.raw_os_error().is_none() => Err(ConnectError::NoThread(address.clone(), error)),
            Err(error) => Err(refused(error)),
        },
    }
}

fn prepare(
    socket: &OwnedFd,
    address: &UpstreamAddress,
    options: &ConnectOptions,
    is_stream: bool,
) -> Result<(), ConnectError> {
    let option = |name| move |error: Errno| ConnectError::Option(name, error.into());
    if options.keepalive {
        sockopt::set_socket_keepalive(socket, true).map_err(option("setsockopt(SO_KEEPALIVE)"))?;
    }
    if let Some(size) = options.sndbuf {
        sockopt::set_socket_send_buffer_size(socket, size).map_err(option("setsockopt(SO_SNDBUF)"))?;
    }
    if let Some(size) = options.rcvbuf {
        sockopt::set_socket_recv_buffer_size(socket, size).map_err(option("setsockopt(SO_RCVBUF)"))?;
    }
    let UpstreamAddress::Ip(to) = address else { return Ok(()) };
    if options.nodelay {
        sockopt::set_tcp_nodelay(socket, true).map_err(option("setsockopt(TCP_NODELAY)"))?;
    }
    if is_stream {
        freerun_runtime::net::choose_congestion_control(socket, to.ip());
    }
    let Some(from) = options.bind.filter(|from| from.is_ipv4() == to.is_ipv4()) else { return Ok(()) };
    if options.transparent {
        let socket = SockRef::from(socket);
        let (answer, name) = match from.ip() {
            IpAddr::V4(_) => (socket.set_ip_transparent_v4(true), "setsockopt(IP_TRANSPARENT)"),
            IpAddr::V6(_) => (socket.set_ip_transparent_v6(true), "setsockopt(IPV6_TRANSPARENT)"),
        };
        answer.map_err(|error| ConnectError::Option(name, error))?;
    }
    if from.port() == 0 {
        // Otherwise `bind` would reserve a port that no other connection from this address could use, whatever its
        // peer. Without the option binding still works.
        let _ = freerun_sys::socket::set_bind_address_no_port(socket);
    }
    rustix::net::bind(socket, &from).map_err(|error| ConnectError::Bind(from, error.into()))
}

#[cfg(test)]
mod tests {
    use std::io::IoSlice;
    use std::net::{TcpListener, TcpStream, UdpSocket};
    use std::os::unix::net::UnixListener;
    use std::path::Path;

    use freerun_runtime::files::FileSystem;
    use freerun_runtime::net::udp::{DatagramTarget, Runs};
    use freerun_runtime::pool::{PoolSpec, ThreadPool};

    use super::*;

    fn run<T>(future: impl Future<Output = T>) -> T {
        freerun_runtime::loops::block_on(future).unwrap()
    }

    /// A thread pool, and the file operations that use it.
    struct Files {
        pool: Arc<ThreadPool>,
        files: Arc<FileSystem>,
    }

    impl Files {
        fn new() -> Files {
            let pool = ThreadPool::start(&PoolSpec::named("connect")).unwrap();
            Files { files: FileSystem::new(pool.clone()).unwrap(), pool }
        }

        fn paths(&self) -> SocketPaths<'_> {
            SocketPaths { files: &self.files, pool: &self.pool, client: 1 }
        }
    }

    async fn connected(address: &UpstreamAddress, options: &ConnectOptions) -> Result<Transport, ConnectError> {
        connect(address, options, Files::new().paths()).await
    }

    fn loopback() -> (TcpListener, UpstreamAddress) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().into();
        (listener, address)
    }

    #[test]
    fn a_connection_is_made_from_the_address_asked_for_and_can_be_written_to() {
        let (listener, address) = loopback();
        run(async {
            let bind = Some("127.0.0.2:0".parse().unwrap());
            let options =
                ConnectOptions { bind, keepalive: true, nodelay: true, sndbuf: Some(65536), ..Default::default() };
            let socket = connected(&address, &options).await.unwrap();
            let (_, from) = listener.accept().unwrap();
            assert_eq!(from.ip().to_string(), "127.0.0.2");
            assert_eq!(socket.try_write(&[IoSlice::new(b"hello")], false).unwrap(), 5);
            assert_eq!(sockopt::tcp_congestion(&*socket.shared_fd()).unwrap(), "reno");
            assert!(
                sockopt::socket_keepalive(&*socket.shared_fd()).unwrap()
                    && sockopt::tcp_nodelay(&*socket.shared_fd()).unwrap()
            );
        });
    }

    #[test]
    fn datagrams_go_to_one_peer_from_the_address_asked_for_and_come_from_no_other() {
        let (peer, other) = (UdpSocket::bind("127.0.0.1:0").unwrap(), UdpSocket::bind("127.0.0.1:0").unwrap());
        let address = UpstreamAddress::from(peer.local_addr().unwrap());
        run(async {
            let bind = Some("127.0.0.2:0".parse().unwrap());
            let options = ConnectOptions { bind, nodelay: true, keepalive: true, ..Default::default() };
            let socket = connect_datagrams(&address, &options, Files::new().paths()).await.unwrap();
            let mut runs = Runs::default();
            runs.push(DatagramTarget::default(), b"question", None);
            socket.send(&runs, |unsent| panic!("{unsent:?}"));
            let mut buffer = [0; 20];
            let (len, from) = peer.recv_from(&mut buffer).unwrap();
            assert_eq!((&buffer[..len], from.ip().to_string().as_str()), (&b"question"[..], "127.0.0.2"));
            other.send_to(b"wrong", from).unwrap();
            peer.send_to(b"right", from).unwrap();
            let got = socket.try_receive(8, |got| got.iter().map(|one| one.bytes.to_vec()).collect::<Vec<_>>());
            assert_eq!(got.unwrap(), [b"right"]);
        });
        let nowhere = UpstreamAddress::Unix(Path::new("/nonexistent/socket").into());
        let files = Files::new();
        let error = run(connect_datagrams(&nowhere, &ConnectOptions::default(), files.paths())).unwrap_err();
        assert_eq!(error.to_string(), "connect() to unix:/nonexistent/socket failed");
    }

    #[test]
    fn a_refused_connection_says_so() {
        let (listener, address) = loopback();
        drop(listener);
        let error = run(connected(&address, &ConnectOptions::default())).unwrap_err();
        assert_eq!(error.to_string(), "connect() failed");
        assert_eq!(error.io().kind(), io::ErrorKind::ConnectionRefused);
        assert!(error.is_of_peer());
    }

    #[test]
    fn an_address_that_is_not_ours_cannot_be_bound() {
        let (_listener, address) = loopback();
        let options = ConnectOptions { bind: Some("192.0.2.1:0".parse().unwrap()), ..Default::default() };
        let error = run(connected(&address, &options)).unwrap_err();
        assert_eq!(error.to_string(), "bind(192.0.2.1:0) failed");
        assert_eq!(error.io().kind(), io::ErrorKind::AddrNotAvailable);
        assert!(!error.is_of_peer());
        // A bind address of another family than the peer's has no effect.
        let other = ConnectOptions { bind: Some("[2001:db8::1]:0".parse().unwrap()), ..Default::default() };
        run(connected(&address, &other)).unwrap();
    }

    #[test]
    fn unix_sockets_are_connected_to_at_once_or_not_at_all() {
        let folder = std::env::temp_dir().join(format!("freerun-connect-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let path = folder.join("s");
        let address = UpstreamAddress::Unix(path.as_path().into());
        let error = run(connected(&address, &ConnectOptions::default())).unwrap_err();
        assert_eq!(error.to_string(), format!("connect() to unix:{} failed", path.display()));
        assert_eq!(error.io().kind(), io::ErrorKind::NotFound);
        let listener = UnixListener::bind(&path).unwrap();
        run(connected(&address, &ConnectOptions::default())).unwrap();
        drop(listener);
        let error = run(connected(&address, &ConnectOptions::default())).unwrap_err();
        assert_eq!(error.io().kind(), io::ErrorKind::ConnectionRefused);
        std::fs::remove_dir_all(&folder).unwrap();
        let long = UpstreamAddress::Unix(Path::new(&"x".repeat(200)).into());
        assert!(run(connected(&long, &ConnectOptions::default())).is_err());
    }

    #[test]
    fn a_peer_that_takes_no_connection_is_waited_for_until_it_does() {
        let listener = rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
        rustix::net::bind(&listener, &"127.0.0.1:0".parse::<SocketAddr>().unwrap()).unwrap();
        rustix::net::listen(&listener, 0).unwrap();
        let address = SocketAddr::try_from(rustix::net::getsockname(&listener).unwrap()).unwrap();
        let _queued = TcpStream::connect(address).unwrap();
        run(async {
            // The queue is full: the handshake of this connection is not answered.
            let (waiting, options) = (UpstreamAddress::Ip(address), ConnectOptions::default());
            let connecting = connected(&waiting, &options);
            let mut connecting = std::pin::pin!(connecting);
            let first =
                std::future::poll_fn(|cx| std::task::Poll::Ready(connecting.as_mut().poll(cx).is_pending())).await;
            assert!(first);
            let _taken = rustix::net::accept(&listener).unwrap();
            connecting.await.unwrap();
        });
    }
}
