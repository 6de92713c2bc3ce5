//! `tunnel_pass`: tunnels for clients that ask by CONNECT (RFC 9110 section 9.3.6).

use std::time::Duration;

use bytes::BytesMut;
use freerun_conf::{Cx, Node, Problem, SettingsSet, Shape, Size, Value, Word, settings};
use freerun_http::log_error;
use freerun_http::request::Request;
use freerun_http::request::handler::Outcome;
use freerun_http::request::location::TakesConnect;
use freerun_http::request::response::{Body, Response};
use freerun_proto::Status;

use crate::exchange::family::{Advice, AnyExchange, Family, PassedHead, RequestBody};
use crate::exchange::target::{PassTarget, TargetLookup};
use crate::exchange::{BodyPlan, BodyStep, Exchange, Fault, To, UpstreamHead};
use crate::family::pass_argument::{Pass, Scheme};
use crate::settings::members;
use crate::settings::next::Causes;
use crate::settings::options::{Options, TunnelOptions};
use crate::settings::{FamilySettings, PrefixedSettings};

/// The server that a client asks for: the value of a `tunnel_pass` without an argument.
const ASKED_FOR: &str = "$host:$request_port";

settings! {
    /// Tunnels for CONNECT: the directives that only this member of the family has.
    ///
    /// A server with `tunnel_pass` is a forward proxy. With nothing else in it, it is an **open proxy**: whoever
    /// reaches it can reach from it whatever it reaches itself, by its address and in its name. That includes services
    /// that listen only for this machine (`127.0.0.1`, `::1`), services of the network that it stands in, the metadata
    /// service of a cloud (`169.254.169.254`), and mail servers. Restrict
    ///
    /// - who may ask, by `allow` and `deny`, `auth_basic` (answered with 407) or client certificates
    ///   (`ssl_verify_client`), and how much at a time, by `limit_conn`;
    /// - the ports that may be reached, by a `map` of `$request_port` (443, say), and the hosts, by a `map` of `$host`;
    /// - the addresses that may be reached, by `tunnel_allow_upstream` with a `geo` of `$upstream_last_addr`. A rule
    ///   about names is not enough: a name may have any address, and another one for each lookup. This one judges the
    ///   address that is connected to.
    ///
    /// ```text
    /// geo $upstream_last_addr $outside {
    ///     volatile;
    ///     default         1;
    ///     0.0.0.0/8       0;
    ///     10.0.0.0/8      0;
    ///     100.64.0.0/10   0;
    ///     127.0.0.0/8     0;
    ///     169.254.0.0/16  0;
    ///     172.16.0.0/12   0;
    ///     192.168.0.0/16  0;
    ///     ::/127          0;
    ///     64:ff9b::/96    0;
    ///     fc00::/7        0;
    ///     fe80::/10       0;
    /// }
    /// map $request_port $is_https { 443 1; }
    ///
    /// server {
    ///     listen 3128;
    ///     resolver 192.0.2.53;
    ///     allow 192.0.2.0/24;
    ///     deny all;
    ///     if ($is_https = "") { return 403; }
    ///     tunnel_pass;
    ///     tunnel_allow_upstream $outside;
    /// }
    /// ```
    #[module = "tunnel_connections"]
    pub struct TunnelSettings {
        /// Answers CONNECT with a tunnel to this server: `host:port`, `unix:/path`, or the name of an `upstream` block.
        /// Without an argument it is the server that the client asks for, `$host:$request_port`. **Anybody may then
        /// have a tunnel to anywhere**, unless it is restricted: see the beginning of this page.
        ///
        /// When the connection to the server is there, the client gets 200, and bytes go both ways from then on. The
        /// tunnel ends when one side has ended or nothing has come for `tunnel_read_timeout`. The other side gets what
        /// has come before, and its connection is closed, too (RFC 9110 section 9.3.6). Over HTTP/2 and HTTP/3 a client
        /// may end its sending alone (RFC 9113 section 8.5). The server gets the end, and the tunnel goes on until the
        /// server has ended, too.
        ///
        /// A name that the client asks for, or that variables give, is looked up with `resolver`. The client gets 502 if it has
        /// no address or no server accepts the connection, and 504 if that takes too long. The log line is written at the end,
        /// with all bytes.
        ///
        /// The target of CONNECT is `host:port` and has no path: `$uri` and `$request_uri` are `/`, so `location /`
        /// answers, `$host` is the host, and `$request_port` the port. Other methods are answered with 405, and so is
        /// CONNECT in a server that has no `tunnel_pass`, in a location that has none, and in HTTP/1.0. At the level of
        /// the server it is not inherited by the locations.
        tunnel_pass: Option<TunnelPass>, in SERVER | LOCATION | LOCATION_IF, local, since = "1.31.0",
            fidelity = Differs("CONNECT with a body is refused (400); a refused client that has sent bytes behind its request already has its connection closed, since they are not for this server; other handlers of content refuse CONNECT (405)");
        /// The size of the buffer that bytes are read into, from the server and from the client. A tunnel has one only
        /// while it has bytes that the other side does not take.
        tunnel_buffer_size: Size = "16k", in HTTP | SERVER | LOCATION, since = "1.31.0";
        /// The cases in which the next server of the group is asked, before the client has its answer.
        tunnel_next_upstream: Causes = "error timeout", in HTTP | SERVER | LOCATION, since = "1.31.0";
        /// The longest time without any byte from the client or the server; then the tunnel is closed.
        tunnel_read_timeout: Duration = "60s", in HTTP | SERVER | LOCATION, since = "1.31.0";
    }
}

