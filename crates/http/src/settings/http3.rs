//! The directives of HTTP/3 and QUIC towards clients (`http3_…`, `quic_…`).
//!
//! <https://nginx.org/en/docs/http/ngx_http_v3_module.html>

use freerun_conf::{Cx, Node, Problem, Shape, Size, Value, settings};
use freerun_runtime::log::Errno;
use freerun_serve::tls::files::{ConfigurationFiles, Secret, full_path};

settings! {
    /// HTTP/3 towards clients.
    #[module = "http3"]
    pub struct Http3Settings {
        /// Whether the server speaks HTTP/3 at its addresses with `listen … quic`.
        ///
        /// A request for a server without it, on a connection of HTTP/3 that another server at the address has agreed to, is
        /// answered with 421.
        http3: bool = "on", in HTTP | SERVER, since = "1.25.0";
        /// Whether clients may open a WebSocket, or another protocol that HTTP/1 has `Upgrade` for, on a stream: the extended
        /// CONNECT of RFC 9220.
        http3_extended_connect: bool = "off", in HTTP | SERVER, fidelity = Own;
        /// Whether clients may speak HTTP/0.9 over QUIC (`hq-interop` in ALPN), as tests of the interoperation of QUIC do.
        ///
        /// The server that the client names in its handshake (SNI) decides, or the address's default server if it names none. What
        /// other servers at the address have does not matter. Requests name no host, so the address's default server answers
        /// them all, or the server with the empty name.
        http3_hq: bool = "off", in HTTP | SERVER, since = "1.25.0";
        /// Number of requests of a connection that may be open at once.
        http3_max_concurrent_streams: usize = "128", in HTTP | SERVER, since = "1.25.0";
        /// Number of bytes that a client may send on one stream before somebody reads them. On all streams of a connection together
        /// it may send eight times as many.
        http3_stream_buffer_size: Size = "64k", in HTTP | SERVER, since = "1.25.0",
            fidelity = Differs("less than 1m counts as that, so that a client does not send 64 KiB in a round trip; and what a response has on its way is not bounded by it, but follows the congestion window of the connection");
        /// Number of connection IDs that a client may give to the server at once. It is read, and changes nothing: a client may
        /// always give five, which is enough for connections that change their paths.
        quic_active_connection_id_limit: usize = "2", in HTTP | SERVER, since = "1.25.0",
            fidelity = NoEffect("the number is always five");
        /// Whether packets to one client leave as one message, which the kernel or the network card takes apart
        /// (`UDP_SEGMENT`). Without the directive they do wherever the kernel has it, and no longer after it has failed once.
        quic_gso: Option<bool>, in HTTP | SERVER, since = "1.25.0",
            fidelity = Differs("in nginx the default is `off`; `on` and no directive at all are the same here");
        /// File with a secret, at least 32 random bytes, for the tokens that clients show when they come back, and for resets
        /// of connections that are not known any more.
        ///
        /// Several machines that have one address need the same file. Without one the master makes a secret when it starts,
        /// and hands it on to a new binary: tokens stay valid over reloads and upgrades. The file is read with the
        /// configuration. Connection IDs depend on it, too: while the binary is changed (`USR2`), the file had better stay
        /// the same, or connections of the old binary break.
        ///
        /// All packets of a connection have to reach the machine that has it: another machine with the same file resets the
        /// connection (RFC 9000 section 21.11).
        quic_host_key: Option<HostKey>, in HTTP | SERVER, since = "1.25.0",
            fidelity = Differs("without it, nginx makes a secret anew with each reload");
        /// Whether every client has to show that it receives packets at its address, before anything is done for it. It gets a
        /// token, and begins again with that (Retry, RFC 9000 section 8.1.2).
        ///
        /// That costs a round trip. Where it is off, clients have to do that only while too many handshakes are under way.
        quic_retry: bool = "off", in HTTP | SERVER, since = "1.25.0",
            fidelity = Differs("nginx never sends Retry while it is off");
    }
}

