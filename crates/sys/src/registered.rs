//! Registration of a shared descriptor with the loop's epoll.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// Registers `fd` with the tokio runtime of this thread.
///
/// # Errors
/// What `epoll_ctl(2)` answers.
///
/// # Panics
/// Outside a tokio runtime with I/O enabled.
pub fn register(fd: Arc<OwnedFd>, interest: Interest) -> io::Result<AsyncFd<Arc<OwnedFd>>> {
    // SAFETY: the `AsyncFd` owns a reference to the `OwnedFd`, so the descriptor stays open and stays the same one
    // for as long as the registration lives; `OwnedFd` offers no way to replace its number behind a shared reference.
    unsafe { AsyncFd::register_with_interest(fd, interest) }.map_err(Into::into)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_registered_descriptor_outlives_its_other_holders() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().unwrap();
        runtime.block_on(async {
            let (ours, theirs) = std::os::unix::net::UnixStream::pair().unwrap();
            ours.set_nonblocking(true).unwrap();
            let fd = Arc::new(OwnedFd::from(ours));
            let registered = register(fd.clone(), Interest::READABLE).unwrap();
            drop(fd);
            std::io::Write::write_all(&mut &theirs, b"x").unwrap();
            registered.readable().await.unwrap().retain_ready();
            let mut buffer = [0; 4];
            assert_eq!(rustix::io::read(registered.get_ref(), &mut buffer).unwrap(), 1);
        });
    }
}
