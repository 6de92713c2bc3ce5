//! `proxy_redirect` and `proxy_cookie_…`.

use crate::harness::get;
use crate::t13_proxy::proxied::{Proxied, compare_proxied, with_fields};

#[test]
fn redirects() {
    let lines = "
        location /d/ { proxy_pass http://@UP@/two/; }
        location /n/ { proxy_pass http://@UP@; }
        location = /x/ { proxy_pass http://@UP@/two/; }
        location ~ ^/rx/ { proxy_pass http://@UP@; }
        location /off/ { proxy_redirect off; proxy_pass http://@UP@; }
        location /one/ { proxy_redirect http://a/b/ /c/; proxy_redirect http://q/ http://$host:8000/; proxy_pass http://@UP@/two/; proxy_redirect default; }
        location /re/ { proxy_redirect ~^http://([^:]+):\\d+(/.+)$ http://$1$2; proxy_redirect ~*/USER/([^/]+)/(.+)$ http://$1.example.com/$2; proxy_pass http://@UP@; }
        location /reu/ { proxy_redirect ~*redirect /x; proxy_pass http://@UP@; }
        location /rel/ { proxy_redirect http://a/ /; proxy_pass http://@UP@; }
        location /slash/ { proxy_redirect / /pre/; proxy_pass http://@UP@; }
        location /var/ { set $p 127.0.0.1; proxy_pass http://$p:@UPPORT@/two/; proxy_redirect http://$host/ http://v/$arg_x/; }
        location /vd/ { set $p 127.0.0.1; proxy_pass http://$p:@UPPORT@/two/; }
        location /na/ { absolute_redirect off; proxy_redirect http://a/ /; proxy_pass http://@UP@; }
        location /outer/ { proxy_redirect http://a/ /outer/; location /outer/in/ { proxy_pass http://@UP@; } }
        location /empty/ { proxy_redirect http://a \"\"; proxy_pass http://@UP@; }
        location /named/ { proxy_redirect ~^http://(?<h>[^/]+)/(?<rest>.*) /$h/$rest; proxy_pass http://@UP@; }
    ";
    let mut cases: Vec<Proxied> = Vec::new();
    let paths = [
        "/d/",
        "/n/",
        "/x/",
        "/rx/",
        "/off/",
        "/one/",
        "/re/",
        "/reu/",
        "/rel/",
        "/slash/",
        "/var/?x=q",
        "/vd/",
        "/na/",
        "/outer/in/",
        "/empty/",
        "/named/",
    ];
    for path in paths {
        for location in [
            "http://127.0.0.1:UPPORT/two/some",
            "http://127.0.0.1:UPPORT/other",
            "http://a/b/c",
            "http://q/r",
            "http://h:99/user/bob/x",
            "/two/x",
            "/user/ann/y?z",
            "xxredirectyy",
            "http://localhost/w",
            "HTTP://127.0.0.1:UPPORT/two/",
        ] {
            cases.push(with_fields(
                get(path).in_order(),
                "302 Found",
                &["X: y", &format!("Location: {location}"), "Z: z"],
            ));
        }
    }
    for status in ["200 OK", "201 Created", "301 Moved", "404 Not"] {
        cases.push(with_fields(get("/one/"), status, &["Location: http://a/b/x"]));
    }
    for path in ["/one/", "/re/", "/rel/", "/off/"] {
        for refresh in [
            "0; url=http://a/b/c",
            "0;URL=http://a/b/c",
            "5; url=\"http://a/b/c\"",
            "5",
            "0; URL= http://a/b/x",
            "/b; url=http://a/b/",
        ] {
            cases.push(with_fields(get(path), "200 OK", &[&format!("Refresh: {refresh}")]));
        }
    }
    compare_proxied("", lines, cases);
}

#[test]
fn cookies() {
    let lines = "
        location /c/ { proxy_cookie_domain localhost example.org; proxy_cookie_domain www.$host $host; proxy_cookie_domain ~^RE\\.(.*)$ $1; \
            proxy_cookie_domain .dot.org .new.org; proxy_cookie_domain ~q(?<tail>.*) r$tail; \
            proxy_cookie_path /two/ /; proxy_cookie_path $uri /some$uri; proxy_cookie_path ~*^/user/([^/]+) /u/$1; proxy_cookie_path ~^/CASE /k; proxy_pass http://@UP@; }
        location /coff/ { proxy_cookie_domain off; proxy_cookie_path off; proxy_pass http://@UP@; }
        location /inh/ { proxy_cookie_path / /inh/; proxy_cookie_domain localhost other;
            location /inh/a { proxy_pass http://@UP@; }
            location /inh/b { proxy_cookie_path off; proxy_pass http://@UP@; } }
    ";
    let mut cases = Vec::new();
    for path in ["/c/", "/coff/", "/inh/a", "/inh/b"] {
        for cookie in [
            "a=b",
            "a=b;Secure",
            "a=b; domain=localhost",
            "a=b; Domain=LocalHost; Path=/two/x",
            "a=b;domain=.localhost;path=/two/",
            "a=b; path=/two",
            "a=b; path=/c/",
            "a=b; path=/USER/bob/x; HttpOnly",
            "a=b; path=/case/x",
            "a=b; path=/x/two/",
            "a=b; domain=www.localhost",
            "a=b; domain=re.x.org; Path=/two/; Path=/two/",
            "a=b; domain=dot.org",
            "a=b; domain=.dot.org",
            "a=b; domain=xqtail",
            "a=b; domain=localhost.org",
            "a=b; domain=\"localhost\"",
            "a=b; domain = localhost",
            "a=b; domain",
            "a=b; domain=; path=",
            "a=b; secure; expires=Wed, 21 Oct 2015 07:28:00 GMT; path=/two/",
            "domain=localhost",
            "a=b;; ; path=/two/;",
            "novalue; path=/two/",
            "",
        ] {
            cases.push(with_fields(get(path), "200 OK", &[&format!("Set-Cookie: {cookie}")]));
        }
    }
    cases.push(with_fields(
        get("/c/").in_order(),
        "200 OK",
        &["Set-Cookie: a=b; path=/two/", "X: y", "Set-Cookie: c=d; path=/two/x"],
    ));
    compare_proxied("", lines, cases);
}

#[test]
fn cookie_flags() {
    let lines = "
        location /fl/ { proxy_cookie_flags one httponly; proxy_cookie_flags ~two secure samesite=strict; proxy_cookie_flags three nosecure \
            nohttponly nosamesite; proxy_cookie_flags $arg_n samesite=lax; proxy_pass http://@UP@; }
        location /all/ { proxy_cookie_flags ~ secure httponly samesite=none; proxy_pass http://@UP@; }
        location /off/ { proxy_cookie_flags off; proxy_pass http://@UP@; }
        location /both/ { proxy_cookie_flags ~ secure; proxy_cookie_path / /both/; proxy_cookie_domain localhost other; proxy_pass http://@UP@; }
    ";
    let mut cases = Vec::new();
    for path in ["/fl/?n=four", "/fl/", "/all/", "/off/", "/both/"] {
        for cookie in [
            "one=b",
            "ONE=b",
            "one=b; HttpOnly",
            "xtwoy=1; SameSite=None",
            "xTWOy=1",
            "two=1; secure; path=/",
            "three=1; Secure; HttpOnly; SameSite=Lax; Path=/x; secure",
            "four=1; samesite=strict",
            "four=x; domain=localhost",
            "one",
            "=x",
            "three=1;Secure;x=y; HttpOnly",
            "other=1",
        ] {
            cases.push(with_fields(get(path), "200 OK", &[&format!("Set-Cookie: {cookie}")]));
        }
    }
    compare_proxied("", lines, cases);
}
