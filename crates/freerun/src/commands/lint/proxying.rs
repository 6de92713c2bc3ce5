//! Rules about `proxy_pass`: where a request goes, and with which fields.

use freerun_conf::{Contexts, Node};

use super::rule::{FaultList, LintRule, RuleLevel, Subject};
use super::texts::{TextPart, ValueQuestion, parts, variables};

pub static RULES: &[LintRule] = &[
    LintRule {
        name: "client-chooses-upstream",
        level: RuleLevel::Error,
        summary: "`proxy_pass` to a host that the client names",
        reason: "With a variable that the client sets in the place of the host, anybody sends requests from here to any address, such \
                 as services of the internal network.",
        fix: "Choose the host with a `map` that lists all of them, or make the location `internal`.",
        context: Contexts::SERVER,
        bad: "resolver 127.0.0.1;\nlocation /a/ {\n    proxy_pass http://$arg_host/;\n}",
        good: "resolver 127.0.0.1;\nlocation /a/ {\n    internal;\n    proxy_pass http://$arg_host/;\n}",
        check: chosen_hosts,
    },
    LintRule {
        name: "host-from-client",
        level: RuleLevel::Warning,
        summary: "`$http_host`, or another value of the client, as `Host` of the upstream server",
        reason: "A request line with an absolute URL chooses the server here by its own host and may have any `Host` besides, with \
                 which the application then makes links and decides.",
        fix: "Write `$host`, or `$host:$server_port` if the port matters.",
        context: Contexts::SERVER,
        bad: "proxy_set_header Host $http_host;",
        good: "proxy_set_header Host $host;",
        check: forged_hosts,
    },
    LintRule {
        name: "proxy-pass-slash",
        level: RuleLevel::Warning,
        summary: "`location` and `proxy_pass` of which only one ends in a slash",
        reason: "What stands behind the name of the location is appended to the path of `proxy_pass` as it is: `/a` and `/` make `//b` \
                 of `/a/b`, `/a/` and `/x` make `/xb`.",
        fix: "End both in a slash, or neither.",
        context: Contexts::SERVER,
        bad: "location /a/ {\n    proxy_pass http://127.0.0.1:81/x;\n}",
        good: "location /a/ {\n    proxy_pass http://127.0.0.1:81/x/;\n}",
        check: slashes,
    },
    LintRule {
        name: "upgrade-without-connection",
        level: RuleLevel::Warning,
        summary: "`proxy_set_header Upgrade` without `Connection` beside it",
        reason: "`Upgrade` counts only if `Connection` names it, so the upstream server opens no WebSocket.",
        fix: "Add `proxy_set_header Connection upgrade;`, or a variable of a `map`.",
        context: Contexts::SERVER,
        bad: "proxy_set_header Upgrade $http_upgrade;",
        good: "proxy_set_header Upgrade $http_upgrade;\nproxy_set_header Connection upgrade;",
        check: upgrades,
    },
    LintRule {
        name: "resolver-missing",
        level: RuleLevel::Error,
        summary: "a variable in the host of `proxy_pass` without a `resolver`",
        reason: "A host that is known only with the request is looked up then, by the servers of `resolver`. Without it each request \
                 is answered with 502.",
        fix: "Write a `resolver`, or let the variable name an `upstream` block.",
        context: Contexts::SERVER,
        bad: "location /a/ {\n    set $app app.internal;\n    proxy_pass http://$app;\n}",
        good: "resolver 127.0.0.1;\nlocation /a/ {\n    set $app app.internal;\n    proxy_pass http://$app;\n}",
        check: missing_resolvers,
    },
    LintRule {
        name: "resolver-external",
        level: RuleLevel::Warning,
        summary: "a `resolver` on the internet",
        reason: "Answers of DNS that cross foreign networks are not protected: whoever sends a false one first has the requests.",
        fix: "Run a name server on this machine or in its network, and name that.",
        context: Contexts::SERVER,
        bad: "resolver 8.8.8.8;",
        good: "resolver 127.0.0.53;",
        check: external_resolvers,
    },
];

