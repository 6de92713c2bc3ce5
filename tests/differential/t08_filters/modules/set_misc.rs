//! `set_md5` and its relatives.

use super::{setup, taken_alike};
use crate::harness::{compare, get};
use crate::site::site;

const MODULES: &[&str] = &["ndk_http_module", "ngx_http_set_misc_module"];

/// Directives with one value.
const OF_ONE: &[&str] = &[
    "escape_uri",
    "unescape_uri",
    "md5",
    "sha1",
    "quote_sql_str",
    "quote_pgsql_str",
    "quote_json_str",
    "encode_base32",
    "decode_base32",
    "encode_base64",
    "decode_base64",
    "encode_base64url",
    "decode_base64url",
    "encode_hex",
    "decode_hex",
];

const VALUES: &[&str] = &[
    "",
    "a",
    "abcde",
    "hello world!",
    "a+b%20c%zz%4",
    "%4z5",
    "%z4%%41%41%",
    "ü€",
    "\\t\\n\\r'\\\"\\\\",
    "a\\$b",
    "YWJjZGU=",
    "YWJjZGU",
    "YWJ jZGU=",
    "!!!",
    "ab===",
    "a=bc",
    "ab-_",
    "ab+/",
    "c5h66p35",
    "c5h66p3",
    "c5h66p",
    "c5h66",
    "C5H66P35",
    "vvvvvvvvvvvv=vv",
    "616",
    "6162",
    "zz",
    "7F80ff",
    "a/b?c&d=e#f~-_.*()'!",
];

#[test]
fn functions_of_one_value() {
    let (mut server, mut cases) = (String::new(), Vec::new());
    for name in OF_ONE {
        for (index, value) in VALUES.iter().enumerate() {
            // In nginx an argument cannot have a dollar sign.
            let value = value.replace("\\$", "");
            server += &format!(
                "location = /{name}/{index} {{ set $a \"{value}\"; set_{name} $a; set_{name} $b \"{value}\"; set_{name} $c \"$arg_a{value}\"; \
                 return 200 \"[$a][$b][$c]\"; }}\n"
            );
            cases.push(get(&format!("/{name}/{index}")));
            cases.push(get(&format!("/{name}/{index}?a=61")));
        }
        server += &format!(
            "location = /{name} {{ set_unescape_uri $a $arg_a; set_{name} $a; set_{name} $b $arg_a; return 200 \"[$a][$b]\"; }}\n"
        );
        cases.push(get(&format!("/{name}?a=%00%01%1a%1b%1f%08%09%0a%0c%0d%27%22%5c%7f%80%e2%82%ac/~!*()+$")));
        cases.push(get(&format!("/{name}?a=%00%01%1a%1b%08%09%0a%0c%0d%27%22%5c%7f%c3%bc$$")));
        cases.push(get(&format!("/{name}?a=%21%22%24%2c%2f%3a%3b%3c%3d%3e%3f%40%5b%5d%5e%60%7b%7c%7d%26")));
        cases.push(get(&format!("/{name}")));
    }
    let Some(setup) = setup(MODULES, &site(), "variables_hash_max_size 4096;", &server) else { return };
    compare(&setup, cases);
}

