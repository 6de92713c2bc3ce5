//! Settings of the core about moving bytes; most have no effect here.

use freerun_conf::{Cx, Node, Offset, Problem, Shape, Size, Value, parse_offset, parse_size, settings};

use crate::request::Request;
use crate::values::conditions::Conditions;

settings! {
    /// The HTTP core: how bytes are moved, and old browsers.
    #[module = "transfer"]
    pub struct TransferSettings {
        /// Files from this size on are read past the page cache, by the thread pools.
        ///
        /// `sendfile` is not used for them. They are read in pieces of all `output_buffers` together, but at least 64 KB and
        /// at most 1 MB, each when the one before was sent. On a file system that does not have
        /// `O_DIRECT` they are read as usual.
        directio: DirectIo = "off", in HTTP | SERVER | LOCATION;
        /// The alignment of such reads: their offsets, lengths and memory are multiples of it. It is a power of two from 512 on;
        /// another number becomes the next power of two. A read that the disk refuses is tried again with 4096.
        directio_alignment: Offset = "512", in HTTP | SERVER | LOCATION;
        /// Number of bytes that the kernel is asked to read ahead of a file.
        read_ahead: Size = "0", in HTTP | SERVER | LOCATION,
            fidelity = NoEffect("Linux takes no size, and what the thread pools are about to send is asked for in advance anyway");
        /// The head and the first pieces of a response wait until this many bytes are together.
        ///
        /// It concerns responses that are made piece by piece; files always leave in large pieces. 0 sends every piece
        /// as it is made.
        postpone_output: Size = "1460", in HTTP | SERVER | LOCATION;
        /// Number of bytes that must fit the socket before it counts as writable.
        send_lowat: LowWater = "0", in HTTP | SERVER | LOCATION,
            fidelity = NoEffect("Linux does not have it; nginx warns there, too");
        /// The longest answer of a subrequest that goes into a variable (`include` with `set`, of the ssi module). All others
        /// are passed on piece by piece.
        subrequest_output_buffer_size: Size = "4k", in HTTP | SERVER | LOCATION;
        /// Whether files are written in a thread pool.
        aio_write: bool = "off", in HTTP | SERVER | LOCATION, fidelity = NoEffect("they always are");
        /// Adds comments to the built-in error pages for Internet Explorer and Chrome, which show their own page instead
        /// of one with less than 512 bytes.
        msie_padding: bool = "on", in HTTP | SERVER | LOCATION;
        /// Sends a page that refreshes instead of a redirect to Internet Explorer.
        msie_refresh: bool = "off", in HTTP | SERVER | LOCATION;
        /// Conditions under which `103 Early Hints` of an upstream server is passed on: any value that is not empty and
        /// not `0`.
        early_hints: Conditions<Request>, in HTTP | SERVER | LOCATION, since = "1.29.0";
    }
}

/// The value of `directio`: the size from which files are read past the page cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DirectIo(pub Option<u64>);

impl Value for DirectIo {
    const SHAPE: Shape = Shape::exactly(1, "size | off");

    fn parse(directive: &Node, _: &mut Cx) -> Result<DirectIo, Problem> {
        let word = &directive.args[0];
        match word.text.as_str() {
            "off" => Ok(DirectIo(None)),
            text => parse_offset(text).map(|size| DirectIo(Some(size))).ok_or(Problem::invalid_value(directive, word)),
        }
    }
}

/// The value of `send_lowat` and its kin: a size. Any but 0 gives a warning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LowWater(pub u64);

impl Value for LowWater {
    const SHAPE: Shape = Shape::exactly(1, "size");

    fn parse(directive: &Node, cx: &mut Cx) -> Result<LowWater, Problem> {
        let word = &directive.args[0];
        let size = parse_size(&word.text).ok_or_else(|| Problem::invalid_value(directive, word))?;
        if size > 0 {
            let message = format!("\"{}\" is not supported, ignored", directive.name.text);
            cx.warn(Problem::warning(message).at_node(directive));
        }
        Ok(LowWater(size))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use freerun_conf::testing::{LevelSettings, read_level};
    use freerun_conf::{Contexts, group};

    fn read(text: &str) -> Result<(TransferSettings, Vec<String>), String> {
        let LevelSettings { set, warnings } = read_level(&[group::<TransferSettings>()], Contexts::HTTP, text)?;
        Ok((set.get::<TransferSettings>().clone(), warnings))
    }

    #[test]
    fn values_are_read() {
        let (set, warnings) = read("directio 4m; send_lowat 1;").unwrap();
        assert_eq!(set.directio, DirectIo(Some(4 << 20)));
        assert_eq!(warnings, ["\"send_lowat\" is not supported, ignored"]);
        assert_eq!(read("directio off; send_lowat 0; directio_alignment 0;").unwrap().1, [] as [&str; 0]);
    }

    #[test]
    fn what_nginx_refuses_is_refused_in_its_words() {
        let rows = [
            ("directio 1x;", "\"directio\" directive invalid value"),
            ("directio off; directio 1;", "\"directio\" directive is duplicate"),
            ("send_lowat -1;", "\"send_lowat\" directive invalid value"),
            ("read_ahead x;", "\"read_ahead\" directive invalid value"),
            ("postpone_output 1g;", "\"postpone_output\" directive invalid value"),
            ("subrequest_output_buffer_size 1g;", "\"subrequest_output_buffer_size\" directive invalid value"),
            ("msie_padding x;", "invalid value \"x\" in \"msie_padding\" directive, it must be \"on\" or \"off\""),
            ("early_hints $;", "invalid variable name"),
        ];
        for (text, message) in rows {
            assert_eq!(read(text).err().as_deref(), Some(message), "{text}");
        }
    }
}