/// The bytes of a group with which a client names another host.
const OF_HOSTS: &[u8] = b"./@";

/// Whether the client sets the value of a variable freely.
fn is_of_client(name: &str) -> bool {
    let begins =
        ["http_", "arg_", "cookie_", "sent_http_", "upstream_http_"].iter().any(|begin| name.starts_with(begin));
    begins && name != "http_upgrade" || matches!(name, "args" | "query_string" | "request" | "host" | "request_body")
}

/// The question whether a client sets a value freely.
const OF_CLIENT: ValueQuestion<'static> =
    ValueQuestion { variable: &is_of_client, group: &|bytes| OF_HOSTS.iter().any(|byte| bytes.has(*byte)) };

/// The part of a target that names the host: what stands between the scheme and the path, and the scheme if it is variable.
fn host(target: &str) -> &str {
    let begin = target.find("://").filter(|at| !target[..*at].contains('$')).map_or(0, |at| at + 3);
    let mut end = begin;
    for part in parts(&target[begin..]) {
        match part {
            TextPart::Plain(text) => match text.replace("://", "___").find('/') {
                Some(slash) => return &target[begin..end + slash],
                None => end += text.len(),
            },
            TextPart::Variable("request_uri" | "uri" | "document_uri" | "is_args") => break,
            TextPart::Variable(name) => {
                end += name.len() + 1;
                end += if target[end - name.len() - 1..].starts_with("${") { 2 } else { 0 };
            }
        }
    }
    &target[begin..end.min(target.len())]
}

/// Whether a server answers requests for any host.
fn takes_any_host(subject: &Subject<'_>, server: usize) -> bool {
    let tree = &subject.tree;
    let is_any = |name: &str| name.is_empty() || name == "_" || name.starts_with(['~', '*', '.']) || name.contains('$');
    let mut names = tree.own(server, "server_name").flat_map(|node| &node.args).peekable();
    if names.peek().is_none() || names.any(|word| is_any(&word.text)) {
        return true;
    }
    let address = |node: &Node| node.arg(0).unwrap_or_default().to_owned();
    let is_default = |node: &Node| node.args.iter().any(|word| matches!(word.as_str(), "default_server" | "default"));
    tree.own(server, "listen").any(|own| {
        let others: Vec<(usize, &Node)> = tree
            .of(Contexts::SERVER)
            .flat_map(|other| tree.own(other, "listen").map(move |node| (other, node)))
            .filter(|(_, node)| address(node) == address(own))
            .collect();
        let defaults = others.iter().find(|(_, node)| is_default(node));
        let first = others.first();
        defaults.or(first).is_some_and(|(other, _)| *other == server)
    })
}

fn chosen_hosts(subject: &Subject<'_>, findings: &mut FaultList) {
    let tree = &subject.tree;
    for at in tree.of_http() {
        let Some(word) = tree.first(at, "proxy_pass").and_then(|node| node.args.first()) else { continue };
        if tree.around(at).any(|level| tree.has(level, &["internal"])) {
            continue;
        }
        // A name behind `@` is reached from within.
        let named = |level: usize| {
            tree.blocks[level].node.and_then(|node| node.arg(0)).is_some_and(|name| name.starts_with('@'))
        };
        let host = host(&word.text);
        if let Some(name) = tree.find_variable(at, host, &OF_CLIENT)
            && !(host == "$host" && tree.server(at).is_some_and(|server| !takes_any_host(subject, server)))
            && !(named(at) && variables(host).all(|name| tree.set_values(at, name).next().is_some()))
        {
            findings.at_word(
                word,
                format!("a client chooses the server with ${name}, and so reaches any address from here"),
            );
        }
    }
}

