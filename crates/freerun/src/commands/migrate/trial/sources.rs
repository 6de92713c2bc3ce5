//! The logs and lists of requests: their formats, and the servers that write them.

use std::collections::HashSet;
use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, BufRead, BufReader, Read as _, Seek as _, SeekFrom};
use std::os::fd::AsFd as _;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use freerun_conf::path_of;
use freerun_serve::logs::access_log::{Escape, LineFormat};
use rustix::fs::OFlags;

use super::interruption::StoppableFile;
use super::request_list::{LineCounts, ListRules, ReplayedRequest, RequestList, RequestSource};
use super::sites::Sites;
use crate::cli::MigrateRun;

/// The most bytes of a log that are read: of a longer one, its end.
pub const MAX_LOG: u64 = 64 << 20;

/// The most bytes of the line in which the end of a long log begins.
const MAX_REST: u64 = 1 << 20;

/// The bytes of a log that are read at once.
const CHUNK: usize = 256 << 10;

/// The most names of formats that a message has.
const MAX_NAMES: usize = 30;

/// The device and the number of a file, which are its own whatever its path is.
type FileIdentity = (u64, u64);

/// The requests, and what became of their sources.
#[derive(Debug, Default)]
pub struct GatheredRequests {
    /// The requests.
    pub requests: Vec<ReplayedRequest>,
    /// Numbers of lines.
    pub lines: LineCounts,
    /// The sources that requests were taken of.
    pub sources: Vec<RequestSource>,
    /// The paths of further ones, each with the reason why nothing was taken.
    pub unused: Vec<(String, String)>,
    /// The paths of long logs: their ends alone were read.
    pub ends: Vec<String>,
}

/// An opened log or list.
struct OpenedSource {
    lines: Box<dyn BufRead>,
    identity: FileIdentity,
    /// Whether its end alone is read.
    is_end: bool,
}

/// Gathers the requests of the logs or of the list. A signal that sets `is_ended` ends the reading.
///
/// # Errors
/// There is no log, a log cannot be read though it was asked for, or there is no such format.
pub fn gather(run: &MigrateRun, sites: &Sites, is_ended: &Arc<AtomicBool>) -> Result<GatheredRequests, String> {
    let rules = ListRules { count: run.count, all_methods: run.all_methods, host: run.host.clone() };
    let mut list = RequestList::new(sites, rules);
    let mut gathered = GatheredRequests::default();
    let unread = |path: &str, error: io::Error| format!("\"{path}\" cannot be read: {error}");
    let named = run.log_format.as_ref().map(|format| named_format(format, sites)).transpose()?;
    if let Some(path) = &run.requests {
        let mut source = open(path, is_ended).map_err(|error| unread(path, error))?;
        list.add_list(path, &mut *source.lines).map_err(|error| unread(path, error))?;
        gathered.ends.extend(source.is_end.then(|| path.clone()));
        return Ok(finish(list, gathered));
    }
    let known = KnownLogs::of(sites);
    let (logs, is_given) = match &run.logs[..] {
        [] => (known.paths(), false),
        given => (given.to_vec(), true),
    };
    let mut taken = HashSet::new();
    let mut is_any = false;
    for path in logs {
        let mut source = match open(&path, is_ended) {
            Ok(source) => source,
            // Of the logs of a configuration some may not be there yet.
            Err(error) if !is_given => {
                gathered.unused.push((path, format!("it cannot be read: {error}")));
                continue;
            }
            Err(error) => return Err(unread(&path, error)),
        };
        is_any = true;
        if !taken.insert(source.identity) {
            gathered.unused.push((path, "it is a file that was read before".to_owned()));
            continue;
        }
        let (written, writers) = known.formats_and_writers(&path, source.identity, sites);
        let formats = match &named {
            Some(format) => vec![format.clone()],
            None if written.is_empty() => sites.formats.get("combined").cloned().into_iter().collect(),
            None => written,
        };
        list.add_log(&path, &mut *source.lines, &formats, &writers).map_err(|error| unread(&path, error))?;
        gathered.ends.extend(source.is_end.then_some(path));
    }
    if !is_any {
        let why: String = gathered.unused.iter().map(|(path, why)| format!("\"{path}\": {why}\n")).collect();
        return Err(format!(
            "{why}there is no access log to replay\nhelp: --log FILE names one, --requests FILE a list of requests"
        ));
    }
    Ok(finish(list, gathered))
}

/// Takes the requests of the list, and tells the sources that they come from from the others.
fn finish(list: RequestList<'_>, mut gathered: GatheredRequests) -> GatheredRequests {
    let sources;
    (gathered.requests, gathered.lines, sources) = list.finish();
    for source in sources {
        let why = match &source {
            source if source.requests > 0 => {
                gathered.sources.push(source.clone());
                continue;
            }
            source if source.lines == 0 => "it is empty",
            source if source.cut > 0 => "the list was full (--count is the most requests)",
            _ => "its lines are no requests that can be sent, or are in the other logs as well",
        };
        gathered.unused.push((source.path, why.to_owned()));
    }
    gathered
}

/// The logs that the configuration names.
struct KnownLogs {
    /// The path of each, the name of its format, and its identity, if there is such a file.
    logs: Vec<(String, String, Option<FileIdentity>)>,
}

