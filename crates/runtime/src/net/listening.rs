//! Listening sockets.

use std::future::poll_fn;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::task::Poll;

use crate::events::{Registration, Side};

/// A listening socket that one loop accepts from; other loops may have it too.
#[derive(Debug)]
pub struct ListeningSocket {
    fd: Arc<OwnedFd>,
    registered: Option<Registration>,
}

impl ListeningSocket {
    /// Registers the socket with the loop of this thread, which is notified of waiting connections whenever it asks for
    /// events ([`Registration::level`]).
    ///
    /// # Errors
    /// The error of `epoll_ctl(2)`.
    pub fn new(fd: Arc<OwnedFd>) -> io::Result<ListeningSocket> {
        Ok(ListeningSocket { registered: Some(Registration::level(&fd)?), fd })
    }

    /// Stops notifications while the loop does not accept.
    pub fn rest(&self) {
        if let Some(registered) = &self.registered {
            // The descriptor is registered, and nothing else can fail.
            let _ = registered.rest(&self.fd, true);
        }
    }

    /// Starts notifications again, if they were stopped. Of the loops that sleep, this one is then woken last.
    ///
    /// # Errors
    /// The error of `epoll_ctl(2)`.
    pub fn go_on(&self) -> io::Result<()> {
        self.registered.as_ref().map_or(Ok(()), |registered| registered.rest(&self.fd, false))
    }

    /// Waits until there may be a connection to accept.
    ///
    /// # Errors
    /// The loop is going away.
    pub async fn readable(&self) -> io::Result<()> {
        poll_fn(|context| match &self.registered {
            Some(registered) => registered.poll(&self.fd, Side::Read, context),
            None => Poll::Pending,
        })
        .await
    }

    /// To be called when there was no connection to accept, or may be none: the next event reports one.
    pub fn clear(&self) {
        if let Some(registered) = &self.registered {
            registered.clear(Side::Read);
        }
    }
}

impl AsFd for ListeningSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl Drop for ListeningSocket {
    fn drop(&mut self) {
        if let Some(registered) = self.registered.take() {
            registered.leave_open(&self.fd);
        }
    }
}
