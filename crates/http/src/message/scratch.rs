//! Memory that one request leaves for the next one, so that it need not be allocated again.

use freerun_proto::{HostSpan, RequestHead};
use freerun_runtime::buffers;

use super::head::Head;

/// Texts with more memory than this many bytes are not kept.
const MOST: usize = 1024;

/// The memory of a request that has ended.
#[derive(Default)]
pub struct RequestScratch {
    head: Option<Box<RequestHead>>,
    path: Vec<u8>,
    args: Vec<u8>,
    host: String,
}

impl RequestScratch {
    /// The memory for a parsed head.
    pub fn head(&mut self) -> Option<Box<RequestHead>> {
        self.head.take()
    }

    /// A path with this text, in the kept memory.
    pub fn path(&mut self, text: &[u8]) -> Vec<u8> {
        filled(&mut self.path, text)
    }

    /// Arguments with this text, in the kept memory.
    pub fn args(&mut self, text: &[u8]) -> Vec<u8> {
        filled(&mut self.args, text)
    }

    /// The host in the head that `buffer` holds. Clients nearly always ask for the same host again.
    pub fn host(&mut self, span: HostSpan, buffer: &[u8]) -> String {
        let mut host = std::mem::take(&mut self.host);
        if !span.lowercase || host.as_bytes() != span.span.of(buffer) {
            host.clear();
            host.push_str(&span.name(buffer));
        }
        host
    }

    /// Keeps the memory of a request that has ended.
    pub fn keep(&mut self, head: Head, path: Vec<u8>, args: Option<Vec<u8>>, host: Option<String>) {
        buffers::give_back(head.buffer);
        self.head = Some(head.parsed).filter(|parsed| !parsed.is_large());
        if path.capacity() <= MOST {
            self.path = path;
        }
        if let Some(args) = args.filter(|args| args.capacity() <= MOST) {
            self.args = args;
        }
        if let Some(host) = host.filter(|host| host.capacity() <= MOST) {
            self.host = host;
        }
    }
}

fn filled(memory: &mut Vec<u8>, text: &[u8]) -> Vec<u8> {
    let mut memory = std::mem::take(memory);
    memory.clear();
    memory.extend_from_slice(text);
    memory
}
