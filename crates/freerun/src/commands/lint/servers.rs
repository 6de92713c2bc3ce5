//! Rules about `server` blocks: their names, their listeners, TLS, and the address of the client.

use std::collections::HashSet;

use freerun_conf::{Contexts, Node};

use super::rule::{FaultList, LintRule, RuleLevel, Subject};

pub static RULES: &[LintRule] = &[
    LintRule {
        name: "server-name-odd",
        level: RuleLevel::Warning,
        summary: "a `server_name` that is no name: an expression without `~`, a URL, a name with a port or a comma",
        reason: "Hosts are compared with it letter by letter, so that no request comes to this server by it.",
        fix: "Begin an expression with `~`; write names alone, with spaces between them.",
        context: Contexts::SERVER,
        bad: "server_name ^www\\.example\\.com$;",
        good: "server_name ~^www\\.example\\.com$;",
        check: odd_names,
    },
    LintRule {
        name: "listen-without-ssl",
        level: RuleLevel::Error,
        summary: "a server with a certificate, or on port 443, that does not speak TLS there",
        reason: "Without `ssl` the port speaks plain HTTP: browsers show an error, or passwords cross the network as they are.",
        fix: "Write `listen 443 ssl;`.",
        context: Contexts::SERVER,
        bad: "listen 443;",
        good: "listen 443 ssl;\nssl_certificate a.crt;\nssl_certificate_key a.key;",
        check: plain_ports,
    },
    LintRule {
        name: "ssl-protocols-old",
        level: RuleLevel::Error,
        summary: "`ssl_protocols` with SSLv2, SSLv3, TLSv1 or TLSv1.1",
        reason: "RFC 7568 and RFC 8996 forbid them: what they protect can be read or changed on the way. freerun does not speak them, nginx \
                 does.",
        fix: "Write `ssl_protocols TLSv1.2 TLSv1.3;`.",
        context: Contexts::SERVER,
        bad: "ssl_protocols TLSv1.1 TLSv1.2;",
        good: "ssl_protocols TLSv1.2 TLSv1.3;",
        check: old_protocols,
    },
    LintRule {
        name: "ssl-ciphers-weak",
        level: RuleLevel::Error,
        summary: "`ssl_ciphers` with RC4, DES, 3DES, MD5, NULL, EXPORT or without authentication",
        reason: "They are broken (RFC 7465, RFC 8429), or give no secrecy, or no proof of who answers.",
        fix: "Take them out, or leave `ssl_ciphers` out.",
        context: Contexts::SERVER,
        bad: "ssl_ciphers ECDHE-RSA-AES128-GCM-SHA256:DES-CBC3-SHA;",
        good: "ssl_ciphers ECDHE-RSA-AES128-GCM-SHA256:!3DES;",
        check: weak_ciphers,
    },
    LintRule {
        name: "key-readable",
        level: RuleLevel::Error,
        summary: "a private key that every user of the machine may read",
        reason: "Whoever has it is the server. The master reads keys as root, so nobody else needs to.",
        fix: "`chmod 600 FILE`.",
        context: Contexts::SERVER,
        bad: "listen 443 ssl;\nssl_certificate a.crt;\nssl_certificate_key open.key;",
        good: "listen 443 ssl;\nssl_certificate a.crt;\nssl_certificate_key a.key;",
        check: readable_keys,
    },
    LintRule {
        name: "real-ip-from-everybody",
        level: RuleLevel::Error,
        summary: "`set_real_ip_from` for all addresses",
        reason: "Every client says itself which address it has, and so passes `allow`, limits and logs as somebody else.",
        fix: "Name the addresses of the proxies in front.",
        context: Contexts::SERVER,
        bad: "set_real_ip_from 0.0.0.0/0;",
        good: "set_real_ip_from 10.0.0.0/8;",
        check: trusted_by_all,
    },
];

/// The fault of a name.
fn fault(name: &str) -> Option<&'static str> {
    if name.starts_with('~') || name.contains('$') && !name.ends_with('$') {
        return None;
    }
    if name.contains("://") || name.contains('/') {
        Some("it has a scheme or a path")
    } else if name.contains([',', ';']) {
        Some("names have spaces between them")
    } else if name.contains(['^', '\\', '(', '|', '[', '+']) && !name.starts_with('[') || name.ends_with('$') {
        Some("an expression begins with \"~\"")
    } else if name.rsplit_once(':').is_some_and(|(host, port)| !host.contains(':') && port.parse::<u16>().is_ok()) {
        Some("the port does not belong to the name")
    } else {
        None
    }
}

