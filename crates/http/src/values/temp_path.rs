//! Folders for temporary files.

use freerun_conf::{Cx, Node, Place, Problem, Shape, Value};
use freerun_serve::configuration::parts::{FolderNeed, Paths, TempFolders};

/// A folder for temporary files, relative to the prefix.
#[derive(Debug, Clone)]
pub struct TempPath {
    /// The folder.
    pub path: String,
    /// The number of digits in the names of each level of folders below it.
    pub levels: Vec<u8>,
    /// The directive that names the folder.
    directive: String,
    /// Whether the configuration names the folder: otherwise it is the compiled-in one.
    is_named: bool,
}

impl TempPath {
    /// Notes a level of the configuration that has this folder, so that the master makes it as nginx does: also where it
    /// is a default. `is_used`: requests of this level may need it.
    pub fn note(&self, is_used: bool, cx: &mut Cx) {
        let need = match (self.is_named, is_used) {
            (true, _) => FolderNeed::Named,
            (false, true) => FolderNeed::Used,
            (false, false) => FolderNeed::Unused,
        };
        cx.extensions.get_or_default::<TempFolders>().add_with(&self.path, &self.directive, need);
    }
}

impl Value for TempPath {
    const SHAPE: Shape = Shape::between(1, 4, "path [level1 [level2 [level3]]]");

    fn parse(directive: &Node, cx: &mut Cx) -> Result<TempPath, Problem> {
        let mut levels = Vec::new();
        for level in &directive.args[1..] {
            match level.text.parse() {
                Ok(digits @ 1..=3) => levels.push(digits),
                _ => return Err(Problem::invalid_value(directive, level)),
            }
        }
        let path = cx.extensions.get_or_default::<Paths>().absolute(directive.args[0].as_str());
        let is_named = directive.name.place != Place::NONE;
        let folder = TempPath { path, levels, directive: directive.name.text.clone(), is_named };
        // A default is noted by the levels that have it.
        if is_named {
            folder.note(true, cx);
        }
        Ok(folder)
    }
}
