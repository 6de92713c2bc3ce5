//! `store`: responses kept as files.

use freerun_conf::{Cx, Node, Problem, Shape, Value};
use freerun_http::template::Template;

/// The value of `store`.
#[derive(Debug, Clone)]
pub enum StoreSetting {
    /// Responses are not stored.
    Off,
    /// Responses are stored at the path of `root` or `alias`.
    On,
    /// Responses are stored at this path, relative to the prefix.
    Path(Template),
}

impl Value for StoreSetting {
    const SHAPE: Shape = Shape::exactly(1, "on | off | path");

    fn parse(directive: &Node, cx: &mut Cx) -> Result<StoreSetting, Problem> {
        let word = &directive.args[0];
        match word.text.as_str() {
            "off" => Ok(StoreSetting::Off),
            "on" => Ok(StoreSetting::On),
            _ => Template::parse(word, cx).map(StoreSetting::Path),
        }
    }
}
