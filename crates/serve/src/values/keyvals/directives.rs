//! The values of `keyval_zone` and `keyval`.

use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use freerun_conf::{Contexts, Cx, Node, Problem, Setting, Shape, parse_seconds};

use super::{AllKeyvals, KeyvalType, KeyvalZone, Keyvals, PairSync, PairsAlone};
use crate::configuration::engine_declared::EngineDeclared;
use crate::configuration::parts::Paths;
use crate::configuration::state_file::{self, StateFile};
use crate::configuration::stateless::stateless;
use crate::configuration::zones::{StateBytes, Zone, ZoneName, ZoneTable};
use crate::values::lookups::variable_name;
use crate::values::subject::Subject;
use crate::values::{Compute, ComputeResult, Template, VariableTable};

/// The kind of the zones that these directives use.
const KIND: &str = "keyval";

/// The `keyval_zone` directives; their zones are in the configuration's [`ZoneTable`].
#[derive(Debug, Clone, Copy, Default)]
pub struct KeyvalZones;

impl Setting for KeyvalZones {
    const SHAPE: Shape = Shape::between(
        1,
        6,
        "zone=name:size [state=file] [timeout=time] [type=string|ip|prefix] [sync [alone=refuse|local]]",
    );

    fn set(_: Option<Self>, directive: &Node, cx: &mut Cx) -> Result<Self, Problem> {
        let (mut zone, mut state, mut timeout, mut kind) = (None, None, None, KeyvalType::ALL[0]);
        let (mut is_shared, mut alone) = (false, None);
        for word in &directive.args {
            let invalid = || Problem::invalid_parameter(directive, word);
            match word.text.split_once('=') {
                Some(("zone", value)) => zone = Some(ZoneName::parse(directive, word, value)?),
                Some(("state", path)) if !path.is_empty() => state = Some(path),
                Some(("timeout", time)) => {
                    let seconds = parse_seconds(time).filter(|seconds| *seconds > 0).ok_or_else(invalid)?;
                    timeout = Some(Duration::from_secs(seconds));
                }
                Some(("type", name)) => {
                    kind = KeyvalType::ALL.into_iter().find(|(known, _)| *known == name).ok_or_else(invalid)?;
                }
                Some(("alone", name)) => {
                    let known = PairsAlone::ALL.into_iter().find(|(known, _)| *known == name);
                    alone = Some((known.ok_or_else(|| invalid().hint("it is \"refuse\" or \"local\""))?.1, word));
                }
                None if word.text == "sync" => {
                    EngineDeclared::check(directive, word, cx)?;
                    is_shared = true;
                }
                _ => return Err(invalid()),
            }
        }
        let zone = zone.ok_or_else(|| ZoneName::missing(directive))?;
        if let Some((_, word)) = alone.filter(|_| !is_shared) {
            return Err(Problem::invalid_parameter(directive, word).hint("\"alone\" belongs to \"sync\""));
        }
        let sync = is_shared.then(|| PairSync { alone: alone.map(|(rule, _)| rule).unwrap_or_default() });
        let is_http = cx.context == Contexts::HTTP;
        let state = state.map(|path| cx.extensions.get_or_default::<Paths>().absolute(path));
        if let Some(path) = &state {
            state_file::claim(path, &format!("the zone \"{}\"", zone.name), directive, cx);
        }
        let table = cx.extensions.get_or_default::<ZoneTable>();
        let state = state.map(|path| table.keep(&format!("state of pairs {path}"), || StateFile::new(path)));
        let ((type_name, kind), size) = (kind, zone.size);
        let carried = format!("{KIND} {} {size} {type_name}", zone.name);
        let arrived = table.arrived(&carried);
        let make = || {
            let pairs = Keyvals::new(kind, size);
            if let Some(saved) = arrived {
                // What another process has handed over is newer than the file.
                pairs.begin_loading();
                pairs.restore(&saved);
            }
            Some(pairs)
        };
        let mut defined = None;
        let define = |pairs: Arc<Keyvals>| {
            let zone = KeyvalZone { pairs, timeout, state, sync };
            defined = Some(zone.clone());
            zone
        };
        table.declare(directive, KIND, &zone, type_name, make, define)?;
        let Some(defined) = defined else { return Ok(KeyvalZones) };
        table.carry(&carried, &defined.pairs, |pairs| Some(StateBytes::new(pairs.save())));
        let zones = cx.extensions.get_or_default::<AllKeyvals>();
        let all = if is_http { &mut zones.http } else { &mut zones.stream };
        all.insert(zone.name.as_str().into(), defined);
        Ok(KeyvalZones)
    }
}

/// The `keyval` directives; their variables are in the table of variables.
pub struct KeyvalVariables<S>(PhantomData<fn(&S)>);

stateless!(KeyvalVariables);

impl<S: Subject> Setting for KeyvalVariables<S> {
    const SHAPE: Shape = Shape::exactly(3, "key $variable zone=name");

    fn set(_: Option<Self>, directive: &Node, cx: &mut Cx) -> Result<Self, Problem> {
        let [key, name, zone] = &*directive.args else { return Err(Problem::wrong_count(directive)) };
        let key = Template::parse(key, cx)?;
        let variable = variable_name(name)?.to_owned();
        let Some(zone_name) = zone.text.strip_prefix("zone=").filter(|zone| !zone.is_empty()) else {
            return Err(Problem::invalid_parameter(directive, zone));
        };
        let zone = cx.extensions.get_or_default::<ZoneTable>().refer::<KeyvalZone>(zone_name, KIND, zone.place)?;
        let table = cx.extensions.get_or_default::<VariableTable<S>>();
        table.define(&variable, Arc::new(LookUp { key, zone })).map_err(|problem| problem.at(name.place))?;
        Ok(KeyvalVariables(PhantomData))
    }
}

/// A `keyval` directive.
struct LookUp<S> {
    key: Template<S>,
    zone: Zone<KeyvalZone>,
}

impl<S: Subject> Compute<S> for LookUp<S> {
    fn find(&self, subject: &S) -> ComputeResult {
        let found = self.zone.get().and_then(|zone| zone.pairs.look_up(&self.key.render(subject)));
        found.map_or(ComputeResult::Missing, ComputeResult::Text)
    }

    fn entry(&self, _: u32) -> &[u8] {
        b""
    }
}
