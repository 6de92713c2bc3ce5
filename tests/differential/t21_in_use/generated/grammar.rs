//! What configurations and requests are made of: rules in which `<name>` stands for one of the rule's alternatives.

use super::random::Random;

/// `<name>`, and what may stand in its place. An alternative that is written twice is taken twice as often.
#[rustfmt::skip]
const RULES: &[(&str, &[&str])] = &[
    ("onoff", &["on", "off"]),
    ("path", &["/", "/a.txt", "/a.txt", "/dir/", "/dir", "/dir/f.txt", "/digits", "/empty.txt", "/page.html", "/pic.gif", "/pic.JPG",
        "/noext", "/emptydir/", "/emptydir", "/other/", "/none", "/none.html", "/one", "/one/two", "/two", "/three/x", "/link.txt",
        "/secret/denied.txt", "/errors/404.html", "/alias/target/x.txt", "/alias/target/", "/alias/target", "/a.txt/", "/a.txt/x",
        "/two.tar.gz", "/.hidden", "/linkdir/", "/broken", "/dot.", "/index.html", "/ssi.html", "/ssi.html"]),
    ("prefix", &["/", "/dir", "/dir/", "/one", "/one/", "/a", "/alias/", "/t", "/three/", "/errors/", "/other/", "/d", "/e", "/p",
        "/alias/target", "/emptydir", "/none"]),
    ("regex", &["\\.txt$", "\\.(txt|html)$", "^/(one|two)(/.*)?$", "^/dir/(?<rest>.*)$", "(?i)^/ONE", "^/([a-z]+)", "f", "^/(.)(.)?",
        "\\.JPG$", "^/(?<rest>[^/]*)/?(.*)$", "o", "/$", "^/a\\.(?:t)xt$", "x|y"]),
    ("named", &["@n1", "@n2", "@n3"]),
    ("uri", &["/a.txt", "/dir/", "/dir", "/one", "/two?x=1", "/errors/404.html", "/none", "/$1", "/dir/$1", "$uri", "/one/$args",
        "/other/", "/three/x?", "/page.html?p=$uri", "/one/../a.txt", "/two%20x", "/dir/f.txt", "$document_uri.html", "/one$uri"]),
    ("absolute", &["http://e.example/", "https://e.example/$uri", "http://$host/x?$args", "$scheme://e.example$request_uri"]),
    ("url", &["<uri>", "<absolute>", "x", "\"\"", "//e.example/x", "/x y", "\"/a b\"", "$request_uri"]),
    ("error code", &["404", "404", "404", "403", "405", "400", "413", "500", "301", "302", "304", "412", "414", "418", "502", "503"]),
    ("error codes", &["<error code>", "<error code>", "<error code> <error code>"]),
    ("error page", &["<error codes> /errors/404.html", "<error codes> <uri>", "<error codes> = <uri>", "<error codes> =<code> <uri>",
        "<error codes> <named>", "<error codes> = <named>", "<error codes> =<code> <named>", "<error codes> <absolute>",
        "<error codes> =<redirect code> <absolute>", "<error codes> =<code> <absolute>"]),
    ("redirect code", &["301", "302", "303", "307", "308"]),
    ("code", &["200", "201", "204", "206", "301", "302", "304", "400", "403", "404", "404", "405", "410", "418", "500", "503", "299", "599"]),
    ("return", &["<code>", "<code> <text>", "200 <text>", "200 <text>", "<redirect code> <url>", "<redirect code> <uri>", "<absolute>"]),
    ("variable", &["$uri", "$args", "$arg_a", "$request_uri", "$request_method", "$host", "$http_host", "$server_name", "$server_port",
        "$scheme", "$status", "$request_filename", "$document_root", "$document_uri", "$is_args", "$query_string", 
        "$content_type", "$http_x_y", "$cookie_c", "$remote_addr", "$remote_user", "$server_protocol", 
        "$u1", "$u2", "$1", "$2", "$rest", "$request", "$https", "$realpath_root", "$request_body", 
        "$connection_requests", "$http_user_agent", "$server_addr",
        "$http_range", "$m1", "$m2", "$m3", "$invalid_referer", "$modern_browser", "$ancient_browser", "$msie", "$realip_remote_addr","$http_authorization", "$limit_rate", "$request_body_file"]),
    ("word", &["t", "<variable>", "<variable>", "a<variable>-b", "${arg_a}x", "<variable>/<variable>"]),
    ("text", &["\"<word>\"", "\"<word>\"", "\"[<word>] [<word>]\"", "'<word>'", "\"\"", "word", "<variable>"]),
    ("value", &["\"\"", "0", "1", "<variable>", "\"<word>\"", "\"<word>\""]),
    ("user variable", &["$u1", "$u2"]),
    ("try", &["$uri", "$uri", "$uri/", "$uri.html", "/a.txt", "/dir/", "/none", "/$1", "$document_uri", "/alias$uri", "/emptydir/", "\"\""]),
    ("try last", &["=404", "=<error code>", "<uri>", "<named>", "<named>", "/a.txt", "/none", "$uri", "/one?t=$args"]),
    ("tries", &["<try> <try last>", "<try> <try> <try last>", "<try> <try last>"]),
    ("rewrite flag", &["", "", " last", " break", " redirect", " permanent"]),
    ("rewrite regex", &["^", "<regex>", "^(.*)$", "^/(.*)$", "^/one(.*)$", ".", "^/([^/]*)/(.*)$"]),
    ("rewrite", &["<rewrite regex> <uri><rewrite flag>", "<rewrite regex> <uri><rewrite flag>", "<rewrite regex> <absolute><rewrite flag>",
        "<rewrite regex> \"<word>\"<rewrite flag>"]),
    ("operand", &["<variable>", "$uri", "$args", "$arg_a", "$request_method", "$u1"]),
    ("condition", &["<operand>", "<operand> = <value>", "<operand> != <value>", "<operand> ~ <quoted regex>", "<operand> ~* <quoted regex>",
        "<operand> !~ <quoted regex>", "-f <file>", "!-f <file>", "-d <file>", "-e <file>", "!-e <file>", "-x <file>", "$request_method = POST",
        "$arg_a = b", "$arg_a", "$args ~ \"a=(.)\""]),
    ("quoted regex", &["\"<regex>\"", "^/", "a"]),
    ("file", &["$request_filename", "$document_root/dir", "$document_root$uri", "@ROOT@/a.txt", "@ROOT@/broken"]),
    ("root", &["@ROOT@", "@ROOT@", "@ROOT@", "@ROOT@/dir", "@ROOT@/alias", "@ROOT@/none", "@ROOT@/", "@ROOT@$arg_r", "@ROOT@/a.txt", "@ROOT@/hosts/$host"]),
    ("alias", &["@ROOT@/dir/", "@ROOT@/dir", "@ROOT@/alias/target/", "@ROOT@/a.txt", "@ROOT@/$1", "@ROOT@/none/", "@ROOT@/$arg_r", "@ROOT@/"]),
    ("index name", &["index.html", "f.txt", "none.html", "default.htm", "$arg_a", "/a.txt", "a.txt", "/dir/", "x.txt", "/one"]),
    ("index", &["<index name>", "<index name>", "<index name> <index name>"]),
    ("address", &["all", "127.0.0.1", "127.0.0.0/8", "10.0.0.0/8", "192.168.1.1", "::1", "0.0.0.0/0"]),
    ("header name", &["X-A", "X-A", "X-B", "Content-Type", "Cache-Control", "Location", "Vary", "Accept-Ranges", "x-a", "Link", "Expires"]),
    ("always", &["", "", " always"]),
    ("expires", &["off", "epoch", "max", "1h", "-1", "0", "modified +1d", "modified 1h", "30d", "@10h", "-1d", "$arg_a", "$u1"]),
    ("type", &["text/plain", "text/html", "application/x-y", "\"\"", "\"text/html;q\"", "<variable>"]),
    ("small", &["0", "1", "5", "10", "16", "1k", "8k", "1m"]),
    ("map source", &["$uri", "$args", "$arg_a", "$host", "$http_host", "$arg_a$arg_b", "$request_method", "a$uri"]),
    ("geo entry", &["default d;", "127.0.0.0/8 <value>;", "10.0.0.0/8 ten;", "127.0.0.1 local;", "delete 127.0.0.1;", "proxy 127.0.0.1;", "::/0 six;"]),
    ("split source", &["$uri", "$args", "$remote_addr$uri", "x"]),
    ("index format", &["html", "xml", "json", "jsonp"]),
    ("sub", &["0", "p", "<p>", "0123", "<variable>", "tx"]),
    ("charset", &["utf-8", "koi8-r", "off", "UTF-8"]),
    ("types list", &["*", "text/plain", "text/html", "x/y text/plain", "application/octet-stream"]),
    // A server with the same files, without anything generated.
    ("upstream", &["http://back", "http://back", "http://back", "http://back/", "http://back/dir/", "http://back/a.txt", "http://back$uri",
        "http://back$request_uri", "http://back/one?x=$args", "http://back/dir"]),
    ("proxy redirect", &["off", "default", "http://back/ /", "http://back/dir/ /one/", "~^http://back(.*)$ /two$1", "~(.*) $1"]),
    ("proxy header", &["X-A <text>", "Host <value>", "Host $http_host", "Range <value>", "Accept-Encoding \"\"", "If-None-Match <value>",
        "If-Modified-Since \"\""]),
    ("proxy method", &["GET", "HEAD", "POST", "DELETE"]),
    ("ignored", &["X-Accel-Expires", "Expires", "Cache-Control", "Vary", "X-Accel-Charset"]),
    ("map entry", &["default <text>;", "/a.txt <text>;", "\"~^/(?<rest>d.*)$\" <text>;", "~*^/ONE one;", "\"\" empty;", "b <value>;", "~o o;", "hostnames;",
        "*.example wild;", ".a.h1.example dot;", "h2.* back;", "\\default backslash;"]),
    ("types entry", &["text/plain txt;", "text/html html htm;", "image/gif gif;", "x/y txt html;", "image/jpeg JPG jpeg;", "a/b gz bin;", "x/$1 txt;"]),
];

