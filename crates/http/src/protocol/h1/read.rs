//! Reading a request head from a connection, within the limits and timeouts of the listening address's default server.

use std::io;
use std::time::{Duration, Instant};

use freerun_proto::h1::{ExpectHead, HeadEnd};
use freerun_proto::head::{HeadRules, Progress, parse_request};
use freerun_proto::{RequestError, RequestHead};
use freerun_runtime::loops::LoopStats;
use freerun_runtime::timer::Timer;
use freerun_runtime::{arrival_era, buffers, loops};

use crate::protocol::early_end::End;
use crate::request::ClientConnection;
use crate::request::Head;
use crate::settings::server::ServerSettings;

/// The result of reading a head.
pub enum HeadResult {
    /// A complete head; bytes that came after it stand behind it in the buffer.
    Head(Head),
    /// A head that is wrong or too large, with the parts that were understood.
    Bad(Head, RequestError),
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
pub fn apply_rules_of_chosen(
    head: &mut Head,
    read_by: &HeadRules,
    chosen: &ServerSettings,
) -> Result<(), RequestError> {
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
        Err(RequestError::TooManyHeaders) => return Err(RequestError::TooManyHeaders),
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
) -> HeadResult {
    let mut expected = ExpectHead::new(spare);
    let start = *first_byte;
    let mut counted = None;
    let mut answered = None;
    if buffer.is_empty() {
        make_room(&mut buffer, rules.max_len());
        // Nearly always the whole head is there already.
        answered = connection.transport.read_now(&mut buffer).filter(|answer| !matches!(answer, Ok(1..)));
    }
    loop {
        match expected.receive(&buffer, rules) {
            Ok(Progress::Complete) => {
                // What the event announced may have been the empty line in front of the request.
                if buffer.first().is_some_and(u8::is_ascii_whitespace) {
                    arrival_era::begin();
                }
                return HeadResult::Head(Head { buffer, parsed: expected.into_head() });
            }
            Ok(Progress::Partial) if buffer.is_empty() => {}
            Ok(Progress::Partial) => {
                counted.get_or_insert_with(|| HeadReadingCount::begin(&connection.loop_state.stats));
            }
            Err(error) => return HeadResult::Bad(Head { buffer, parsed: expected.into_faulty_head() }, error),
        }
        let answer = match answered.take() {
            Some(answer) => answer,
            None => {
                make_room(&mut buffer, rules.max_len());
                let left = timeout.saturating_sub(loops::now().saturating_duration_since(start));
                let Some(answer) = timer.within(left, connection.transport.read(&mut buffer)).await else {
                    return match cut(buffer, expected) {
                        Some(head) => HeadResult::TimedOut(head),
                        None => HeadResult::Nothing(End::TimedOut),
                    };
                };
                answer
            }
        };
        let error = match answer {
            Ok(0) => None,
            Ok(n) => {
                if n == buffer.len() {
                    *first_byte = loops::now();
                }
                continue;
            }
            Err(error) => Some(error),
        };
        return match (cut(buffer, expected), error) {
            (Some(head), error) => HeadResult::Broken(head, error),
            (None, None) => HeadResult::Nothing(End::Closed),
            (None, Some(error)) => HeadResult::Nothing(End::Broken(error)),
        };
    }
}

/// The head as far as it has come; `None` if there is no request.
fn cut(buffer: Vec<u8>, expected: ExpectHead) -> Option<Head> {
    match expected.end(&buffer) {
        HeadEnd::Cut(parsed) => Some(Head { buffer, parsed }),
        HeadEnd::Nothing => {
            buffers::give_back(buffer);
            None
        }
    }
}

/// Counts a connection as reading a head while this value lives.
struct HeadReadingCount<'s>(&'s LoopStats);

impl HeadReadingCount<'_> {
    fn begin(stats: &LoopStats) -> HeadReadingCount<'_> {
        stats.reading.add_alone();
        HeadReadingCount(stats)
    }
}

impl Drop for HeadReadingCount<'_> {
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
