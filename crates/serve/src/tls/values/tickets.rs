//! The value of `ssl_session_tickets`, and the keys that several machines share.

use std::collections::BTreeMap;

use freerun_conf::{Cx, Node, Problem, Shape, Value};
use freerun_tls::session::TicketKeys;

use crate::configuration::engine_declared::{EngineDeclared, SecretDeclared};

/// The value of `ssl_session_tickets`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SessionTickets {
    /// No session is resumed by a ticket.
    Off,
    /// The machine has keys of its own, or keys of files.
    On,
    /// Several machines have the same keys (`sync`).
    Shared,
}

impl Value for SessionTickets {
    const SHAPE: Shape = Shape::exactly(1, "on | off | sync");

    fn parse(directive: &Node, cx: &mut Cx) -> Result<SessionTickets, Problem> {
        let word = &directive.args[0];
        match word.text.as_str() {
            "on" => Ok(SessionTickets::On),
            "off" => Ok(SessionTickets::Off),
            "sync" => {
                EngineDeclared::check(directive, word, cx)?;
                SecretDeclared::check(directive, word, cx)?;
                Ok(SessionTickets::Shared)
            }
            _ => Err(Problem::invalid_value(directive, word).hint("it is \"on\", \"off\" or \"sync\"")),
        }
    }
}

/// The ticket keys of a configuration that several machines share, by the seconds of their period. They live in the configuration's
/// context, and are a part of its generation then.
#[derive(Debug, Clone, Default)]
pub struct SharedTickets(pub BTreeMap<u64, TicketKeys>);
