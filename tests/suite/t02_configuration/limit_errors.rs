//! What `-t` says to broken limits.

use crate::t02_configuration::config_errors::In::{Http, Location, Main, Server};
use crate::t02_configuration::config_errors::{Case, run_all};
use freerun_testkit::{Kind, require};

#[rustfmt::skip]
const CASES: &[Case] = &[
    (Main, "limit_req zone=a;", "\"limit_req\" directive is not allowed here", 2),
    (Server, "limit_req_zone $uri zone=a:1m rate=1r/s;", "\"limit_req_zone\" directive is not allowed here", 4),
    (Server, "limit_conn_zone $uri zone=a:1m;", "\"limit_conn_zone\" directive is not allowed here", 4),
    (Server, "limit_req zone=a;", "zero size shared memory zone \"a\"", 0),
    (Server, "limit_req zone=;", "zero size shared memory zone \"\"", 0),
    (Server, "limit_conn a 1;", "zero size shared memory zone \"a\"", 0),
    (Http, "limit_req_zone $uri zone=a:1m rate=1r/s; limit_req_zone $uri zone=a:1m rate=1r/s;", "limit_req_zone \"a\" is already bound to key \"$uri\"", 3),
    (Http, "limit_req_zone $uri zone=a:1m rate=1r/s; limit_req_zone $args zone=a:1m rate=1r/s;", "limit_req_zone \"a\" is already bound to key \"$uri\"", 3),
    (Http, "limit_conn_zone $uri zone=a:1m; limit_conn_zone $args zone=a:1m;", "limit_conn_zone \"a\" is already bound to key \"$uri\"", 3),
    (Http, "limit_req_zone $uri zone=a:1m rate=1r/s; limit_req_zone $args zone=a:2m rate=1r/s;", "the size 2097152 of shared memory zone \"a\" conflicts with already declared size 1048576", 3),
    (Http, "limit_req_zone $uri zone=a:1m rate=1r/s; limit_conn_zone $uri zone=a:1m;", "the shared memory zone \"a\" is already declared for a different use", 3),
    (Http, "limit_req_zone $uri zone=a:1m rate=1r/s; limit_conn a 1;", "the shared memory zone \"a\" is already declared for a different use", 3),
    (Http, "limit_conn_zone $uri zone=a:1m; limit_req zone=a;", "the shared memory zone \"a\" is already declared for a different use", 3),
    (Http, "limit_req_zone $uri zone=a:1k rate=1r/s;", "zone \"zone=a:1k\" is too small", 3),
    (Http, "limit_req_zone $uri zone=a:31k rate=1r/s;", "zone \"zone=a:31k\" is too small", 3),
    (Http, "limit_conn_zone $uri zone=a:8k;", "zone \"zone=a:8k\" is too small", 3),
    (Http, "limit_req_zone $uri zone=a rate=1r/s;", "invalid zone size \"zone=a\"", 3),
    (Http, "limit_req_zone $uri zone=a: rate=1r/s;", "invalid zone size \"zone=a:\"", 3),
    (Http, "limit_req_zone $uri zone=a:x rate=1r/s;", "invalid zone size \"zone=a:x\"", 3),
    (Http, "limit_req_zone $uri zone=a:1g rate=1r/s;", "invalid zone size \"zone=a:1g\"", 3),
    (Http, "limit_conn_zone $uri zone=a;", "invalid zone size \"zone=a\"", 3),
    (Http, "limit_conn_zone $uri zone=a:8x;", "invalid zone size \"zone=a:8x\"", 3),
    (Http, "limit_req_zone $uri zone=:1m rate=1r/s;", "\"limit_req_zone\" must have \"zone\" parameter", 3),
    (Http, "limit_conn_zone $uri zone=:1m;", "\"limit_conn_zone\" must have \"zone\" parameter", 3),
    (Http, "limit_req_zone $uri zone=a:1m;", "invalid number of arguments in \"limit_req_zone\" directive", 3),
    (Http, "limit_req_zone $uri rate=1r/s foo=1;", "invalid parameter \"foo=1\"", 3),
    (Http, "limit_req_zone $uri rate=1r/s rate=2r/s;", "\"limit_req_zone\" must have \"zone\" parameter", 3),
    (Http, "limit_req_zone $nope rate=1r/s zone=a:1m;", "unknown \"nope\" variable", 0),
    (Http, "limit_req_zone $ rate=1r/s zone=a:1m;", "invalid variable name", 3),
    (Http, "limit_req_zone $uri zone=a:1m rate=0r/s;", "invalid rate \"rate=0r/s\"", 3),
    (Http, "limit_req_zone $uri zone=a:1m rate=r/s;", "invalid rate \"rate=r/s\"", 3),
    (Http, "limit_req_zone $uri zone=a:1m rate=;", "invalid rate \"rate=\"", 3),
    (Http, "limit_req_zone $uri zone=a:1m rate=1r/h;", "invalid rate \"rate=1r/h\"", 3),
    (Http, "limit_req_zone $uri zone=a:1m rate=-1r/s;", "invalid rate \"rate=-1r/s\"", 3),
    (Http, "limit_req_zone $uri zone=a:1m rate=1.5r/s;", "invalid rate \"rate=1.5r/s\"", 3),
    (Http, "limit_req_zone $uri zone=a:1m rate=9999999999999999999r/m;", "invalid rate \"rate=9999999999999999999r/m\"", 3),
    (Http, "limit_conn_zone zone=a:1m $uri;", "invalid parameter \"$uri\"", 3),
    (Http, "limit_conn_zone $uri a:1m;", "invalid parameter \"a:1m\"", 3),
    (Http, "limit_conn_zone $uri zone=a:1m zone=b:1m;", "invalid number of arguments in \"limit_conn_zone\" directive", 3),
    (Location, "limit_req zone=a; limit_req zone=a;", "\"limit_req\" directive is duplicate", 5),
    (Location, "limit_req zone=a burst=0;", "invalid burst value \"burst=0\"", 5),
    (Location, "limit_req zone=a burst=-1;", "invalid burst value \"burst=-1\"", 5),
    (Location, "limit_req zone=a burst=x;", "invalid burst value \"burst=x\"", 5),
    (Location, "limit_req zone=a delay=0;", "invalid delay value \"delay=0\"", 5),
    (Location, "limit_req zone=a delay=x;", "invalid delay value \"delay=x\"", 5),
    (Location, "limit_req zone=a burst=1 nodelay delay=2;", "invalid number of arguments in \"limit_req\" directive", 5),
    (Location, "limit_req zone=a burst=3 nodelay=1;", "invalid parameter \"nodelay=1\"", 5),
    (Location, "limit_req burst=5;", "\"limit_req\" must have \"zone\" parameter", 5),
    (Location, "limit_req a;", "invalid parameter \"a\"", 5),
    (Location, "limit_req;", "invalid number of arguments in \"limit_req\" directive", 5),
    (Location, "limit_req_status 399;", "value must be between 400 and 599", 5),
    (Location, "limit_req_status 600;", "value must be between 400 and 599", 5),
    (Location, "limit_req_status x;", "\"limit_req_status\" directive invalid number", 5),
    (Location, "limit_conn_status 600;", "value must be between 400 and 599", 5),
    (Location, "limit_req_log_level debug;", "invalid value \"debug\"", 5),
    (Location, "limit_conn_log_level crit;", "invalid value \"crit\"", 5),
    (Location, "limit_req_dry_run 1;", "invalid value \"1\" in \"limit_req_dry_run\" directive, it must be \"on\" or \"off\"", 5),
    (Location, "limit_conn_dry_run;", "invalid number of arguments in \"limit_conn_dry_run\" directive", 5),
    (Location, "limit_req_dry_run on; limit_req_dry_run on;", "\"limit_req_dry_run\" directive is duplicate", 5),
    (Location, "limit_conn a 0;", "invalid number of connections \"0\"", 5),
    (Location, "limit_conn a x;", "invalid number of connections \"x\"", 5),
    (Location, "limit_conn a -1;", "invalid number of connections \"-1\"", 5),
    (Location, "limit_conn a 65536;", "connection limit must be less 65536", 5),
    (Location, "limit_conn a 1 2;", "invalid number of arguments in \"limit_conn\" directive", 5),
    (Location, "limit_rate x;", "\"limit_rate\" directive invalid value", 5),
    (Location, "limit_rate 1g;", "\"limit_rate\" directive invalid value", 5),
    (Location, "limit_rate -1;", "\"limit_rate\" directive invalid value", 5),
    (Location, "limit_rate 1k 2k;", "invalid number of arguments in \"limit_rate\" directive", 5),
    (Location, "limit_rate 1k; limit_rate 2k;", "\"limit_rate\" directive is duplicate", 5),
    (Location, "limit_rate_after x;", "\"limit_rate_after\" directive invalid value", 5),
    (Location, "limit_rate $nope;", "unknown \"nope\" variable", 0),
    (Main, "limit_rate 1k;", "\"limit_rate\" directive is not allowed here", 2),
    (Location, "limit_conn a 1; limit_conn a 2;", "\"limit_conn\" directive is duplicate", 5),
];

#[test]
fn messages_are_nginx_s() {
    if require::freerun() {
        run_all(Kind::Freerun, CASES);
    }
}

#[test]
fn the_table_is_what_nginx_says() {
    if require::nginx() && require::root() {
        run_all(Kind::Nginx, CASES);
    }
}
