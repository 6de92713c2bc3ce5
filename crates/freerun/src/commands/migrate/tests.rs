//! Tests of the report, with configurations in memory.

use std::collections::BTreeMap;
use std::io;

use freerun_conf::Loader;

use super::report;
use super::survey::{Survey, UsedName, Verdict};
use crate::cli::Options;
use crate::source::Input;

const MAIN: &str = "/etc/nginx/nginx.conf";

/// Files in memory.
struct Files(BTreeMap<&'static str, String>);

impl Loader for Files {
    fn load(&mut self, path: &str) -> io::Result<Vec<u8>> {
        let text = self.0.get(path).ok_or_else(|| io::Error::from_raw_os_error(2))?;
        Ok(text.clone().into_bytes())
    }

    fn glob(&mut self, _: &str) -> io::Result<Vec<String>> {
        Ok(Vec::new())
    }
}

fn survey_of(files: &[(&'static str, &str)]) -> Survey {
    let input = Input {
        conf: MAIN.to_owned(),
        globals: None,
        prefix: "/usr/share/nginx/".to_owned(),
        conf_prefix: "/etc/nginx/".to_owned(),
        error_log: "stderr".to_owned(),
        privileged: true,
    };
    let mut files = Files(files.iter().map(|(path, text)| (*path, (*text).to_owned())).collect());
    Survey::of(&input, &mut files).expect("the main file is there")
}

fn survey(text: &str) -> Survey {
    survey_of(&[(MAIN, text)])
}

/// Names with their uses and first places.
fn names(list: &[UsedName]) -> Vec<(&str, usize, &str)> {
    list.iter()
        .map(|used| (used.name.as_str(), used.uses, used.first.strip_prefix(MAIN).unwrap_or(&used.first)))
        .collect()
}

#[test]
fn what_is_the_same_is_counted_by_name() {
    let survey = survey("events {}\nhttp {\n server { listen 8080; }\n server { listen 8081; root /srv; }\n}\n");
    let works = [("server", 2, ":3"), ("events", 1, ":1"), ("http", 1, ":2"), ("root", 1, ":4")];
    assert_eq!(names(&survey.works), works);
    assert_eq!(names(&survey.differs_in_principle), [("listen", 2, ":3")]);
    assert_eq!((survey.directives, survey.accepted, survey.files), (7, 7, 1));
    assert_eq!(survey.verdict(), Verdict::Works);
    let text = report::text(&survey, "freerun -c x", "/etc/nginx/", false);
    let start = "/etc/nginx/nginx.conf: 7 directives in 1 file\nPlaces are below /etc/nginx/\n";
    assert!(
        text.starts_with(start) && text.contains("     1  root                            nginx.conf:4\n"),
        "{text}"
    );
    let quiet = report::text(&survey, "freerun", "/etc/nginx/", true);
    assert_eq!(quiet, format!("{start}\n7 of 7 directives are accepted; start with:\n  freerun\n"));
    assert!(text.ends_with("\n7 of 7 directives are accepted; start with:\n  freerun -c x\n"), "{text}");
}

#[test]
fn differences_and_what_has_no_effect_come_with_the_reason() {
    let text = "events { accept_mutex_delay 1s; }\nhttp { tcp_nopush on; ssl_protocols TLSv1.1 TLSv1.2; connection_pool_size 256; }\n";
    let survey = survey(text);
    assert_eq!(names(&survey.differs), [("ssl_protocols", 1, ":2")]);
    assert!(survey.differs[0].told.as_ref().is_some_and(|how| !how.is_empty()));
    assert_eq!(names(&survey.differs_in_principle), [("tcp_nopush", 1, ":2")]);
    assert!(survey.no_effect.iter().any(|used| used.name == "connection_pool_size" && used.told.is_some()));
    assert_eq!(survey.verdict(), Verdict::Differs);
    assert_eq!(survey.accepted, survey.directives);
}

#[test]
fn a_difference_in_principle_and_an_effect_that_nobody_misses_are_none() {
    let text = |events: &str, http: &str| survey(&format!("events {{ {events} }}\nhttp {{ {http} }}\n"));
    let plain = text("use epoll;", "access_log off; sendfile on; tcp_nopush on; types_hash_max_size 2048;");
    assert_eq!((names(&plain.differs), plain.verdict()), (vec![], Verdict::Works));
    assert!(plain.differs_in_principle.iter().any(|used| used.name == "sendfile"));
    let text_of = report::text(&plain, "freerun", "/etc/nginx/", false);
    assert!(text_of.contains("        access_log, sendfile, tcp_nopush, use\n"), "{text_of}");
    assert_eq!(text("debug_connection 127.0.0.1;", "").verdict(), Verdict::Differs);
}

#[test]
fn a_block_in_the_wrong_place_is_not_accepted() {
    let survey = survey("events {}\nhttp {}\nserver { listen 8080; }\n");
    assert_eq!((survey.refused.len(), survey.accepted, survey.directives), (1, 3, 4));
}

#[test]
fn many_unknown_names_are_all_reported() {
    let names: String = (0..2_000).map(|number| format!("nobody_has_{number};\n")).collect();
    let survey = survey(&format!("events {{}}\nhttp {{\n{names}}}\n"));
    assert_eq!(survey.missing.len(), 2_000);
}

#[test]
fn it_goes_on_after_what_is_missing() {
    let text = "events {}\nhttp {\n xslt_types text/xml;\n server {\n  perl f;\n  perl g;\n  root /a;\n }\n}\n\
                mail { server { listen 25; } }\n";
    let survey = survey(text);
    let missing = [("perl", 2, ":5"), ("mail", 1, ":10"), ("xslt_types", 1, ":3")];
    assert_eq!(names(&survey.missing), missing);
    assert_eq!(survey.missing[2].module, Some("ngx_http_xslt_module"));
    assert!(survey.missing.iter().all(|used| used.told.is_some()));
    assert!(survey.works.iter().any(|used| used.name == "root"));
    // What is inside of a missing block is missing, too.
    assert_eq!((survey.directives, survey.accepted), (10, 4));
    assert_eq!(survey.verdict(), Verdict::Missing);
    assert!(
        report::text(&survey, "freerun", "", true).ends_with("what is missing or refused; then try:\n  freerun -t\n")
    );
}

#[test]
fn it_goes_on_after_wrong_values() {
    let text =
        "events {}\nhttp {\n sendfile perhaps;\n server {\n  listen nowhere:x;\n  gzip maybe;\n  root /a;\n }\n}\n";
    let survey = survey(text);
    let places: Vec<&str> = survey.refused.iter().filter_map(|told| told.place.as_deref()).collect();
    let place = |line| format!("{MAIN}:{line}");
    assert_eq!(places, [place(3), place(5), place(6)]);
    assert!(!survey.may_be_more);
    assert_eq!((survey.directives, survey.accepted), (7, 4));
    assert_eq!(survey.verdict(), Verdict::Missing);
}

#[test]
fn a_configuration_with_endless_mistakes_ends() {
    let servers: String = (0..2000).map(|port| format!("server {{ listen {}; gzip maybe; }}\n", port + 1)).collect();
    let survey = survey(&format!("events {{}}\nhttp {{\n{servers}}}\n"));
    assert!(
        survey.may_be_more && survey.refused.len() >= 200 && survey.refused.len() < 400,
        "{}",
        survey.refused.len()
    );
    assert!(report::text(&survey, "freerun", "", true).contains("\n  … and there may be more: "));
}

#[test]
fn what_only_the_machine_lacks_is_accepted_and_keeps_a_server_from_starting() {
    let text = "user nobody-has-this-name;\nevents {}\nhttp {\n include absent.conf;\n server {\n  listen 8443 ssl;\n  \
                ssl_certificate /absent/a.pem;\n  ssl_certificate_key /absent/a.key;\n  root /a;\n  \
                proxy_ssl_verify on;\n  proxy_ssl_trusted_certificate /absent/ca.pem;\n  \
                location / { proxy_pass https://127.0.0.1:1; }\n }\n}\n";
    let survey = survey(text);
    let messages: Vec<&str> = survey.not_found.iter().map(|told| told.message.as_str()).collect();
    for part in ["/etc/nginx/absent.conf", "/absent/a.pem", "/absent/ca.pem", "nobody-has-this-name"] {
        assert!(messages.iter().any(|message| message.contains(part)), "{part}: {messages:?}");
    }
    assert_eq!(survey.refused, []);
    assert_eq!(survey.not_found[0].place.as_deref(), Some("/etc/nginx/nginx.conf:4"));
    assert_eq!((survey.accepted, survey.needed_to_start), (survey.directives, survey.not_found.len()));
    assert!(survey.is_accepted() && survey.verdict() == Verdict::Missing);
    let text = report::text(&survey, "freerun", "/etc/nginx/", true);
    let count = survey.not_found.len();
    let end = format!("would not start on this machine: {count} things are missing (above); then try:\n  freerun -t\n");
    assert!(text.ends_with(&end), "{text}");
}

#[test]
fn a_file_that_is_not_there_may_define_what_is_unknown() {
    let text = |include: &str| format!("events {{}}\nhttp {{ {include}server {{ return 200 $mine; }} }}\n");
    let told = |survey: &Survey| survey.refused.iter().map(|told| told.message.clone()).collect::<Vec<_>>();
    assert_eq!(told(&survey(&text(""))), ["unknown \"mine\" variable"]);
    let survey = survey(&text("include maps.conf; "));
    assert_eq!(told(&survey), Vec::<String>::new());
    assert_eq!(survey.not_found.len(), 2);
    assert!(survey.not_found[1].help.as_ref().is_some_and(|help| help.contains("included file")));
    assert!(survey.is_accepted() && survey.verdict() == Verdict::Missing);
}

#[test]
fn what_follows_from_something_else_is_not_told() {
    let text = "events {}\nhttp {\n perl_set $p f;\n js_set $j g;\n log_format l '$p $j $geoip_org $host';\n\
                server { access_log /dev/null l; set $geoip_city x; return 200 $geoip_city; }\n}\n";
    let survey = survey(text);
    assert_eq!(survey.refused, []);
    assert_eq!(names(&survey.missing_variables), [("$geoip_org", 1, ":5")]);
    assert_eq!(survey.missing_variables[0].module, Some("ngx_http_geoip_module"));
    assert_eq!(survey.verdict(), Verdict::Missing);
}

#[test]
fn includes_are_read_and_a_wrong_sign_ends_the_report() {
    let survey = survey_of(&[
        (MAIN, "events {}\nhttp { include b.conf; }\n"),
        ("/etc/nginx/b.conf", "server { listen 8080; }\nserver { root /a\n}\n"),
    ]);
    assert_eq!(survey.files, 2);
    assert_eq!(survey.refused.len(), 1);
    assert_eq!(survey.refused[0].place.as_deref(), Some("/etc/nginx/b.conf:3"));
    assert!(survey.works.iter().any(|used| used.name == "server" && used.first == "/etc/nginx/b.conf:1"));
}

#[test]
fn without_the_main_file_there_is_no_report() {
    let input = Input {
        conf: MAIN.to_owned(),
        globals: Some("daemon off;".to_owned()),
        prefix: "/".to_owned(),
        conf_prefix: "/etc/nginx/".to_owned(),
        error_log: "stderr".to_owned(),
        privileged: true,
    };
    let problem = Survey::of(&input, &mut Files(BTreeMap::new())).expect_err("there is no file");
    assert!(problem.message.contains(MAIN), "{}", problem.message);
}

#[test]
fn the_report_as_json_has_the_same() {
    let survey = survey("events {}\nhttp { perl_modules a; }\n");
    let json: serde_json::Value = serde_json::to_value(&survey).expect("plain data");
    assert_eq!(json["missing"][0]["name"], "perl_modules");
    assert_eq!(json["missing"][0]["module"], "ngx_http_perl_module");
    assert_eq!(json["missing"][0]["first"], "/etc/nginx/nginx.conf:2");
    assert_eq!(json["directives"], 3);
}

#[test]
fn the_command_that_starts_the_server_can_be_pasted() {
    let (conf, prefix) = (Some("/a b/it's.conf".into()), Some("/srv".into()));
    let options = Options { conf, prefix, ..Options::default() };
    assert_eq!(super::start(&options), r"freerun -p /srv -c '/a b/it'\''s.conf'");
}
