//! Data that the worker of an old binary hands over: another version has made the bytes.

use std::time::Duration;

use freerun_tls::session::{SessionStore, TicketKeys};

use crate::choice;

/// The number of bytes of the stores: less than the larger seeds need.
const ROOM: usize = 1 << 20;

/// Sessions and keys of tickets: no panic, no more than there is room for, and what was taken is saved again as it was.
pub fn states(data: &[u8]) {
    let (which, saved) = choice(data);
    if which & 1 == 0 {
        let store = SessionStore::new(ROOM);
        store.restore(saved);
        let counts = store.counts();
        assert!(counts.bytes <= counts.max_bytes);
        let next = SessionStore::new(ROOM);
        next.restore(&store.save());
        assert_eq!(next.counts().sessions, counts.sessions);
    } else if let Some(keys) = TicketKeys::restored(Duration::from_secs(300), saved) {
        assert_eq!(keys.save().as_deref().map(Vec::as_slice), Some(saved));
    }
}

/// A session and two keys, as they are saved.
pub fn seeds() -> Vec<Vec<u8>> {
    let session =
        [&b"\x00sessn. 1"[..], &[7; 16], &[8; 32], &1_700_000_000_u64.to_le_bytes(), &3_u32.to_le_bytes(), b"abc"];
    let key = [&1_700_000_000_u64.to_le_bytes()[..], &[9; 80]].concat();
    let keys = [&b"\x01tickets1"[..], &key, &key];
    vec![session.concat(), [&session.concat()[..], &session[1..].concat()].concat(), keys.concat()]
}
