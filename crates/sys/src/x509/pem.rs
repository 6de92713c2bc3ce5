//! PEM texts, whatever is in them.

use super::{Errors, PemReader, lc, take_buffer};
use std::ffi::{CStr, c_char, c_long};
use std::ptr::null_mut;

/// A text that the library has allocated.
struct LibraryText(*mut c_char);

impl Drop for LibraryText {
    fn drop(&mut self) {
        // SAFETY: the text is null or the library's, and is freed once.
        unsafe { lc::OPENSSL_free(self.0.cast()) };
    }
}

/// The contents of the first block of a PEM text that has one of these labels. Other text and other blocks before it
/// are skipped, if they are proper blocks.
pub fn pem_block(pem: &[u8], labels: &[&CStr]) -> Result<Vec<u8>, Errors> {
    drop(Errors::take());
    let reader = PemReader::new(pem)?;
    loop {
        let (mut label, mut header) = (LibraryText(null_mut()), LibraryText(null_mut()));
        let (mut data, mut length): (*mut u8, c_long) = (null_mut(), 0);
        // SAFETY: the BIO is alive; the library allocates the texts and the buffer and says how long the buffer is.
        let read =
            unsafe { lc::PEM_read_bio(reader.as_ptr(), &mut label.0, &mut header.0, &mut data, &mut length) } == 1;
        let errors = Errors::take();
        if !read || label.0.is_null() {
            return Err(errors);
        }
        // SAFETY: `data` is null or what the library has just allocated.
        let data = unsafe { take_buffer(data, usize::try_from(length).unwrap_or(0)) };
        // SAFETY: the text ends with a NUL, and is alive until the end of this round.
        if labels.contains(&unsafe { CStr::from_ptr(label.0) }) {
            return Ok(data);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::pem_block;

    #[test]
    fn the_first_block_with_the_label_is_taken() {
        let block = |label: &str, text: &str| format!("-----BEGIN {label}-----\n{text}\n-----END {label}-----\n");
        let both = format!("words\n{}{}{}", block("A", "AAAA"), block("B", "AQID"), block("B", "BAUG"));
        assert_eq!(pem_block(both.as_bytes(), &[c"B"]), Ok(vec![1, 2, 3]));
        assert_eq!(pem_block(both.as_bytes(), &[c"C", c"A"]), Ok(vec![0, 0, 0]));
        assert!(pem_block(both.as_bytes(), &[c"C"]).is_err_and(|errors| errors.no_start_line()));
        let damaged = block("A", "!!!!") + &both;
        assert!(pem_block(damaged.as_bytes(), &[c"B"]).is_err_and(|errors| errors.bad_base64()));
        let cut = &both[..both.len() - 10];
        assert!(pem_block(cut.as_bytes(), &[c"C"]).is_err_and(|errors| errors.bad_end_line()));
        // The library says nothing about an empty one.
        assert!(pem_block(block("A", "").as_bytes(), &[c"A"]).is_err_and(|errors| errors.to_string().is_empty()));
    }
}
