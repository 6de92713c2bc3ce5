//! Directives of modules by others than nginx's authors, and of programs that were made of nginx: their owners, and
//! what does the same in freerun. The facts are from the public documentation of each.

use std::collections::HashMap;
use std::sync::LazyLock;

/// A module or a program with its directives.
pub(super) struct OtherModule {
    /// Its name.
    pub program: &'static str,
    /// Its directives; a `*` at the end of one stands for any text.
    names: &'static str,
    /// The replacement in freerun, as the end of a sentence; empty if there is none.
    pub instead: &'static str,
}

const fn other(program: &'static str, names: &'static str, instead: &'static str) -> OtherModule {
    OtherModule { program, names, instead }
}

/// The replacement for a module's requests to other protocols than HTTP.
const AS_SERVER: &str = "pass the request on to a program that asks";

#[rustfmt::skip]
static OTHERS: &[OtherModule] = &[
    other("lua-nginx-module (OpenResty)", "\
        lua_* access_by_lua* balancer_by_lua* body_filter_by_lua* content_by_lua* exit_worker_by_lua* header_filter_by_lua* \
        init_by_lua* init_worker_by_lua* log_by_lua* preread_by_lua* proxy_ssl_certificate_by_lua* proxy_ssl_verify_by_lua* \
        rewrite_by_lua* server_rewrite_by_lua* set_by_lua* ssl_certificate_by_lua* ssl_client_hello_by_lua* \
        ssl_session_fetch_by_lua* ssl_session_store_by_lua*", ""),
    other("array-var-nginx-module", "array_join array_map array_map_op array_split", ""),
    other("drizzle-nginx-module", "drizzle_*", AS_SERVER),
    other("encrypted-session-nginx-module", "encrypted_session_* set_decrypt_session set_encrypt_session", ""),
    other("form-input-nginx-module", "set_form_input set_form_input_multi", ""),
    other("iconv-nginx-module", "iconv_buffer_size iconv_filter set_iconv", "\"charset\" changes encodings of one byte"),
    other("memc-nginx-module", "memc_*", "\"memcached_pass\" reads"),
    other("ngx_postgres", "postgres_*", AS_SERVER),
    other("rds-json-nginx-module", "rds_csv* rds_json*", ""),
    other("redis2-nginx-module", "redis2_*", AS_SERVER),
    other("ngx_http_redis", "redis_*", AS_SERVER),
    other("srcache-nginx-module", "srcache_*", "\"proxy_cache\" and its kin keep responses"),
    other("xss-nginx-module", "xss_*", ""),
    other("ModSecurity-nginx", "modsecurity modsecurity_*", ""),
    other("NAXSI", "\
        BasicRule CheckRule DeniedUrl LearningMode LibInjectionSql LibInjectionXss MainRule NaxsiLogFile \
        SecRulesDisabled SecRulesEnabled basic_rule check_rule denied_url learning_mode main_rule rules_enabled", ""),
    other("testcookie-nginx-module", "testcookie testcookie_*", ""),
    other("nginx-module-vts", "vhost_traffic_status*", "\"status;\" shows figures, for Prometheus, too"),
    other("nginx-module-sts", "\
        server_traffic_status* stream_server_traffic_status*", "\"status;\" shows figures, for Prometheus, too"),
    other("nginx-module-stream-sts", "sts_*", "\"status;\" shows figures, for Prometheus, too"),
    other("nginx-rtmp-module", "rtmp rtmp_*", ""),
    other("nginx-vod-module", "vod vod_*", ""),
    other("nchan", "nchan_*", ""),
    other("nginx-push-stream-module", "push_stream_*", ""),
    other("ngx_pagespeed", "pagespeed", ""),
    other("nginx-upload-module", "upload_*", "\"dav_methods PUT;\" stores request bodies"),
    other("nginx-upload-progress-module", "report_uploads track_uploads upload_progress*", ""),
    other("nginx_upstream_check_module (Tengine)", "\
        check check_fastcgi_param check_http_expect_alive check_http_send check_keepalive_requests check_shm_size \
        check_status", "\"health_check;\" in the location that passes requests on checks the servers of its group"),
    other("Tengine", "\
        concat concat_* dyups_* footer footer_types limit_tcp* proxy_upstream_tries req_status req_status_* \
        reset_server server_admin server_info session_sticky session_sticky_* ssl_async sysguard \
        sysguard_* tfs_* trim trim_css trim_js upstream_show user_agent", ""),
    other("Angie", "\
        acme acme_client acme_client_path acme_cookie acme_dns_port acme_hook acme_http_port", "\
        \"acme_issuer\" and \"acme_certificate\", or \"ssl_certificate auto;\", order certificates"),
    other("Angie", "upstream_probe upstream_probe_timeout", "\"health_check\" checks servers"),
    other("Angie", "prometheus prometheus_template", "\"status;\" answers with \"?format=prometheus\""),
    other("Angie", "\
        api_config_files auto_redirect backup_switch bind_conn docker_endpoint docker_max_object_size feedback \
        http_metric_* metric metric_complex_zone metric_zone rdp_preread response_time_factor sticky_secret \
        sticky_strict", ""),
    other("ngx_http_auth_pam_module", "auth_pam auth_pam_*", "\"auth_request\" asks another server"),
    other("nginx-auth-ldap", "auth_ldap auth_ldap_* ldap_server", "\"auth_request\" asks another server"),
    other("spnego-http-auth-nginx-module", "auth_gss auth_gss_*", "\"auth_request\" asks another server"),
    other("ngx_http_auth_digest", "auth_digest auth_digest_*", "\"auth_basic\" over https asks for a password, too"),
    other("nginx-upstream-fair", "fair upstream_fair_shm_size", "\"least_conn;\" asks the server with the fewest requests"),
    other("nginx-upsync-module", "upsync upsync_*", "\"server name resolve;\" follows what DNS says"),
    other("ngx_http_proxy_connect_module", "proxy_connect proxy_connect_*", "\"tunnel_pass;\" answers CONNECT"),
    other("ngx_slowfs_cache", "slowfs_*", "files that wait for a disk never hold up others here"),
    other("Passenger", "passenger_*", "\"proxy_pass\" asks an application that is a server itself"),
    other("nginx-opentracing", "opentracing opentracing_*", ""),
    other("otel-webserver-module", "NginxModule* opentelemetry opentelemetry_*", ""),
    other("nginx-datadog", "datadog_*", ""),
    other("nginx-length-hiding-filter-module", "length_hiding length_hiding_max", ""),
    other("nginx-ct", "ssl_ct ssl_ct_static_scts", ""),
    other("ngx_small_light", "small_light small_light_*", ""),
];

