//! Counting: a server under callgrind or dhat, twice with different loads; the difference is what the load costs.

use std::fs;
use std::path::Path;

use freerun_testkit::{Kind, Setup};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::CountError;
use super::cases::{Case, ServedContent, Unit};

/// Requests of the two loads. Start and end of the server, and what only first requests do, are in both.
const REQUESTS: [usize; 2] = [500, 4_500];

/// Rounds. The least count of all is taken. Work that comes with time and not with requests (a look at a file's date
/// each second, the server's idle work) makes counts larger, never smaller.
const ROUNDS: usize = 2;

/// Idle connections of the two loads. Reading the configuration takes more memory for a moment than a thousand of them.
const CONNECTIONS: [usize; 2] = [4_000, 6_000];

/// Files that this process and the server have open besides the connections.
const OTHER_FILES: u64 = 200;

/// The overhead of an allocator for each piece: the header of the C library's, or the loss because mimalloc has pieces
/// of certain sizes.
const PIECE_HEADER: u64 = 8;

/// Has dhat look for an allocator in the program itself, too: without it, the C library's alone is counted.
const ALLOCATOR: &str = "--soname-synonyms=somalloc=NONE";

/// The cost of one request, or one connection.
pub fn count(case: Case, kind: Kind, program: &Path) -> Result<f64, CountError> {
    match case.unit() {
        Unit::Instructions => {
            let mut least = [u64::MAX; 2];
            for _ in 0..ROUNDS {
                for (least, requests) in least.iter_mut().zip(REQUESTS) {
                    *least = (*least).min(once(case, kind, program, requests)?);
                }
            }
            Ok(each(least, REQUESTS))
        }
        Unit::Bytes => {
            raise_limit(CONNECTIONS[1] as u64 + OTHER_FILES)?;
            let few = once(case, kind, program, CONNECTIONS[0])?;
            Ok(each([few, once(case, kind, program, CONNECTIONS[1])?], CONNECTIONS))
        }
    }
}

/// The difference of two counts for each of what makes the difference of the loads.
fn each(counts: [u64; 2], loads: [usize; 2]) -> f64 {
    (counts[1] as f64 - counts[0] as f64) / (loads[1] - loads[0]) as f64
}

/// The count of one run with this load.
fn once(case: Case, kind: Kind, program: &Path, load: usize) -> Result<u64, CountError> {
    let served = ServedContent::new();
    let setup = under(served.setup(case).program(program), case.unit());
    let mut server = setup.try_start(kind)?;
    let clients = case.load(server.address(), load)?;
    server.stop();
    drop(clients);
    let (file, find): (_, fn(&str) -> Option<u64>) = match case.unit() {
        Unit::Instructions => ("callgrind.out", instructions),
        Unit::Bytes => ("valgrind.log", bytes),
    };
    let text = fs::read_to_string(server.path(file)).unwrap_or_default();
    find(&text).ok_or_else(|| CountError::NoCount(text.lines().take(20).collect::<Vec<_>>().join("\n")))
}

/// Has a server run under the tool that counts this.
fn under(setup: Setup, unit: Unit) -> Setup {
    let log = "--log-file=@DIR@/valgrind.log";
    match unit {
        Unit::Instructions => {
            setup.under(&["valgrind", "--tool=callgrind", log, "--callgrind-out-file=@DIR@/callgrind.out"])
        }
        Unit::Bytes => setup.under(&["valgrind", "--tool=dhat", ALLOCATOR, log, "--dhat-out-file=@DIR@/dhat.out"]),
    }
}

/// The sum of all instructions in callgrind's file.
fn instructions(text: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix("totals: "))?.trim().parse().ok()
}

/// The most memory that malloc had given out at a time, as dhat tells it: `At t-gmax: 2,455,972 bytes in 1,646 blocks`.
fn bytes(text: &str) -> Option<u64> {
    let (_, told) = text.split_once("At t-gmax:")?;
    let (bytes, rest) = told.split_once(" bytes in ")?;
    let (blocks, _) = rest.split_once(" blocks")?;
    let number = |text: &str| text.trim().replace(',', "").parse::<u64>().ok();
    Some(number(bytes)? + number(blocks)? * PIECE_HEADER)
}

/// Makes sure that this process and the servers it starts may have this number of open files.
fn raise_limit(wanted: u64) -> Result<(), CountError> {
    let now = getrlimit(Resource::Nofile);
    let limit = now.maximum.unwrap_or(u64::MAX);
    let raised = now.current.is_none_or(|current| current >= wanted)
        || limit >= wanted && setrlimit(Resource::Nofile, Rlimit { current: Some(wanted), ..now }).is_ok();
    if raised { Ok(()) } else { Err(CountError::OpenFiles { wanted, limit }) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_total_of_callgrind_is_found() {
        let text = "# callgrind format\nevents: Ir\nsummary: 4949571\n\nfn=(1)\n0 12\n\ntotals: 4949778\n";
        assert_eq!(instructions(text), Some(4_949_778));
        assert_eq!(instructions("events: Ir\n"), None);
    }

    #[test]
    fn the_most_memory_is_found_in_what_dhat_says() {
        let text = "==7== Total:     3,000,000 bytes in 9,999 blocks\n\
                    ==7== At t-gmax: 2,455,972 bytes in 1,646 blocks\n\
                    ==7== At t-end:  1,024 bytes in 1 blocks\n";
        assert_eq!(bytes(text), Some(2_455_972 + 1_646 * 8));
        assert_eq!(bytes("==7== Total:     3,000,000 bytes in 9,999 blocks\n"), None);
    }

    #[test]
    fn what_both_loads_have_costs_nothing() {
        assert_eq!(each([5_000_000, 33_000_000], [500, 4_500]), 7_000.0);
        assert_eq!(each([500, 100], [1, 2]), -400.0);
    }
}
