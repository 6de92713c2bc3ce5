//! Configurations with one thing wrong: what both say to them with `-t`.

use super::config::{self, Node, print};
use super::random::Random;
use crate::runner::{Both, Verdict, both, same_words};

/// What stands in for a word, besides words from elsewhere in the same configuration.
const WORDS: &[&str] = &[
    "on",
    "off",
    "0",
    "1",
    "-1",
    "10k",
    "1x",
    "5s",
    "99999999999999999999",
    "\"\"",
    "=404",
    "=",
    "@n1",
    "/",
    "x",
    "$uri",
    "$1",
    "$",
    "${uri",
    "text/plain",
    "always",
    "~",
    "~*",
    "=200x",
    "404",
    "600",
    "\"a b\"",
    "'",
    "\"",
    "\\",
    "{",
    "}",
    ";",
    "#x",
    "all",
    "max",
    "http://e.example/",
    "(",
    "[",
    "a=b",
];

/// Directives of another context, and such as there are none.
const LINES: &[&str] = &[
    "listen 8080",
    "server_name x",
    "worker_processes 1",
    "internal",
    "alias /x",
    "root /x",
    "events { }",
    "location /x { }",
    "location = /x { }",
    "location x { }",
    "if ($uri) { }",
    "if (x) { }",
    "if ($uri = ) { }",
    "if { }",
    "server { }",
    "return",
    "return 200 a b",
    "return x",
    "rewrite ^",
    "rewrite ( /x",
    "set u 1",
    "set $u",
    "break on",
    "error_page 404",
    "error_page x /y",
    "try_files x",
    "limit_except GET { }",
    "limit_except X { deny all; }",
    "types x",
    "types { a }",
    "no_such_directive on",
    "map $uri $x { }",
    "allow",
    "deny x",
    "allow 10.0.0.0/33",
    "auth_basic",
    "satisfy x",
    "expires",
    "expires x",
    "expires modified",
    "add_header x",
    "add_header a b c",
    "gzip maybe",
    "sub_filter a",
    "location /x",
    "location",
    "etag",
    "index",
    "default_type a b",
    "include none.conf",
    "charset",
    "ssi on off",
    "autoindex_format x",
    "}",
    "{",
    ";",
    "\"",
    "#",
];

/// How many blocks a change may be in.
const DEPTH: usize = 4;

/// The block that a change goes to, and a place in it.
fn somewhere<'n>(random: &mut Random, nodes: &'n mut Vec<Node>, depth: usize) -> (&'n mut Vec<Node>, usize) {
    let at = random.below(nodes.len());
    let inner = depth < DEPTH
        && random.chance(60)
        && nodes.get(at).is_some_and(|node| node.block.as_ref().is_some_and(|block| !block.is_empty()));
    if inner {
        match &mut nodes[at].block {
            Some(block) => somewhere(random, block, depth + 1),
            None => unreachable!("it has a block"),
        }
    } else {
        (nodes, at)
    }
}

/// Makes one thing wrong, or at least other than it was.
fn spoil(random: &mut Random, nodes: &mut Vec<Node>) {
    let kind = random.below(9);
    let word = (*random.pick(WORDS)).to_owned();
    let line = Node { text: (*random.pick(LINES)).to_owned(), block: None };
    let (block, at) = somewhere(random, nodes, 0);
    let Some(node) = block.get_mut(at) else { return };
    let mut words: Vec<String> = node.text.split(' ').map(str::to_owned).collect();
    let which = random.below(words.len());
    match kind {
        0 => block.insert(at, line),
        1 => {
            let again = block[at].clone();
            block.push(again);
        }
        2 => {
            words.remove(which);
        }
        3 => words.push(word),
        4 => words.insert(which, word),
        5 if words.len() > 1 => words[which.max(1)] = word,
        6 => words.reverse(),
        7 => node.block = if node.block.is_some() { None } else { Some(Vec::new()) },
        8 => words.push(words[which].clone()),
        _ => words[0].push('x'),
    }
    if matches!(kind, 2..=6 | 8) {
        block[at].text = words.join(" ");
    }
}

/// The configuration that one number stands for.
fn configuration(seed: u64) -> String {
    let random = &mut Random::new(seed);
    let mut server = config::server(random);
    spoil(random, &mut server);
    let mut text = String::new();
    print(&server, 0, &mut text);
    let text = text.replace("@HOST@", "h.example").replace("@ROOT@", "@DIR@");
    format!(
        "events {{ }}\nhttp {{\ncharset_map koi8-r utf-8 {{ C1 D0B0; }}\nupstream back {{ server 127.0.0.1:1; }}\nmap $uri $m1 {{ }} geo $m2 {{ }} split_clients $uri $m3 {{ * x; }}\nserver {{\nlisten 127.0.0.1:@PORT@;\nset $u1 1; set $u2 2; if ($uri ~ (?<rest>x)) {{ }}\n{text}}}\n}}\n"
    )
}

/// What the two say to the configuration of a seed, if it differs.
pub fn difference(seed: u64) -> Option<String> {
    let text = configuration(seed);
    let verdicts = both(|kind| Verdict::of(kind, &text))?;
    let Both { nginx, freerun } = verdicts.each(|verdict| (verdict.code, verdict.error()));
    let same = nginx.0 == freerun.0 && (same_words(nginx.1, freerun.1) || nginx.0 == Some(1) && nginx.1.is_empty());
    // Nor does it look for these two before all else is right; it also compares the names of `server_names`.
    let later = freerun.1.starts_with("duplicate location") || nginx.1.starts_with("conflicting parameter");
    // A name that does not resolve never keeps freerun from starting: it is looked for again.
    let resolves_later = nginx.1.starts_with("host not found in upstream") && freerun.0 == Some(0);
    if same || resolves_later || later && nginx.0 == Some(1) {
        return None;
    }
    let line = |words: &str| words.rsplit_once(':').and_then(|(_, line)| line.parse::<usize>().ok());
    let near = line(nginx.1).or_else(|| line(freerun.1)).unwrap_or(0);
    let shown: Vec<&str> = text.lines().skip(near.saturating_sub(3)).take(4).collect();
    Some(format!("    {}\n  - {:?} {}\n  + {:?} {}\n", shown.join("\n    "), nginx.0, nginx.1, freerun.0, freerun.1))
}
