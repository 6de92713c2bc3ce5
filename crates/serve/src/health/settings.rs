//! What the directives of health checks have in common.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use freerun_conf::{Node, Place, Problem, Word, parse_time};
use freerun_upstream::health::CheckRules;

use crate::upstream::number;

/// The parameters of a check that all protocols have.
#[derive(Debug, Clone)]
pub struct Checking {
    /// The pause between two checks.
    pub interval: Duration,
    /// The most that is added to the pause at random.
    pub jitter: Duration,
    /// The rules by which results change the server's state.
    pub rules: CheckRules,
    /// The port, if it is not the server's own.
    pub port: Option<u16>,
}

impl Default for Checking {
    /// nginx's defaults.
    fn default() -> Checking {
        let (jitter, rules) = (Duration::ZERO, CheckRules::default());
        Checking { interval: Duration::from_secs(5), jitter, rules, port: None }
    }
}

impl Checking {
    /// Reads a parameter, the one with this number of the directive. False: it is not one of those that all protocols have.
    ///
    /// # Errors
    /// Its value is invalid.
    pub fn parameter(&mut self, directive: &Node, index: usize, word: &Word) -> Result<bool, Problem> {
        let invalid = || Problem::invalid_parameter(directive, word);
        let count = |value| number(value).filter(|&count| count > 0).ok_or_else(invalid);
        match word.text.split_once('=').unwrap_or((&word.text, "")) {
            ("interval", value) => {
                self.interval = parse_time(value).filter(|time| !time.is_zero()).ok_or_else(invalid)?;
            }
            ("jitter", value) => self.jitter = parse_time(value).ok_or_else(invalid)?,
            ("fails", value) => self.rules.fails = count(value)?,
            ("passes", value) => self.rules.passes = count(value)?,
            ("port", value) => {
                let port = count(value)?;
                self.port = Some(u16::try_from(port).map_err(|_| invalid())?);
            }
            _ if word.text == "mandatory" => self.rules.mandatory = true,
            _ if word.text == "persistent" && index > 0 && directive.args[index - 1].text == "mandatory" => {}
            _ => return Ok(false),
        }
        Ok(true)
    }
}

/// A `match` block as a check refers to it: it may be declared below.
pub type MatchRef<M> = Arc<OnceLock<M>>;

/// The `match` blocks that were declared or referred to so far, in the configuration's context.
pub struct Declared<M> {
    blocks: Vec<(String, MatchRef<M>, Place)>,
}

impl<M> Default for Declared<M> {
    fn default() -> Declared<M> {
        Declared { blocks: Vec::new() }
    }
}

impl<M> Declared<M> {
    /// The block with this name, which may be declared later.
    pub fn refer(&mut self, name: &str, place: Place) -> MatchRef<M> {
        if let Some((_, block, _)) = self.blocks.iter().find(|(known, ..)| known == name) {
            return block.clone();
        }
        let block = MatchRef::default();
        self.blocks.push((name.to_owned(), block.clone(), place));
        block
    }

    /// Declares a block.
    ///
    /// # Errors
    /// There is one with this name already.
    pub fn declare(&mut self, name: &Word, block: M) -> Result<(), Problem> {
        let declared = self.refer(&name.text, name.place).set(block);
        declared.map_err(|_| Problem::new(format!("duplicate match \"{}\"", name.text)).at(name.place))
    }

    /// Finds the first reference to a missing block, after the whole configuration was read.
    ///
    /// # Errors
    /// A block is missing.
    pub fn check(&self) -> Result<(), Problem> {
        match self.blocks.iter().find(|(_, block, _)| block.get().is_none()) {
            None => Ok(()),
            Some((name, _, place)) => {
                let defined = self.blocks.iter().filter(|(_, block, _)| block.get().is_some());
                let near = freerun_conf::near(name, defined.map(|(name, ..)| name.as_str()));
                let hint = near.map(|near| format!("did you mean \"{near}\"?"));
                Err(Problem::new(format!("match \"{name}\" is not defined")).at(*place).hint_if(hint))
            }
        }
    }
}
