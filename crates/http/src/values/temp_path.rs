//! Folders for temporary files.

use freerun_conf::{Cx, Node, Place, Problem, Shape, Value};
use freerun_serve::parts::{Paths, TempFolders};

/// A folder for temporary files, relative to the prefix.
#[derive(Debug, Clone)]
pub struct TempPath {
    /// The folder.
    pub path: String,
    /// The number of digits in the names of each level of folders below it.
    pub levels: Vec<u8>,
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
        // A default folder is made only if a configured directive may use it.
        if directive.name.place != Place::NONE {
            cx.extensions.get_or_default::<TempFolders>().add(&path);
        }
        Ok(TempPath { path, levels })
    }
}
