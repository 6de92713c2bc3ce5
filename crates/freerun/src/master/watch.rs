//! Certificates that were renewed: their files are looked at while the server runs (`ssl_certificate … watch`).
//!
//! A renewal replaces two files, one after the other or both at once. The new files are used when certificate and key
//! fit together. Until then the files before stay in use, for the serving worker and for a worker that is started anew.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use freerun_conf::path_of;
use freerun_runtime::log::clock;
use freerun_serve::tls::files::{FileState, KnownFile, MAX_TOTAL, ReadFile, SecretFiles, Stamp};
use freerun_serve::tls::live::FilePair;

use super::state::State;
use crate::source::loader::read_secret;

/// The time after a modification in which a file may be modified again without getting another time: file systems have
/// steps of some milliseconds, or of seconds. A file is read again if it was modified so shortly before it was read.
const STEP: Duration = Duration::from_secs(2);

/// The error of something that is no regular file: `EINVAL`, or `EISDIR` for a folder.
const NO_FILE: i32 = 22;
const FOLDER: i32 = 21;

/// The files of certificates that are looked at, and the pairs that they are for.
pub struct Watch {
    files: BTreeMap<String, WatchedFile>,
    /// All pairs of the configuration that are made of files.
    pairs: Arc<[FilePair]>,
    /// Which of them have a file; nothing if none of them is looked at.
    by_path: HashMap<String, Vec<usize>>,
    read: ReadFile,
}

/// A file that is looked at.
struct WatchedFile {
    every: Duration,
    next: Instant,
    /// The file as the last look found it, whether it is used or not.
    seen: KnownFile,
    /// Whether the file's time will tell of the next modification.
    is_settled: bool,
}

/// The result of a look.
#[derive(Debug, Default)]
pub struct LookResult {
    /// The files that are to be used from now on: of each renewed pair both.
    pub renewed: SecretFiles,
    /// The reasons why pairs that have changed cannot be used.
    pub refused: Vec<String>,
}

impl Watch {
    /// The files of a configuration that was just read, which `read` reads if they are not on the disk.
    pub fn of(state: &State, read: Option<ReadFile>) -> Watch {
        let (pairs, known, now) = (state.pairs.clone(), &state.bundle.recorded.secrets, Instant::now());
        let read = read.unwrap_or_else(|| ReadFile(Arc::new(read_regular)));
        let mut files: BTreeMap<String, WatchedFile> = BTreeMap::new();
        for (pair, every) in pairs.iter().filter_map(|pair| Some((pair, pair.watch?))) {
            for path in [&pair.certificate, &pair.key] {
                let Some(seen) = known.get(path).cloned() else { continue };
                let watched = WatchedFile { every, next: now + every, seen, is_settled: false };
                let file = files.entry(path.clone()).or_insert(watched);
                file.every = file.every.min(every);
                file.next = file.next.min(now + every);
            }
        }
        let mut by_path: HashMap<String, Vec<usize>> = HashMap::new();
        for (number, pair) in pairs.iter().enumerate().filter(|_| !files.is_empty()) {
            by_path.entry(pair.certificate.clone()).or_default().push(number);
            by_path.entry(pair.key.clone()).or_default().push(number);
        }
        Watch { files, pairs, by_path, read }
    }

    /// The time of the next look.
    pub fn next(&self) -> Option<Instant> {
        self.files.values().map(|file| file.next).min()
    }

    /// Looks at the files that are due. `used` are the files as they are used.
    pub fn look(&mut self, now: Instant, used: &SecretFiles) -> LookResult {
        let mut changed = Vec::new();
        for (path, file) in self.files.iter_mut().filter(|(_, file)| file.next <= now) {
            file.next = now + file.every;
            let earlier = file.is_settled.then_some(&file.seen);
            let seen = KnownFile::look(path, earlier, |path, known| self.read.read(path, known));
            if seen != file.seen {
                changed.push(path.clone());
            }
            file.is_settled = is_settled(&seen);
            file.seen = seen;
        }
        let mut looked = LookResult::default();
        let mut tried = PairTrials::new();
        for number in self.concerned(changed) {
            match self.renewed(number, used, &mut tried) {
                Ok(files) => looked.renewed.extend(files),
                Err(why) if looked.refused.contains(&why) => {}
                Err(why) => looked.refused.push(why),
            }
        }
        let size = |files: &SecretFiles| files.values().map(KnownFile::size).sum::<usize>();
        if !looked.renewed.is_empty() && size(used) + size(&looked.renewed) > MAX_TOTAL {
            looked.renewed.clear();
            looked
                .refused
                .push("certificates that have changed are too large together with the other files".to_owned());
        }
        looked
    }

    /// The watched pairs that have one of these files, or share one with such a pair.
    fn concerned(&self, changed: Vec<String>) -> BTreeSet<usize> {
        let (mut numbers, mut paths) = (BTreeSet::new(), changed);
        while let Some(path) = paths.pop() {
            for number in self.by_path.get(&path).into_iter().flatten() {
                let pair = &self.pairs[*number];
                if pair.watch.is_some() && numbers.insert(*number) {
                    paths.extend([pair.certificate.clone(), pair.key.clone()]);
                }
            }
        }
        numbers
    }

    /// The files of a pair that is to be used from now on; there are none if it is used already.
    fn renewed(&self, number: usize, used: &SecretFiles, tried: &mut PairTrials) -> Result<SecretFiles, String> {
        let files = self.newest(&self.pairs[number], used);
        if files.iter().all(|(path, file)| used.get(path) == Some(file)) {
            return Ok(SecretFiles::new());
        }
        self.fits(number, used, tried)?;
        // The next worker makes all pairs of the configuration, so those that share a file with this one have to fit, too.
        for other in files.keys().filter_map(|path| self.by_path.get(path)).flatten() {
            self.fits(*other, used, tried)?;
        }
        Ok(files)
    }

    /// Whether the newest files of a pair fit together: that is found out once for each look.
    fn fits(&self, number: usize, used: &SecretFiles, tried: &mut PairTrials) -> Result<(), String> {
        let pair = &self.pairs[number];
        let made = tried.entry(number).or_insert_with(|| pair.make(&self.newest(pair, used)).map(|_| ()));
        made.clone()
    }

    /// The files of a pair: as they were seen last if they are looked at, otherwise as they are used.
    fn newest(&self, pair: &FilePair, used: &SecretFiles) -> SecretFiles {
        let newest = |path: &String| {
            let seen = self.files.get(path).map(|file| &file.seen);
            Some((path.clone(), seen.or_else(|| used.get(path))?.clone()))
        };
        [&pair.certificate, &pair.key].into_iter().filter_map(newest).collect()
    }
}

/// Which pairs, by their numbers, were made of their newest files, and why that failed.
type PairTrials = HashMap<usize, Result<(), String>>;

/// Whether a modification from now on would give the file another time.
fn is_settled(seen: &KnownFile) -> bool {
    let Some((seconds, _)) = seen.stamp().map(|stamp| stamp.modified) else { return false };
    let now = clock::since_1970();
    u64::try_from(seconds).is_ok_and(|seconds| Duration::from_secs(seconds) + STEP < now)
}

/// Reads a file, unless it is something that could make the master wait, such as a FIFO.
fn read_regular(path: &str, known: Option<Stamp>) -> io::Result<FileState> {
    let metadata = std::fs::metadata(path_of(path))?;
    if metadata.is_file() {
        read_secret(path, known)
    } else {
        Err(io::Error::from_raw_os_error(if metadata.is_dir() { FOLDER } else { NO_FILE }))
    }
}