fn forged_hosts(subject: &Subject<'_>, findings: &mut FaultList) {
    let tree = &subject.tree;
    for at in tree.of_http() {
        for node in tree.own(at, "proxy_set_header").chain(tree.own(at, "grpc_set_header")) {
            if node.arg(0).is_some_and(|name| name.eq_ignore_ascii_case("host"))
                && let Some(value) = node.args.get(1)
                && let Some(name) = variables(&value.text).find(|name| {
                    *name == "http_host" || ["arg_", "cookie_"].iter().any(|begin| name.starts_with(begin))
                })
            {
                findings.at_word(value, format!("${name} may be another host than the one that chose the server"));
            }
        }
    }
}

fn slashes(subject: &Subject<'_>, findings: &mut FaultList) {
    let tree = &subject.tree;
    for at in tree.of(Contexts::LOCATION) {
        let Some((node, word)) = tree.first(at, "proxy_pass").and_then(|node| Some((node, node.args.first()?))) else {
            continue;
        };
        let prefix = tree.blocks[at].node.and_then(|location| match location.args.as_slice() {
            [prefix] => Some(prefix.as_str()),
            [sign, prefix] if sign.text == "^~" => Some(prefix.as_str()),
            _ => None,
        });
        let target = word.text.split_once("://").map_or("", |(_, target)| target);
        let Some((prefix, slash)) = prefix.filter(|name| name.starts_with('/')).zip(target.find('/')) else { continue };
        let path = &target[slash..];
        let is_plain = !word.text.contains('$') && !target.starts_with("unix:") && !path.contains(['?', '=']);
        if is_plain && !tree.has(at, &["rewrite"]) && prefix.ends_with('/') != path.ends_with('/') {
            let (from, to) = (format!("{prefix}{}b", if prefix.ends_with('/') { "" } else { "/" }), path);
            let rest = from.strip_prefix(prefix).unwrap_or_default();
            findings.at_word(word, format!("{} makes {to}{rest} of {from}", node.name.text));
        }
    }
}

fn upgrades(subject: &Subject<'_>, findings: &mut FaultList) {
    let tree = &subject.tree;
    for at in tree.of_http() {
        let has = |name: &str| {
            tree.own(at, "proxy_set_header")
                .find(|node| node.arg(0).is_some_and(|field| field.eq_ignore_ascii_case(name)))
        };
        if let Some(upgrade) = has("upgrade").filter(|node| node.arg(1).is_some_and(|value| !value.is_empty()))
            && has("connection").is_none()
        {
            findings.at(upgrade, "Upgrade is ignored by the upstream server without Connection beside it");
        }
    }
}

/// Whether a host needs no resolver: an address, a group of servers, or a socket.
fn is_known(subject: &Subject<'_>, host: &str) -> bool {
    let name =
        host.rsplit_once(':').filter(|(name, port)| !name.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit()));
    let name = name.map_or(host, |(name, _)| name).trim_matches(['[', ']']);
    name.is_empty()
        || name.parse::<std::net::IpAddr>().is_ok()
        || host.starts_with("unix:")
        || subject.tree.groups.contains(host)
        || subject.tree.groups.contains(name)
}

/// Whether all values of a variable are known without a resolver, as far as the configuration says.
fn has_known_values(subject: &Subject<'_>, at: usize, host: &str) -> bool {
    let Some(name) = host.strip_prefix('$').map(|name| name.trim_matches(['{', '}'])) else { return false };
    if name.contains(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_') {
        return false;
    }
    let tree = &subject.tree;
    let without_scheme = |value: &str| {
        value.split_once("://").map_or(value, |(_, rest)| rest).split('/').next().unwrap_or_default().to_owned()
    };
    let mut values: Vec<String> = tree.set_values(at, name).map(without_scheme).collect();
    if let Some(map) = tree.map_of(name) {
        values.extend(
            map.children()
                .iter()
                .filter(|entry| entry.name.text != "hostnames")
                .filter_map(|entry| entry.arg(0))
                .map(without_scheme),
        );
    }
    !values.is_empty() && values.iter().all(|value| !value.contains('$') && is_known(subject, value))
}

