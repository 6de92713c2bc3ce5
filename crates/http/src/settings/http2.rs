//! The directives of HTTP/2 towards clients (`http2_…`).
//!
//! <https://nginx.org/en/docs/http/ngx_http_v2_module.html>

use freerun_conf::{Cx, Node, Problem, Setting, Shape, Value, parse_size, settings};

settings! {
    /// HTTP/2 towards clients.
    #[module = "http2"]
    pub struct Http2Settings {
        /// Whether the server speaks HTTP/2.
        ///
        /// With TLS the server that the client names offers it by ALPN. Without TLS a connection whose first bytes are
        /// the preface of HTTP/2 has it, if the default server of the address has it; HTTP/1 is spoken on the same
        /// port. A request for a server without HTTP/2, on an HTTP/2 connection of another server, is answered with 421.
        http2: bool = "off", in HTTP | SERVER, since = "1.25.1";
        /// Number of bytes of a request's body that a client may send before somebody reads them.
        http2_body_preread_size: PrereadSize = "64k", in HTTP | SERVER;
        /// The most bytes of a response's body in one frame. More than 2^24 - 1 counts as that.
        http2_chunk_size: ChunkSize = "8k", in HTTP | SERVER | LOCATION;
        /// Whether clients may open a WebSocket, or another protocol that HTTP/1 has `Upgrade` for, on a stream: the extended
        /// CONNECT of RFC 8441.
        http2_extended_connect: bool = "off", in HTTP | SERVER, fidelity = Own;
        /// Number of streams of a connection that may be open at once.
        http2_max_concurrent_streams: usize = "128", in HTTP | SERVER;
        /// Memory for a connection.
        http2_pool_size: PoolSize = "4k", in HTTP | SERVER, fidelity = NoEffect("there are no such pools");
        /// The size of the buffer that frames are received in. All connections of an event loop receive into one, one after the
        /// other. It is never smaller than a frame, and stays as it is until the process ends, whatever a reload says.
        http2_recv_buffer_size: ReceiveSize = "256k", in HTTP;
        /// The size of the table of a connection's streams.
        http2_streams_index_size: IndexSize = "32", in HTTP | SERVER, fidelity = NoEffect("tables size themselves");
        /// The time for which an idle connection is kept.
        #[name = "http2_idle_timeout"]
        obsolete: Obsolete, in HTTP | SERVER, fidelity = NoEffect("`keepalive_timeout` has taken its place in nginx 1.19.7");
    }
    also {
        /// Number of pushes that may be open at once.
        "http2_max_concurrent_pushes" => obsolete: Obsolete::SHAPE, in HTTP | SERVER,
            fidelity = NoEffect("nginx has no server push since 1.25.1");
        /// The largest field of a compressed request head.
        "http2_max_field_size" => obsolete: Obsolete::SHAPE, in HTTP | SERVER,
            fidelity = NoEffect("`large_client_header_buffers` has taken its place in nginx 1.19.7");
        /// The largest request head.
        "http2_max_header_size" => obsolete: Obsolete::SHAPE, in HTTP | SERVER,
            fidelity = NoEffect("`large_client_header_buffers` has taken its place in nginx 1.19.7");
        /// The most requests that one connection may carry.
        "http2_max_requests" => obsolete: Obsolete::SHAPE, in HTTP | SERVER,
            fidelity = NoEffect("`keepalive_requests` has taken its place in nginx 1.19.7");
        /// The resource that is pushed to the client beside the response.
        "http2_push" => obsolete: Obsolete::SHAPE, in HTTP | SERVER | LOCATION,
            fidelity = NoEffect("nginx has no server push since 1.25.1");
        /// Whether what `Link` names in a response is pushed.
        "http2_push_preload" => obsolete: Obsolete::SHAPE, in HTTP | SERVER | LOCATION,
            fidelity = NoEffect("nginx has no server push since 1.25.1");
        /// The longest time that a client may take to send more.
        "http2_recv_timeout" => obsolete: Obsolete::SHAPE, in HTTP | SERVER,
            fidelity = NoEffect("`client_header_timeout` has taken its place in nginx 1.19.7");
    }
}

impl Http2Settings {
    /// `http2_max_concurrent_streams`, as the field of a SETTINGS frame has room for it.
    pub fn max_streams(&self) -> u32 {
        u32::try_from(self.http2_max_concurrent_streams).unwrap_or(u32::MAX)
    }
}