/// Where a directive may stand (`h` http, `s` server, `l` location, `i` if in location, `j` if in server, `x` limit_except), how often
/// it is taken, and its text.
#[rustfmt::skip]
pub const DIRECTIVES: &[(&str, usize, &str)] = &[
    ("l", 6, "root <root>"),
    ("l", 6, "alias <alias>"),
    ("i", 1, "root <root>"),
    ("hsl", 6, "index <index>"),
    ("sl", 9, "try_files <tries>"),
    ("hsli", 12, "error_page <error page>"),
    ("slij", 10, "return <return>"),
    ("slij", 10, "rewrite <rewrite>"),
    ("slij", 8, "set <user variable> <value>"),
    ("slij", 2, "break"),
    ("l", 3, "internal"),
    ("hslx", 3, "allow <address>"),
    ("hslx", 3, "deny <address>"),
    ("hsl", 2, "satisfy all"),
    ("hsl", 3, "satisfy any"),
    ("hslx", 2, "auth_basic \"realm\""),
    ("hslx", 1, "auth_basic <variable>"),
    ("lx", 1, "auth_basic off"),
    ("hslx", 3, "auth_basic_user_file @ROOT@/users"),
    ("hsl", 1, "auth_basic_user_file @ROOT@/<word>"),
    ("hsli", 12, "add_header <header name> <text><always>"),
    ("hsli", 6, "expires <expires>"),
    ("hsl", 4, "default_type <type>"),
    ("hsl", 3, "etag <onoff>"),
    ("hsl", 4, "max_ranges <small>"),
    ("hsl", 3, "if_modified_since off"),
    ("hsl", 3, "if_modified_since exact"),
    ("hsl", 3, "if_modified_since before"),
    ("hsl", 4, "client_max_body_size <small>"),
    ("hsl", 2, "client_body_buffer_size <small>"),
    ("hsl", 1, "client_body_in_single_buffer <onoff>"),
    ("hsl", 3, "keepalive_requests <small>"),
    ("hsl", 2, "keepalive_timeout 0"),
    ("hsl", 2, "keepalive_timeout 60 30"),
    ("hsl", 2, "keepalive_disable none"),
    ("hsl", 2, "keepalive_disable safari msie6"),
    ("hsl", 3, "recursive_error_pages <onoff>"),
    ("hsl", 3, "absolute_redirect <onoff>"),
    ("hsl", 2, "port_in_redirect <onoff>"),
    ("hsl", 3, "server_name_in_redirect <onoff>"),
    ("hsl", 2, "chunked_transfer_encoding <onoff>"),
    ("hsl", 2, "msie_padding <onoff>"),
    ("hsl", 2, "msie_refresh <onoff>"),
    ("hsl", 1, "log_not_found <onoff>"),
    ("hsli", 2, "sendfile <onoff>"),
    ("hsl", 1, "tcp_nopush <onoff>"),
    ("hsl", 1, "output_buffers 1 <small>"),
    ("hsl", 1, "directio 5"),
    ("hsl", 2, "disable_symlinks on"),
    ("hsl", 1, "disable_symlinks if_not_owner from=$document_root"),
    ("hsl", 1, "open_file_cache max=10"),
    ("hsl", 1, "open_file_cache_errors <onoff>"),
    ("hsl", 1, "open_file_cache_min_uses <small>"),
    ("hs", 4, "merge_slashes <onoff>"),
    ("hs", 3, "underscores_in_headers <onoff>"),
    ("hs", 3, "ignore_invalid_headers <onoff>"),
    // A server's own counts from its `Host` on in nginx, and not at all here.
    ("h", 2, "large_client_header_buffers 2 1k"),
    ("h", 2, "client_header_buffer_size 128"),
    ("s", 3, "server_name *.@HOST@"),
    ("s", 3, "server_name .@HOST@"),
    ("s", 3, "server_name \"~^(?<rest>.+)\\.@HOST@$\""),
    ("s", 2, "server_name www.* a.@HOST@"),
    ("hsl", 2, "add_before_body <uri>"),
    ("hsl", 2, "add_after_body <uri>"),
    ("hsl", 2, "addition_types *"),
    ("hsl", 2, "addition_types text/plain x/y"),
    ("hsl", 5, "autoindex on"),
    ("hsl", 3, "autoindex_format <index format>"),
    ("hsl", 1, "autoindex_exact_size <onoff>"),
    ("hsl", 1, "autoindex_localtime <onoff>"),
    ("hsl", 5, "sub_filter <sub> <text>"),
    ("hsl", 2, "sub_filter_once <onoff>"),
    ("hsl", 2, "sub_filter_types <types list>"),
    ("hsl", 2, "sub_filter_last_modified <onoff>"),
    ("hsli", 4, "charset <charset>"),
    ("hsli", 2, "source_charset koi8-r"),
    ("hsli", 1, "override_charset <onoff>"),
    ("hsl", 1, "charset_types <types list>"),
    ("hsli", 4, "gzip on"),
    ("hsl", 2, "gzip_min_length <small>"),
    ("hsl", 2, "gzip_types <types list>"),
    ("hsl", 2, "gzip_vary <onoff>"),
    ("hsl", 1, "gzip_proxied any"),
    ("hsl", 1, "gzip_http_version 1.0"),
    ("hsl", 1, "gzip_disable msie6 curl"),
    ("hsli", 4, "ssi on"),
    ("hsl", 2, "ssi_types <types list>"),
    ("hsl", 1, "ssi_last_modified <onoff>"),
    ("hsl", 1, "ssi_silent_errors <onoff>"),
    ("hsl", 4, "auth_request <uri>"),
    ("hsl", 2, "auth_request_set <user variable> <value>"),
    ("sl", 2, "valid_referers none blocked *.e.example ~x"),
    ("hsl", 2, "ancient_browser MSIE curl"),
    ("hsl", 2, "modern_browser safari 100"),
    ("hsl", 3, "set_real_ip_from 127.0.0.0/8"),
    ("hsl", 3, "real_ip_header X-Forwarded-For"),
    ("hsl", 1, "real_ip_recursive <onoff>"),
    ("l", 1, "empty_gif"),
    ("li", 8, "proxy_pass <upstream>"),
    ("hsl", 2, "proxy_intercept_errors on"),
    ("hsl", 2, "proxy_redirect <proxy redirect>"),
    ("hsl", 2, "proxy_set_header <proxy header>"),
    ("hsl", 1, "proxy_hide_header <header name>"),
    ("hsl", 1, "proxy_hide_header ETag"),
    ("hsl", 1, "proxy_pass_header Date"),
    ("hsl", 1, "proxy_method <proxy method>"),
    ("hsl", 1, "proxy_pass_request_headers off"),
    ("hsl", 1, "proxy_buffering off"),
    ("hsl", 1, "proxy_request_buffering off"),
    ("hsl", 2, "proxy_force_ranges on"),
    ("hsl", 1, "proxy_ignore_headers <ignored>"),
    ("hsl", 1, "proxy_http_version 1.1"),
    ("hsl", 1, "proxy_limit_rate 1m"),
];

