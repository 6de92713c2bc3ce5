//! The last step of a release: the code of the finished program is laid out anew (BOLT, LLVM's optimiser behind the linker).
//!
//! The compiler places counted code in its own form of the program, before it inlines. The order in which the finished
//! program runs is only known of that program. So it is counted again: BOLT writes a binary that counts its jumps, the
//! same load runs on it, and then BOLT places blocks and functions.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{Compiler, LEAST_COUNTS, ReleaseError, empty};
use crate::command::{StepError, ask, at};

/// The information that the linker has to leave in a program for BOLT: the places of addresses.
pub const LINKED: &str = "-Clink-arg=-Wl,--emit-relocs";

/// The placement of blocks and functions. Code that runs in a row stands together, code that never ran stands
/// elsewhere, the landing pads of panics too. Tables of lines follow.
const PLACED: [&str; 6] = [
    "-reorder-blocks=ext-tsp",
    "-reorder-functions=cdsort",
    "-split-functions",
    "-split-all-cold",
    "-split-eh",
    "-update-debug-sections",
];

/// The tools.
pub struct Bolt {
    bolt: PathBuf,
    /// Adds up what several processes have counted.
    merge: PathBuf,
}

impl Bolt {
    /// `llvm-bolt` of an LLVM as new as the compiler's, with its `merge-fdata` beside it, if there is one.
    pub fn find(compiler: &Compiler) -> Option<Bolt> {
        let bolt = compiler.tool("llvm-bolt", &["--version"])?;
        let merge = bolt.file_name()?.to_str()?.replace("llvm-bolt", "merge-fdata");
        let merge = bolt.with_file_name(merge);
        merge.is_file().then_some(Bolt { bolt, merge })
    }

    /// Writes to `counted` what `load` makes `program` do; `folder` is for the files on the way there.
    pub fn count(
        &self,
        program: &Path,
        counted: &Path,
        folder: &Path,
        load: impl FnOnce(&Path) -> Result<(), ReleaseError>,
    ) -> Result<(), ReleaseError> {
        empty(folder)?;
        let (raw, counting) = (folder.join("raw"), folder.join("freerun"));
        empty(&raw)?;
        // Each process writes a file of its own, the workers of another user too.
        at(&raw, fs::set_permissions(&raw, fs::Permissions::from_mode(0o777)))?;

        let mut instrument = Command::new(&self.bolt);
        instrument.arg(program).arg("-instrument").arg("-o").arg(&counting);
        instrument.arg(format!("--instrumentation-file={}", raw.join("counts").display()));
        ask(instrument.arg("--instrumentation-file-append-pid"))?;
        load(&counting)?;

        let mut whole = Vec::new();
        for file in at(&raw, fs::read_dir(&raw))? {
            let file = at(&raw, file)?.path();
            // A process that was ended while it wrote has left a part of its counts, which cannot be read.
            if ask(Command::new(&self.merge).arg(&file).arg("-o").arg(counted)).is_ok() {
                whole.push(file);
            }
        }
        if !whole.is_empty() {
            ask(Command::new(&self.merge).args(&whole).arg("-o").arg(counted))?;
        }
        let counts = if counted.exists() { total(&at(counted, fs::read_to_string(counted))?) } else { 0 };
        if counts < LEAST_COUNTS {
            return Err(ReleaseError::NotCounted { counts, folder: raw });
        }
        Ok(())
    }

    /// Lays `program` out anew as `placed`, with what was counted.
    pub fn place(&self, program: &Path, placed: &Path, counted: &Path) -> Result<(), StepError> {
        let mut place = Command::new(&self.bolt);
        place.arg(program).arg("-o").arg(placed).arg(format!("-data={}", counted.display())).args(PLACED);
        ask(&mut place)?;
        // What it made has to start before it is anybody's.
        ask(Command::new(placed).arg("-v")).map(drop)
    }
}

/// The sum of the counts in a merged file: each line ends with one.
fn total(text: &str) -> u64 {
    text.lines().filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok()).fold(0, u64::saturating_add)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_stand_at_the_end_of_lines() {
        let text = "1 _ZN7freerun4main/1 6d 0 [unknown] 0 0 24398\n1 _ZN3std3env/1 3a 1 _ZN3std3env/1 40 0 2\n";
        assert_eq!(total(text), 24_400);
        assert_eq!(total("boltedcollection\n"), 0);
    }
}
