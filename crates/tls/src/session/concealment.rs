//! Names of servers that rustls does not take for names, and that a ClientHello may have all the same.
//!
//! rustls ends a handshake whose name is none of DNS by its rules (`x-.example.com`, `123`, `a.test:443`), and as a
//! client it sends no such name. A server may ignore names that it does not know (RFC 6066 section 3), OpenSSL reads
//! and sends any, and some are in use. So rustls gets a ClientHello of the same length with another extension in the
//! place of this one. On a server's side the type of the extension means nothing (RFC 8701). On a client's side the
//! name is a placeholder, which is replaced in what is sent. The keys and signatures of the handshake are made of what
//! was sent, not of what rustls has seen. It hashes its messages by [`TranscriptHash`], which puts the extension back.
//! In TLS 1.2 certificates are proven by a signature over the messages themselves, and the verifier and the signing key
//! put the extension back there.

use super::step;
use freerun_proto::tls::{ExtensionType, is_grease, located_extensions, message_bytes, replace_in_messages};
use rustls::crypto::hash::{Context, Hash, HashAlgorithm, Output};
use rustls::pki_types::{ServerName, SubjectPublicKeyInfoDer};
use rustls::sign::{CertifiedKey, Signer, SigningKey};
use rustls::{Error, SignatureAlgorithm, SignatureScheme};
use std::borrow::Cow;
use std::sync::Arc;

/// The longest name that a placeholder stands for, and its longest label (RFC 1035 section 2.3.4).
const MAX_NAME: usize = 253;
const MAX_LABEL: usize = 63;

/// The message ClientHello.
const CLIENT_HELLO: u8 = 1;

/// The beginning of a message: its type and its length.
const MESSAGE_HEAD: usize = 4;

/// An extension that rustls sees in another form than the peers. Both forms have the same length.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ConcealedName {
    /// The whole extension as rustls sees it.
    seen: Vec<u8>,
    /// The whole extension as it is sent.
    sent: Vec<u8>,
}

impl ConcealedName {
    /// The name to conceal in a ClientHello that a server has got, with the offset of the extension in the message.
    /// `None`: rustls accepts the name as a server's, or there is none.
    pub(super) fn of_client(message: &[u8]) -> Option<(usize, ConcealedName)> {
        let mut extensions = located_extensions(message);
        let (at, _, content) = extensions.find(|(_, kind, _)| *kind == ExtensionType::SERVER_NAME.0)?;
        if host_name(content).is_some_and(|name| ServerName::try_from(name).is_ok()) {
            return None;
        }
        let unused = unused_type(message)?.to_be_bytes();
        let sent = message[at..at + 4 + content.len()].to_vec();
        Some((at, ConcealedName { seen: [&unused, &sent[2..]].concat(), sent }))
    }

    /// A name that a client is to send, with the placeholder that rustls is given for it; `None` if nobody could send it.
    pub(super) fn of_server(name: &str) -> Option<(ServerName<'static>, ConcealedName)> {
        if name.is_empty() || name.len() > MAX_NAME || name.contains('\0') {
            return None;
        }
        // The last label is never empty, and may have as many bytes as any.
        let is_label_end = |at: usize| at % MAX_LABEL == MAX_LABEL - 1 && at + 1 < name.len();
        let placeholder: String = (0..name.len()).map(|at| if is_label_end(at) { '.' } else { 'a' }).collect();
        let (seen, sent) = (extension(&placeholder), extension(name));
        Some((ServerName::try_from(placeholder).ok()?, ConcealedName { seen, sent }))
    }

    /// The name, if it is text.
    pub(super) fn name(&self) -> Option<&str> {
        std::str::from_utf8(host_name(&self.sent[4..])?).ok()
    }

    /// The whole extension as it is sent.
    pub(super) fn sent(&self) -> &[u8] {
        &self.sent
    }

    /// Whether the extension is the same one as in another ClientHello of the handshake.
    pub(super) fn is_same(&self, other: &ConcealedName) -> bool {
        self.sent == other.sent
    }

    /// Conceals the extension that begins at this offset of the message in these records.
    pub(super) fn conceal(&self, records: &mut [u8], at: usize) {
        replace_in_messages(records, at, &self.seen);
    }

    /// Puts the extension into a ClientHello among these records, which are to be sent.
    pub(super) fn reveal(&self, records: &mut [u8]) {
        if let Some(at) = self.place(&message_bytes(records)) {
            replace_in_messages(records, at, &self.sent);
        }
    }

    /// The offset of the extension in messages of the handshake. A ClientHello is the first of them, or a second one
    /// stands behind the digest of the first and what asked for it (RFC 8446 section 4.4.1). The end of the last may be
    /// missing.
    fn place(&self, messages: &[u8]) -> Option<usize> {
        let mut before = 0;
        let hello = loop {
            let hello = messages.get(before..)?;
            let [kind, length @ ..] = hello.first_chunk::<MESSAGE_HEAD>()?;
            if *kind == CLIENT_HELLO {
                break hello;
            }
            before += MESSAGE_HEAD + u32::from_be_bytes([0, length[0], length[1], length[2]]) as usize;
        };
        let at = located_extensions(hello).map(|(at, ..)| at).find(|at| hello[*at..].starts_with(&self.seen))?;
        Some(before + at)
    }

