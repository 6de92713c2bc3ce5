//! Receiving into a buffer whose pieces are handed out without copying.

use std::io;
use std::os::fd::AsFd;

use bytes::BytesMut;
use rustix::net::RecvFlags;

/// Reads at most `most` bytes from a socket into the spare capacity of `buffer`; `Ok(0)` is the end of the stream (or
/// there is no room for any byte).
///
/// # Errors
/// The error of `recv(2)`.
pub fn receive(socket: impl AsFd, buffer: &mut BytesMut, most: usize) -> io::Result<usize> {
    let spare = buffer.spare_capacity_mut();
    let room = spare.len().min(most);
    let ((filled, _), _) = rustix::net::recv(socket, &mut spare[..room], RecvFlags::empty())?;
    let n = filled.len();
    let len = buffer.len() + n;
    // SAFETY: `filled` is the beginning of the spare capacity, which `recv` has initialised: the first `len` bytes are.
    unsafe { buffer.set_len(len) };
    Ok(n)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::os::unix::net::UnixStream;

    #[test]
    fn bytes_are_appended_up_to_the_capacity_and_the_end_is_told() {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let mut buffer = BytesMut::with_capacity(64);
        let room = buffer.capacity();
        buffer.extend_from_slice(b"head ");
        theirs.write_all(&[b'x'; 100]).unwrap();
        assert_eq!(receive(&ours, &mut buffer, usize::MAX).unwrap(), room - 5);
        assert_eq!(buffer.len(), room);
        assert!(buffer.starts_with(b"head xxx"));
        buffer.clear();
        assert_eq!(receive(&ours, &mut buffer, usize::MAX).unwrap(), 100 - (room - 5));
        theirs.write_all(b"yyy").unwrap();
        assert_eq!(receive(&ours, &mut buffer, 2).unwrap(), 2);
        buffer.clear();
        assert_eq!(receive(&ours, &mut buffer, 2).unwrap(), 1);
        drop(theirs);
        assert_eq!(receive(&ours, &mut buffer, usize::MAX).unwrap(), 0);
    }
}
