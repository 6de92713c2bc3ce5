//! `store`: a response is stored as a file while it is passed on.
//!
//! The body is gathered, beyond some bytes in a temporary file, which gets its name when the body is complete: no
//! reader sees a partial file, and a response that is cut leaves no file. All file operations are done by pool threads.

use std::ffi::CString;
use std::io;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use freerun_conf::{bytes_of, text_of};
use freerun_http::content::{aio, path};
use freerun_http::files::{hot, open_files};
use freerun_http::log::Detached;
use freerun_http::log_error;
use freerun_http::request::Request;
use freerun_http::request::handler::Outcome;
use freerun_http::request::response::{Body, LocalBoxFuture, Response, Source};
use freerun_runtime::files::change::{self, Contents, NewFile};
use freerun_runtime::files::{Aio, FileError, FileSystem, TempFile, Via};
use freerun_runtime::log::Level;

use crate::settings::FamilySettings;
use crate::settings::store::Store;

/// The most bytes in memory; as many are written at a time.
const GATHERED: usize = 64 * 1024;

/// Stores a response, if the settings and the request allow it.
pub async fn keep(request: &Request, family: &FamilySettings, mut outcome: Outcome) -> Outcome {
    if let Outcome::Response(response) = &mut outcome
        && !matches!(family.proxy_store, Store::Off)
        && response.status == 200
        && response.as_written.is_some()
        && !request.is_head()
        && let Some(file) = Keeping::begin(request, family, response)
    {
        if response.body.is_empty() {
            file.end().await;
        } else {
            let body = std::mem::replace(&mut response.body, Body::Empty);
            let announced = body.len().is_some();
            let source = body.into_source(request);
            response.body = Body::Source(Box::new(Kept { source, file: Some(file), announced }));
        }
    }
    outcome
}

/// The path at which a response is stored.
fn place(request: &Request, store: &Store) -> Option<CString> {
    let name = match store {
        Store::Off => return None,
        Store::On => path::file_name(request),
        Store::Path(template) => {
            let text = template.render(request);
            let prefix = if text.starts_with(b"/") { "" } else { request.generation.paths.prefix.as_str() };
            [&bytes_of(prefix), &text[..]].concat()
        }
    };
    if name.is_empty() || name.ends_with(b"/") {
        log_error!(request, Error, "cannot store a response as \"{}\"", text_of(&name));
        return None;
    }
    // A path with a zero byte names no file.
    CString::new(name).ok()
}

/// A file that is being written.
struct Keeping {
    files: Arc<FileSystem>,
    aio: Aio,
    client: u64,
    folder: CString,
    target: CString,
    new: NewFile,
    gathered: BytesMut,
    spilled: Option<TempFile>,
    log: Detached,
}

impl Keeping {
    fn begin(request: &Request, family: &FamilySettings, response: &Response) -> Option<Keeping> {
        let access = family.proxy_store_access;
        Some(Keeping {
            files: request.generation.files.clone(),
            aio: aio::resolve(request)?,
            client: request.client_key(),
            folder: CString::new(bytes_of(&family.proxy_temp_path.path).into_owned()).ok()?,
            target: place(request, &family.proxy_store)?,
            new: NewFile { mode: access.of_files(), mtime: response.last_modified, folders: Some(access.of_folders()) },
            gathered: BytesMut::new(),
            spilled: None,
            log: Detached::of(request),
        })
    }

    async fn push(&mut self, piece: &[u8]) -> Result<(), FileError> {
        self.gathered.extend_from_slice(piece);
        if self.gathered.len() < GATHERED { Ok(()) } else { self.spill().await }
    }

    async fn spill(&mut self) -> Result<(), FileError> {
        let via = Via { aio: &self.aio, client: self.client, gone: None };
        let file = match &mut self.spilled {
            Some(file) => file,
            None => self.spilled.insert(self.files.create_temp(&self.folder, via).await?),
        };
        file.append(self.gathered.split().freeze(), via).await
    }

    /// Completes the file: it gets its name.
    async fn end(mut self) {
        if let Err(error) = self.name_it().await {
            let text = error.describe(self.target.to_bytes());
            self.log.write(Level::Crit, format_args!("{text} while storing a response"));
        }
        hot::files_changed();
    }

    async fn name_it(&mut self) -> Result<(), FileError> {
        if self.spilled.is_some() && !self.gathered.is_empty() {
            self.spill().await?;
        }
        let contents = match &self.spilled {
            Some(file) => Contents::File(file.file().clone(), file.len()),
            None => Contents::Bytes(self.gathered.split().freeze()),
        };
        let via = Via { aio: &self.aio, client: self.client, gone: None };
        let (target, new) = (self.target.clone(), self.new);
        let tag = self.files.tag_of(&self.target, self.client);
        let put = move || {
            let put = change::put(&contents, &target, new);
            open_files::changed([target.to_bytes()].into_iter());
            put
        };
        self.files.offload(via, tag, put).await?
    }
}

/// A body that is stored on its way.
struct Kept {
    source: Box<dyn Source>,
    file: Option<Keeping>,
    /// Whether the length was known from the beginning.
    announced: bool,
}

impl Kept {
    async fn pull(&mut self) -> io::Result<Option<Bytes>> {
        let piece = self.source.next().await;
        match &piece {
            Ok(Some(bytes)) => {
                if let Some(file) = &mut self.file
                    && let Err(error) = file.push(bytes).await
                {
                    // The client gets the piece all the same.
                    file.log.write(Level::Crit, format_args!("{error} while storing a response"));
                    self.file = None;
                }
                // A consumer that was told that nothing is left does not ask again.
                if self.source.remaining() == Some(0) {
                    self.end().await;
                }
            }
            Ok(None) => self.end().await,
            Err(_) => self.file = None,
        }
        piece
    }

    async fn end(&mut self) {
        if let Some(file) = self.file.take() {
            file.end().await;
        }
    }
}

impl Source for Kept {
    fn next(&mut self) -> LocalBoxFuture<'_, io::Result<Option<Bytes>>> {
        Box::pin(self.pull())
    }

    fn ahead(&mut self) -> LocalBoxFuture<'_, ()> {
        self.source.ahead()
    }

    fn is_urgent(&self) -> bool {
        self.source.is_urgent()
    }

    fn remaining(&self) -> Option<u64> {
        // If the length was not announced, the end is not reported before the file has its name.
        self.source.remaining().filter(|left| self.announced || *left > 0 || self.file.is_none())
    }
}
