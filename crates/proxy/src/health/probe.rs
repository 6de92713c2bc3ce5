//! A check of a server: a request in the location's protocol, and the verdict on its response.

use std::cell::{Cell, OnceCell};
use std::future::pending;
use std::io;
use std::ops::Deref;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use freerun_conf::{bytes_of, into_bytes};
use freerun_http::http_loop::HttpLoop;
use freerun_http::request::location::Location;
use freerun_http::request::{Address, Head, Request};
use freerun_http::request::{ClientStream, ConnectionFacts};
use freerun_proto::{HeadRules, parse_request};
use freerun_runtime::loops;
use freerun_runtime::timer::Timer;
use freerun_serve::configuration::generation::Generation;
use freerun_serve::loops::local::LoopLocal;
use freerun_serve::loops::state::LoopState;
use freerun_serve::tls::handshake::HandshakeHelpers;
use freerun_serve::upstream::tries::Took;
use freerun_transport::Transport;
use freerun_upstream::connect::connect;
use freerun_upstream::http2::Http2Connection;
use freerun_upstream::http3::Http3Connection;
use freerun_upstream::link::{ExchangeStream, Link, LoneConnection};
use freerun_upstream::pool::{Exclusive, Scope};
use freerun_upstream::udp::UdpReachability;
use freerun_upstream::{Peer, UpstreamAddress};

use crate::client::http3::{NewTransport, QuicTry};
use crate::client::tls;
use crate::exchange::family::{AnyExchange, UpstreamProtocol};
use crate::exchange::target::{PassTarget, TargetLookup};
use crate::exchange::{BodyPlan, BodyStep, Exchange, To, UpstreamHead};
use crate::health::Check;
use crate::health::grpc::GrpcCheck;
use crate::health::matching::CheckAnswer;
use crate::settings::FamilySettings;
use crate::settings::options::Options;
use crate::state::record::Record;

/// The most bytes of a body that tests look at, as in nginx.
const MAX_BODY: usize = 256 * 1024;

/// The most bytes that are read at a time.
const READ: usize = 16 * 1024;

/// A check lasts at most as long as its timeouts together and this.
const REST: Duration = Duration::from_secs(60);

/// The point where a check has failed, as the text for the log.
pub type CheckFailure = &'static str;

const READING_HEAD: CheckFailure = "reading response header from upstream";
const HANDSHAKING: CheckFailure = "SSL handshaking to upstream";

/// An answer that has begun.
struct BegunAnswer {
    exchange: AnyExchange,
    /// The bytes that have come.
    input: BytesMut,
    /// Time when the request was sent, in [`loops::nanos`].
    at: u64,
}

/// The result when no answer has come.
struct Silence {
    what: CheckFailure,
    /// Whether the connection has ended: a new one may do better, if this one was used before.
    ended: bool,
}

/// A connection that further checks may use.
#[derive(Debug)]
pub struct KeptCheckConnection {
    connection: CheckConnection,
    since: Instant,
    /// A digest of what its session was made with; `None`: it has no TLS.
    secured: Option<[u8; 32]>,
}

/// A connection to a server.
#[derive(Debug)]
enum CheckConnection {
    /// A connection that carries one exchange at a time.
    Own(Link),
    /// A connection that carries several exchanges, for checks alone.
    Shared(LoneConnection),
}

impl CheckConnection {
    /// Whether another check may use it.
    fn is_live(&self, protocol: UpstreamProtocol) -> bool {
        match (self, protocol) {
            (CheckConnection::Own(link), UpstreamProtocol::Sequential | UpstreamProtocol::Http3) => {
                link.transport().is_some_and(|transport| transport.is_quiet(true))
            }
            (CheckConnection::Shared(LoneConnection::Http3(_)), UpstreamProtocol::Http2) => false,
            (CheckConnection::Shared(connection), UpstreamProtocol::Http2 | UpstreamProtocol::Http3) => {
                connection.streams() > 0
            }
            _ => false,
        }
    }
}

/// The connection or the stream that carries a check.
enum Lane<'c> {
    Own(&'c Link),
    Stream(Link),
}

