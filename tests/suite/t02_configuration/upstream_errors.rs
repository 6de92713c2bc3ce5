//! What `-t` says to directives of groups that Debian's nginx lacks.

use crate::t02_configuration::config_errors::In::{Http, Location};
use crate::t02_configuration::config_errors::{Case, run_all};
use freerun_testkit::{Kind, require};

#[rustfmt::skip]
const CASES: &[Case] = &[
    (Http, "upstream g { server 127.0.0.1; least_time; }", "invalid number of arguments in \"least_time\" directive", 3),
    (Http, "upstream g { server 127.0.0.1; least_time body; }", "invalid parameter \"body\"", 3),
    (Http, "upstream g { server 127.0.0.1; least_time header now; }", "invalid parameter \"now\"", 3),
    (Http, "upstream g { server 127.0.0.1; random two least_time; }", "invalid parameter \"least_time\"", 3),
    (Http, "upstream g { ip_hash; server 127.0.0.1 slow_start=1s; }", "balancing method does not support parameter \"slow_start=1s\"", 3),
    (Http, "upstream g { server 127.0.0.1; queue; }", "invalid number of arguments in \"queue\" directive", 3),
    (Http, "upstream g { server 127.0.0.1; queue 0; }", "\"queue\" directive invalid value", 3),
    (Http, "upstream g { server 127.0.0.1; queue 1 2; }", "invalid parameter \"2\"", 3),
    (Http, "upstream g { server 127.0.0.1; queue 1 timeout=x; }", "invalid parameter \"timeout=x\"", 3),
    (Http, "upstream g { server 127.0.0.1; queue 1; queue 2; }", "\"queue\" directive is duplicate", 3),
    (Http, "upstream g { server 127.0.0.1; sticky; }", "invalid number of arguments in \"sticky\" directive", 3),
    (Http, "upstream g { server 127.0.0.1; sticky foo bar; }", "invalid parameter \"foo\"", 3),
    (Http, "upstream g { server 127.0.0.1; sticky cookie; }", "invalid number of arguments in \"sticky\" directive", 3),
    (Http, "upstream g { server 127.0.0.1; sticky cookie a expires=x; }", "invalid parameter \"expires=x\"", 3),
    (Http, "upstream g { server 127.0.0.1; sticky cookie a domain=; }", "\"sticky\" directive no value for \"domain\"", 3),
    (Http, "upstream g { server 127.0.0.1; sticky cookie a path=; }", "\"sticky\" directive no value for \"path\"", 3),
    (Http, "upstream g { server 127.0.0.1; sticky cookie a path; }", "invalid parameter \"path\"", 3),
    (Http, "upstream g { server 127.0.0.1; sticky cookie a samesite=maybe; }", "invalid parameter \"samesite=maybe\"", 3),
    (Http, "upstream g { server 127.0.0.1; sticky cookie a foo; }", "invalid parameter \"foo\"", 3),
    (Http, "upstream g { server 127.0.0.1; sticky route a; }", "invalid variable name \"a\"", 3),
    (Http, "upstream g { server 127.0.0.1; sticky learn create=$a lookup=$b; }", "\"sticky\" must have \"zone\" parameter", 3),
    (Http, "upstream g { server 127.0.0.1; sticky learn lookup=$uri zone=a:1m; }", "\"sticky\" directive must have \"create\" parameter", 3),
    (Http, "upstream g { server 127.0.0.1; sticky learn create=$uri lookup=$uri zone=a:1k; }", "zone \"zone=a:1k\" is too small", 3),
    (Http, "upstream g { server 127.0.0.1; sticky learn create=x lookup=$uri zone=a:1m; }", "invalid variable name \"x\"", 3),
    (Http, "upstream g { server 127.0.0.1; sticky learn create=$uri lookup=$uri zone=a:1m sync; }", "invalid parameter \"sync\"", 3),
    (Http, "upstream g { server 127.0.0.1; sticky cookie a; sticky cookie b; }", "\"sticky\" directive is duplicate", 3),
    (Http, "upstream g { server 127.0.0.1; outlier_detection rate=x; }", "invalid parameter \"rate=x\"", 3),
    (Http, "upstream g { server 127.0.0.1; outlier_detection rate=101%; }", "invalid parameter \"rate=101%\"", 3),
    (Http, "upstream g { server 127.0.0.1; outlier_detection window=0; }", "invalid parameter \"window=0\"", 3),
    (Http, "upstream g { server 127.0.0.1; outlier_detection foo; }", "invalid parameter \"foo\"", 3),
    (Location, "health_check;", "no upstream to check: \"health_check\" stands without a \"proxy_pass\"", 5),
    (Location, "proxy_pass http://127.0.0.1$uri; health_check;", "no upstream to check: \"health_check\" stands without a \"proxy_pass\"", 5),
    (Location, "proxy_pass http://127.0.0.1; health_check; health_check;", "\"health_check\" directive is duplicate", 5),
    (Location, "proxy_pass http://127.0.0.1; health_check interval=0;", "invalid parameter \"interval=0\"", 5),
    (Location, "proxy_pass http://127.0.0.1; health_check fails=0;", "invalid parameter \"fails=0\"", 5),
    (Location, "proxy_pass http://127.0.0.1; health_check passes=x;", "invalid parameter \"passes=x\"", 5),
    (Location, "proxy_pass http://127.0.0.1; health_check uri=a;", "invalid parameter \"uri=a\"", 5),
    (Location, "proxy_pass http://127.0.0.1; health_check port=65536;", "invalid parameter \"port=65536\"", 5),
    (Location, "proxy_pass http://127.0.0.1; health_check persistent;", "invalid parameter \"persistent\"", 5),
    (Location, "proxy_pass http://127.0.0.1; health_check type=grpc;", "\"health_check type=grpc\" needs HTTP/2", 5),
    (Location, "grpc_pass 127.0.0.1:1; health_check type=http;", "invalid parameter \"type=http\"", 5),
    (Location, "grpc_pass 127.0.0.1:1; health_check type=grpc grpc_status=x;", "invalid parameter \"grpc_status=x\"", 5),
    (Location, "grpc_pass 127.0.0.1:1; health_check grpc_service=a;", "\"grpc_service=a\" stands without \"type=grpc\"", 5),
    (Location, "grpc_pass 127.0.0.1:1; health_check uri=/a type=grpc;", "\"uri=/a\" cannot stand beside \"type=grpc\"", 5),
    (Location, "proxy_pass http://127.0.0.1; health_check match=m;", "match \"m\" is not defined", 5),
    (Http, "match m { status 20; }", "invalid parameter \"20\"", 3),
    (Http, "match m { status; }", "invalid number of arguments in \"status\" directive", 3),
    (Http, "match m { header a b; }", "invalid number of arguments in \"header\" directive", 3),
    (Http, "match m { header a < b; }", "invalid parameter \"<\"", 3),
    (Http, "match m { body = a; }", "invalid parameter \"=\"", 3),
    (Http, "match m { require a; }", "invalid parameter \"a\"", 3),
    (Http, "match m { foo a; }", "unknown directive \"foo\"", 3),
    (Http, "match m { } match m { }", "duplicate match \"m\"", 3),
    (Http, "match;", "directive \"match\" has no opening \"{\"", 3),
];

#[test]
fn broken_directives_of_groups_are_told() {
    if require::freerun() {
        run_all(Kind::Freerun, CASES);
    }
}
