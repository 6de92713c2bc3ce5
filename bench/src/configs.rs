//! The configuration each server is started with.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;

use crate::error::{Error, ErrorContext, Result};
use crate::spec::{Kind, Spec};
use crate::user::User;

/// The address that a server listens on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Addresses {
    /// Without TLS.
    pub plain: SocketAddr,
    /// With each of the certificates of [`Spec::secure`].
    pub secure: Vec<SocketAddr>,
}

/// The path of nginx's module for stream in Debian.
const STREAM_MODULE: &str = "/usr/lib/nginx/modules/ngx_stream_module.so";

/// The line that loads a program's module for stream: empty where that is built in.
pub fn load_stream(kind: Kind) -> Result<String> {
    match kind {
        Kind::Nginx if Path::new(STREAM_MODULE).exists() => Ok(format!("load_module {STREAM_MODULE};\n")),
        Kind::Nginx => Err(Error::Setup("nginx has no stream: apt-get install libnginx-mod-stream".into())),
        _ => Ok(String::new()),
    }
}

/// Writes the configuration of `spec` into `folder`; answers the program's arguments.
pub fn write(spec: &Spec, folder: &Path, addresses: &Addresses, user: Option<&User>) -> Result<Vec<String>> {
    let address = addresses.plain;
    let put = |name: &str, text: String| {
        let path = folder.join(name);
        fs::write(&path, text).doing(path.display())?;
        Ok(path.display().to_string())
    };
    let place = folder.display().to_string();
    match spec.kind {
        Kind::Nginx | Kind::Freerun => {
            put("mime.types", MIME_TYPES.to_owned())?;
            let text = match &spec.whole {
                Some(text) => whole(text, spec, &place, address, user),
                None => nginx(spec, &place, addresses, user),
            };
            let file = put("nginx.conf", text)?;
            let log = format!("{place}/error.log");
            Ok(["-c", &file, "-p", &place, "-e", &log].map(ToOwned::to_owned).to_vec())
        }
        Kind::H2o => {
            let file = put("h2o.conf", h2o(spec, addresses, user))?;
            Ok(["-m", "worker", "-c", &file].map(ToOwned::to_owned).to_vec())
        }
        Kind::Lighttpd => {
            let file = put("lighttpd.conf", lighttpd(spec, address, user))?;
            Ok(["-D", "-f", &file].map(ToOwned::to_owned).to_vec())
        }
        Kind::Haproxy => {
            let text = match &spec.whole {
                Some(text) => text.replace("@ADDRESS@", &address.to_string()).replace("@USER@", &haproxy_user(user)),
                None => haproxy(spec, address, user),
            };
            let file = put("haproxy.cfg", text)?;
            Ok(["-db", "-f", &file].map(ToOwned::to_owned).to_vec())
        }
        Kind::Floor => {
            let text = spec.whole.as_deref().unwrap_or_default().replace("@ADDRESS@", &address.to_string());
            Ok(std::iter::once(FLOOR_ARGUMENT.to_owned()).chain(text.lines().map(ToOwned::to_owned)).collect())
        }
        Kind::Varnish => {
            let file = put("default.vcl", varnish(spec))?;
            let work = format!("{place}/work");
            let (listen, memory) = (format!("{address},HTTP"), "malloc,512m");
            // No jail: its user could not enter the folder everywhere.
            let args =
                ["-F", "-j", "none", "-a", &listen, "-f", &file, "-s", memory, "-n", &work, "-T", "none", "-t", "3600"];
            Ok(args.map(ToOwned::to_owned).to_vec())
        }
    }
}

const MIME_TYPES: &str = "types {\n    text/html html htm;\n    text/plain txt;\n}\n";

/// The first argument that makes this program the floor that others are compared with.
pub const FLOOR_ARGUMENT: &str = "floor-program";

/// The path that answers without a file in nginx and freerun.
pub const OK_PATH: &str = "/ok";

/// The path that tells the generation of the configuration, in nginx and freerun.
pub const GENERATION_PATH: &str = "/generation";

/// The path of freerun's own figures.
pub const STATUS_PATH: &str = "/status";

