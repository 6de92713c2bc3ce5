//! A driver of the machine in memory, for tests and fuzzing: it gives the machine a text in pieces, acts on its decisions, and
//! logs what happens. All decisions are the machine's; a plan has the facts that a server would know.

use super::proto::body::BodyDecoder;
use super::proto::chunked::ChunkStep;
use super::proto::h1::{
    CloseReason, DiscardResult, EndStep, ExchangeEnd, ExpectHead, HeadEnd, LingerMode, Persistence, RequestBody,
    ResponseBody, ResponseFacts, ResponseFraming, ReuseFacts, write_last_chunk,
};
use super::proto::{HeadRules, Progress, RequestError, RequestHead, Version};

/// An event on the connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// The text of a head, without empty lines in front.
    Head(Vec<u8>),
    /// A wrong head, by the status of its answer.
    BadHead(u16),
    /// The input ends in a head.
    CutHead,
    /// The bytes of the body that the handler has had.
    Body(Vec<u8>),
    /// The framing of the body is wrong.
    BadBody,
    /// The input ends in the body.
    CutBody,
    /// The framing of the response. Whether the connection is kept is known where the whole body was read before.
    Response(ResponseFraming, Option<Persistence>),
    /// The last step of the exchange; closing is the same as lingering where it is not known whether the client still sends.
    End(EndStep),
}

/// The facts about one request and its response, as the bits of a number.
#[derive(Debug, Clone, Copy)]
pub struct Plan(pub u32);

impl Plan {
    fn has(self, bit: u32) -> bool {
        self.0 >> bit & 1 != 0
    }

    /// The number of bytes of the body that the handler reads.
    fn wanted(self) -> u64 {
        match self.0 & 3 {
            0 => 0,
            1 => 3,
            _ => u64::MAX,
        }
    }

    fn reads_whole_body(self) -> bool {
        self.wanted() == u64::MAX
    }

    /// The most bytes of the body that the handler takes at once.
    fn piece_max(self) -> usize {
        if self.has(2) { 1 + (self.0 >> 8 & 7) as usize } else { usize::MAX }
    }

    fn facts(self, head: &RequestHead) -> ResponseFacts {
        ResponseFacts {
            version: head.version,
            status: [200, 200, 404, 204][(self.0 >> 11 & 3) as usize],
            is_head: head.method == super::proto::Method::Head,
            upgrades: false,
            has_length: self.has(4),
            has_trailers: self.has(5),
            may_chunk: self.has(6),
            closes: self.has(13) && self.has(14),
        }
    }

    fn reuse(self) -> ReuseFacts {
        let is_rare = self.has(15) && self.has(16);
        ReuseFacts { is_draining: is_rare && self.has(17), is_old: is_rare && self.has(18), ..ReuseFacts::default() }
    }

    fn linger(self) -> LingerMode {
        [LingerMode::On, LingerMode::Off, LingerMode::Always, LingerMode::On][(self.0 >> 19 & 3) as usize]
    }
}

/// A connection whose bytes come in pieces.
pub struct Driver<'t> {
    text: &'t [u8],
    /// The places where the pieces end, in order.
    ends: Vec<usize>,
    /// The number of bytes that have come.
    come: usize,
    buffer: Vec<u8>,
    rules: HeadRules,
    log: Vec<Event>,
}

