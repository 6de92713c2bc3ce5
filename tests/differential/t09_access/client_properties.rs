//! What is known of clients: `userid`, `valid_referers`, `modern_browser` and `ancient_browser`, `secure_link`.

use crate::harness::{Case, compare, get, head, raw, request};
use crate::runner::observe_each;
use crate::site::site;
use crate::t02_configuration::checks::same_verdicts;
use freerun_testkit::Setup;

const UID: &str = "Cookie: uid=fwAAAWVgQB9SVBYdAwMEAg";

/// Where cookies are only read, or sent once more, nothing in them differs.
#[test]
fn cookies_that_are_there() {
    let site = site();
    let answer = "return 200 \"got=$uid_got set=$uid_set reset=$uid_reset\";";
    let mut lines = String::new();
    for (name, settings) in [
        ("on", "userid on;"),
        ("v1", "userid v1;"),
        ("log", "userid log;"),
        ("off", "userid off;"),
        ("none", ""),
        ("mark", "userid on; userid_mark A; userid_expires max; userid_path /x; userid_domain example.com;"),
        (
            "marks",
            "userid on; userid_mark =; userid_p3p 'policyref=\"/p3p.xml\"'; userid_flags samesite=none httponly secure;",
        ),
        (
            "flags",
            "userid on; userid_mark 9; userid_flags off secure; userid_domain ''; userid_path ''; userid_expires 0;",
        ),
        ("name", "userid on; userid_name u; userid_mark z;"),
        ("header", "userid on; userid_mark q; add_header S $uid_set; add_header G $uid_got;"),
        ("reset", "userid on; set $uid_reset $arg_r;"),
    ] {
        lines += &format!("location /{name}/ {{ {settings} {answer} }}\n");
    }
    lines += "location /file/ { userid on; userid_mark A; try_files /a.txt =404; }
        location /404/ { userid on; userid_mark A; return 404; }
        location /301/ { userid on; userid_mark A; return 301 /x; }";
    let mut cases = Vec::new();
    for cookie in [
        UID.to_owned(),
        format!("{UID}=="),
        format!("{UID}A="),
        format!("{UID}AA"),
        format!("{UID}A"),
        format!("{UID}9="),
        format!("{UID}z="),
        format!("{UID}extra"),
        format!("Cookie: a=b; {}==; c=d", &UID[8..]),
        format!("Cookie: u=1; UID={}; uid=short", &UID[12..]),
        "Cookie: u=fwAAAWVgQB9SVBYdAwMEAg==".to_owned(),
    ] {
        for place in ["on", "log", "off", "none", "mark", "marks", "flags", "name", "header", "v1"] {
            // Where there is none, one is made, which is another one each time.
            let reads = if place == "name" { "u=f" } else { "uid=" };
            if cookie.to_lowercase().contains(reads) || matches!(place, "log" | "off" | "none") {
                cases.push(get(&format!("/{place}/")).field(&cookie).in_order());
            }
        }
    }
    for cookie in ["Cookie: uid=short", "Cookie: uid=!!!!AWVgQB9SVBYdAwMEAg==", "Cookie: x=y", "Cookie: uid="] {
        cases.push(get("/log/").field(cookie));
    }
    for place in ["file", "404", "301"] {
        cases.push(get(&format!("/{place}/")).field(UID).in_order());
        cases.push(head(&format!("/{place}/")).field(UID).in_order());
    }
    cases.push(get("/file/").field(UID).field("If-Modified-Since: Sun, 06 Nov 1994 08:49:37 GMT"));
    cases.push(get("/reset/?r=").field(UID));
    cases.push(get("/reset/?r=0").field(UID));
    compare(&Setup::server(&site, &lines), cases);
}

