//! What follows nginx's line: the first of two, a name that is similar, a `;` that was forgotten, all further problems.

use freerun_testkit::{Kind, ProgramOutput, certificates, check, require};

fn tested(text: &str) -> ProgramOutput {
    check(Kind::Freerun, text).expect("it starts")
}

/// The lines with which problems and warnings begin, and those of help.
fn told(checked: &ProgramOutput) -> Vec<&str> {
    checked.stderr.lines().filter(|line| line.starts_with("nginx: [") || line.starts_with("help: ")).collect()
}

const NO_BREAK_SPACE: &str =
    "the word has the letter U+00A0 in it, which only looks like a space: type a space instead";

const TEMPLATE: &str =
    "this looks like a template that nobody has filled in: run the program that does it (envsubst, for example) first";

/// What stands inside `http {}` from line 3 on, and the help.
const HELP: &[(&str, &str)] = &[
    ("server {\nlisten 127.0.0.1:@PORT@\nserver_name a;\n}", "is a \";\" missing at the end of line 4?"),
    ("map $host $m {\na b\nc d;\n}", "is a \";\" missing at the end of line 4?"),
    ("server {\nreturn 200 $hosst;\n}", "did you mean \"$host\"?"),
    ("map $host $mine { default 1; }\nserver { return 200 $mime; }", "did you mean \"$mine\"?"),
    ("server { listen 127.0.0.1:@PORT@ defualt_server; }", "did you mean \"default_server\"?"),
    ("server { listen 127.0.0.1:@PORT@ backlgo=5; }", "did you mean \"backlog=\"?"),
    ("upstream u { server 127.0.0.1:1 wieght=2; }", "did you mean \"weight=\"?"),
    ("log_format main x;\naccess_log @DIR@/a.log mainn;", "did you mean \"main\"?"),
    ("limit_req_zone $host zone=one:1m rate=1r/s;\nlimit_req zone=oen;", "did you mean \"one\"?"),
    ("proxy_cache_path @DIR@/c keys_zone=pages:1m;\nproxy_cache page;", "did you mean \"pages\"?"),
    ("proxy_cache page;", "no proxy_cache_path directive declares it"),
    ("server { location /a { }\nlocation /a { } }", "the first one is in @DIR@/nginx.conf:3"),
    ("server { location = /a { } location /a { }\nlocation =/a { } }", "the first one is in @DIR@/nginx.conf:3"),
    (
        "server { listen 127.0.0.1:@PORT@ default_server; }\nserver { listen 127.0.0.1:@PORT@ default_server; }",
        "the first one is in @DIR@/nginx.conf:3",
    ),
    ("server { listen 127.0.0.1:@PORT@;\nlisten 127.0.0.1:@PORT@; }", "the first one is in @DIR@/nginx.conf:3"),
    (
        "upstream u { server 127.0.0.1:1; }\nupstream u { server 127.0.0.1:1; }",
        "the first one is in @DIR@/nginx.conf:3",
    ),
    ("map $host $m {\na b;\nA c;\n}", "the first one is in @DIR@/nginx.conf:4"),
    ("log_format a x;\nlog_format a y;", "the first one is in @DIR@/nginx.conf:3"),
    (
        "limit_req_zone $host zone=one:1m rate=1r/s;\nlimit_req_zone $host zone=one:1m rate=1r/s;",
        "the first one is in @DIR@/nginx.conf:3",
    ),
    ("server { set $http_host x; }", "the server itself gives $http_host its value; choose another name"),
    ("server { location / { proxy_pass app; } }", "an address begins with \"http://\" or \"https://\""),
    (
        "client_max_body_size 10mb;",
        "did you mean \"10m\"? the syntax is: client_max_body_size size; where a size is 512, 8k or 10m",
    ),
    (
        "proxy_read_timeout 10sec;",
        "did you mean \"10s\"? the syntax is: proxy_read_timeout time; where a time is 500ms, 30, 30s, 5m, 12h or 1d",
    ),
    ("client_max_body_size 10x;", "the syntax is: client_max_body_size size; where a size is 512, 8k or 10m"),
    ("server { location ~ ^/a{2}$ { } }", "a regular expression with \"{\" or \"}\" has to stand in quotes"),
    ("server { root = /x; }", "no \"=\" stands between \"root\" and its value"),
    ("server { location /api return 200; }", "is a \"{\" missing before this word?"),
    ("server { if ($host == a) { return 403; } }", "one \"=\" compares here"),
    (
        "server { if ($host = a && $scheme = b) { return 403; } }",
        "one \"if\" has one condition; a \"map\" of several variables can have more",
    ),
    ("add_header A “b c d”;", "“ is a letter like any other here: quotes are \" and '"),
    ("server { listen\u{a0}127.0.0.1:80; }", NO_BREAK_SPACE),
    ("root\u{a0}/var/www;", NO_BREAK_SPACE),
    ("server { listen ${PORT}; }", TEMPLATE),
    ("server { listen {{ .Values.port }}; }", TEMPLATE),
    ("log_format json x;\naccess_log @DIR@/a.log jsno;", "did you mean \"json\"?"),
    ("include nginx.cnf;", "did you mean \"@DIR@/nginx.conf\"?"),
    (
        "server { listen 127.0.0.1:@PORT@ ssl; ssl_certificate .; ssl_certificate_key none.key; }",
        "the file is empty, or is a folder",
    ),
    (
        "server { listen 127.0.0.1:@PORT@ ssl; ssl_certificate /none/a.pem; ssl_certificate_key none.key; }",
        "there is no such file",
    ),
    (
        "server { expires 1 day; }",
        "the syntax is: expires [modified] time | epoch | max | off; where a time is 500ms, 30, 30s, 5m, 12h or 1d",
    ),
    ("include none.conf;", "a relative path is looked up in \"@DIR@/\""),
    (
        "server { listen 127.0.0.1:@PORT@ ssl; }",
        "name files in \"ssl_certificate\" and \"ssl_certificate_key\", or write \"ssl_certificate auto;\" for a certificate from a \
         CA that speaks ACME",
    ),
    (
        "server { listen 127.0.0.1:@PORT@ ssl; ssl_certificate none.pem; ssl_certificate_key none.key; }",
        "there is no such file; a relative path begins in the folder of the configuration",
    ),
    (
        "server { listen 127.0.0.1:@PORT@ ssl alt_svc; }",
        "it stands in the \"listen … quic\" whose port clients are told of, by responses over TLS on TCP",
    ),
    ("server { listen unix:/run/none.sock quic; }", "freerun takes datagrams of UDP alone; remove \"quic\""),
];

