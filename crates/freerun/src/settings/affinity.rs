//! The directive `worker_cpu_affinity`.

use freerun_conf::{Cx, Node, Problem, Shape, Value, Word};
use rustix::thread::CpuSet;

/// The processors of each event loop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Affinity {
    /// Each loop gets one processor of those allowed (`None`: of all), in turn.
    Auto(Option<Vec<usize>>),
    /// The processors of each loop; loops beyond the list use the last entry.
    Masks(Vec<Vec<usize>>),
}

impl Value for Affinity {
    const SHAPE: Shape = Shape::at_least(1, "cpumask ... | auto [cpumask]");

    fn parse(node: &Node, _: &mut Cx) -> Result<Affinity, Problem> {
        if node.args[0].text == "auto" {
            return match node.args.as_slice() {
                [_] => Ok(Affinity::Auto(None)),
                [_, allowed] => Ok(Affinity::Auto(Some(mask(allowed)?))),
                _ => Err(Problem::wrong_count(node)),
            };
        }
        node.args.iter().map(mask).collect::<Result<_, _>>().map(Affinity::Masks)
    }
}

/// The numbers of the set bits; the last character is processor 0. Spaces are ignored.
fn mask(word: &Word) -> Result<Vec<usize>, Problem> {
    let mut cpus = Vec::new();
    for (number, bit) in word.text.chars().rev().filter(|c| *c != ' ').enumerate() {
        match bit {
            '0' => {}
            '1' if number < CpuSet::MAX_CPU => cpus.push(number),
            '1' => {
                let message = format!("\"worker_cpu_affinity\" supports up to {} CPUs only", CpuSet::MAX_CPU);
                return Err(Problem::new(message).at(word.place));
            }
            _ => {
                let wrong = word.text.chars().find(|c| !matches!(c, '0' | '1' | ' ')).unwrap_or(bit);
                let message = format!("invalid character \"{wrong}\" in \"worker_cpu_affinity\"");
                return Err(Problem::new(message).at(word.place));
            }
        }
    }
    Ok(cpus)
}

impl Affinity {
    /// The processors for a loop, among the `available` ones; all of these if the setting names none.
    pub fn cpus(&self, index: usize, available: &[usize]) -> Vec<usize> {
        let chosen: Vec<usize> = match self {
            Affinity::Auto(allowed) => {
                let usable: Vec<usize> = match allowed {
                    Some(allowed) => available.iter().copied().filter(|cpu| allowed.contains(cpu)).collect(),
                    None => available.to_vec(),
                };
                if usable.is_empty() { usable } else { vec![usable[index % usable.len()]] }
            }
            Affinity::Masks(masks) => masks.get(index).or(masks.last()).cloned().unwrap_or_default(),
        };
        if chosen.is_empty() { available.to_vec() } else { chosen }
    }
}

/// The processors that this process may use.
pub fn available() -> Vec<usize> {
    match rustix::thread::sched_getaffinity(None) {
        Ok(set) => (0..CpuSet::MAX_CPU).filter(|cpu| set.is_set(*cpu)).collect(),
        Err(_) => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masks_read_from_the_right() {
        assert_eq!(mask(&Word::synthetic("0101")).unwrap(), [0, 2]);
        assert_eq!(mask(&Word::synthetic("1000 0000")).unwrap(), [7]);
        let message = |text: &str| mask(&Word::synthetic(text)).unwrap_err().message;
        assert_eq!(message("foo"), "invalid character \"f\" in \"worker_cpu_affinity\"");
        assert_eq!(message(&format!("1{}", "0".repeat(1024))), "\"worker_cpu_affinity\" supports up to 1024 CPUs only");
    }

    #[test]
    fn loops_beyond_the_masks_take_the_last() {
        let masks = Affinity::Masks(vec![vec![0], vec![1, 2]]);
        assert_eq!(masks.cpus(0, &[]), [0]);
        assert_eq!(masks.cpus(5, &[]), [1, 2]);
        assert_eq!(Affinity::Masks(vec![vec![]]).cpus(0, &[0]), [0]);
    }

    #[test]
    fn auto_goes_round_the_processors() {
        let all = Affinity::Auto(None);
        assert_eq!(all.cpus(3, &[4, 6]), [6]);
        let some = Affinity::Auto(Some(vec![6, 9]));
        assert_eq!(some.cpus(3, &[4, 6]), [6]);
        assert_eq!(Affinity::Auto(Some(vec![9])).cpus(0, &[4, 6]), [4, 6]);
    }
}
