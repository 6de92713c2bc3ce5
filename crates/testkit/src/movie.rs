//! Small movies: MP4 files with a video track and an audio track, which consist only of their index and counting bytes.

/// The properties in which movies may differ.
#[derive(Clone, Copy, Debug, Default)]
pub struct Movie {
    /// The index is behind the data, with an unused atom before the data.
    pub index_last: bool,
    /// Offsets have 64 bits.
    pub wide: bool,
    /// There are an edit list and user data.
    pub extras: bool,
    /// All audio samples have the same size.
    pub uniform: bool,
}

fn atom(name: &[u8; 4], parts: &[&[u8]]) -> Vec<u8> {
    let body = parts.concat();
    [&u32::try_from(body.len() + 8).expect("small").to_be_bytes()[..], name, &body].concat()
}

fn numbers(numbers: &[u32]) -> Vec<u8> {
    numbers.iter().flat_map(|number| number.to_be_bytes()).collect()
}

fn full(name: &[u8; 4], flags: u32, parts: &[&[u8]]) -> Vec<u8> {
    let body = parts.concat();
    atom(name, &[&flags.to_be_bytes(), &body])
}

fn table(name: &[u8; 4], width: usize, rows: &[u32]) -> Vec<u8> {
    full(name, 0, &[&numbers(&[(rows.len() / width) as u32]), &numbers(rows)])
}

struct Track<'a> {
    id: u32,
    timescale: u32,
    duration: u32,
    kind: &'a [u8; 4],
    times: &'a [u32],
    keys: &'a [u32],
    shifts: &'a [u32],
    sizes: &'a [u32],
    chunks: &'a [u32],
}

const MATRIX: [u32; 9] = [0x10000, 0, 0, 0, 0x10000, 0, 0, 0, 0x4000_0000];

fn track(of: Movie, track: &Track<'_>, base: u32) -> Vec<u8> {
    let mut places = Vec::new();
    let (mut place, mut sample) = (base, 0);
    let mut runs: Vec<u32> = Vec::new();
    for (index, samples) in track.chunks.iter().enumerate() {
        if runs.len() < 3 || runs[runs.len() - 2] != *samples {
            runs.extend([index as u32 + 1, *samples, 1]);
        }
        places.push(place);
        let next = sample + *samples as usize;
        place += track.sizes[sample..next].iter().sum::<u32>();
        sample = next;
    }
    let mut stbl = full(b"stsd", 0, &[&numbers(&[1]), &atom(b"mp4v", &[&[0; 8]])]);
    stbl.extend(table(b"stts", 2, track.times));
    if !track.keys.is_empty() {
        stbl.extend(table(b"stss", 1, track.keys));
    }
    if !track.shifts.is_empty() {
        stbl.extend(table(b"ctts", 2, track.shifts));
    }
    stbl.extend(table(b"stsc", 3, &runs));
    let count = track.sizes.len() as u32;
    let uniform = of.uniform && track.kind == b"soun";
    stbl.extend(if uniform {
        full(b"stsz", 0, &[&numbers(&[track.sizes[0], count])])
    } else {
        full(b"stsz", 0, &[&numbers(&[0, count]), &numbers(track.sizes)])
    });
    if of.wide {
        let rows: Vec<u32> = places.iter().flat_map(|place| [0, *place]).collect();
        stbl.extend(table(b"co64", 2, &rows));
    } else {
        stbl.extend(table(b"stco", 1, &places));
    }
    let length: u32 = track.times.chunks(2).map(|run| run[0] * run[1]).sum();
    let tkhd =
        full(b"tkhd", 7, &[&numbers(&[0, 0, track.id, 0, track.duration]), &[0; 16], &numbers(&MATRIX), &[0; 8]]);
    let edit = full(b"elst", 0, &[&numbers(&[1, track.duration, 0, 0x10000])]);
    let edit = if of.extras { atom(b"edts", &[&edit]) } else { Vec::new() };
    let mdhd = full(b"mdhd", 0, &[&numbers(&[0, 0, track.timescale, length, 0])]);
    let hdlr = full(b"hdlr", 0, &[&[0; 4], track.kind, &[0; 13]]);
    let header = if track.kind == b"vide" { full(b"vmhd", 1, &[&[0; 8]]) } else { full(b"smhd", 0, &[&[0; 4]]) };
    let dinf = atom(b"dinf", &[&full(b"dref", 0, &[&numbers(&[1]), &full(b"url ", 1, &[])])]);
    let minf = atom(b"minf", &[&header, &dinf, &atom(b"stbl", &[&stbl])]);
    atom(b"trak", &[&tkhd, &edit, &atom(b"mdia", &[&mdhd, &hdlr, &minf])])
}

/// The bytes of a file with five seconds of video and ten of audio.
pub fn movie(of: Movie) -> Vec<u8> {
    let picture_sizes: Vec<u32> = (0..50).map(|index| 200 + index).collect();
    let sound_sizes: Vec<u32> = (0..430).map(|index| if of.uniform { 50 } else { 50 + index % 7 }).collect();
    let pictures = Track {
        id: 1,
        timescale: 1000,
        duration: 5000,
        kind: b"vide",
        times: &[20, 100, 30, 100],
        keys: &[1, 11, 21, 31, 41],
        shifts: &[1, 100, 9, 0, 40, 50],
        sizes: &picture_sizes,
        chunks: &[4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 2],
    };
    let mut chunks = vec![20; 21];
    chunks.push(10);
    let sound = Track {
        id: 2,
        timescale: 44_100,
        duration: 9984,
        kind: b"soun",
        times: &[430, 1024],
        keys: &[],
        shifts: &[],
        sizes: &sound_sizes,
        chunks: &chunks,
    };
    let size_of_pictures: u32 = picture_sizes.iter().sum();
    let len = size_of_pictures + sound_sizes.iter().sum::<u32>();
    let data: Vec<u8> = (0..len).map(|index| (index * 7 + index / 251) as u8).collect();
    let moov = |base: u32| {
        let mvhd = full(
            b"mvhd",
            0,
            &[&numbers(&[0, 0, 1000, 9984, 0x10000]), &[1, 0], &[0; 10], &numbers(&MATRIX), &[0; 24], &numbers(&[3])],
        );
        let user = if of.extras { atom(b"udta", &[b"abcd"]) } else { Vec::new() };
        atom(b"moov", &[&mvhd, &track(of, &pictures, base), &track(of, &sound, base + size_of_pictures), &user])
    };
    let ftyp = atom(b"ftyp", &[b"isom", &numbers(&[512]), b"isommp41"]);
    let mdat = atom(b"mdat", &[&data]);
    if of.index_last {
        let free = atom(b"free", &[&[b'x'; 8]]);
        let base = (ftyp.len() + free.len() + 8) as u32;
        [ftyp, free, mdat, moov(base)].concat()
    } else {
        let base = (ftyp.len() + moov(0).len() + 8) as u32;
        [ftyp, moov(base), mdat].concat()
    }
}
