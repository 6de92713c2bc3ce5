//! Reading the socket of a loop that is late: its sessions' datagrams are kept for it, datagrams of new clients go to other
//! loops. These answer by sockets of their own, or by the same one where the address has no other.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use freerun_runtime::net::udp::{BATCH, DatagramDetail, LONGEST_RUN, Receiver};

use super::LATE;
use super::receive::hand_over;
use crate::accept::datagrams::SharedPart;
use crate::accept::datagrams::datagram_copy::CopiedDatagrams;
use crate::accept::datagrams::directory::SocketPart;
use crate::loops::shared::SharedState;

/// The most calls that read from one socket at a time.
const CALLS: usize = 8;

/// Reader of datagrams in the place of loops. Its buffers are made when they are needed first, and stay.
#[derive(Default)]
pub(super) struct RescueReader(Option<Receiver>);

impl RescueReader {
    /// Reads what waits at a late loop's socket. Returns how many datagrams, or runs of them, other loops got.
    pub(super) fn rescue(&mut self, shared: &SharedState, at: &SharedPart, socket: &Arc<OwnedFd>) -> usize {
        let receiver = self.0.get_or_insert_with(|| Receiver::new(BATCH, LONGEST_RUN));
        let SharedPart { directory, part } = at;
        let mut taken = 0;
        for _ in 0..CALLS {
            // The loop may be reading right now: it is not late there.
            let Some(mut reading) = part.try_read().filter(|reading| reading.has_room()) else { break };
            let Some(helper) = helper(shared, at) else { break };
            let Ok(count) = receiver.receive(socket, BATCH, DatagramDetail::All) else { break };
            let mut batches: Vec<(Arc<SocketPart>, Vec<CopiedDatagrams>)> = Vec::new();
            for one in receiver.iter() {
                let known = directory.stray(&one);
                let new = || !reading.may_know(&one) && directory.add_stray(&one, helper.number);
                let to = match known {
                    Some(number) => directory.part(number),
                    None => new().then(|| helper.clone()),
                };
                match to.filter(|to| to.number != part.number) {
                    None => reading.keep(&one),
                    Some(to) => match batches.iter_mut().find(|(known, _)| Arc::ptr_eq(known, &to)) {
                        Some((_, batch)) => batch.push(CopiedDatagrams::of(&one)),
                        None => batches.push((to, vec![CopiedDatagrams::of(&one)])),
                    },
                }
            }
            // Before anybody else reads: what comes next of a stray is handed over behind this.
            for (to, batch) in batches {
                taken += batch.len();
                hand_over(shared, SharedPart { directory: directory.clone(), part: to }, batch);
            }
            drop(reading);
            part.left.notify_one();
            if count < BATCH {
                break;
            }
        }
        taken
    }
}

/// Another part of the address, whose loop has fewest connections of those that are not late and have room.
fn helper(shared: &SharedState, at: &SharedPart) -> Option<Arc<SocketPart>> {
    let loops = shared.loops.load();
    let open = |index: usize| {
        let stats = loops.stats.get(index).filter(|_| !shared.drained.has(index))?;
        let open = stats.active.get();
        let has_room = open + (BATCH as u64) < shared.connections as u64;
        (stats.in_poll_for() < LATE && has_room).then_some(open)
    };
    if at.directory.answers_by().is_some() {
        let others = loops.taking().map(|(index, _)| index).filter(|index| *index != at.part.reader());
        let (_, index) = others.filter_map(|index| Some((open(index)?, index))).min()?;
        return at.directory.part_of_loop(index).filter(|part| part.has_room_for(BATCH));
    }
    let parts = at.directory.parts();
    let others = parts.iter().filter(|part| part.number != at.part.number && part.has_room_for(BATCH));
    let open = others.filter_map(|part| Some((open(part.reader())?, part)));
    open.min_by_key(|(open, _)| *open).map(|(_, part)| part.clone())
}
