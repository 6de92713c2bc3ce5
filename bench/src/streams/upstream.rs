//! The server behind the proxies: it echoes what comes, or sends without end, as the first byte of a connection says.

use std::collections::HashMap;
use std::io::{self, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsRawFd as _;
use std::thread;

use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};

use crate::error::{ErrorContext, Result};
use crate::process::on_cores;

/// The first byte of a connection that is echoed.
pub const ECHO: u8 = b'e';

/// The first byte of a connection that gets zeros without end.
pub const SOURCE: u8 = b's';

/// The number of bytes that are read or written at a time.
const PIECE: usize = 256 * 1024;

/// The number of events that are taken at a time.
const EVENTS: usize = 256;

/// Starts it on these cores. Its thread ends with this process.
pub fn start(cores: &[usize]) -> Result<SocketAddr> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).doing("listen")?;
    let address = listener.local_addr().doing("listen")?;
    listener.set_nonblocking(true).doing("listen")?;
    let serve = move || {
        if let Err(error) = serve(&listener) {
            eprintln!("the upstream has ended: {error}");
        }
    };
    on_cores(cores, || thread::Builder::new().name("upstream".into()).spawn(serve))?.doing("start a thread")?;
    Ok(address)
}

fn serve(listener: &TcpListener) -> io::Result<()> {
    let epoll = epoll::create(CreateFlags::CLOEXEC)?;
    let own = listener.as_raw_fd() as u64;
    epoll::add(&epoll, listener, EventData::new_u64(own), EventFlags::IN)?;
    let mut connections: HashMap<u64, TcpStream> = HashMap::new();
    let mut told: Vec<Event> = Vec::with_capacity(EVENTS);
    let (mut buffer, zeros) = (vec![0; PIECE], vec![0; PIECE]);
    loop {
        told.clear();
        match epoll::wait(&epoll, rustix::buffer::spare_capacity(&mut told), None) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        for event in &told {
            let (key, flags) = (event.data.u64(), event.flags);
            if key == own {
                while let Ok((stream, _)) = listener.accept() {
                    stream.set_nonblocking(true)?;
                    stream.set_nodelay(true)?;
                    let key = stream.as_raw_fd() as u64;
                    epoll::add(&epoll, &stream, EventData::new_u64(key), EventFlags::IN)?;
                    connections.insert(key, stream);
                }
                continue;
            }
            let Some(stream) = connections.get_mut(&key) else { continue };
            let goes_on = if flags.contains(EventFlags::OUT) {
                goes_on(stream.write(&zeros).map(|_| ()))
            } else {
                match stream.read(&mut buffer) {
                    Ok(0) => false,
                    Ok(n) if buffer[0] == ECHO => stream.write_all(&buffer[..n]).is_ok(),
                    Ok(_) => epoll::modify(&epoll, &*stream, EventData::new_u64(key), EventFlags::OUT).is_ok(),
                    Err(error) => goes_on(Err(error)),
                }
            };
            if !goes_on {
                connections.remove(&key);
            }
        }
    }
}

/// Whether a connection is still there.
fn goes_on(done: io::Result<()>) -> bool {
    done.map_or_else(|error| error.kind() == io::ErrorKind::WouldBlock, |()| true)
}
