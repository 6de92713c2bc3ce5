//! What `-t` says to broken logs.

use crate::t02_configuration::config_errors::In::{Http, Location, Main, Server};
use crate::t02_configuration::config_errors::{Case, run_all};
use freerun_testkit::{Kind, check, require};

#[rustfmt::skip]
const CASES: &[Case] = &[
    (Http, "access_log off x;", "invalid parameter \"x\"", 3),
    (Http, "access_log @DIR@/a combined gzip=0;", "invalid compression level \"0\"", 3),
    (Http, "access_log @DIR@/a combined gzip=10;", "invalid compression level \"10\"", 3),
    (Http, "access_log @DIR@/a combined gzip=;", "invalid compression level \"\"", 3),
    (Http, "access_log @DIR@/a combined gzipx;", "invalid parameter \"gzipx\"", 3),
    (Http, "access_log @DIR@/a combined if;", "invalid parameter \"if\"", 3),
    (Http, "access_log @DIR@/a combined gzip=1; access_log @DIR@/a combined gzip=2;", "access_log \"@DIR@/a\" already defined with conflicting parameters", 3),
    (Http, "access_log @DIR@/a combined gzip; access_log @DIR@/a combined gzip flush=1s;", "access_log \"@DIR@/a\" already defined with conflicting parameters", 3),
    (Http, "access_log @DIR@/a combined buffer=1k; access_log @DIR@/a combined gzip;", "access_log \"@DIR@/a\" already defined with conflicting parameters", 3),
    (Http, "access_log @DIR@/$host combined buffer=1k;", "buffered logs cannot have variables in name", 3),
    (Http, "access_log @DIR@/$host combined gzip;", "buffered logs cannot have variables in name", 3),
    (Http, "access_log @DIR@/$host combined flush=1s;", "no buffer is defined for access_log \"@DIR@/$host\"", 3),
    (Http, "access_log @DIR@/$nope;", "unknown \"nope\" variable", 0),
    (Http, "access_log @DIR@/$;", "invalid variable name", 3),
    (Http, "access_log syslog:server=127.0.0.1 combined buffer=1k;", "logs to syslog cannot be buffered", 3),
    (Http, "access_log syslog:server=127.0.0.1 combined gzip;", "logs to syslog cannot be buffered", 3),
    (Http, "access_log syslog:server=127.0.0.1 combined flush=1s;", "no buffer is defined for access_log \"syslog:server=127.0.0.1\"", 3),
    (Http, "access_log syslog:server=127.0.0.1 foo;", "unknown log format \"foo\"", 3),
    (Http, "access_log syslog:;", "unknown syslog parameter \"\"", 3),
    (Http, "access_log syslog:server=;", "no host in syslog server \"\"", 3),
    (Http, "access_log syslog:server=:514;", "no host in syslog server \":514\"", 3),
    (Http, "access_log syslog:server=[]:514;", "no host in syslog server \"[]:514\"", 3),
    (Http, "access_log syslog:server=[::1;", "invalid host in syslog server \"[::1\"", 3),
    (Http, "access_log syslog:server=127.0.0.1:5/x;", "invalid host in syslog server \"127.0.0.1:5/x\"", 3),
    (Http, "access_log syslog:server=host.invalid;", "host not found in syslog server \"host.invalid\"", 3),
    (Http, "access_log syslog:server=127.0.0.1:99999;", "invalid port in syslog server \"127.0.0.1:99999\"", 3),
    (Http, "access_log syslog:server=127.0.0.1:0;", "invalid port in syslog server \"127.0.0.1:0\"", 3),
    (Http, "access_log syslog:server=127.0.0.1:x;", "invalid port in syslog server \"127.0.0.1:x\"", 3),
    (Http, "access_log syslog:server=127.0.0.1:;", "invalid port in syslog server \"127.0.0.1:\"", 3),
    (Http, "access_log syslog:server=unix:;", "no path in the unix domain socket in syslog server \"unix:\"", 3),
    (Http, "access_log syslog:server=unix:/x,facility=foo;", "unknown syslog facility \"foo\"", 3),
    (Http, "access_log syslog:server=unix:/x,facility=FTP;", "unknown syslog facility \"FTP\"", 3),
    (Http, "access_log syslog:server=unix:/x,severity=warning;", "unknown syslog severity \"warning\"", 3),
    (Http, "access_log syslog:server=unix:/x,tag=a-b;", "syslog \"tag\" only allows alphanumeric characters and underscore", 3),
    (Http, "access_log syslog:server=unix:/x,tag=aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa;", "syslog tag length exceeds 32", 3),
    (Http, "access_log syslog:server=unix:/x,nohostname=1;", "unknown syslog parameter \"nohostname=1\"", 3),
    (Http, "access_log syslog:server=unix:/x,foo=1;", "unknown syslog parameter \"foo=1\"", 3),
    (Http, "access_log syslog:server=unix:/x,;", "unknown syslog parameter \"\"", 3),
    (Http, "access_log syslog:server=unix:/x,server=1.1.1.1;", "duplicate syslog \"server\"", 3),
    (Http, "access_log syslog:server=unix:/x,tag=a,tag=b;", "duplicate syslog \"tag\"", 3),
    (Http, "access_log syslog:server=unix:/x,facility=ftp,facility=user;", "duplicate syslog \"facility\"", 3),
    (Http, "access_log syslog:server=unix:/x,severity=info,severity=info;", "duplicate syslog \"severity\"", 3),
    (Http, "access_log syslog:facility=user;", "no syslog server specified", 3),
    (Main, "error_log syslog:facility=user;", "no syslog server specified", 2),
    (Main, "error_log syslog: info;", "unknown syslog parameter \"\"", 2),
    (Main, "error_log syslog:server=unix:/x loud;", "invalid log level \"loud\"", 2),
    (Main, "error_log memory: debug;", "invalid buffer size \"\"", 2),
    (Main, "error_log memory:1k debug;", "invalid buffer size \"1k\"", 2),
    (Main, "error_log memory:x debug;", "invalid buffer size \"x\"", 2),
    (Server, "open_log_file_cache;", "invalid number of arguments in \"open_log_file_cache\" directive", 4),
    (Server, "open_log_file_cache max=0;", "\"open_log_file_cache\" must have \"max\" parameter", 4),
    (Server, "open_log_file_cache inactive=1m;", "\"open_log_file_cache\" must have \"max\" parameter", 4),
    (Server, "open_log_file_cache max=x;", "invalid \"open_log_file_cache\" parameter \"max=x\"", 4),
    (Server, "open_log_file_cache max=1 inactive=x;", "invalid \"open_log_file_cache\" parameter \"inactive=x\"", 4),
    (Server, "open_log_file_cache max=1 valid=x;", "invalid \"open_log_file_cache\" parameter \"valid=x\"", 4),
    (Server, "open_log_file_cache max=1 foo=x;", "invalid \"open_log_file_cache\" parameter \"foo=x\"", 4),
    (Server, "open_log_file_cache max=1; open_log_file_cache off;", "\"open_log_file_cache\" directive is duplicate", 4),
    (Server, "open_log_file_cache max=1 inactive=1 min_uses=1 valid=1 max=5;", "invalid number of arguments in \"open_log_file_cache\" directive", 4),
    (Main, "open_log_file_cache off;", "\"open_log_file_cache\" directive is not allowed here", 2),
    (Location, "log_format x y;", "\"log_format\" directive is not allowed here", 5),
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

#[test]
fn all_sorts_of_logs_are_accepted() {
    let logs = "access_log @DIR@/a combined gzip; access_log @DIR@/a; access_log @DIR@/b combined gzip=9 buffer=1k flush=1m if=$uri;
        access_log @DIR@/c-$host; access_log @DIR@/$host/d combined if=$args; open_log_file_cache max=1 inactive=0 min_uses=0 valid=0;
        access_log syslog:server=127.0.0.1; access_log syslog:server=[::1]:5140,nohostname combined if=$uri;
        access_log syslog:server=unix:/none/x,facility=local3,tag=,severity=debug;
        server { listen 127.0.0.1:@PORT@; open_log_file_cache max=1 off; error_log memory:4k debug; access_log off; access_log @DIR@/e; }";
    let text = format!(
        "error_log syslog:server=localhost:99,tag=t info; error_log memory:32m; events {{ }}\nhttp {{ {logs} }}\n"
    );
    let checked = check(Kind::under_test(), &text).expect("it starts");
    assert_eq!(checked.code, Some(0), "{}", checked.stderr);
}