#[test]
fn help_comes_with_what_is_wrong() {
    if !require::freerun() {
        return;
    }
    let mut wrong = Vec::new();
    for (lines, help) in HELP {
        let checked = tested(&format!("events {{ }}\nhttp {{\n{lines}\n}}\n"));
        if checked.code != Some(1) || told(&checked).get(1) != Some(&format!("help: {help}").as_str()) {
            wrong.push(format!("{lines}\nwanted: {help}\n{}", checked.stderr));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn what_follows_from_a_problem_is_not_told() {
    if !require::freerun() {
        return;
    }
    for lines in ["location ~ ^/a{2}$ { return 200; }", "server_name {{ .Values.host }};"] {
        let checked = tested(&format!("events {{ }}\nhttp {{ server {{ {lines} }} }}\n"));
        let lines = told(&checked);
        assert!(lines.len() == 2 && lines[1].starts_with("help: "), "{}", checked.stderr);
    }
}

#[test]
fn a_warning_is_shown_with_its_line() {
    if !require::freerun() {
        return;
    }
    let text = "events { }\nhttp { server { listen 127.0.0.1:@PORT@;\nlocation / { proxy_pass http://backnd.invalid; } }\n\
                upstream backend.invalid { server 127.0.0.1:1; } }\n";
    let checked = tested(text);
    let lines: Vec<&str> = checked.stderr.lines().collect();
    let expected = [
        "nginx: [warn] host not found in upstream \"backnd.invalid:80\" in @DIR@/nginx.conf:3",
        " 3 | location / { proxy_pass http://backnd.invalid; } }",
        "   |                         ^^^^^^^^^^^^^^^^^^^^^",
        "help: did you mean the upstream \"backend.invalid\"?",
    ];
    assert_eq!(lines[..4], expected, "{}", checked.stderr);
}

#[test]
fn the_servers_of_a_conflicting_name_are_told() {
    if !require::freerun() {
        return;
    }
    let server = |names: &str| format!("server {{ listen 127.0.0.1:@PORT@; server_name {names}; }}");
    let servers = [server("a .b"), server("A c c"), server("*.b")].join("\n");
    let checked = tested(&format!("events {{ }}\nhttp {{\n{servers}\n}}\n"));
    let warned = |name: &str| format!("nginx: [warn] conflicting server name \"{name}\" on 127.0.0.1:@PORT@, ignored");
    let expected = [
        warned("a"),
        "help: the server in @DIR@/nginx.conf:3 answers, and not the one in @DIR@/nginx.conf:4".to_owned(),
        warned("c"),
        "help: the server in @DIR@/nginx.conf:4 has it twice".to_owned(),
        warned("*.b"),
        "help: the server in @DIR@/nginx.conf:3 answers, and not the one in @DIR@/nginx.conf:5".to_owned(),
    ];
    assert_eq!(told(&checked), expected, "{}", checked.stderr);
}

#[test]
fn what_nginx_lets_set_is_set() {
    if !require::freerun() {
        return;
    }
    for name in ["proxy_host", "proxy_port", "http_foo", "arg_a"] {
        let text = format!("events {{ }}\nhttp {{ server {{ listen 127.0.0.1:@PORT@; set ${name} x; }} }}\n");
        let checked = tested(&text);
        assert_eq!(checked.code, Some(0), "{name}: {}", checked.stderr);
    }
}

#[test]
fn a_cache_that_is_unknown_is_shown_where_it_is_named() {
    if !require::freerun() {
        return;
    }
    let checked = tested("events { }\nhttp {\nserver {\nproxy_cache nope;\n}\n}\n");
    let lines: Vec<&str> = checked.stderr.lines().collect();
    assert_eq!(lines[0], "nginx: [emerg] \"proxy_cache\" zone \"nope\" is unknown in @DIR@/nginx.conf:6");
    assert_eq!(lines[1], " 4 | proxy_cache nope;");
    assert_eq!(told(&checked), [lines[0], "help: no proxy_cache_path declares it"]);
}

#[test]
fn a_state_file_of_two_is_warned_of() {
    if !require::freerun() {
        return;
    }
    let checked = tested(
        "events { }\nhttp {\nupstream a { zone a 64k; state @DIR@/s; }\nupstream b { zone b 64k; state @DIR@/s; }\n\
         keyval_zone zone=c:64k state=@DIR@/p;\nkeyval_zone zone=d:64k state=@DIR@/p;\n}\n",
    );
    let warned = |file: &str, of: &str, line: u32| {
        let what = format!("state file \"{file}\" is that of the {of}, too");
        format!("nginx: [warn] {what}: a change of one replaces the other's state in @DIR@/nginx.conf:{line}")
    };
    assert_eq!(checked.code, Some(0), "{}", checked.stderr);
    assert_eq!(told(&checked), [warned("@DIR@/s", "http upstream \"a\"", 4), warned("@DIR@/p", "zone \"c\"", 6)]);
}

#[test]
fn a_second_default_server_is_the_only_problem() {
    if !require::freerun() {
        return;
    }
    let server = "server { listen 127.0.0.1:@PORT@ default_server; }";
    let checked = tested(&format!("events {{ }}\nhttp {{\n{server}\n{server}\n}}\n"));
    let problem = "nginx: [emerg] a duplicate default server for 127.0.0.1:@PORT@ in @DIR@/nginx.conf:4";
    assert_eq!(told(&checked), [problem, "help: the first one is in @DIR@/nginx.conf:3"]);
}

#[test]
fn every_problem_is_told_of_and_none_that_only_follows() {
    if !require::freerun() {
        return;
    }
    // Nothing is said of the group that has no server, of the variable that is not defined, and of the zone that is not there.
    let checked = tested(
        "events { }\nhttp {\nupstream u { server 127.0.0.1:x; }\nlimit_req_zone $host zone=z:1 rate=1r/s;\n\
         map $host $v { a b c; default 1; }\nserver {\nlisten 127.0.0.1:@PORT@;\nlimit_req zone=z;\nnosuch on;\n\
         proxy_passs x;\nreturn 200 $v$w;\n}\n",
    );
    let problems: Vec<&str> = checked.stderr.lines().filter(|line| line.starts_with("nginx: [")).collect();
    let wanted = [
        "invalid port in upstream \"127.0.0.1:x\" in @DIR@/nginx.conf:3",
        "zone \"zone=z:1\" is too small in @DIR@/nginx.conf:4",
        "invalid number of the map parameters in @DIR@/nginx.conf:5",
        "unknown directive \"nosuch\" in @DIR@/nginx.conf:9",
        "unknown directive \"proxy_passs\" in @DIR@/nginx.conf:10",
        "unexpected end of file, expecting \"}\" in @DIR@/nginx.conf:13",
    ];
    assert_eq!(problems, wanted.map(|problem| format!("nginx: [emerg] {problem}")), "{}", checked.stderr);
    assert!(checked.stderr.ends_with("nginx: configuration file @DIR@/nginx.conf test failed\n"), "{}", checked.stderr);
}

#[test]
fn of_a_block_of_lua_only_its_directive_is_told() {
    if !require::freerun() {
        return;
    }
    let checked = tested(
        "events { }\nhttp {\nserver {\ncontent_by_lua_block {\nlocal t = {a = \"}\", b = '\\'}', [[ } ]], [=[ ]] } ]=]} -- }\n\
         --[[ }\n} ]]\nif t[1] then ngx.say(\"hi\") end\n}\nnosuch on;\n}\n}\n",
    );
    let lines = [
        "nginx: [emerg] unknown directive \"content_by_lua_block\" in @DIR@/nginx.conf:4",
        "help: the directive is of lua-nginx-module (OpenResty), which freerun does not have",
        "nginx: [emerg] unknown directive \"nosuch\" in @DIR@/nginx.conf:10",
    ];
    assert_eq!(told(&checked), lines, "{}", checked.stderr);
    // One that has no end is read like any other block.
    let checked = tested("events { }\nhttp {\ncontent_by_lua_block { ngx.say(\"}\")\n");
    assert_eq!(checked.code, Some(1), "{}", checked.stderr);
}

#[test]
fn a_group_with_a_similar_name_may_be_meant() {
    if !require::freerun() {
        return;
    }
    let checked = tested(
        "events { }\nhttp {\nupstream backend.invalid { server 127.0.0.1:1; }\nserver {\nlisten 127.0.0.1:@PORT@;\n\
         location / { proxy_pass http://backnd.invalid; }\n}\n}\n",
    );
    assert_eq!(checked.code, Some(0), "{}", checked.stderr);
    assert_eq!(
        told(&checked),
        [
            "nginx: [warn] host not found in upstream \"backnd.invalid:80\" in @DIR@/nginx.conf:6",
            "help: did you mean the upstream \"backend.invalid\"?",
        ]
    );
}

#[test]
fn addresses_that_a_start_could_not_bind_fail_the_test() {
    if !require::freerun() {
        return;
    }
    // The block for documentation (RFC 5737) is no machine's.
    let checked = tested("events { }\nhttp { server { listen 192.0.2.1:1; } }\n");
    assert_eq!(checked.code, Some(1));
    let problem = "nginx: [emerg] bind() to 192.0.2.1:1 failed (99: Cannot assign requested address)";
    let help = "help: no interface of this machine has the address: \"ip address\" shows those that there are";
    assert_eq!(told(&checked), [problem, help], "{}", checked.stderr);
    let checked = tested("error_log @DIR@/none/a.log;\nevents { }\n");
    let help = "help: make the folder \"@DIR@/none\", which is not there";
    assert_eq!(told(&checked).last(), Some(&help), "{}", checked.stderr);
    // The running server has its own.
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = taken.local_addr().expect("an address");
    let checked = tested(&format!("events {{ }}\nhttp {{ server {{ listen {address}; }} }}\n"));
    assert_eq!(checked.code, Some(0), "{}", checked.stderr);
}

#[test]
fn a_certificate_and_a_key_in_each_other_s_place_are_told() {
    if !require::freerun() {
        return;
    }
    let [certificate, key] = ["ec.crt", "ec.key"].map(|file| certificates().path(file).display().to_string());
    let told_of = |first: &str, second: &str| {
        let checked = tested(&format!(
            "events {{ }}\nhttp {{ server {{ listen 127.0.0.1:@PORT@ ssl;\nssl_certificate {first};\n\
             ssl_certificate_key {second}; }} }}\n"
        ));
        told(&checked).get(1).map(|line| (*line).to_owned())
    };
    let help = "help: the file has a key and no certificate: were the files of the two directives swapped?";
    assert_eq!(told_of(&key, &certificate).as_deref(), Some(help));
    let help = "help: the file has a certificate and no key: were the files of the two directives swapped?";
    assert_eq!(told_of(&certificate, &certificate).as_deref(), Some(help));
}

#[test]
fn a_part_of_a_word_is_underlined() {
    if !require::freerun() {
        return;
    }
    for (lines, part) in
        [("log_format a '$uri $remote_adr';", "$remote_adr"), ("server { location ~ ^/a)b { } }", "^/a)b")]
    {
        let checked = tested(&format!("events {{ }}\nhttp {{\n{lines}\n}}\n"));
        let at = lines.find(part).expect("a part");
        let expected = format!(" 3 | {lines}\n   | {}{}\n", " ".repeat(at), "^".repeat(part.len()));
        assert!(checked.stderr.contains(&expected), "{lines}: {}", checked.stderr);
    }
}

#[test]
fn a_pipe_to_which_nobody_writes_ends_a_test() {
    if !require::freerun() {
        return;
    }
    let dir = freerun_testkit::TempDir::new("pipe");
    let pipe = dir.path().join("pipe.conf").display().to_string();
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().expect("mkfifo").success());
    let checked = tested(&format!("events {{ }}\ninclude {pipe};\n"));
    let why = "nothing has come from this pipe for 5 seconds";
    assert_eq!(told(&checked)[0], format!("nginx: [emerg] open() \"{pipe}\" failed ({why}) in @DIR@/nginx.conf:2"));
}

#[test]
fn files_that_include_each_other_end_soon() {
    if !require::freerun() {
        return;
    }
    let dir = freerun_testkit::TempDir::new("includes");
    for level in 0..11 {
        let text = format!("include {}/{}.conf;\n", dir.path().display(), level + 1).repeat(4);
        std::fs::write(dir.path().join(format!("{level}.conf")), text).expect("writing");
    }
    std::fs::write(dir.path().join("11.conf"), "# nothing\n").expect("writing");
    let checked = tested(&format!("events {{ }}\ninclude {}/0.conf;\n", dir.path().display()));
    assert!(checked.stderr.contains("[emerg] more than 200000 files are included in "), "{}", checked.stderr);
}
