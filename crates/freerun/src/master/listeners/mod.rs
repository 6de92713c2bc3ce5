//! Listening sockets: bound by the master, or inherited; kept over reloads, used by the worker.

mod inherited;

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Duration;

use freerun_conf::path_of;
use freerun_http::settings::listen::SERVICE;
use freerun_runtime::log::{Errno, ErrorLog, Level};
use freerun_runtime::net::choose_congestion_control;
use freerun_runtime::net::udp::steering;
use freerun_serve::listen::{Keepalive, ListenKey, ListenSpec, Protocol};
use rustix::io::Errno as Code;
use socket2::{Domain, SockAddr, Socket, TcpKeepalive, Type};

use crate::error::Error;

/// The most attempts to bind a busy address.
const TRIES: u32 = 5;

/// The pause between two attempts.
const PAUSE: Duration = Duration::from_millis(500);

/// The sockets of one address, and the parameters that they were made with.
#[derive(Clone, Debug)]
struct BoundAddress {
    spec: ListenSpec,
    /// A single socket, or one for each loop ([`ListenSpec::is_sharded`]), and the sockets of loops that there were
    /// before.
    sockets: Vec<Arc<Socket>>,
    origin: Origin,
}

/// The process that has made a socket. It may need the file of a Unix socket when this process ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The process itself.
    Own,
    /// The old binary, in whose place this process was started.
    OldBinary,
    /// The service manager (`LISTEN_FDS`).
    Manager,
}

/// Whether other processes serve the same sockets.
#[derive(Clone, Copy, Debug, Default)]
pub struct OtherBinaries {
    /// The old binary lives, whose sockets this process has inherited.
    pub old_binary: bool,
    /// A new binary lives, which has inherited all sockets.
    pub new_binary: bool,
}

/// The sockets of one configuration. Addresses that two configurations have in common share the sockets.
#[derive(Clone, Debug, Default)]
pub struct Listeners(BTreeMap<ListenKey, BoundAddress>);

impl Listeners {
    /// The specifications of the sockets.
    pub fn specs(&self) -> impl Iterator<Item = &ListenSpec> {
        self.0.values().map(|bound| &bound.spec)
    }

    /// Sockets for these addresses, from `self` if it has them, new ones otherwise. `self` does not change, except for
    /// the options and backlogs of the sockets that are kept. Errors are logged with nginx's messages.
    ///
    /// # Errors
    /// An address cannot be bound; this repeats the last message.
    pub fn extend(&self, specs: &[ListenSpec], loops: usize, log: &ErrorLog) -> Result<Listeners, Error> {
        let mut new = Listeners::default();
        for attempt in 1.. {
            let mut busy = None;
            for spec in specs {
                if new.0.contains_key(&spec.key()) {
                    continue;
                }
                match self.bind(spec, loops, log) {
                    Ok(bound) => {
                        new.0.insert(spec.key(), bound);
                    }
                    Err(error) => {
                        log.write(Level::Emerg, None, format_args!("{error}"));
                        match error {
                            Error::Call { error: ref why, .. } if Code::from_io_error(why) == Some(Code::ADDRINUSE) => {
                                busy = Some(error);
                            }
                            error => return Err(error),
                        }
                    }
                }
            }
            let Some(busy) = busy else { break };
            if attempt == TRIES {
                log.write(Level::Emerg, None, format_args!("still could not bind()"));
                return Err(busy);
            }
            std::thread::sleep(PAUSE);
        }
        new.listen(log)?;
        Ok(new)
    }

    /// Has all sockets listen, after every address is bound. With `reuseport` a listening socket takes connections away
    /// from a server that is there already; a start that fails must not do that. A socket that listens already gets a
    /// new backlog in this way.
    fn listen(&self, log: &ErrorLog) -> Result<(), Error> {
        for bound in self.0.values().filter(|bound| bound.spec.protocol == Protocol::Stream) {
            for socket in &bound.sockets {
                socket.listen(bound.spec.backlog).map_err(|error| {
                    let error = failed("listen", &bound.spec)(error);
                    log.write(Level::Emerg, None, format_args!("{error}"));
                    error
                })?;
            }
        }
        Ok(())
    }