fn odd_names(subject: &Subject<'_>, findings: &mut FaultList) {
    let tree = &subject.tree;
    for at in tree.of(Contexts::SERVER | Contexts::STREAM_SERVER) {
        for word in tree.own(at, "server_name").flat_map(|node| &node.args) {
            if let Some(fault) = fault(&word.text) {
                findings.at_word(word, format!("no host is \"{}\": {fault}", word.text));
            }
        }
    }
}

/// Whether a `listen` is of port 443.
fn is_443(node: &Node) -> bool {
    node.arg(0).is_some_and(|address| address == "443" || address.ends_with(":443"))
}

fn plain_ports(subject: &Subject<'_>, findings: &mut FaultList) {
    let tree = &subject.tree;
    let has_tls = |node: &Node| node.args.iter().any(|word| matches!(word.as_str(), "ssl" | "quic"));
    // Whoever listens with TLS on an address does so for all servers there.
    let mut encrypted = HashSet::new();
    let servers = Contexts::SERVER;
    for at in tree.of(servers) {
        encrypted.extend(tree.own(at, "listen").filter(|node| has_tls(node)).filter_map(|node| node.arg(0)));
    }
    for at in tree.of(servers) {
        let is_plain = |node: &Node| !has_tls(node) && !node.arg(0).is_some_and(|address| encrypted.contains(address));
        let listens: Vec<&Node> = tree.own(at, "listen").collect();
        let all_plain =
            listens.iter().all(|node| is_plain(node)) && !tree.around(at).any(|level| tree.has(level, &["ssl"]));
        if let Some(node) = listens.iter().find(|node| is_443(node) && is_plain(node)).filter(|_| all_plain) {
            findings.at(node, "port 443 speaks plain HTTP without ssl");
        } else if let Some(certificate) = tree.first(at, "ssl_certificate").filter(|_| all_plain && !listens.is_empty())
        {
            findings.at(certificate, "this server has a certificate, and no listen with ssl");
        }
    }
}

fn old_protocols(subject: &Subject<'_>, findings: &mut FaultList) {
    subject.tree.each(|node| {
        if node.name.text.ends_with("ssl_protocols") {
            let is_old = |word: &&str| matches!(*word, "SSLv2" | "SSLv3" | "TLSv1" | "TLSv1.0" | "TLSv1.1");
            let old: Vec<&str> = node.args.iter().map(|word| word.as_str()).filter(is_old).collect();
            if !old.is_empty() {
                findings.at(node, format!("{} can be read or changed on the way", old.join(", ")));
            }
        }
    });
}

fn weak_ciphers(subject: &Subject<'_>, findings: &mut FaultList) {
    const WEAK: [&str; 8] = ["RC4", "DES-CBC", "3DES", "MD5", "NULL", "EXP", "LOW", "ADH"];
    subject.tree.each(|node| {
        if node.name.text.ends_with("ssl_ciphers")
            && let Some(word) = node.args.first()
        {
            let is_weak =
                |name: &&str| !name.starts_with(['!', '-', '+', '@']) && WEAK.iter().any(|weak| name.contains(weak));
            let found: Vec<&str> = word.text.split([':', ' ', ',']).filter(is_weak).collect();
            if !found.is_empty() {
                findings.at_word(word, format!("weak: {}", found.join(", ")));
            }
        }
    });
}

/// The permission of everybody to read.
const READ_BY_ALL: u32 = 0o004;

fn readable_keys(subject: &Subject<'_>, findings: &mut FaultList) {
    subject.tree.each(|node| {
        let is_key = node.name.text.ends_with("ssl_certificate_key") || node.name.text == "ssl_session_ticket_key";
        if let Some(word) = node.args.first().filter(|word| is_key && !word.text.contains('$'))
            && subject.machine.mode(&word.text).is_some_and(|mode| mode & READ_BY_ALL != 0)
        {
            findings.at_word(word, format!("every user of the machine may read the key {}", word.text));
        }
    });
}

fn trusted_by_all(subject: &Subject<'_>, findings: &mut FaultList) {
    subject.tree.each(|node| {
        if node.name.text == "set_real_ip_from"
            && let Some(word) = node.args.first().filter(|word| word.text.ends_with("/0"))
        {
            findings.at_word(word, "every client says itself which address it has");
        }
    });
}
