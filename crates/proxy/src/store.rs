//! `store`: a response is stored as a file while it is passed on.
//!
//! The body is gathered, beyond some bytes in a temporary file. The file gets its name when the body is complete: no
//! reader sees a partial file, and a response that is cut leaves no file. All file operations are done by pool threads.
//!
//! If the client goes away, the response is read and stored to its end all the same, by a task of the loop. So each step
//! may be left where it waits, and begun anew.

use std::ffi::CString;
use std::rc::Rc;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use freerun_conf::{bytes_of, text_of};
use freerun_http::content::{aio, path};
use freerun_http::files::{hot, open_files};
use freerun_http::log::DetachedLog;
use freerun_http::log_error;
use freerun_http::request::Request;
use freerun_http::request::handler::Outcome;
use freerun_http::request::response::{Body, BodySource, LocalBoxFuture, Response, SourceError};
use freerun_proto::Status;
use freerun_runtime::files::change::{self, Contents, NewFile};
use freerun_runtime::files::{Aio, FileError, FileSystem, TempFile, Via};
use freerun_runtime::log::Level;
use freerun_runtime::loops;
use freerun_serve::loops::background::{Background, Backgrounds};

use crate::settings::FamilySettings;
use crate::settings::store::StoreSetting;
use crate::state::record::Record;

/// The most bytes in memory; as many are written at a time.
const GATHERED: usize = 64 * 1024;

/// Stores a response, if the settings and the request allow it.
pub async fn keep(request: &Request, family: &FamilySettings, mut outcome: Outcome) -> Outcome {
    if let Outcome::Response(response) = &mut outcome
        && !matches!(family.proxy_store, StoreSetting::Off)
        && response.status == Status::OK
        && response.as_written.is_some()
        && !request.is_head()
        && let Some(mut file) = StoredFile::begin(request, family, response)
    {
        if response.body.is_empty() {
            file.end().await;
        } else {
            let body = std::mem::replace(&mut response.body, Body::Empty);
            let announced = body.len().is_some();
            let source = body.into_source(request);
            let storing = StoringBody { source, file: Some(file), announced, is_complete: false };
            response.body = Body::Source(Box::new(StoredBody {
                storing: Some(storing),
                record: request.own.get::<Record>(),
                connection: request.client.number,
                backgrounds: request.client.loop_state.shared.background.clone(),
            }));
        }
    }
    outcome
}

