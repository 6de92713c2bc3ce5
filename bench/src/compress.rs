//! Text that is packed on its way: what does it cost, and how small does it become?

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::bench::{Bench, repository};
use crate::client::Client;
use crate::error::{Error, ErrorContext, Result};
use crate::grid::Grid;
use crate::process::Placement;
use crate::report::{Goal, Report, Table};
use crate::servers::{Server, start_all};
use crate::spec::{Kind, Spec};
use crate::stats::{NOTHING, short};
use crate::warm;
use crate::wrk::{Target, WrkLoad};

/// Name of a size, the file, its length, wrk's connections.
const SIZES: [(&str, &str, usize, usize); 4] = [
    ("1 KB", "1k.html", 1_000, 32),
    ("10 KB", "10k.html", 10_000, 32),
    ("100 KB", "100k.html", 100_000, 16),
    ("1 MB", "1m.html", 1_000_000, 8),
];

/// A coding at a level.
struct CodingLevel {
    /// In tables.
    name: &'static str,
    /// In `Accept-Encoding`.
    coding: &'static str,
    /// The folder in the URI.
    folder: &'static str,
    /// The directives that turn it on.
    lines: &'static str,
}

const WAYS: [CodingLevel; 4] = [
    CodingLevel { name: "gzip 1", coding: "gzip", folder: "/gzip1/", lines: "gzip on; gzip_comp_level 1;" },
    CodingLevel { name: "gzip 6", coding: "gzip", folder: "/gzip6/", lines: "gzip on; gzip_comp_level 6;" },
    CodingLevel { name: "brotli 4", coding: "br", folder: "/brotli4/", lines: "brotli on; brotli_comp_level 4;" },
    CodingLevel { name: "zstd 3", coding: "zstd", folder: "/zstd3/", lines: "zstd on; zstd_comp_level 3;" },
];

/// Debian's module for brotli.
const BROTLI_MODULE: &str = "/usr/lib/nginx/modules/ngx_http_brotli_filter_module.so";

/// The case of the goals: packing for each request, as nginx does.
const EACH: &str = "freerun each";

/// Runs the benchmark.
pub fn run(bench: &Bench) -> Result<Report> {
    let (rounds, seconds) = (bench.options.runs(3), bench.options.seconds(1.0, 2.0).ceil());
    let root = bench.scratch.folder("data")?;
    write_text(&root)?;
    let with_brotli = Path::new(BROTLI_MODULE).is_file();
    let module = if with_brotli { format!("load_module {BROTLI_MODULE};\n") } else { String::new() };
    let specs = [
        Spec::new(Kind::Nginx, "", &root).lines(module, lines(&root, |way| can(Kind::Nginx, way, with_brotli))),
        Spec::new(Kind::Freerun, "each", &root).lines("", format!("open_file_cache off;\n{}", lines(&root, |_| true))),
        Spec::new(Kind::Freerun, "", &root).lines("", lines(&root, |_| true)),
    ];
    let (server_cores, client_cores) = bench.machine.pair();
    let placement = Placement { cores: server_cores, cgroups: Vec::new() };
    let (servers, mut notes) = start_all(bench, &specs, &placement)?;
    if !with_brotli {
        notes.push("nginx without brotli: libnginx-mod-http-brotli-filter is not installed".into());
    }
    let sizes = sizes(&servers, with_brotli)?;
    let loads = |server: &Server| {
        let ways = WAYS.iter().filter(|way| can(server.spec.kind, way, with_brotli));
        ways.flat_map(|way| SIZES.map(|size| (case(way, size.0), load(way, size, seconds, &client_cores)))).collect()
    };
    let grid = Grid::fill(bench, &servers, rounds, &mut notes, loads)?;
    let mut report = Report {
        name: "compress",
        method: format!(
            "Text (documentation and source code of this repository) packed on its way, the same level everywhere, keep-alive, one \
             worker pinned to one core, wrk with one thread pinned to the other; {rounds} rounds of {seconds} s each, servers in turn; \
             median (min–max), ratios are medians of each round's. `{EACH}` has `open_file_cache off`: it opens the file and packs \
             it for every request, as nginx does, and the goals are about it. `freerun` is as it comes: what was packed of a file is \
             used again for at most one second."
        ),
        notes,
        ..Report::default()
    };
    for way in &WAYS {
        for size in SIZES {
            let case = case(way, size.0);
            report.tables.push(warm::table(&grid, &servers, &case, &format!("{case}, {} connections", size.3)));
        }
    }
    report.tables.push(table_of_sizes(&servers, &sizes));
    report.goals = goals(&grid, &sizes);
    Ok(report)
}

/// Whether a server knows the coding.
fn can(kind: Kind, way: &CodingLevel, with_brotli: bool) -> bool {
    kind == Kind::Freerun || way.coding == "gzip" || way.coding == "br" && with_brotli
}