/// The versions that clients use; nginx 1.22 leaves out the latest by default.
const TLS_VERSIONS: &str = "TLSv1.2 TLSv1.3";

/// The name of a proxy's upstream.
const BACKEND: &str = "backend";

/// The names of the temporary folders, where nginx would use its built-in ones.
fn temporary(spec: &Spec, place: &str) -> String {
    if spec.kind != Kind::Nginx {
        return String::new();
    }
    ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .map(|name| format!("{name}_temp_path {place}/{name}_temp;\n"))
        .concat()
}

/// A configuration that is there already, with what tells one server from another.
fn whole(text: &str, spec: &Spec, place: &str, address: SocketAddr, user: Option<&User>) -> String {
    let user = user.map_or_else(String::new, |user| format!("user {} {};\n", user.name, user.group));
    let status =
        if spec.kind == Kind::Freerun { format!("location = {STATUS_PATH} {{ status; }}") } else { String::new() };
    let text = text.replace("@ADDRESS@", &address.to_string()).replace("@DIR@", place);
    let text = text.replace("@PORT@", &address.port().to_string());
    let text = text.replace("@STATUS@", &status).replace("@TEMPORARY@", &temporary(spec, place));
    format!("daemon off;\n{user}pid {place}/pid;\nerror_log {place}/error.log notice;\n{text}")
}

/// In nginx's language.
fn nginx(spec: &Spec, place: &str, addresses: &Addresses, user: Option<&User>) -> String {
    let line = |text: Option<String>| text.map_or_else(String::new, |text| format!("{text};\n"));
    let Spec { workers, connections, .. } = spec;
    let main = spec.main.replace("@DIR@", place);
    let http = spec.http.replace("@DIR@", place);
    let root = spec.root.display();
    let user = line(user.map(|user| format!("user {} {}", user.name, user.group)));
    let mutex = line(spec.accept_mutex.map(|on| format!("accept_mutex {}", if on { "on" } else { "off" })));
    let chunk = line(spec.max_chunk.map(|size| format!("sendfile_max_chunk {size}")));
    let aio = line(spec.aio.map(|value| format!("aio {value}")));
    let (upstream, content) = match spec.upstream {
        Some(upstream) => (
            format!("upstream {BACKEND} {{\nserver {upstream};\nkeepalive 256;\n}}\n"),
            format!("proxy_pass http://{BACKEND};\nproxy_http_version 1.1;\n{}", spec.passing),
        ),
        None => (String::new(), format!("root {root};\n{aio}")),
    };
    let temporary = temporary(spec, place);
    let servers = nginx_servers(spec, addresses, &content);
    format!(
        "daemon off;\n{main}{user}worker_processes {workers};\npid {place}/pid;\n\
         error_log {place}/error.log;\n\
         events {{\nworker_connections {connections};\n{mutex}}}\n\
         http {{\ninclude mime.types;\ndefault_type application/octet-stream;\naccess_log {};\nsendfile on;\n{chunk}\
         keepalive_timeout 600s;\nkeepalive_requests 1000000000;\n{temporary}{http}{upstream}\
         {servers}}}\n",
        spec.access_log
    )
}

/// The server without TLS, and then the server of each certificate.
fn nginx_servers(spec: &Spec, addresses: &Addresses, content: &str) -> String {
    let reuseport = if spec.reuseport { " reuseport" } else { "" };
    let sndbuf = if spec.sndbuf.is_empty() { String::new() } else { format!(" sndbuf={}", spec.sndbuf) };
    let status = match spec.kind {
        Kind::Freerun => format!("location = {STATUS_PATH} {{ status; }}\n"),
        _ => String::new(),
    };
    let server = |address: &SocketAddr, ssl: &str, certificate: &str| {
        format!(
            "server {{\nlisten {address}{ssl}{reuseport}{sndbuf};\n{certificate}\
             location / {{\n{content}}}\n\
             location = {OK_PATH} {{ return 200 \"OK\"; }}\n\
             location = {GENERATION_PATH} {{ return 200 \"{}\"; }}\n{}{status}}}\n",
            spec.generation,
            spec.lines.replace("@ADDRESS@", &address.to_string()),
        )
    };
    let http2 = if spec.http2 { " http2" } else { "" };
    let secure = spec.secure.iter().zip(&addresses.secure).map(|(files, address)| {
        let (certificate, key) = (files.certificate.display(), files.key.display());
        let lines =
            format!("ssl_certificate {certificate};\nssl_certificate_key {key};\nssl_protocols {TLS_VERSIONS};\n");
        server(address, &format!(" ssl{http2}"), &lines)
    });
    server(&addresses.plain, http2, "") + &secure.collect::<String>()
}

