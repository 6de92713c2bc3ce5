//! Reading a request head from a connection, within the limits and timeouts of the listening address's default server.

use std::io;
use std::time::{Duration, Instant};

use freerun_proto::head::{HeadParser, HeadRules, Progress, parse_request};
use freerun_proto::{Error, RequestHead};
use freerun_runtime::loops::LoopStats;
use freerun_runtime::timer::Timer;
use freerun_runtime::{buffers, era, loops};

use crate::protocol::unanswered::End;
use crate::request::ClientConnection;
use crate::request::Head;
use crate::settings::server::ServerSettings;

/// The result of reading a head.
pub enum Reading {
    /// A complete head; bytes that came after it stand behind it in the buffer.
    Head(Head),
    /// A head that is wrong or too large, with the parts that were understood.
    Bad(Head, Error),
    /// The connection ended before the client sent anything: there is no request.
    Nothing(End),
    /// The client closed, or its connection broke, in the middle of the head.
    Broken(Head, Option<io::Error>),
    /// The head did not arrive in time.
    TimedOut(Head),
}

/// The limits of a server for request heads.
pub fn rules(settings: &ServerSettings) -> HeadRules {
    HeadRules {
        first_buffer: to_usize(settings.client_header_buffer_size.0),
        large_buffers: settings.large_client_header_buffers.count,
        large_buffer_size: to_usize(settings.large_client_header_buffers.size),
        max_headers: settings.max_headers as usize,
        ignore_invalid_headers: settings.ignore_invalid_headers,
        underscores_in_headers: settings.underscores_in_headers,
    }
}

/// Reads a complete head again if the chosen server accepts other field names, or fewer fields, than the address's
/// default server, by whose rules it was read. In nginx, fields in front of `Host` are still judged by the default
/// server's rules.
///
/// # Errors
/// There are more fields than the chosen server allows.
pub fn apply_rules_of_chosen(head: &mut Head, read_by: &HeadRules, chosen: &ServerSettings) -> Result<(), Error> {
    let rules = HeadRules {
        max_headers: chosen.max_headers as usize,
        ignore_invalid_headers: chosen.ignore_invalid_headers,
        underscores_in_headers: chosen.underscores_in_headers,
        ..*read_by
    };
    if rules == *read_by {
        return Ok(());
    }
    match parse_request(&head.buffer, &rules) {
        Ok(Some(parsed)) => head.parsed = parsed,
        Err(Error::TooManyHeaders) => return Err(Error::TooManyHeaders),
        Ok(None) | Err(_) => {}
    }
    Ok(())
}

fn to_usize(size: u64) -> usize {
    usize::try_from(size).unwrap_or(usize::MAX)
}

/// Reads a head, into the memory of `spare` if there is one. `buffer` may hold bytes of it already (pipelining). The
/// whole head has to come within `timeout`. `first_byte` is the current time, and becomes the time of the first byte.
pub async fn read(
    connection: &ClientConnection,
    timer: &mut Timer,
    mut buffer: Vec<u8>,
    spare: Option<Box<RequestHead>>,
    rules: &HeadRules,
    timeout: Duration,
    first_byte: &mut Instant,
) -> Reading {
    let mut parser = spare.map_or_else(HeadParser::new, HeadParser::reusing);
    let start = *first_byte;
    let mut counted = None;
    let mut answered = None;
    if buffer.is_empty() {
        make_room(&mut buffer, rules.max_len());
        // Nearly always the whole head is there already.
        answered = connection.transport.read_now(&mut buffer).filter(|answer| !matches!(answer, Ok(1..)));
    }
    loop {
        if !buffer.is_empty() {
            match parser.advance(&buffer, rules) {
                Ok(Progress::Complete) => {
                    // What the event announced may have been the empty line in front of the request.
                    if buffer.first().is_some_and(u8::is_ascii_whitespace) {
                        era::begin();
                    }
                    return Reading::Head(Head { buffer, parsed: parser.into_head() });
                }
                Ok(Progress::Partial) => {
                    counted.get_or_insert_with(|| Reader::begin(&connection.loop_state.stats));
                }
                Err(error) => return Reading::Bad(Head { buffer, parsed: parser.into_head() }, error),
            }
        }
        let answer = match answered.take() {
            Some(answer) => answer,
            None => {
                make_room(&mut buffer, rules.max_len());
                let left = timeout.saturating_sub(loops::now().saturating_duration_since(start));
                let Some(answer) = timer.within(left, connection.transport.read(&mut buffer)).await else {
                    if buffer.is_empty() {
                        buffers::give_back(buffer);
                        return Reading::Nothing(End::TimedOut);
                    }
                    return Reading::TimedOut(cut(buffer, parser));
                };
                answer
            }
        };
        match answer {
            Ok(0) if buffer.is_empty() => {
                buffers::give_back(buffer);
                return Reading::Nothing(End::Closed);
            }
            Ok(0) => return Reading::Broken(cut(buffer, parser), None),
            Ok(n) if n == buffer.len() => *first_byte = loops::now(),
            Ok(_) => {}
            Err(error) if buffer.is_empty() => {
                buffers::give_back(buffer);
                return Reading::Nothing(End::Broken(error));
            }
            Err(error) => return Reading::Broken(cut(buffer, parser), Some(error)),
        }
    }
}

/// The head as far as it has come.
fn cut(buffer: Vec<u8>, parser: HeadParser) -> Head {
    let parsed = parser.into_cut_head(&buffer);
    Head { buffer, parsed }
}

/// Counts a connection as reading a head while this value lives.
struct Reader<'s>(&'s LoopStats);

impl Reader<'_> {
    fn begin(stats: &LoopStats) -> Reader<'_> {
        stats.reading.add_alone();
        Reader(stats)
    }
}

impl Drop for Reader<'_> {
    fn drop(&mut self) {
        self.0.reading.sub_alone();
    }
}

/// Makes room for the next read: the pooled buffer first, then twice the size, never more than a head may be long.
fn make_room(buffer: &mut Vec<u8>, max: usize) {
    if buffer.capacity() == 0 {
        *buffer = buffers::take();
    }
    if buffer.len() == buffer.capacity() {
        buffer.reserve_exact(buffer.capacity().clamp(buffers::BUFFER_SIZE, max.max(buffers::BUFFER_SIZE)));
    }
}
