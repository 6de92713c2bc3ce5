use super::movie::{TrackPart, cut};
use super::tables::u32_at;
use super::{Mp4Fault, parse_time};

#[path = "../../../../testkit/src/movie.rs"]
mod fixture;

use fixture::{Movie, movie};

fn atom(file: &[u8], name: &[u8; 4]) -> (usize, usize) {
    let mut at = 0;
    loop {
        let size = u32_at(file, at).unwrap() as usize;
        if &file[at + 4..at + 8] == name {
            return (at, at + size);
        }
        at += size;
    }
}

fn cut_file(file: &[u8], part: TrackPart) -> Result<Vec<u8>, Mp4Fault> {
    let (ftyp, moov, mdat) = (atom(file, b"ftyp"), atom(file, b"moov"), atom(file, b"mdat"));
    let data = (mdat.0 as u64 + 8, mdat.1 as u64);
    let cut = cut(&file[ftyp.0..ftyp.1], &file[moov.0 + 8..moov.1], data, part)?;
    Ok([&cut.head[..], &file[cut.start as usize..(cut.start + cut.len) as usize]].concat())
}

const PART: TrackPart = TrackPart { start: 1500, length: Some(1250), key_frame: true };

#[test]
fn times_have_three_decimals() {
    let rows = [
        ("1", Some(1000)),
        ("1.5", Some(1500)),
        ("0.0019", Some(1)),
        (".25", Some(250)),
        ("1.", Some(1000)),
        ("", None),
        ("-1", None),
        ("1.2.3", None),
        ("1e3", None),
        ("99999999999999999999", None),
        ("9999999999", None),
    ];
    for (text, wanted) in rows {
        assert_eq!(parse_time(text.as_bytes()), wanted, "{text}");
    }
}

#[test]
fn a_part_of_a_part_is_a_movie_too() {
    for kind in [
        Movie::default(),
        Movie { index_last: true, wide: true, extras: true, uniform: false },
        Movie { uniform: true, ..Movie::default() },
    ] {
        let file = movie(kind);
        for key_frame in [false, true] {
            for start in [0, 1, 999, 1500, 4999] {
                let part = TrackPart { start, length: None, key_frame };
                let rest = cut_file(&file, part).unwrap();
                // An edit list and a divided run of chunks may take more than the samples that were left out.
                assert!(rest.len() <= file.len() + 100);
                let again = cut_file(&rest, TrackPart { start: 500, length: Some(300), key_frame }).unwrap();
                assert!(again.len() < rest.len());
            }
        }
    }
    let file = movie(Movie::default());
    let late = cut_file(&file, TrackPart { start: 100_000, ..PART }).unwrap_err();
    assert_eq!(late, Mp4Fault("start time exceeds file duration"));
}

/// Each byte of the index in turn is changed: the result is an answer or an error, and takes no more memory than the
/// movie.
#[test]
fn a_broken_index_is_an_error_and_nothing_worse() {
    let file = movie(Movie { uniform: true, ..Movie::default() });
    let (start, end) = atom(&file, b"moov");
    let mut refused = 0;
    for at in start + 8..end {
        for value in [0, 1, 0x7f, 0xff] {
            let mut broken = file.clone();
            broken[at] = value;
            match cut_file(&broken, PART) {
                Ok(part) => assert!(part.len() < 2 * file.len()),
                Err(_) => refused += 1,
            }
        }
    }
    assert!(refused > 100);
    for len in 0..end - start - 8 {
        let moov = &file[start + 8..start + 8 + len];
        let mdat = (end as u64 + 8, file.len() as u64);
        // If an atom still ends correctly, the result may be a movie with fewer tracks.
        if let Ok(cut) = cut(b"", moov, mdat, PART) {
            assert!(cut.start >= mdat.0 && cut.start + cut.len <= mdat.1);
        }
    }
}
