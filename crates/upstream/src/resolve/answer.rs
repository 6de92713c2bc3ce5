//! Parses the messages of name servers (RFC 1035): the question and those answers that may have been asked for. The
//! rest of a message is not looked at, so an error there does not cost the answer.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use hickory_proto::op::Query;
use hickory_proto::rr::{DNSClass, Name, RecordType};
use hickory_proto::serialize::binary::{BinDecodable, BinDecoder};

/// The length of a message's header (section 4.1.1).
const HEADER: u16 = 12;

/// Parts of the header: the bit of an answer, the bit of a truncated message, and the response code.
const RESPONSE: u16 = 0x8000;
const TRUNCATED: u16 = 0x0200;
const CODE: u16 = 0x000f;

/// A record of a type that may be asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct DnsRecord {
    /// Time to live of the record, in seconds.
    pub(super) ttl: u32,
    pub(super) data: Data,
}

/// The data of a record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Data {
    /// An A or AAAA record.
    Address(IpAddr),
    Alias(Name),
    /// An SRV record (RFC 2782).
    Service {
        priority: u16,
        weight: u16,
        port: u16,
        target: Name,
    },
}

impl DnsRecord {
    pub(super) fn kind(&self) -> RecordType {
        match self.data {
            Data::Address(IpAddr::V4(_)) => RecordType::A,
            Data::Address(IpAddr::V6(_)) => RecordType::AAAA,
            Data::Alias(_) => RecordType::CNAME,
            Data::Service { .. } => RecordType::SRV,
        }
    }
}

/// The answer to a question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct DnsAnswer {
    /// The response code; 0: no error.
    pub(super) code: u16,
    /// Whether the message did not fit into the datagram.
    pub(super) truncated: bool,
    /// The records of the message; `None`: they cannot be parsed.
    pub(super) records: Option<Vec<DnsRecord>>,
}

/// The identifier of a message, which tells the question that it belongs to.
pub(super) fn id(message: &[u8]) -> Option<u16> {
    Some(u16::from_be_bytes(*message.first_chunk()?))
}

/// Parses the message, if it is an answer to the question with this identifier.
pub(super) fn fitting(message: &[u8], of: u16, question: &Query) -> Option<DnsAnswer> {
    let header = |at: usize| Some(u16::from_be_bytes(*message.get(at..)?.first_chunk()?));
    let (flags, questions, answers) = (header(2)?, header(4)?, header(6)?);
    if id(message)? != of || flags & RESPONSE == 0 || message.len() < usize::from(HEADER) {
        return None;
    }
    let code = flags & CODE;
    let mut decoder = BinDecoder::new(message).clone(HEADER);
    let mut asked = None;
    for _ in 0..questions {
        let query = Query::read(&mut decoder).ok()?;
        asked.get_or_insert(query);
    }
    let fits = match asked {
        Some(asked) => {
            asked.name == question.name
                && asked.query_type == question.query_type
                && asked.query_class == question.query_class
        }
        // Some servers leave the question out of errors.
        None => code != 0,
    };
    let truncated = flags & TRUNCATED != 0;
    fits.then(|| DnsAnswer { code, truncated, records: records(&mut decoder, answers) })
}

/// The records of the answer section. `None`: the message ends too early.
fn records(decoder: &mut BinDecoder<'_>, count: u16) -> Option<Vec<DnsRecord>> {
    let mut records = Vec::new();
    for _ in 0..count {
        Name::read(decoder).ok()?;
        let kind = RecordType::from(number(decoder)?);
        let class = number(decoder)?;
        let ttl = u32::from(number(decoder)?) << 16 | u32::from(number(decoder)?);
        let len = number(decoder)?;
        let start = u16::try_from(decoder.index()).ok()?;
        let data = decoder.read_slice(len.into()).ok()?.unverified();
        if class != u16::from(DNSClass::IN) {
            continue;
        }
        // A record whose data do not fit its type is left out; the start of the next one is known all the same.
        if let Some(data) = read(kind, data, &mut decoder.clone(start)) {
            // The highest bit is not part of a valid time (RFC 2181 section 8).
            records.push(DnsRecord { ttl: if ttl > i32::MAX as u32 { 0 } else { ttl }, data });
        }
    }
    Some(records)
}

/// Parses the data of a record: `data` itself, with the message from there on for compressed names.
fn read(kind: RecordType, data: &[u8], message: &mut BinDecoder<'_>) -> Option<Data> {
    match kind {
        RecordType::A => Some(Data::Address(Ipv4Addr::from(<[u8; 4]>::try_from(data).ok()?).into())),
        RecordType::AAAA => Some(Data::Address(Ipv6Addr::from(<[u8; 16]>::try_from(data).ok()?).into())),
        RecordType::CNAME => Some(Data::Alias(within(data.len(), message)?)),
        RecordType::SRV => Some(Data::Service {
            priority: number(message)?,
            weight: number(message)?,
            port: number(message)?,
            target: within(data.len().checked_sub(6)?, message)?,
        }),
        _ => None,
    }
}

/// Parses a name that takes `len` bytes.
fn within(len: usize, message: &mut BinDecoder<'_>) -> Option<Name> {
    let start = message.index();
    let name = Name::read(message).ok()?;
    (message.index() - start == len).then_some(name)
}