impl<'t> Driver<'t> {
    /// A connection that brings `text` in pieces which end at these places.
    pub fn new(text: &'t [u8], ends: impl IntoIterator<Item = usize>, rules: HeadRules) -> Driver<'t> {
        let mut ends: Vec<usize> = ends.into_iter().map(|end| end.min(text.len())).chain([text.len()]).collect();
        ends.sort_unstable();
        ends.reverse();
        Driver { text, ends, come: 0, buffer: Vec::new(), rules, log: Vec::new() }
    }

    /// Runs the connection to its end. The plans are for its requests, one after the other and then again from the first.
    pub fn run(mut self, plans: &[Plan]) -> Vec<Event> {
        let mut requests = 0;
        loop {
            self.exchange(requests as u64 + 1, plans[requests % plans.len()]);
            requests += 1;
            let ends = self.log.iter().filter(|event| **event == Event::End(EndStep::NextRequest)).count();
            if ends < requests {
                return self.log;
            }
        }
    }

    /// Receives the next piece. Returns whether there was one.
    fn receive(&mut self) -> bool {
        while let Some(end) = self.ends.pop() {
            if end > self.come {
                self.buffer.extend_from_slice(&self.text[self.come..end]);
                self.come = end;
                return true;
            }
        }
        false
    }

    fn exchange(&mut self, serial: u64, plan: Plan) {
        let Some(head) = self.head(serial) else { return };
        let mut persistence = Persistence::asked(head.keep_alive, true);
        persistence.apply_location(true, serial, 50);
        let head_len = head.len as usize;
        let mut body = RequestBody::<()>::new(head.body, head_len, head.expect_continue);
        body.check_invariants(&self.buffer, head_len);
        let read = if plan.has(3) {
            self.read_apart(&mut body, head_len, plan)
        } else {
            let mut data = Vec::new();
            let read = self.read(&mut body, head_len, plan, &mut data);
            self.log.push(Event::Body(data));
            read
        };
        match read {
            Ok(true) => {}
            Ok(false) => return self.log.push(Event::CutBody),
            Err(_) => {
                self.log.push(Event::BadBody);
                persistence.close(CloseReason::BadBody);
            }
        }
        if body.skip(&self.buffer, &mut 0).is_err() {
            persistence.close(CloseReason::BadBody);
        }
        persistence.apply_connection(plan.reuse());
        let framing = plan.facts(&head).frame(&mut persistence);
        self.respond(framing, plan);
        self.log.push(Event::Response(framing, plan.reads_whole_body().then_some(persistence)));
        let end =
            self.end(&mut body, head_len, ExchangeEnd::new(persistence, plan.has(21), framing, plan.linger()), plan);
        let is_timely = end != EndStep::NextRequest && !plan.reads_whole_body();
        self.log.push(Event::End(if is_timely { EndStep::Linger } else { end }));
        if end == EndStep::NextRequest {
            match body.next_request(&self.buffer) {
                Some(begin) => drop(self.buffer.drain(..begin)),
                None => self.buffer.clear(),
            }
        }
    }

    /// Receives a head; `None`: the connection ends without it.
    fn head(&mut self, serial: u64) -> Option<Box<RequestHead>> {
        let pipelined = ExpectHead::is_pipelined(serial, self.buffer.len());
        assert!(!pipelined || serial > 1 && !self.buffer.is_empty());
        let mut expected = ExpectHead::new(None);
        loop {
            match expected.receive(&self.buffer, &self.rules) {
                Ok(Progress::Complete) => {
                    let head = expected.into_head();
                    let text = &self.buffer[head.request_line.start as usize..head.len as usize];
                    self.log.push(Event::Head(text.to_vec()));
                    return Some(head);
                }
                Ok(Progress::Partial) if self.receive() => {}
                Ok(Progress::Partial) => {
                    let has_begun = self.buffer.iter().any(|byte| !matches!(byte, b'\r' | b'\n'));
                    match expected.end(&self.buffer) {
                        HeadEnd::Cut(_) if has_begun => self.log.push(Event::CutHead),
                        HeadEnd::Cut(head) => assert!(head.request_line.is_empty(), "empty lines are no request"),
                        HeadEnd::Nothing => assert!(self.buffer.is_empty(), "something has come"),
                    }
                    return None;
                }
                Err(error) => {
                    assert!(expected.into_faulty_head().version > Version::Http09, "it is answered with a head");
                    self.log.push(Event::BadHead(error.status().code()));
                    return None;
                }
            }
        }
    }

    /// Reads what the handler wants of a body. Returns whether all of that has come.
    fn read(
        &mut self,
        body: &mut RequestBody<()>,
        head_len: usize,
        plan: Plan,
        data: &mut Vec<u8>,
    ) -> Result<bool, RequestError> {
        while body.received() < plan.wanted() && !body.is_done() {
            let left = usize::try_from(plan.wanted() - body.received()).unwrap_or(usize::MAX);
            let before = body.used();
            let piece = body.next_wanted(&self.buffer, left.min(plan.piece_max()))?;
            body.check_invariants(&self.buffer, head_len);
            if let Some(range) = piece.data {
                assert!(!range.is_empty() && range.len() <= plan.piece_max());
                assert_eq!(body.used() - before, piece.framing + range.len());
                data.extend_from_slice(&self.buffer[range]);
            } else if !body.is_done() {
                assert_eq!(body.used(), self.buffer.len(), "all that has come is used before more is awaited");
                body.make_room(&mut self.buffer, head_len);
                if !self.receive() {
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }

    /// Reads the body with a buffer of its own, as somebody does who passes it on while the response is being sent.
    fn read_apart(&mut self, body: &mut RequestBody<()>, head_len: usize, plan: Plan) -> Result<bool, RequestError> {
        let behind = self.buffer.split_off(body.used());
        let head = std::mem::replace(&mut self.buffer, behind);
        let mut lent = body.lend((), head_len);
        assert!(body.place().is_some() && !body.is_done() && !body.is_here(&head));
        let mut data = Vec::new();
        let read = self.read(&mut lent, 0, plan, &mut data);
        self.log.push(Event::Body(data));
        let unused = lent.unused(&self.buffer).to_vec();
        self.buffer = [&head[..head_len], &unused].concat();
        body.take_back(lent, head_len);
        body.check_invariants(&self.buffer, head_len);
        read
    }

    /// Sends a body of two pieces, and reads it as a client does.
    fn respond(&self, framing: ResponseFraming, plan: Plan) {
        let pieces: [&[u8]; 2] = [b"0\r\n\r\n", &self.text[..(plan.0 >> 22) as usize % 5 % (self.text.len() + 1)]];
        let content = pieces.concat();
        if framing == ResponseFraming::None {
            return;
        }
        let mut sent = ResponseBody::new(framing, plan.has(4).then_some(content.len() as u64));
        let mut out = Vec::new();
        for piece in pieces.into_iter().filter(|piece| !piece.is_empty()) {
            assert!(!sent.is_complete());
            assert_eq!(sent.begin_piece(piece.len() as u64, &mut out), Ok(()));
            out.extend_from_slice(piece);
            sent.end_piece(&mut out);
        }
        assert_eq!(sent.end(), Ok(()));
        let decoder = match framing {
            ResponseFraming::Chunked => {
                assert_eq!(sent.of_cut(&out), &out[..out.len() - 2]);
                write_last_chunk(plan.has(5).then_some((&b"T"[..], &b"v"[..])), &mut out);
                BodyDecoder::chunked()
            }
            ResponseFraming::Length => BodyDecoder::Length(content.len() as u64),
            ResponseFraming::UntilEnd | ResponseFraming::None => BodyDecoder::UntilClose,
        };
        assert_eq!(decoded(decoder, &out), content);
    }

    /// Ends the exchange. Returns its last step.
    fn end(&mut self, body: &mut RequestBody<()>, head_len: usize, mut end: ExchangeEnd, plan: Plan) -> EndStep {
        for _ in 0..5 {
            let step = end.step(body, self.buffer.len());
            end.check_invariants();
            match step {
                EndStep::DiscardBody => end.body_discarded(self.discard(body, head_len)),
                EndStep::LookForInput => end.input_found(self.come < self.text.len()),
                EndStep::EndSession => end.session_ended(plan.has(7)),
                last => {
                    assert!(last.is_last() && end.step(body, self.buffer.len()) == last, "a last step stays");
                    return last;
                }
            }
            end.check_invariants();
        }
        panic!("the exchange does not end");
    }

    fn discard(&mut self, body: &mut RequestBody<()>, head_len: usize) -> DiscardResult {
        loop {
            match body.skip(&self.buffer, &mut 0) {
                Err(_) => return DiscardResult::Faulty,
                Ok(_) if body.is_done() => return DiscardResult::Complete,
                Ok(_) => body.make_room(&mut self.buffer, head_len),
            }
            if !self.receive() {
                return DiscardResult::Silent;
            }
        }
    }
}

/// The content of a whole response's body.
fn decoded(mut decoder: BodyDecoder, mut bytes: &[u8]) -> Vec<u8> {
    let mut content = Vec::new();
    loop {
        match decoder.step(bytes) {
            Ok(ChunkStep::Data(data)) => {
                content.extend_from_slice(&bytes[data.clone()]);
                bytes = &bytes[data.end..];
            }
            Ok(ChunkStep::Done(used)) => {
                assert_eq!(used, bytes.len(), "something stands behind the end");
                return content;
            }
            Ok(ChunkStep::More) => {
                assert!(decoder.is_done_when_closed(), "the end is missing");
                return content;
            }
            Err(error) => panic!("{error}"),
        }
    }
}
