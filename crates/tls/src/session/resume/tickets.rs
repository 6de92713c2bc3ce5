//! Tickets: sessions that clients keep for the server, sealed so that it alone can read them. A ticket is made as OpenSSL makes
//! it: the key's name, an initialisation vector, the session encrypted with AES in CBC mode, and an HMAC of all that.

use super::{MAX_SESSION, SessionContext, StoredSession, TicketFate};
use crate::random;
use arc_swap::ArcSwap;
use aws_lc_rs::cipher::{
    AES_128, AES_256, DecryptionContext, EncryptionContext, PaddedBlockDecryptingKey, PaddedBlockEncryptingKey,
    UnboundCipherKey,
};
use aws_lc_rs::hmac;
use aws_lc_rs::iv::FixedLength;
use std::sync::Arc;
use std::time::Duration;
use thiserror::Error;
use zeroize::Zeroizing;

const NAME: usize = 16;
const VECTOR: usize = 16;
const MAC: usize = 32;

/// The bytes before the session in what is encrypted: when it began, in seconds.
const BEGAN: usize = 8;

/// The longest ticket: the largest session with its padding.
const MAX_TICKET: usize = NAME + VECTOR + BEGAN + MAX_SESSION + 16 + MAC;

/// The most keys from files. Each ticket with an unknown name is looked for among all.
const MAX_KEYS: usize = 64;

/// The keys of tickets. It is cheap to clone, and all clones are the same; several servers may use one.
#[derive(Clone)]
pub struct TicketKeys(Arc<TicketKeySource>);

enum TicketKeySource {
    /// Keys of files: the first one seals.
    Files(Vec<TicketKey>),
    /// Own keys, the newest first; the keys that several machines have come before keys of this one.
    Own {
        keys: ArcSwap<Vec<Arc<TicketKey>>>,
        period: Duration,
        /// The age from which on a key of several machines seals, as all of them have it then. Without other machines it is 0.
        settling: Duration,
    },
}

struct TicketKey {
    name: [u8; NAME],
    sealing: PaddedBlockEncryptingKey,
    opening: PaddedBlockDecryptingKey,
    mac: hmac::Key,
    /// The moment at which an own key was made, since 1970.
    made: Duration,
    /// The bytes that an own key was made of, for another process.
    bytes: Option<OwnKeyBytes>,
    /// Several machines have it.
    is_shared: bool,
}

/// The number of bytes that an own key is made of.
pub const OWN: usize = 80;

/// The bytes of an own key.
pub type OwnKeyBytes = Zeroizing<[u8; OWN]>;

/// The bytes of a new key, by chance.
///
/// # Errors
/// The library has no randomness.
pub fn new_key() -> Result<OwnKeyBytes, TicketKeyError> {
    let mut bytes = Zeroizing::new([0; OWN]);
    random::fill(&mut *bytes).map_err(|_| TicketKeyError::Library)?;
    Ok(bytes)
}

/// The first bytes of saved keys. They stand for this layout: of each key the second in which it was made (`u64`) and
/// its bytes, the newest first.
const FORMAT: &[u8; 8] = b"tickets1";

/// Reason for which there are no keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum TicketKeyError {
    /// The file with this number has another size; the first one is 0.
    #[error("must be 48 or 80 bytes")]
    Size(usize),
    /// There are no files, or too many.
    #[error("there must be 1 to {MAX_KEYS} files")]
    Files,
    /// The library has no randomness, or does not take a key.
    #[error("the keys cannot be made")]
    Library,
}

impl TicketKeys {
    /// The keys of `ssl_session_ticket_key`: files of 48 bytes (for AES-128) or 80 bytes (for AES-256). A file has a
    /// key's name of 16 bytes, half of the rest for the HMAC, and the other half for AES. The first key seals, all
    /// open.
    pub fn from_files(files: &[impl AsRef<[u8]>]) -> Result<Self, TicketKeyError> {
        if files.is_empty() || files.len() > MAX_KEYS {
            return Err(TicketKeyError::Files);
        }
        let read = |(number, file): (usize, &_)| TicketKey::read(AsRef::as_ref(file), number, Duration::ZERO);
        let keys = files.iter().enumerate().map(read).collect::<Result<_, _>>()?;
        Ok(Self(Arc::new(TicketKeySource::Files(keys))))
    }