/// Neither it nor lighttpd writes a log or a pid file: they would open them as the workers' user.
fn h2o(spec: &Spec, addresses: &Addresses, user: Option<&User>) -> String {
    let user = user.map_or_else(String::new, |user| format!("user: {}\n", user.name));
    let Spec { workers, connections, .. } = spec;
    let listen = |address: &SocketAddr, ssl: &str| {
        format!("listen:\n  host: {}\n  port: {}\n{ssl}", address.ip(), address.port())
    };
    let secure = spec.secure.iter().zip(&addresses.secure).map(|(files, address)| {
        let (certificate, key) = (files.certificate.display(), files.key.display());
        listen(address, &format!("  ssl:\n    certificate-file: {certificate}\n    key-file: {key}\n"))
    });
    let all = listen(&addresses.plain, "") + &secure.collect::<String>();
    format!(
        "{user}num-threads: {workers}\nmax-connections: {connections}\nhttp1-request-timeout: 600\n{all}\
         hosts:\n  default:\n    paths:\n      \"/\":\n        file.dir: {}\n",
        spec.root.display()
    )
}

fn lighttpd(spec: &Spec, address: SocketAddr, user: Option<&User>) -> String {
    let user = user.map_or_else(String::new, |user| {
        format!("server.username = \"{}\"\nserver.groupname = \"{}\"\n", user.name, user.group)
    });
    // With one worker lighttpd serves from its only process; `server.max-worker` would add a master.
    let workers = if spec.workers > 1 { format!("server.max-worker = {}\n", spec.workers) } else { String::new() };
    format!(
        "{user}{workers}server.document-root = \"{}\"\nserver.bind = \"{}\"\nserver.port = {}\n\
         server.max-keep-alive-requests = 65535\nserver.max-keep-alive-idle = 600\nserver.max-read-idle = 600\n\
         server.max-write-idle = 600\nserver.max-fds = 19000\nserver.max-connections = {}\n\
         mimetype.assign = ( \".html\" => \"text/html\", \"\" => \"application/octet-stream\" )\n",
        spec.root.display(),
        address.ip(),
        address.port(),
        spec.connections.min(18_000),
    )
}

/// Everything is kept for an hour, whatever the upstream says of it.
fn varnish(spec: &Spec) -> String {
    let upstream = spec.upstream.map_or_else(|| "127.0.0.1:1".to_owned(), |upstream| upstream.to_string());
    let (host, port) = upstream.rsplit_once(':').unwrap_or((&upstream, "80"));
    format!(
        "vcl 4.1;\nbackend default {{ .host = \"{host}\"; .port = \"{port}\"; }}\n\
         sub vcl_backend_response {{ set beresp.ttl = 1h; }}\n"
    )
}

/// The user that HAProxy's workers run as.
fn haproxy_user(user: Option<&User>) -> String {
    user.map_or_else(String::new, |user| format!("    user {}\n    group {}\n", user.name, user.group))
}

/// A thread of the master-less process for each requested worker; connections to the server are shared by all clients.
fn haproxy(spec: &Spec, address: SocketAddr, user: Option<&User>) -> String {
    let user = haproxy_user(user);
    let Spec { workers, connections, .. } = spec;
    let upstream = spec.upstream.map_or_else(String::new, |upstream| upstream.to_string());
    format!(
        "global\n    nbthread {workers}\n    maxconn {connections}\n{user}defaults\n    mode http\n    timeout connect 10s\n    \
         timeout client 600s\n    timeout server 600s\n    http-reuse always\nfrontend clients\n    bind {address}\n    \
         default_backend {BACKEND}\nbackend {BACKEND}\n    server upstream {upstream}\n"
    )
}
