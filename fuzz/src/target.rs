//! The parts of a fuzz target.

use std::path::Path;
use std::{fs, io};

/// A fuzz target.
pub struct Target {
    /// The name of its binary.
    pub name: &'static str,
    /// The check that must hold for every input; it panics where it does not.
    pub body: fn(&[u8]),
    /// Inputs to begin with.
    pub seeds: fn() -> Vec<Vec<u8>>,
    /// The words that inputs of this kind are made of.
    pub words: &'static [&'static [u8]],
}

impl Target {
    /// Writes the seeds and the words for libFuzzer, if the environment's `FUZZ_CORPUS` names a folder: a file for each seed
    /// in the folder `NAME`, and the dictionary `NAME.dict`.
    ///
    /// # Panics
    /// Where they cannot be written: the fuzzer would begin with nothing.
    pub fn write_corpus(&self) {
        if let Some(folder) = std::env::var_os("FUZZ_CORPUS") {
            let written = self.write_corpus_to(Path::new(&folder));
            assert!(written.is_ok(), "{}: {written:?}", folder.display());
        }
    }

    fn write_corpus_to(&self, folder: &Path) -> io::Result<()> {
        let own = folder.join(self.name);
        fs::create_dir_all(&own)?;
        for (number, seed) in (self.seeds)().iter().enumerate() {
            fs::write(own.join(format!("seed-{number}")), seed)?;
        }
        fs::write(folder.join(format!("{}.dict", self.name)), self.dictionary())
    }

    /// The words in the form of libFuzzer's dictionaries: one in quotes on each line, unusual bytes as `\xNN`.
    fn dictionary(&self) -> String {
        let mut text = String::new();
        for word in self.words {
            text.push('"');
            for &byte in *word {
                match byte {
                    b'"' | b'\\' => text.extend(['\\', byte.into()]),
                    b' '..=b'~' => text.push(byte.into()),
                    _ => text.push_str(&format!("\\x{byte:02x}")),
                }
            }
            text.push_str("\"\n");
        }
        text
    }
}