impl Deref for Lane<'_> {
    type Target = Link;

    fn deref(&self) -> &Link {
        match self {
            Lane::Own(link) => link,
            Lane::Stream(link) => link,
        }
    }
}

impl CheckConnection {
    /// The connection itself, or a new stream of it, for a check. `None`: the connection has ended.
    fn lane(&self) -> Option<Lane<'_>> {
        Some(match self {
            CheckConnection::Own(link) => Lane::Own(link),
            CheckConnection::Shared(connection) => {
                Lane::Stream(Link::Stream(ExchangeStream::alone(connection.clone())?))
            }
        })
    }
}

/// The connection facts of requests of checks, which have no client: one value for each loop.
#[derive(Default)]
pub struct NoConnection(OnceCell<Rc<ConnectionFacts>>);

impl NoConnection {
    fn client(&self, loop_state: &Rc<LoopState>, generation: &Generation) -> Option<ClientStream> {
        let listen = generation.listeners.first()?;
        let facts = self.0.get_or_init(|| {
            let nobody = Address::Unix("".into());
            Rc::new(ConnectionFacts::new(0, nobody, LoopLocal::new(listen.clone()), loop_state.clone()))
        });
        Some(ClientStream::nobody(facts.clone()))
    }
}

/// A request for a check, as if a client had sent it to the location.
fn request(check: &Check, loop_state: &Rc<LoopState>, no_connection: &NoConnection) -> Option<Request> {
    let generation = HttpLoop::of(loop_state)?.generation();
    let client = no_connection.client(loop_state, &generation)?;
    let server = generation.server(&generation.http.listens.first()?.servers.default);
    let uri = &check.rules.uri;
    let (method, fields) = match check.rules.grpc {
        Some(_) => ("POST", "Content-Type: application/grpc\r\nTE: trailers\r\n"),
        None => ("GET", ""),
    };
    let buffer = into_bytes(format!("{method} {uri} HTTP/1.1\r\nHost: {}\r\n{fields}\r\n", check.name()));
    let rules = HeadRules { large_buffer_size: buffer.len().max(8192), ..HeadRules::default() };
    let parsed = parse_request(&buffer, &rules).ok().flatten()?;
    let head = Head::new(buffer, parsed);
    let place = (server, LoopLocal::new(Arc::new(location(check))));
    let mut request = Request::new(client, generation, place, head, 1, loops::now());
    let (path, args) = uri.split_once('?').map_or((&**uri, None), |(path, args)| (path, Some(args)));
    request.asked.path = bytes_of(path).into_owned();
    request.asked.args = args.map(|args| bytes_of(args).into_owned());
    request.asked.host = Some(check.name().to_string());
    Some(request)
}

/// The location's settings, without the processing that applies only to clients' requests.
fn location(check: &Check) -> Location {
    Location {
        name: String::new(),
        identity: 0,
        settings: check.settings.clone(),
        core: check.settings.share(),
        order: 0,
        handlers: Box::default(),
        handler_modules: Box::default(),
        filters: Box::default(),
        script: Box::default(),
        limit_except: None,
        nested: Default::default(),
        alias: None,
        predicate: None,
        no_regex: false,
        internal: false,
        passes_on: true,
        has_content: true,
        zone: None,
        error_log: Default::default(),
    }
}

/// Checks a server. The connection may be kept for the next check.
///
/// # Errors
/// The point where it failed.
pub async fn check(
    check: &Check,
    peer: &Arc<Peer>,
    kept: &mut Option<KeptCheckConnection>,
    loop_state: &Rc<LoopState>,
    no_connection: &NoConnection,
) -> Result<(), CheckFailure> {
    let request = request(check, loop_state, no_connection).ok_or("making the request")?;
    let TargetLookup::Now(Ok(mut target)) = check.family.target(&request) else { return Err("making the request") };
    target.uri = into_bytes(check.rules.uri.to_string()).into();
    let (table, options) = (check.family.table(request.settings()), check.family.options(&request));
    let most = table.proxy_connect_timeout + table.proxy_send_timeout + options.read_timeout + REST;
    let one = SingleCheck { check, peer, request: &request, target: &target, table, options: &options };
    match freerun_runtime::timer::timeout(most, one.run(kept)).await {
        Ok(done) => done,
        Err(_) => Err("waiting for the end of the response"),
    }
}

