//! `root` and `alias`.

use freerun_conf::{Cx, Node, Problem, Shape, Value};
use freerun_serve::Subject;
use freerun_serve::values::Template;

/// The value of `root` or `alias`.
pub struct Folder<S: Subject>(pub Template<S>);

impl<S: Subject> Clone for Folder<S> {
    fn clone(&self) -> Folder<S> {
        Folder(self.0.clone())
    }
}

impl<S: Subject> Value for Folder<S> {
    const SHAPE: Shape = Shape::exactly(1, "path");

    fn parse(directive: &Node, cx: &mut Cx) -> Result<Folder<S>, Problem> {
        let word = &directive.args[0];
        // These variables are made of the directive that would use them.
        for name in ["document_root", "realpath_root"] {
            if word.text.contains(&format!("${name}")) || word.text.contains(&format!("${{{name}}}")) {
                let message =
                    format!("the ${name} variable cannot be used in the \"{}\" directive", directive.name.text);
                return Err(Problem::new(message).at(word.place));
            }
        }
        Ok(Folder(Template::parse(word, cx)?))
    }
}