/// The argument of `tunnel_pass`.
#[derive(Debug, Clone)]
pub struct TunnelPass(Pass);

impl Value for TunnelPass {
    const SHAPE: Shape = Shape::between(0, 1, "[address]");

    fn parse(directive: &Node, cx: &mut Cx) -> Result<TunnelPass, Problem> {
        cx.extensions.insert(TakesConnect(true));
        let asked_for = Word { text: ASKED_FOR.into(), ..directive.name.clone() };
        let word = directive.args.first().unwrap_or(&asked_for);
        Pass::parse(directive, word, true, cx).map(TunnelPass)
    }
}

fn own(request: &Request) -> &TunnelSettings {
    request.settings().get::<TunnelSettings>()
}

/// Tunnels as a member of the family.
pub struct TunnelMember;

impl Family for TunnelMember {
    fn name(&self) -> &'static str {
        "tunnel"
    }

    fn options(&self, request: &Request) -> Options {
        let own = own(request);
        Options {
            read_timeout: own.tunnel_read_timeout,
            next_upstream: own.tunnel_next_upstream.0,
            tunnel: Some(TunnelOptions { piece: own.tunnel_buffer_size.in_memory() }),
            ..self.table(request.settings()).options(request)
        }
    }

    fn table<'s>(&self, settings: &'s SettingsSet) -> &'s FamilySettings {
        settings.get::<PrefixedSettings<members::TunnelDirectives>>()
    }

    fn target<'r>(&'r self, request: &'r Request) -> TargetLookup<'r> {
        let Some(TunnelPass(pass)) = &own(request).tunnel_pass else {
            return TargetLookup::Now(Err(Outcome::Status(Status::INTERNAL_SERVER_ERROR)));
        };
        if request.asked.host.as_deref() == Some("unix") {
            // The host of a client must not be taken for the beginning of a path, as in `unix:80`.
            log_error!(request, Error, "unix could not be resolved (it is not the name of a host)");
            return TargetLookup::Now(Err(Outcome::Status(Status::BAD_GATEWAY)));
        }
        pass.resolve_target(request, Scheme { text: "tunnel://", is_secure: false })
    }

    fn body(&self, _: &Request) -> RequestBody {
        RequestBody::None
    }

    fn exchange(&self, _: &Request, _: bool, _: &PassTarget, _: usize) -> AnyExchange {
        AnyExchange::Boxed(Box::new(TunnelExchange))
    }

    fn respond(&self, _: &mut Request, _: &PassTarget, head: UpstreamHead) -> Result<PassedHead, Fault> {
        let response = Response::new(Status::new(head.status), bytes::Bytes::new(), Body::Empty);
        Ok(PassedHead::Response(response, Advice::default()))
    }

    fn is_idempotent(&self, _: &Request) -> bool {
        // Nothing is sent before the tunnel is there.
        true
    }
}

/// The exchange that opens a tunnel. The connection to the server is all that it needs: nothing is sent, and the
/// server's first bytes belong to the client.
struct TunnelExchange;

impl Exchange for TunnelExchange {
    fn begin(&mut self, _: &Request, _: &To<'_>, _: BodyPlan, _: &mut Vec<u8>) -> Result<(), Fault> {
        Ok(())
    }

    fn head(&mut self, _: &mut BytesMut) -> Result<Option<UpstreamHead>, Fault> {
        Ok(Some(UpstreamHead { status: 200, ..UpstreamHead::default() }))
    }

    fn body(&mut self, _: &mut BytesMut) -> Result<BodyStep, Fault> {
        Ok(BodyStep::End)
    }

    fn closed(&mut self) -> Result<(), Fault> {
        Err(Fault::Cut)
    }

    fn reusable(&self) -> bool {
        false
    }
}
