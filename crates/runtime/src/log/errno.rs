//! The form in which log lines print an error of the operating system.

use std::fmt;
use std::io;

/// An operating-system error as nginx prints it: `2: No such file or directory`. To be put in parentheses.
pub struct Errno<'a>(pub &'a io::Error);

impl fmt::Display for Errno<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = self.0.to_string();
        match self.0.raw_os_error() {
            Some(number) => {
                let tail = format!(" (os error {number})");
                write!(f, "{number}: {}", text.strip_suffix(tail.as_str()).unwrap_or(&text))
            }
            None => f.write_str(&text),
        }
    }
}