fn missing_resolvers(subject: &Subject<'_>, findings: &mut FaultList) {
    let tree = &subject.tree;
    for at in tree.of_http() {
        let Some(word) = tree.first(at, "proxy_pass").and_then(|node| node.args.first()) else { continue };
        let host = host(&word.text);
        let Some(name) =
            variables(host).find(|name| !matches!(*name, "server_addr" | "remote_addr" | "server_port" | "scheme"))
        else {
            continue;
        };
        // Values that `split_clients` and other modules make are not followed.
        let is_followed = tree.set_values(at, name).next().is_some()
            || tree.map_of(name).is_some()
            || is_of_client(name)
            || name.starts_with(|letter: char| letter.is_ascii_digit());
        if tree.in_force(at, "resolver").is_none() && is_followed && !has_known_values(subject, at, host) {
            findings.at_word(word, format!("the host of ${name} cannot be looked up without a resolver"));
        }
    }
}

/// Whether an address is neither of this machine nor of a private network.
fn is_public(text: &str) -> bool {
    use std::net::{IpAddr, SocketAddr};
    let address = text.parse::<IpAddr>().or_else(|_| text.trim_matches(['[', ']']).parse()).ok();
    match address.or_else(|| text.parse::<SocketAddr>().ok().map(|socket| socket.ip())) {
        Some(IpAddr::V4(four)) => {
            let [a, b, ..] = four.octets();
            !(four.is_loopback()
                || four.is_private()
                || four.is_link_local()
                || four.is_unspecified()
                || a == 100 && (b & 0xc0) == 64)
        }
        Some(IpAddr::V6(six)) => {
            let first = six.segments()[0];
            !(six.is_loopback() || six.is_unspecified() || first & 0xfe00 == 0xfc00 || first & 0xffc0 == 0xfe80)
        }
        None => false,
    }
}

fn external_resolvers(subject: &Subject<'_>, findings: &mut FaultList) {
    let tree = &subject.tree;
    for at in tree.of(Contexts::ANY) {
        for node in tree.own(at, "resolver") {
            // Answers of OCSP are signed: if the resolver is for these alone, a false address does no harm.
            let looks_up = |inner: usize| {
                tree.own(inner, "proxy_pass").any(|pass| pass.arg(0).is_some_and(|target| host(target).contains('$')))
                    || tree.own(inner, "server").any(|server| server.args.iter().any(|word| word.text == "resolve"))
            };
            let is_for_stapling = (tree.around(at).chain(tree.within(at)))
                .any(|level| tree.has(level, &["ssl_stapling"]))
                && !tree.within(at).any(looks_up);
            if let Some(word) = node.args.iter().find(|word| is_public(&word.text))
                && !is_for_stapling
            {
                findings
                    .at_word(word, format!("the answers of {} cross foreign networks without protection", word.text));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_host_of_a_target_ends_at_its_path() {
        for (target, expected) in [
            ("http://$host/a$b", "$host"),
            ("http://app$request_uri", "app"),
            ("http://a${b}c:80/x", "a${b}c:80"),
            ("$1://$2/$3", "$1://$2"),
            ("http://a.b$uri", "a.b"),
            ("https://$arg_h", "$arg_h"),
        ] {
            assert_eq!(host(target), expected, "{target}");
        }
    }

    #[test]
    fn public_addresses_are_told_from_others() {
        for text in ["8.8.8.8", "1.1.1.1:53", "[2001:4860:4860::8888]", "[2606:4700::1111]:53"] {
            assert!(is_public(text), "{text}");
        }
        for text in
            ["127.0.0.53", "10.0.0.2:53", "[::1]", "[fd00::1]:5353", "169.254.169.253", "dns.internal", "valid=30s"]
        {
            assert!(!is_public(text), "{text}");
        }
    }
}