    /// Own keys. Each seals for a period and opens for a period more, so that a ticket is good for at least one. `now` is the
    /// time since 1970.
    pub fn random(period: Duration, now: Duration) -> Result<Self, TicketKeyError> {
        Self::shared(period, Duration::ZERO, now)
    }

    /// The same for keys that several machines are to have: they come by [`TicketKeys::install`], and seal from the age `settling`
    /// on. Before the first ones come, and when no new ones do, the machine has keys of its own.
    pub fn shared(period: Duration, settling: Duration, now: Duration) -> Result<Self, TicketKeyError> {
        let keys = ArcSwap::from_pointee(vec![Arc::new(TicketKey::random(now)?)]);
        Ok(Self(Arc::new(TicketKeySource::Own { keys, period, settling })))
    }

    /// Takes the keys that several machines have, the newest first, each with the moment at which it was made, since 1970. Earlier
    /// keys go on opening tickets, as long as they may. Keys of files stay as they are.
    ///
    /// # Errors
    /// A key cannot be used. Then nothing changes.
    pub fn install(&self, shared: &[(Duration, OwnKeyBytes)], now: Duration) -> Result<(), TicketKeyError> {
        let TicketKeySource::Own { keys, period, settling } = &*self.0 else { return Ok(()) };
        let read = |(made, bytes): &(Duration, OwnKeyBytes)| {
            TicketKey::own(bytes.clone(), *made).map(|key| Arc::new(TicketKey { is_shared: true, ..key }))
        };
        let new = shared.iter().take(MAX_KEYS / 2).map(read).collect::<Result<Vec<_>, _>>()?;
        keys.rcu(|before| {
            let is_new = |key: &&Arc<TicketKey>| new.iter().all(|new| new.name != key.name);
            let still = before.iter().filter(|key| key.may_open(now, *period, *settling)).filter(is_new).cloned();
            // What is left out was only ever of use to open tickets.
            new.iter().cloned().chain(still).take(MAX_KEYS).collect::<Vec<_>>()
        });
        Ok(())
    }

    /// Own keys as bytes, for [`TicketKeys::restored`] in another process. `None` for keys of files, which that one has.
    pub fn save(&self) -> Option<Zeroizing<Vec<u8>>> {
        let TicketKeySource::Own { keys, .. } = &*self.0 else { return None };
        let keys = keys.load();
        let mut saved = Zeroizing::new(Vec::with_capacity(FORMAT.len() + keys.len() * (8 + OWN)));
        saved.extend_from_slice(FORMAT);
        for key in keys.iter() {
            saved.extend_from_slice(&key.made.as_secs().to_le_bytes());
            saved.extend_from_slice(&**key.bytes.as_ref()?);
        }
        Some(saved)
    }

    /// The keys of [`TicketKeys::save`], for a period as for [`TicketKeys::random`]. `None` if the bytes are not such.
    pub fn restored(period: Duration, saved: &[u8]) -> Option<Self> {
        let (saved, rest) = saved.strip_prefix(FORMAT)?.as_chunks::<{ 8 + OWN }>();
        let read = |saved: &[u8; 8 + OWN]| {
            let (made, bytes) = saved.split_first_chunk()?;
            let bytes = Zeroizing::new(<[u8; OWN]>::try_from(bytes).ok()?);
            TicketKey::own(bytes, Duration::from_secs(u64::from_le_bytes(*made))).ok().map(Arc::new)
        };
        let keys = saved.iter().map(read).collect::<Option<Vec<_>>>()?;
        let is_whole = rest.is_empty() && (1..=MAX_KEYS).contains(&keys.len());
        is_whole.then(|| {
            Self(Arc::new(TicketKeySource::Own { keys: ArcSwap::from_pointee(keys), period, settling: Duration::ZERO }))
        })
    }

