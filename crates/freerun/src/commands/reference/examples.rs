//! The examples of directives: parts of configurations in files, each checked by a test.

use freerun_conf::{Contexts, Example, Examples};

/// The files with the examples. An example begins with a line `#: NAME… (CONTEXT)`: the directives that it is shown for, and
/// the block that it belongs in. With `for FAMILY…` behind, there is the same example for the directives of these families,
/// with `proxy_` and the schemes of addresses replaced.
const FILES: &[&str] = &[
    include_str!("examples/main.conf"),
    include_str!("examples/http.conf"),
    include_str!("examples/files.conf"),
    include_str!("examples/rewrite.conf"),
    include_str!("examples/access.conf"),
    include_str!("examples/filters.conf"),
    include_str!("examples/proxy.conf"),
    include_str!("examples/cache.conf"),
    include_str!("examples/upstream.conf"),
    include_str!("examples/tls.conf"),
    include_str!("examples/stream.conf"),
];

/// The beginning of an example's first line.
const HEAD: &str = "#: ";

/// All examples, in the order of the files.
pub fn all() -> Examples {
    Examples(FILES.iter().flat_map(|file| file.split(HEAD).skip(1)).filter_map(read).flatten().collect())
}

/// An example, without the beginning of its first line, and those for other families; `None` if that line is not as it
/// should be, which a test finds.
fn read(part: &str) -> Option<Vec<Example>> {
    let (head, text) = part.split_once('\n')?;
    let (names, rest) = head.split_once(" (")?;
    let (context, families) = rest.split_once(')')?;
    let families = if families.is_empty() { "" } else { families.strip_prefix(" for ")? };
    let context = of_name(context)?;
    let example = |family: &str| Example {
        names: names.split_whitespace().map(|name| in_family(name, family)).collect(),
        context,
        text: in_family(text.trim(), family),
    };
    Some(std::iter::once("proxy").chain(families.split_whitespace()).map(example).collect())
}

/// The text of an example of the family `proxy` with the directives of another one.
fn in_family(text: &str, family: &str) -> String {
    let (plain, secure) = match family {
        "proxy" => return text.to_owned(),
        "grpc" => ("grpc://", "grpcs://"),
        "uwsgi" => ("", "suwsgi://"),
        _ => ("", ""),
    };
    text.replace("proxy_", &format!("{family}_")).replace("http://", plain).replace("https://", secure)
}

