//! A server's names and locations, read from the text of a configuration.

use std::sync::Arc;

use freerun_conf::{Contexts, Cx, OneText, Registry, apply_block, parse};

use crate::build::{Builder, STRUCTURE, core_groups};
use crate::request::generation::{HttpConfiguration, Servers};
use freerun_serve::build::blueprint::Blueprint;
use freerun_serve::configuration::parts::Paths;

/// The part of http.
pub fn configuration(built: &Blueprint) -> Arc<HttpConfiguration> {
    built.parts.get().unwrap()
}

/// Reads the contents of an `http` block; `Err` is the first problem's line.
pub fn read(http: &str) -> Result<(Blueprint, Vec<String>), String> {
    let tree = parse("test.conf", None, "/", &mut OneText(&format!("http {{ {http} }}")));
    let mut cx = Cx::new(tree.sources.clone());
    cx.extensions.insert(Paths { prefix: "/prefix/".to_owned(), privileged: true, ..Paths::default() });
    let registry = Registry::new(&core_groups(), STRUCTURE).unwrap();
    let builder = Builder { registry: &registry, modules: &[] };
    builder.prepare(&mut cx);
    let built = registry.defaults(&mut cx).and_then(|defaults| {
        let (main, blocks) = apply_block(&registry, Contexts::MAIN, &tree.nodes, &defaults, &mut cx)?;
        builder.build(&blocks, &main, &mut cx)
    });
    let built = cx.conclude(built, tree.error).map_err(|problems| problems[0].first_line(&tree.sources))?;
    Ok((built, cx.warnings.into_iter().map(|warning| warning.message).collect()))
}

/// The servers of the first address.
pub fn servers(http: &str) -> Arc<Servers> {
    configuration(&read(http).unwrap().0).listens[0].servers.clone()
}

mod locations {
    use super::{read, servers};
    use crate::regex::Captures;
    use crate::route::LocationChoice;

