//! The congestion control of connections within the machine.

use std::net::IpAddr;
use std::os::fd::AsFd;

/// The congestion control that every kernel has and every process may use (`net.ipv4.tcp_allowed_congestion_control`,
/// tcp(7)).
const RENO: &str = "reno";

/// Chooses the congestion control of a TCP socket with this address of the peer, or of a listening one.
///
/// Between two sockets of one machine there is no path whose rate or queue could be measured. The accounts of BBR or
/// CUBIC, and BBR's pacing, cost time with each segment and bring nothing. For a loopback address Reno is taken, which
/// does least. Other addresses keep the system's setting. A route may prescribe one (`ip route … congctl lock`), which
/// takes precedence.
pub fn choose_congestion_control(socket: impl AsFd, address: IpAddr) {
    if address.to_canonical().is_loopback() {
        // The connection works without it, too.
        let _ = rustix::net::sockopt::set_tcp_congestion(socket, RENO);
    }
}
