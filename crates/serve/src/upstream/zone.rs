//! The value of `zone` in a group: names of memory, which is shared in any case.

use std::sync::Arc;

use freerun_conf::{Cx, Node, Problem, Setting, Shape, parse_size};

use crate::configuration::zones::{MIN_SIZE, Zone, ZoneName, ZoneTable};

/// The kind of the zones that groups use.
const KIND: &str = "upstream";

/// The zones that a group names.
#[derive(Debug, Clone, Default)]
pub struct SharedZones(pub Vec<Zone<()>>);

impl SharedZones {
    /// The name of the first one.
    pub fn first(&self) -> Option<Arc<str>> {
        self.0.first().map(|zone| zone.name().into())
    }
}

impl Setting for SharedZones {
    const SHAPE: Shape = Shape::between(1, 2, "name [size]");

    fn set(previous: Option<SharedZones>, directive: &Node, cx: &mut Cx) -> Result<SharedZones, Problem> {
        let name = &directive.args[0];
        if name.text.is_empty() {
            return Err(Problem::new("invalid zone name \"\"").at(name.place));
        }
        let table = cx.extensions.get_or_default::<ZoneTable>();
        if let Some(word) = directive.args.get(1) {
            let invalid = || Problem::new(format!("invalid zone size \"{}\"", word.text)).at(word.place);
            let size = parse_size(&word.text).ok_or_else(invalid)?;
            if size < MIN_SIZE {
                let message = format!("zone \"{}\" is too small", name.text);
                return Err(Problem::new(message).at(word.place).hint("a zone has at least 32k"));
            }
            let named = ZoneName { name: name.text.clone(), size, place: name.place };
            if !table.has(&named, KIND) {
                table.declare(directive, KIND, &named, "", || Some(()), |_| ())?;
            }
        }
        let mut zones = previous.unwrap_or_default();
        zones.0.push(table.refer(&name.text, KIND, name.place)?);
        Ok(zones)
    }
}
