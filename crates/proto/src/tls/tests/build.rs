//! Makes ClientHellos, right ones and wrong ones.

/// A list with its length before it, in two bytes.
pub(super) fn list16(ids: &[u16]) -> Vec<u8> {
    let bytes: Vec<u8> = ids.iter().flat_map(|id| id.to_be_bytes()).collect();
    vector16(&bytes)
}

pub(super) fn vector16(bytes: &[u8]) -> Vec<u8> {
    [&u16::try_from(bytes.len()).unwrap().to_be_bytes(), bytes].concat()
}

pub(super) fn extension(kind: u16, content: &[u8]) -> Vec<u8> {
    [&kind.to_be_bytes()[..], &vector16(content)].concat()
}

pub(super) fn server_names(names: &[&[u8]]) -> Vec<u8> {
    let list: Vec<u8> = names.iter().flat_map(|name| [&[0], &vector16(name)[..]].concat()).collect();
    extension(0, &vector16(&list))
}

pub(super) fn alpn(names: &[&[u8]]) -> Vec<u8> {
    let list: Vec<u8> = names.iter().flat_map(|name| [&[name.len() as u8], *name].concat()).collect();
    extension(16, &vector16(&list))
}

pub(super) fn groups(ids: &[u16]) -> Vec<u8> {
    extension(10, &list16(ids))
}

pub(super) fn signatures(ids: &[u16]) -> Vec<u8> {
    extension(13, &list16(ids))
}

pub(super) fn versions(ids: &[u16]) -> Vec<u8> {
    extension(43, &list16(ids)[1..])
}

/// A message that is right where nothing else is asked for.
pub(super) struct Builder {
    pub version: u16,
    pub session_id: Vec<u8>,
    pub ciphers: Vec<u8>,
    pub compression: Vec<u8>,
    pub extensions: Option<Vec<Vec<u8>>>,
}

impl Builder {
    pub fn new(extensions: &[Vec<u8>]) -> Builder {
        Builder {
            version: 0x0303,
            session_id: Vec::new(),
            ciphers: list16(&[0x1301, 0xc02f]),
            compression: vec![0],
            extensions: Some(extensions.to_vec()),
        }
    }

    /// The message with its head.
    pub fn message(&self) -> Vec<u8> {
        let mut body = self.version.to_be_bytes().to_vec();
        body.extend(0..32);
        body.push(self.session_id.len() as u8);
        body.extend(&self.session_id);
        body.extend(&self.ciphers);
        body.push(self.compression.len() as u8);
        body.extend(&self.compression);
        if let Some(extensions) = &self.extensions {
            body.extend(vector16(&extensions.concat()));
        }
        message(&body)
    }
}

/// A ClientHello with this body.
pub(super) fn message(body: &[u8]) -> Vec<u8> {
    let len = u32::try_from(body.len()).unwrap().to_be_bytes();
    [&[1], &len[1..], body].concat()
}

/// What modern clients always send.
pub(super) fn usual() -> Vec<Vec<u8>> {
    let share = [&[0, 29][..], &vector16(&[9; 32])].concat();
    vec![
        groups(&[29, 23]),
        signatures(&[0x0403, 0x0804]),
        versions(&[0x0304, 0x0303]),
        extension(51, &vector16(&share)),
    ]
}

/// The usual extensions behind some others.
pub(super) fn with(extensions: &[Vec<u8>]) -> Vec<u8> {
    records(&Builder::new(&[extensions, &usual()].concat()).message(), usize::MAX)
}

/// The usual extensions before some others.
pub(super) fn usual_then(extensions: &[Vec<u8>]) -> Vec<u8> {
    records(&Builder::new(&[&usual(), extensions].concat()).message(), usize::MAX)
}

/// The usual extensions with one of them replaced.
pub(super) fn instead(place: usize, extension: Vec<u8>) -> Vec<u8> {
    let mut extensions = usual();
    extensions[place] = extension;
    records(&Builder::new(&extensions).message(), usize::MAX)
}

pub(super) fn record(kind: u8, version: u16, payload: &[u8]) -> Vec<u8> {
    [&[kind], &version.to_be_bytes()[..], &vector16(payload)].concat()
}

/// A message in records of `size` bytes.
pub(super) fn records(message: &[u8], size: usize) -> Vec<u8> {
    message.chunks(size.min(1 << 14)).flat_map(|part| record(22, 0x0301, part)).collect()
}
