//! A file system whose slowness, hangs and errors a test controls: FUSE, served by this process.

mod control;
mod mirror;
pub mod pattern;
mod tree;

pub use control::{Action, Control, Op};
pub use mirror::Mirror;
pub use tree::Tree;

use crate::HarnessError;
use fuser::{BackgroundSession, Config, MountOption, Session, SessionACL};
use rustix::mount::{UnmountFlags, unmount};
use std::path::{Path, PathBuf};

/// A mounted fixture. Dropping it releases all waiting operations, and unmounts it.
#[derive(Debug)]
pub struct Fixture {
    mountpoint: PathBuf,
    control: Control,
    tree: Tree,
    session: Option<BackgroundSession>,
}

impl Fixture {
    /// Mounts an empty tree on an existing folder, readable by every user.
    ///
    /// A dead mount that an earlier process left there is unmounted first.
    ///
    /// # Errors
    /// The error of `mount(2)`: usually EPERM without CAP_SYS_ADMIN, or no `/dev/fuse`.
    pub fn mount(mountpoint: &Path, direct: bool) -> Result<Fixture, HarnessError> {
        let failed = |source| HarnessError::Fuse { path: mountpoint.to_owned(), source };
        if mountpoint.metadata().is_err() {
            // ENOTCONN: the server of this mount is gone. Other errors show in the mount below.
            let _ = unmount(mountpoint, UnmountFlags::DETACH);
        }
        let (control, tree) = (Control::default(), Tree::default());
        let mut config = Config::default();
        config.acl = SessionACL::All;
        config.mount_options = vec![MountOption::FSName("freerun-fixture".into())];
        let mounted = tree::TreeFileSystem { tree: tree.clone(), control: control.clone(), direct };
        let session = Session::new(mounted, mountpoint, &config).and_then(Session::spawn).map_err(failed)?;
        Ok(Fixture { mountpoint: mountpoint.to_owned(), control, tree, session: Some(session) })
    }

    /// The path at which it is mounted.
    pub fn path(&self) -> &Path {
        &self.mountpoint
    }

    /// The rules.
    pub fn control(&self) -> &Control {
        &self.control
    }

    /// The files.
    pub fn tree(&self) -> &Tree {
        &self.tree
    }

    /// Adds a file of `size` patterned bytes; [`content`](Self::content) returns them.
    ///
    /// # Panics
    /// The path is not a relative one.
    pub fn file(&self, path: &str, size: u64) -> &Self {
        if let Err(why) = self.tree.file(path, size) {
            panic!("fixture: {why}");
        }
        self
    }

    /// The bytes at `offset` of a file that was added with [`file`](Self::file).
    pub fn content(path: &str, offset: u64, length: usize) -> Vec<u8> {
        pattern::bytes(pattern::seed(path), offset, length)
    }

    /// Executes one command line of [`Control::command`], or `file PATH SIZE`, `files PREFIX COUNT SIZE` (names
    /// PREFIX0, PREFIX1, …), `shrink PATH AVAILABLE`.
    ///
    /// # Errors
    /// The error in the command.
    pub fn command(&self, line: &str) -> Result<String, String> {
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        if let Some(answer) = self.control.command(&words) {
            return answer;
        }
        let number = |text: &str| text.parse::<u64>().map_err(|_| format!("\"{text}\" is not a number"));
        match *words {
            [] => {}
            ["file", path, size] => self.tree.file(path, number(size)?)?,
            ["files", prefix, count, size] => {
                for index in 0..number(count)?.min(MAX_FILES) {
                    self.tree.file(&format!("{prefix}{index}"), number(size)?)?;
                }
            }
            ["shrink", path, available] => self.tree.shrink(path, number(available)?)?,
            _ => return Err(format!("no command \"{line}\"")),
        }
        Ok("ok".to_owned())
    }
}

/// The most files that one `files` command makes.
const MAX_FILES: u64 = 1_000_000;

impl Drop for Fixture {
    fn drop(&mut self) {
        self.control.clear();
        // Detached, so that a server which still has files open does not keep the test from ending.
        let _ = unmount(self.mountpoint.as_path(), UnmountFlags::DETACH);
        drop(self.session.take());
    }
}

#[cfg(test)]
mod tests;
