//! Malformed directives of the modules that work on text and fields: `-t` of both servers says the same in its first line, or both
//! are content.

use crate::runner::{Both, compare_verdicts, same_words};

/// Lines in a location; those that begin with `http:`, in the http block.
#[track_caller]
pub fn compare(lines: &[&str]) {
    let text = |line: &str| match line.strip_prefix("http:") {
        Some(line) => format!("pid @DIR@/p;\nevents {{ }}\nhttp {{\naccess_log off;\n{line}\n}}\n"),
        None => format!(
            "pid @DIR@/p;\nevents {{ }}\nhttp {{\naccess_log off;\nserver {{\nlisten 127.0.0.1:@PORT@;\nlocation /x {{\n{line}\n}}\n}}\n}}\n"
        ),
    };
    compare_verdicts(lines.iter().map(|line| (line, text(line))), |_, Both { nginx, freerun }| {
        nginx.code == freerun.code && same_words(nginx.error(), freerun.error())
    });
}

#[test]
fn headers() {
    compare(&[
        "add_header;",
        "add_header A;",
        "add_header A b c;",
        "add_header A b always x;",
        "add_header A b Always;",
        "add_header A $nope;",
        "add_header A ${uri;",
        "add_header \"\" b;",
        "add_header A \"\" always;",
        "add_trailer A;",
        "add_trailer A b c;",
        "expires;",
        "expires foo;",
        "expires 1ms;",
        "expires -;",
        "expires +1h;",
        "expires \"\";",
        "expires \"1h 30m\";",
        "expires Max;",
        "expires @;",
        "expires @-1h;",
        "expires -@1h;",
        "expires @24h;",
        "expires @25h;",
        "expires modified;",
        "expires modified foo;",
        "expires modified max;",
        "expires modified off;",
        "expires modified @1h;",
        "expires off off;",
        "expires epoch x;",
        "expires 1h; expires 2h;",
        "expires modified $uri;",
        "expires $nope;",
        "http:server { if ($uri) { add_header a b; } }",
        "if ($uri) { add_header a b; add_trailer a b; expires 1; charset utf-8; }",
        "if ($uri) { sub_filter a b; }",
        "limit_except GET { expires 1; }",
        "chunked_transfer_encoding;",
        "chunked_transfer_encoding maybe;",
        "http:chunked_transfer_encoding on; chunked_transfer_encoding on;",
    ]);
}

#[test]
fn folders() {
    compare(&[
        "autoindex;",
        "autoindex yes;",
        "autoindex on; autoindex on;",
        "autoindex_format;",
        "autoindex_format yaml;",
        "autoindex_format HTML;",
        "autoindex_format xml xml;",
        "autoindex_localtime 1;",
        "autoindex_exact_size x;",
        "random_index maybe;",
        "http:random_index on;",
        "empty_gif on;",
        "empty_gif; empty_gif;",
        "http:empty_gif;",
        "stub_status a b;",
        "stub_status on;",
        "stub_status; stub_status;",
        "http:stub_status;",
    ]);
}