/// Directives that may stand several times in a block; of the others a second one is left out.
pub const REPEATED: &[&str] = &[
    "error_page",
    "rewrite",
    "set",
    "allow",
    "deny",
    "add_header",
    "location",
    "if",
    "break",
    "server_name",
    "sub_filter",
    "auth_request_set",
    "set_real_ip_from",
    "mirror",
    "proxy_set_header",
    "proxy_hide_header",
    "proxy_pass_header",
    "proxy_redirect",
];

/// A text with each `<name>` replaced; a name that is no rule stays.
pub fn expand(random: &mut Random, text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find('<') {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        let rule = rest.find('>').and_then(|end| {
            let (_, alternatives) = RULES.iter().find(|(name, _)| *name == &rest[1..end])?;
            Some((end, alternatives))
        });
        match rule {
            Some((end, alternatives)) => {
                let taken = *random.pick(alternatives);
                out.push_str(&expand(random, taken));
                rest = &rest[end + 1..];
            }
            None => {
                out.push('<');
                rest = &rest[1..];
            }
        }
    }
    out + rest
}

/// A directive for this context, without its semicolon.
pub fn directive(random: &mut Random, context: char) -> String {
    let fitting = || DIRECTIVES.iter().filter(|(contexts, ..)| contexts.contains(context));
    let mut left = random.below(fitting().map(|(_, weight, _)| weight).sum());
    for (_, weight, text) in fitting() {
        match left.checked_sub(*weight) {
            Some(less) => left = less,
            None => return expand(random, text),
        }
    }
    String::new()
}
