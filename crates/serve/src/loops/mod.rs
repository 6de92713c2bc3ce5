//! The loops of a worker: what they share, the state of each, what they count, and what they give to each other.

pub mod background;
pub mod client_levels;
pub mod drained_loops;
pub mod figures;
pub mod idle_since_accept;
pub mod local;
pub mod message_boxes;
pub mod passed_packets;
pub mod predictor;
pub mod shared;
pub mod shed_order;
pub mod state;
