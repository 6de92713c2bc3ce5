//! Real applications behind the server: PHP under php-fpm, Python under uWSGI, Node, a WebSocket server, memcached.

mod http;
mod memcached;
mod peers;
mod php;
mod python;

use freerun_testkit::{TempDir, TestClient};

/// Lines of 64 bytes that an application numbers from 0.
fn numbered_lines(lines: usize) -> Vec<u8> {
    (0..lines).flat_map(|line| format!("{line:063}\n").into_bytes()).collect()
}

/// Bytes that no pattern makes smaller or equal to each other.
fn noise(len: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    (0..len)
        .map(|_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state as u8
        })
        .collect()
}

/// The CRC that PHP and Python know, too.
fn crc32(bytes: &[u8]) -> u32 {
    let mut crc = flate2::Crc::new();
    crc.update(bytes);
    crc.sum()
}

/// Asks for events, and lets the application go on only when the one before has come: they come one by one, or not at all.
fn events_come_one_by_one(client: &mut TestClient, target: &str) {
    let folder = TempDir::new("events");
    let separator = if target.contains('?') { '&' } else { '?' };
    let target = format!("{target}{separator}folder={}", folder.path().display());
    client.send(format!("GET {target} HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n"));
    for n in 1..=3 {
        let event = format!("data: {n}\n\n");
        client.until(|bytes| bytes.windows(event.len()).any(|window| window == event.as_bytes()));
        std::fs::write(folder.path().join(format!("seen{n}")), "").expect("the sign");
    }
    let response = client.response();
    assert_eq!((response.status, response.text().as_str()), (200, "data: 1\n\ndata: 2\n\ndata: 3\n\n"));
}