/// The context with a name of the reference.
fn of_name(name: &str) -> Option<Contexts> {
    let all = [
        Contexts::MAIN,
        Contexts::EVENTS,
        Contexts::HTTP,
        Contexts::SERVER,
        Contexts::LOCATION,
        Contexts::UPSTREAM,
        Contexts::ACME_ISSUER,
        Contexts::OTEL_EXPORTER,
        Contexts::STREAM,
        Contexts::STREAM_SERVER,
        Contexts::STREAM_UPSTREAM,
    ];
    all.into_iter().find(|context| context.names().eq([name]))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::io;

    use freerun_conf::{Loader, Node};
    use freerun_serve::configuration::zones::Zones;
    use freerun_serve::tls::files::{KnownFile, SecretFiles};
    use freerun_testkit::TempDir;
    use freerun_testkit::mmdb::{MmdbValue, database};

    use super::*;
    use crate::configuration::{KnownFacts, Side, read_after, registry};
    use crate::source::Input;

    const MAIN: &str = "/stub/nginx.conf";

    /// One text; every file that it includes is empty.
    struct Text(String);

    impl Loader for Text {
        fn load(&mut self, path: &str) -> io::Result<Vec<u8>> {
            Ok(if path == MAIN { self.0.clone().into_bytes() } else { Vec::new() })
        }

        fn glob(&mut self, _: &str) -> io::Result<Vec<String>> {
            Ok(Vec::new())
        }
    }

    /// The database that examples of `geoip2` name.
    const COUNTRIES: &str = "/usr/share/GeoIP/GeoLite2-Country.mmdb";

    /// Directives that no example can show: this one is refused, and that one is only there with debug assertions.
    const NOT_SHOWN: &[&str] =
        &["zstd_dict_file", "debug_block_loop", "debug_panic", "debug_panic_connection", "debug_sandbox"];

    /// A whole configuration with the text in its block.
    fn whole(context: Contexts, text: &str) -> String {
        let events = "events {}\n";
        match context {
            Contexts::MAIN if text.contains("events {") => text.to_owned(),
            Contexts::MAIN => format!("{text}\n{events}"),
            Contexts::EVENTS => format!("events {{\n{text}\n}}\n"),
            Contexts::HTTP => format!("{events}http {{\n{text}\n}}\n"),
            Contexts::SERVER => format!("{events}http {{ server {{\n{text}\n}} }}\n"),
            Contexts::LOCATION => format!("{events}http {{ server {{ location / {{\n{text}\n}} }} }}\n"),
            Contexts::UPSTREAM => format!("{events}http {{ upstream u {{\n{text}\n}} }}\n"),
            Contexts::ACME_ISSUER => format!("{events}http {{ acme_issuer i {{\n{text}\n}} }}\n"),
            Contexts::OTEL_EXPORTER => format!("{events}http {{ otel_exporter {{\n{text}\n}} }}\n"),
            Contexts::STREAM => format!("{events}stream {{\n{text}\n}}\n"),
            // What an engine replaces is taken where there is one.
            Contexts::STREAM_SERVER => {
                format!("zone_sync_engine redis://state.example;\n{events}stream {{ server {{\n{text}\n}} }}\n")
            }
            Contexts::STREAM_UPSTREAM => format!("{events}stream {{ upstream u {{\n{text}\n}} }}\n"),
            other => panic!("{other:?}"),
        }
    }

    /// The files of TLS that examples name.
    fn secrets() -> SecretFiles {
        let certificate = include_bytes!("../../../../tls/tests/fixtures/ec.crt");
        let key = include_bytes!("../../../../tls/tests/fixtures/ec.key");
        let file = |path: &str, contents: &[u8]| (path.to_owned(), KnownFile::read(contents.to_vec(), None));
        SecretFiles::from_iter([
            file("/etc/ssl/example.com.pem", certificate),
            file("/etc/ssl/example.com.key", key),
            file("/etc/ssl/clients.pem", certificate),
            file("/etc/ssl/ca.pem", certificate),
            file("/etc/ssl/crl.pem", include_bytes!("../../../../tls/tests/fixtures/ec.crl")),
            file("/etc/ssl/example.com.ocsp", include_bytes!("../../../../tls/tests/fixtures/ec.ocsp")),
            file("/etc/ssl/passwords", b"secret\n"),
            file("/etc/ssl/ticket.key", &[7; 80]),
            file("/etc/ssl/quic.key", &[8; 32]),
            file("/etc/nginx/state.password", b"secret\n"),
            file("/etc/nginx/state.secret", &[b's'; 32]),
            file(
                "/etc/nginx/jwks.json",
                br#"{"keys":[{"kty":"oct","kid":"1","k":"AyM1SysPpbyDfgZld3umj1qzKObwVMko"}]}"#,
            ),
        ])
    }

    /// The first problem that the program has with a configuration.
    fn problem(text: &str) -> Option<String> {
        let input = Input {
            conf: MAIN.to_owned(),
            globals: None,
            prefix: "/stub/".to_owned(),
            conf_prefix: "/stub/".to_owned(),
            error_log: "stderr".to_owned(),
            privileged: true,
        };
        let known = KnownFacts { secrets: secrets(), ..KnownFacts::default() };
        let failure = read_after(&input, &mut Text(text.to_owned()), Side::Worker, known, Zones::default()).err()?;
        Some(failure.problems.render(&failure.sources, ""))
    }

    #[test]
    fn every_example_is_a_valid_configuration() {
        let heads = FILES.iter().flat_map(|file| file.lines()).filter(|line| line.starts_with(HEAD.trim()));
        for head in heads {
            assert!(head.strip_prefix(HEAD).and_then(|head| read(&format!("{head}\n"))).is_some(), "{head}");
        }
        let all = all().0;
        let mut wrong = String::new();
        let folder = TempDir::new("examples");
        let countries = folder.path().join("countries.mmdb");
        let record = MmdbValue::Map(vec![("country", MmdbValue::Map(vec![("iso_code", MmdbValue::Text("JP"))]))]);
        std::fs::write(&countries, database(&[("127.0.0.0/8", record)], 1)).unwrap();
        for example in &all {
            let text = whole(example.context, &example.text).replace(COUNTRIES, &countries.display().to_string());
            if let Some(problem) = problem(&text) {
                wrong += &format!("{}: {problem}\n", example.names.join(" "));
            }
            let mut names = BTreeSet::new();
            let tree = freerun_conf::parse(MAIN, None, "/stub/", &mut Text(text));
            Node::each(&tree.nodes, &mut |node| {
                names.insert(node.name.text.clone());
            });
            for name in example.names.iter().filter(|name| !names.contains(*name)) {
                wrong += &format!("the example for {:?} has no {name}\n", example.names);
            }
        }
        assert!(wrong.is_empty(), "{wrong}");
    }

    /// Findings of the lint that an example may have: it shows a part of a configuration.
    const PARTIAL: &[&str] = &["zone-unused", "upstream-unused"];

    #[test]
    fn the_lint_finds_nothing_in_examples() {
        let mut wrong = String::new();
        for example in all().0 {
            let text = whole(example.context, &example.text);
            let tree = freerun_conf::parse(MAIN, None, "/stub/", &mut Text(text));
            for (rule, _, line) in
                crate::commands::lint_tree(&tree).into_iter().filter(|(rule, ..)| !PARTIAL.contains(rule))
            {
                wrong += &format!("{}: [{rule}] {line}\n", example.names.join(" "));
            }
        }
        assert!(wrong.is_empty(), "{wrong}");
    }

    #[test]
    fn every_directive_has_an_example() {
        let all = all();
        let grouped = registry().groups().iter().flat_map(|group| group.directives());
        let without: Vec<&str> = grouped
            .chain(registry().structure())
            .filter(|row| !NOT_SHOWN.contains(&row.name) && all.of(row).next().is_none())
            .map(|row| row.name)
            .collect();
        assert!(without.is_empty(), "{without:?}");
    }

    #[test]
    fn an_example_is_shown_where_its_directives_are() {
        let all = all();
        for example in &all.0 {
            for name in &example.names {
                let shown = registry().named(name).any(|row| all.of(row).any(|one| one.text == example.text));
                assert!(shown, "no page shows the example of {name}");
            }
        }
    }
}