    /// Makes a ticket of a session that began then.
    pub(crate) fn seal(
        &self,
        now: Duration,
        context: SessionContext,
        began: Duration,
        session: &[u8],
    ) -> Option<Vec<u8>> {
        if session.len() > MAX_SESSION {
            return None;
        }
        match &*self.0 {
            TicketKeySource::Files(keys) => keys.first()?.seal(context, began, session),
            TicketKeySource::Own { keys, period, settling } => {
                let sealing = |keys: &[Arc<TicketKey>]| sealing(keys, *period, *settling, now);
                let known = sealing(&keys.load());
                known.or_else(|| rotate(keys, sealing, *period, now))?.seal(context, began, session)
            }
        }
    }

    /// Opens a ticket, which may be anything.
    ///
    /// # Errors
    /// Why it cannot be opened.
    pub(crate) fn open(
        &self,
        now: Duration,
        context: SessionContext,
        ticket: &[u8],
    ) -> Result<StoredSession, TicketFate> {
        if ticket.len() > MAX_TICKET {
            return Err(TicketFate::Damaged);
        }
        let open = |key: Option<&TicketKey>| {
            key.ok_or(TicketFate::UnknownKey)?.open(context, ticket).ok_or(TicketFate::Damaged)
        };
        match &*self.0 {
            TicketKeySource::Files(keys) => open(keys.iter().find(|key| ticket.starts_with(&key.name))),
            TicketKeySource::Own { keys, period, settling } => {
                let usable =
                    |key: &&Arc<TicketKey>| ticket.starts_with(&key.name) && key.may_open(now, *period, *settling);
                open(keys.load().iter().find(usable).map(|key| &**key))
            }
        }
    }
}

/// The key among these that seals at present. `None`: there has to be a new one.
fn sealing(keys: &[Arc<TicketKey>], period: Duration, settling: Duration, now: Duration) -> Option<Arc<TicketKey>> {
    // Another machine replaces the keys that several have, unless none can; then this machine's own ones seal.
    let is_shared = |key: &&Arc<TicketKey>| key.is_shared && key.age(now) < period + settling;
    let mut shared = keys.iter().filter(is_shared);
    let settled = shared.clone().find(|key| key.age(now) >= settling).or_else(|| shared.next_back());
    let own = || keys.iter().find(|key| !key.is_shared && key.age(now) < period);
    settled.or_else(own).cloned()
}

/// Puts a new key of this machine before the keys that may still open tickets, and gives the key that seals. Of several threads
/// that do it at once one has its key taken.
fn rotate(
    keys: &ArcSwap<Vec<Arc<TicketKey>>>,
    sealing: impl Fn(&[Arc<TicketKey>]) -> Option<Arc<TicketKey>>,
    period: Duration,
    now: Duration,
) -> Option<Arc<TicketKey>> {
    let new = Arc::new(TicketKey::random(now).ok()?);
    keys.rcu(|before| {
        let is_done = sealing(before).is_some();
        let still = before.iter().filter(|key| key.may_open(now, period, Duration::ZERO)).cloned();
        if is_done { before.to_vec() } else { std::iter::once(new.clone()).chain(still).take(MAX_KEYS).collect() }
    });
    sealing(&keys.load())
}

