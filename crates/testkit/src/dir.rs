//! Temporary folders and the files that tests serve from them.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, SystemTime};

/// A folder of its own, removed when dropped; kept when the variable `FREERUN_TEST_KEEP` is set.
#[derive(Debug)]
pub struct TempDir {
    path: PathBuf,
}

impl TempDir {
    /// Makes a folder under the system's temporary folder, readable by every user, since servers give up root.
    ///
    /// # Panics
    /// The folder cannot be made.
    pub fn new(name: &str) -> TempDir {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("freerun-{name}-{}-{number}", std::process::id()));
        // A process of an earlier run may have had the same id.
        let _ = fs::remove_dir_all(&path);
        must(fs::create_dir_all(&path), &path);
        must(fs::set_permissions(&path, fs::Permissions::from_mode(0o755)), &path);
        TempDir { path }
    }

    /// The folder's path.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for TempDir {
    fn drop(&mut self) {
        if std::env::var_os("FREERUN_TEST_KEEP").is_some() {
            eprintln!("kept {}", self.path.display());
        } else {
            // Files that a server still has open stay behind; no test depends on that.
            let _ = fs::remove_dir_all(&self.path);
        }
    }
}

/// A document root that several servers can share, so that ETag and Last-Modified agree.
#[derive(Debug)]
pub struct Site {
    dir: TempDir,
}

impl Default for Site {
    fn default() -> Self {
        Site::new()
    }
}

impl Site {
    /// An empty root.
    pub fn new() -> Site {
        Site { dir: TempDir::new("site") }
    }

    /// The root's path.
    pub fn path(&self) -> &Path {
        self.dir.path()
    }

    /// The path of a file in it.
    pub fn at(&self, path: &str) -> PathBuf {
        self.dir.path().join(path)
    }

    /// Writes a file, making the folders on the way.
    ///
    /// # Panics
    /// The file cannot be written; the methods below panic in this case, too.
    #[track_caller]
    pub fn file(&self, path: &str, content: impl AsRef<[u8]>) -> &Site {
        let full = self.at(path);
        if let Some(parent) = full.parent() {
            must(fs::create_dir_all(parent), parent);
        }
        must(fs::write(&full, content), &full);
        self
    }

    /// Writes a file with a given modification time, in seconds since 1970.
    #[track_caller]
    pub fn dated(&self, path: &str, content: impl AsRef<[u8]>, mtime: u64) -> &Site {
        self.file(path, content);
        let full = self.at(path);
        let file = must(fs::File::options().append(true).open(&full), &full);
        must(file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(mtime)), &full);
        self
    }

    /// Makes a folder.
    #[track_caller]
    pub fn folder(&self, path: &str) -> &Site {
        must(fs::create_dir_all(self.at(path)), &self.at(path));
        self
    }

    /// Makes a symbolic link.
    #[track_caller]
    pub fn link(&self, path: &str, target: &str) -> &Site {
        must(symlink(target, self.at(path)), &self.at(path));
        self
    }

    /// Sets the permission bits.
    #[track_caller]
    pub fn mode(&self, path: &str, mode: u32) -> &Site {
        must(fs::set_permissions(self.at(path), fs::Permissions::from_mode(mode)), &self.at(path));
        self
    }
}

#[track_caller]
fn must<T>(result: std::io::Result<T>, path: &Path) -> T {
    match result {
        Ok(value) => value,
        Err(error) => panic!("{}: {error}", path.display()),
    }
}