fn number(decoder: &mut BinDecoder<'_>) -> Option<u16> {
    // Any number is valid.
    Some(decoder.read_u16().ok()?.unverified())
}

/// Parses a name from text. Its bytes are not checked, because the name servers know whether there is such a name.
/// `None`: a label is empty or too long (RFC 1035 section 2.3.4).
pub(super) fn name(text: &str) -> Option<Name> {
    let mut name = Name::from_labels(text.split('.').map(str::as_bytes)).ok()?;
    name.set_fqdn(true);
    Some(name)
}

/// The text of a name, without the final dot; `None`: it has bytes that [`name`] would not read back unchanged.
pub(super) fn text(name: &Name) -> Option<String> {
    let labels: Option<Vec<&str>> =
        name.iter().map(|label| std::str::from_utf8(label).ok().filter(|label| !label.contains('.'))).collect();
    Some(labels?.join("."))
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUESTION: &[u8] = b"\x01a\x04test\x00\x00\x01\x00\x01";
    const GOOD: &[u8] = b"\xc0\x0c\x00\x01\x00\x01\x00\x00\x00\x3c\x00\x04\x7f\x00\x00\x01";

    fn question() -> Query {
        Query::query(name("a.test").unwrap(), RecordType::A)
    }

    /// A message with these numbers of records in its sections.
    fn message(counts: [u8; 3], records: &[&[u8]]) -> Vec<u8> {
        let [answers, authorities, others] = counts;
        let header = [0, 7, 0x81, 0x80, 0, 1, 0, answers, 0, authorities, 0, others];
        [&header, QUESTION, &records.concat()].concat()
    }

    fn addresses(message: &[u8]) -> Option<Vec<Data>> {
        let records = fitting(message, 7, &question())?.records?;
        Some(records.into_iter().map(|record| record.data).collect())
    }

    fn one() -> Vec<Data> {
        vec![Data::Address([127, 0, 0, 1].into())]
    }

    #[test]
    fn records_that_nobody_asked_for_may_be_anything() {
        let text = b"\xc0\x0c\x00\x10\x00\x01\x00\x00\x00\x3c\x00\x03\xffxx";
        let short = b"\xc0\x0c\x00\x01\x00\x01\x00\x00\x00\x3c\x00\x03\x7f\x00\x00";
        let chaos = b"\xc0\x0c\x00\x01\x00\x03\x00\x00\x00\x3c\x00\x04\x7f\x00\x00\x09";
        let authority = b"\xc0\x0c\x00\x06\x00\x01\x00\x00\x00\x3c\x00\x01\x01";
        let extension = b"\x00\x00\x29\x04\xd0\x00\x00\x00\x00\x00\x05\x00\x0a\x00\x50\x31";
        for (counts, records) in [
            ([2, 0, 0], [GOOD, text].as_slice()),
            ([2, 0, 0], &[text, GOOD]),
            ([2, 0, 0], &[short, GOOD]),
            ([2, 0, 0], &[chaos, GOOD]),
            ([1, 1, 0], &[GOOD, authority]),
            ([1, 0, 2], &[GOOD, extension, extension]),
            ([1, 0, 5], &[GOOD]),
            ([1, 0, 0], &[GOOD, b"trailing"]),
        ] {
            assert_eq!(addresses(&message(counts, records)), Some(one()), "{records:?}");
        }
    }

    #[test]
    fn what_ends_too_early_cannot_be_read_but_is_an_answer() {
        let cut = message([2, 0, 0], &[GOOD, &GOOD[..GOOD.len() - 1]]);
        let answer = fitting(&cut, 7, &question()).unwrap();
        assert_eq!((answer.code, answer.records), (0, None));
        let around = message([1, 0, 0], &[b"\xc0\x18", &GOOD[2..]]);
        assert_eq!(fitting(&around, 7, &question()).unwrap().records, None);
    }

    #[test]
    fn what_answers_something_else_is_no_answer() {
        let good = message([1, 0, 0], &[GOOD]);
        assert_eq!(addresses(&good), Some(one()));
        assert_eq!(fitting(&good, 8, &question()), None);
        assert_eq!(fitting(&good, 7, &Query::query(name("b.test").unwrap(), RecordType::A)), None);
        assert_eq!(fitting(&good, 7, &Query::query(name("a.test").unwrap(), RecordType::AAAA)), None);
        let mut asks = good.clone();
        asks[2] = 0x01;
        assert_eq!(fitting(&asks, 7, &question()), None);
        for len in 0..good.len() {
            // The parser never panics, and never returns records that are not there.
            assert_eq!(addresses(&good[..len]), None);
        }
    }

    #[test]
    fn names_are_written_as_they_are() {
        for written in ["a.test", "-a.test", "a%b.test", "\u{e9}.test", "a\\.test", "_http._tcp.test"] {
            assert_eq!(text(&name(written).unwrap()).as_deref(), Some(written));
        }
        for none in ["", ".", "a..test", ".test"] {
            assert_eq!(name(none), None, "{none}");
        }
        assert_eq!(name(&"x".repeat(64)), None);
    }
}
