//! Reading a whole file that a directive names, of a bounded size.

use bytes::Bytes;
use freerun_conf::text_of;
use freerun_http::content::open;
use freerun_http::content::open_error::OpenError;
use freerun_http::files::hot::Content;
use freerun_http::request::Request;
use freerun_http::request::response::{Body, FileRange};

/// Reads a file of at most `most` bytes, off the loop where reading would wait.
///
/// # Errors
/// What is wrong with the file, for the log.
pub async fn read(request: &Request, path: &[u8], most: u64) -> Result<Bytes, String> {
    let shown = || text_of(path);
    let file = open::open(request, path).await.map_err(|error| match error {
        OpenError::File(error) => error.describe(path),
        OpenError::Status(_) => format!("\"{}\" cannot be opened", shown()),
    })?;
    let len = file.meta.size;
    if len > most {
        return Err(format!("\"{}\" is too large: {len} bytes", shown()));
    }
    let file = match &file.content {
        Content::Bytes(bytes) => return Ok(bytes.clone()),
        Content::Open(file) => file.clone(),
    };
    let mut source = Body::File(FileRange { file, offset: 0, len }).into_source(request);
    let mut out = Vec::new();
    while let Some(piece) = source.next().await.map_err(|error| format!("reading \"{}\" failed: {error}", shown()))? {
        out.extend_from_slice(&piece);
    }
    Ok(out.into())
}
