//! A text as one level of a configuration, for the tests of crates that declare directives.

use crate::apply::apply_block;
use crate::contexts::Contexts;
use crate::cx::Cx;
use crate::parse::parse;
use crate::problem::Problem;
use crate::registry::Registry;
use crate::settings::{Group, SettingsSet};
use crate::tree::OneText;

/// The settings of a level, and the messages of the warnings about its directives.
#[derive(Clone)]
pub struct LevelSettings {
    /// The settings.
    pub set: SettingsSet,
    /// The warnings, in the order of the text.
    pub warnings: Vec<String>,
}

/// Reads a text as a level of `context`, where these groups of directives are known.
///
/// # Errors
/// The message of the first problem.
///
/// # Panics
/// The tables of the groups have a fault.
pub fn read_level(groups: &[&'static dyn Group], context: Contexts, text: &str) -> Result<LevelSettings, String> {
    read_and_check(groups, context, text, |_, _| Ok(()))
}

/// Reads a text as [`read_level`] does; then `check` looks at the settings.
///
/// # Errors
/// The message of the first problem.
///
/// # Panics
/// The tables of the groups have a fault.
pub fn read_and_check(
    groups: &[&'static dyn Group],
    context: Contexts,
    text: &str,
    check: impl FnOnce(&SettingsSet, &mut Cx) -> Result<(), Problem>,
) -> Result<LevelSettings, String> {
    let registry = Registry::new(groups, &[]).map_err(|problem| problem.message)?;
    let tree = parse("x.conf", None, "", &mut OneText(text));
    let mut cx = Cx::new(tree.sources.clone());
    assert_eq!(registry.check(&mut cx), [] as [String; 0], "the tables of the groups");
    let built = (|| {
        let defaults = registry.defaults(&mut cx)?;
        let set = apply_block(&registry, context, &tree.nodes, &defaults, &mut cx)?.0;
        check(&set, &mut cx)?;
        Ok(set)
    })();
    let set = cx.conclude(built, tree.error).map_err(|problems| problems[0].message.clone())?;
    let warnings = cx.warnings.iter().map(|warning| warning.message.clone()).collect();
    Ok(LevelSettings { set, warnings })
}