    /// The messages as they were sent.
    fn as_sent<'m>(&self, messages: &'m [u8]) -> Cow<'m, [u8]> {
        let Some(at) = self.place(messages) else { return Cow::Borrowed(messages) };
        Cow::Owned([&messages[..at], &self.sent, &messages[at + self.sent.len()..]].concat())
    }
}

/// The name in the content of the extension `server_name`: the length of the list, the type of the name, its length, and the
/// name itself.
fn host_name(content: &[u8]) -> Option<&[u8]> {
    content.get(5..)
}

/// The whole extension `server_name` for a name, which has room in it.
fn extension(name: &str) -> Vec<u8> {
    let number = |length: usize| (length as u16).to_be_bytes();
    let (content, list, length) = (number(name.len() + 5), number(name.len() + 3), number(name.len()));
    [&ExtensionType::SERVER_NAME.0.to_be_bytes()[..], &content, &list, &[0], &length, name.as_bytes()].concat()
}

/// A type of extensions that means nothing (RFC 8701) and is not in this ClientHello. A client that sends all of them has none
/// left.
fn unused_type(message: &[u8]) -> Option<u16> {
    let used = located_extensions(message).filter(|(_, kind, _)| is_grease(*kind));
    let used = used.fold(0_u16, |used, (_, kind, _)| used | 1 << (kind >> 12));
    (0..16).find(|number| used >> number & 1 == 0).map(|number| 0x0a0a + 0x1010 * number)
}

/// The messages of the handshake whose step runs, as they were sent.
pub(super) fn as_sent(messages: &[u8]) -> Cow<'_, [u8]> {
    match step::concealed() {
        Some(name) => name.as_sent(messages),
        None => Cow::Borrowed(messages),
    }
}

/// The pair with a key that signs the messages of the handshake whose step runs as they were sent.
pub(super) fn signing_as_sent(pair: Arc<CertifiedKey>) -> Arc<CertifiedKey> {
    let Some(name) = step::concealed() else { return pair };
    let mut signing = CertifiedKey::clone(&pair);
    signing.key = Arc::new(KeyOfSent { key: signing.key, name });
    Arc::new(signing)
}

/// See [`signing_as_sent`].
#[derive(Debug)]
struct KeyOfSent {
    key: Arc<dyn SigningKey>,
    name: Arc<ConcealedName>,
}

#[derive(Debug)]
struct SignerOfSent {
    signer: Box<dyn Signer>,
    name: Arc<ConcealedName>,
}

impl SigningKey for KeyOfSent {
    fn choose_scheme(&self, offered: &[SignatureScheme]) -> Option<Box<dyn Signer>> {
        let signer = self.key.choose_scheme(offered)?;
        Some(Box::new(SignerOfSent { signer, name: self.name.clone() }))
    }

    fn public_key(&self) -> Option<SubjectPublicKeyInfoDer<'_>> {
        self.key.public_key()
    }

    fn algorithm(&self) -> SignatureAlgorithm {
        self.key.algorithm()
    }
}

impl Signer for SignerOfSent {
    fn sign(&self, message: &[u8]) -> Result<Vec<u8>, Error> {
        self.signer.sign(&self.name.as_sent(message))
    }

    fn scheme(&self) -> SignatureScheme {
        self.signer.scheme()
    }
}

/// A hash function for the messages of a handshake, as they were sent. Without a concealed name it is the function itself.
pub(super) struct TranscriptHash(pub(super) &'static dyn Hash);

impl Hash for TranscriptHash {
    fn start(&self) -> Box<dyn Context> {
        let context = self.0.start();
        match step::concealed() {
            Some(name) => Box::new(TranscriptContext { context, name }),
            None => context,
        }
    }

    fn hash(&self, data: &[u8]) -> Output {
        self.0.hash(data)
    }

    fn output_len(&self) -> usize {
        self.0.output_len()
    }

    fn algorithm(&self) -> HashAlgorithm {
        self.0.algorithm()
    }

    fn fips(&self) -> bool {
        self.0.fips()
    }
}

/// A hash that has begun; rustls gives it one or several whole messages at a time, but for the end of a ClientHello.
struct TranscriptContext {
    context: Box<dyn Context>,
    name: Arc<ConcealedName>,
}

impl Context for TranscriptContext {
    fn fork_finish(&self) -> Output {
        self.context.fork_finish()
    }

    fn fork(&self) -> Box<dyn Context> {
        Box::new(TranscriptContext { context: self.context.fork(), name: self.name.clone() })
    }

    fn finish(self: Box<Self>) -> Output {
        self.context.finish()
    }

    fn update(&mut self, data: &[u8]) {
        self.context.update(&self.name.as_sent(data));
    }
}
