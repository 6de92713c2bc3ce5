//! The messages between master and worker.

use freerun_serve::listen::ListenKey;
use freerun_serve::tls::files::{Secret, SecretFiles};
use serde::{Deserialize, Serialize};

use crate::settings::user::Identity;
use crate::source::Input;
use crate::source::loader::RecordedTexts;

/// A listening address, and how many of the bundle's descriptors are its sockets: one, or one for each loop.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Listener {
    /// The key of the address, see `ListenSpec::key`.
    pub key: ListenKey,
    /// The number of its sockets.
    pub sockets: u32,
}

/// Everything a worker needs to serve. Descriptors follow in the order: each listener's sockets, then the logs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bundle {
    /// Number of the configuration, counted by the master from 1.
    pub number: u64,
    /// Source of the configuration.
    pub input: Input,
    /// The texts to read.
    pub recorded: RecordedTexts,
    /// The listening addresses.
    pub listeners: Vec<Listener>,
    /// The names of the logs; stderr has the name `stderr`.
    pub logs: Vec<String>,
    /// The user and groups of the worker. Only its first bundle counts: afterwards it has no permission to change them.
    pub identity: Option<Identity>,
    /// The number of event loops.
    pub loops: u32,
    /// Number of this master's workers that have died. Only the first bundle counts.
    pub respawned: u32,
    /// The secret for tokens and stateless resets of QUIC. Only the first bundle counts: it stays the same.
    pub quic_secret: Secret,
}

impl Bundle {
    /// The number of descriptors that belong to the bundle; `None` if the sum overflows.
    pub fn descriptors(&self) -> Option<usize> {
        let sockets = self.listeners.iter().try_fold(0_u32, |sum, listener| sum.checked_add(listener.sockets))?;
        (sockets as usize).checked_add(self.logs.len())
    }
}

/// A message from the master.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ToWorker {
    /// Use this configuration. The answer is [`FromWorker::Applied`].
    Bundle(Box<Bundle>),
    /// The logs of these names have new descriptors, which follow the message.
    Reopen(Vec<String>),
    /// Certificates and keys that have changed (`ssl_certificate … watch`): of each pair both files, by their paths.
    Renew(SecretFiles),
    /// The worker of a new binary is at the other end of the socket that follows: it gets the states when it asks for them.
    Successor,
    /// The socket or the file that follows has the states for the first configuration, and comes before it. The socket
    /// leads to the worker of the old binary, the file was written for [`ToWorker::Save`].
    Predecessor,
    /// The message boxes follow: the process's own one, and the ends for writing of all. The message comes before the first
    /// configuration that listens for QUIC.
    Boxes {
        /// The number of the process.
        process: u8,
        /// The processes that may live, each with a bit.
        living: u8,
    },
    /// Processes that may live, each with a bit.
    MayLive(u8),
    /// Read the sockets of QUIC: the process that read them is gone.
    ReadQuic,
    /// Write the states to the file that follows, for a worker that may follow this one.
    Save,
    /// Say whether the loops live. The answer is [`FromWorker::Alive`].
    Ask,
    /// Accept no more connections, finish the requests, end.
    Quit {
        /// Whether another process serves by the same configuration, or soon will.
        is_replaced: bool,
    },
    /// End immediately.
    Stop,
}

/// A message from the worker.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum FromWorker {
    /// The bundle of that number is in use, or it cannot be used and nothing has changed.
    Applied {
        /// The number of the bundle: [`Bundle::number`].
        number: u64,
        /// The reason if it cannot be used.
        result: Result<(), String>,
    },
    /// The last connections at these addresses of QUIC have ended, which a configuration has removed.
    Closed(Vec<ListenKey>),
    /// The answer to [`ToWorker::Ask`].
    Alive {
        /// Whether every loop has run since the question before.
        loops_live: bool,
    },
}

/// The longest error text that a worker sends, in bytes; the rest is cut, so that the frame stays within the master's
/// limit.
pub const MAX_ERROR: usize = 16 * 1024;

impl FromWorker {
    /// The answer to a bundle.
    pub fn applied(number: u64, result: Result<(), String>) -> FromWorker {
        let result = result.map_err(|mut text| {
            let mut end = text.len().min(MAX_ERROR);
            while !text.is_char_boundary(end) {
                end -= 1;
            }
            text.truncate(end);
            text
        });
        FromWorker::Applied { number, result }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::channel::{Channel, Limits};
    use freerun_serve::listen::Protocol;
    use freerun_serve::tls::files::KnownFile;

    fn key(name: &str) -> ListenKey {
        ListenKey { protocol: Protocol::Stream, name: name.to_owned() }
    }

    fn bundle() -> Bundle {
        let mut recorded = RecordedTexts::default();
        recorded.files.insert("/x.conf".into(), b"events {}\xff".to_vec());
        recorded.globs.insert("/d/*.conf".into(), vec!["/d/a.conf".into()]);
        recorded.secrets.insert("/x.key".into(), KnownFile::read(b"key\0\xff".to_vec(), None));
        recorded.secrets.insert("/closed.key".into(), KnownFile::failed(13));
        Bundle {
            number: 3,
            input: Input {
                conf: "/x.conf".into(),
                globals: Some("daemon off;".into()),
                prefix: "/p/".into(),
                conf_prefix: "/".into(),
                error_log: "stderr".into(),
                privileged: true,
            },
            recorded,
            listeners: vec![Listener { key: key("0.0.0.0:80"), sockets: 2 }],
            logs: vec!["stderr".into(), "/var/log/x".into()],
            identity: Some(Identity { uid: 1, gid: 2, groups: vec![2, 3] }),
            loops: 2,
            respawned: 1,
            quic_secret: Secret::new(vec![3, 2, 1]),
        }
    }

    #[test]
    fn a_bundle_travels_unchanged() {
        let (a, b) = Channel::pair(Limits::FROM_WORKER).unwrap();
        let b = Channel::new(b.into(), Limits::FROM_MASTER).unwrap();
        a.send(&ToWorker::Bundle(Box::new(bundle())), &[]).unwrap();
        a.send(&ToWorker::Reopen(vec!["stderr".into()]), &[]).unwrap();
        assert_eq!(b.receive::<ToWorker>().unwrap().0, ToWorker::Bundle(Box::new(bundle())));
        assert_eq!(b.receive::<ToWorker>().unwrap().0, ToWorker::Reopen(vec!["stderr".into()]));
        let renewed = bundle().recorded.secrets;
        a.send(&ToWorker::Renew(renewed.clone()), &[]).unwrap();
        assert_eq!(b.receive::<ToWorker>().unwrap().0, ToWorker::Renew(renewed));
        a.send(&ToWorker::Quit { is_replaced: true }, &[]).unwrap();
        assert_eq!(b.receive::<ToWorker>().unwrap().0, ToWorker::Quit { is_replaced: true });
        let told = FromWorker::applied(3, Err("é".repeat(MAX_ERROR)));
        b.send(&told, &[]).unwrap();
        assert_eq!(a.receive::<FromWorker>().unwrap().0, told, "the longest error fits the master's limit");
    }

    #[test]
    fn descriptors_are_counted_without_overflow() {
        let mut bundle = bundle();
        assert_eq!(bundle.descriptors(), Some(4));
        bundle.listeners = vec![Listener { key: key(""), sockets: u32::MAX }; 2];
        assert_eq!(bundle.descriptors(), None);
    }
}
