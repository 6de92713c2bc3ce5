//! HPACK for a program in another language, which compares it with what it has itself: `tests/tools/hpack`.
//!
//! Each line of the input is a command, and is answered with a line; everything in it is hexadecimal, and a field is
//! `NAME:VALUE`.
//!
//! - `decode BLOCK` answers with the fields of the block, or with `error` and what is wrong
//! - `encode FIELD...` answers with a block
//! - `size NUMBER` (decimal) is the size of both tables from now on, and is answered with itself
//! - `forget` drops the encoder's table, and is answered with itself
#![allow(clippy::print_stdout)]

use std::io::BufRead;

use freerun_proto::h2::hpack::{BlockLimits, DecodedField, Decoder, Encoder, FieldSink};

const LIMITS: BlockLimits = BlockLimits { most_string: 65536, most_total: 1 << 24, most_fields: 10_000 };

#[derive(Default)]
struct Fields(Vec<String>);

impl FieldSink for Fields {
    fn field(&mut self, field: DecodedField<'_>) {
        self.0.push(format!("{}:{}", hex(field.name), hex(field.value)));
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn bytes(text: &str) -> Vec<u8> {
    let digit = |byte: u8| char::from(byte).to_digit(16).unwrap_or(0) as u8;
    text.as_bytes().chunks(2).map(|pair| digit(pair[0]) << 4 | pair.get(1).map_or(0, |&low| digit(low))).collect()
}

fn main() {
    let (mut decoder, mut encoder) = (Decoder::new(4096), Encoder::new());
    for line in std::io::stdin().lock().lines().map_while(Result::ok) {
        let (command, rest) = line.split_once(' ').unwrap_or((&line, ""));
        match command {
            "decode" => {
                let mut fields = Fields::default();
                match decoder.decode(&bytes(rest), &LIMITS, &mut fields) {
                    Ok(()) => println!("{}", fields.0.join(" ")),
                    Err(error) => println!("error {error}"),
                }
            }
            "encode" => {
                let mut block = Vec::new();
                encoder.begin(&mut block);
                for (name, value) in rest.split(' ').filter_map(|field| field.split_once(':')) {
                    encoder.field(&bytes(name), &bytes(value), &mut block);
                }
                println!("{}", hex(&block));
            }
            "size" => {
                let size = rest.parse().unwrap_or(4096);
                decoder.set_table_size(size);
                encoder.set_most(size, u32::MAX);
                println!("{line}");
            }
            _ => {
                encoder.forget();
                println!("{line}");
            }
        }
    }
}
