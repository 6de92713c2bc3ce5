//! `directio`: which files are read past the page cache.

use freerun_runtime::files::Meta;

use crate::request::Request;
use crate::settings::transfer::{DirectIo, TransferSettings};

/// The alignment of direct I/O for a file of this size, if it is read past the page cache.
pub fn alignment(request: &Request, meta: &Meta) -> Option<u64> {
    let TransferSettings { directio: DirectIo(from), directio_alignment, .. } = request.settings().get();
    (meta.is_file() && from.is_some_and(|from| meta.size >= from)).then_some(directio_alignment.0)
}