impl TicketKey {
    fn read(file: &[u8], number: usize, made: Duration) -> Result<Self, TicketKeyError> {
        let (algorithm, hmac, aes) = match file.len() {
            48 => (&AES_128, 16..32, 32..48),
            80 => (&AES_256, 16..48, 48..80),
            _ => return Err(TicketKeyError::Size(number)),
        };
        let cipher = || UnboundCipherKey::new(algorithm, &file[aes.clone()]);
        let sealing = cipher().and_then(PaddedBlockEncryptingKey::cbc_pkcs7).map_err(|_| TicketKeyError::Library)?;
        let opening = cipher().and_then(PaddedBlockDecryptingKey::cbc_pkcs7).map_err(|_| TicketKeyError::Library)?;
        let mac = hmac::Key::new(hmac::HMAC_SHA256, &file[hmac]);
        let mut name = [0; NAME];
        name.copy_from_slice(&file[..NAME]);
        Ok(Self { name, sealing, opening, mac, made, bytes: None, is_shared: false })
    }

    fn random(made: Duration) -> Result<Self, TicketKeyError> {
        Self::own(new_key()?, made)
    }

    fn own(bytes: OwnKeyBytes, made: Duration) -> Result<Self, TicketKeyError> {
        let key = Self::read(&*bytes, 0, made)?;
        Ok(Self { bytes: Some(bytes), ..key })
    }

    fn age(&self, now: Duration) -> Duration {
        now.saturating_sub(self.made)
    }

    /// Whether the key still opens tickets: it seals for a period, and a ticket is good for at least one.
    fn may_open(&self, now: Duration, period: Duration, settling: Duration) -> bool {
        self.age(now) < (period + settling).saturating_mul(2)
    }

    fn seal(&self, context: SessionContext, began: Duration, session: &[u8]) -> Option<Vec<u8>> {
        let mut vector = [0; VECTOR];
        random::fill(&mut vector).ok()?;
        let mut sealed = Vec::with_capacity(BEGAN + session.len() + 16);
        sealed.extend_from_slice(&began.as_secs().to_be_bytes());
        sealed.extend_from_slice(session);
        let with = EncryptionContext::Iv128(FixedLength::from(vector));
        self.sealing.less_safe_encrypt(&mut sealed, with).ok()?;
        let mut ticket = Vec::with_capacity(NAME + VECTOR + sealed.len() + MAC);
        ticket.extend_from_slice(&self.name);
        ticket.extend_from_slice(&vector);
        ticket.extend_from_slice(&sealed);
        let mac = self.sign(context, &ticket);
        ticket.extend_from_slice(mac.as_ref());
        Some(ticket)
    }

    fn open(&self, context: SessionContext, ticket: &[u8]) -> Option<StoredSession> {
        let (signed, mac) = ticket.split_at_checked(ticket.len().checked_sub(MAC)?)?;
        let (head, sealed) = signed.split_at_checked(NAME + VECTOR)?;
        let mut with_context = signed.to_vec();
        with_context.extend_from_slice(&context.0);
        hmac::verify(&self.mac, &with_context, mac).ok()?;
        let vector = FixedLength::<VECTOR>::try_from(&head[NAME..]).ok()?;
        let mut sealed = Zeroizing::new(sealed.to_vec());
        let opened = self.opening.decrypt(&mut sealed, DecryptionContext::Iv128(vector)).ok()?;
        let (began, session) = opened.split_first_chunk::<BEGAN>()?;
        let began = Duration::from_secs(u64::from_be_bytes(*began));
        Some(StoredSession { began, is_elsewhere: false, session: Zeroizing::new(session.to_vec()) })
    }

    /// The HMAC of a ticket. It also covers the context, which the ticket does not have, so a ticket of another context is as
    /// good as a forged one.
    fn sign(&self, context: SessionContext, ticket: &[u8]) -> hmac::Tag {
        let mut signing = hmac::Context::with_key(&self.mac);
        signing.update(ticket);
        signing.update(&context.0);
        signing.sign()
    }
}

impl std::fmt::Debug for TicketKeys {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let keys = match &*self.0 {
            TicketKeySource::Files(keys) => keys.len(),
            TicketKeySource::Own { keys, .. } => keys.load().len(),
        };
        to.debug_struct("TicketKeys").field("keys", &keys).finish_non_exhaustive()
    }
}