impl Http3Settings {
    /// The names that the server offers by ALPN in a handshake of QUIC, the most preferred first. There is none if it speaks
    /// nothing over QUIC.
    pub fn alpn(&self) -> Vec<&'static [u8]> {
        let (h3, hq) = (self.http3.then_some(&b"h3"[..]), self.http3_hq.then_some(&b"hq-interop"[..]));
        h3.into_iter().chain(hq).collect()
    }
}

/// The contents of the file of `quic_host_key`. What is done with them does not depend on their number, so there may be any
/// but none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostKey(Secret);

impl HostKey {
    /// The contents.
    pub fn secret(&self) -> &Secret {
        &self.0
    }
}

impl Value for HostKey {
    const SHAPE: Shape = Shape::exactly(1, "file");

    fn parse(directive: &Node, cx: &mut Cx) -> Result<HostKey, Problem> {
        let word = &directive.args[0];
        let path = full_path(&word.text, cx);
        let read = cx.extensions.get_or_default::<ConfigurationFiles>().get_whole(&path);
        let secret = read.map_err(|(call, error)| {
            Problem::new(format!("{call} \"{path}\" failed ({})", Errno(&error))).at_node(directive).at(word.place)
        })?;
        if secret.bytes().is_empty() {
            return Err(Problem::new(format!("\"{path}\" zero key size")).at_node(directive).at(word.place));
        }
        Ok(HostKey(secret))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use freerun_conf::testing::{LevelSettings, read_level};
    use freerun_conf::{Contexts, group};

    fn read(text: &str) -> Result<Http3Settings, String> {
        let LevelSettings { set, warnings } = read_level(&[group::<Http3Settings>()], Contexts::HTTP, text)?;
        assert!(warnings.is_empty(), "{warnings:?}");
        Ok(set.get::<Http3Settings>().clone())
    }

    #[test]
    fn values_are_read() {
        let set = read("").unwrap();
        assert_eq!((set.http3, set.http3_hq, set.http3_extended_connect), (true, false, false));
        assert_eq!((set.http3_max_concurrent_streams, set.http3_stream_buffer_size.0), (128, 65536));
        assert_eq!((set.quic_active_connection_id_limit, set.quic_gso, set.quic_retry), (2, None, false));
        assert_eq!((set.alpn(), set.quic_host_key), (vec![&b"h3"[..]], None));
        let set = read(
            "http3 off; http3_hq on; http3_extended_connect on; http3_max_concurrent_streams 0;
            http3_stream_buffer_size 1m; quic_active_connection_id_limit 1; quic_gso off; quic_retry on;",
        )
        .unwrap();
        assert_eq!((set.alpn(), set.http3_extended_connect), (vec![&b"hq-interop"[..]], true));
        assert_eq!((set.http3_max_concurrent_streams, set.http3_stream_buffer_size.0), (0, 1 << 20));
        assert_eq!((set.quic_active_connection_id_limit, set.quic_gso, set.quic_retry), (1, Some(false), true));
        assert_eq!(read("http3_hq on;").unwrap().alpn(), [&b"h3"[..], b"hq-interop"]);
        assert!(read("http3 off;").unwrap().alpn().is_empty());
    }

    #[test]
    fn what_nginx_refuses_is_refused_in_its_words() {
        let rows = [
            ("http3 yes;", "invalid value \"yes\" in \"http3\" directive, it must be \"on\" or \"off\""),
            ("http3 on; http3 off;", "\"http3\" directive is duplicate"),
            ("http3_max_concurrent_streams -1;", "\"http3_max_concurrent_streams\" directive invalid number"),
            ("http3_stream_buffer_size 2g;", "\"http3_stream_buffer_size\" directive invalid value"),
            ("quic_active_connection_id_limit x;", "\"quic_active_connection_id_limit\" directive invalid number"),
            ("quic_gso auto;", "invalid value \"auto\" in \"quic_gso\" directive, it must be \"on\" or \"off\""),
            ("quic_host_key /none;", "open() \"/none\" failed (2: No such file or directory)"),
        ];
        for (text, message) in rows {
            assert_eq!(read(text).err().as_deref(), Some(message), "{text}");
        }
    }
}
