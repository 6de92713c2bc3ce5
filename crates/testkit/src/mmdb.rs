//! Small MaxMind databases, made according to the description of the format (MaxMind DB File Format Specification,
//! version 2).

use std::net::IpAddr;

/// A value of a record.
#[derive(Clone, Debug)]
pub enum MmdbValue {
    /// A UTF-8 text.
    Text(&'static str),
    /// Bytes.
    Bytes(&'static [u8]),
    /// A map of keys and values.
    Map(Vec<(&'static str, MmdbValue)>),
    /// A list of values.
    List(Vec<MmdbValue>),
    /// An unsigned 16-bit integer.
    U16(u16),
    /// An unsigned 32-bit integer.
    U32(u32),
    /// An unsigned 64-bit integer.
    U64(u64),
    /// An unsigned 128-bit integer.
    U128(u128),
    /// A signed 32-bit integer.
    I32(i32),
    /// A 64-bit floating-point number.
    Double(f64),
    /// A 32-bit floating-point number.
    Float(f32),
    /// A boolean.
    Bool(bool),
}

impl MmdbValue {
    /// Appends the value in the form of the data section.
    fn encode(&self, out: &mut Vec<u8>) {
        match self {
            MmdbValue::Text(text) => field(2, text.as_bytes(), out),
            MmdbValue::Double(number) => field(3, &number.to_be_bytes(), out),
            MmdbValue::Bytes(bytes) => field(4, bytes, out),
            MmdbValue::U16(number) => field(5, significant(&number.to_be_bytes()), out),
            MmdbValue::U32(number) => field(6, significant(&number.to_be_bytes()), out),
            MmdbValue::Map(entries) => {
                control(7, entries.len(), out);
                for (key, value) in entries {
                    field(2, key.as_bytes(), out);
                    value.encode(out);
                }
            }
            MmdbValue::I32(number) => field(8, &number.to_be_bytes(), out),
            MmdbValue::U64(number) => field(9, significant(&number.to_be_bytes()), out),
            MmdbValue::U128(number) => field(10, significant(&number.to_be_bytes()), out),
            MmdbValue::List(values) => {
                control(11, values.len(), out);
                values.iter().for_each(|value| value.encode(out));
            }
            MmdbValue::Bool(truth) => control(14, usize::from(*truth), out),
            MmdbValue::Float(number) => field(15, &number.to_be_bytes(), out),
        }
    }
}

fn significant(bytes: &[u8]) -> &[u8] {
    &bytes[bytes.iter().position(|byte| *byte != 0).unwrap_or(bytes.len())..]
}

fn field(kind: u8, bytes: &[u8], out: &mut Vec<u8>) {
    control(kind, bytes.len(), out);
    out.extend_from_slice(bytes);
}

/// Appends the byte or bytes that give type and size. Sizes up to 284 are enough here.
fn control(kind: u8, size: usize, out: &mut Vec<u8>) {
    let (small, extra) = match u8::try_from(size) {
        Ok(size @ ..29) => (size, None),
        _ => (29, Some(u8::try_from(size - 29).expect("a size below 285"))),
    };
    if kind > 7 {
        out.extend([small, kind - 7]);
    } else {
        out.push(kind << 5 | small);
    }
    out.extend(extra);
}

/// A side of a node: nothing, another node, or a record at an offset of the data section.
#[derive(Clone, Copy)]
enum NodeSide {
    Nothing,
    Node(usize),
    Record(usize),
}

/// A database of these networks (`address/length`, IPv4 and IPv6), the wider ones before those inside them, made at
/// `build_epoch`, in seconds since 1970.
///
/// # Panics
/// A network cannot be read, or contains a network that was given before it.
pub fn database(networks: &[(&str, MmdbValue)], build_epoch: u64) -> Vec<u8> {
    let mut nodes = vec![[NodeSide::Nothing; 2]];
    let mut data = Vec::new();
    for (network, value) in networks {
        let (address, length) = network.split_once('/').expect("a length");
        let length: usize = length.parse().expect("a number");
        let (bits, length) = match address.parse().expect("an address") {
            IpAddr::V4(address) => (u128::from(u32::from(address)), length + 96),
            IpAddr::V6(address) => (u128::from(address), length),
        };
        let record = data.len();
        value.encode(&mut data);
        let mut node = 0;
        for depth in 0..length {
            let side = usize::from(bits >> (127 - depth) & 1 == 1);
            let at = nodes[node][side];
            if depth + 1 == length {
                assert!(!matches!(at, NodeSide::Node(_)), "{network} is around another one");
                nodes[node][side] = NodeSide::Record(record);
            } else if let NodeSide::Node(next) = at {
                node = next;
            } else {
                // The record here holds for both halves, unless a later network says otherwise.
                nodes.push([at; 2]);
                nodes[node][side] = NodeSide::Node(nodes.len() - 1);
                node = nodes.len() - 1;
            }
        }
    }
    let count = nodes.len();
    let mut out = Vec::new();
    for side in nodes.iter().flatten() {
        let number = match side {
            NodeSide::Nothing => count,
            NodeSide::Node(node) => *node,
            NodeSide::Record(offset) => count + 16 + offset,
        };
        out.extend_from_slice(&u32::try_from(number).expect("a small database").to_be_bytes()[1..]);
    }
    out.extend([0; 16]);
    out.extend(data);
    out.extend(b"\xab\xcd\xefMaxMind.com");
    let metadata = MmdbValue::Map(vec![
        ("binary_format_major_version", MmdbValue::U16(2)),
        ("binary_format_minor_version", MmdbValue::U16(0)),
        ("build_epoch", MmdbValue::U64(build_epoch)),
        ("database_type", MmdbValue::Text("Test")),
        ("description", MmdbValue::Map(vec![("en", MmdbValue::Text("made by a test"))])),
        ("ip_version", MmdbValue::U16(6)),
        ("languages", MmdbValue::List(vec![MmdbValue::Text("en")])),
        ("node_count", MmdbValue::U32(u32::try_from(count).expect("a small database"))),
        ("record_size", MmdbValue::U16(24)),
    ]);
    metadata.encode(&mut out);
    out
}
