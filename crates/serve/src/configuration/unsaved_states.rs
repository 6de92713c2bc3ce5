//! States whose files could not be written: a full disk must not lose a change that was answered with success. They are
//! tried again until they are written, and once more when the process ends.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use freerun_runtime::log::{Errno, ErrorLog, Level};

use crate::configuration::state_file::StateFile;

/// The time after which a file is tried again.
const RETRY: Duration = Duration::from_secs(1);

/// The states that are in effect and not in their files. There are at most as many as configurations name files.
static UNSAVED: Mutex<RetryList> = Mutex::new(RetryList { states: BTreeMap::new(), is_retried: false });

struct RetryList {
    /// By the paths of the files.
    states: BTreeMap<String, UnsavedState>,
    /// There is a thread that tries them again.
    is_retried: bool,
}

#[derive(Clone)]
struct UnsavedState {
    file: Arc<StateFile>,
    make: Arc<dyn Fn() -> Vec<u8> + Send + Sync>,
    log: ErrorLog,
}

fn unsaved() -> MutexGuard<'static, RetryList> {
    UNSAVED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Replaces a file by what `make` gives: a state that is in effect already. Where that fails, the error is logged, and
/// the file is tried again until it is written, with the state of then. It waits for the disk, so a loop never calls it.
pub fn write(file: &Arc<StateFile>, log: &ErrorLog, make: impl Fn() -> Vec<u8> + Send + Sync + 'static) {
    match file.write(&make) {
        Ok(()) => {
            unsaved().states.remove(file.path());
        }
        Err(error) => {
            let (path, error) = (file.path(), Errno(&error));
            let text = format_args!("state file \"{path}\" cannot be written ({error}), it is tried again");
            log.write(Level::Alert, None, text);
            let state = UnsavedState { file: file.clone(), make: Arc::new(make), log: log.clone() };
            let mut all = unsaved();
            all.states.insert(path.to_owned(), state);
            if !all.is_retried {
                all.is_retried = std::thread::Builder::new().name("unsaved states".to_owned()).spawn(retry).is_ok();
            }
        }
    }
}

/// The paths of the files that do not have the present state.
pub fn paths() -> Vec<String> {
    unsaved().states.keys().cloned().collect()
}

/// Tries all files once more. For the end of the process.
pub fn write_all() {
    let all: Vec<UnsavedState> = unsaved().states.values().cloned().collect();
    for state in all {
        if state.file.write(|| (state.make)()).is_ok() {
            let path = state.file.path();
            unsaved().states.remove(path);
            state.log.write(Level::Notice, None, format_args!("state file \"{path}\" is written"));
        }
    }
}

/// Leaves the states to the process that has got them.
pub fn forget() {
    unsaved().states.clear();
}

fn retry() {
    loop {
        std::thread::sleep(RETRY);
        write_all();
        let mut all = unsaved();
        if all.states.is_empty() {
            all.is_retried = false;
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_state_is_written_as_soon_as_that_is_possible() {
        let folder = std::env::temp_dir().join(format!("freerun-unsaved-state-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let path = folder.join("a.state");
        let file = Arc::new(StateFile::new(path.to_str().unwrap().to_owned()));
        let in_the_way = folder.join("a.state.new");
        fs::create_dir(&in_the_way).unwrap();
        write(&file, &ErrorLog::default(), || b"one".to_vec());
        assert!(!path.exists() && paths().contains(&file.path().to_owned()));
        fs::remove_dir(&in_the_way).unwrap();
        write_all();
        assert_eq!(fs::read(&path).unwrap(), b"one");
        assert!(!paths().contains(&file.path().to_owned()));
        fs::remove_dir_all(&folder).unwrap();
    }
}
