//! `types`: media types by file name extension.

use std::sync::Arc;

use bytes::Bytes;
use freerun_conf::{Cx, Node, Problem, Setting, Shape, Value, bytes_of, into_bytes, text_of};
use rustc_hash::FxHashMap;

use crate::lengths::length_bit;

/// A media type, ready to send.
#[derive(Debug, Clone)]
pub struct MediaType(pub Bytes);

impl Value for MediaType {
    const SHAPE: Shape = Shape::exactly(1, "mime-type");

    fn parse(directive: &Node, _: &mut Cx) -> Result<MediaType, Problem> {
        Ok(MediaType(media_type(&directive.args[0].text)))
    }
}

/// Media types by extension, lower case.
#[derive(Debug, Clone, Default)]
pub struct Types {
    table: Arc<FxHashMap<Box<[u8]>, Bytes>>,
    /// The lengths of the extensions, as a bit set: many paths have no extension, or an unknown one.
    lengths: u64,
}

impl Types {
    /// The media type for an extension (without dot), ignoring case.
    pub fn find(&self, extension: &[u8]) -> Option<&Bytes> {
        if self.lengths & length_bit(extension.len()) == 0 {
            return None;
        }
        if extension.iter().any(u8::is_ascii_uppercase) {
            return self.table.get(&*extension.to_ascii_lowercase());
        }
        self.table.get(extension)
    }
}

impl Setting for Types {
    const SHAPE: Shape = Shape::exactly(0, "{ media-type extension …; … }").with_raw_block();

    fn set(previous: Option<Types>, directive: &Node, cx: &mut Cx) -> Result<Types, Problem> {
        if directive.block.is_none() {
            // Without the directive, nginx's built-in types apply.
            return Ok(Types::from_pairs(&[("text/html", "html"), ("image/gif", "gif"), ("image/jpeg", "jpg")]));
        }
        let mut types = FxHashMap::clone(&previous.unwrap_or_default().table);
        for line in directive.children() {
            // A type without an extension has no effect, and is no error.
            let media_type = media_type(&line.name.text);
            for extension in &line.args {
                let key: Box<[u8]> = into_bytes(extension.text.to_ascii_lowercase()).into();
                if let Some(old) = types.insert(key, media_type.clone()).filter(|old| *old != media_type) {
                    let extension = &extension.text;
                    let old = text_of(&old).into_owned();
                    cx.warn(
                        Problem::warning(format!(
                            "duplicate extension \"{extension}\", content type: \"{}\", previous content type: \"{old}\"",
                            line.name.text
                        ))
                        .at_node(line),
                    );
                }
            }
        }
        Ok(Types::of(types))
    }
}

/// Usual media types: they are static, so that no loop has to count references to them.
const USUAL: &[&str] = &[
    "application/atom+xml",
    "application/font-woff",
    "application/gzip",
    "application/java-archive",
    "application/javascript",
    "application/json",
    "application/manifest+json",
    "application/octet-stream",
    "application/pdf",
    "application/rss+xml",
    "application/vnd.apple.mpegurl",
    "application/vnd.ms-fontobject",
    "application/wasm",
    "application/xhtml+xml",
    "application/xml",
    "application/zip",
    "audio/midi",
    "audio/mpeg",
    "audio/ogg",
    "audio/x-m4a",
    "font/ttf",
    "font/woff",
    "font/woff2",
    "image/avif",
    "image/gif",
    "image/jpeg",
    "image/png",
    "image/svg+xml",
    "image/tiff",
    "image/webp",
    "image/x-icon",
    "text/calendar",
    "text/css",
    "text/csv",
    "text/html",
    "text/javascript",
    "text/markdown",
    "text/mathml",
    "text/plain",
    "text/xml",
    "video/mp2t",
    "video/mp4",
    "video/mpeg",
    "video/quicktime",
    "video/webm",
];

/// A media type of the configuration; cloning one of the usual ones does not touch memory of other loops.
pub fn media_type(text: &str) -> Bytes {
    match USUAL.binary_search(&text) {
        Ok(index) => Bytes::from_static(USUAL[index].as_bytes()),
        Err(_) => Bytes::from(bytes_of(text).into_owned()),
    }
}

impl Types {
    fn from_pairs(pairs: &[(&'static str, &str)]) -> Types {
        let pairs = pairs.iter();
        let types = pairs.map(|(media, extension)| (extension.as_bytes().into(), Bytes::from_static(media.as_bytes())));
        Types::of(types.collect())
    }

    fn of(table: FxHashMap<Box<[u8]>, Bytes>) -> Types {
        let lengths = table.keys().fold(0, |lengths, extension| lengths | length_bit(extension.len()));
        Types { table: Arc::new(table), lengths }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usual_types_are_found_and_others_are_as_they_are_written() {
        assert!(USUAL.is_sorted());
        for text in USUAL.iter().copied().chain(["", "text/x", "TEXT/HTML", "zzz"]) {
            assert_eq!(media_type(text), text.as_bytes());
        }
    }
}