    #[test]
    fn predicates_come_behind_expressions_and_before_prefixes() {
        let servers = servers(
            r"server { location / { location $arg_in { } location /a/deep { } } location ^~ /final { } location ~ \.php$ { }
                location = /exact { } location $arg_out { location /out/in { } location ~ x$ { } } location $arg_later { }
                location /b { location $arg_in { location $arg_later { } } } }",
        );
        let chosen = |path: &str, holding: &[&str]| {
            let holds = |location: &crate::request::location::Location| holding.contains(&location.name.as_str());
            match servers.default.locations.find(path.as_bytes(), &Captures::default(), &holds).unwrap() {
                LocationChoice::Location(location) => location.name.clone(),
                _ => "nothing".to_owned(),
            }
        };
        for (path, holding, wanted) in [
            ("/a", &[][..], "/"),
            ("/a", &["$arg_out"], "$arg_out"),
            ("/a", &["$arg_out", "$arg_later"], "$arg_out"),
            ("/a", &["$arg_later"], "$arg_later"),
            ("/a", &["$arg_in", "$arg_out"], "$arg_in"),
            ("/a/deep/x", &["$arg_in"], "$arg_in"),
            ("/a/deep/x", &["$arg_out"], "x$"),
            ("/exact", &["$arg_out"], "/exact"),
            ("/final/x", &["$arg_out"], "/final"),
            ("/a.php", &["$arg_out"], r"\.php$"),
            ("/out/in/y", &["$arg_out"], "/out/in"),
            ("/b", &["$arg_in"], "$arg_in"),
            ("/b", &["$arg_in", "$arg_later"], "$arg_later"),
            ("/b", &["$arg_later"], "$arg_later"),
        ] {
            assert_eq!(chosen(path, holding), wanted, "{path} {holding:?}");
        }
        for name in ["$", "$a$b", "$a/b", "${a", "$a-b"] {
            assert!(read(&format!("server {{ location {name} {{ }} }}")).is_err(), "{name}");
        }
    }

    #[test]
    fn an_alias_that_leads_out_is_told() {
        let rows = [
            ("location /img { alias /x/; }", 1),
            ("location ^~ /img { alias /x/$host/; }", 1),
            ("location /img/ { alias /x/; }", 0),
            ("location /img { alias /x; }", 0),
            ("location = /img { alias /x/; }", 0),
            ("location ~ /img { alias /x/; }", 0),
        ];
        for (text, wanted) in rows {
            let warnings = read(&format!("server {{ {text} }}")).unwrap().1;
            assert_eq!(warnings.len(), wanted, "{text}: {warnings:?}");
        }
    }

    /// Checks the name of the location that each path gets; `-` if it gets none.
    #[track_caller]
    fn check(locations: &str, wanted: &[(&str, &str)]) {
        let servers = servers(&format!("server {{ {locations} }}"));
        for (path, wanted) in wanted {
            let found = match servers.default.locations.find(path.as_bytes(), &Captures::default(), &|_| false).unwrap()
            {
                LocationChoice::Location(location) => location.name.clone(),
                LocationChoice::Nothing => "-".to_owned(),
                LocationChoice::Folder(location) => format!("{} redirected", location.name),
            };
            assert_eq!(found, *wanted, "{path}");
        }
    }

    #[test]
    fn exact_before_expressions_before_the_longest_prefix() {
        check(
            r"location = /x {} location /x {} location /x/long/er {} location /x/l {} location ~ \.php$ {}
              location ~ ^/x/.*p$ {}",
            &[
                ("/x", "/x"),
                ("/xy", "/x"),
                ("/x/long/er/", "/x/long/er"),
                ("/x/long/e", "/x/l"),
                ("/x/k", "/x"),
                ("/x/a.php", r"\.php$"),
                ("/x/ap", "^/x/.*p$"),
                ("/w", "-"),
                ("/", "-"),
            ],
        );
    }

    #[test]
    fn every_prefix_is_found_among_neighbours() {
        check(
            "location / {} location /a {} location /a/ {} location /a/b {} location /ab {} location /b {}
             location /a/bb/c {} location /a/b/c/d/e {}",
            &[
                ("/", "/"),
                ("/a", "/a"),
                ("/aa", "/a"),
                ("/a/", "/a/"),
                ("/a/a", "/a/"),
                ("/a/c", "/a/"),
                ("/a/b", "/a/b"),
                ("/a/bb", "/a/b"),
                ("/a/bb/c", "/a/bb/c"),
                ("/a/bb/d", "/a/b"),
                ("/a/b/c/d/f", "/a/b"),
                ("/a/b/c/d/e/f", "/a/b/c/d/e"),
                ("/abc", "/ab"),
                ("/b/a", "/b"),
                ("/c", "/"),
                ("/\u{ff}", "/"),
            ],
        );
    }

    #[test]
    fn the_longest_prefix_is_found_in_whatever_order_they_are_written() {
        let names = ["/", "/a", "/ab", "/abc/d", "/abd", "/b/", "/b/c", "/b/c/d/e"];
        for shift in 0..names.len() {
            for step in [1, 3, 5, 7] {
                let order = (0..names.len()).map(|at| names[(shift + at * step) % names.len()]);
                let text: String = order.map(|name| format!("location {name} {{}} ")).collect();
                for path in
                    ["/", "/a", "/aa", "/abc", "/abc/dd", "/abcd", "/abd", "/b", "/b/", "/b/c/d", "/b/c/d/e/f", "/c"]
                {
                    let longest = names.iter().filter(|name| path.starts_with(**name)).max_by_key(|name| name.len());
                    check(&text, &[(path, longest.unwrap())]);
                }
            }
        }
    }

    #[test]
    fn a_caret_keeps_expressions_of_its_level_away() {
        check(
            r"location ^~ /c {} location /c/inner {} location ~ x$ {}",
            &[("/c/x", "/c"), ("/c/inner/x", "x$"), ("/x", "x$")],
        );
        // As in nginx, inside another location it does not exclude the server's expressions.
        check(
            r"location / { location ^~ /q/ {} location ~ z$ {} } location ~ /q/ {}",
            &[("/q/a", "/q/"), ("/q/z", "/q/"), ("/z", "z$")],
        );
        let servers = servers("server { location / { location ^~ /q/ {} } location ~ ^/(q)/ {} }");
        let captures = Captures::default();
        assert!(matches!(
            servers.default.locations.find(b"/q/a", &captures, &|_| false),
            Ok(LocationChoice::Location(_))
        ));
        assert_eq!(captures.numbered(1), Some(&b"q"[..]), "the expression it is");
        check(
            r"location ^~ /c { location ~ in$ {} location /c/d {} } location ~ n$ {}",
            &[("/c/in", "in$"), ("/c/n", "/c"), ("/c/d/n", "/c/d"), ("/n", "n$")],
        );
    }

    #[test]
    fn nested_ones_are_chosen_inside_the_outer_one() {
        check(
            r"location /n { location /n/a {} location = /n/b {} location ~ z$ { location ~ zz$ {} } }
              location ~ \.php$ {} location ~ /r { location /r/a {} location ~ b$ {} }",
            &[
                ("/n", "/n"),
                ("/n/a/x", "/n/a"),
                ("/n/b", "/n/b"),
                ("/n/bb", "/n"),
                ("/n/a/z", "z$"),
                ("/n/a/zz", "zz$"),
                ("/n/x.php", r"\.php$"),
                ("/n/a/x.php", r"\.php$"),
                ("/r", "/r"),
                ("/r/a", "/r/a"),
                ("/r/ab", "b$"),
            ],
        );
    }

    #[test]
    fn named_ones_are_found_by_name_alone() {
        let servers = servers("server { location @x {} location / {} }");
        let locations = &servers.default.locations;
        assert!(locations.named("@x").is_some());
        assert!(locations.named("@y").is_none());
        assert!(
            matches!(locations.find(b"@x", &Captures::default(), &|_| false), Ok(LocationChoice::Nothing)),
            "no path begins so, and none gets there"
        );
    }

    #[test]
    fn a_match_that_is_given_up_chooses_nothing() {
        let servers = servers("server { location / {} location ~ ^/(a|aa)+$ {} }");
        let mut path = vec![b'a'; 4000];
        path[0] = b'/';
        path.push(b'!');
        assert!(servers.default.locations.find(&path, &Captures::default(), &|_| false).is_err());
    }

    #[test]
    fn alias_holds_inside_until_there_is_a_root() {
        let servers = servers(
            "server { location /al/ { alias /srv/; location ~ x$ {} location /al/r/ { root /r; }
                location /al/o/ { alias /own/; } } location ~ ^/(e) { alias /e/$1; location ~ f$ {} } }",
        );
        for (path, wanted) in [
            ("/al/y", Some(Some("/al/"))),
            ("/al/x", Some(Some("/al/"))),
            ("/al/r/y", None),
            ("/al/o/y", Some(Some("/al/o/"))),
            ("/e", Some(None)),
            ("/e/f", Some(None)),
        ] {
            let found = servers.default.locations.find(path.as_bytes(), &Captures::default(), &|_| false);
            let Ok(LocationChoice::Location(location)) = found else { panic!("{path}") };
            assert_eq!(
                location.alias.as_ref().map(|alias| alias.prefix.as_deref()),
                wanted.map(|prefix| prefix.map(str::as_bytes)),
                "{path}"
            );
        }
    }

    #[test]
    fn paths_that_would_be_made_of_themselves_are_refused() {
        for (lines, wanted) in [
            ("root $document_root;", "the $document_root variable cannot be used in the \"root\" directive"),
            (
                "location / { alias /${realpath_root}; }",
                "the $realpath_root variable cannot be used in the \"alias\" directive",
            ),
            ("location @x { alias /x; }", "the \"alias\" directive cannot be used inside the named location"),
        ] {
            let line = read(&format!("server {{ {lines} }}")).err().unwrap();
            assert!(line.contains(wanted), "{line}");
        }
    }
}

