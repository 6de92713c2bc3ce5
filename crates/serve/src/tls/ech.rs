//! The directive `ssl_ech_file`, which is read and has no effect: the TLS library has no encrypted ClientHello for servers.

use freerun_conf::{Cx, Node, Place, Problem, Shape, Value};

/// The value of `ssl_ech_file`: the name of a file, which is not opened.
#[derive(Debug, Clone, Copy)]
pub struct EchFile;

impl Value for EchFile {
    const SHAPE: Shape = Shape::exactly(1, "file");

    fn parse(directive: &Node, cx: &mut Cx) -> Result<EchFile, Problem> {
        let first = &mut cx.extensions.get_or_default::<First>().0;
        if first.is_none_or(|first| directive.order < first.order) {
            *first = Some(Written { order: directive.order, place: directive.name.place, end: directive.end });
        }
        Ok(EchFile)
    }
}

/// The first of the directives, if there are any. Lives in the configuration's context.
#[derive(Default)]
struct First(Option<Written>);

/// Where a directive is: in the order of reading, and in its file.
#[derive(Clone, Copy)]
struct Written {
    order: u32,
    place: Place,
    end: Place,
}

/// Warns once if the configuration has the directive.
pub fn warn(cx: &mut Cx) {
    let Some(First(Some(first))) = cx.extensions.remove::<First>() else { return };
    let mut warning = Problem::warning("\"ssl_ech_file\" has no effect yet").at(first.place).reported_at(first.end);
    warning.order = Some(first.order);
    cx.warn(warning);
}
