//! `gzip`, `brotli`, `zstd` and their like: what `-t` says to broken ones.

use freerun_testkit::{Kind, check, require};

/// The line, and what is said of it.
#[rustfmt::skip]
const REFUSED: &[(&str, &str)] = &[
    ("gzip maybe;", "invalid value \"maybe\" in \"gzip\" directive, it must be \"on\" or \"off\""),
    ("gzip;", "invalid number of arguments in \"gzip\" directive"),
    ("gzip on off;", "invalid number of arguments in \"gzip\" directive"),
    ("gzip on; gzip off;", "\"gzip\" directive is duplicate"),
    ("gzip_comp_level 0;", "value must be between 1 and 9"),
    ("gzip_comp_level 10;", "value must be between 1 and 9"),
    ("gzip_comp_level x;", "\"gzip_comp_level\" directive invalid number"),
    ("gzip_min_length x;", "\"gzip_min_length\" directive invalid value"),
    ("gzip_min_length 1g;", "\"gzip_min_length\" directive invalid value"),
    ("gzip_min_length -1;", "\"gzip_min_length\" directive invalid value"),
    ("gzip_types;", "invalid number of arguments in \"gzip_types\" directive"),
    ("gzip_proxied;", "invalid number of arguments in \"gzip_proxied\" directive"),
    ("gzip_proxied maybe;", "invalid value \"maybe\""),
    ("gzip_vary x;", "invalid value \"x\" in \"gzip_vary\" directive, it must be \"on\" or \"off\""),
    ("gzip_disable;", "invalid number of arguments in \"gzip_disable\" directive"),
    ("gzip_disable \"(\";", "pcre2_compile() failed: missing closing parenthesis in \"(\""),
    ("gzip_http_version 1.2;", "invalid value \"1.2\""),
    ("gzip_http_version;", "invalid number of arguments in \"gzip_http_version\" directive"),
    ("gzip_buffers 4;", "invalid number of arguments in \"gzip_buffers\" directive"),
    ("gzip_buffers 0 4k;", "\"gzip_buffers\" directive invalid value"),
    ("gzip_buffers 4 x;", "\"gzip_buffers\" directive invalid value"),
    ("gzip_buffers 4 0;", "\"gzip_buffers\" directive invalid value"),
    ("gzip_window 3;", "\"gzip_window\" directive must be 512, 1k, 2k, 4k, 8k, 16k, or 32k"),
    ("gzip_window 64k;", "\"gzip_window\" directive must be 512, 1k, 2k, 4k, 8k, 16k, or 32k"),
    ("gzip_hash 256k;", "\"gzip_hash\" directive must be 512, 1k, 2k, 4k, 8k, 16k, 32k, 64k, or 128k"),
    ("gzip_no_buffer x;", "invalid value \"x\" in \"gzip_no_buffer\" directive, it must be \"on\" or \"off\""),
    ("postpone_gzipping x;", "\"postpone_gzipping\" directive invalid value"),
    ("server { if ($host) { gzip on; } }", "\"gzip\" directive is not allowed here"),
    ("server { location / { if ($host) { gzip_types a; } } }", "\"gzip_types\" directive is not allowed here"),
];

/// The same for directives that Debian's nginx does not have of itself.
#[rustfmt::skip]
const REFUSED_HERE: &[(&str, &str)] = &[
    ("brotli x;", "invalid value \"x\" in \"brotli\" directive, it must be \"on\" or \"off\""),
    ("brotli_comp_level 12;", "value must be between 0 and 11"),
    ("brotli_comp_level -1;", "\"brotli_comp_level\" directive invalid number"),
    ("brotli_window 3k;", "\"brotli_window\" directive must be 1k, 2k, 4k, 8k, 16k, 32k, 64k, 128k, 256k, 512k, 1m, 2m, 4m, 8m or 16m"),
    ("brotli_window 32m;", "\"brotli_window\" directive must be 1k, 2k, 4k, 8k, 16k, 32k, 64k, 128k, 256k, 512k, 1m, 2m, 4m, 8m or 16m"),
    ("brotli_min_length x;", "\"brotli_min_length\" directive invalid value"),
    ("brotli_buffers 4;", "invalid number of arguments in \"brotli_buffers\" directive"),
    ("server { if ($host) { brotli on; } }", "\"brotli\" directive is not allowed here"),
    ("zstd x;", "invalid value \"x\" in \"zstd\" directive, it must be \"on\" or \"off\""),
    ("zstd_comp_level 0;", "value must be between 1 and 22"),
    ("zstd_comp_level 23;", "value must be between 1 and 22"),
    ("zstd_min_length x;", "\"zstd_min_length\" directive invalid value"),
    ("zstd_buffers 4;", "invalid number of arguments in \"zstd_buffers\" directive"),
    ("zstd_dict_file /tmp/d;", "\"zstd_dict_file\" directive is not supported"),
];

fn check_all(kind: Kind, table: &[(&str, &str)]) {
    let mut wrong = String::new();
    for (line, message) in table {
        let checked = check(kind, &format!("events {{ }}\nhttp {{\n{line}\n}}\n")).expect("it starts");
        let first = checked.stderr.lines().find(|line| line.contains("[emerg]")).unwrap_or_default();
        if !first.contains(&format!("{message} in ")) || !first.contains("nginx.conf:3") {
            wrong += &format!("{line}\n  wanted {message}\n  got    {first}\n");
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

#[test]
fn broken_directives_are_refused() {
    if require::freerun() {
        check_all(Kind::under_test(), REFUSED);
        check_all(Kind::Freerun, REFUSED_HERE);
    }
}
