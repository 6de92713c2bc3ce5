//! The title of the process: what ps(1) shows as its command line.
//!
//! The kernel shows the memory in which it has put the arguments (proc_pid_cmdline(5)), up to the first NUL. If the end
//! of that was overwritten, it also shows the environment behind it. This memory is the room of a title. What stood
//! there has to be moved away before, so arguments come from [`arguments`] from then on, and not from `std::env::args`.

use std::ffi::{OsString, c_char};
use std::io;
use std::sync::{Mutex, OnceLock, PoisonError};

/// The longest title in bytes: the kernel shows one page at most.
const MAX_TITLE: usize = 4095;

static ROOM: Mutex<Option<Room>> = Mutex::new(None);

static ARGUMENTS: OnceLock<Vec<OsString>> = OnceLock::new();

unsafe extern "C" {
    /// The variables of the environment, `NAME=VALUE` each, and a null pointer (environ(7)).
    static mut environ: *mut *mut c_char;
}

/// The memory for a title.
struct Room {
    start: *mut u8,
    len: usize,
}

// SAFETY: the memory belongs to the process for its whole life, and only the thread that holds `ROOM` uses it.
unsafe impl Send for Room {}

/// The arguments of the program, its name included, whether or not a title has taken their place.
pub fn arguments() -> &'static [OsString] {
    ARGUMENTS.get_or_init(|| std::env::args_os().collect())
}

/// Makes room for titles. Must be called while the process has one thread. Calling it again changes nothing.
///
/// # Errors
/// `Unsupported` if the process has other threads, or if what `/proc` says of it cannot be understood; the error of reading
/// `/proc`.
pub fn prepare() -> io::Result<()> {
    let mut room = ROOM.lock().unwrap_or_else(PoisonError::into_inner);
    if room.is_some() {
        return Ok(());
    }
    if std::fs::read_dir("/proc/self/task")?.count() != 1 {
        return Err(io::Error::new(io::ErrorKind::Unsupported, "a title with several threads"));
    }
    let shown = std::fs::read("/proc/self/cmdline")?.len();
    let stat = std::fs::read_to_string("/proc/self/stat")?;
    let (start, len) = extent(&stat, shown).ok_or(io::ErrorKind::Unsupported)?;
    // Copies what std would read from the memory.
    arguments();
    move_environment()?;
    *room = Some(Room { start: start as *mut u8, len });
    Ok(())
}

/// Shows this title, as much of it as there is room for. Nothing happens without [`prepare`].
pub fn set(title: &[u8]) {
    let room = ROOM.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(Room { start, len }) = &*room else { return };
    // The last byte stays the NUL that ends the last string.
    let shown = title.len().min(len - 1).min(MAX_TITLE);
    // SAFETY: the kernel has mapped these `len` bytes for arguments and environment, writable, and never takes them
    // back. Nothing refers to the environment there any more. Only functions of std and of the C library that print the
    // program's name refer to the arguments; they find a string that ends, whenever they look. `title` is no part of
    // the memory, since nobody makes a slice of that.
    unsafe {
        start.write_bytes(0, *len);
        start.copy_from_nonoverlapping(title.as_ptr(), shown);
    }
}

/// The address and the length of the room, by `/proc/self/stat` (proc_pid_stat(5)). `shown` is the length of what the
/// kernel shows now. If it is not the length of the arguments, they are not understood.
fn extent(stat: &str, shown: usize) -> Option<(usize, usize)> {
    // The name of the program is in parentheses and may contain any character; the third field follows.
    let mut fields =
        stat.rsplit_once(") ")?.1.split_ascii_whitespace().skip(48 - 3).map_while(|field| field.parse().ok());
    let (start, end): (usize, usize) = (fields.next()?, fields.next()?);
    let (environment, environment_end): (usize, usize) = (fields.next()?, fields.next()?);
    if start == 0 || end <= start || end - start != shown {
        return None;
    }
    let is_behind = environment == end && environment_end > environment;
    Some((start, if is_behind { environment_end } else { end } - start))
}

/// Has every variable of the environment stand in memory of its own.
///
/// # Errors
/// There is no memory; some variables have moved then, which changes nothing.
fn move_environment() -> io::Result<()> {
    // SAFETY: the process has one thread, so nobody reads or changes the list meanwhile. It ends with a null pointer, and
    // each of the others points to a string that ends with a NUL. The copies are never freed.
    unsafe {
        let mut variable = environ;
        while !variable.is_null() && !(*variable).is_null() {
            let copy = libc::strdup(*variable);
            if copy.is_null() {
                return Err(io::Error::last_os_error());
            }
            *variable = copy;
            variable = variable.add(1);
        }
    }
    Ok(())
}

// What a title looks like from outside is tested in `tests/title.rs`, in a process with one thread.
#[cfg(test)]
mod tests {
    use super::*;

    fn stat(fields: [usize; 4]) -> String {
        let before = "0 ".repeat(48 - 4);
        format!("7 (a) b) S {before}{} {} {} {} 0\n", fields[0], fields[1], fields[2], fields[3])
    }

    #[test]
    fn the_room_ends_with_the_environment_if_that_follows() {
        assert_eq!(extent(&stat([100, 110, 110, 150]), 10), Some((100, 50)));
        assert_eq!(extent(&stat([100, 110, 120, 150]), 10), Some((100, 10)));
        assert_eq!(extent(&stat([100, 110, 110, 110]), 10), Some((100, 10)));
    }

    #[test]
    fn what_is_not_understood_is_left_alone() {
        for (fields, shown) in [([0, 0, 0, 0], 0), ([100, 100, 100, 150], 0), ([100, 110, 110, 150], 9)] {
            assert_eq!(extent(&stat(fields), shown), None);
        }
        assert_eq!(extent("7 (a) S 1 2", 1), None);
        assert_eq!(extent("", 1), None);
    }

    #[test]
    fn several_threads_are_refused() {
        // The test harness has a main thread and this one.
        assert_eq!(prepare().unwrap_err().kind(), io::ErrorKind::Unsupported);
        set(b"nothing happens");
    }
}
