//! Settings of the core that may differ from location to location.

use std::time::Duration;

use freerun_conf::{Buffers, Many, Offset, Size, keyword_enum, settings};
use freerun_proto::conditional::ModifiedSinceMode;
use freerun_serve::configuration::compiled_paths;

use super::Request;
use crate::connection::idle::Keep;
use crate::values::aio::AioSetting;
use crate::values::error_page::ErrorPage;
use crate::values::folder::Folder;
use crate::values::keepalive::{KeepaliveDisable, KeepaliveTimeout};
use crate::values::switch::Switch;
use crate::values::temp_path::TempPath;
use crate::values::types::MediaType;
use crate::values::types::Types;

keyword_enum! {
    /// The values of `satisfy`.
    pub enum Satisfy {
        /// Every handler of the access phase has to agree.
        All = "all",
        /// The agreement of one is enough.
        Any = "any",
    }
}

keyword_enum! {
    /// The values of `if_modified_since`.
    pub enum IfModifiedSince {
        /// The field is ignored.
        Off = "off",
        /// The times must be equal.
        Exact = "exact",
        /// The time of the file must not be later.
        Before = "before",
    }
}

impl From<IfModifiedSince> for ModifiedSinceMode {
    fn from(setting: IfModifiedSince) -> ModifiedSinceMode {
        match setting {
            IfModifiedSince::Off => ModifiedSinceMode::Off,
            IfModifiedSince::Exact => ModifiedSinceMode::Exact,
            IfModifiedSince::Before => ModifiedSinceMode::Before,
        }
    }
}

keyword_enum! {
    /// The values of `lingering_close`.
    pub enum LingeringClose {
        /// Close at once.
        Off = "off",
        /// Wait for more data when the client may still be sending.
        On = "on",
        /// Always wait.
        Always = "always",
    }
}

keyword_enum! {
    /// The values of `server_tokens`.
    pub enum ServerTokens {
        /// Name and version.
        On = "on",
        /// The name alone.
        Off = "off",
        /// Name, version and build; this build has no name, so it is the same as `on`.
        Build = "build",
    }
}

keyword_enum! {
    /// The values of `client_body_in_file_only`.
    pub enum InFileOnly {
        /// Small bodies stay in memory.
        Off = "off",
        /// All bodies go to files, which stay.
        On = "on",
        /// All bodies go to files, which are removed after the request.
        Clean = "clean",
    }
}