/// The value of a size that a check of its own has to let through.
fn size(directive: &Node, is_right: impl FnOnce(u64) -> Result<(), Problem>) -> Result<u64, Problem> {
    let word = directive.args.first().ok_or_else(|| Problem::wrong_count(directive))?;
    let size = parse_size(&word.text).ok_or_else(|| Problem::invalid_value(directive, word))?;
    is_right(size).map_err(|problem| problem.at_node(directive).at(word.place))?;
    Ok(size)
}

/// A check that fails with this message where `is_right` does not hold.
fn check(is_right: bool, message: impl Into<String>) -> Result<(), Problem> {
    if is_right { Ok(()) } else { Err(Problem::new(message)) }
}

/// The value of `http2_body_preread_size` in bytes: the window of a stream, which has at most 31 bits (RFC 9113 section 6.9.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PrereadSize(pub u32);

impl PrereadSize {
    const MAX: u32 = (1 << 31) - 1;
}

impl Value for PrereadSize {
    const SHAPE: Shape = Shape::exactly(1, "size");

    fn parse(directive: &Node, _: &mut Cx) -> Result<PrereadSize, Problem> {
        let max = PrereadSize::MAX;
        let fits = |size| check(size <= u64::from(max), format!("the maximum body preread buffer size is {max}"));
        Ok(PrereadSize(u32::try_from(size(directive, fits)?).unwrap_or(max)))
    }
}

/// The value of `http2_chunk_size`: the most bytes of a DATA frame's payload, from 1 to 2^24 - 1 (RFC 9113 section 4.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChunkSize(pub u32);

impl ChunkSize {
    const MAX: u32 = (1 << 24) - 1;
}

impl Value for ChunkSize {
    const SHAPE: Shape = Shape::exactly(1, "size");

    fn parse(directive: &Node, _: &mut Cx) -> Result<ChunkSize, Problem> {
        let size = size(directive, |size| check(size != 0, "the http2 chunk size cannot be zero"))?;
        Ok(ChunkSize(u32::try_from(size).unwrap_or(u32::MAX).min(ChunkSize::MAX)))
    }
}

/// The value of `http2_recv_buffer_size` in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReceiveSize(pub u64);

impl ReceiveSize {
    /// A larger one is accepted.
    const TOO_SMALL: u64 = 32;
}

impl Value for ReceiveSize {
    const SHAPE: Shape = Shape::exactly(1, "size");

    fn parse(directive: &Node, _: &mut Cx) -> Result<ReceiveSize, Problem> {
        let message = format!("\"{}\" directive value is too small", directive.name.text);
        size(directive, |size| check(size > ReceiveSize::TOO_SMALL, message)).map(ReceiveSize)
    }
}

/// The value of `http2_pool_size` in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PoolSize(pub u64);

impl PoolSize {
    /// The smallest size that nginx accepts on 64-bit systems.
    const MIN: u64 = 112;
}

impl Value for PoolSize {
    const SHAPE: Shape = Shape::exactly(1, "size");

    fn parse(directive: &Node, _: &mut Cx) -> Result<PoolSize, Problem> {
        let is_right = |size| {
            check(size >= PoolSize::MIN, format!("the pool size must be no less than {}", PoolSize::MIN))?;
            check(size % 16 == 0, "the pool size must be a multiple of 16")
        };
        size(directive, is_right).map(PoolSize)
    }
}

/// The value of `http2_streams_index_size`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IndexSize(pub usize);

impl Value for IndexSize {
    const SHAPE: Shape = Shape::exactly(1, "number");

    fn parse(directive: &Node, cx: &mut Cx) -> Result<IndexSize, Problem> {
        let number = usize::parse(directive, cx)?;
        let message = format!("\"{}\" directive must be a power of two", directive.name.text);
        check(number.is_power_of_two(), message).map_err(|problem| problem.at_node(directive))?;
        Ok(IndexSize(number))
    }
}

/// A directive that nginx has had and that does nothing any more. It may be written as often as one likes, with any
/// value; a warning says what takes its place.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Obsolete;

impl Obsolete {
    fn successor(name: &str) -> Option<&'static str> {
        match name {
            "http2_idle_timeout" => Some("keepalive_timeout"),
            "http2_max_field_size" | "http2_max_header_size" => Some("large_client_header_buffers"),
            "http2_max_requests" => Some("keepalive_requests"),
            "http2_recv_timeout" => Some("client_header_timeout"),
            _ => None,
        }
    }
}

impl Setting for Obsolete {
    const SHAPE: Shape = Shape::exactly(1, "value");

