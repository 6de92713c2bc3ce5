//! The files that all groups serve, with fixed dates so that validators agree.

use freerun_testkit::Site;

/// Sun, 06 Nov 1994 08:49:37 GMT, the date of RFC 9110's examples.
pub const MTIME: u64 = 784_111_777;

/// A document root with something for every case.
pub fn site() -> Site {
    let site = Site::new();
    let digits: String = (0..1000).map(|number| format!("{number:04}")).collect();
    site.dated("index.html", "<p>index\n", MTIME)
        .dated("a.txt", "0123456789abcdef", MTIME)
        .dated("digits", &digits, MTIME)
        .dated("empty.txt", "", MTIME)
        .dated("big.bin", digits.repeat(64), MTIME)
        .dated("page.html", "<p>page\n", MTIME)
        .dated("pic.gif", "GIF89a", MTIME)
        .dated("pic.JPG", "jpeg", MTIME)
        .dated("noext", "no extension", MTIME)
        .dated("dot.", "dot at the end", MTIME)
        .dated("two.tar.gz", "archive", MTIME)
        .dated(".hidden", "hidden", MTIME)
        .dated("with space.txt", "space", MTIME)
        .dated("per%cent.txt", "percent", MTIME)
        .dated("q?.txt", "question", MTIME)
        .dated("h#.txt", "hash", MTIME)
        .dated("plus+.txt", "plus", MTIME)
        .dated("ünï.txt", "unicode", MTIME)
        .dated("back\\slash.txt", "backslash", MTIME)
        .dated("dir/index.html", "<p>dir\n", MTIME)
        .dated("dir/f.txt", "file in dir", MTIME)
        .dated("dir/sub dir/index.html", "<p>sub dir\n", MTIME)
        .dated("other/default.htm", "<p>other\n", MTIME)
        .dated("errors/404.html", "<p>custom 404\n", MTIME)
        .dated("errors/405.html", "<p>custom 405\n", MTIME)
        .dated("errors/50x.html", "<p>custom 50x\n", MTIME)
        .dated("alias/target/x.txt", "aliased x", MTIME)
        .dated("alias/target/index.html", "<p>aliased index\n", MTIME)
        .dated("hosts/a.example/index.html", "<p>host a\n", MTIME)
        .dated("secret/denied.txt", "nobody reads this", MTIME)
        .mode("secret/denied.txt", 0o000)
        .folder("emptydir")
        .link("link.txt", "a.txt")
        .link("linkdir", "dir")
        .link("broken", "nowhere")
        .link("loop", "loop");
    site
}
