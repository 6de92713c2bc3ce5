//! The `-T` dump.

use crate::octets::bytes_of;
use crate::place::Sources;

/// The texts of a configuration as `nginx -T` prints them: each file once, in the order of first use. Each stands under
/// a line with its path and is followed by an empty line. The `-g` text is left out.
pub fn dump(sources: &Sources) -> Vec<u8> {
    let mut out = Vec::new();
    for source in sources.iter().filter(|source| !source.command_line) {
        out.extend_from_slice(b"# configuration file ");
        out.extend_from_slice(&bytes_of(&source.path));
        out.extend_from_slice(b":\n");
        out.extend_from_slice(&source.text);
        out.push(b'\n');
    }
    out
}
