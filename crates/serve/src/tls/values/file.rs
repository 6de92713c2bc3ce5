//! Files that directives of TLS name.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use freerun_conf::{Cx, Node, Problem, Shape, Value, Word};
use freerun_runtime::log::Errno;
use freerun_tls::load;
use zeroize::Zeroizing;

use super::Spot;
use crate::tls::files::{ConfigurationFiles, full_path};

/// The name of a file that is read with the configuration, or the contents themselves (`data:`).
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct FileName {
    /// The name as it is written.
    pub written: String,
    /// The full path of the file, or `data:` with the contents.
    pub path: String,
    /// Where it is written.
    pub spot: Spot,
}

impl FileName {
    /// The name that a word of a directive gives.
    pub fn of(word: &Word, directive: &Node, cx: &mut Cx) -> FileName {
        FileName::new(&word.text, Spot::of(word, directive), cx)
    }

    /// The file with this name.
    pub fn new(written: &str, spot: Spot, cx: &mut Cx) -> FileName {
        let path = if written.starts_with("data:") { written.to_owned() } else { full_path(written, cx) };
        FileName { written: written.to_owned(), path, spot }
    }

    /// The path as it may be shown: contents are not, because they may be a private key.
    pub fn shown(&self) -> &str {
        if self.path.starts_with("data:") { "data:" } else { &self.path }
    }

    /// Whether no file is named, which cancels one that an outer level names.
    pub fn is_empty(&self) -> bool {
        self.written.is_empty()
    }
}

impl fmt::Debug for FileName {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "{:?}", self.shown())
    }
}

impl Value for FileName {
    const SHAPE: Shape = Shape::exactly(1, "file");

    fn parse(directive: &Node, cx: &mut Cx) -> Result<FileName, Problem> {
        Ok(FileName::of(&directive.args[0], directive, cx))
    }
}

/// The most bytes of a password.
const MAX_PASSWORD: usize = 4095;

/// A file with passwords of keys, which is read where it is named.
#[derive(Clone)]
pub struct PasswordFile {
    name: FileName,
    passwords: Arc<Vec<Zeroizing<Vec<u8>>>>,
}

impl PasswordFile {
    /// The passwords.
    pub fn passwords(&self) -> &[Zeroizing<Vec<u8>>] {
        &self.passwords
    }
}

impl PartialEq for PasswordFile {
    fn eq(&self, other: &PasswordFile) -> bool {
        self.name == other.name
    }
}

impl Eq for PasswordFile {}

impl Hash for PasswordFile {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name.hash(state);
    }
}

impl fmt::Debug for PasswordFile {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.name.fmt(to)
    }
}

impl Value for PasswordFile {
    const SHAPE: Shape = Shape::exactly(1, "file");

    fn parse(directive: &Node, cx: &mut Cx) -> Result<PasswordFile, Problem> {
        let name = FileName::parse(directive, cx)?;
        let path = &name.path;
        let read = cx.extensions.get_or_default::<ConfigurationFiles>().get_whole(path);
        let secret =
            read.map_err(|(call, error)| Problem::new(format!("{call} \"{path}\" failed ({})", Errno(&error))))?;
        let passwords = load::passwords(secret.bytes());
        if passwords.iter().any(|password| password.len() > MAX_PASSWORD) {
            return Err(Problem::new(format!("too long line in \"{path}\"")));
        }
        Ok(PasswordFile { passwords: Arc::new(passwords), name })
    }
}
