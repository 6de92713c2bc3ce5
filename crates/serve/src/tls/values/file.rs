//! Files that directives of TLS name.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

use freerun_conf::{Cx, Node, Problem, Shape, Value, Word, parse_time, text_of};
use freerun_runtime::log::Errno;
use freerun_tls::digest::sha256_of;
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
    /// Place in the configuration.
    pub spot: Spot,
    /// Whether the name has variables in it, so that it is known only when it is used.
    pub is_computed: bool,
    /// Interval at which the file is looked at for a change while the server runs (`watch`); `None`: it is read with
    /// the configuration alone.
    pub watch: Option<Duration>,
}

impl FileName {
    /// The name that a word of a directive gives.
    pub fn of(word: &Word, directive: &Node, cx: &mut Cx) -> FileName {
        FileName::new(&word.text, Spot::of(word, directive), cx)
    }

    /// The file with this name.
    pub fn new(written: &str, spot: Spot, cx: &mut Cx) -> FileName {
        let path = if written.starts_with("data:") { written.to_owned() } else { full_path(written, cx) };
        FileName { written: written.to_owned(), path, spot, is_computed: false, watch: None }
    }

    /// The path as it may be shown: contents are not, because they may be a private key.
    pub fn shown(&self) -> &str {
        shown(&self.path)
    }

    /// The name as it is written, as far as it may be shown.
    pub fn as_written(&self) -> &str {
        shown(&self.written)
    }

    /// Whether no file is named. An empty name cancels the file that an outer level names.
    pub fn is_empty(&self) -> bool {
        self.written.is_empty()
    }
}

/// A name or path as it may be shown: contents (`data:`) are not, because they may be a private key.
pub(in crate::tls) fn shown(name: &str) -> &str {
    if name.starts_with("data:") { "data:" } else { name }
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

/// The name of a file, or the contents themselves, with variables in it or not. `T` is a text with variables.
#[derive(Clone)]
pub struct ComputedFile<T> {
    /// The name.
    pub name: FileName,
    /// The name as it is written, if there are variables in it.
    pub template: Option<T>,
}

/// A file's name, as its variables give it.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct ComputedName {
    /// The name.
    pub value: String,
    /// Number of parts `..` that the configuration itself has written in it.
    parents: usize,
}

impl ComputedName {
    /// Whether variables lead out of the folder that the configuration names: their values may come from the client.
    pub fn leads_elsewhere(&self) -> bool {
        parents(&self.value) > self.parents
    }

    /// Whether no file is named.
    pub fn is_empty(&self) -> bool {
        self.value.is_empty()
    }
}

impl fmt::Debug for ComputedName {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "{:?}", shown(&self.value))
    }
}

fn parents(path: &str) -> usize {
    path.split('/').filter(|part| *part == "..").count()
}

impl<T> ComputedFile<T> {
    /// The name, with the variables' values from `render` in it.
    pub fn computed(&self, render: impl FnOnce(&T) -> Vec<u8>) -> ComputedName {
        let written = &self.name.written;
        let value = match &self.template {
            None => written.clone(),
            Some(template) => text_of(&render(template)).into_owned(),
        };
        ComputedName { value, parents: parents(written) }
    }
}

impl<T> fmt::Debug for ComputedFile<T> {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.name.fmt(to)
    }
}

impl<T: Value> Value for ComputedFile<T> {
    const SHAPE: Shape = Shape::exactly(1, "file");

    fn parse(directive: &Node, cx: &mut Cx) -> Result<ComputedFile<T>, Problem> {
        let word = &directive.args[0];
        let is_computed = word.text.contains('$');
        let name = FileName { is_computed, ..FileName::of(word, directive, cx) };
        let template = if is_computed { Some(T::parse(directive, cx)?) } else { None };
        Ok(ComputedFile { name, template })
    }
}

/// Interval of looks at a file, unless the configuration has another.
const WATCH: Duration = Duration::from_secs(10);

/// The shortest interval of looks at a file: each look is a system call for each file.
const MOST_OFTEN: Duration = Duration::from_millis(100);

/// The value of `ssl_certificate`: a file's name, or `auto` for a certificate that a CA issues for the server's names.
/// The file may be looked at for a change while the server runs (`watch`).
#[derive(Clone)]
pub struct ServerCertificate<T>(pub ComputedFile<T>);

impl<T> ServerCertificate<T> {
    /// Whether it is `auto`.
    pub fn is_auto(&self) -> bool {
        self.0.name.written == "auto"
    }
}

impl<T> fmt::Debug for ServerCertificate<T> {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(to)
    }
}

impl<T: Value> Value for ServerCertificate<T> {
    const SHAPE: Shape = Shape::between(1, 2, "file [watch[=time]] | auto");

    fn parse(directive: &Node, cx: &mut Cx) -> Result<ServerCertificate<T>, Problem> {
        let mut file = ComputedFile::parse(directive, cx)?;
        if let Some(word) = directive.args.get(1) {
            if directive.args[0].text == "auto" {
                return Err(Problem::invalid_parameter(directive, word));
            }
            let time = match word.text.strip_prefix("watch") {
                Some("") => Some(WATCH),
                Some(rest) => rest.strip_prefix('=').and_then(parse_time).filter(|time| *time >= MOST_OFTEN),
                None => return Err(Problem::wrong_count(directive)),
            };
            let invalid = || Problem::invalid_parameter(directive, word).hint("`watch` takes a time of 100ms or more");
            file.name.watch = Some(time.ok_or_else(invalid)?);
        }
        Ok(ServerCertificate(file))
    }
}

/// The most bytes of a password.
const MAX_PASSWORD: usize = 4095;

/// A file with passwords of keys, which is read where it is named.
#[derive(Clone)]
pub struct PasswordFile {
    name: FileName,
    passwords: Arc<Vec<Zeroizing<Vec<u8>>>>,
    digest: [u8; 32],
}

impl PasswordFile {
    /// The passwords.
    pub fn passwords(&self) -> &[Zeroizing<Vec<u8>>] {
        &self.passwords
    }

    /// A digest of the passwords, whichever file they are in.
    pub fn digest(&self) -> [u8; 32] {
        self.digest
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
        let digest = sha256_of(passwords.iter().map(|password| password.as_slice()).collect::<Vec<_>>());
        Ok(PasswordFile { passwords: Arc::new(passwords), name, digest })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_variables_give_are_shown_without_contents() {
        let shown = |value: &str| format!("{:?}", ComputedName { value: value.to_owned(), parents: 0 });
        assert_eq!(shown("data:-----BEGIN PRIVATE KEY-----"), "\"data:\"");
        assert_eq!(shown("a.key"), "\"a.key\"");
    }
}
