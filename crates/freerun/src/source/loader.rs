//! The sources of configuration texts: the disk in the master, which records the texts that it read; the record in the
//! worker.

use std::collections::BTreeMap;
use std::io::{self, Read as _};
use std::net::IpAddr;
use std::os::unix::fs::MetadataExt as _;

use freerun_conf::{Loader, MAX_FILE, path_of, text_of_os};
use freerun_serve::tls::files::{self, FileState, SecretFiles, Stamp};
use serde::{Deserialize, Serialize};

use super::patient_file::PatientFile;

/// All texts that a configuration was read from. A worker that replays it sees exactly the same bytes, without needing
/// the permission, or the time, to read the files itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordedTexts {
    /// Contents by path.
    pub files: BTreeMap<String, Vec<u8>>,
    /// The paths that each pattern of an `include` matched.
    pub globs: BTreeMap<String, Vec<String>>,
    /// The addresses of the hosts in the configuration that are needed at once.
    pub hosts: BTreeMap<String, Vec<IpAddr>>,
    /// The files of TLS that the configuration names.
    pub secrets: SecretFiles,
}

/// A loader that reads from the disk and records the texts.
#[derive(Debug, Default)]
pub struct Recorder {
    /// The record.
    pub recorded: RecordedTexts,
}

impl Loader for Recorder {
    fn load(&mut self, path: &str) -> io::Result<Vec<u8>> {
        if let Some(bytes) = self.recorded.files.get(path) {
            // The second use of a file sees the same bytes as the first one, as the worker will.
            return Ok(bytes.clone());
        }
        let bytes = read_text(path)?;
        self.recorded.files.insert(path.to_owned(), bytes.clone());
        Ok(bytes)
    }

    fn glob(&mut self, pattern: &str) -> io::Result<Vec<String>> {
        let mut paths = Vec::new();
        expand("", pattern, &mut paths)?;
        self.recorded.globs.insert(pattern.to_owned(), paths.clone());
        Ok(paths)
    }
}

/// Reads a file of a configuration, but of a file that is too large only enough to show that.
///
/// # Errors
/// The error of open(2) or read(2).
pub fn read_text(path: &str) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    PatientFile::open(path)?.take(MAX_FILE as u64 + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Reads a file that a directive of TLS names, unless it has the stamp `known`. Of a file that is too large it reads
/// only enough to show that.
///
/// # Errors
/// The error of open(2) or fstat(2).
pub fn read_secret(path: &str, known: Option<Stamp>) -> io::Result<FileState> {
    let stamp = |metadata: &std::fs::Metadata| Stamp {
        device: metadata.dev(),
        inode: metadata.ino(),
        modified: (metadata.mtime(), metadata.mtime_nsec()),
    };
    if known.is_some() && std::fs::metadata(path_of(path)).is_ok_and(|now| Some(stamp(&now)) == known) {
        return Ok(FileState::Unchanged);
    }
    let file = PatientFile::open(path)?;
    let metadata = file.file.metadata()?;
    let expected = usize::try_from(metadata.len()).unwrap_or(usize::MAX);
    let (contents, broken) = files::read_wiping(file, expected);
    Ok(FileState::Contents { contents, stamp: stamp(&metadata), broken })
}

/// The most paths of one pattern.
const MAX_MATCHES: usize = 65_536;

fn is_wild(text: &str) -> bool {
    text.contains(['*', '?', '['])
}

/// Expands a pattern as glob(3) does. Text without wildcards stays as it was written (`./a//b*` finds `./a//bc`), and
/// names that begin with a dot need one in the pattern. Folders that cannot be read are passed over. `base` is a path
/// that was found already.
fn expand(base: &str, pattern: &str, paths: &mut Vec<String>) -> io::Result<()> {
    let mut start = 0;
    let (segment, rest) = loop {
        let end = pattern[start..].find('/').map_or(pattern.len(), |slash| start + slash);
        if is_wild(&pattern[start..end]) || end == pattern.len() {
            break (&pattern[start..end], &pattern[end..]);
        }
        start = end + 1;
    };
    let folder = format!("{base}{}", &pattern[..start]);
    let matcher = Matcher::new(segment);
    let Ok(entries) = std::fs::read_dir(path_of(if folder.is_empty() { "." } else { &folder })) else { return Ok(()) };
    for entry in entries {
        let name = entry?.file_name();
        let name = text_of_os(&name);
        if !matcher.matches(&name) {
            continue;
        }
        let found = format!("{folder}{name}");
        if is_wild(rest) {
            expand(&found, rest, paths)?;
        } else if rest.is_empty() || path_of(&format!("{found}{rest}")).exists() {
            paths.push(found + rest);
        }
        if paths.len() > MAX_MATCHES {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "the pattern matches too many files"));
        }
    }
    Ok(())
}

