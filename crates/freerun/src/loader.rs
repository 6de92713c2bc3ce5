//! Where configuration texts come from: the disk in the master, which notes what it read; the notes in the worker.

use std::collections::BTreeMap;
use std::io::{self, Read as _};

use freerun_conf::{Loader, MAX_FILE};
use serde::{Deserialize, Serialize};

/// Everything a configuration was read from. A worker that replays it sees the very same bytes, without needing the
/// right, or the time, to read the files itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Recorded {
    /// Contents by path.
    pub files: BTreeMap<String, Vec<u8>>,
    /// What each pattern of an `include` matched.
    pub globs: BTreeMap<String, Vec<String>>,
}

/// Reads from the disk and notes it.
#[derive(Debug, Default)]
pub struct Recorder {
    /// The notes.
    pub recorded: Recorded,
}

impl Loader for Recorder {
    fn load(&mut self, path: &str) -> io::Result<Vec<u8>> {
        if let Some(bytes) = self.recorded.files.get(path) {
            // The second use of a file sees what the first one saw, as the worker will.
            return Ok(bytes.clone());
        }
        let mut bytes = Vec::new();
        std::fs::File::open(path)?.take(MAX_FILE as u64 + 1).read_to_end(&mut bytes)?;
        self.recorded.files.insert(path.to_owned(), bytes.clone());
        Ok(bytes)
    }

    fn glob(&mut self, pattern: &str) -> io::Result<Vec<String>> {
        let options = glob::MatchOptions {
            case_sensitive: true,
            require_literal_separator: true,
            require_literal_leading_dot: true,
        };
        let wrong = |error: glob::PatternError| io::Error::new(io::ErrorKind::InvalidInput, error.msg);
        let mut paths = Vec::new();
        for found in glob::glob_with(pattern, options).map_err(wrong)? {
            // glob(3) passes over what it cannot look into, and so does nginx.
            if let Some(path) = found.ok().as_deref().and_then(|path| path.to_str()) {
                paths.push(path.to_owned());
            }
        }
        self.recorded.globs.insert(pattern.to_owned(), paths.clone());
        Ok(paths)
    }
}

/// Answers from the notes alone.
#[derive(Debug)]
pub struct Replay<'a>(pub &'a Recorded);

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
    fn a_replay_gives_what_was_recorded_and_nothing_else() {
        let dir = std::env::temp_dir().join(format!("freerun-loader-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let path = |name: &str| dir.join(name).to_str().unwrap().to_owned();
        for name in ["b.conf", "a.conf", ".hidden.conf", "c.txt"] {
            std::fs::write(path(name), name).unwrap();
        }
        let mut recorder = Recorder::default();
        let found = recorder.glob(&path("*.conf")).unwrap();
        assert_eq!(found, [path("a.conf"), path("b.conf")]);
        assert_eq!(recorder.load(&found[0]).unwrap(), b"a.conf");
        std::fs::write(&found[0], "changed").unwrap();
        assert_eq!(recorder.load(&found[0]).unwrap(), b"a.conf", "one reading is one state of the files");
        assert_eq!(recorder.load(&path("none")).unwrap_err().raw_os_error(), Some(2));
        assert!(recorder.glob("a[").is_err());
        std::fs::remove_dir_all(&dir).unwrap();

        let notes = recorder.recorded;
        let mut replay = Replay(&notes);
        assert_eq!(replay.glob(&path("*.conf")).unwrap(), found);
        assert_eq!(replay.load(&found[0]).unwrap(), b"a.conf");
        assert_eq!(replay.load(&found[1]).unwrap_err().raw_os_error(), Some(2));
        assert!(replay.glob("*").unwrap().is_empty());
    }
}
