//! The blocks of a configuration with their contexts and what is around them, for rules that look at several levels.

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
}

/// All blocks, each before those in it; the first is the main level.
#[derive(Debug)]
pub struct BlockTree<'t> {
    /// The blocks.
    pub blocks: Vec<ConfigBlock<'t>>,
    /// The directives of the main level.
    pub nodes: &'t [Node],
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
        let main = ConfigBlock { node: None, context: Contexts::MAIN, parent: None, children: nodes };
        let mut blocks = vec![main];
        let mut at = 0;
        while at < blocks.len() {
            let (context, children) = (blocks[at].context, blocks[at].children);
            for node in children.iter().filter(|node| node.block.is_some()) {
                let inside = match registry.lookup(&node.name.text, context).map(|directive| directive.shape.block) {
                    Some(Block::Inside(inside)) => inside,
                    _ => Contexts::NONE,
                };
                blocks.push(ConfigBlock {
                    node: Some(node),
                    context: inside,
                    parent: Some(at),
                    children: node.children(),
                });
            }
            at += 1;
        }
        BlockTree { blocks, nodes }
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
    pub fn within(&self, at: usize) -> impl Iterator<Item = usize> + '_ {
        (at..self.blocks.len()).filter(move |inner| self.around(*inner).any(|block| block == at))
    }

    /// The directives of a name in a block itself.
    pub fn own<'s>(&'s self, at: usize, name: &'s str) -> impl Iterator<Item = &'t Node> + 's {
        self.blocks[at].children.iter().filter(move |node| node.name.text == name)
    }

    /// The first directive of a name in a block itself.
    pub fn first(&self, at: usize, name: &str) -> Option<&'t Node> {
        self.own(at, name).next()
    }

    /// Whether a block itself has one of these directives.
    pub fn has(&self, at: usize, names: &[&str]) -> bool {
        self.blocks[at].children.iter().any(|node| names.contains(&node.name.text.as_str()))
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
