//! Levels of importance of log lines.

use std::fmt;
use std::str::FromStr;

/// The importance of a line; nginx's levels. A smaller number is more important.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Level {
    /// The process cannot continue.
    Emerg = 1,
    /// An impossible event happened; an administrator should look.
    Alert,
    /// A serious condition.
    Crit,
    /// A request failed because of this server or the system. The default threshold of `error_log`.
    Error,
    /// Something is suspicious but works.
    Warn,
    /// An event of normal operation worth knowing.
    Notice,
    /// Errors of clients, and other minor events.
    Info,
    /// Everything is logged.
    Debug,
}

impl Level {
    /// All levels, most important first.
    pub const ALL: [Level; 8] =
        [Level::Emerg, Level::Alert, Level::Crit, Level::Error, Level::Warn, Level::Notice, Level::Info, Level::Debug];

    /// The name in the configuration and in the lines.
    pub fn name(self) -> &'static str {
        match self {
            Level::Emerg => "emerg",
            Level::Alert => "alert",
            Level::Crit => "crit",
            Level::Error => "error",
            Level::Warn => "warn",
            Level::Notice => "notice",
            Level::Info => "info",
            Level::Debug => "debug",
        }
    }

    /// The level with this number (`level as u8`), for hand-over between processes.
    pub fn from_number(number: u8) -> Option<Level> {
        Self::ALL.into_iter().find(|level| *level as u8 == number)
    }
}

impl FromStr for Level {
    type Err = ();

    fn from_str(text: &str) -> Result<Level, ()> {
        Self::ALL.into_iter().find(|level| level.name() == text).ok_or(())
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
