//! Lists of the media types that a filter looks at: `addition_types`, `ssi_types` and similar directives.

use freerun_conf::{Cx, Node, Problem, Setting, Shape, into_bytes};

/// The media types whose responses a filter changes. `text/html` is always among them.
#[derive(Debug, Clone, Default)]
pub struct MediaTypes {
    any: bool,
    others: Box<[Box<[u8]>]>,
}

impl MediaTypes {
    /// Whether the list has this type (without parameters, ignoring case).
    pub fn contains(&self, media_type: &[u8]) -> bool {
        self.any
            || media_type.eq_ignore_ascii_case(b"text/html")
            || self.others.iter().any(|other| other.eq_ignore_ascii_case(media_type))
    }
}

impl Setting for MediaTypes {
    const SHAPE: Shape = Shape::at_least(1, "mime-type …");

    fn set(previous: Option<MediaTypes>, directive: &Node, cx: &mut Cx) -> Result<MediaTypes, Problem> {
        let MediaTypes { mut any, others } = previous.unwrap_or_default();
        let mut others = others.into_vec();
        for word in &directive.args {
            if word.text == "*" {
                any = true;
                continue;
            }
            let this: Box<[u8]> = into_bytes(word.text.to_ascii_lowercase()).into();
            if &*this == b"text/html" || others.contains(&this) {
                let text = word.text.to_ascii_lowercase();
                cx.warn(Problem::warning(format!("duplicate MIME type \"{text}\"")).at(word.place));
            } else {
                others.push(this);
            }
        }
        Ok(MediaTypes { any, others: others.into() })
    }
}
