//! `allow` and `deny`: rules by the address of the client.

use std::sync::Arc;

use freerun_conf::{Cidr, Cx, Node, Problem, Setting, Shape, Word};

use crate::listen::address::Address;

/// The clients that a rule applies to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RuleClients {
    All,
    Unix,
    Network(Cidr),
}

/// The rules of a level, in their order.
#[derive(Debug, Clone, Default)]
pub struct Rules(Arc<Vec<(RuleClients, bool)>>);

impl Setting for Rules {
    const SHAPE: Shape = Shape::exactly(1, Rules::SYNTAX);

    fn set(previous: Option<Rules>, directive: &Node, cx: &mut Cx) -> Result<Rules, Problem> {
        let mut rules = previous.unwrap_or_default();
        rules.add(&directive.args[0], directive.name.text == "allow", directive, cx)?;
        Ok(rules)
    }
}

impl Rules {
    /// The syntax of the argument of `allow` and `deny`.
    pub const SYNTAX: &str = "address | CIDR | unix: | all";

    /// Adds a rule for the clients that a word of a directive names.
    ///
    /// # Errors
    /// The word names no clients.
    pub fn add(&mut self, word: &Word, allows: bool, directive: &Node, cx: &mut Cx) -> Result<(), Problem> {
        let whom = match word.text.as_str() {
            "all" => RuleClients::All,
            "unix:" => RuleClients::Unix,
            _ => match Cidr::of_word(directive, word, cx) {
                Some(network) => RuleClients::Network(network),
                None => return Err(Problem::invalid_parameter(directive, word)),
            },
        };
        Arc::make_mut(&mut self.0).push((whom, allows));
        Ok(())
    }

    /// Whether there is no rule.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The verdict of the first rule that matches; `None` if no rule does.
    pub fn judge(&self, address: &Address) -> Option<bool> {
        let fits = |whom: &RuleClients| match (whom, address) {
            (RuleClients::All, _) | (RuleClients::Unix, Address::Unix(_)) => true,
            (RuleClients::Network(network), Address::Ip(address)) => network.contains(address.ip()),
            _ => false,
        };
        self.0.iter().find(|(whom, _)| fits(whom)).map(|(_, allowed)| *allowed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> Address {
        match text {
            "unix" => Address::Unix("unix:".into()),
            ip => Address::Ip((ip.parse::<std::net::IpAddr>().unwrap(), 1).into()),
        }
    }

    #[test]
    fn the_first_rule_that_fits_decides() {
        let network = |text| RuleClients::Network(Cidr::parse(text).unwrap().0);
        let rules = Rules(Arc::new(vec![
            (network("10.0.0.1"), false),
            (network("10.0.0.0/8"), true),
            (RuleClients::Unix, true),
            (network("2001:db8::/32"), true),
            (network("0.0.0.0/0"), false),
        ]));
        for (text, verdict) in [
            ("10.0.0.1", Some(false)),
            ("10.0.0.2", Some(true)),
            ("::ffff:10.0.0.2", Some(true)),
            ("11.0.0.2", Some(false)),
            ("unix", Some(true)),
            ("2001:db8::1", Some(true)),
            ("2001:db9::1", None),
        ] {
            assert_eq!(rules.judge(&address(text)), verdict, "{text}");
        }
        assert_eq!(Rules(Arc::new(vec![(RuleClients::All, false)])).judge(&address("unix")), Some(false));
    }
}