settings! {
    /// The HTTP core: files, bodies, keep-alive, timeouts.
    #[module = "core"]
    pub struct CoreSettings {
        /// The folder that the request's path is looked up in.
        root: Folder<Request> = "html", in HTTP | SERVER | LOCATION | LOCATION_IF;
        /// Replaces the part of the path that the location matched.
        ///
        /// In a location given by a regular expression the value is the whole path, and should use its captures.
        alias: Option<Folder<Request>>, in LOCATION, local;
        /// Shows another URI, or another status, for these error statuses.
        error_page: Many<ErrorPage<Request>>, in HTTP | SERVER | LOCATION | LOCATION_IF,
            fidelity = Differs("a page that answers CONNECT with 200 (`=200`) has no `Content-Length`, which a success of CONNECT must not have (RFC 9110 section 9.3.6): clients take it for an open tunnel");
        /// Maps file name extensions to media types.
        types: Types = "", in HTTP | SERVER | LOCATION;
        /// The media type of files whose extension is not in `types`.
        default_type: MediaType = "text/plain", in HTTP | SERVER | LOCATION;
        /// Sends files with sendfile(2), without copying them through the process.
        ///
        /// It is the fastest way for files of more than 32 KB. The kernel sends the pages of the file themselves. If a
        /// file is written to in its place while a client reads it, the bytes that wait in the client's socket change
        /// with it. If it is cut, the missing bytes arrive as zeros before the connection is closed. Files that are
        /// replaced as a whole (written under another name, then renamed) are never affected, and with `off` no byte is
        /// sent that was not read from the file.
        sendfile: bool = "off", in HTTP | SERVER | LOCATION | LOCATION_IF,
            fidelity = Differs("a response that is buffered to a temporary file, which nobody else writes to, is sent with sendfile(2) in any case");
        /// The most that one sendfile(2) call moves; 0 is no limit.
        sendfile_max_chunk: Size = "2m", in HTTP | SERVER | LOCATION;
        /// Sends the response head together with the beginning of the file.
        tcp_nopush: bool = "off", in HTTP | SERVER | LOCATION,
            fidelity = Differs("up to 256 KB the head goes together with the beginning of the file in any case");
        /// Sends small segments at once on keep-alive connections.
        tcp_nodelay: bool = "on", in HTTP | SERVER | LOCATION;
        /// Makes an `ETag` for files.
        etag: bool = "on", in HTTP | SERVER | LOCATION;
        /// The comparison of `If-Modified-Since` with a file's time.
        if_modified_since: IfModifiedSince = "exact", in HTTP | SERVER | LOCATION;
        /// The most ranges that a request may ask for; 0 turns ranges off. A request with more ranges gets the whole
        /// file.
        max_ranges: Option<u32>, in HTTP | SERVER | LOCATION;
        /// The threads for reads that would wait for a disk.
        ///
        /// `auto`, the default, asks the kernel first and uses the pool `default` only for operations that would wait.
        /// `threads[=name]` is the same with a pool of that name, which may contain variables. `threads[=name] always`
        /// hops to the pool for every operation, as nginx does; `off` never leaves the loop. `on` uses the pool.
        aio: AioSetting<Request> = "auto", in HTTP | SERVER | LOCATION,
            fidelity = Differs("`threads` hops only when an operation would wait; `on` is the same as `auto`; `auto` and `always` are ours");
        /// The largest request body that is accepted; 0 is no limit.
        client_max_body_size: Offset = "1m", in HTTP | SERVER | LOCATION;
        /// The longest wait between two reads of a request body. A response that an upstream server has begun meanwhile is passed
        /// on nevertheless; nginx closes the connection.
        client_body_timeout: Duration = "60s", in HTTP | SERVER | LOCATION;
        /// A request body up to this size stays in memory.
        client_body_buffer_size: Size = "16k", in HTTP | SERVER | LOCATION;
        /// Whether a request body that is read goes to a file in any case, named by `$request_body_file`.
        ///
        /// With `on` the file stays after the request, with `clean` it is removed.
        client_body_in_file_only: InFileOnly = "off", in HTTP | SERVER | LOCATION,
            fidelity = Differs("`$request_body_file` has a value only then: other files of bodies have no names");
        /// Whether a request body in memory is kept in one piece.
        client_body_in_single_buffer: bool = "off", in HTTP | SERVER | LOCATION, fidelity = NoEffect("it always is");
        /// The folder for request bodies that do not stay in memory.
        ///
        /// The master makes it for the worker's user, as nginx does. If the compiled-in folder (`-V` prints it) cannot
        /// be made, nginx does not start. freerun makes the folders above it if they are missing. If that fails, it
        /// warns, and answers 500 to requests that need the folder. A folder that the configuration names has to be
        /// usable.
        ///
        /// The levels concern `client_body_in_file_only`: other files of bodies have no names, so that nothing is left of
        /// them. The error log calls such a file by its folder and the number of its inode, as the system does:
        /// `/var/lib/nginx/body/#1234`.
        client_body_temp_path: TempPath = compiled_paths::CLIENT_BODY_TEMP_PATH, in HTTP | SERVER | LOCATION,
            fidelity = Differs("a compiled-in folder that cannot be made is a warning");
        /// The time for which an idle connection is kept, and the value of `Keep-Alive: timeout=`.
        keepalive_timeout: KeepaliveTimeout = "75s", in HTTP | SERVER | LOCATION;
        /// The most requests that one connection may carry.
        keepalive_requests: u32 = "1000", in HTTP | SERVER | LOCATION;
        /// The longest time for which a connection is used; it is closed after the request that passes it.
        keepalive_time: Duration = "1h", in HTTP | SERVER | LOCATION;
        /// The shortest time that an idle connection is kept when a worker ends, or when other connections need its place.
        keepalive_min_timeout: Duration = "0s", in HTTP | SERVER | LOCATION, since = "1.27.4";
        /// Browsers whose connections are not kept for another request.
        keepalive_disable: KeepaliveDisable = "msie6", in HTTP | SERVER | LOCATION;
        /// Whether a connection, before it is closed, reads the bytes that the client still sends, so that the client
        /// can read the answer. A TLS connection whose end marks the end of the response waits, too, while its socket
        /// has no room for the message that ends the session (`close_notify`). Without that message the response would
        /// look cut.
        ///
        /// Over HTTP/3 the rest of a request that was answered is read instead, on its stream, for the same times. Then, and
        /// with `off` at once, the client is asked to stop sending.
        lingering_close: LingeringClose = "on", in HTTP | SERVER | LOCATION;
        /// The longest such wait in all.
        lingering_time: Duration = "30s", in HTTP | SERVER | LOCATION;
        /// The longest such wait between two pieces.
        lingering_timeout: Duration = "5s", in HTTP | SERVER | LOCATION;
        /// Longest wait between two writes of a response.
        send_timeout: Duration = "60s", in HTTP | SERVER | LOCATION;
        /// Whether `Server` and error pages tell the version.
        server_tokens: ServerTokens = "on", in HTTP | SERVER | LOCATION;
        /// Whether a missing file is logged as an error.
        log_not_found: bool = "on", in HTTP | SERVER | LOCATION;
        /// Whether `Location` is made a complete URL.
        absolute_redirect: bool = "on", in HTTP | SERVER | LOCATION;
        /// Whether such a URL uses the first `server_name` instead of the host that the client asked for.
        server_name_in_redirect: bool = "off", in HTTP | SERVER | LOCATION;
        /// Whether such a URL has the port.
        port_in_redirect: bool = "on", in HTTP | SERVER | LOCATION;
        /// Number and size of the buffers a file is read into when it is not sent with sendfile.
        output_buffers: Buffers = "2 32k", in HTTP | SERVER | LOCATION,
            fidelity = Differs("one buffer of this size is used, for TLS, HTTP/2 and filters; with `directio`, one as large as all of them together; a plain connection of HTTP/1 needs none, as each loop has a buffer of 256 KB for all of them");
        /// Whether a body of unknown length is sent in chunks to clients of HTTP/1.1; if not, it ends with the connection.
        chunked_transfer_encoding: bool = "on", in HTTP | SERVER | LOCATION;
        /// The location serves only requests that the server makes itself (error pages, `try_files`); others get 404.
        internal: Switch, in LOCATION;
        /// Whether every handler of the access phase has to agree (`all`), or one is enough (`any`).
        satisfy: Satisfy = "all", in HTTP | SERVER | LOCATION;
        /// The time for which an answer of 401 waits, so that guessing passwords takes time.
        auth_delay: Duration = "0s", in HTTP | SERVER | LOCATION;
        /// The URI or named location where a request goes on inside the server when its response has been sent, or
        /// could not be sent to its end. Nothing is sent to the client then, whose next request waits. The log line
        /// comes after it, and has the status of that answer if it is an error.
        post_action: Option<String>, in HTTP | SERVER | LOCATION;
        /// Whether subrequests are logged in the access log.
        log_subrequest: bool = "off", in HTTP | SERVER | LOCATION;
        /// Whether `error_page` applies to the answer of an error page too.
        recursive_error_pages: bool = "off", in HTTP | SERVER | LOCATION | LOCATION_IF;
    }
}

impl CoreSettings {
    /// The time that a connection is kept without a request (`keepalive_timeout`, `keepalive_min_timeout`).
    #[inline]
    pub fn keep(&self) -> Keep {
        Keep { most: self.keepalive_timeout.timeout, least: self.keepalive_min_timeout }
    }
}
