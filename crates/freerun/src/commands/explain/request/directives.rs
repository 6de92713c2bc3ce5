//! The directives of a configuration by their positions, each with its text, its place and the block around it.

use std::collections::HashMap;

use freerun_conf::{Node, Sources, Tree, Word};

use crate::quoting::conf_quoted;

/// A directive.
#[derive(Debug, Clone)]
pub struct WrittenDirective {
    /// The name.
    pub name: String,
    /// The words behind it.
    pub args: Vec<String>,
    /// The directive as it is written, without `;` and without its block.
    pub text: String,
    /// `file:line`.
    pub place: Option<String>,
    /// The position of the block around it; 0 for the main level.
    parent: u32,
}

/// All directives of a configuration.
#[derive(Debug, Default)]
pub struct WrittenDirectives {
    all: HashMap<u32, WrittenDirective>,
    /// The positions of the directives in each block, in the order of the text.
    inside: HashMap<u32, Vec<u32>>,
}

impl WrittenDirectives {
    /// The directives of this tree.
    pub fn new(tree: &Tree) -> WrittenDirectives {
        let mut directives = WrittenDirectives::default();
        directives.add(&tree.nodes, 0, &tree.sources);
        directives
    }

    fn add(&mut self, nodes: &[Node], parent: u32, sources: &Sources) {
        for node in nodes {
            self.inside.entry(parent).or_default().push(node.order);
            let text = std::iter::once(node.name.text.clone()).chain(node.args.iter().map(written));
            let written = WrittenDirective {
                name: node.name.text.clone(),
                args: node.args.iter().map(|word| word.text.clone()).collect(),
                text: text.collect::<Vec<_>>().join(" "),
                place: sources.location(node.name.place),
                parent,
            };
            self.all.insert(node.order, written);
            self.add(node.children(), node.order, sources);
        }
    }

    /// The directive at this position.
    pub fn get(&self, order: u32) -> Option<&WrittenDirective> {
        self.all.get(&order)
    }

    /// The directives in the block at this position, in the order of the text.
    pub fn children(&self, order: u32) -> impl Iterator<Item = &WrittenDirective> {
        self.inside.get(&order).into_iter().flatten().filter_map(|order| self.all.get(order))
    }

    /// The directives of a name that apply in the block at this position. They are the directives of the nearest
    /// block, itself or around it, that has any.
    pub fn in_force(&self, order: u32, name: &str) -> Vec<&WrittenDirective> {
        let mut level = order;
        loop {
            let found: Vec<_> = self.children(level).filter(|directive| directive.name == name).collect();
            match self.all.get(&level) {
                _ if !found.is_empty() => return found,
                Some(block) => level = block.parent,
                None => return Vec::new(),
            }
        }
    }

    /// The block of this name around a position, or at it.
    pub fn around(&self, order: u32, name: &str) -> Option<(u32, &WrittenDirective)> {
        let mut level = order;
        loop {
            let block = self.all.get(&level)?;
            if block.name == name {
                return Some((level, block));
            }
            level = block.parent;
        }
    }

    /// The position of the block of this name with this first argument.
    pub fn named_block(&self, name: &str, argument: &str) -> Option<u32> {
        let is_it = |directive: &WrittenDirective| {
            directive.name == name && directive.args.first().is_some_and(|first| first == argument)
        };
        let mut found: Vec<u32> =
            self.all.iter().filter(|(_, directive)| is_it(directive)).map(|(order, _)| *order).collect();
        found.sort_unstable();
        found.first().copied()
    }
}

/// A word as it may be written.
fn written(word: &Word) -> String {
    if word.quoted || word.text.is_empty() { conf_quoted(&word.text) } else { word.text.clone() }
}

#[cfg(test)]
mod tests {
    use freerun_conf::OneText;

    use super::*;

    #[test]
    fn the_nearest_level_with_a_directive_counts() {
        let text = "http { deny 1; server { deny 2; deny 3; location / { if ($a) { } } location /b { deny 4; } } }\n\
                    upstream a { server b; }";
        let tree = freerun_conf::parse("x", None, "", &mut OneText(text));
        let directives = WrittenDirectives::new(&tree);
        let order = |text: &str| *directives.all.iter().find(|(_, directive)| directive.text == text).expect(text).0;
        let texts = |at: &str| -> Vec<String> {
            directives.in_force(order(at), "deny").iter().map(|directive| directive.text.clone()).collect()
        };
        assert_eq!(texts("if ($a)"), ["deny 2", "deny 3"]);
        assert_eq!(texts("location /b"), ["deny 4"]);
        assert_eq!(texts("http"), ["deny 1"]);
        assert!(directives.in_force(order("if ($a)"), "allow").is_empty());
        let group = directives.named_block("upstream", "a").expect("the group");
        assert_eq!(directives.children(group).map(|server| server.text.as_str()).collect::<Vec<_>>(), ["server b"]);
        assert_eq!(directives.around(order("if ($a)"), "location").expect("around it").1.text, "location /");
        assert_eq!(directives.get(order("deny 4")).and_then(|deny| deny.place.as_deref()), Some("x:1"));
    }
}