    fn set(_: Option<Obsolete>, directive: &Node, cx: &mut Cx) -> Result<Obsolete, Problem> {
        let name = &directive.name.text;
        let message = match Obsolete::successor(name) {
            Some(other) => format!("the \"{name}\" directive is obsolete, use the \"{other}\" directive instead"),
            None => format!("the \"{name}\" directive is obsolete, ignored"),
        };
        cx.warn(Problem::warning(message).at_node(directive));
        Ok(Obsolete)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use freerun_conf::testing::{LevelSettings, read_level};
    use freerun_conf::{Contexts, group};

    fn read(text: &str) -> Result<(Http2Settings, Vec<String>), String> {
        let LevelSettings { set, warnings } = read_level(&[group::<Http2Settings>()], Contexts::HTTP, text)?;
        Ok((set.get::<Http2Settings>().clone(), warnings))
    }

    #[test]
    fn values_are_read() {
        let (set, warnings) = read("").unwrap();
        assert_eq!((set.http2, set.http2_extended_connect, set.max_streams()), (false, false, 128));
        assert_eq!((set.http2_body_preread_size.0, set.http2_chunk_size.0), (65536, 8192));
        assert!(warnings.is_empty());
        let (set, warnings) = read(
            "http2 on; http2_extended_connect on; http2_chunk_size 20m; http2_body_preread_size 2147483647;
            http2_max_concurrent_streams 4294967296; http2_recv_buffer_size 33; http2_pool_size 112;
            http2_streams_index_size 1;",
        )
        .unwrap();
        assert_eq!((set.http2, set.http2_extended_connect, set.max_streams()), (true, true, u32::MAX));
        assert_eq!((set.http2_body_preread_size.0, set.http2_chunk_size.0), ((1 << 31) - 1, (1 << 24) - 1));
        assert!(warnings.is_empty());
        assert_eq!(read("http2_body_preread_size 0;").unwrap().0.http2_body_preread_size.0, 0);
    }

    #[test]
    fn what_nginx_refuses_is_refused_in_its_words() {
        let rows = [
            ("http2 yes;", "invalid value \"yes\" in \"http2\" directive, it must be \"on\" or \"off\""),
            ("http2_body_preread_size 2g;", "\"http2_body_preread_size\" directive invalid value"),
            ("http2_body_preread_size 2147483648;", "the maximum body preread buffer size is 2147483647"),
            ("http2_chunk_size 0;", "the http2 chunk size cannot be zero"),
            ("http2_chunk_size -1;", "\"http2_chunk_size\" directive invalid value"),
            ("http2_recv_buffer_size 32;", "\"http2_recv_buffer_size\" directive value is too small"),
            ("http2_pool_size 96;", "the pool size must be no less than 112"),
            ("http2_pool_size 130;", "the pool size must be a multiple of 16"),
            ("http2_streams_index_size 3;", "\"http2_streams_index_size\" directive must be a power of two"),
            ("http2_streams_index_size 0;", "\"http2_streams_index_size\" directive must be a power of two"),
            ("http2_max_concurrent_streams -1;", "\"http2_max_concurrent_streams\" directive invalid number"),
            ("http2_chunk_size 1k; http2_chunk_size 1k;", "\"http2_chunk_size\" directive is duplicate"),
            ("http2_max_requests;", "invalid number of arguments in \"http2_max_requests\" directive"),
        ];
        for (text, message) in rows {
            assert_eq!(read(text).err().as_deref(), Some(message), "{text}");
        }
    }

    #[test]
    fn obsolete_directives_say_what_to_use_instead() {
        let (_, warnings) = read(
            "http2_max_requests x; http2_max_requests 2; http2_max_field_size 4k; http2_max_header_size 4k;
            http2_recv_timeout 1s; http2_idle_timeout 1s; http2_push /x; http2_push_preload on;
            http2_max_concurrent_pushes 1;",
        )
        .unwrap();
        let instead =
            |name, other| format!("the \"{name}\" directive is obsolete, use the \"{other}\" directive instead");
        let ignored = |name| format!("the \"{name}\" directive is obsolete, ignored");
        assert_eq!(
            warnings,
            [
                instead("http2_max_requests", "keepalive_requests"),
                instead("http2_max_requests", "keepalive_requests"),
                instead("http2_max_field_size", "large_client_header_buffers"),
                instead("http2_max_header_size", "large_client_header_buffers"),
                instead("http2_recv_timeout", "client_header_timeout"),
                instead("http2_idle_timeout", "keepalive_timeout"),
                ignored("http2_push"),
                ignored("http2_push_preload"),
                ignored("http2_max_concurrent_pushes"),
            ]
        );
    }
}
