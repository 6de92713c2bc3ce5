//! The value of `outlier_detection`: when a server is left out because of its answers.

use freerun_conf::{Cx, Node, Problem, Shape, Value, parse_time};
use freerun_upstream::health::OutlierRules;

use super::number;

/// `outlier_detection [parameter=value …]`
#[derive(Debug, Clone)]
pub struct Outliers(pub OutlierRules);

impl Value for Outliers {
    const SHAPE: Shape = Shape::at_least(0, "[parameter=value …]");

    fn parse(directive: &Node, _: &mut Cx) -> Result<Outliers, Problem> {
        let mut rules = OutlierRules::default();
        for word in &directive.args {
            let invalid = || Problem::invalid_parameter(directive, word);
            let (name, value) = word.text.split_once('=').ok_or_else(invalid)?;
            let percent = || value.strip_suffix('%').and_then(number).filter(|&share| share <= 100);
            let positive = || parse_time(value).filter(|time| !time.is_zero());
            match name {
                "consecutive" => rules.consecutive = number(value).ok_or_else(invalid)?,
                "rate" if value == "0" => rules.rate = 0,
                "rate" => rules.rate = percent().ok_or_else(invalid)?,
                "window" => rules.window = positive().ok_or_else(invalid)?,
                "requests" => rules.requests = number(value).ok_or_else(invalid)?,
                "ejection" => rules.ejection = positive().ok_or_else(invalid)?,
                "max_ejection" => rules.max_ejection = positive().ok_or_else(invalid)?,
                "max_ejected" => rules.max_ejected = percent().ok_or_else(invalid)?,
                _ => return Err(invalid()),
            }
        }
        Ok(Outliers(rules))
    }
}
