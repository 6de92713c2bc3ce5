//! `mp4`: a part of a movie, from `start=` to `end=`, as a separate movie.

mod movie;
mod tables;
#[cfg(test)]
mod tests;

use bytes::{Bytes, BytesMut};
use freerun_conf::{SettingsSet, Size, group, settings, text_of};
use freerun_http::body;
use freerun_http::connection::client_gone::ClientGone;
use freerun_http::content::aio;
use freerun_http::content::open;
use freerun_http::content::path;
use freerun_http::files::hot::{Content, HotFile};
use freerun_http::files::read_error::ReadError;
use freerun_http::log_error;
use freerun_http::module::Module;
use freerun_http::request::Request;
use freerun_http::request::core_settings::CoreSettings;
use freerun_http::request::handler::{Handler, Outcome, Phase, Run};
use freerun_http::request::response::{Body, FileRange, LocalBoxFuture, Part as Piece, Response};
use freerun_http::values::switch::Switch;
use freerun_proto::{Method, Status, conditional, uri};
use freerun_runtime::budget::{Budget, BudgetExhausted, Share};
use freerun_runtime::files::Via;
use freerun_runtime::pool::PoolError;

use crate::content::static_files::{content_type, log_open_error};
use movie::{Cut, TrackPart};

settings! {
    /// Parts of movies.
    #[module = "mp4"]
    pub struct Mp4Settings {
        /// Serves MP4 files; with the arguments `start=` and `end=` (seconds, with up to three decimals) a part of one.
        ///
        /// The index of the movie (`moov`) is read into memory and rewritten; the data is sent from the file. A request
        /// for the whole movie is answered with the unchanged file if the index is in front of the data.
        mp4: Switch, in LOCATION, local;
        /// The size of the first buffer for the index of a movie.
        mp4_buffer_size: Size = "512k", in HTTP | SERVER | LOCATION,
            fidelity = NoEffect("as much is read as the index needs");
        /// The size of the largest index that is accepted.
        mp4_max_buffer_size: Size = "10m", in HTTP | SERVER | LOCATION,
            fidelity = Differs("an index takes three times its size of 256 MB for all requests together; the one that goes beyond is answered with 503");
        /// Whether a part begins with the key frame before `start=`; the frames before that time are marked as not to
        /// be shown.
        mp4_start_key_frame: bool = "off", in HTTP | SERVER | LOCATION;
    }
}

/// The reason why a movie cannot be cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Mp4Fault(&'static str);

