//! The variables that nginx 1.31.5 documents, with their modules.
//!
//! The names come from nginx's public documentation (its index of variables). A name that ends in `_` is a family.

/// Every module with its variables, sorted by name.
#[rustfmt::skip]
static DOCUMENTED: &[(&str, &str)] = &[
    ("ngx_http_acme_module", "\
        acme_certificate acme_certificate_key"),
    ("ngx_http_auth_jwt_module", "\
        jwt_claim_ jwt_header_ jwt_payload"),
    ("ngx_http_browser_module", "\
        ancient_browser modern_browser msie"),
    ("ngx_http_core_module", "\
        arg_ args binary_remote_addr body_bytes_sent bytes_sent connection connection_requests connection_time \
        content_length content_type cookie_ document_root document_uri host hostname http_ https is_args \
        is_request_port limit_rate msec nginx_version pid pipe proxy_protocol_addr proxy_protocol_port \
        proxy_protocol_server_addr proxy_protocol_server_port proxy_protocol_tlv_ query_string realpath_root \
        remote_addr remote_port remote_user request request_body request_body_file request_completion \
        request_filename request_id request_length request_method request_port request_time request_uri scheme \
        sent_http_ sent_trailer_ server_addr server_name server_port server_protocol status tcpinfo_rcv_space \
        tcpinfo_rtt tcpinfo_rttvar tcpinfo_snd_cwnd time_iso8601 time_iso8601_ms time_local uri"),
    ("ngx_http_fastcgi_module", "\
        fastcgi_path_info fastcgi_script_name"),
    ("ngx_http_geoip_module", "\
        geoip_area_code geoip_city geoip_city_continent_code geoip_city_country_code geoip_city_country_code3 \
        geoip_city_country_name geoip_country_code geoip_country_code3 geoip_country_name geoip_dma_code \
        geoip_latitude geoip_longitude geoip_org geoip_postal_code geoip_region geoip_region_name"),
    ("ngx_http_gzip_module", "\
        gzip_ratio"),
    ("ngx_http_limit_conn_module", "\
        limit_conn_status"),
    ("ngx_http_limit_req_module", "\
        limit_req_status"),
    ("ngx_http_log_module", "\
        bytes_sent connection connection_requests msec pipe request_length request_time status time_iso8601 \
        time_local"),
    ("ngx_http_memcached_module", "\
        memcached_key"),
    ("ngx_http_oidc_module", "\
        oidc_access_token oidc_claim_ oidc_id_token oidc_userinfo"),
    ("ngx_http_proxy_module", "\
        proxy_add_x_forwarded_for proxy_host proxy_port"),
    ("ngx_http_proxy_protocol_vendor_module", "\
        proxy_protocol_tlv_aws_vpce_id proxy_protocol_tlv_azure_pel_id proxy_protocol_tlv_gcp_conn_id"),
    ("ngx_http_realip_module", "\
        realip_remote_addr realip_remote_port"),
    ("ngx_http_referer_module", "\
        invalid_referer"),
    ("ngx_http_secure_link_module", "\
        secure_link secure_link_expires"),
    ("ngx_http_session_log_module", "\
        session_log_binary_id session_log_id"),
    ("ngx_http_slice_module", "\
        slice_range"),
    ("ngx_http_ssi_module", "\
        date_gmt date_local"),
    ("ngx_http_ssl_module", "\
        ssl_alpn_protocol ssl_cipher ssl_ciphers ssl_client_cert ssl_client_escaped_cert ssl_client_fingerprint \
        ssl_client_i_dn ssl_client_i_dn_legacy ssl_client_raw_cert ssl_client_s_dn ssl_client_s_dn_legacy \
        ssl_client_serial ssl_client_sigalg ssl_client_v_end ssl_client_v_remain ssl_client_v_start \
        ssl_client_verify ssl_curve ssl_curves ssl_early_data ssl_ech_outer_server_name ssl_ech_status ssl_protocol \
        ssl_server_name ssl_session_id ssl_session_reused ssl_sigalg ssl_sigalgs"),
    ("ngx_http_stub_status_module", "\
        connections_active connections_reading connections_waiting connections_writing"),
    ("ngx_http_upstream_module", "\
        upstream_addr upstream_bytes_received upstream_bytes_sent upstream_cache_status upstream_connect_time \
        upstream_cookie_ upstream_header_time upstream_http_ upstream_last_addr upstream_last_server_name \
        upstream_queue_time upstream_response_length upstream_response_time upstream_status upstream_trailer_"),
    ("ngx_http_userid_module", "\
        uid_got uid_reset uid_set"),
    ("ngx_http_v2_module", "\
        http2"),
    ("ngx_http_v3_module", "\
        http3"),
    ("ngx_otel_module", "\
        otel_parent_id otel_parent_sampled otel_span_id otel_trace_id"),
    ("ngx_stream_core_module", "\
        binary_remote_addr bytes_received bytes_sent connection hostname msec nginx_version pid protocol \
        proxy_protocol_addr proxy_protocol_port proxy_protocol_server_addr proxy_protocol_server_port \
        proxy_protocol_tlv_ remote_addr remote_port server_addr server_port session_time status time_iso8601 \
        time_iso8601_ms time_local"),
    ("ngx_stream_geoip_module", "\
        geoip_area_code geoip_city geoip_city_continent_code geoip_city_country_code geoip_city_country_code3 \
        geoip_city_country_name geoip_country_code geoip_country_code3 geoip_country_name geoip_dma_code \
        geoip_latitude geoip_longitude geoip_org geoip_postal_code geoip_region geoip_region_name"),
    ("ngx_stream_limit_conn_module", "\
        limit_conn_status"),
    ("ngx_stream_mqtt_preread_module", "\
        mqtt_preread_clientid mqtt_preread_username"),
    ("ngx_stream_proxy_protocol_vendor_module", "\
        proxy_protocol_tlv_aws_vpce_id proxy_protocol_tlv_azure_pel_id proxy_protocol_tlv_gcp_conn_id"),
    ("ngx_stream_realip_module", "\
        realip_remote_addr realip_remote_port"),
    ("ngx_stream_ssl_module", "\
        ssl_alpn_protocol ssl_cipher ssl_ciphers ssl_client_cert ssl_client_fingerprint ssl_client_i_dn \
        ssl_client_raw_cert ssl_client_s_dn ssl_client_serial ssl_client_sigalg ssl_client_v_end ssl_client_v_remain \
        ssl_client_v_start ssl_client_verify ssl_curve ssl_curves ssl_ech_outer_server_name ssl_ech_status \
        ssl_protocol ssl_server_name ssl_session_id ssl_session_reused ssl_sigalg ssl_sigalgs"),
    ("ngx_stream_ssl_preread_module", "\
        ssl_preread_alpn_protocols ssl_preread_protocol ssl_preread_server_name"),
    ("ngx_stream_upstream_module", "\
        upstream_addr upstream_bytes_received upstream_bytes_sent upstream_connect_time upstream_first_byte_time \
        upstream_last_addr upstream_session_time"),
];

/// Every module with the names of its variables, without the `$`.
pub fn modules() -> impl Iterator<Item = (&'static str, impl Iterator<Item = &'static str>)> {
    DOCUMENTED.iter().map(|(module, names)| (*module, names.split_whitespace()))
}

/// The module of nginx that has a variable of this name, for requests of http or for sessions of stream.
pub fn module(name: &str, of_stream: bool) -> Option<&'static str> {
    let belongs = |module: &str| module.starts_with(if of_stream { "ngx_stream_" } else { "ngx_http_" });
    let mut having = modules().filter_map(|(module, mut names)| names.any(|known| known == name).then_some(module));
    having.find(|module| belongs(module))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_sorted_and_each_is_there_once_in_a_module() {
        for (module, names) in modules() {
            let names: Vec<&str> = names.collect();
            assert!(names.windows(2).all(|pair| pair[0] < pair[1]), "{module}");
        }
    }

    #[test]
    fn a_module_is_of_the_protocol() {
        assert_eq!(module("status", false), Some("ngx_http_core_module"));
        assert_eq!(module("status", true), Some("ngx_stream_core_module"));
        assert_eq!(module("uri", true), None);
        assert_eq!(module("ur", false), None);
    }
}
