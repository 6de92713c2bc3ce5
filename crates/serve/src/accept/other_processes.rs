//! Messages of other processes that serve the same sockets: the first loop takes them out of the box of this process.
//!
//! One process reads the sockets of QUIC, the last one to claim them. A new binary does that when it serves. Each
//! reader passes packets on by the number of the process in their connection IDs. So it does no harm if two read for a moment.

use std::future::poll_fn;
use std::sync::Arc;
use std::time::Duration;

use freerun_runtime::net::udp::{BATCH, Datagrams};
use freerun_runtime::{loops, timer};

use crate::accept::REST;
use crate::accept::loop_listeners::{self, LoopListeners};
use crate::listen::ListenSpec;
use crate::loops::message_boxes::{BoxMessage, MessageBoxes};
use crate::loops::shared::SharedState;

/// The pause before a message is sent again that a full box did not take, and the most times that this is done.
const AGAIN: Duration = Duration::from_millis(20);
const TIMES: usize = 200;

/// Has the first loop take the messages of other processes.
pub(super) fn begin(shared: &Arc<SharedState>, boxes: &Arc<MessageBoxes>) {
    let (state, boxes) = (shared.clone(), boxes.clone());
    tell_first(shared, move || loops::spawn(0, "hearing other processes", receive(state, boxes)));
}

/// Reads the sockets of QUIC at these addresses from now on, and tells the other processes.
pub(super) fn claim(shared: &Arc<SharedState>, boxes: &Arc<MessageBoxes>, addresses: &[String]) {
    if addresses.is_empty() {
        return;
    }
    for message in boxes.claim(addresses) {
        send_to_others(shared, boxes, message);
    }
    look_who_reads(shared);
}

/// Reads all sockets of QUIC from now on that another process has read.
pub(super) fn claim_all(shared: &Arc<SharedState>, boxes: &Arc<MessageBoxes>) {
    let generation = shared.generation.load_full();
    let names = quic_addresses(generation.listeners.iter().map(|spec| &**spec));
    let elsewhere: Vec<String> = names.filter(|name| boxes.is_read_elsewhere(name)).collect();
    claim(shared, boxes, &elsewhere);
}

/// The names of the addresses of QUIC among these.
pub(super) fn quic_addresses<'a>(specs: impl Iterator<Item = &'a ListenSpec>) -> impl Iterator<Item = String> {
    specs.filter(|spec| spec.quic).map(|spec| spec.name.clone())
}

/// Sends a message to all other processes. A box that is full gets it later.
pub(super) fn send_to_others(shared: &Arc<SharedState>, boxes: &Arc<MessageBoxes>, message: BoxMessage<'static>) {
    if boxes.post_to_others(&message) {
        return;
    }
    let boxes = boxes.clone();
    tell_first(shared, move || {
        loops::spawn(0, "telling other processes", async move {
            for _ in 0..TIMES {
                timer::sleep(AGAIN).await;
                if boxes.post_to_others(&message) {
                    break;
                }
            }
        });
    });
}

fn tell_first(shared: &SharedState, job: impl FnOnce() + Send + 'static) {
    let loops = shared.loops.load();
    loops.first_remote().map(|remote| remote.tell(job));
}

/// Has the loops read sockets, or stop reading them, as this process does from now on.
fn look_who_reads(shared: &SharedState) {
    let loops = shared.loops.load();
    for index in &loops.running {
        loop_listeners::tell_listeners(shared, *index, LoopListeners::look_who_reads);
    }
}

async fn receive(shared: Arc<SharedState>, boxes: Arc<MessageBoxes>) {
    let own = Datagrams::connected(boxes.own());
    loop {
        let take_all = |messages: &freerun_runtime::net::udp::Receiver| {
            messages.iter().for_each(|message| take(&shared, &boxes, message.bytes));
        };
        if poll_fn(|context| own.poll_receive(context, BATCH, take_all)).await.is_err() {
            timer::sleep(REST).await;
        }
        loops::yield_now().await;
    }
}

/// Takes a message.
fn take(shared: &Arc<SharedState>, boxes: &Arc<MessageBoxes>, bytes: &[u8]) {
    match BoxMessage::decode(bytes) {
        Some(BoxMessage::Packet(packet)) => {
            boxes.note_living(1 << packet.sender);
            let copy: Box<[u8]> = bytes.into();
            let told = loop_listeners::pass_packet(shared, packet.index.into(), move |services| {
                if let Some(BoxMessage::Packet(packet)) = BoxMessage::decode(&copy) {
                    services.all().for_each(|service| service.passed_packet(&packet));
                }
            });
            if !told {
                shared.quic.lost_from_clients.add();
            }
        }
        Some(BoxMessage::Claim { process, at, addresses }) => {
            boxes.note_living(1 << process);
            if boxes.note_claim(process, at, &addresses) {
                look_who_reads(shared);
            }
        }
        Some(BoxMessage::Offer { process }) => {
            boxes.note_living(1 << process);
            if !boxes.is_draining() {
                claim_all(shared, boxes);
            }
        }
        Some(BoxMessage::Gone { process }) => {
            let has_read = boxes.note_gone(process);
            if has_read && !boxes.is_draining() {
                claim_all(shared, boxes);
            }
        }
        // Another version of the program may have other messages.
        None => {}
    }
}
