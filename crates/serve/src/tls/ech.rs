//! The directive `ssl_ech_file`, which is read and has no effect: the TLS library has no encrypted ClientHello for servers.

use freerun_conf::{Cx, Node, Problem, Shape, Value};

use crate::listen::setting::ListenPlace;

/// The value of `ssl_ech_file`: the name of a file, which is not opened.
#[derive(Debug, Clone, Copy)]
pub struct EchFile;

impl Value for EchFile {
    const SHAPE: Shape = Shape::exactly(1, "file");

    fn parse(directive: &Node, cx: &mut Cx) -> Result<EchFile, Problem> {
        let first = &mut cx.extensions.get_or_default::<First>().0;
        if first.is_none_or(|first| directive.order < first.order) {
            *first = Some(ListenPlace::of(directive));
        }
        Ok(EchFile)
    }
}

/// The first of the directives, if there are any. Lives in the configuration's context.
#[derive(Default)]
struct First(Option<ListenPlace>);

/// Warns once if the configuration has the directive.
pub fn warn(cx: &mut Cx) {
    let Some(First(Some(first))) = cx.extensions.remove::<First>() else { return };
    let warning = Problem::warning("\"ssl_ech_file\" has no effect yet");
    cx.warn(first.problem(warning));
}
