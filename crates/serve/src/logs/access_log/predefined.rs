//! The texts of the formats of HTTP that need no `log_format`.

/// nginx's predefined format, `combined`.
pub const COMBINED: &str = "$remote_addr - $remote_user [$time_local] \"$request\" $status $body_bytes_sent \
                            \"$http_referer\" \"$http_user_agent\"";

/// The format `json`, which has `escape=json`. What may be missing, or be a list, is a string.
pub const JSON: &str = concat!(
    r#"{"time":"$time_iso8601","remote_addr":"$remote_addr","remote_user":"$remote_user","method":"$request_method","#,
    r#""host":"$host","uri":"$request_uri","protocol":"$server_protocol","status":"$status","#,
    r#""body_bytes_sent":$body_bytes_sent,"request_length":$request_length,"request_time":$request_time,"#,
    r#""referer":"$http_referer","user_agent":"$http_user_agent","request_id":"$request_id","#,
    r#""upstream_addr":"$upstream_addr","upstream_status":"$upstream_status","#,
    r#""upstream_response_time":"$upstream_response_time","upstream_cache_status":"$upstream_cache_status"}"#,
);
