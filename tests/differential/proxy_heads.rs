//! What a server behind says of its answer with `X-Accel-…`, and what else becomes of heads: fields that come twice, ranges
//! that are offered here, errors within error pages.

use crate::harness::{get, head, request};
use crate::proxied::{compare_proxied, with_fields};

#[test]
fn a_named_location_gets_the_request_as_it_was() {
    let lines = "
        location /a { proxy_pass http://@UP@; }
        location /nb { proxy_request_buffering off; proxy_pass http://@UP@; }
        location @named { proxy_intercept_errors on; proxy_ignore_headers X-Accel-Redirect; \
            proxy_set_header Connection \"\"; \
            proxy_set_header X-M \"$request_method|$uri|$args\"; proxy_pass http://@UP@; }
        location @own { return 200 \"$request_method $uri $args\"; }
        location /uri { proxy_ignore_headers X-Accel-Redirect; proxy_pass http://@UP@/second; proxy_set_header Connection \"\"; \
            proxy_set_header X-M \"$request_method|$uri|$args\"; }
    ";
    let large = "x".repeat(100_000);
    let mut cases = Vec::new();
    for target in ["@named", "@own", "/uri?q=2"] {
        let field = format!("X-Accel-Redirect: {target}");
        for method in ["POST", "PUT", "DELETE", "FOO"] {
            for body in ["bod", "", &large] {
                let length = format!("Content-Length: {}", body.len());
                let case = request(method, "/a/o?arg=1").field(&length).body(body);
                cases.push(with_fields(case, "200 OK", &[&field]));
            }
            // Of what was passed on as it came nothing is left, and a request is not passed on without its body.
            let case = request(method, "/nb/o").field("Content-Length: 3").body("bod");
            let reason = "a body that is passed on as it comes is not kept";
            cases.push(match target {
                "@named" => {
                    with_fields(case.differs(reason, "HTTP/1.1 500 Internal Server Error"), "200 OK", &[&field])
                        .asks_otherwise(reason)
                }
                "@own" => with_fields(case, "200 OK", &[&field]),
                _ => with_fields(case, "200 OK", &[&field]).asks_otherwise(reason),
            });
            let case = request(method, "/a/c").field("Transfer-Encoding: chunked").body("3\r\nbod\r\n0\r\n\r\n");
            cases.push(with_fields(case, "404 No", &[&field]));
        }
        cases.push(with_fields(head("/a/h"), "200 OK", &[&field]));
        cases.push(with_fields(get("/a/g"), "200 OK", &[&field]));
    }
    compare_proxied("", lines, cases);
}