/// The reason why no part of a movie is sent.
#[derive(Debug, thiserror::Error)]
enum CutError {
    /// The indexes that are being cut and sent leave no room for another one.
    #[error(transparent)]
    Budget(#[from] BudgetExhausted),
    /// The file is no movie that can be cut.
    #[error(transparent)]
    Fault(#[from] Mp4Fault),
    /// The file could not be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The pool did not cut the movie.
    #[error(transparent)]
    Pool(#[from] PoolError),
}

/// The most atoms at the top of a file before the index and the data are found.
const MAX_TOP: usize = 64;
/// The size of the largest `ftyp` that is accepted.
const MAX_FTYP: u64 = 1024;
/// The size of the largest index that is rewritten on the loop, which takes less than a tenth of a millisecond.
const SMALL_INDEX: usize = 64 * 1024;

fn wanted(settings: &SettingsSet) -> bool {
    settings.get::<Mp4Settings>().mp4.0
}

/// The module `mp4`.
pub static MODULE: Module = Module {
    name: "mp4",
    groups: &[group::<Mp4Settings>()],
    handlers: &[Handler { phase: Phase::Content, wanted, run: Run::Later(answer) }],
    content: &["mp4"],
    ..Module::EMPTY
};

/// Parses a time in seconds with decimals into milliseconds. Digits after the third decimal are ignored.
fn parse_time(text: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(text).ok()?;
    let (seconds, decimals) = text.split_once('.').unwrap_or((text, ""));
    let is_number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if text.is_empty() || !is_number(seconds) || !is_number(decimals) {
        return None;
    }
    let seconds: u64 = if seconds.is_empty() { 0 } else { seconds.parse().ok()? };
    let millis: u64 = format!("{decimals:0<3}").get(..3)?.parse().ok()?;
    // A hundred years are enough, and leave room for multiplications.
    (seconds < 3_200_000_000).then(|| seconds * 1000 + millis)
}

/// The part that the arguments ask for.
fn part(request: &Request) -> Option<TrackPart> {
    let args = request.asked.args.as_deref()?;
    let start = uri::argument(args, b"start").and_then(parse_time);
    let end = uri::argument(args, b"end").and_then(parse_time);
    let length = end.and_then(|end| end.checked_sub(start.unwrap_or(0))).filter(|length| *length > 0);
    if start.is_none() && length.is_none() {
        return None;
    }
    let key_frame = request.settings().get::<Mp4Settings>().mp4_start_key_frame;
    Some(TrackPart { start: start.unwrap_or(0), length, key_frame })
}

fn answer(request: &mut Request) -> LocalBoxFuture<'_, Outcome> {
    if !matches!(request.asked.method, Method::Get | Method::Head) {
        return Box::pin(std::future::ready(Outcome::Status(Status::METHOD_NOT_ALLOWED)));
    }
    let part = part(request).filter(|_| request.asked.path.last() != Some(&b'/'));
    let Some(part) = part else {
        // A complete movie is served like any other file.
        return Box::pin(std::future::ready(Outcome::Declined));
    };
    Box::pin(async move {
        let name = path::file_name(request);
        let file = match open::open(request, &name).await {
            Ok(file) if file.meta.is_file() => file,
            Ok(_) => return Outcome::Declined,
            Err(error) => return Outcome::Status(log_open_error(request, &name, &error)),
        };
        if let Err(status) = body::begin_discarding(request) {
            return Outcome::Status(status);
        }
        let mut share = INDEXES.share();
        match cut(request, &file, part, &mut share).await {
            Ok(cut) => respond(request, &file, cut, share),
            Err(error @ CutError::Budget(_)) => {
                log_error!(request, Error, "mp4: {error}, \"{}\"", text_of(&name));
                Outcome::Status(Status::SERVICE_UNAVAILABLE)
            }
            Err(error) => {
                log_error!(request, Error, "mp4: {error} in \"{}\"", text_of(&name));
                Outcome::Status(Status::INTERNAL_SERVER_ERROR)
            }
        }
    })
}

/// The most bytes of indexes that all requests of the process hold, while they are cut and sent.
const MAX_INDEXES: u64 = 256 << 20;
/// The number of copies that an index takes: as it was read, as the result, and as tables between the two.
const TIMES: u64 = 3;

static INDEXES: Budget = Budget::new(MAX_INDEXES);

/// A new index, with its share of [`MAX_INDEXES`].
struct Index {
    bytes: Vec<u8>,
    _share: Share,
}

impl AsRef<[u8]> for Index {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

fn respond(request: &Request, file: &HotFile, cut: Cut, share: Share) -> Outcome {
    let Cut { head, start, len } = cut;
    let length = head.len() as u64 + len;
    let range = |bytes: &Bytes| Some(bytes.slice(usize::try_from(start).ok()?..usize::try_from(start + len).ok()?));
    let data = match &file.content {
        Content::Open(file) => Piece::File(FileRange { file: file.clone(), offset: start, len }),
        // The range was checked against the size.
        Content::Bytes(bytes) => Piece::Bytes(range(bytes).unwrap_or_default()),
    };
    if head.is_empty() {
        return pieces(request, file, vec![data], length);
    }
    pieces(request, file, vec![Piece::Bytes(Bytes::from_owner(Index { bytes: head, _share: share })), data], length)
}

/// An answer with parts of a file.
pub fn pieces(request: &Request, file: &HotFile, pieces: Vec<Piece>, length: u64) -> Outcome {
    let mut response =
        Response::typed_by_uri(Status::OK, content_type(request, &request.asked.path), Body::Parts(pieces));
    response.last_modified = Some(file.meta.mtime);
    if request.settings().get::<CoreSettings>().etag {
        let etag = conditional::etag(file.meta.mtime, length);
        response.etag = Some(Bytes::copy_from_slice(etag.as_bytes()));
    }
    response.ranges = true;
    response.into()
}

/// Reads exactly `len` bytes of the file.
async fn read(request: &Request, file: &HotFile, offset: u64, len: u64) -> Result<Bytes, CutError> {
    let short = || Mp4Fault("the file is too short");
    if offset.checked_add(len).is_none_or(|end| end > file.meta.size) {
        return Err(short().into());
    }
    let (start, count) = (usize::try_from(offset), usize::try_from(len).map_err(|_| short())?);
    match &file.content {
        Content::Bytes(bytes) => {
            let start = start.map_err(|_| short())?;
            Ok(bytes.slice(start..start + count))
        }
        Content::Open(open) => {
            let aio = aio::resolve(request).ok_or(ReadError::NoPool)?;
            let gone = ClientGone::of(&request.client);
            let via = Via { aio: &aio, client: request.client_key(), gone: Some(&gone) };
            let files = &request.generation.files;
            let bytes = files.read_at(open, offset, count, BytesMut::new(), via).await.map_err(ReadError::File)?;
            if bytes.len() < count { Err(short().into()) } else { Ok(bytes.freeze()) }
        }
    }
}

/// Finds the atoms at the top of the file, reads the index, and cuts the movie.
async fn cut(request: &Request, file: &HotFile, part: TrackPart, share: &mut Share) -> Result<Cut, CutError> {
    let fault = |text| CutError::from(Mp4Fault(text));
    let size = file.meta.size;
    let (mut ftyp, mut moov, mut mdat) = (Bytes::new(), None, None);
    let mut at = 0;
    for _ in 0..MAX_TOP {
        if at >= size || moov.is_some() && mdat.is_some() {
            break;
        }
        let head = read(request, file, at, 8.min(size - at)).await?;
        let short = tables::u32_at(&head, 0)?;
        let name = head.get(4..8).ok_or_else(|| fault("an atom is too small"))?;
        let (header, whole) = match short {
            0 => (8, size - at),
            1 => {
                let wide = read(request, file, at + 8, 8).await?;
                (16, tables::u64_at(&wide, 0)?)
            }
            short => (8, u64::from(short)),
        };
        if whole < header || whole > size - at {
            return Err(fault("an atom is too small or too large"));
        }
        match name {
            b"ftyp" if whole > MAX_FTYP => return Err(fault("the ftyp atom is too large")),
            b"ftyp" if header == 8 => ftyp = read(request, file, at, whole).await?,
            // As in nginx: players ask for the whole movie as the part from 0. With the index in front it can be played
            // unchanged, and keeps the parts that are dropped when cutting (edit lists, bytes after the data).
            b"moov" if part.is_all() && mdat.is_none() => return Ok(Cut { head: Vec::new(), start: 0, len: size }),
            b"moov" if whole > request.settings().get::<Mp4Settings>().mp4_max_buffer_size.0 => {
                return Err(fault("the moov atom is too large, you may want to increase mp4_max_buffer_size"));
            }
            b"moov" => {
                share.grow(whole * TIMES)?;
                moov = Some(read(request, file, at + header, whole - header).await?);
            }
            b"mdat" => mdat = Some((at + header, at + whole)),
            _ => {}
        }
        at += whole;
    }
    let moov = moov.ok_or_else(|| fault("no moov atom was found"))?;
    let mdat = mdat.ok_or_else(|| fault("no mdat atom was found"))?;
    if moov.len() <= SMALL_INDEX {
        return Ok(movie::cut(&ftyp, &moov, mdat, part)?);
    }
    let cpu = request.generation.pools.cpu().clone();
    let work = move || movie::cut(&ftyp, &moov, mdat, part);
    Ok(cpu.run_or_wait(request.client_key(), work).await??)
}
