//! What both say to configurations that generated cases found, each kept as it was made small.

use crate::t02_configuration::checks::same_verdicts;

#[test]
fn words_that_are_wrong() {
    same_verdicts(&[
        "keepalive_disable msie6 msie6;",
        "keepalive_disable msie6; keepalive_disable safari;",
        "keepalive_disable none; keepalive_disable msie6; keepalive_disable msie6;",
        "keepalive_disable safari x msie6;",
        "location \"\" /x { }",
        "if (!-e /x) if { }",
        "if ($arg_x = a { }",
        "types { gif; image/gif gif; }",
        "error_page =201 /x;",
        "error_page = /x;",
        "try_files /x =0;",
    ]);
}

#[test]
fn referers_of_which_none_is_valid() {
    same_verdicts(&[
        "valid_referers;",
        "valid_referers none;",
        "valid_referers blocked;",
        "valid_referers none blocked;",
        "valid_referers server_names;",
        "server_name a.example; valid_referers server_names;",
        "server_name ~x; valid_referers server_names;",
        "valid_referers ~x;",
        "valid_referers none ~x;",
        "valid_referers ~x blocked;",
        "valid_referers none ~x server_names;",
        "valid_referers none ~x *.a.example;",
        "index x \"\";",
        "valid_referers a.example;",
        "valid_referers *.a.example;",
        "valid_referers ~x ~(;",
        "location / { valid_referers none; }",
        "valid_referers none; location / { valid_referers x; }",
        "valid_referers x; location / { valid_referers none; }",
        "valid_referers none; valid_referers x;",
        "location / { if ($invalid_referer) { return 403; } }",
        "valid_referers none; location / { if ($invalid_referer) { return 403; } }",
    ]);
}

#[test]
fn browsers_that_are_wrong() {
    same_verdicts(&[
        "modern_browser;",
        "modern_browser safari;",
        "modern_browser x;",
        "modern_browser unlisted;",
        "modern_browser unlisted 1;",
        "modern_browser x 1;",
        "modern_browser safari x;",
        "modern_browser safari 1.2.3.4;",
        "modern_browser safari 1.2.3.4.5;",
        "modern_browser safari 1.2.;",
        "modern_browser safari .1;",
        "modern_browser safari \"\";",
        "modern_browser \"\";",
        "modern_browser safari 1 2;",
        "modern_browser safari 65536;",
        "modern_browser safari 100; modern_browser safari 50;",
        "ancient_browser;",
        "ancient_browser \"\";",
        "ancient_browser netscape4 x;",
    ]);
}

#[test]
fn words_of_conditions_and_names() {
    same_verdicts(&[
        "set $u 1; if ($u) ($u) { }",
        "set $u 1; if ($u b) { }",
        "set $u 1; if ($u !) { }",
        "set $u 1; if ($u == ) { }",
        "set $u 1; if ($u \"\") { }",
        "set $u 1; if ($u b c) { }",
        "charset $1;",
        "charset $;",
        "charset $uri$uri;",
        "charset ${uri};",
        "source_charset $;",
        "source_charset off;",
        "source_charset off; charset utf-8;",
        "source_charset off; charset off;",
        "source_charset $uri;",
        "error_page 400 /x $;",
        "error_page x =200x $;",
        "error_page x =200 $;",
        "add_header Location $ t;",
        "add_header Location $uri t;",
    ]);
}