/// A segment of a pattern.
enum Matcher {
    Pattern(glob::Pattern),
    /// A segment without wildcards; as in glob(3), an invalid pattern, such as `a[`, matches itself.
    Literal(String),
}

impl Matcher {
    fn new(segment: &str) -> Matcher {
        // glob(3) accepts `[^a]` for `[!a]`, and several stars mean the same as one.
        let mut text = segment.replace("[^", "[!");
        while text.contains("**") {
            text = text.replace("**", "*");
        }
        glob::Pattern::new(&text).map_or_else(|_| Matcher::Literal(segment.to_owned()), Matcher::Pattern)
    }

    fn matches(&self, name: &str) -> bool {
        let options = glob::MatchOptions {
            case_sensitive: true,
            require_literal_separator: true,
            require_literal_leading_dot: true,
        };
        match self {
            Matcher::Pattern(pattern) => pattern.matches_with(name, options),
            Matcher::Literal(text) => text == name,
        }
    }
}

/// A loader that answers from the record alone.
#[derive(Debug)]
pub struct Replay<'a>(pub &'a RecordedTexts);

impl Loader for Replay<'_> {
    fn load(&mut self, path: &str) -> io::Result<Vec<u8>> {
        self.0.files.get(path).cloned().ok_or_else(|| io::Error::from_raw_os_error(2))
    }

    fn glob(&mut self, pattern: &str) -> io::Result<Vec<String>> {
        Ok(self.0.globs.get(pattern).cloned().unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_with_secrets_is_read_whole_unless_it_is_known() {
        let path = std::env::temp_dir().join(format!("freerun-secret-{}", std::process::id()));
        let path = path.to_str().unwrap();
        let contents: Vec<u8> = (0..12_293).map(|n| n as u8).collect();
        std::fs::write(path, &contents).unwrap();
        let read = |path| match read_secret(path, None) {
            Ok(FileState::Contents { contents, stamp, broken }) => (contents, stamp, broken),
            _ => panic!("{path} is there"),
        };
        let (all, stamp, broken) = read(path);
        assert!(*all == contents && broken.is_none());
        assert!(matches!(read_secret(path, Some(stamp)), Ok(FileState::Unchanged)));
        std::fs::remove_file(path).unwrap();
        assert_eq!(read_secret(path, Some(stamp)).err().unwrap().raw_os_error(), Some(2));
        let (none, _, broken) = read("/");
        assert_eq!((none.len(), broken.and_then(|error| error.raw_os_error())), (0, Some(21)));
    }

    #[test]
    fn a_replay_gives_what_was_recorded_and_nothing_else() {
        let dir = std::env::temp_dir().join(format!("freerun-loader-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let path = |name: &str| dir.join(name).to_str().unwrap().to_owned();
        for name in ["b.conf", "a.conf", ".hidden.conf", "c.txt"] {
            std::fs::write(path(name), name).unwrap();
        }
        let mut recorder = Recorder::default();
        let mut found = recorder.glob(&path("*.conf")).unwrap();
        found.sort();
        assert_eq!(found, [path("a.conf"), path("b.conf")]);
        assert_eq!(recorder.load(&found[0]).unwrap(), b"a.conf");
        std::fs::write(&found[0], "changed").unwrap();
        assert_eq!(recorder.load(&found[0]).unwrap(), b"a.conf", "one reading is one state of the files");
        assert_eq!(recorder.load(&path("none")).unwrap_err().raw_os_error(), Some(2));
        assert!(recorder.glob(&path("a[")).unwrap().is_empty());
        let mut twisted = recorder.glob(&path("./?.[!x]on*")).unwrap();
        twisted.sort();
        assert_eq!(twisted, [path("./a.conf"), path("./b.conf")], "the pattern's own text stays");
        std::fs::create_dir(dir.join("[d]")).unwrap();
        std::fs::write(path("[d]/e.conf"), "").unwrap();
        assert_eq!(recorder.glob(&path("?d?/*.conf")).unwrap(), [path("[d]/e.conf")], "a name is not a pattern");
        let upper = dir.file_name().unwrap().to_str().unwrap();
        let above = format!("{}/{}**/c.t?t", dir.parent().unwrap().display(), &upper[..upper.len() - 1]);
        assert_eq!(recorder.glob(&above).unwrap(), [path("c.txt")]);
        std::fs::remove_dir_all(&dir).unwrap();

        let notes = recorder.recorded;
        let mut replay = Replay(&notes);
        assert_eq!(replay.glob(&path("*.conf")).unwrap().len(), 2);
        assert_eq!(replay.load(&found[0]).unwrap(), b"a.conf");
        assert_eq!(replay.load(&found[1]).unwrap_err().raw_os_error(), Some(2));
        assert!(replay.glob("*").unwrap().is_empty());
    }
}
