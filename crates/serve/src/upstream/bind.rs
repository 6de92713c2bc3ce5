//! `bind`: the local address of connections to upstream servers.

use std::fmt;
use std::net::{IpAddr, SocketAddr};

use freerun_conf::{Cx, Node, Problem, Shape, Value, parse_number, text_of};
use freerun_runtime::log::Level;

use crate::values::Template;
use crate::values::subject::Subject;

/// The value of `proxy_bind` and the corresponding directives.
pub enum Bind<S> {
    /// The kernel chooses.
    Off,
    /// A fixed address.
    Fixed(Local),
    /// An address from variables; a text that is not an address leaves the choice to the kernel.
    Computed {
        /// The text with variables.
        address: Template<S>,
        /// Whether the address may be another machine's; see [`Local::transparent`].
        transparent: bool,
    },
}

// Not derived, because that would demand the trait of the subject.
impl<S> Clone for Bind<S> {
    fn clone(&self) -> Bind<S> {
        match self {
            Bind::Off => Bind::Off,
            Bind::Fixed(local) => Bind::Fixed(*local),
            Bind::Computed { address, transparent } => {
                Bind::Computed { address: address.clone(), transparent: *transparent }
            }
        }
    }
}

impl<S> fmt::Debug for Bind<S> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Bind::Off => formatter.write_str("Off"),
            Bind::Fixed(local) => formatter.debug_tuple("Fixed").field(local).finish(),
            Bind::Computed { address, .. } => formatter.debug_tuple("Computed").field(address).finish_non_exhaustive(),
        }
    }
}

/// A local address to connect from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Local {
    /// The address; port 0 is any port.
    pub address: SocketAddr,
    /// Whether the address may belong to another machine.
    pub transparent: bool,
}

/// Parses `1.2.3.4`, `1.2.3.4:80`, `::1`, `[::1]` or `[::1]:80`. A port that is written is not 0, as in nginx: any port is
/// meant by writing none.
pub fn parse_local(text: &str) -> Option<SocketAddr> {
    if let Ok(ip) = text.parse::<IpAddr>() {
        return Some(SocketAddr::new(ip, 0));
    }
    let (ip, rest) = match text.strip_prefix('[') {
        Some(inside) => inside.split_once(']')?,
        None => text.split_at(text.find(':')?),
    };
    let port = match rest.strip_prefix(':') {
        Some(digits) => parse_number(digits).and_then(|port| u16::try_from(port).ok()).filter(|port| *port != 0)?,
        None if rest.is_empty() => 0,
        None => return None,
    };
    Some(SocketAddr::new(ip.parse().ok()?, port))
}

impl<S: Subject> Bind<S> {
    /// The address for this subject. A text that is not an address is logged, and the kernel chooses.
    pub fn of(&self, subject: &S) -> Option<Local> {
        match self {
            Bind::Off => None,
            Bind::Fixed(local) => Some(*local),
            Bind::Computed { address, transparent } => {
                let text = address.render(subject);
                if text.is_empty() {
                    return None;
                }
                let text = text_of(&text);
                match parse_local(&text) {
                    Some(address) => Some(Local { address, transparent: *transparent }),
                    None => {
                        subject.log(Level::Error, format_args!("invalid local address \"{text}\""));
                        None
                    }
                }
            }
        }
    }
}

impl<S: Subject> Value for Bind<S> {
    const SHAPE: Shape = Shape::between(1, 2, "address [transparent] | off");

    fn parse(directive: &Node, cx: &mut Cx) -> Result<Bind<S>, Problem> {
        let word = &directive.args[0];
        if directive.args.len() == 1 && word.text == "off" {
            return Ok(Bind::Off);
        }
        let computed = word.text.contains('$');
        let fixed = parse_local(&word.text);
        if !computed && fixed.is_none() {
            return Err(Problem::new(format!("invalid address \"{}\"", word.text)).at(word.place));
        }
        let transparent = match directive.args.get(1) {
            None => false,
            Some(word) if word.text == "transparent" => true,
            Some(word) => return Err(Problem::invalid_parameter(directive, word)),
        };
        match fixed {
            Some(address) => Ok(Bind::Fixed(Local { address, transparent })),
            None => Ok(Bind::Computed { address: Template::parse(word, cx)?, transparent }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn local_addresses() {
        for (text, want) in [
            ("127.0.0.1", Some("127.0.0.1:0")),
            ("127.0.0.1:80", Some("127.0.0.1:80")),
            ("::1", Some("[::1]:0")),
            ("[::1]", Some("[::1]:0")),
            ("[::1]:80", Some("[::1]:80")),
            ("127.0.0.1:99999", None),
            ("[127.0.0.1]", Some("127.0.0.1:0")),
            ("[::1]:0", None),
            ("127.0.0.1:0", None),
            ("127.0.0.1:+5", None),
            ("localhost", None),
            ("unix:/x", None),
            ("", None),
        ] {
            assert_eq!(parse_local(text), want.map(|want| want.parse().unwrap()), "{text}");
        }
    }
}
