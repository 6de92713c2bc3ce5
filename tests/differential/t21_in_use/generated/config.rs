//! Configurations as trees of directives.

use super::grammar::{REPEATED, directive, expand};
use super::random::Random;

/// A directive with its words, and what stands in its block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    pub text: String,
    pub block: Option<Vec<Node>>,
}

impl Node {
    pub fn name(&self) -> &str {
        self.text.split(' ').next().unwrap_or_default()
    }
}

/// How many directives there are in all.
pub fn count(nodes: &[Node]) -> usize {
    nodes.iter().map(|node| 1 + node.block.as_deref().map_or(0, count)).sum()
}

/// The lines, a directive each.
pub fn print(nodes: &[Node], indent: usize, out: &mut String) {
    for node in nodes {
        let space = " ".repeat(indent);
        match &node.block {
            None if node.text.ends_with(';') => *out += &format!("{space}{}\n", node.text),
            None => *out += &format!("{space}{};\n", node.text),
            Some(block) => {
                *out += &format!("{space}{} {{\n", node.text);
                print(block, indent + 4, out);
                *out += &format!("{space}}}\n");
            }
        }
    }
}

/// The tree without its directive number `at`, in the order in which they are printed, or with that one's block in its place.
pub fn without(nodes: &[Node], at: &mut usize, unwrap: bool) -> Vec<Node> {
    let mut out = Vec::new();
    for node in nodes {
        if *at == 0 {
            *at = usize::MAX;
            if unwrap {
                out.extend(node.block.clone().unwrap_or_default());
            }
            continue;
        }
        *at = at.wrapping_sub(1);
        let block = node.block.as_ref().map(|block| without(block, at, unwrap));
        out.push(Node { text: node.text.clone(), block });
    }
    out
}

/// Lines for `http`, for all servers of a batch.
pub fn http(random: &mut Random) -> Vec<Node> {
    let count = random.below(4);
    let mut nodes = lines(random, 'h', count);
    let block = |text: &str, entries: Vec<String>| Node {
        text: text.to_owned(),
        block: Some(entries.iter().map(|entry| line(entry)).collect()),
    };
    let keys = entries(random, "<map entry>");
    let source = expand(random, "map <map source> $m1");
    nodes.push(block(&source, keys));
    let networks = entries(random, "<geo entry>");
    nodes.push(block("geo $m2", networks));
    nodes.push(block(
        &expand(random, "split_clients <split source> $m3"),
        vec!["30% a;".to_owned(), "0.5% b;".to_owned(), "* c;".to_owned()],
    ));
    nodes
}

/// Lines of a block, each first word once.
fn entries(random: &mut Random, rule: &str) -> Vec<String> {
    let mut entries: Vec<String> = Vec::new();
    for _ in 0..random.below(6) {
        let entry = expand(random, rule);
        let first = |entry: &str| entry.split([' ', ';']).next().map(str::to_owned);
        if !entries.iter().any(|other| first(other) == first(&entry)) {
            entries.push(entry);
        }
    }
    entries
}

/// The inside of a `server` block.
pub fn server(random: &mut Random) -> Vec<Node> {
    let mut nodes = vec![line("server_name @HOST@")];
    nodes.push(line(if random.chance(90) { "root @ROOT@" } else { "root @ROOT@/dir/.." }));
    let count = random.below(6);
    nodes.extend(lines(random, 's', count));
    if random.chance(25) {
        nodes.push(condition(random, 'j'));
    }
    for _ in 0..1 + random.below(5) {
        let location = location(random, None);
        push(&mut nodes, location);
    }
    nodes
}

fn line(text: &str) -> Node {
    Node { text: text.to_owned(), block: None }
}

/// Adds it, unless it is there already and nginx would refuse a second one.
fn push(nodes: &mut Vec<Node>, node: Node) {
    let same = |other: &Node| {
        other.name() == node.name() && other.text == node.text
            || other.name() == node.name() && !REPEATED.contains(&node.name())
    };
    if !nodes.iter().any(same) {
        nodes.push(node);
    }
}

fn lines(random: &mut Random, context: char, count: usize) -> Vec<Node> {
    let mut nodes = Vec::new();
    for _ in 0..count {
        let text = directive(random, context);
        push(&mut nodes, line(&text));
    }
    // Either is an error beside the other.
    let roots = nodes.iter().filter(|node| node.name() == "root" || node.name() == "alias").count();
    if roots > 1 {
        nodes.retain(|node| node.name() != "alias");
    }
    nodes
}

fn condition(random: &mut Random, context: char) -> Node {
    let count = 1 + random.below(3);
    let text = expand(random, "if (<condition>)");
    Node { text, block: Some(lines(random, context, count)) }
}

/// A location; in another one if `outer` gives that one's words.
fn location(random: &mut Random, outer: Option<&str>) -> Node {
    let inner = outer.map(|outer| outer.trim_start_matches("^~ ").to_owned()).filter(|outer| outer.starts_with('/'));
    let in_regex = outer.is_some() && inner.is_none();
    let words = match random.below(10) {
        0 | 1 if outer.is_none() => expand(random, "= <path>"),
        kind if kind == 2 || kind == 3 || in_regex => {
            let regex = expand(random, "<regex>");
            format!("{} {}", random.pick(&["~", "~", "~*"]), if regex.contains(['{', ';']) { "x" } else { &regex })
        }
        4 if outer.is_none() => expand(random, "<named>"),
        kind => {
            let prefix = match &inner {
                Some(outer) => format!("{outer}{}", random.pick(&["", "f", "/x", "dir", "a.txt", "e", "two"])),
                None => expand(random, "<prefix>"),
            };
            format!("{}{prefix}", if kind == 5 { "^~ " } else { "" })
        }
    };
    let count = random.below(6);
    let mut block = lines(random, 'l', count);
    if words.starts_with('@') {
        block.retain(|node| node.name() != "alias");
    }
    if random.chance(25) {
        block.push(condition(random, 'i'));
        let count = random.below(2);
        for node in lines(random, 'l', count) {
            push(&mut block, node);
        }
    }
    if random.chance(8) {
        let methods = random.pick(&["GET", "GET POST", "POST", "PUT HEAD"]);
        let count = 1 + random.below(2);
        block.push(Node { text: format!("limit_except {methods}"), block: Some(lines(random, 'x', count)) });
    }
    if random.chance(8) {
        let count = random.below(3);
        let entries = (0..count).map(|_| line(&expand(random, "<types entry>"))).collect();
        block.push(Node { text: "types".to_owned(), block: Some(entries) });
    }
    let may_nest = !words.starts_with(['=', '@']);
    if may_nest && random.chance(if outer.is_some() { 10 } else { 25 }) {
        let nested = location(random, Some(&words));
        if nested.text != format!("location {words}") {
            block.push(nested);
        }
    }
    Node { text: format!("location {words}"), block: Some(block) }
}