mod names {
    use super::{read, servers};
    use crate::regex::Captures;

    /// Checks the first name of the server that each host gets; `-` for the default server.
    #[track_caller]
    fn check(servers_text: &str, wanted: &[(&str, &str)]) {
        let servers = servers(servers_text);
        for (host, wanted) in wanted {
            let found = servers.names.find(host, &Captures::default()).unwrap();
            assert_eq!(found.map_or("-", |server| &server.name), *wanted, "{host}");
        }
    }

    #[test]
    fn exact_then_front_then_back_then_expressions() {
        check(
            r"server { server_name ~^www\. ~^first; }
              server { server_name back.* www.example.*; }
              server { server_name *.example.com; }
              server { server_name *.deep.example.com; }
              server { server_name www.example.com; }
              server { server_name ~.; }",
            &[
                ("www.example.com", "www.example.com"),
                ("a.example.com", "*.example.com"),
                ("a.b.example.com", "*.example.com"),
                ("a.deep.example.com", "*.deep.example.com"),
                ("deep.example.com", "*.example.com"),
                ("example.com", "~."),
                (".example.com", "*.example.com"),
                ("www.example.org", "back.*"),
                ("www.example.co.uk", "back.*"),
                ("www.example.", r"~^www\."),
                ("www.other", r"~^www\."),
                ("first", r"~^www\."),
                ("xyz", "~."),
                ("", "-"),
            ],
        );
    }