#[test]
fn charsets() {
    compare(&[
        "charset;",
        "charset a b;",
        "charset off;",
        "charset $nope;",
        "charset utf-8; charset koi8-r;",
        "source_charset off;",
        "source_charset koi8-r; charset utf-8;",
        "source_charset $uri; charset koi8-r;",
        "charset_types;",
        "charset_types text/css text/css;",
        "charset_types text/html;",
        "charset_types * text/css;",
        "override_charset 1;",
        "charset_map a b { 80 81; }",
        "http:charset_map a;",
        "http:charset_map a b { 80 81; }",
        "http:charset_map a b { }",
        "http:charset_map a a { 80 81; }",
        "http:charset_map utf-8 UTF-8 { 80 81; }",
        "http:charset_map a b { 80; }",
        "http:charset_map a b { 80 81 82; }",
        "http:charset_map a b { zz 81; }",
        "http:charset_map a b { 80 zz; }",
        "http:charset_map a b { 80 D0BF; }",
        "http:charset_map a b { 80 181; }",
        "http:charset_map a b { 180 81; }",
        "http:charset_map a b { 80 81; 80 82; }",
        "http:charset_map a b { 80 { } }",
        "http:charset_map a b { 80 81; } charset_map a b { 80 82; }",
        "http:charset_map a b { 80 81; } charset_map b a { 80 82; }",
        "http:charset_map koi8-r utf-8 { 80 D0BF; }",
        "http:charset_map koi8-r UTF-8 { 80 E282AC; }",
        "http:charset_map koi8-r utf-8 { 80 C0; }",
        "http:charset_map koi8-r utf-8 { 80 41; }",
        "http:charset_map koi8-r utf-8 { 80 E2; }",
        "http:charset_map utf-8 koi8-r { 80 D0BF; }",
    ]);
}

#[test]
fn substitutions() {
    compare(&[
        "sub_filter;",
        "sub_filter a;",
        "sub_filter a b c;",
        "sub_filter \"\" b;",
        "sub_filter a \"\";",
        "sub_filter a b; sub_filter a c;",
        "sub_filter $nope b;",
        "sub_filter a $nope;",
        "sub_filter_once x;",
        "sub_filter_once on; sub_filter_once on;",
        "sub_filter_types;",
        "sub_filter_types text/html;",
        "sub_filter_last_modified 1;",
    ]);
}

#[test]
fn clients() {
    compare(&[
        "userid;",
        "userid yes;",
        "userid ON;",
        "userid on; userid off;",
        "userid_name;",
        "userid_name \"\";",
        "userid_name a; userid_name b;",
        "userid_domain;",
        "userid_domain a; userid_domain b;",
        "userid_path \"\";",
        "userid_expires off;",
        "userid_expires x;",
        "userid_expires -1;",
        "userid_expires 0;",
        "userid_p3p a; userid_p3p b;",
        "userid_flags;",
        "userid_flags x;",
        "userid_flags samesite;",
        "userid_flags samesite=foo;",
        "userid_flags samesite=lax samesite=strict;",
        "userid_flags secure; userid_flags secure;",
        "userid_mark AB;",
        "userid_mark +;",
        "userid_mark A; userid_mark B;",
        "userid_service x;",
        "userid_service -1;",
        "userid_service 4294967296;",
        "valid_referers;",
        "valid_referers none;",
        "valid_referers none blocked;",
        "valid_referers a b a;",
        "valid_referers a/b a/c;",
        "valid_referers ~;",
        "valid_referers \"\";",
        "valid_referers *;",
        "valid_referers a*b;",
        "valid_referers *.a.*;",
        "valid_referers **.a;",
        "valid_referers *a.com;",
        "valid_referers .example.com;",
        "valid_referers server_names;",
        "valid_referers http://a;",
        "valid_referers /x;",
        "valid_referers a; valid_referers b;",
        "referer_hash_max_size x;",
        "referer_hash_bucket_size;",
        "modern_browser;",
        "modern_browser msie x;",
        "modern_browser msie 1 2;",
        "modern_browser foo 1;",
        "modern_browser unlisted;",
        "modern_browser unlisted x;",
        "modern_browser unlisted 1;",
        "modern_browser gecko 1.0.0.0.0;",
        "modern_browser gecko 1.;",
        "modern_browser gecko -1;",
        "modern_browser Msie 4;",
        "modern_browser gecko 99999999;",
        "ancient_browser;",
        "ancient_browser a b c;",
        "modern_browser_value a b;",
        "ancient_browser_value 1; ancient_browser_value 2;",
        "secure_link;",
        "secure_link a b;",
        "secure_link $arg_m;",
        "secure_link_md5 a; secure_link_md5 b;",
        "secure_link_secret;",
        "secure_link_secret a; secure_link_secret b;",
    ]);
}