impl KnownLogs {
    fn of(sites: &Sites) -> KnownLogs {
        let identity = |path: &str| std::fs::metadata(path_of(path)).ok().map(|metadata| identity_of(&metadata));
        let logs = sites.logs().into_iter().map(|(path, format)| {
            let identity = identity(&path);
            (path, format, identity)
        });
        KnownLogs { logs: logs.collect() }
    }

    /// The paths, each once.
    fn paths(&self) -> Vec<String> {
        let mut paths: Vec<String> = self.logs.iter().map(|(path, ..)| path.clone()).collect();
        paths.dedup();
        paths
    }

    /// The formats of the lines of a log, and the servers that write it: an older part that a rotation has renamed is
    /// like its log. All servers, if none is known.
    fn formats_and_writers(&self, path: &str, identity: FileIdentity, sites: &Sites) -> (Vec<LineFormat>, Vec<usize>) {
        let full = std::path::absolute(path_of(path)).unwrap_or_default();
        let full = freerun_conf::text_of_os(&full).into_owned();
        let is_same = |log: &&(String, String, Option<FileIdentity>)| log.2 == Some(identity) || log.0 == full;
        let mut found: Vec<_> = self.logs.iter().filter(is_same).collect();
        if found.is_empty() {
            found = self.logs.iter().filter(|(log, ..)| is_rotated(&full, log)).collect();
        }
        let formats = found.iter().filter_map(|(_, format, _)| sites.formats.get(format).cloned()).collect();
        let writes = |server: &usize| {
            sites.servers[*server].logs.iter().any(|(log, _)| found.iter().any(|(known, ..)| known == log))
        };
        let all = || 0..sites.servers.len();
        let writers: Vec<usize> = all().filter(writes).collect();
        (formats, if writers.is_empty() { all().collect() } else { writers })
    }
}

/// Whether a path names an older part of a log: `access.log.1` or `access.log-20261130`.
fn is_rotated(path: &str, log: &str) -> bool {
    let is_number = |rest: &str| !rest.is_empty() && rest.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-');
    path.strip_prefix(log).and_then(|rest| rest.strip_prefix(['.', '-'])).is_some_and(is_number)
}

/// The format that `--log-format` names, or is.
///
/// # Errors
/// There is no format with this name.
fn named_format(format: &str, sites: &Sites) -> Result<LineFormat, String> {
    if let Some(known) = sites.formats.get(format) {
        return Ok(known.clone());
    }
    if format.contains('$') {
        let escape = if format.starts_with('{') { Escape::Json } else { Escape::Default };
        return Ok(LineFormat::new(escape, format));
    }
    let mut names: Vec<&str> = sites.formats.keys().map(String::as_str).collect();
    names.sort_unstable();
    let more = if names.len() > MAX_NAMES { ", …" } else { "" };
    names.truncate(MAX_NAMES);
    Err(format!(
        "--log-format {format}: the configuration has no log_format of this name\nhelp: there are {}{more}; a format itself has \
         variables, as in '$remote_addr \"$request\"'",
        names.join(", ")
    ))
}

fn identity_of(metadata: &Metadata) -> FileIdentity {
    (metadata.dev(), metadata.ino())
}

/// Opens a log or a list; `-` is standard input. Of a file that is very long the end is read.
///
/// # Errors
/// The error of open(2), fstat(2) or lseek(2).
fn open(path: &str, is_ended: &Arc<AtomicBool>) -> io::Result<OpenedSource> {
    let mut file = if path == "-" {
        File::from(io::stdin().as_fd().try_clone_to_owned()?)
    } else {
        // A named pipe that nobody writes to would keep the open waiting.
        OpenOptions::new().read(true).custom_flags(OFlags::NONBLOCK.bits().cast_signed()).open(path_of(path))?
    };
    let metadata = file.metadata()?;
    if metadata.is_dir() {
        return Err(io::Error::from_raw_os_error(rustix::io::Errno::ISDIR.raw_os_error()));
    }
    let is_end = metadata.is_file() && metadata.len() > MAX_LOG;
    if is_end {
        file.seek(SeekFrom::End(-MAX_LOG.cast_signed()))?;
    }
    let mut lines = BufReader::with_capacity(CHUNK, StoppableFile::new(file, is_ended));
    if is_end {
        // The rest of the line in which the end begins; a line has a bound wherever it is read.
        let mut rest = Vec::new();
        lines.by_ref().take(MAX_REST).read_until(b'\n', &mut rest)?;
    }
    Ok(OpenedSource { lines: Box::new(lines), identity: identity_of(&metadata), is_end })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn older_parts_of_a_log_are_known() {
        for (path, expected) in [
            ("/l/a.log.1", true),
            ("/l/a.log-20261130", true),
            ("/l/a.log-2026-11-30", true),
            ("/l/a.log", false),
            ("/l/a.log.gz", false),
            ("/l/a.log.old.1", false),
            ("/l/b.log.1", false),
        ] {
            assert_eq!(is_rotated(path, "/l/a.log"), expected, "{path}");
        }
    }

    #[test]
    fn an_unknown_format_names_those_that_exist() {
        let mut sites = Sites::default();
        for name in ["main", "combined"] {
            sites.formats.insert(name.to_owned(), LineFormat::new(Escape::Default, "$uri"));
        }
        assert!(named_format("main", &sites).is_ok() && named_format("$uri x", &sites).is_ok());
        let told = named_format("mian", &sites).expect_err("no such format");
        assert!(told.contains("--log-format mian: ") && told.contains("there are combined, main; "), "{told}");
    }
}
