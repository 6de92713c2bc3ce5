//! A server and a client talk to each other over streams that come in any order and in any pieces. Both have dynamic
//! tables, and both let streams wait for entries.

use std::collections::{BTreeMap, VecDeque};

use proptest::prelude::*;

use super::*;

/// What is on its way on one stream, in one direction.
#[derive(Default)]
struct Pipe {
    bytes: VecDeque<u8>,
    ends: bool,
    /// The end was received.
    is_done: bool,
    /// The receiver waits for entries of the table.
    is_blocked: bool,
}

/// One side, and what it has received of each message.
struct Side {
    machine: H3Connection,
    own: [u64; 3],
    /// Bytes from this side.
    pipes: BTreeMap<u64, Pipe>,
    heads: BTreeMap<u64, Fields>,
    bodies: BTreeMap<u64, Vec<u8>>,
    trailers: BTreeMap<u64, Fields>,
    ended: Vec<u64>,
}

impl Side {
    fn new(role: Role, blocked: u16, table: u32) -> Side {
        let config = H3Config {
            max_streams: 1000,
            blocked_streams: 100,
            encoder_blocked_streams: blocked,
            encoder_table: table,
            ..config(role)
        };
        let own = if role == Role::Server { SERVER } else { CLIENT };
        let machine = H3Connection::new(&config);
        let (pipes, heads, bodies, trailers, ended) = Default::default();
        Side { machine, own, pipes, heads, bodies, trailers, ended }
    }

    /// Sends a whole message.
    fn send(&mut self, id: u64, head: &Fields, body: &[u8], trailers: &Fields) {
        let mut out = Vec::new();
        let write = |fields: &Fields, encoder: &mut QpackEncoder, out: &mut Vec<u8>| {
            fields.iter().for_each(|(name, value)| encoder.field(name.as_bytes(), value.as_bytes(), out));
        };
        assert!(self.machine.head(StreamId(id), &mut out, |encoder, out| write(head, encoder, out)));
        for part in body.chunks(7) {
            out.extend_from_slice(self.machine.data(StreamId(id), part.len()).expect("a stream").as_bytes());
            out.extend_from_slice(part);
        }
        if !trailers.is_empty() {
            assert!(self.machine.trailers(StreamId(id), &mut out, |encoder, out| write(trailers, encoder, out)));
        }
        assert_eq!(self.machine.end(StreamId(id)), None);
        let pipe = self.pipes.entry(id).or_default();
        pipe.bytes.extend(out);
        pipe.ends = true;
        self.machine.check_invariants();
    }

    /// Brings what the machine wants to write on its own streams on its way.
    fn write(&mut self) {
        for stream in OwnStream::ALL {
            let bytes = written(&mut self.machine, stream);
            self.pipes.entry(self.own[stream.index()]).or_default().bytes.extend(bytes);
        }
    }

    /// Receives some bytes of a stream; returns whether anything could come.
    fn receive(&mut self, from: &mut Side, id: u64, count: usize) -> bool {
        from.write();
        let Some(pipe) = from.pipes.get_mut(&id) else { return false };
        if pipe.is_blocked || pipe.is_done || pipe.bytes.is_empty() && !pipe.ends {
            return false;
        }
        let count = count.min(pipe.bytes.len());
        let bytes: Vec<u8> = pipe.bytes.drain(..count).collect();
        let fin = pipe.ends && pipe.bytes.is_empty();
        let (seen, rest) = feed_rest(&mut self.machine, id, &bytes, fin, 0).expect("nobody breaks a rule");
        pipe.is_blocked = seen.contains(&Seen::Blocked(id));
        assert!(rest.is_empty() || pipe.is_blocked);
        rest.iter().rev().for_each(|byte| pipe.bytes.push_front(*byte));
        pipe.is_done = fin && !pipe.is_blocked;
        while let Some(unblocked) = self.machine.take_unblocked() {
            from.pipes.get_mut(&unblocked.0).expect("a stream of a message").is_blocked = false;
        }
        for event in seen {
            match event {
                Seen::Head(id, ends, fields) => {
                    assert!(self.heads.insert(id, fields).is_none());
                    self.ended.extend(ends.then_some(id));
                }
                Seen::Trailers(id, fields) => assert!(self.trailers.insert(id, fields).is_none()),
                Seen::Data(id, data) => self.bodies.entry(id).or_default().extend(data),
                Seen::End(id) => self.ended.push(id),
                Seen::Settings | Seen::Blocked(_) => {}
                other => panic!("{other:?}"),
            }
        }
        true
    }
}

