//! The program that is measured as the floor: this one, started with other arguments.

use std::ffi::OsString;
use std::fs;
use std::net::SocketAddr;
use std::path::Path;

use super::answers::{self, AnswerSource};
use super::handshakes::{self, FloorKey};
use super::{datagrams, relay};
use crate::error::{Error, ErrorContext, Result};

/// Runs the floor of the arguments behind [`FLOOR_ARGUMENT`](crate::configs::FLOOR_ARGUMENT), until an error. They are the kind of floor, where it listens, and then the
/// server behind, or files with the head and body of the answer.
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> Result<()> {
    let arguments: Vec<String> = arguments.into_iter().map(|word| word.to_string_lossy().into_owned()).collect();
    let word = |index: usize| arguments.get(index).map(String::as_str).unwrap_or_default();
    let address = |index: usize| {
        word(index).parse::<SocketAddr>().map_err(|_| Error::Setup(format!("no address: {:?}", word(index))))
    };
    let listen = address(1)?;
    let answer = |source| {
        let head = fs::read(word(2)).doing(word(2))?;
        answers::serve(listen, source, &head, Path::new(word(3))).doing("serve")
    };
    match word(0) {
        "memory" => answer(AnswerSource::Memory),
        "file" => answer(AnswerSource::File),
        "sealed" => answer(AnswerSource::Sealed),
        "relay" => relay::serve(listen, address(2)?).doing("serve"),
        "datagrams" => datagrams::serve(listen, address(2)?).doing("serve"),
        "rsa" => handshakes::serve(listen, FloorKey::Rsa).doing("serve"),
        "ecdsa" => handshakes::serve(listen, FloorKey::Ecdsa).doing("serve"),
        other => Err(Error::Setup(format!("no floor is called {other:?}"))),
    }
}
