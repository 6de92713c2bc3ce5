//! Tests of the machine: its tables, and connections whose bytes come in pieces.

mod driver;
mod end;
mod split;
mod states;

use crate as proto;