/// A connection for one exchange at a time.
fn of_one_exchange(transport: Transport) -> CheckConnection {
    CheckConnection::Own(Link::Own(Exclusive::new(transport, Scope::SHARED)))
}

/// A connection of HTTP/2.
fn of_http2(transport: Transport) -> CheckConnection {
    CheckConnection::Shared(LoneConnection::Http2(Arc::new(Http2Connection::begin(transport, None))))
}

struct SingleCheck<'c> {
    check: &'c Check,
    peer: &'c Arc<Peer>,
    request: &'c Request,
    target: &'c PassTarget,
    table: &'c FamilySettings,
    options: &'c Options,
}

/// Limits the time of `work` and maps its error.
async fn within<T, E>(
    time: Duration,
    what: CheckFailure,
    work: impl Future<Output = Result<T, E>>,
) -> Result<T, CheckFailure> {
    match freerun_runtime::timer::timeout(time, work).await {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(_)) | Err(_) => Err(what),
    }
}

impl SingleCheck<'_> {
    async fn run(&self, kept: &mut Option<KeptCheckConnection>) -> Result<(), CheckFailure> {
        let keeps = self.check.rules.keepalive_time;
        let secured = tls::secured(self.check.family, self.request, self.target);
        let protocol = self.check.family.protocol(self.request);
        // The check may belong to a configuration that was read since.
        let old = kept.take().filter(|kept| {
            keeps.is_some_and(|time| loops::now().saturating_duration_since(kept.since) < time)
                && kept.secured == secured
                && kept.connection.is_live(protocol)
        });
        if let Some(old) = old
            && let Some(lane) = old.connection.lane()
        {
            match self.begin(&lane).await {
                Ok(begun) => {
                    let (verdict, again) = self.judge(&lane, begun).await?;
                    drop(lane);
                    *kept = again.then_some(old);
                    return verdict;
                }
                // The server closed the connection just then, which says nothing about the server.
                Err(Silence { ended: true, .. }) => {}
                Err(Silence { what, .. }) => return Err(what),
            }
        }
        let new = self.connect(secured, protocol).await?;
        let lane = new.connection.lane().ok_or(READING_HEAD)?;
        let begun = self.begin(&lane).await.map_err(|silence| silence.what)?;
        let (verdict, again) = self.judge(&lane, begun).await?;
        drop(lane);
        *kept = again.then_some(new);
        verdict
    }

    /// Sends the request, and waits until bytes have come.
    async fn begin(&self, link: &Link) -> Result<BegunAnswer, Silence> {
        let at = loops::nanos();
        let is_stream = link.stream().is_some();
        let mut exchange = self.check.family.exchange(self.request, is_stream, self.target, self.table.max_head());
        self.send(link, &mut *exchange).await?;
        let mut input = BytesMut::with_capacity(READ);
        match freerun_runtime::timer::timeout(self.options.read_timeout, link.read(&mut input, usize::MAX)).await {
            Ok(Ok(1..)) => Ok(BegunAnswer { exchange, input, at }),
            Ok(_) => Err(Silence { what: READING_HEAD, ended: true }),
            Err(_) => Err(Silence { what: READING_HEAD, ended: false }),
        }
    }

    /// Judges the answer that has begun. Also returns whether the connection may be kept for the next check.
    async fn judge(&self, link: &Link, begun: BegunAnswer) -> Result<(Result<(), CheckFailure>, bool), CheckFailure> {
        let keeps = self.check.rules.keepalive_time;
        let BegunAnswer { mut exchange, mut input, at } = begun;
        let record = self.request.own.get::<Record>();
        record.set_target(self.target);
        record.begin(Arc::clone(self.peer), at, Took::default());
        let head = self.head(link, &mut *exchange, &mut input).await?;
        record.answered(&head, true);
        let block = self.check.rules.matching.as_ref().and_then(|matching| matching.get());
        let matching = block.map(|block| &block.matching);
        let grpc = self.check.rules.grpc.as_ref();
        let mut body = Vec::new();
        let needs_body = grpc.is_some() || matching.is_some_and(|matching| matching.needs_body());
        let mut ended = false;
        if needs_body || keeps.is_some() {
            ended = self.body(link, &mut *exchange, &mut input, &mut body).await?;
        }
        let mut fields = head.fields.to_list();
        let refused = match (grpc, matching) {
            (Some(grpc), _) => {
                fields.extend(exchange.take_trailers());
                grpc.refuses(head.status, &fields, &body)
            }
            (None, Some(matching)) => {
                matching.refuses(&CheckAnswer { status: head.status, fields: &fields, body: &body }, self.request)
            }
            (None, None) => (!(200..400).contains(&head.status)).then_some("checking status code"),
        };
        let again = keeps.is_some() && ended && exchange.reusable() && input.is_empty();
        Ok((refused.map_or(Ok(()), Err), again))
    }

    async fn connect(
        &self,
        secured: Option<[u8; 32]>,
        protocol: UpstreamProtocol,
    ) -> Result<KeptCheckConnection, CheckFailure> {
        let address = self.check.rules.checking.address(self.peer);
        let connection = match protocol {
            UpstreamProtocol::Http3 => Box::pin(self.connect_http3(&address, secured)).await?,
            UpstreamProtocol::Sequential => of_one_exchange(self.transport(&address, secured).await?),
            UpstreamProtocol::Http2 => {
                let transport = self.transport(&address, secured).await?;
                if secured.is_some() && !tls::speaks_http2(&transport) {
                    return Err(HANDSHAKING);
                }
                of_http2(transport)
            }
        };
        Ok(KeptCheckConnection { connection, since: loops::now(), secured })
    }

    /// Makes a connection of HTTP/3, or another one to a server that cannot be reached by UDP.
    async fn connect_http3(
        &self,
        address: &UpstreamAddress,
        secured: Option<[u8; 32]>,
    ) -> Result<CheckConnection, CheckFailure> {
        let stream = Box::pin(self.transport(address, secured));
        // What is found out about another port says nothing about the port of requests.
        let other = UdpReachability::default();
        let udp = if *address == self.peer.address { &self.peer.udp } else { &other };
        let made = match address {
            UpstreamAddress::Ip(address) if !udp.is_closed(freerun_upstream::now()) => {
                let quic = QuicTry {
                    family: self.check.family,
                    request: self.request,
                    target: self.target,
                    server: &self.peer.name,
                    address: *address,
                    options: self.options.connect.as_deref().copied().unwrap_or_default(),
                    heard: Cell::default(),
                };
                let racing = Box::pin(quic.race(udp, stream, |_| HANDSHAKING));
                within(self.table.proxy_connect_timeout, HANDSHAKING, racing).await?
            }
            _ => NewTransport::Stream(stream.await?),
        };
        Ok(match made {
            NewTransport::Quic(quic) => {
                CheckConnection::Shared(LoneConnection::Http3(Http3Connection::begin(*quic, None).into()))
            }
            NewTransport::Stream(transport) if tls::speaks_http2(&transport) => of_http2(transport),
            NewTransport::Stream(transport) => of_one_exchange(transport),
        })
    }

    /// Makes a byte stream to the server, with TLS if requests have it.
    async fn transport(&self, address: &UpstreamAddress, secured: Option<[u8; 32]>) -> Result<Transport, CheckFailure> {
        let options = self.options.connect.as_deref().copied().unwrap_or_default();
        let paths = self.request.generation.services.socket_paths(self.request.client_key());
        let connecting = connect(address, &options, paths);
        let transport = within(self.table.proxy_connect_timeout, "connecting to upstream", connecting).await?;
        let header = self.check.family.own_proxy_header(&self.check.settings);
        within(self.table.proxy_connect_timeout, "connecting to upstream", transport.write_all(&header)).await?;
        if secured.is_some() { self.secure(transport).await } else { Ok(transport) }
    }

    /// Has a TLS session on a new connection, as requests have it.
    async fn secure(&self, transport: Transport) -> Result<Transport, CheckFailure> {
        const WHAT: CheckFailure = HANDSHAKING;
        let family = self.check.family;
        let timeout = self.table.proxy_connect_timeout;
        let outgoing = tls::outgoing(family, self.request, self.target, &self.peer.name, None, pending);
        let outgoing = within(timeout, WHAT, outgoing).await?;
        let transport = transport.into_tls();
        let lane = self.request.place.location.identity;
        let figures = &self.request.client.loop_state.shared.upstream_tls;
        let helpers = HandshakeHelpers { pool: self.request.generation.pools.handshakes(), lane, figures };
        let opened = outgoing.open(&transport, &mut Timer::default(), timeout, helpers).await;
        opened.map_err(|_| WHAT)?;
        Ok(transport)
    }

    async fn send(&self, link: &Link, exchange: &mut dyn Exchange) -> Result<(), Silence> {
        const WHAT: CheckFailure = "sending request to upstream";
        let mut out = Vec::new();
        let to = To { target: self.target, peer: &self.peer.name, server: &self.peer.server };
        let question = self.check.rules.grpc.as_ref().map(GrpcCheck::question);
        let plan = question.as_ref().map_or(BodyPlan::None, |question| BodyPlan::Length(question.len() as u64));
        let began = exchange.begin(self.request, &to, plan, &mut out);
        began.map_err(|_| Silence { what: "making the request", ended: false })?;
        if let Some(question) = question {
            exchange.before_piece(question.len(), &mut out);
            out.extend_from_slice(&question);
            exchange.after_piece(&mut out);
        }
        exchange.body_end(&mut out);
        let mut rest = &out[..];
        while !rest.is_empty() {
            match link.try_write(rest, &Bytes::new()) {
                Ok(sent) => rest = &rest[sent..],
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    let room = link.writable_after_full();
                    match freerun_runtime::timer::timeout(self.table.proxy_send_timeout, room).await {
                        Ok(Ok(())) => {}
                        Ok(Err(_)) => return Err(Silence { what: WHAT, ended: true }),
                        Err(_) => return Err(Silence { what: WHAT, ended: false }),
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return Err(Silence { what: WHAT, ended: true }),
            }
        }
        Ok(())
    }

    /// Reads more bytes. Returns whether there were any.
    async fn more(&self, link: &Link, input: &mut BytesMut, what: CheckFailure) -> Result<bool, CheckFailure> {
        input.reserve(READ);
        Ok(within(self.options.read_timeout, what, link.read(input, usize::MAX)).await? > 0)
    }

    async fn head(
        &self,
        link: &Link,
        exchange: &mut dyn Exchange,
        input: &mut BytesMut,
    ) -> Result<UpstreamHead, CheckFailure> {
        const WHAT: CheckFailure = READING_HEAD;
        loop {
            match exchange.head(input).map_err(|_| WHAT)? {
                Some(head) if head.status >= 200 || head.status == 101 => return Ok(head),
                Some(_) => {}
                None if self.more(link, input, WHAT).await? => {}
                None => return Err(WHAT),
            }
        }
    }

    /// Reads the body, or as much of it as tests look at. Returns whether it has ended.
    async fn body(
        &self,
        link: &Link,
        exchange: &mut dyn Exchange,
        input: &mut BytesMut,
        body: &mut Vec<u8>,
    ) -> Result<bool, CheckFailure> {
        const WHAT: CheckFailure = "reading response from upstream";
        loop {
            match exchange.body(input).map_err(|_| WHAT)? {
                BodyStep::Data(data) => {
                    body.extend_from_slice(&data[..data.len().min(MAX_BODY - body.len())]);
                    if body.len() == MAX_BODY {
                        return Ok(false);
                    }
                }
                BodyStep::End => return Ok(true),
                BodyStep::More if self.more(link, input, WHAT).await? => {}
                BodyStep::More => {
                    exchange.closed().map_err(|_| WHAT)?;
                    return Ok(false);
                }
            }
        }
    }
}
