//! Reading the socket of a loop that is late: its sessions' datagrams are kept for it, datagrams of new clients go to other
//! loops. These answer by sockets of their own, or by the same one where the address has no other.
//!
//! Packets of QUIC that belong to no connection of the late loop go to another one, too. That loop answers what needs no
//! connection (Retry, version negotiation, stateless resets), and passes on what belongs to a third one.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use freerun_runtime::net::udp::{BATCH, DatagramDetail, LONGEST_RUN, ReceivedDatagrams, Receiver};

use super::LATE;
use super::receive::hand_over;
use crate::accept::datagrams::SharedPart;
use crate::accept::datagrams::client_key::ClientKind;
use crate::accept::datagrams::datagram_copy::CopiedDatagrams;
use crate::accept::datagrams::directory::{Directory, ReadingRight, SocketPart};
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
            for one in receiver.iter().flat_map(|one| directory.kind().separate(one)) {
                let to = destination(directory, &reading, &one, &helper);
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

/// The part whose loop is to have a datagram that was read in the place of a late loop; the loop of `helper` takes new clients.
/// `None`: it is kept for the late loop.
fn destination(
    directory: &Directory,
    reading: &ReadingRight<'_>,
    one: &ReceivedDatagrams<'_>,
    helper: &Arc<SocketPart>,
) -> Option<Arc<SocketPart>> {
    if let Some(number) = directory.stray(one) {
        return directory.part(number);
    }
    let is_of_nobody = match directory.kind() {
        ClientKind::Sessions => false,
        ClientKind::Connections if reading.is_of_reader(one) => return None,
        // It begins nothing, and is nobody's as far as its first bytes say.
        ClientKind::Connections => directory.kind().key(one).is_none(),
    };
    let new = || !reading.may_know(one) && directory.add_stray(one, helper.number);
    (is_of_nobody || new()).then(|| helper.clone())
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

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use freerun_quic::connection_id::{ConnectionIds, LoopPlace, NO_PLACE};
    use freerun_quic::keys::QuicKeys;

    use super::*;
    use crate::accept::datagrams::client_key::{ClientKey, FirstId};

    /// A packet to this connection ID, with the header of an Initial packet or a short one.
    fn packet(id: &[u8], is_initial: bool) -> Vec<u8> {
        let head = if is_initial { vec![0xc3, 0, 0, 0, 1, id.len() as u8] } else { vec![0x43] };
        [&head[..], id, &[0; 30]].concat()
    }

    #[test]
    fn packets_of_connections_wait_for_their_loop_and_others_go_where_their_clients_are() {
        let directory = Arc::new(Directory::new(ClientKind::Connections));
        directory.extend(3);
        let parts = directory.parts();
        let (late, helper) = (&parts[0], &parts[1]);
        let keys = QuicKeys::of(&[7; 32], "").unwrap();
        let ids = |index: u16| ConnectionIds::new(&keys, LoopPlace { process: 0, index, number: 0, of: 3 });
        late.set_ids(ids(5));
        let goes_to = |id: &[u8], is_initial: bool| {
            let bytes = packet(id, is_initial);
            let from = Some(SocketAddr::from(([192, 0, 2, 1], 9)));
            let one = ReceivedDatagrams { bytes: &bytes, from, to: None, ecn: 0, segment: None, is_truncated: false };
            let to = destination(&directory, &late.try_read().unwrap(), &one, helper);
            to.map(|to| to.number)
        };
        for is_initial in [false, true] {
            assert_eq!(goes_to(&ids(5).make(9), is_initial), None);
            // Of another loop, of nobody, and the answer to a Retry packet.
            assert_eq!(goes_to(&ids(6).make(9), is_initial), Some(1));
            assert_eq!(goes_to(&[7; 18], is_initial), Some(1));
            assert_eq!(goes_to(&ids(5).make(NO_PLACE), is_initial), Some(1));
        }
        let client = |id: &[u8]| ClientKey::FirstId(FirstId::from_slice(id));
        let at = |number: usize| SharedPart { directory: directory.clone(), part: parts[number].clone() };
        // A client whose handshake the late loop has begun.
        at(0).note(&client(b"begun"), true);
        assert_eq!(goes_to(b"begun", true), None);
        at(0).note(&client(b"begun"), false);
        assert_eq!(goes_to(b"begun", true), Some(1));
        // One that another loop than the helper has since.
        let bytes = packet(b"moved", true);
        let from = Some(SocketAddr::from(([192, 0, 2, 1], 9)));
        let one = ReceivedDatagrams { bytes: &bytes, from, to: None, ecn: 0, segment: None, is_truncated: false };
        assert!(directory.add_stray(&one, 2));
        at(2).note(&client(b"moved"), true);
        assert_eq!(goes_to(b"moved", true), Some(2));
        at(2).note(&client(b"moved"), false);
        assert_eq!(goes_to(b"moved", true), Some(1));
    }
}