/// The path at which a response is stored.
fn place(request: &Request, store: &StoreSetting) -> Option<CString> {
    let name = match store {
        StoreSetting::Off => return None,
        StoreSetting::On => path::file_name(request),
        StoreSetting::Path(template) => {
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
struct StoredFile {
    files: Arc<FileSystem>,
    aio: Aio,
    client: u64,
    folder: CString,
    target: CString,
    new: NewFile,
    gathered: BytesMut,
    /// The bytes before those, which are being written.
    writing: Bytes,
    spilled: Option<TempFile>,
    log: DetachedLog,
}

impl StoredFile {
    fn begin(request: &Request, family: &FamilySettings, response: &Response) -> Option<StoredFile> {
        let access = family.proxy_store_access;
        Some(StoredFile {
            files: request.generation.files.clone(),
            aio: aio::resolve(request)?,
            client: request.client_key(),
            folder: CString::new(bytes_of(&family.proxy_temp_path.path).into_owned()).ok()?,
            target: place(request, &family.proxy_store)?,
            new: NewFile { mode: access.of_files(), mtime: response.last_modified, folders: Some(access.of_folders()) },
            gathered: BytesMut::new(),
            writing: Bytes::new(),
            spilled: None,
            log: DetachedLog::of(request),
        })
    }

    async fn push(&mut self, piece: &[u8]) -> Result<(), FileError> {
        self.gathered.extend_from_slice(piece);
        if self.gathered.len() < GATHERED { Ok(()) } else { self.spill().await }
    }

    /// Writes the gathered bytes. If this was left while it waited, the same bytes are written again to the same place.
    async fn spill(&mut self) -> Result<(), FileError> {
        let via = Via { aio: &self.aio, client: self.client, gone: None };
        let file = match &mut self.spilled {
            Some(file) => file,
            None => self.spilled.insert(self.files.create_temp(&self.folder, via).await?),
        };
        while !self.writing.is_empty() || !self.gathered.is_empty() {
            if self.writing.is_empty() {
                self.writing = self.gathered.split().freeze();
            }
            file.append(self.writing.clone(), via).await?;
            self.writing = Bytes::new();
        }
        Ok(())
    }

    /// Completes the file: it gets its name.
    async fn end(&mut self) {
        if let Err(error) = self.name_it().await {
            let text = error.describe(self.target.to_bytes());
            self.log.write(Level::Crit, format_args!("{text} while storing a response"));
        }
        hot::files_changed();
    }

    async fn name_it(&mut self) -> Result<(), FileError> {
        if self.spilled.is_some() {
            self.spill().await?;
        }
        let contents = match &self.spilled {
            Some(file) => Contents::File(file.file().clone(), file.len()),
            None => Contents::Bytes(Bytes::copy_from_slice(&self.gathered)),
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

/// A body that is being stored.
struct StoringBody {
    source: Box<dyn BodySource>,
    /// `None` once the file has its name, or will not get it.
    file: Option<StoredFile>,
    /// Whether the length was known from the beginning.
    announced: bool,
    /// Whether the source has given all its bytes.
    is_complete: bool,
}

impl StoringBody {
    async fn pull(&mut self) -> Result<Option<Bytes>, SourceError> {
        let piece = self.source.next().await;
        match &piece {
            Ok(Some(bytes)) => {
                // A consumer that was told that nothing is left does not ask again.
                self.is_complete = self.source.remaining() == Some(0);
                if let Some(file) = &mut self.file
                    && let Err(error) = file.push(bytes).await
                {
                    // The client gets the piece all the same.
                    file.log.write(Level::Crit, format_args!("{error} while storing a response"));
                    self.file = None;
                }
            }
            Ok(None) => self.is_complete = true,
            Err(_) => self.file = None,
        }
        if self.is_complete {
            self.end().await;
        }
        piece
    }

    async fn end(&mut self) {
        if let Some(file) = &mut self.file {
            file.end().await;
        }
        self.file = None;
    }

    /// Goes on without a client.
    async fn finish(mut self) {
        while !self.is_complete && self.file.is_some() {
            loops::consume_budget().await;
            let _ = self.pull().await;
        }
        self.end().await;
    }
}

/// A body that is stored on its way to the client.
struct StoredBody {
    /// `None` when it is dropped.
    storing: Option<StoringBody>,
    /// The times for the access log.
    record: Rc<Record>,
    /// The client's connection, for the loop's records.
    connection: u64,
    backgrounds: Arc<Backgrounds>,
}

impl BodySource for StoredBody {
    fn next(&mut self) -> LocalBoxFuture<'_, Result<Option<Bytes>, SourceError>> {
        Box::pin(async {
            match &mut self.storing {
                Some(storing) => storing.pull().await,
                None => Ok(None),
            }
        })
    }

    fn ahead(&mut self) -> LocalBoxFuture<'_, ()> {
        match &mut self.storing {
            Some(storing) => storing.source.ahead(),
            None => Box::pin(std::future::pending()),
        }
    }

    fn is_urgent(&self) -> bool {
        self.storing.as_ref().is_some_and(|storing| storing.source.is_urgent())
    }

    fn remaining(&self) -> Option<u64> {
        let storing = self.storing.as_ref()?;
        // If the length was not announced, the end is not reported before the file has its name.
        storing.source.remaining().filter(|left| storing.announced || *left > 0 || storing.file.is_none())
    }
}

impl Drop for StoredBody {
    fn drop(&mut self) {
        if let Some(storing) = self.storing.take_if(|storing| storing.file.is_some()) {
            // The response is over for the client.
            self.record.end(loops::nanos());
            let background = Background::new(&self.backgrounds);
            loops::spawn(self.connection, "storing a response that nobody waits for", async move {
                storing.finish().await;
                drop(background);
            });
        }
    }
}
