//! What one request leaves for the next one: memory that would be allocated again.

use freerun_proto::{HostSpan, RequestHead};
use freerun_runtime::buffers;

use super::head::Head;

/// Longer texts than this many bytes are not kept.
const MOST: usize = 1024;

/// Memory of a request that has ended.
#[derive(Default)]
pub struct RequestScratch {
    head: Option<Box<RequestHead>>,
    path: Vec<u8>,
    args: Vec<u8>,
    host: String,
}

impl RequestScratch {
    /// A head.
    pub fn head(&mut self) -> Option<Box<RequestHead>> {
        self.head.take()
    }

    /// A path.
    pub fn path(&mut self, text: &[u8]) -> Vec<u8> {
        filled(&mut self.path, text)
    }

    /// Arguments.
    pub fn args(&mut self, text: &[u8]) -> Vec<u8> {
        filled(&mut self.args, text)
    }

    /// A host, as it is in the head that `buffer` holds. Clients nearly always ask for the same one again.
    pub fn host(&mut self, span: HostSpan, buffer: &[u8]) -> String {
        let mut host = std::mem::take(&mut self.host);
        if !span.lowercase || host.as_bytes() != span.span.of(buffer) {
            host.clear();
            host.push_str(&span.name(buffer));
        }
        host
    }

    /// Keeps what a request has, which is over.
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