    fn bind(&self, spec: &ListenSpec, loops: usize, log: &ErrorLog) -> Result<BoundAddress, Error> {
        let wanted = spec.sockets(loops);
        let (mut sockets, origin) = match self.0.get(&spec.key()) {
            Some(bound) => {
                if bound.spec.multipath != spec.multipath {
                    // A socket has its protocol for good, and another one could not have the address beside it.
                    let what = if spec.multipath { "with" } else { "without" };
                    let message = format_args!("{} {what} \"multipath\" takes effect at the next start", spec.name);
                    log.write(Level::Warn, None, message);
                }
                (bound.sockets.clone(), bound.origin)
            }
            None => (Vec::new(), Origin::Own),
        };
        // With fewer loops than before, each reads from several sockets. If one were closed, the connections that wait there would
        // be reset.
        if !spec.is_sharded() {
            sockets.truncate(wanted);
        }
        for socket in &sockets {
            if wanted > 1 || sockets.len() > 1 {
                // All sockets of the address need the option, the first one too, for the next to be bound.
                option(log, spec, "SO_REUSEPORT", socket.set_reuse_port(true));
            }
            tune(socket, spec, log);
        }
        while sockets.len() < wanted {
            // Without `reuseport` the first socket has the address to itself, and gets the option only afterwards.
            // Another server at the address is an error, as it is with a single socket.
            let shares = spec.reuseport || !sockets.is_empty();
            sockets.push(Arc::new(open(spec, shares, log)?));
            if wanted > 1 && !shares {
                option(log, spec, "SO_REUSEPORT", sockets[0].set_reuse_port(true));
            }
        }
        if spec.protocol == Protocol::Datagram {
            steer(spec, &sockets, log);
        }
        Ok(BoundAddress { spec: spec.clone(), sockets, origin })
    }

    /// The sockets, and the sockets of addresses that only `others` has.
    pub fn with(&self, others: &Listeners) -> Listeners {
        let mut all = others.0.clone();
        all.extend(self.0.iter().map(|(key, bound)| (key.clone(), bound.clone())));
        Listeners(all)
    }

    /// The sockets of QUIC at addresses that `others` does not have.
    pub fn quic_without(&self, others: &Listeners) -> Listeners {
        let is_gone = |key: &ListenKey, bound: &BoundAddress| bound.spec.quic && !others.has(key);
        Listeners(self.0.clone().into_iter().filter(|(key, bound)| is_gone(key, bound)).collect())
    }

    /// Closes the sockets of these addresses.
    pub fn remove(&mut self, addresses: &[ListenKey]) {
        addresses.iter().for_each(|address| drop(self.0.remove(address)));
    }

    /// The addresses with their sockets.
    pub fn iter(&self) -> impl Iterator<Item = (&ListenKey, &[Arc<Socket>])> {
        self.0.iter().map(|(name, bound)| (name, bound.sockets.as_slice()))
    }

    /// Removes the files of Unix sockets that neither `kept` has nor `others` need. To be called when they are not used any
    /// more.
    pub fn unlink(&self, kept: Option<&Listeners>, others: OtherBinaries, log: &ErrorLog) {
        for bound in self.0.values() {
            let Some(path) = bound.spec.unix_path() else { continue };
            let is_needed = match bound.origin {
                Origin::Own => others.new_binary,
                Origin::OldBinary => others.new_binary || others.old_binary,
                Origin::Manager => true,
            };
            if is_needed || kept.is_some_and(|kept| kept.0.contains_key(&bound.spec.key())) {
                continue;
            }
            if let Err(error) = std::fs::remove_file(path_of(path)) {
                log.write(Level::Emerg, None, format_args!("unlink() \"{path}\" failed ({})", Errno(&error)));
            }
        }
    }
}

/// Checks whether a start could bind these addresses, for `-t`. As in nginx an address in use is no error: mostly it is
/// the running server that has it. Nothing listens meanwhile, and the files of Unix sockets are removed again.
///
/// # Errors
/// The error of the first address that cannot be bound.
pub fn try_bind(specs: &[ListenSpec]) -> Result<(), Error> {
    for spec in specs {
        let (socket, address) = socket(spec, spec.reuseport, &ErrorLog::none())?;
        match (socket.bind(&address), spec.unix_path()) {
            (Ok(()), Some(path)) => std::fs::remove_file(path_of(path)).map_err(Error::named("unlink", path))?,
            (Ok(()), None) => {}
            (Err(error), _) if Code::from_io_error(&error) == Some(Code::ADDRINUSE) => {}
            (Err(error), _) => return Err(failed("bind", spec)(error)),
        }
    }
    Ok(())
}

