//! The words about the handlers of each module, and which of them run for an explanation.

/// The way in which a handler takes part in an explanation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HandlerPart {
    /// The handler runs: it looks at the request, at files and at its own memory alone.
    Runs,
    /// The handler would ask another server whether the request may pass: it is taken as passed.
    Passes,
    /// The handler would send something elsewhere beside the answer, or wait: it is left out.
    LeftOut,
    /// The handler would answer with what only a running server knows, or change something: 200 is assumed.
    Answers,
    /// The handler passes the request on to another server.
    PassesOn,
}

/// The words about a module's handlers.
#[derive(Debug)]
pub struct HandlerWords {
    /// The module.
    pub module: &'static str,
    /// The directives that are shown.
    pub directives: &'static [&'static str],
    /// The way in which they take part.
    pub part: HandlerPart,
}

const fn words(module: &'static str, directives: &'static [&'static str], part: HandlerPart) -> HandlerWords {
    HandlerWords { module, directives, part }
}

/// All modules with handlers before the log.
pub const HANDLERS: &[HandlerWords] = &[
    words("realip", &["set_real_ip_from", "real_ip_header", "real_ip_recursive"], HandlerPart::Runs),
    words("more_headers", &["more_set_input_headers", "more_clear_input_headers"], HandlerPart::Runs),
    words("access", &["satisfy", "allow", "deny"], HandlerPart::Runs),
    words("auth_basic", &["auth_basic", "auth_basic_user_file"], HandlerPart::Runs),
    words("auth_jwt", &["auth_jwt", "auth_jwt_key_file", "auth_jwt_key_request"], HandlerPart::Runs),
    words("auth_request", &["auth_request"], HandlerPart::Passes),
    words("auth_require", &["auth_require"], HandlerPart::Runs),
    words("limit_req", &["limit_req"], HandlerPart::Runs),
    words("limit_conn", &["limit_conn"], HandlerPart::Runs),
    words("internal_redirect", &["internal_redirect"], HandlerPart::Runs),
    words("try_files", &["try_files"], HandlerPart::Runs),
    words("mirror", &["mirror"], HandlerPart::LeftOut),
    words("otel", &["otel_trace", "otel_trace_context"], HandlerPart::LeftOut),
    words("proxy", &["proxy_pass"], HandlerPart::PassesOn),
    words("grpc", &["grpc_pass"], HandlerPart::PassesOn),
    words("fastcgi", &["fastcgi_pass"], HandlerPart::PassesOn),
    words("uwsgi", &["uwsgi_pass"], HandlerPart::PassesOn),
    words("scgi", &["scgi_pass"], HandlerPart::PassesOn),
    words("memcached", &["memcached_pass"], HandlerPart::PassesOn),
    words("tunnel", &["tunnel_pass"], HandlerPart::PassesOn),
    words("echo", &["echo", "echo_location", "echo_sleep", "echo_subrequest"], HandlerPart::Answers),
    words("status", &["status"], HandlerPart::Answers),
    words("api", &["api"], HandlerPart::Answers),
    words("dav_ext", &["dav_ext_methods"], HandlerPart::Answers),
    words("dav", &["dav_methods"], HandlerPart::Answers),
    words("mp4", &["mp4"], HandlerPart::Runs),
    words("flv", &["flv"], HandlerPart::Runs),
    words("stub_status", &["stub_status"], HandlerPart::Answers),
    words("empty_gif", &["empty_gif"], HandlerPart::Runs),
    words("random_index", &["random_index"], HandlerPart::Runs),
    words("index", &["index"], HandlerPart::Runs),
    words("fancyindex", &["fancyindex"], HandlerPart::Runs),
    words("autoindex", &["autoindex"], HandlerPart::Runs),
    words("gzip_static", &["gzip_static", "brotli_static", "zstd_static"], HandlerPart::Runs),
    words("static", &[], HandlerPart::Runs),
    words("debug/block", &[], HandlerPart::Runs),
    words("debug/sandbox", &[], HandlerPart::Answers),
];

/// The words about a module.
pub fn words_of(module: &str) -> Option<&'static HandlerWords> {
    HANDLERS.iter().find(|words| words.module == module)
}

#[cfg(test)]
mod tests {
    use freerun_http::request::handler::Phase;

    use super::*;
    use crate::configuration::{modules, registry};

    #[test]
    fn every_module_with_handlers_has_words() {
        for module in modules() {
            let has_any = module.handlers.iter().any(|handler| handler.phase != Phase::Log);
            assert_eq!(has_any, words_of(module.name).is_some(), "{}", module.name);
            let passes_on = freerun_proxy::description::is_member(module.name);
            let part = words_of(module.name).map(|words| words.part);
            assert_eq!(passes_on, part == Some(HandlerPart::PassesOn), "{}", module.name);
        }
        for name in HANDLERS.iter().flat_map(|words| words.directives) {
            assert!(registry().knows(name), "{name}");
        }
    }
}
