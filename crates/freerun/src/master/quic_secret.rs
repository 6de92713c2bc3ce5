//! The secret for tokens and stateless resets of QUIC. The master makes it once, and a new binary gets it from the old one.
//! So a client that comes back is known by its token, and one whose connection has gone hears that.

use std::env;
use std::io::{self, Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use freerun_serve::tls::files::Secret;
use freerun_sys::inherited::take_socket;
use zeroize::Zeroizing;

/// The variable with the number of a socket from which a new binary reads the secret. An environment can be read by others.
pub const QUIC_SECRET: &str = "FREERUN_QUIC_SECRET";

/// The number of its bytes.
const LEN: usize = 32;

/// The longest wait for the secret, which is there before the new binary begins.
const PATIENCE: Duration = Duration::from_secs(1);

/// Makes a secret. The kernel gives its bytes: the first ones of the generator for TLS cost a process 20 ms of a processor,
/// and most configurations need none of them.
///
/// # Errors
/// The error of `getrandom(2)`.
pub fn make() -> io::Result<Secret> {
    let mut bytes = Zeroizing::new(vec![0; LEN]);
    getrandom::fill(&mut bytes)?;
    Ok(Secret::new(bytes))
}

/// A socket that has the secret, and stays open in a program that this process executes.
///
/// # Errors
/// The error of `socketpair(2)`, `write(2)` or `dup(2)`.
pub fn inheritable(secret: &Secret) -> io::Result<OwnedFd> {
    let (mut mine, theirs) = UnixStream::pair()?;
    mine.write_all(secret.bytes())?;
    Ok(rustix::io::dup(&theirs)?)
}

/// The secret of the old binary, if that has one.
pub fn take() -> Option<Secret> {
    let number = env::var(QUIC_SECRET).ok()?.parse().ok()?;
    read(take_socket(number).ok()?).ok()
}

fn read(socket: OwnedFd) -> io::Result<Secret> {
    let mut socket = UnixStream::from(socket);
    socket.set_nonblocking(false)?;
    socket.set_read_timeout(Some(PATIENCE))?;
    let mut bytes = Zeroizing::new(vec![0; LEN]);
    socket.read_exact(&mut bytes)?;
    Ok(Secret::new(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_goes_over_to_another_process() {
        let secret = make().unwrap();
        assert_eq!(secret.bytes().len(), LEN);
        assert_ne!(secret, make().unwrap());
        assert_eq!(read(inheritable(&secret).unwrap()).unwrap(), secret);
        let short = inheritable(&Secret::new(vec![1; LEN - 1])).unwrap();
        assert!(read(short).is_err(), "nobody writes the rest");
    }
}