#[derive(Clone, Debug)]
enum Step {
    Request(Fields, Vec<u8>, Fields),
    ToServer(usize, usize),
    ToClient(usize, usize),
}

fn some_fields() -> impl Strategy<Value = Fields> {
    let names = ["server", "x-a", "x-b", "cookie", "content-type", "cache-control", "etag", "vary"];
    let field = (proptest::sample::select(names.to_vec()), "[a-c]{0,3}", any::<bool>());
    let field = field.prop_map(|(name, value, is_long)| {
        let value = if is_long { format!("{value}{}", "y".repeat(60)) } else { value };
        (name.to_string(), value)
    });
    proptest::collection::vec(field, 0..5)
}

fn step() -> impl Strategy<Value = Step> {
    let body = proptest::collection::vec(any::<u8>(), 0..30);
    prop_oneof![
        2 => (some_fields(), body, some_fields()).prop_map(|(head, body, trailers)| Step::Request(head, body, trailers)),
        5 => (any::<usize>(), 1usize..80).prop_map(|(stream, count)| Step::ToServer(stream, count)),
        5 => (any::<usize>(), 1usize..80).prop_map(|(stream, count)| Step::ToClient(stream, count)),
    ]
}

/// A request as it was sent.
type Sent = (Fields, Vec<u8>, Fields);

fn answer_requests(server: &mut Side, requests: &BTreeMap<u64, Sent>) {
    for id in std::mem::take(&mut server.ended) {
        let (head, body, trailers) = &requests[&id];
        assert_eq!(server.heads.remove(&id).as_ref(), Some(head));
        assert_eq!(server.bodies.remove(&id).unwrap_or_default(), *body);
        assert_eq!(server.trailers.remove(&id).unwrap_or_default(), *trailers);
        // The response says the same again.
        let mut fields = fields(&[(":status", "200")]);
        fields.extend(head.iter().filter(|(name, _)| !name.starts_with(':')).cloned());
        server.send(id, &fields, body, trailers);
        server.machine.release(StreamId(id));
    }
}

fn run(blocked: (u16, u16), table: u32, steps: Vec<Step>) {
    let mut client = Side::new(Role::Client, blocked.0, table);
    let mut server = Side::new(Role::Server, blocked.1, table);
    let mut requests: BTreeMap<u64, Sent> = BTreeMap::new();
    for step in steps {
        match step {
            Step::Request(more, body, trailers) => {
                let id = requests.len() as u64 * 4;
                let mut head = fields(GET);
                head.extend(more);
                assert!(client.machine.open(StreamId(id)));
                client.send(id, &head, &body, &trailers);
                requests.insert(id, (head, body, trailers));
            }
            Step::ToServer(stream, count) => {
                client.write();
                let ids: Vec<u64> = client.pipes.keys().copied().collect();
                server.receive(&mut client, ids[stream % ids.len()], count);
            }
            Step::ToClient(stream, count) => {
                server.write();
                let ids: Vec<u64> = server.pipes.keys().copied().collect();
                client.receive(&mut server, ids[stream % ids.len()], count);
            }
        }
        answer_requests(&mut server, &requests);
    }
    // Everything that is on its way comes.
    let mut goes_on = true;
    while goes_on {
        goes_on = false;
        client.write();
        server.write();
        for id in client.pipes.keys().copied().collect::<Vec<_>>() {
            goes_on |= server.receive(&mut client, id, 1000);
            answer_requests(&mut server, &requests);
        }
        for id in server.pipes.keys().copied().collect::<Vec<_>>() {
            goes_on |= client.receive(&mut server, id, 1000);
        }
    }
    for (id, (head, body, trailers)) in &requests {
        let mut expected = fields(&[(":status", "200")]);
        expected.extend(head.iter().filter(|(name, _)| !name.starts_with(':')).cloned());
        assert_eq!(client.heads.get(id), Some(&expected));
        assert_eq!(client.bodies.remove(id).unwrap_or_default(), *body);
        assert_eq!(client.trailers.remove(id).unwrap_or_default(), *trailers);
        client.machine.release(StreamId(*id));
    }
    assert_eq!(client.ended.len(), requests.len());
    for side in [&mut client, &mut server] {
        side.machine.check_invariants();
        assert!(side.machine.is_idle(), "something is left over");
        assert_eq!(side.machine.failure(), None);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 150, ..ProptestConfig::default() })]

    #[test]
    fn messages_arrive_as_they_were_sent(
        blocked in (0u16..5, 0u16..5),
        table in prop_oneof![Just(4096u32), 100u32..600],
        steps in proptest::collection::vec(step(), 1..120),
    ) {
        run(blocked, table, steps);
    }
}