/// Logs a failed option, as nginx does: the server can serve without it.
fn option(log: &ErrorLog, spec: &ListenSpec, what: &str, result: io::Result<()>) {
    if let Err(error) = result {
        let message = format_args!("{what} on {} failed, ignored ({})", spec.name, Errno(&error));
        log.write(Level::Alert, None, message);
    }
}

/// Has the kernel choose among the sockets of an address for datagrams: for QUIC by the ID of the connection, otherwise by the
/// client. The sockets are in the order in which they were bound.
fn steer(spec: &ListenSpec, sockets: &[Arc<Socket>], log: &ErrorLog) {
    let [first, _, ..] = sockets else { return };
    if !spec.quic {
        // An earlier configuration, or another binary, may have had QUIC there.
        let _ = steering::steer_by_addresses(first);
        return;
    }
    let number = u8::try_from(sockets.len()).unwrap_or(u8::MAX);
    if let Err(error) = steering::steer_by_connection_id(first, number) {
        let (name, why) = (&spec.name, Errno(&error));
        let message = format_args!("packets of QUIC on {name} come to any socket, and are passed on ({why})");
        log.write(Level::Notice, None, message);
    }
}

/// A socket for the address, with the options that binding depends on, and the address itself. `shares`: other sockets
/// may have the address, too.
fn socket(spec: &ListenSpec, shares: bool, log: &ErrorLog) -> Result<(Socket, SockAddr), Error> {
    let address = match (spec.ip, spec.unix_path()) {
        (Some(ip), _) => SockAddr::from(ip),
        (None, path) => SockAddr::unix(path_of(path.unwrap_or_default())).map_err(failed("bind", spec))?,
    };
    let kind = match spec.protocol {
        Protocol::Stream => Type::STREAM,
        Protocol::Datagram => Type::DGRAM,
    };
    let domain = Domain::from(i32::from(address.family()));
    let socket = if spec.multipath { multipath(domain, spec, log) } else { Socket::new(domain, kind, None) };
    let socket = socket.map_err(failed("socket", spec))?;
    socket.set_nonblocking(true).map_err(failed("fcntl", spec))?;
    // For datagrams the option would let any number of servers have the address (socket(7)).
    if spec.ip.is_some() && spec.protocol == Protocol::Stream {
        socket.set_reuse_address(true).map_err(failed("setsockopt(SO_REUSEADDR)", spec))?;
    }
    if spec.ip.is_some_and(|ip| ip.is_ipv6()) {
        socket.set_only_v6(spec.ipv6only).map_err(failed("setsockopt(IPV6_V6ONLY)", spec))?;
    }
    if shares {
        socket.set_reuse_port(true).map_err(failed("setsockopt(SO_REUSEPORT)", spec))?;
    }
    Ok((socket, address))
}

/// A socket of Multipath TCP, or of TCP alone if the kernel lacks Multipath TCP or has it switched off
/// (`net.mptcp.enabled`). Clients then use one path, as clients without Multipath TCP do.
fn multipath(domain: Domain, spec: &ListenSpec, log: &ErrorLog) -> io::Result<Socket> {
    match Socket::new(domain, Type::STREAM, Some(socket2::Protocol::MPTCP)) {
        Err(error) if lacks_protocol(&error) => {
            let (name, why) = (&spec.name, Errno(&error));
            log.write(Level::Notice, None, format_args!("multipath on {name} is not possible, TCP is used ({why})"));
            Socket::new(domain, Type::STREAM, None)
        }
        made => made,
    }
}

/// Whether a protocol is not there (socket(2), and the kernel's `Documentation/networking/mptcp-sysctl.rst`).
fn lacks_protocol(error: &io::Error) -> bool {
    matches!(Code::from_io_error(error), Some(Code::PROTONOSUPPORT | Code::NOPROTOOPT | Code::INVAL))
}

