//! Sockets that come from another process, and those that go to one.

use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::Arc;

use freerun_conf::text_of_os;
use freerun_serve::listen::{ListenKey, ListenSpec, Protocol};
use rustix::io::Errno as Code;
use socket2::{Socket, Type};

use super::{BoundAddress, Listeners, Origin};

/// The name of the service of a socket whose `listen` directive is not known yet.
const UNKNOWN: &str = "";

impl Listeners {
    /// Takes a socket of another process under the address that it is bound to. Several sockets of one address belong
    /// to `reuseport`.
    ///
    /// # Errors
    /// It has no address that `listen` could name, or the error of getsockname(2).
    pub fn inherit(&mut self, socket: OwnedFd, origin: Origin) -> io::Result<ListenKey> {
        let socket = Socket::from(socket);
        let spec = spec_of(&socket)?;
        // A service manager may hand over a blocking socket.
        socket.set_nonblocking(true)?;
        let key = spec.key();
        let bound = self.0.entry(key.clone()).or_insert_with(|| BoundAddress { spec, sockets: Vec::new(), origin });
        bound.sockets.push(Arc::new(socket));
        Ok(key)
    }

    /// Whether there is a socket of this address.
    pub fn has(&self, key: &ListenKey) -> bool {
        self.0.contains_key(key)
    }

    /// Copies of all sockets which, unlike the sockets themselves, stay open in a program that this process executes.
    ///
    /// # Errors
    /// The error of dup(2).
    pub fn inheritable(&self) -> io::Result<Vec<(Origin, OwnedFd)>> {
        let all = self.0.values().flat_map(|bound| bound.sockets.iter().map(|socket| (bound.origin, socket)));
        all.map(|(origin, socket)| Ok((origin, rustix::io::dup(socket.as_fd())?))).collect()
    }
}

/// The specification of a socket by its address alone: its options are those that the process set which made it.
fn spec_of(socket: &Socket) -> io::Result<ListenSpec> {
    let protocol = match socket.r#type()? {
        Type::STREAM => Protocol::Stream,
        Type::DGRAM => Protocol::Datagram,
        _ => return Err(Code::PROTOTYPE.into()),
    };
    let address = socket.local_addr()?;
    let name = match (address.as_socket(), address.as_pathname()) {
        (Some(ip), _) => ip.to_string(),
        (None, Some(path)) => format!("unix:{}", text_of_os(&path)),
        (None, None) => return Err(Code::AFNOSUPPORT.into()),
    };
    let mut spec = ListenSpec::new(UNKNOWN, address.as_socket(), name);
    spec.protocol = protocol;
    spec.multipath = socket.protocol().ok().flatten() == Some(socket2::Protocol::MPTCP);
    Ok(spec)
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, UdpSocket};
    use std::os::unix::net::{UnixListener, UnixStream};

    use freerun_runtime::log::ErrorLog;

    use super::super::OtherBinaries;
    use super::*;

    #[test]
    fn sockets_of_every_kind_are_found_by_their_address() {
        let path = std::env::temp_dir().join(format!("freerun-inherited-{}", std::process::id()));
        let _ = std::fs::remove_file(&path);
        let (tcp, udp) = (TcpListener::bind("127.0.0.1:0").unwrap(), UdpSocket::bind("127.0.0.1:0").unwrap());
        let unix = UnixListener::bind(&path).unwrap();
        let address = tcp.local_addr().unwrap();
        let mut listeners = Listeners::default();
        let wanted = [address.to_string(), udp.local_addr().unwrap().to_string(), format!("unix:{}", path.display())];
        let copy = OwnedFd::from(tcp.try_clone().unwrap());
        let keys: Vec<ListenKey> = [copy, OwnedFd::from(udp), OwnedFd::from(unix), OwnedFd::from(tcp)]
            .into_iter()
            .map(|fd| listeners.inherit(fd, Origin::OldBinary).unwrap())
            .collect();
        assert_eq!([&keys[0].name, &keys[1].name, &keys[2].name], [&wanted[0], &wanted[1], &wanted[2]]);
        assert_eq!(keys[1].protocol, Protocol::Datagram);
        assert_eq!(listeners.0[&keys[0]].sockets.len(), 2, "two sockets of one address");
        assert_eq!(listeners.inheritable().unwrap().len(), 4);

        // The configuration takes what it names; the socket of another binary goes on, its file stays as long as that lives.
        let log = ErrorLog::none();
        let of = |ip, name: &str| ListenSpec::new("http", ip, name.to_owned());
        let specs = [of(Some(address), &wanted[0]), of(None, &wanted[2])];
        let taken = listeners.extend(&specs, 1, &log).unwrap();
        assert!(Arc::ptr_eq(&taken.0[&keys[0]].sockets[0], &listeners.0[&keys[0]].sockets[0]));
        assert!(!taken.has(&keys[1]));
        assert_eq!(taken.0[&keys[2]].origin, Origin::OldBinary);
        for others in [
            OtherBinaries { old_binary: true, ..OtherBinaries::default() },
            OtherBinaries { new_binary: true, ..OtherBinaries::default() },
        ] {
            taken.unlink(None, others, &log);
            UnixStream::connect(&path).unwrap();
        }
        taken.unlink(None, OtherBinaries::default(), &log);
        assert!(!path.exists());
    }

    #[test]
    fn what_no_directive_could_name_is_refused() {
        let mut listeners = Listeners::default();
        let (pair, _other) = UnixStream::pair().unwrap();
        assert!(listeners.inherit(pair.into(), Origin::Manager).is_err());
        let (pipe, _end) = io::pipe().unwrap();
        assert!(listeners.inherit(pipe.into(), Origin::Manager).is_err());
        assert!(listeners.0.is_empty());
    }
}
