//! `store`: responses kept as files.

use freerun_conf::{Cx, Node, Problem, Shape, Value};
use freerun_http::template::Template;
use freerun_serve::configuration::parts::WrittenPlaces;

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
        if word.text != "off" {
            cx.extensions.get_or_default::<WrittenPlaces>().add_anywhere(&directive.name.text);
        }
        match word.text.as_str() {
            "off" => Ok(StoreSetting::Off),
            "on" => Ok(StoreSetting::On),
            _ => Template::parse(word, cx).map(StoreSetting::Path),
        }
    }
}
