//! `load_module`: freerun loads no foreign code, but accepts the lines that distributions write for functions that are
//! built in.

use freerun_conf::{Cx, Node, Place, Problem, Shape, Value};

/// Modules whose function is built in: the name of nginx's module, the file's name without `.so`. That they are not loaded
/// changes nothing, so nothing is said of it.
const BUILT_IN: &[&str] = &[
    "ndk_http_module",
    "ngx_http_acme_module",
    "ngx_http_brotli_filter_module",
    "ngx_http_brotli_static_module",
    "ngx_http_cache_purge_module",
    "ngx_http_dav_ext_module",
    "ngx_http_echo_module",
    "ngx_http_fancyindex_module",
    "ngx_http_geoip2_module",
    "ngx_http_headers_more_filter_module",
    "ngx_http_set_misc_module",
    "ngx_http_subs_filter_module",
    "ngx_http_zstd_filter_module",
    "ngx_http_zstd_static_module",
    "ngx_stream_geoip2_module",
    "ngx_stream_module",
];

/// Modules that do nothing until one of their directives is used, and that distributions load as soon as they are
/// installed. freerun does not have them: their directives are unknown.
const INERT: &[&str] = &[
    "ngx_http_auth_pam_module",
    "ngx_http_auth_spnego_module",
    "ngx_http_geoip_module",
    "ngx_http_image_filter_module",
    "ngx_http_js_module",
    "ngx_http_lua_module",
    "ngx_http_perl_module",
    "ngx_http_uploadprogress_module",
    "ngx_http_upstream_fair_module",
    "ngx_http_xslt_filter_module",
    "ngx_mail_module",
    "ngx_nchan_module",
    "ngx_rtmp_module",
    "ngx_stream_geoip_module",
    "ngx_stream_js_module",
];

/// A `load_module` directive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoadModule {
    /// The module's name.
    pub name: String,
    /// The place of the directive's beginning.
    pub place: Place,
    /// The place of the directive's end.
    pub end: Place,
    /// The directive's place in the order of reading.
    pub order: u32,
}

/// The names of the modules so far, for nginx's message about a second one.
#[derive(Default)]
struct LoadedModules(Vec<String>);

impl Value for LoadModule {
    const SHAPE: Shape = Shape::exactly(1, "file");

    fn parse(node: &Node, cx: &mut Cx) -> Result<LoadModule, Problem> {
        let word = &node.args[0];
        let file = word.text.rsplit('/').next().unwrap_or_default();
        let name = file.strip_suffix(".so").unwrap_or(file).to_owned();
        let loaded = cx.extensions.get_or_default::<LoadedModules>();
        if loaded.0.contains(&name) {
            return Err(Problem::new(format!("module \"{name}\" is already loaded")).at(word.place));
        }
        loaded.0.push(name.clone());
        if BUILT_IN.contains(&name.as_str()) {
            // It is there.
        } else if INERT.contains(&name.as_str()) {
            let message =
                format!("module \"{name}\" is not loaded: there is no such module, its directives are unknown");
            cx.warn(Problem::warning(message).at_node(node));
        } else {
            return Err(Problem::new(format!("module \"{}\" cannot be loaded", word.text))
                .at(word.place)
                .hint("freerun loads no modules; see its reference for what is built in"));
        }
        Ok(LoadModule { name, place: node.name.place, end: node.end, order: node.order })
    }
}

impl LoadModule {
    /// nginx's refusal of a module that is loaded after a block was read.
    pub fn too_late(&self) -> Problem {
        let mut problem = Problem::new("\"load_module\" directive is specified too late");
        problem.order = Some(self.order);
        problem.at(self.place).reported_at(self.end)
    }
}
