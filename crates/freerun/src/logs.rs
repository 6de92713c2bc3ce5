//! Opening log files.

use std::collections::BTreeMap;
use std::fs::{OpenOptions, Permissions};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs as _, UdpSocket};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::sync::Arc;

use freerun_conf::path_of;
use freerun_runtime::log::{MEMORY, NAMED, SECRETS, SYSLOG, syslog_socket};

use crate::error::Error;

/// The name of the process's stderr.
pub const STDERR: &str = "stderr";

/// Names of files that programs in containers log to: they lead to where the process writes.
const STREAMS: [&str; 2] = ["/dev/stdout", "/dev/stderr"];

/// Open log files by name.
pub type Logs = BTreeMap<String, Arc<OwnedFd>>;

/// Opens one log for appending, making the file if necessary.
pub fn open(name: &str) -> Result<OwnedFd, Error> {
    if name == STDERR {
        return rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stderr(), 3).map_err(Error::named("dup", name));
    }
    if let Some(server) = name.strip_prefix(SYSLOG) {
        return open_syslog(server);
    }
    if name.starts_with(MEMORY) || name == NAMED {
        // The worker keeps these lines in memory, or opens the files when lines come.
        return Ok(OpenOptions::new().write(true).open("/dev/null").map_err(Error::named("open", "/dev/null"))?.into());
    }
    if let Some(path) = name.strip_prefix(SECRETS) {
        return open_secret(path);
    }
    let file = OpenOptions::new().append(true).create(true).mode(0o644).open(path_of(name));
    match file.map_err(Error::named("open", name)) {
        Ok(file) => Ok(file.into()),
        // A socket cannot be opened by its name, nor the terminal of another user; the stream itself is open.
        Err(error) if STREAMS.contains(&name) => {
            let stream = if name == STREAMS[0] { rustix::stdio::stdout() } else { rustix::stdio::stderr() };
            rustix::io::fcntl_dupfd_cloexec(stream, 3).map_err(|_| error)
        }
        Err(error) => Err(error),
    }
}

/// Opens a file that nobody but its owner may read. An older file that others may read loses that right.
fn open_secret(path: &str) -> Result<OwnedFd, Error> {
    let file = OpenOptions::new().append(true).create(true).mode(0o600).open(path_of(path));
    let file = file.map_err(Error::named("open", path))?;
    let metadata = file.metadata().map_err(Error::named("fstat", path))?;
    if metadata.is_file() && metadata.permissions().mode() & 0o177 != 0 {
        file.set_permissions(Permissions::from_mode(0o600)).map_err(Error::named("fchmod", path))?;
    }
    Ok(file.into())
}

/// A socket that sends to a syslog server: `unix:PATH` or `HOST:PORT`.
fn open_syslog(server: &str) -> Result<OwnedFd, Error> {
    if let Some(path) = server.strip_prefix("unix:") {
        return syslog_socket(&path_of(path)).map_err(Error::call("socket()"));
    }
    let not_found = || Error::Configuration(format!("host not found in syslog server \"{server}\""));
    let address = server.to_socket_addrs().map_err(|_| not_found())?.next().ok_or_else(not_found)?;
    let any: SocketAddr = match address {
        SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
        SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
    };
    let socket = UdpSocket::bind(any).map_err(Error::call("socket()"))?;
    socket.connect(address).map_err(Error::named("connect", server))?;
    Ok(socket.into())
}

/// Whether the name is a path, at which another file may be by now.
fn is_path(name: &str) -> bool {
    name != STDERR && name != NAMED && !name.starts_with(SYSLOG) && !name.starts_with(MEMORY)
}

/// Opens all files, and the other logs that `known` lacks. A new configuration uses the files that exist now, as in
/// nginx, so that logs may be rotated with a reload.
pub fn open_all(names: &[String], known: &Logs) -> Result<Logs, Error> {
    let mut logs = Logs::new();
    for name in names {
        let fd = match known.get(name).filter(|_| !is_path(name)) {
            Some(fd) => fd.clone(),
            None => Arc::new(open(name)?),
        };
        logs.insert(name.clone(), fd);
    }
    Ok(logs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_for_their_owner_alone() {
        let dir = std::env::temp_dir().join(format!("freerun-secrets-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let path = dir.join("keys");
        let mode = || std::fs::metadata(&path).unwrap().permissions().mode() & 0o777;
        let name = format!("{SECRETS}{}", path.display());
        open(&name).unwrap();
        assert_eq!(mode(), 0o600);
        std::fs::set_permissions(&path, Permissions::from_mode(0o664)).unwrap();
        open(&name).unwrap();
        assert_eq!(mode(), 0o600);
        open(&format!("{SECRETS}/dev/null")).unwrap();
        std::fs::remove_dir_all(&dir).unwrap();
    }

    #[test]
    fn files_are_opened_anew_and_what_is_none_stays() {
        let dir = std::env::temp_dir().join(format!("freerun-logs-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let name = |n: &str| dir.join(n).to_str().unwrap().to_owned();
        let first = open_all(&[name("a"), STDERR.into()], &Logs::new()).unwrap();
        let second = open_all(&[name("a"), name("b")], &first).unwrap();
        assert!(!Arc::ptr_eq(&first[&name("a")], &second[&name("a")]));
        let third = open_all(&[STDERR.into()], &first).unwrap();
        assert!(Arc::ptr_eq(&first[STDERR], &third[STDERR]));
        assert!(dir.join("b").exists());
        let lost = open_all(&[name("no/dir")], &second).unwrap_err().to_string();
        assert_eq!(lost, format!("open() \"{}\" failed (2: No such file or directory)", name("no/dir")));
        std::fs::remove_dir_all(&dir).unwrap();
    }
}