/// Owners of each name, and of each beginning of names that stands for many.
struct ByName {
    whole: HashMap<&'static str, &'static OtherModule>,
    many: Vec<(&'static str, &'static OtherModule)>,
}

static BY_NAME: LazyLock<ByName> = LazyLock::new(|| {
    let many = all().filter_map(|(name, other)| Some((name.strip_suffix('*')?, other)));
    ByName { whole: all().filter(|(name, _)| !name.ends_with('*')).collect(), many: many.collect() }
});

fn all() -> impl Iterator<Item = (&'static str, &'static OtherModule)> {
    OTHERS.iter().flat_map(|other| other.names.split_whitespace().map(move |name| (name, other)))
}

/// The owner of a directive of this name; a whole name comes before a beginning that stands for many.
pub(super) fn find(name: &str) -> Option<&'static OtherModule> {
    let many = || BY_NAME.many.iter().find(|(begin, _)| name.starts_with(begin)).map(|(_, other)| *other);
    BY_NAME.whole.get(name).copied().or_else(many)
}

/// The names that stand for one directive each.
#[cfg(test)]
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    all().map(|(name, _)| name).filter(|name| !name.ends_with('*'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_there_once() {
        let mut names: Vec<&str> = all().map(|(name, _)| name).collect();
        names.sort_unstable();
        assert_eq!(names.windows(2).find(|pair| pair[0] == pair[1]), None);
    }

    #[test]
    fn a_whole_name_comes_first() {
        assert!(find("upload_progress_x").is_some_and(|other| other.program.starts_with("nginx-upload")));
        assert!(find("rtmp").is_some_and(|other| other.program == "nginx-rtmp-module" && other.instead.is_empty()));
        assert!(find("rtm").is_none());
    }
}
