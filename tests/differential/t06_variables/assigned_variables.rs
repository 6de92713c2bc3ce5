//! Variables of the server itself that a configuration gives another value: which ones it may, and where that is seen.

use crate::harness::{compare, get};
use crate::site::site;
use crate::t02_configuration::checks::{same_verdicts, same_verdicts_around};
use crate::t13_proxy::proxied::{TODAY, compare_proxied, passed};
use freerun_testkit::Setup;

/// Names of all kinds, changeable and not.
const NAMES: &[&str] = &[
    "ancient_browser",
    "arg_a",
    "args",
    "binary_remote_addr",
    "content_type",
    "cookie_a",
    "document_root",
    "gzip_ratio",
    "host",
    "http_cookie",
    "http_host",
    "HTTP_Host",
    "http_hosts",
    "http_referer",
    "http_user_agent",
    "http_via",
    "http_x_forwarded_for",
    "invalid_referer",
    "limit_rate",
    "memcached_key",
    "modern_browser",
    "msie",
    "proxy_add_x_forwarded_for",
    "proxy_host",
    "proxy_port",
    "query_string",
    "request_uri",
    "secure_link",
    "sent_http_cache_control",
    "sent_http_connection",
    "sent_http_content_length",
    "sent_http_content_type",
    "sent_http_etag",
    "sent_http_keep_alive",
    "sent_http_last_modified",
    "sent_http_link",
    "sent_http_location",
    "sent_http_transfer_encoding",
    "sent_trailer_a",
    "status",
    "upstream_addr",
    "upstream_cookie_a",
    "upstream_http_a",
    "uri",
];

#[test]
fn which_may_be_set_mapped_and_captured() {
    let lines = |around: &str| NAMES.iter().map(|name| around.replace('@', name)).collect::<Vec<String>>();
    let all = [lines("set $@ x;"), lines("location ~ ^/(?<@>.*) { }"), lines("auth_request_set $@ x;")].concat();
    same_verdicts(&all.iter().map(String::as_str).collect::<Vec<_>>());
    let maps = [lines("map $uri $@ { default x; }"), lines("geo $@ { default x; }")].concat();
    let maps: Vec<&str> = maps.iter().map(String::as_str).collect();
    same_verdicts_around("@LINE@ server { listen 127.0.0.1:@PORT@; }", &maps);
}

#[test]
fn what_is_set_counts_from_then_on() {
    let all = "[$ancient_browser][$modern_browser][$msie][$invalid_referer][$http_x][$arg_x][$cookie_x][$upstream_http_x]\
               [$sent_http_x][$proxy_host][$proxy_port]";
    let set: String =
        all.split(['[', ']']).filter(|name| !name.is_empty()).map(|name| format!("set {name} q; ")).collect();
    let lines = format!(
        "valid_referers good.test; modern_browser msie 5.0;
         location /set {{ {set} return 200 \"{all}\"; }}
         location /as-it-is {{ return 200 \"{all}\"; }}
         location /once {{ if ($arg_x) {{ set $msie set; }} return 200 \"[$msie]\"; }}
         location ~ ^/of-path/(?<cookie_y>.*) {{ return 200 \"[$cookie_y]\"; }}"
    );
    let msie = "User-Agent: Mozilla/4.0 (compatible; MSIE 6.0; Windows NT 5.1)";
    let targets = ["/set?x=1", "/as-it-is?x=1", "/once", "/once?x=1", "/of-path/taken"];
    let cases =
        targets.map(|target| get(target).field("X: 1").field("Cookie: x=2").field("Referer: http://a.b/").field(msie));
    compare(&Setup::server(&site(), &lines), cases.into());
}

#[test]
fn a_host_and_a_port_that_are_set_are_passed_on() {
    let lines = format!(
        "proxy_http_version 1.1; add_header X \"$proxy_host $proxy_port\";
         location /set {{ set $proxy_host x; set $proxy_port 1; {TODAY} proxy_pass http://@UP@; }}
         location /computed {{ set $proxy_host x; set $to @UP@; {TODAY} proxy_pass http://$to; }}
         location /if {{ if ($arg_h) {{ set $proxy_host $arg_h; }} {TODAY} proxy_pass http://@UP@; }}
         location /own {{ set $proxy_host x; proxy_set_header Host own; proxy_set_header X-H $proxy_host;
             proxy_set_header X-P $proxy_port; {TODAY} proxy_pass http://@UP@; }}
         location / {{ {TODAY} proxy_pass http://@UP@; }}"
    );
    let targets = ["/set", "/computed", "/if", "/if?h=y", "/own", "/other"];
    compare_proxied("", &lines, targets.map(|target| passed(get(target))).into());
}

#[test]
fn what_is_captured_is_nothing_else() {
    let lines = "
        location ~ ^/arg/(?<arg_a>.*) { return 200 \"$arg_a\"; }
        location ~ ^/field/(?<http_x>.*) { return 200 \"$http_x\"; }
        location ~ ^/browser/(?<msie>.*) { return 200 \"$msie\"; }
        location ~ ^/own/(?<own>.*) { return 200 \"$own\"; }
        location / { return 200 \"[$arg_a][$http_x][$msie][$own]\"; }
    ";
    let targets = ["/arg/1", "/arg/", "/field/2", "/browser/3", "/own/4", "/none"];
    let msie = "User-Agent: Mozilla/4.0 (compatible; MSIE 6.0; Windows NT 5.1)";
    let cases = targets.map(|target| get(&format!("{target}?a=1")).field("X: 2").field(msie));
    compare(&Setup::server(&site(), lines), cases.into());
}

#[test]
fn a_mapped_host_is_found_anew_at_each_use() {
    let http = "map $uri $proxy_host { default d; /b b; /c \"\"; }";
    let lines = format!(
        "proxy_http_version 1.1; add_header X $proxy_host;
         location /a {{ set $before $proxy_host; rewrite ^ /b last; }}
         location / {{ proxy_set_header X-B $before; {TODAY} proxy_pass http://@UP@; }}
         location /set {{ set $proxy_host x; {TODAY} proxy_pass http://@UP@; }}"
    );
    compare_proxied(http, &lines, ["/a", "/b", "/c", "/d", "/set"].map(|target| passed(get(target))).into());
}
