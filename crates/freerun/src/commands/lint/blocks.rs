//! The blocks of a configuration with their contexts and what is around them, for rules that look at several levels.

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use freerun_conf::{Block, Contexts, Node, Registry};

/// A block, or the main level.
#[derive(Debug)]
pub struct ConfigBlock<'t> {
    /// The directive that opens it; the main level has none.
    pub node: Option<&'t Node>,
    /// The context of what is in it; none for an unknown block, and for a table such as `map`.
    pub context: Contexts,
    /// The block around it.
    pub parent: Option<usize>,
    /// The directives in it.
    pub children: &'t [Node],
    /// The index behind the last block in it.
    end: usize,
}

/// All blocks, each before those in it; the first is the main level.
#[derive(Debug)]
pub struct BlockTree<'t> {
    /// The blocks.
    pub blocks: Vec<ConfigBlock<'t>>,
    /// The directives of the main level.
    pub nodes: &'t [Node],
    /// The directives of each block by name.
    names: HashMap<(usize, &'t str), Vec<&'t Node>>,
    /// The values that `set` gives variables, by server and name.
    set: HashMap<(usize, &'t str), Vec<&'t str>>,
    /// The maps, by the names of their variables.
    maps: HashMap<&'t str, &'t Node>,
    /// The names of the groups of servers.
    pub groups: HashSet<&'t str>,
}

/// The contexts of `http` and what is in it, `upstream` not counted.
const OF_HTTP: Contexts = Contexts::HTTP
    .union(Contexts::SERVER)
    .union(Contexts::LOCATION)
    .union(Contexts::SERVER_IF)
    .union(Contexts::LOCATION_IF)
    .union(Contexts::LIMIT_EXCEPT);

impl<'t> BlockTree<'t> {
    /// Finds the blocks of a configuration.
    pub fn new(registry: &Registry, nodes: &'t [Node]) -> Self {
        let mut tree = BlockTree {
            blocks: Vec::new(),
            nodes,
            names: HashMap::new(),
            set: HashMap::new(),
            maps: HashMap::new(),
            groups: HashSet::new(),
        };
        let main = ConfigBlock { node: None, context: Contexts::MAIN, parent: None, children: nodes, end: 0 };
        tree.add(registry, main);
        for at in 0..tree.blocks.len() {
            let server = tree.server(at).unwrap_or(0);
            for node in tree.blocks[at].children {
                tree.names.entry((at, node.name.as_str())).or_default().push(node);
                let variable = |index: usize| node.arg(index).and_then(|word| word.strip_prefix('$'));
                match (node.name.as_str(), variable(0), variable(1)) {
                    ("set", Some(name), _) => {
                        tree.set.entry((server, name)).or_default().extend(node.arg(1));
                    }
                    ("upstream", ..) => tree.groups.extend(node.arg(0)),
                    ("map", _, Some(name)) => drop(tree.maps.insert(name, node)),
                    _ => {}
                }
            }
        }
        tree
    }

    /// Adds a block and those in it, which are at most [`freerun_conf::MAX_BLOCKS`] deep.
    fn add(&mut self, registry: &Registry, block: ConfigBlock<'t>) {
        let (at, context, children) = (self.blocks.len(), block.context, block.children);
        self.blocks.push(block);
        for node in children.iter().filter(|node| node.block.is_some()) {
            let inside = match registry.lookup(&node.name.text, context).map(|directive| directive.shape.block) {
                Some(Block::Inside(inside)) => inside,
                _ => Contexts::NONE,
            };
            let block =
                ConfigBlock { node: Some(node), context: inside, parent: Some(at), children: node.children(), end: 0 };
            self.add(registry, block);
        }
        self.blocks[at].end = self.blocks.len();
    }

    /// The blocks of these contexts.
    pub fn of(&self, contexts: Contexts) -> impl Iterator<Item = usize> + '_ {
        (0..self.blocks.len()).filter(move |at| self.blocks[*at].context.intersects(contexts))
    }

    /// The blocks of `http` and what is in it, `upstream` not counted.
    pub fn of_http(&self) -> impl Iterator<Item = usize> + '_ {
        self.of(OF_HTTP)
    }

    /// The block and those around it, from the inside.
    pub fn around(&self, at: usize) -> impl Iterator<Item = usize> + '_ {
        std::iter::successors(Some(at), |at| self.blocks[*at].parent)
    }

    /// The block and those in it.
    pub fn within(&self, at: usize) -> Range<usize> {
        at..self.blocks[at].end
    }

    /// The values that `set` gives a variable in the server of a block.
    pub fn set_values<'s>(&'s self, at: usize, name: &'s str) -> impl Iterator<Item = &'t str> + 's {
        self.set.get(&(self.server(at).unwrap_or(0), name)).into_iter().flatten().copied()
    }

    /// The `map` that makes a variable.
    pub fn map_of(&self, name: &str) -> Option<&'t Node> {
        self.maps.get(name).copied()
    }

    /// The directives of a name in a block itself.
    pub fn own<'s>(
        &'s self,
        at: usize,
        name: &'s str,
    ) -> impl DoubleEndedIterator<Item = &'t Node> + Clone + use<'s, 't> {
        self.names.get(&(at, name)).map(Vec::as_slice).unwrap_or_default().iter().copied()
    }

    /// The first directive of a name in a block itself.
    pub fn first(&self, at: usize, name: &str) -> Option<&'t Node> {
        self.names.get(&(at, name))?.first().copied()
    }

    /// Whether a block itself has one of these directives.
    pub fn has(&self, at: usize, names: &[&str]) -> bool {
        names.iter().any(|name| self.names.contains_key(&(at, *name)))
    }

    /// The nearest block, itself or around it, that has the directive: the level that counts for a directive that is
    /// inherited as a whole.
    pub fn level_of(&self, at: usize, name: &str) -> Option<usize> {
        self.around(at).find(|level| self.first(*level, name).is_some())
    }

    /// The directive of a name that counts in a block.
    pub fn in_force(&self, at: usize, name: &str) -> Option<&'t Node> {
        self.level_of(at, name).and_then(|level| self.first(level, name))
    }

    /// Whether the first argument of the directive that counts in a block is this word.
    pub fn is_set(&self, at: usize, name: &str, word: &str) -> bool {
        self.in_force(at, name).is_some_and(|node| node.arg(0) == Some(word))
    }

    /// The `server` block around a block, or the block itself.
    pub fn server(&self, at: usize) -> Option<usize> {
        self.around(at).find(|block| self.blocks[*block].context.intersects(Contexts::SERVER | Contexts::STREAM_SERVER))
    }

    /// Every directive of the configuration.
    pub fn each(&self, mut see: impl FnMut(&'t Node)) {
        Node::each(self.nodes, &mut see);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::configuration::registry;

    #[test]
    fn blocks_know_their_contexts_and_levels() {
        let text = "events {} http { map $a $b { x y; } root /a; server { location / { if ($c) { set $d e; } } root /b; } }\n\
                    stream { server { listen 1; } }";
        let tree = freerun_conf::parse("x", None, "", &mut freerun_conf::OneText(text));
        let blocks = BlockTree::new(registry(), &tree.nodes);
        let location = blocks.of(Contexts::LOCATION).next().expect("a location");
        let inner = blocks.of(Contexts::LOCATION_IF).next().expect("an if");
        let server = blocks.of(Contexts::SERVER).next().expect("a server");
        assert_eq!(blocks.around(inner).take(3).collect::<Vec<_>>(), [inner, location, server]);
        assert_eq!(blocks.within(location).collect::<Vec<_>>(), [location, inner]);
        assert!(blocks.is_set(inner, "root", "/b") && blocks.server(inner) == Some(server));
        assert_eq!(blocks.of(Contexts::STREAM_SERVER).count(), 1);
        assert_eq!(blocks.of_http().count(), 4);
    }
}