#[test]
fn other_functions() {
    let server = r#"
        location /empty { set $a $arg_a; set_if_empty $a dflt; set_if_empty $b "x$arg_a"; set $c ''; set_if_empty $c "$a$b"; return 200 "[$a][$b][$c]"; }
        location /hmac { set_hmac_sha1 $a key "data$arg_a"; set_encode_hex $a; set_hmac_sha256 $b "$arg_a" data; set_encode_hex $b;
                         set_hmac_sha1 $c "" ""; set_encode_base64 $c; return 200 "$a $b $c"; }
        location /random { set_random $a $arg_a $arg_b; return 200 "[$a]"; }
        location /secure { set_secure_random_alphanum $a $arg_n; set_secure_random_lcalpha $b $arg_n; set $c no;
                           if ($a ~ "^[a-zA-Z0-9]{7}$") { set $c yes; } if ($b ~ "^[a-z]{7}$") { set $c "$c yes"; } return 200 "$c"; }
        location /rotate { set $a $arg_a; set_rotate $a 1 5; set_rotate $n 0 3; set_rotate $m 9 7; return 200 "[$a][$n][$m]"; }
        location /rotate2 { set_rotate $n $arg_a $arg_b; return 200 "[$n]"; }
        location /time { set_local_today $a; set_formatted_gmt_time $b "%a %b %e %Y GMT"; set_formatted_local_time $c "%Y-%m-%d %j %%";
                         set_formatted_gmt_time $d "%Y %Q"; set_formatted_gmt_time $e ""; set_formatted_local_time $f "$arg_a";
                         return 200 "$a|$b|$c|$d|$e|$f"; }
        location /base32 { set_base32_alphabet "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"; set_base32_padding off; set $a abcd;
                           set_encode_base32 $a; set_decode_base32 $b $a; return 200 "$a|$b"; }
        location /unpadded { set_misc_base32_padding off; set_encode_base32 $a abcd; set_decode_base32 $b $a; return 200 "$a|$b"; }
        location /captures { if ($uri ~ /captures(.*)) { set_md5 $a $1; set_escape_uri $b $1; set $c $1; return 200 "$a $b $c"; } }
        location /rewritten { rewrite ^/rewritten(.*)$ /x$1; set_escape_uri $a $1; return 200 "$a|$uri"; }
        location /order { set $a 1; if ($a = 1) { set_md5 $a x; } set_if_empty $a no; set $b $a; set_sha1 $b; set $d "$b";
                          rewrite ^/order /y break; return 200 never; }
        location /in_if { set_md5 $a outer; if ($arg_a) { set_md5 $a $arg_a; set_encode_base64 $a; return 200 $a; } return 200 $a; }
        location /args { set_md5 $args x; return 200 $args; }
        location /list { set_hashed_upstream $a five $arg_k; set_hashed_upstream $b $arg_l $arg_k; return 200 "$a$b"; }
        location /unset { set_md5 $u1; set_if_empty $u2 $u3; set $u3 x; return 200 "[$u1][$u2][$u3]"; }
        location /at_server { return 200 "$s|$t"; }
        set_md5 $s $arg_s; if ($arg_s) { set_encode_hex $t $arg_s; }"#;
    let http = "upstream_list five a b c d e; upstream_list seven t u v w x y z;";
    let Some(setup) = setup(MODULES, &site(), http, server) else { return };
    let mut targets: Vec<String> = [
        "/empty",
        "/empty?a=",
        "/empty?a=q",
        "/hmac",
        "/hmac?a=1",
        "/random",
        "/random?a=1&b=1",
        "/random?a=x&b=1",
        "/random?a=-1&b=1",
        "/secure",
        "/secure?n=7",
        "/secure?n=0",
        "/secure?n=65",
        "/secure?n=x",
        "/rotate",
        "/rotate",
        "/rotate?a=3",
        "/rotate?a=5",
        "/rotate?a=6",
        "/rotate?a=x",
        "/rotate",
        "/rotate?a=0",
        "/rotate2?a=1&b=2",
        "/rotate2?a=1&b=2",
        "/rotate2?a=x&b=2",
        "/rotate2?a=2&b=1",
        "/time",
        "/time?a=%Y",
        "/base32",
        "/unpadded",
        "/captures%20a+b",
        "/captures",
        "/rewritten%20a+b",
        "/order",
        "/in_if",
        "/in_if?a=b",
        "/args?q",
        "/unset",
        "/at_server",
        "/at_server?s=x",
        "/list",
        "/list?l=none",
    ]
    .map(str::to_owned)
    .to_vec();
    for key in
        ["a", "hello", "ABC", "blah", "12345678901234567890", "abcdefghijklmnopqrstuvwxyz0123456789", "%c3%bc", ""]
    {
        targets.push(format!("/list?l=seven&k={key}"));
    }
    compare(&setup, targets.iter().map(|target| get(target)).collect());
}

#[test]
fn lines_that_are_refused() {
    taken_alike(
        MODULES,
        &[
            "set_md5 $a x;",
            "if ($http_a) { set_md5 $a x; }",
            "location / { set_md5 a x; }",
            "location / { set_md5 $uri x; }",
            "location / { set_md5 $arg_x x; }",
            "location / { set_md5; }",
            "location / { set_md5 $a b c; }",
            "location / { set_hmac_sha1 $a b; }",
            "location / { set_random $a 1; }",
            "location / { set_local_today $a b; }",
            "location / { set_base32_alphabet abc; }",
            "location / { set_hashed_upstream $a nolist x; }",
            "set_base32_padding on;",
            "set_base32_padding on; set_misc_base32_padding off;",
            "location / { set_md5 $args x; }",
            "location / { set_rotate $a 5; }",
            "location / { set_secure_random_alphanum $a 99; }",
            "location / { set_random $a x y; }",
            "location / { set_if_empty $a; }",
            "location / { set_formatted_gmt_time $a; }",
            "location / { set_md5 $ x; }",
            "location / { set_md5 $a $nope; }",
        ],
    );
}