    #[test]
    fn a_dot_at_the_front_stands_for_both() {
        check(
            "server { server_name .example.com; } server { server_name x; }",
            &[
                ("example.com", "example.com"),
                ("a.example.com", "example.com"),
                ("badexample.com", "-"),
                ("com", "-"),
                ("x", "x"),
            ],
        );
    }

    #[test]
    fn the_longest_wildcard_wins() {
        check(
            "server { server_name a.*; } server { server_name a.b.*; } server { server_name *.c; }
             server { server_name *.b.c; }",
            &[("a.x", "a.*"), ("a.b.x", "a.b.*"), ("a.b.c", "*.b.c"), ("x.c", "*.c"), ("a", "-"), ("c", "-")],
        );
    }

    #[test]
    fn no_name_is_for_requests_without_host() {
        check(
            r#"server { server_name one; } server { server_name ""; } server { server_name ~.* ; }"#,
            &[("one", "one"), ("", ""), ("two", "~.*")],
        );
        // An expression that would match an empty host is not tried.
        check("server { server_name one; } server { server_name ~.*; }", &[("", "-"), ("x", "~.*")]);
    }

    #[test]
    fn the_first_to_claim_a_name_keeps_it() {
        let (built, warnings) = read(
            "server { server_name a .b; } server { server_name A b c.*; } server { server_name *.b; }
             server { server_name c.* d; }",
        )
        .unwrap();
        let wanted = ["a", "b", "*.b", "c.*"].map(|name| format!("conflicting server name \"{name}\" on 0.0.0.0:80"));
        assert_eq!(warnings.len(), wanted.len(), "{warnings:?}");
        for (warning, wanted) in warnings.iter().zip(wanted) {
            assert!(warning.starts_with(wanted.trim_end_matches('"')), "{warning}");
        }
        let http = super::configuration(&built);
        let names = &http.listens[0].servers.names;
        let first = |host| names.find(host, &Captures::default()).unwrap().unwrap().name.to_string();
        assert_eq!([first("a"), first("b"), first("x.b"), first("d")], ["a", "a", "a", "c.*"]);
    }

    #[test]
    fn names_that_mean_nothing_are_refused() {
        for name in ["*", "a*.b", "*.*.a", "a.*.b", "*.", ".*", "."] {
            assert!(read(&format!("server {{ server_name {name}; }}")).is_err(), "{name}");
        }
        assert!(read("server { server_name ~; }").is_err());
    }
}