fn lines(root: &Path, has: impl Fn(&CodingLevel) -> bool) -> String {
    let ways = WAYS.iter().filter(|way| has(way));
    ways.map(|way| format!("location {} {{ alias {}/; {} }}\n", way.folder, root.display(), way.lines)).collect()
}

fn case(way: &CodingLevel, size: &str) -> String {
    format!("{}, {size}", way.name)
}

fn load(
    way: &CodingLevel,
    (_, file, _, connections): (&str, &str, usize, usize),
    seconds: f64,
    cores: &[usize],
) -> WrkLoad {
    WrkLoad {
        threads: 1,
        connections,
        seconds,
        target: Target::Coded(format!("{}{file}", way.folder), way.coding),
        close: false,
        cores: cores.to_vec(),
    }
}

/// Files of real text. It changes with the repository; the servers of one run get the same.
fn write_text(root: &Path) -> Result<()> {
    let mut files = Vec::new();
    for folder in ["docs", "crates"] {
        collect(&repository().join(folder), &mut files)?;
    }
    files.sort();
    let mut text = Vec::new();
    for file in files {
        text.extend(fs::read(&file).doing(file.display())?);
    }
    for (_, name, len, _) in SIZES {
        let part = text.get(..len).ok_or_else(|| Error::Setup("there is less text than a megabyte".into()))?;
        let path = root.join(name);
        fs::write(&path, part).doing(path.display())?;
    }
    Ok(())
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) -> Result<()> {
    for entry in fs::read_dir(folder).doing(folder.display())? {
        let path = entry.doing(folder.display())?.path();
        if path.is_dir() {
            collect(&path, files)?;
        } else if path.extension().is_some_and(|extension| extension == "md" || extension == "rs") {
            files.push(path);
        }
    }
    Ok(())
}

type Sizes = BTreeMap<(String, String), usize>;

/// The number of bytes that each server makes of each file.
fn sizes(servers: &[Server], with_brotli: bool) -> Result<Sizes> {
    let mut sizes = Sizes::new();
    for server in servers {
        let mut client = Client::connect(server.address, None, Duration::from_secs(10)).doing("connect")?;
        for way in WAYS.iter().filter(|way| can(server.spec.kind, way, with_brotli)) {
            for (size, file, len, _) in SIZES {
                let reply = client.get_coded(&format!("{}{file}", way.folder), way.coding).doing(&server.spec.name)?;
                if reply.status != 200 || reply.body.len() >= len {
                    return Err(Error::Failed(format!("{} does not pack {}", server.spec.name, case(way, size))));
                }
                sizes.insert((server.spec.name.clone(), case(way, size)), reply.body.len());
            }
        }
    }
    Ok(sizes)
}

fn ratio(sizes: &Sizes, server: &str, case: &str) -> Option<f64> {
    let size = |server: &str| sizes.get(&(server.to_owned(), case.to_owned())).map(|size| *size as f64);
    Some(size(server)? / size("nginx")?)
}

fn table_of_sizes(servers: &[Server], sizes: &Sizes) -> Table {
    let mut table = Table::new("Bytes of the packed body", &["way"]);
    for server in servers.iter().filter(|server| server.spec.name != EACH) {
        table.head.push(server.spec.name.clone());
    }
    table.head.push("× nginx".into());
    for way in &WAYS {
        for (size, ..) in SIZES {
            let case = case(way, size);
            let cell = |server: &Server| {
                sizes.get(&(server.spec.name.clone(), case.clone())).map_or_else(|| NOTHING.into(), usize::to_string)
            };
            let mut row = vec![case.clone()];
            row.extend(servers.iter().filter(|server| server.spec.name != EACH).map(cell));
            row.push(ratio(sizes, "freerun", &case).map_or_else(|| NOTHING.into(), short));
            table.row(row);
        }
    }
    table
}

fn goals(grid: &Grid, sizes: &Sizes) -> Vec<Goal> {
    let mut goals = Vec::new();
    for way in WAYS.iter().filter(|way| way.coding == "gzip") {
        for (size, ..) in SIZES {
            let case = case(way, size);
            let rate = grid.ratio(EACH, "nginx", &case, |sample| sample.outcome.rate());
            goals.push(Goal::at_least(format!("{case}, packed for each request: twice nginx's rate"), rate, 2.0));
            let rate = grid.ratio("freerun", "nginx", &case, |sample| sample.outcome.rate());
            goals.push(Goal::at_least(format!("{case}: twice nginx's rate"), rate, 2.0));
            let size = ratio(sizes, "freerun", &case);
            goals.push(Goal::at_most(format!("{case}: at most 1.02 times the size of nginx's"), size, 1.02));
        }
    }
    goals
}