fn open(spec: &ListenSpec, shares: bool, log: &ErrorLog) -> Result<Socket, Error> {
    let (socket, address) = socket(spec, shares, log)?;
    tune(&socket, spec, log);
    if spec.protocol == Protocol::Datagram {
        let is_ipv6 = spec.ip.is_some_and(|address| address.is_ipv6());
        option(log, spec, "setsockopt(IP_PKTINFO)", spec.datagram_options().apply(&socket, is_ipv6));
    }
    match (socket.bind(&address), spec.unix_path()) {
        (Ok(()), _) => {}
        (Err(error), Some(path)) if Code::from_io_error(&error) == Some(Code::ADDRINUSE) && is_stale(path) => {
            // A server that was killed has left it behind.
            std::fs::remove_file(path_of(path)).map_err(Error::named("unlink", path))?;
            socket.bind(&address).map_err(failed("bind", spec))?;
        }
        (Err(error), _) => return Err(failed("bind", spec)(error)),
    }
    if let Some(path) = spec.unix_path() {
        // As in nginx: a process that may reach the folder may connect.
        let everyone = std::fs::Permissions::from_mode(0o666);
        std::fs::set_permissions(path_of(path), everyone).map_err(Error::named("chmod", path))?;
    }
    Ok(socket)
}

/// Makes an error in nginx's words: `bind() to 0.0.0.0:80`, `listen() to …, backlog 511`.
fn failed<'a>(call: &'a str, spec: &'a ListenSpec) -> impl FnOnce(io::Error) -> Error + use<'a> {
    move |error| {
        let call = match call {
            "listen" => format!("listen() to {}, backlog {}", spec.name, spec.backlog),
            "bind" => format!("bind() to {}", spec.name),
            call if call.contains('(') => format!("{call} {}", spec.name),
            call => format!("{call}() {}", spec.name),
        };
        Error::Call { call, error }
    }
}

/// Whether no process listens at the socket file.
fn is_stale(path: &str) -> bool {
    UnixStream::connect(path).is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused)
}

/// Sets the options that may change over a reload.
fn tune(socket: &Socket, spec: &ListenSpec, log: &ErrorLog) {
    if let Some(size) = spec.rcvbuf {
        option(log, spec, "setsockopt(SO_RCVBUF)", socket.set_recv_buffer_size(size as usize));
    }
    if let Some(size) = spec.sndbuf {
        option(log, spec, "setsockopt(SO_SNDBUF)", socket.set_send_buffer_size(size as usize));
    }
    if let Some(keepalive) = spec.so_keepalive.filter(|_| spec.protocol == Protocol::Stream) {
        let on = keepalive != Keepalive::Off;
        option(log, spec, "setsockopt(SO_KEEPALIVE)", socket.set_keepalive(on));
        if let Keepalive::On(idle, interval, count) = keepalive
            && (idle, interval, count) != (None, None, None)
        {
            let mut parameters = TcpKeepalive::new();
            if let Some(idle) = idle {
                parameters = parameters.with_time(Duration::from_secs(idle.into()));
            }
            if let Some(interval) = interval {
                parameters = parameters.with_interval(Duration::from_secs(interval.into()));
            }
            if let Some(count) = count {
                parameters = parameters.with_retries(count);
            }
            option(log, spec, "setsockopt(TCP_KEEPIDLE)", socket.set_tcp_keepalive(&parameters));
        }
    }
    if let Some(address) = spec.ip.filter(|_| spec.protocol == Protocol::Stream) {
        // Accepted sockets inherit it.
        choose_congestion_control(socket, address.ip());
        if spec.deferred {
            option(log, spec, "setsockopt(TCP_DEFER_ACCEPT)", freerun_sys::socket::set_defer_accept(socket, 1));
        }
        if let Some(queue) = spec.fastopen {
            let queue = i32::try_from(queue).unwrap_or(i32::MAX);
            option(log, spec, "setsockopt(TCP_FASTOPEN)", freerun_sys::socket::set_fastopen(socket, queue));
        }
    }
}

/// A socket at an address without options, and the address with the port that it got.
pub fn bind_plain(address: SocketAddr, log: &ErrorLog) -> Result<(Listeners, SocketAddr), Error> {
    let mut spec = ListenSpec::new(SERVICE, Some(address), address.to_string());
    let socket = open(&spec, spec.reuseport, log)?;
    socket.listen(spec.backlog).map_err(failed("listen", &spec))?;
    let address = socket.local_addr().ok().and_then(|address| address.as_socket()).unwrap_or(address);
    spec.ip = Some(address);
    spec.name = address.to_string();
    let bound = BoundAddress { spec: spec.clone(), sockets: vec![Arc::new(socket)], origin: Origin::Own };
    Ok((Listeners(BTreeMap::from([(spec.key(), bound)])), address))
}

#[cfg(test)]
mod tests;
