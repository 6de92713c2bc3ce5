//! The common part of the directives of health checks.

use std::marker::PhantomData;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use freerun_conf::{Cx, Node, Place, Problem, Setting, Shape, Word, parse_time};
use freerun_upstream::health::CheckRules;
use freerun_upstream::{Peer, UpstreamAddress};

use crate::configuration::stateless::stateless;
use crate::upstream::number;

/// The parameters of a check that all protocols have.
#[derive(Debug, Clone)]
pub struct CheckSettings {
    /// The pause between two checks.
    pub interval: Duration,
    /// The most that is added to the pause at random.
    pub jitter: Duration,
    /// The rules for changes of the server's state.
    pub rules: CheckRules,
    /// The port, if it is not the server's own.
    port: Option<u16>,
    /// The text of the directive, to recognise it after a reload.
    text: String,
    /// The place of the directive.
    pub place: Place,
}

impl CheckSettings {
    /// nginx's defaults, for a directive whose parameters are still to be read.
    pub fn of(directive: &Node) -> CheckSettings {
        let (interval, jitter, rules) = (Duration::from_secs(5), Duration::ZERO, CheckRules::default());
        let words: Vec<&str> = directive.args.iter().map(|word| word.text.as_str()).collect();
        CheckSettings { interval, jitter, rules, port: None, text: words.join(" "), place: directive.name.place }
    }

    /// The text of the directive and of its `match` block, to recognise the check after a reload.
    pub fn text<M>(&self, matching: Option<&MatchRef<M>>) -> String {
        let block = matching.and_then(|matching| matching.get());
        format!("{} {{{}}}", self.text, block.map_or("", |block| &block.text))
    }

    /// The address that is checked of this server.
    pub fn address(&self, peer: &Peer) -> UpstreamAddress {
        match (&peer.address, self.port) {
            (UpstreamAddress::Ip(address), Some(port)) => {
                let mut address = *address;
                address.set_port(port);
                UpstreamAddress::Ip(address)
            }
            (address, _) => address.clone(),
        }
    }

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

/// The contents of a `match` block, as a protocol has them.
pub trait MatchBlock: Sized + 'static {
    /// The arguments of the directive.
    const SHAPE: Shape;

    /// Reads a block.
    ///
    /// # Errors
    /// What is wrong with a line.
    fn parse(directive: &Node, cx: &mut Cx) -> Result<Self, Problem>;
}

/// A `match` block.
#[derive(Debug)]
pub struct Match<M> {
    /// Its contents.
    pub matching: M,
    /// Its text, to recognise it after a reload.
    text: String,
}

/// A `match` block as a check refers to it: it may be declared below.
pub type MatchRef<M> = Arc<OnceLock<Match<M>>>;

/// All `match` blocks; their contents are in [`MatchBlocks`].
pub struct Matches<M>(PhantomData<fn() -> M>);

stateless!(Matches);

impl<M: MatchBlock> Setting for Matches<M> {
    const SHAPE: Shape = M::SHAPE;

    fn set(_: Option<Matches<M>>, directive: &Node, cx: &mut Cx) -> Result<Matches<M>, Problem> {
        let [name] = &*directive.args else { return Err(Problem::wrong_count(directive)) };
        let matching = M::parse(directive, cx)?;
        let mut text = String::new();
        for line in directive.children() {
            let words: Vec<&str> = line.args.iter().map(|word| word.text.as_str()).collect();
            text.push_str(&format!("{} {};", line.name.text, words.join(" ")));
        }
        cx.extensions.get_or_default::<MatchBlocks<M>>().declare(name, Match { matching, text })?;
        Ok(Matches(PhantomData))
    }
}

/// The `match` blocks that were declared or referred to so far, in the configuration's context.
pub struct MatchBlocks<M> {
    blocks: Vec<(String, MatchRef<M>, Place)>,
}

impl<M> Default for MatchBlocks<M> {
    fn default() -> MatchBlocks<M> {
        MatchBlocks { blocks: Vec::new() }
    }
}

impl<M: 'static> MatchBlocks<M> {
    /// The block that a parameter `match=name` refers to; `None` if it is another parameter.
    pub fn of_parameter(word: &Word, cx: &mut Cx) -> Option<MatchRef<M>> {
        let name = word.text.strip_prefix("match=").filter(|name| !name.is_empty())?;
        Some(cx.extensions.get_or_default::<MatchBlocks<M>>().refer(name, word.place))
    }

    /// The block with this name, which may be declared later.
    fn refer(&mut self, name: &str, place: Place) -> MatchRef<M> {
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
    fn declare(&mut self, name: &Word, block: Match<M>) -> Result<(), Problem> {
        let declared = self.refer(&name.text, name.place).set(block);
        declared.map_err(|_| Problem::new(format!("duplicate match \"{}\"", name.text)).at(name.place))
    }

    /// Finds the first reference to a missing block, after the whole configuration was read.
    ///
    /// # Errors
    /// A block is missing.
    pub(super) fn check(&self) -> Result<(), Problem> {
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