/// New cookies differ in time and process; their form is the same.
#[test]
fn cookies_that_are_new() {
    let lines = "
        location /on/ { userid on; return 200 \"$uid_got|$uid_set\"; }
        location /v1/ { userid v1; userid_service 16909060; return 200 \"$uid_got|$uid_set\"; }
        location /service/ { userid on; userid_service 16909060; userid_mark A; return 200 \"$uid_got|$uid_set\"; }
        location /reset/ { userid on; set $uid_reset $arg_r; return 200 \"$uid_got|$uid_set\"; }
        location /expires/ { userid on; userid_expires 1d; return 200 x; }
    ";
    let setup = Setup::server(&site(), lines);
    observe_each(&setup, |server| {
        let kind = server.kind();
        let ask = |path: &str, cookie: &str| {
            let mut client = server.connect();
            client.send(format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n{cookie}Connection: close\r\n\r\n"));
            client.response()
        };
        let first = ask("/on/", "");
        let cookie = first.header("Set-Cookie").expect("a cookie").to_owned();
        assert!(cookie.starts_with("uid=fwAAAW") && cookie.ends_with("==; path=/"), "{kind:?}: {cookie}");
        let text = first.text();
        let set = text.strip_prefix("|uid=0100007F").expect("the address");
        assert!(set.len() == 24 && set.ends_with("0303"), "{kind:?}: {text}");
        let again = ask("/on/", &format!("Cookie: {}\r\n", cookie.split(';').next().unwrap_or_default()));
        assert_eq!((again.header("Set-Cookie"), again.text()), (None, format!("uid=0100007F{set}|")), "{kind:?}");
        assert_ne!(ask("/on/", "").header("Set-Cookie"), Some(cookie.as_str()));
        let v1 = ask("/v1/", "");
        assert!(v1.header("Set-Cookie").is_some_and(|cookie| cookie.starts_with("uid=BAMCA")), "{kind:?}: {v1:?}");
        assert!(v1.text().starts_with("|uid=01020304"), "{kind:?}: {v1:?}");
        let service = ask("/service/", "");
        let cookie = service.header("Set-Cookie").unwrap_or_default();
        assert!(cookie.starts_with("uid=AQIDB") && cookie.ends_with("A=; path=/"), "{kind:?}: {cookie}");
        for reset in ["1", "log"] {
            let reset = ask(&format!("/reset/?r={reset}"), &format!("{UID}\r\n"));
            assert!(reset.header("Set-Cookie").is_some(), "{kind:?}");
            assert!(
                reset.text().starts_with("uid=0100007F1F4060651D16545202040303|uid=0100007F"),
                "{kind:?}: {reset:?}"
            );
        }
        let expires = ask("/expires/", "");
        assert!(expires.header("Set-Cookie").is_some_and(|cookie| cookie.contains(" GMT; path=/")), "{kind:?}");
    });
}

#[test]
fn referers() {
    let lists = [
        "none blocked server_names *.example.com www.example.org/galleries/ example.net ~\\.google\\. arg.*",
        "blocked example.com",
        "none example.com",
        "server_names",
        "~^https:// ~GOOGLE",
        "example.com/x *.example.com/y",
        "~example.com/Path ~^www",
        "example.com/x ~example",
        "blocked *.y.com .z.com",
        "*.a.com *.b.a.com/x www.*/p none",
        "blocked server_names",
    ];
    let mut lines = "location /none/ { return 200 \"[$invalid_referer]\"; }\n".to_owned();
    let mut places = vec!["none".to_owned()];
    for (number, list) in lists.iter().enumerate() {
        lines += &format!("location /{number}/ {{ valid_referers {list}; return 200 \"[$invalid_referer]\"; }}\n");
        places.push(number.to_string());
    }
    lines += "location /in/ { valid_referers outer.com; location /in/a { return 200 \"[$invalid_referer]\"; }
        location /in/b { valid_referers inner.com; return 200 \"[$invalid_referer]\"; } }";
    let mut cases = vec![
        get("/in/a").field("Referer: http://outer.com/"),
        get("/in/b").field("Referer: http://outer.com/"),
        get("/in/b").field("Referer: http://inner.com/"),
    ];
    let long = [format!("http://{}.y.com/", "a".repeat(250)), format!("http://{}.y.com/", "a".repeat(254))];
    for place in &places {
        cases.push(get(&format!("/{place}/")));
        for value in [
            "",
            "-",
            "x",
            "http://",
            "http://a",
            "http://i.r",
            "http://i.ru",
            "https://a",
            "https://a.b",
            "https://a.bc",
            "http://example.com",
            "https://example.com/",
            "http://www.example.com",
            "http://a.example.com:80/x",
            "http://www.example.org/galleries/x",
            "http://www.example.org/",
            "http://example.net/any",
            "http://EXAMPLE.net",
            "http://www.google.com/",
            "http://localhost/",
            "http://localhost",
            "http://arg.com",
            "ftp://example.com/",
            "HTTP://example.com/",
            "http://example.com/x",
            "http://example.com/xy",
            "http://example.com/X",
            "http://a.example.com/y",
            "http://a.example.com/z",
            "http://example.com.",
            "http://example.com:99/x",
            "http://user@example.com/",
            "http://www.x/example.com/Path",
            "//example.com",
            "http://example.com?x",
            "http://example.com#x",
            "http://example.com/y",
            "http://z.com/",
            "http://x.z.com",
            "http://y.com/",
            "http://a.y.com",
            "http://.y.com/",
            "http://b.a.com/y",
            "http://x.b.a.com/y",
            "http://x.b.a.com/x",
            "http://www.q/p",
            "http://www.q/",
            "http://www.q.r:8/pp",
        ]
        .into_iter()
        .chain(long.iter().map(String::as_str))
        {
            cases.push(get(&format!("/{place}/")).field(&format!("Referer: {value}")));
        }
    }
    compare(&Setup::server(&site(), &lines), cases);
}

#[test]
fn browsers() {
    let settings = [
        "",
        "modern_browser msie 1;",
        "modern_browser msie 5.5;",
        "modern_browser msie 5.500;",
        "modern_browser gecko 1.7.12;",
        "modern_browser gecko 1.05; modern_browser unlisted;",
        "modern_browser opera 9.0;",
        "modern_browser safari 413; modern_browser gecko 3;",
        "modern_browser konqueror 3.4; modern_browser unlisted;",
        "modern_browser unlisted; ancient_browser Links Lynx netscape4;",
        "modern_browser unlisted; ancient_browser netscape4;",
        "modern_browser msie 7; modern_browser unlisted;",
        "modern_browser gecko 1; ancient_browser Firefox; modern_browser unlisted;",
        "modern_browser gecko 2; modern_browser gecko 1; modern_browser_value $uri; ancient_browser_value old;",
        "ancient_browser Links;",
    ];
    let agents = [
        "Mozilla/4.0 (compatible; MSIE 6.0; Windows NT 5.1)",
        "Mozilla/4.0 (compatible; MSIE 5.5; Windows 98)",
        "Mozilla/4.0 (compatible; MSIE 5.500)",
        "Mozilla/4.0 (compatible; MSIE abc)",
        "Mozilla/4.0 (compatible; MSIE 6)",
        "Mozilla/5.0 MSIE 6.0",
        "x MSIE 6.0",
        "Mozilla/5.0 (Windows; U; rv:1.7.12) Gecko/20050919 Firefox/1.0.7",
        "Mozilla/5.0 (X11; rv:109.0) Gecko/20100101 Firefox/115.0",
        "Mozilla/5.0 (x rv:1.5a) Gecko/",
        "Mozilla/5.0 rv:1.5 Gecko/",
        "Opera/9.80 (X11) Presto/2.12 Version/12.16",
        "Mozilla/4.0 (compatible; MSIE 6.0; Windows NT 5.1; en) Opera 8.50",
        "Opera",
        "Opera9",
        "Opera 9",
        "Opera Mini",
        "Mozilla/5.0 (Macintosh) AppleWebKit/412 (KHTML, like Gecko) Safari/412",
        "Mozilla/5.0 (Macintosh) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/99 Safari/537.36",
        "Mozilla/5.0 (Macintosh rv:3) AppleWebKit/412 (KHTML, like Gecko) Safari/412",
        "Mozilla/5.0 (compatible; Konqueror/3.4; Linux) KHTML/3.4.1 (like Gecko)",
        "Mozilla/5.0 (compatible; Konqueror/2.2; rv:1.9) (like Gecko)",
        "Links (2.1)",
        "Lynx/2.8",
        "Mozilla/4.08 [en] (Win98; I)",
        "Mozilla/4.5 [",
        "Mozilla/4.5 [e",
        "Mozilla/3.0 (abcdef)",
        "Mozilla/5.0 (abcdef)",
        "Mozilla/0.9 (abcdef)",
        "curl/7",
        "",
    ];
    let mut lines = String::new();
    let mut cases = Vec::new();
    for (number, settings) in settings.iter().enumerate() {
        lines +=
            &format!("location /{number}/ {{ {settings} return 200 \"$modern_browser|$ancient_browser|$msie\"; }}\n");
        cases.push(get(&format!("/{number}/")));
        cases.extend(agents.iter().map(|agent| get(&format!("/{number}/")).field(&format!("User-Agent: {agent}"))));
    }
    compare(&Setup::server(&site(), &lines), cases);
}

#[test]
fn secure_links() {
    let lines = "
        location /s/ { secure_link $arg_md5,$arg_expires; secure_link_md5 \"$secure_link_expires$uri secret\";
            return 200 \"[$secure_link|$secure_link_expires]\"; }
        location /n/ { secure_link $arg_md5; secure_link_md5 \"$uri secret\"; return 200 \"[$secure_link|$secure_link_expires]\"; }
        location /p/ { secure_link_secret word; return 200 \"[$secure_link|$secure_link_expires]\"; }
        location /x/ { return 200 \"[$secure_link|$secure_link_expires]\"; }
        location /o/ { secure_link $arg_md5,$arg_expires; return 200 \"[$secure_link|$secure_link_expires]\"; }
        location /m/ { secure_link_md5 a; return 200 \"[$secure_link|$secure_link_expires]\"; }
    ";
    let mut cases: Vec<Case> = [
        // MD5 of "2000000000/s/a secret", with and without padding, and with a digit too many.
        "/s/a?md5=y6yetYfuGuZ_phiQkyk92Q&expires=2000000000",
        "/s/a?md5=y6yetYfuGuZ_phiQkyk92Q==&expires=2000000000",
        "/s/a?md5=y6yetYfuGuZ_phiQkyk92QX&expires=2000000000",
        "/s/a?md5=y6yetYfuGuZ/phiQkyk92Q&expires=2000000000",
        "/s/b?md5=y6yetYfuGuZ_phiQkyk92Q&expires=2000000000",
        "/s/a?md5=y6yetYfuGuZ_phiQkyk92Q&expires=2000000001",
        // Of "1000/s/a secret", "/s/a secret", "abc/s/a secret", "-1/s/a secret", "0/s/a secret".
        "/s/a?md5=V9I_gJBcg_t21SNB3OaQRQ&expires=1000",
        "/s/a?md5=ZSuYLOh7j_HcJMiX40K8Mg&expires=",
        "/s/a?md5=m9pSbTBGBDA-jOxph0HXWg&expires=abc",
        "/s/a?md5=hyHOLUJbTuWBt2XkQOopnw&expires=-1",
        "/s/a?md5=sXcnGXtzalvfvS3J9cxRQg&expires=0",
        "/s/a?md5=xx&expires=1",
        "/s/a?md5=&expires=1",
        "/s/a",
        // Of "/n/a secret".
        "/n/a?md5=EknnDrYs982PWAm-_ebgWg",
        "/n/a?md5=EknnDrYs982PWAm-_ebgWg,",
        "/n/a?md5=EknnDrYs982PWAm-_ebgWg,123",
        "/n/a?md5=bad",
        "/n/a?md5=",
        // Of "linkword", "l%20kword", "l kword", "word".
        "/p/29245bdc2d04a9e0e729927ed0f84e26/link",
        "/p/29245BDC2D04A9E0E729927ED0F84E26/link",
        "/p/29245bdc2d04a9e0e729927ed0f84e26/link?x=y",
        "/p/29245bdc2d04a9e0e729927ed0f84e26/link/x",
        "/p/9fa0017f9b25693eea71d9ff4943ed91/l%20k",
        "/p/d0af58968e6a549f49939811c9fb0c1c/l%20k",
        "/p/c47d187067c6cf953245f128b5fde62a/",
        "/p/bad/link",
        "/p/00000000000000000000000000000000/link",
        "/p/",
        "/p/x",
        "/x/",
        "/o/?md5=a",
        "/m/",
    ]
    .into_iter()
    .map(get)
    .collect();
    cases.push(head("/x/"));
    cases.push(request("POST", "/p/29245bdc2d04a9e0e729927ed0f84e26/link"));
    cases.push(raw("GET /p/29245bdc2d04a9e0e729927ed0f84e26/link HTTP/1.0\r\n\r\n"));
    compare(&Setup::server(&site(), lines), cases);
}

/// The directives of one kind of links replace those of the other kind that are outside.
#[test]
fn secure_links_of_two_kinds() {
    let show = "return 200 \"[$secure_link|$secure_link_expires]\";";
    let plain = "secure_link $arg_m,$arg_e; secure_link_md5 x;";
    let lines = format!(
        "location /a {{ secure_link_secret word; {show}
            location /a1 {{ {plain} {show} }}
            location /a2 {{ secure_link $arg_m; {show} }}
            location /a3 {{ secure_link_md5 x; {show} }}
            location /a4 {{ secure_link_secret other; {show} }}
            location /a5 {{ {show} }} }}
         location /b {{ {plain} {show}
            location /b1 {{ secure_link_secret word; {show}
                location /b11 {{ secure_link $arg_m; {show} }}
                location /b12 {{ secure_link_md5 x; {show} }}
                location /b13 {{ {show} }}
                location /b14 {{ {plain} {show} }} }}
            location /b2 {{ secure_link_md5 y; {show} }}
            location /b3 {{ {show} }} }}"
    );
    let names = ["a", "a1", "a2", "a3", "a4", "a5", "b", "b1", "b11", "b12", "b13", "b14", "b2", "b3"];
    // MD5 of "x", "linkword".
    let (md5, secret) = ("ndTkYSaMgDT1yFZOFVxnpg", "29245bdc2d04a9e0e729927ed0f84e26");
    let targets = names.iter().flat_map(|name| {
        [
            format!("/{name}/{secret}/link?m={md5}&e=4000000000"),
            format!("/{name}/{secret}/link"),
            format!("/{name}/x?m={md5}"),
            format!("/{name}/x?m={md5}&e=4000000000"),
        ]
    });
    compare(&Setup::server(&site(), &lines), targets.map(|target| get(&target)).collect());
    same_verdicts(&[
        "location /a { secure_link_secret a; secure_link b; }",
        "location /a { secure_link_md5 b; secure_link_secret a; }",
        "secure_link_md5 b; location /a { secure_link_secret a; }",
        "location /a { secure_link_secret a; secure_link_secret b; }",
        "location /a { secure_link a; secure_link_md5 b; secure_link a; }",
    ]);
}

/// A link that needs itself to be checked is none; a worker that follows it round and round is none either.
#[test]
fn secure_links_of_themselves() {
    let lines = "
        location /c/ { secure_link $arg_md5; secure_link_md5 \"x$secure_link\"; return 200 \"[$secure_link]\"; }
        location /e/ { secure_link $secure_link_expires; secure_link_md5 \"$secure_link$secure_link\";
            return 200 \"[$secure_link|$secure_link_expires]\"; }
    ";
    compare(&Setup::server(&site(), lines), ["/c/?md5=AAAAAAAAAAAAAAAAAAAAAA", "/c/?md5=x", "/e/"].map(get).into());
}
